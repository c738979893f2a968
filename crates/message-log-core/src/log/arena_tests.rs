//! Chunks in memory and in files, compared with a list of bytes.

use std::cell::Cell;
use std::fs::File;

use proptest::prelude::*;

use super::{Arena, Limit, Payload};

/// The memory limit.
const LIMIT: usize = 2 << 20;

thread_local! {
    /// Whether there is no room for files. Each test has its own thread.
    static IS_FULL: Cell<bool> = const { Cell::new(false) };
}

fn make_file(len: usize) -> Result<File, String> {
    if IS_FULL.get() {
        return Err("no space left".to_owned());
    }
    let file = tempfile::tempfile().unwrap();
    file.set_len(len as u64).unwrap();
    Ok(file)
}

fn bytes(seed: u32, len: usize) -> impl Iterator<Item = u8> {
    (0..len as u32).map(move |at| (at.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(97)) as u8)
}

fn keep(arena: &mut Arena, seed: u32, len: usize) -> Payload {
    let fill = |into: &mut [u8]| {
        into.iter_mut().zip(bytes(seed, len)).for_each(|(to, from)| *to = from);
        Ok(())
    };
    arena.keep(len, fill).unwrap()
}

fn check(seed: u32, payload: &Payload) {
    assert!(payload.bytes().iter().copied().eq(bytes(seed, payload.len())));
}

#[derive(Clone, Debug)]
enum Step {
    Keep(usize),
    DropLast(usize),
    Drop(prop::sample::Index),
    Full(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop_oneof![0usize..200, 1000usize..100_000, 250_000usize..300_000].prop_map(Step::Keep),
        3 => (1usize..12).prop_map(Step::DropLast),
        2 => any::<prop::sample::Index>().prop_map(Step::Drop),
        1 => any::<bool>().prop_map(Step::Full),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Catches bytes of another payload, memory that is reused too early, an exceeded limit although
    /// there are files, and a wrong count of bytes in files.
    #[test]
    fn what_was_kept_is_read(steps in prop::collection::vec(step(), 1..120)) {
        IS_FULL.set(false);
        let (mut arena, mut held) = (Arena::within(Limit(LIMIT), make_file), Vec::new());
        let (mut was_full, mut seed) = (false, 0);
        for step in steps {
            match step {
                Step::Keep(len) => {
                    seed += 1;
                    held.push((seed, keep(&mut arena, seed, len)));
                }
                Step::DropLast(count) => held.truncate(held.len().saturating_sub(count)),
                Step::Drop(index) if !held.is_empty() => drop(held.remove(index.index(held.len()))),
                Step::Drop(_) => {}
                Step::Full(is_full) => {
                    was_full |= is_full;
                    IS_FULL.set(is_full);
                }
            }
            prop_assert!(was_full || arena.in_memory() <= LIMIT);
            let all: u64 = held.iter().map(|(_, payload)| payload.len() as u64).sum();
            prop_assert!(arena.in_files() <= all);
        }
        for (seed, payload) in &held {
            check(*seed, payload);
        }
        held.clear();
        prop_assert_eq!(arena.in_files(), 0);
    }
}

/// Catches a small log that uses files, and one beyond its limit that does not.
#[test]
fn only_what_is_beyond_the_limit_is_in_files() {
    let mut arena = Arena::within(Limit(LIMIT), make_file);
    let mut held: Vec<_> = (0..10).map(|seed| keep(&mut arena, seed, 100_000)).collect();
    assert_eq!(arena.in_files(), 0);
    held.extend((10..80).map(|seed| keep(&mut arena, seed, 100_000)));
    assert!(arena.in_files() >= 5_000_000 && arena.in_memory() <= LIMIT);
    assert_eq!(arena.notice(), None);
    // Another process's chunks share the limit.
    let mut other = arena.another();
    drop(other.take_in(100_000).unwrap());
    let received = Payload::part(&other.take_in(100_000).unwrap(), 0, 100_000);
    assert!(other.in_files() >= 5_100_000 && other.in_memory() <= LIMIT);
    drop(received);
}

/// Catches a log that is lost, or a call that fails, because there is no room for files, and a warning
/// that is missing or repeated.
#[test]
fn what_no_file_takes_stays_in_memory() {
    IS_FULL.set(true);
    let mut arena = Arena::within(Limit(LIMIT), make_file);
    let mut held: Vec<_> = (0..60).map(|seed| (seed, keep(&mut arena, seed, 100_000))).collect();
    assert!(arena.has_notice());
    let said = arena.notice().unwrap();
    assert!(said.contains("VELOC_MPI_LOG_MEMORY") && said.contains("no space left"), "{said}");
    held.extend((60..80).map(|seed| (seed, keep(&mut arena, seed, 100_000))));
    assert!(!arena.has_notice() && arena.in_files() == 0);
    // There is room again.
    IS_FULL.set(false);
    held.extend((80..100).map(|seed| (seed, keep(&mut arena, seed, 100_000))));
    assert!(arena.in_files() > 0);
    for (seed, payload) in &held {
        check(*seed, payload);
    }
}
