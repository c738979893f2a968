//! Records arrive complete, in order, and with the right thread and name.

use super::ring::*;

fn record(bytes: u64) -> TraceRecord {
    TraceRecord { kind: RecordKind::Span, detail: 3, start: 5, time: 7, bytes, extra: 11 }
}

fn all(ring: &Ring) -> Vec<RingEntry> {
    let mut found = Vec::new();
    ring.drain(|entry| found.push(entry));
    found
}

#[test]
fn what_goes_in_comes_out_with_its_name() {
    let ring = Ring::taken();
    let mut producer = Producer::new(1);
    producer.push(&ring, record(1), None);
    producer.push(&ring, record(2), Some(("shot", -1)));
    producer.push(&ring, record(3), Some(("", i32::MAX)));
    assert!(producer.enter("shot", 9));
    assert!(!producer.enter("other", 1), "the outer one holds");
    producer.push(&ring, record(4), None);
    producer.push(&ring, record(5), Some(("other", 2)));
    producer.push(&ring, record(6), None);
    producer.leave();
    producer.push(&ring, record(7), None);
    let expected = [
        None,
        Some(("shot", -1)),
        Some(("", i32::MAX)),
        Some(("shot", 9)),
        Some(("other", 2)),
        Some(("shot", 9)),
        None,
    ];
    let expected = expected.into_iter().zip(1..).map(|(checkpoint, bytes)| RingEntry {
        thread: 1,
        checkpoint: checkpoint.map(|(name, version)| (name.into(), version)),
        record: record(bytes),
    });
    assert_eq!(all(&ring), expected.collect::<Vec<_>>());
}

/// Catches a ring that overwrites unread records, or miscounts dropped ones.
#[test]
fn a_full_ring_drops_and_counts_and_goes_on() {
    let ring = Ring::taken();
    let mut producer = Producer::new(1);
    // One slot stays free.
    let room = SLOTS - 1;
    for i in 0..room as u64 + 5 {
        producer.push(&ring, record(i), None);
    }
    assert_eq!(ring.dropped(), 5);
    let found = all(&ring);
    assert_eq!(found.len(), room);
    assert!(found.iter().zip(0..).all(|(entry, i)| entry.record.bytes == i));
    producer.push(&ring, record(1), Some(("shot", 1)));
    assert_eq!(all(&ring)[0].checkpoint, Some(("shot".into(), 1)), "around the end of the ring");
}

/// Catches records with the wrong thread, or with a name of another thread.
#[test]
fn a_ring_goes_from_thread_to_thread_with_what_is_in_it() {
    let ring = Ring::taken();
    assert!(!ring.take(), "its maker has it");
    let mut first = Producer::new(1);
    first.push(&ring, record(1), Some(("shot", 1)));
    ring.give_back();
    assert!(ring.take() && !ring.take());
    Producer::new(2).push(&ring, record(2), Some(("", 1)));
    let found: Vec<_> = all(&ring).into_iter().map(|e| (e.thread, e.checkpoint)).collect();
    assert_eq!(found, [(1, Some(("shot".into(), 1))), (2, Some(("".into(), 1)))]);
}

#[test]
fn two_threads() {
    let ring = Ring::taken();
    let total = 4 * SLOTS as u64;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut producer = Producer::new(1);
            for i in 0..total {
                let name = if i % 7 < 3 { "a" } else { "b" };
                producer.push(&ring, record(i), Some((name, i as i32)));
            }
        });
        let (mut seen, mut last) = (0, None);
        while seen + ring.dropped() < total {
            ring.drain(|RingEntry { checkpoint, record, .. }| {
                assert!(last < Some(record.bytes));
                last = Some(record.bytes);
                let name = if record.bytes % 7 < 3 { "a" } else { "b" };
                assert_eq!(checkpoint, Some((name.into(), record.bytes as i32)));
                seen += 1;
            });
        }
    });
}
