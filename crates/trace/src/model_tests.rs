//! Checks the ring with the model checker loom, which explores the interleavings and the values that
//! each load may see, and fails if two threads access one slot at once. So a record that is read before
//! it is complete, or overwritten before it is read, is found on any processor.
//!
//! Run with `cargo test -p trace --features model-check --lib model`.

use std::sync::Arc;

use loom::thread;

use super::ring::{Consumer, Kind, Producer, Record, Ring};

/// How often a thread may be preempted; more takes minutes and finds nothing else.
const INTERRUPTIONS: usize = 2;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(INTERRUPTIONS);
    builder.check(model);
}

/// A record whose words can be checked against each other.
fn record(number: u64) -> Record {
    let (start, time, bytes, extra) = (number, number, number, number);
    Record { kind: Kind::Span, detail: 1, version: None, start, time, bytes, extra }
}

/// Drains the ring into `found`: thread numbers and record numbers.
fn take(ring: &Ring, at: &mut Consumer, found: &mut Vec<(u32, u64)>) {
    ring.drain(at, |thread, taken, _| {
        assert_eq!(*taken, record(taken.bytes), "torn");
        found.push((thread, taken.bytes));
    });
}

/// One thread wraps around the ring while another drains it.
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

/// A released ring is used by the next thread, after the records that are still in it.
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
