//! Memory of machines that get it from their host only as they touch it: only touching shows how
//! much they have.

use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant};

use errors::{Error, Result};
use os::mapping::{supports_populate, Mapping};
use os::{affinity, memory};

use super::machine::available_memory;

/// Bytes that are touched in one step.
const STEP: usize = 256 << 20;

/// No further step begins after this time: a measurement of minutes can spare no more.
const LIMIT: Duration = Duration::from_secs(40);

/// How many of `wanted` bytes programs can have. If less is available, memory is touched, and the
/// bytes touched count.
pub(super) fn memory_for(wanted: u64) -> u64 {
    if available_memory().is_none_or(|available| available >= wanted) {
        return wanted;
    }
    touch(wanted)
}

/// Touches up to `wanted` bytes, as far as the machine gives any, and frees them. Returns how many
/// were touched.
pub(super) fn touch(wanted: u64) -> u64 {
    let (wanted, since) = (wanted as usize, Instant::now());
    let Ok(mapping) = Mapping::reserve(wanted) else { return 0 };
    // Without huge pages touching takes longer, with the same result.
    let _ = mapping.advise_huge(true);
    // Some memory is left to others, and the host has one more second to give more.
    let can_go_on =
        || memory::physical().is_ok_and(|found| found.available > found.total / 16 + STEP as u64);
    let mut had = 0;
    while had < wanted
        && since.elapsed() < LIMIT
        && (can_go_on() || {
            thread::sleep(Duration::from_secs(1));
            can_go_on()
        })
    {
        let end = wanted.min(had + STEP);
        if touch_step(&mapping, had..end).is_err() {
            break;
        }
        had = end;
    }
    had as u64
}

/// Touches a range, each thread a part of it.
fn touch_step(mapping: &Mapping, range: Range<usize>) -> Result<()> {
    let threads = affinity::usable_cpus().min(16);
    let part = |thread: usize| range.start + range.len() * thread / threads;
    thread::scope(|scope| {
        let touch = |part: Range<usize>| match supports_populate() {
            true => mapping.populate(part),
            false => mapping.touch(part, memory::page_size()),
        };
        let started: Vec<_> =
            (0..threads).map(|n| scope.spawn(move || touch(part(n)..part(n + 1)))).collect();
        started.into_iter().try_for_each(|thread| {
            thread.join().map_err(|_| Error::invalid("a thread that touches memory panicked"))?
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::peak_memory;

    /// Catches bytes that are counted though they were not touched, and more memory than a machine
    /// has.
    #[test]
    fn what_is_counted_was_touched() {
        let wanted = STEP as u64 + 12345;
        assert_eq!(touch(wanted), wanted);
        assert!(peak_memory() > wanted);
        assert_eq!(touch(1 << 60), 0);
        assert_eq!(memory_for(1 << 20), 1 << 20);
    }
}
