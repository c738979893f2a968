//! The ring under a model checker: loom tries the orders of steps in which threads can be met, lets
//! each read of a count see every value that its ordering allows, and ends the test where two
//! threads could be at one slot. So a record that is seen before it is whole, or written over before
//! it is taken, is found whatever processor the test runs on.
//!
//! Run with `cargo test --features model-check --lib model`.

use std::sync::Arc;

use loom::thread;

use super::ring::{Consumer, Kind, Producer, Record, Ring};

/// How often a thread may be interrupted where it need not wait: more takes minutes, and finds
/// nothing else.
const INTERRUPTIONS: usize = 2;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(INTERRUPTIONS);
    builder.check(model);
}

/// One whose every word tells of the others.
fn record(number: u64) -> Record {
    let (start, time, bytes, extra) = (number, number, number, number);
    Record { kind: Kind::Span, detail: 1, version: None, start, time, bytes, extra }
}

/// Takes what is in the ring: numbers of threads and of records.
fn take(ring: &Ring, at: &mut Consumer, found: &mut Vec<(u32, u64)>) {
    ring.drain(at, |thread, taken, _| {
        assert_eq!(*taken, record(taken.bytes), "torn");
        found.push((thread, taken.bytes));
    });
}

/// One thread fills the ring more than once around while another takes from it.
#[test]
fn every_record_is_taken_whole_or_counted() {
    const RECORDS: u64 = 5;
    check(|| {
        let ring = Arc::new(Ring::taken());
        let of_producer = ring.clone();
        let producing = thread::spawn(move || {
            let mut producer = Producer::new(1);
            (1..=RECORDS).for_each(|number| producer.push(&of_producer, record(number), None));
        });
        let (mut at, mut found) = (Consumer::default(), Vec::new());
        take(&ring, &mut at, &mut found);
        take(&ring, &mut at, &mut found);
        producing.join().unwrap();
        take(&ring, &mut at, &mut found);
        assert_eq!(found.len() as u64 + ring.dropped(), RECORDS);
        assert!(found.windows(2).all(|pair| pair[0].1 < pair[1].1), "{found:?}");
        assert!(found.iter().all(|(thread, _)| *thread == 1), "{found:?}");
    });
}

/// A ring that was given back is the next thread's, behind what is in it.
#[test]
fn a_ring_that_changes_hands_loses_nothing() {
    check(|| {
        let ring = Arc::new(Ring::taken());
        let of_first = ring.clone();
        let first = thread::spawn(move || {
            Producer::new(1).push(&of_first, record(1), None);
            of_first.give_back();
        });
        let of_second = ring.clone();
        let second = thread::spawn(move || {
            let mine = of_second.take();
            if mine {
                Producer::new(2).push(&of_second, record(2), None);
            }
            mine
        });
        let (mut at, mut found) = (Consumer::default(), Vec::new());
        take(&ring, &mut at, &mut found);
        first.join().unwrap();
        let both = second.join().unwrap();
        take(&ring, &mut at, &mut found);
        assert_eq!(found, [(1, 1), (2, 2)][..1 + usize::from(both)]);
    });
}
