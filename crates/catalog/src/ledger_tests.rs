//! Ledgers, whole and of writers that were killed.

use super::plain::Plain;
use super::*;
use crate::Part;
use proptest::prelude::*;

const IDENTITY: Identity = Identity { run: u64::MAX - 3, generation: 5 };

fn record(id: Id, regions: usize, extents: usize) -> Record<'static> {
    let region = |i| Region {
        id: i as i32 - 3,
        size: 7 * i as u64,
        part: Part::Host,
        offset: 1,
        decoded: None,
    };
    let extent = |i| Extent { offset: 512 * i as u64, len: 512 };
    Record {
        id,
        name: format!("wave.{id}").into(),
        version: id as i32,
        identity: IDENTITY,
        may_replace: id.is_multiple_of(2),
        routed: id.is_multiple_of(2).then(|| Cow::from("/a/b")),
        place: id.is_multiple_of(3).then_some(AggregatePart {
            offset: id,
            ranks: 3,
            identity: IDENTITY,
            attempt: id,
        }),
        regions: (0..regions).map(region).collect(),
        mark: id.is_multiple_of(5).then_some(-3),
        parts: [(0, Cow::from(vec![])), (99, (0..extents).map(extent).collect())],
    }
}

const HELD: Standing = Standing {
    in_host: true,
    in_scratch: false,
    persist: true,
    doomed: false,
    placed: false,
    kept: false,
    in_persistent: false,
    consumed: false,
    carrier: 0,
};

/// The records of a ledger, without their places.
fn read(memory: LedgerMemory) -> Result<Vec<(Record<'static>, Standing)>> {
    let left = super::read(memory)?;
    Ok(left.into_iter().map(|(record, standing, _)| (record, standing)).collect())
}

fn held(record: &Record<'_>) -> Standing {
    Standing { placed: record.place.is_some(), ..HELD }
}

/// Catches a carrier's mark that is lost by the writer's next store, one that makes a checkpoint of what was never
/// committed, and room that is given away while a carrier may still write to it.
#[test]
fn a_carrier_says_that_the_bytes_are_there() {
    let memory = Plain::of(1 << 20);
    let mut ledger = Ledger::new(memory.words()).unwrap();
    let carried = Standing { in_host: false, carrier: 77, ..HELD };
    let mark = |ledger: &Ledger, slot| ledger.state(slot).fetch_or(IN_HOST, Ordering::Release);
    // It is done before the checkpoint is committed.
    let early = ledger.prepare(&record(1, 1, 1)).unwrap();
    mark(&ledger, early);
    assert_eq!(read(memory.words()).unwrap(), []);
    ledger.set(early, carried, None);
    // It is done afterwards.
    let late = ledger.prepare(&record(2, 1, 1)).unwrap();
    ledger.set(late, carried, None);
    assert_eq!(carriers(memory.words()).unwrap(), [77]);
    mark(&ledger, late);
    ledger.set(late, Standing { persist: false, ..carried }, None);
    assert_eq!(carriers(memory.words()).unwrap(), []);
    let found = read(memory.words()).unwrap();
    assert!(found.iter().all(|(_, standing)| standing.in_host && standing.is_due()), "{found:?}");
    // It is done when nobody wants the checkpoint any more.
    let unwanted = ledger.prepare(&record(3, 1, 1)).unwrap();
    ledger.set(unwanted, carried, None);
    ledger.void(unwanted);
    mark(&ledger, unwanted);
    let other = ledger.put(&record(4, 1, 1), HELD);
    assert_ne!(other, Some(unwanted));
    assert_eq!(read(memory.words()).unwrap().len(), 3);
    ledger.remove(unwanted);
    assert_eq!(ledger.put(&record(5, 1, 1), HELD), Some(unwanted));
}

/// Catches a checkpoint that the next job believes to be there although the process that copied it was killed, and room
/// in the ledger that it keeps.
#[test]
fn a_record_without_bytes_is_none() {
    let memory = Plain::of(1 << 20);
    let mut ledger = Ledger::new(memory.words()).unwrap();
    ledger.put(&record(1, 1, 1), HELD).unwrap();
    let lost = ledger.prepare(&record(2, 1, 1)).unwrap();
    ledger.set(lost, Standing { in_host: false, carrier: 77, ..HELD }, None);
    assert_eq!(read(memory.words()).unwrap().len(), 1);
    let (mut next, left) = Ledger::resume(memory.words()).unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(next.put(&record(3, 1, 1), HELD), Some(lost));
    assert_eq!(carriers(memory.words()).unwrap(), []);
}

#[test]
fn what_is_written_is_read_in_the_order_of_age() {
    let memory = Plain::of(1 << 20);
    let mut ledger = Ledger::new(memory.words()).unwrap();
    let placed = held(&record(9, 1, 1));
    let young = ledger.put(&record(9, 1, 1), placed).unwrap();
    ledger.put(&record(4, 500, 70), Standing { doomed: true, ..HELD }).unwrap();
    let found = read(memory.words()).unwrap();
    assert_eq!(
        found,
        [(record(4, 500, 70), Standing { doomed: true, ..HELD }), (record(9, 1, 1), placed)]
    );
    let now = Standing { in_host: false, in_scratch: true, ..placed };
    ledger.set(young, now, None);
    assert_eq!(read(memory.words()).unwrap()[1], (record(9, 1, 1), now));
    ledger.remove(young);
    assert_eq!(read(memory.words()).unwrap().len(), 1);
}

/// Catches a successor that writes over records which it has taken over, and one that does not use the
/// room of those that are struck out.
#[test]
fn a_successor_goes_on_with_the_ledger() {
    let memory = Plain::of(16 << 10);
    let mut first = Ledger::new(memory.words()).unwrap();
    let slots: Vec<Slot> = (1..=6)
        .map(|id| first.put(&record(id, 30, 3), held(&record(id, 30, 3))).unwrap())
        .collect();
    first.remove(slots[1]);
    first.remove(slots[4]);
    let kept =
        Standing { kept: true, in_persistent: true, consumed: true, ..held(&record(4, 30, 3)) };
    first.set(slots[3], kept, None);
    drop(first);
    let (mut second, left) = Ledger::resume(memory.words()).unwrap();
    let ids: Vec<(Id, Standing)> = left.iter().map(|(r, standing, _)| (r.id, *standing)).collect();
    let as_put = |id| (id, held(&record(id, 30, 3)));
    assert_eq!(ids, [as_put(1), as_put(3), (4, kept), as_put(6)]);
    second.remove(left[0].2);
    for id in 10..1000 {
        let record = record(id, 60, 3);
        let slot = second.put(&record, held(&record)).unwrap();
        second.remove(slot);
    }
    let last = record(1000, 60, 3);
    second.put(&last, held(&last)).unwrap();
    let rest = [3, 6].map(|id| (record(id, 30, 3), held(&record(id, 30, 3))));
    let [third, sixth] = rest;
    assert_eq!(
        read(memory.words()).unwrap(),
        [third, (record(4, 30, 3), kept), sixth, (last.clone(), held(&last))]
    );
}

/// Catches a record that counts before it is whole: what is left by a writer that ends before
/// it stores the state must not be read.
#[test]
fn a_record_without_a_state_does_not_count() {
    let memory = Plain::of(1 << 20);
    let mut ledger = Ledger::new(memory.words()).unwrap();
    let slot = ledger.put(&record(1, 100, 1), HELD).unwrap();
    ledger.words.slot(slot.0, 0).store(0, Ordering::Relaxed);
    assert_eq!(read(memory.words()).unwrap(), []);
}

#[test]
fn room_is_used_again_and_may_run_out() {
    let memory = Plain::of(16 << 10);
    let mut ledger = Ledger::new(memory.words()).unwrap();
    for id in 0..1000 {
        let record = record(id, 60, 3);
        let slot = ledger.put(&record, held(&record)).unwrap();
        ledger.remove(slot);
    }
    let kept = ledger.put(&record(1, 60, 3), HELD).unwrap();
    assert_eq!(ledger.put(&record(2, 5000, 3), HELD), None);
    assert_eq!(read(memory.words()).unwrap(), [(record(1, 60, 3), HELD)]);
    ledger.remove(kept);
    assert!(ledger.put(&record(2, 60, 3), HELD).is_some());
}

#[test]
fn other_memory_is_no_ledger() {
    assert!(read(Plain::of(1 << 20).words()).is_err());
    assert!(read(Plain::of(64).words()).is_err());
}

/// Catches a backend that follows links for ever, so that the next job waits for it.
#[test]
fn links_in_a_circle_lead_nowhere() {
    let memory = Plain::of(1 << 20);
    let mut ledger = Ledger::new(memory.words()).unwrap();
    let slot = ledger.put(&record(1, 1, 1), HELD).unwrap();
    let circle = SlotLink { next: Some(slot.0), len: 0 };
    ledger.words.slot(slot.0, 1).store(circle.word(), Ordering::Relaxed);
    assert_eq!(read(memory.words()).unwrap(), []);
}

proptest! {
    /// A backend must survive whatever a dying client has left.
    #[test]
    fn any_bytes_are_answered(words in prop::collection::vec((0..400usize, any::<u64>()), 1..40)) {
        let memory = Plain::of(4 << 10);
        let mut ledger = Ledger::new(memory.words()).unwrap();
        ledger.put(&record(1, 20, 3), HELD).unwrap();
        ledger.put(&record(2, 1, 3), HELD).unwrap();
        for (at, word) in words {
            ledger.words.get(1 + at).store(word, Ordering::Relaxed);
        }
        let _ = read(memory.words());
        if let Ok((mut second, left)) = Ledger::resume(memory.words()) {
            let found = left.len();
            let new = second.put(&record(3, 1, 3), HELD);
            prop_assert_eq!(read(memory.words()).unwrap().len(), found + usize::from(new.is_some()));
        }
    }
}
