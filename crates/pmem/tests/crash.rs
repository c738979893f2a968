//! The library's own stores, flushes and drains, and a crash of the machine at each of them.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Mutex;

use os::crash::{simulate, Simulation};
use os::persistent::Survives;
use pmem::file::Pmem;

/// What the library has told, with offsets in the file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Event {
    Store(u64, u64),
    Flush(u64, u64),
    Drain,
    /// A call has returned: so many of them have.
    Returned,
}

#[derive(Debug)]
struct Told {
    base: u64,
    events: Vec<Event>,
}

static TOLD: Mutex<Told> = Mutex::new(Told { base: 0, events: Vec::new() });

fn tell(event: impl FnOnce(u64) -> Event) {
    let mut told = TOLD.lock().unwrap();
    let event = event(told.base);
    told.events.push(event);
}

extern "C" fn place(path: *const c_char, place: *mut c_char) {
    // SAFETY: strings with NUL, and room for each path.
    unsafe { libc::strcpy(place, path) };
}

extern "C" fn mapped(_: *const c_char, at: u64, _: u64, asked: c_int) -> c_int {
    TOLD.lock().unwrap().base = at;
    asked
}

extern "C" fn unmapped(_: u64, _: u64) {}

extern "C" fn store(at: *mut u64, word: u64) {
    // SAFETY: a word of the library's.
    unsafe { at.write(word) };
    tell(|base| Event::Store(at as u64 - base, word));
}

extern "C" fn flush(at: u64, bytes: u64) {
    tell(|base| Event::Flush(at - base, bytes));
}

extern "C" fn drain() {
    tell(|_| Event::Drain);
}

static SIMULATION: Simulation = Simulation { place, mapped, unmapped, store, flush, drain };

/// What a program finds in a file.
#[derive(Clone, Debug, PartialEq)]
struct State {
    arrays: Vec<String>,
    /// The iterations that are marked, with their first scalar.
    marks: Vec<(u64, f64)>,
}

fn open(path: &Path) -> errors::Result<Pmem> {
    Pmem::open(path, 40_000, Survives::Power)
}

fn state(pmem: &Pmem) -> State {
    let mut marks: Vec<(u64, f64)> =
        pmem.marks().iter().map(|mark| (mark.iteration, mark.scalars[0])).collect();
    marks.sort_by_key(|(iteration, _)| *iteration);
    State { arrays: pmem.names(), marks }
}

/// What each crash is tried to leave, in so many ways.
const IMAGES: usize = 12;

/// The steps of a program; after each, what a crash has to leave.
fn program(pmem: &Pmem) -> Vec<State> {
    let mut states = vec![state(pmem)];
    let mut then = |call: &dyn Fn()| {
        call();
        tell(|_| Event::Returned);
        states.push(state(pmem));
    };
    let array = |name: &str, element, count, slots| {
        let _ = pmem.array(name, element, count, slots).unwrap();
    };
    then(&|| array("p", 8, 100, 2));
    then(&|| array("q", 8, 7, 3));
    for iteration in 0..3 {
        then(&|| pmem.mark(iteration, &[iteration as f64 + 0.5]).unwrap());
    }
    then(&|| array("r", 4, 9, 1));
    then(&|| pmem.go_back(Some(1)).unwrap());
    then(&|| pmem.mark(2, &[7.5, 8.5]).unwrap());
    for iteration in 64..66 {
        then(&|| pmem.go_back(None).unwrap());
        then(&|| pmem.mark(iteration, &[9.5]).unwrap());
    }
    states
}

/// A crash behind each of these events: what the next program finds is what it was before the call under way, or after it.
/// Returns the first crash after which it is not.
fn first_wrong(
    new: &[u8],
    events: &[Event],
    crashes: Range<usize>,
    states: &[State],
    path: &Path,
) -> Option<String> {
    let mut options = File::options();
    let file = options.write(true).create(true).truncate(false).open(path).unwrap();
    let mut durable: Vec<u8> = new.to_vec();
    // Words that were stored and may not be there, and whether they are being written back.
    let mut pending: BTreeMap<u64, (u64, bool)> = BTreeMap::new();
    let mut returned = 0;
    let mut random = 1_u64;
    let mut next = || {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    for (nth, event) in events.iter().enumerate() {
        match *event {
            Event::Store(at, word) => drop(pending.insert(at, (word, false))),
            Event::Flush(at, bytes) => {
                let lines = at / 64 * 64..(at + bytes).next_multiple_of(64);
                pending.range_mut(lines).for_each(|(_, (_, flushed))| *flushed = true);
            }
            Event::Drain => pending.retain(|at, (word, flushed)| {
                if *flushed {
                    let at = *at as usize;
                    durable[at..at + 8].copy_from_slice(&word.to_ne_bytes());
                }
                !*flushed
            }),
            Event::Returned => returned += 1,
        }
        if !crashes.contains(&nth) {
            continue;
        }
        for _ in 0..IMAGES {
            // Each line is there as a whole, or not at all, or by words.
            let mut of_line = BTreeMap::new();
            let mut image = durable.clone();
            for (at, (word, _)) in &pending {
                let chance = *of_line
                    .entry(at / 64)
                    .or_insert_with(|| [0, 50, 95, 100][next() as usize % 4]);
                if next() % 100 < chance {
                    let at = *at as usize;
                    image[at..at + 8].copy_from_slice(&word.to_ne_bytes());
                }
            }
            file.write_all_at(&image, 0).unwrap();
            let found = open(path).map(|pmem| state(&pmem));
            let is_right = |found: &State| {
                // Forgetting several marks is not one step; a program that is killed in it forgets them again.
                let (before, after) = (&states[returned], states.get(returned + 1));
                let between = |after: &State| {
                    let all = found.marks.iter().all(|mark| before.marks.contains(mark));
                    let kept = after.marks.iter().all(|mark| found.marks.contains(mark));
                    found.arrays == before.arrays && all && kept
                };
                let under_way = *event != Event::Returned;
                let later = after.is_some_and(|after| found == after || between(after));
                found == before || under_way && later
            };
            if !found.as_ref().is_ok_and(is_right) {
                return Some(format!("behind {nth} ({event:?}), {returned} returned: {found:?}"));
            }
        }
    }
    None
}

/// Catches a step that a crash can leave half done; and, with each of the library's flushes and drains left out in turn, a
/// test that would not notice.
#[test]
fn each_step_is_whole_or_has_not_begun_and_each_flush_is_needed() {
    simulate(&SIMULATION);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("arrays");
    let pmem = open(&path).unwrap();
    let new = std::fs::read(&path).unwrap();
    TOLD.lock().unwrap().events.clear();
    let states = program(&pmem);
    drop(pmem);
    let events = TOLD.lock().unwrap().events.clone();
    assert_eq!(events.iter().filter(|event| **event == Event::Returned).count(), states.len() - 1);
    let crashed = folder.path().join("crashed");
    let all = 0..events.len();
    assert_eq!(first_wrong(&new, &events, all, &states, &crashed), None);

    let mut needed = 0;
    let mut left_out = Vec::new();
    for (nth, event) in events.iter().enumerate() {
        if matches!(event, Event::Flush(..) | Event::Drain) {
            let mut without = events.clone();
            without.remove(nth);
            // What is not written back here is by the second call after this.
            let near = nth..nth + 40;
            match first_wrong(&new, &without, near, &states, &crashed) {
                Some(_) => needed += 1,
                None => left_out.push((nth, *event)),
            }
        }
    }
    println!("{needed} flushes and drains are needed; not needed: {left_out:?}");
    // A mark drains first what the application has flushed, and here it has flushed nothing.
    let marks = 6;
    assert!(left_out.iter().all(|(_, event)| *event == Event::Drain), "{left_out:?}");
    assert_eq!(left_out.len(), marks, "{left_out:?}");
}
