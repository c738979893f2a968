//! Ledgers, whole and of writers that were killed.

use super::*;
use crate::region::Part;
use proptest::prelude::*;

fn record(id: Id, regions: usize, extents: usize) -> Record<'static> {
    let region = |i| Region { id: i as i32 - 3, size: 7 * i as u64, part: Part::Host, offset: 1 };
    let extent = |i| Extent { offset: 512 * i as u64, len: 512 };
    Record {
        id,
        name: format!("wave.{id}").into(),
        version: id as i32,
        routed: id.is_multiple_of(2).then(|| Cow::from("/a/b")),
        place: id.is_multiple_of(3).then_some(AggregatePart {
            offset: id,
            ranks: 3,
            job: 7,
            attempt: id,
        }),
        regions: (0..regions).map(region).collect(),
        mark: id.is_multiple_of(5).then_some(-3),
        parts: [(0, Cow::from(vec![])), (99, (0..extents).map(extent).collect())],
    }
}

const HELD: Standing =
    Standing { in_host: true, in_scratch: false, persist: true, doomed: false, placed: false };

fn held(record: &Record<'_>) -> Standing {
    Standing { placed: record.place.is_some(), ..HELD }
}

#[test]
fn what_is_written_is_read_in_the_order_of_age() {
    let memory = SharedMemory::create("ledger", 1 << 20).unwrap();
    let mut ledger = Ledger::new(&memory).unwrap();
    let placed = held(&record(9, 1, 1));
    let young = ledger.put(&record(9, 1, 1), placed).unwrap();
    ledger.put(&record(4, 500, 70), Standing { doomed: true, ..HELD }).unwrap();
    let found = read(&memory).unwrap();
    assert_eq!(
        found,
        [(record(4, 500, 70), Standing { doomed: true, ..HELD }), (record(9, 1, 1), placed)]
    );
    let now = Standing { in_host: false, in_scratch: true, ..placed };
    ledger.set(young, now, None);
    assert_eq!(read(&memory).unwrap()[1], (record(9, 1, 1), now));
    ledger.remove(young);
    assert_eq!(read(&memory).unwrap().len(), 1);
}

/// Catches a record that counts before it is whole: what is left by a writer that ends before
/// it stores the state must not be read.
#[test]
fn a_record_without_a_state_does_not_count() {
    let memory = SharedMemory::create("ledger", 1 << 20).unwrap();
    let mut ledger = Ledger::new(&memory).unwrap();
    let slot = ledger.put(&record(1, 100, 1), HELD).unwrap();
    ledger.words.slot(slot.0, 0).store(0, Ordering::Relaxed);
    assert_eq!(read(&memory).unwrap(), []);
}

#[test]
fn room_is_used_again_and_may_run_out() {
    let memory = SharedMemory::create("ledger", 16 << 10).unwrap();
    let mut ledger = Ledger::new(&memory).unwrap();
    for id in 0..1000 {
        let record = record(id, 60, 3);
        let slot = ledger.put(&record, held(&record)).unwrap();
        ledger.remove(slot);
    }
    let kept = ledger.put(&record(1, 60, 3), HELD).unwrap();
    assert_eq!(ledger.put(&record(2, 5000, 3), HELD), None);
    assert_eq!(read(&memory).unwrap(), [(record(1, 60, 3), HELD)]);
    ledger.remove(kept);
    assert!(ledger.put(&record(2, 60, 3), HELD).is_some());
}

#[test]
fn other_memory_is_no_ledger() {
    assert!(read(&SharedMemory::create("x", 1 << 20).unwrap()).is_err());
    assert!(read(&SharedMemory::create("x", 64).unwrap()).is_err());
}

/// Catches a backend that follows links for ever, so that the next job waits for it.
#[test]
fn links_in_a_circle_lead_nowhere() {
    let memory = SharedMemory::create("ledger", 1 << 20).unwrap();
    let mut ledger = Ledger::new(&memory).unwrap();
    let slot = ledger.put(&record(1, 1, 1), HELD).unwrap();
    let circle = Link { next: Some(slot.0), len: 0 };
    ledger.words.slot(slot.0, 1).store(circle.word(), Ordering::Relaxed);
    assert_eq!(read(&memory).unwrap(), []);
}

proptest! {
    /// A backend must survive whatever a dying client has left.
    #[test]
    fn any_bytes_are_answered(words in prop::collection::vec((0..400usize, any::<u64>()), 1..40)) {
        let memory = SharedMemory::create("ledger", 4 << 10).unwrap();
        let mut ledger = Ledger::new(&memory).unwrap();
        ledger.put(&record(1, 20, 3), HELD).unwrap();
        ledger.put(&record(2, 1, 3), HELD).unwrap();
        for (at, word) in words {
            ledger.words.get(1 + at).store(word, Ordering::Relaxed);
        }
        let _ = read(&memory);
    }
}
