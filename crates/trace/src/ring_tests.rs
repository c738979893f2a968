//! Records arrive complete, in order, and with the right thread and name.

use super::ring::*;

fn record(version: Option<i32>, bytes: u64) -> Record {
    Record { kind: Kind::Span, detail: 3, version, start: 5, time: 7, bytes, extra: 11 }
}

fn all(ring: &Ring) -> Vec<(Record, String)> {
    let mut found = Vec::new();
    ring.drain(&mut Consumer::default(), |_, record, name| {
        found.push((*record, name.to_owned()));
    });
    found
}

#[test]
fn what_goes_in_comes_out_with_its_name() {
    let ring = Ring::taken();
    let mut producer = Producer::new(1);
    let long = "n".repeat(127);
    producer.push(&ring, record(None, 1), None);
    producer.push(&ring, record(None, 2), Some(("shot", -1)));
    producer.push(&ring, record(None, 3), Some((&long, i32::MAX)));
    producer.push(&ring, record(None, 4), Some(("", 0)));
    assert!(producer.enter("shot", 9));
    assert!(!producer.enter("other", 1), "the outer one holds");
    producer.push(&ring, record(None, 5), None);
    producer.push(&ring, record(None, 6), Some(("other", 2)));
    producer.push(&ring, record(None, 7), None);
    producer.leave();
    producer.push(&ring, record(None, 8), None);
    let expected = [
        (None, ""),
        (Some(-1), "shot"),
        (Some(i32::MAX), long.as_str()),
        (Some(0), ""),
        (Some(9), "shot"),
        (Some(2), "other"),
        (Some(9), "shot"),
    ];
    let found = all(&ring);
    assert_eq!(found.len(), 8);
    for (i, (version, name)) in expected.iter().enumerate() {
        assert_eq!(found[i].0, record(*version, i as u64 + 1));
        assert_eq!(&found[i].1, name, "{i}");
    }
    assert_eq!(found[7].0.version, None);
}

/// Catches a long name that is confused with its beginning, and a character that is cut.
#[test]
fn names_of_other_programs() {
    let ring = Ring::taken();
    let mut producer = Producer::new(1);
    let short = "\u{20ac}";
    let long = short.repeat(60);
    for name in [long.as_str(), short, &long, "", &long] {
        producer.push(&ring, record(None, 0), Some((name, 1)));
    }
    // The most whole characters that fit into 127 bytes.
    let kept = short.repeat(42);
    let names: Vec<String> = all(&ring).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, [kept.as_str(), short, &kept, "", &kept]);
}

/// Catches a ring that overwrites unread records, or miscounts dropped ones.
#[test]
fn a_full_ring_drops_and_counts_and_goes_on() {
    let ring = Ring::taken();
    let mut producer = Producer::new(1);
    // One slot has the thread's number.
    let room = SLOTS - 1;
    for i in 0..room as u64 + 5 {
        producer.push(&ring, record(None, i), None);
    }
    assert_eq!(ring.dropped(), 5);
    let found = all(&ring);
    assert_eq!(found.len(), room);
    assert!(found.iter().enumerate().all(|(i, (record, _))| record.bytes == i as u64));
    producer.push(&ring, record(None, 1), Some(("shot", 1)));
    assert_eq!(all(&ring)[0].1, "shot", "around the end of the ring");
}

/// A name that was dropped with its record must precede the next one.
#[test]
fn a_dropped_name_is_said_again() {
    let ring = Ring::taken();
    let mut producer = Producer::new(1);
    for i in 0..SLOTS as u64 - 2 {
        producer.push(&ring, record(None, i), None);
    }
    producer.push(&ring, record(None, 0), Some(("shot", 1)));
    assert_eq!(ring.dropped(), 1);
    all(&ring);
    producer.push(&ring, record(None, 0), Some(("shot", 2)));
    assert_eq!(all(&ring), [(record(Some(2), 0), "shot".to_owned())]);
}

/// Catches records with the wrong thread, or with a name of another thread.
#[test]
fn a_ring_goes_from_thread_to_thread_with_what_is_in_it() {
    let ring = Ring::taken();
    assert!(!ring.take(), "its maker has it");
    let mut first = Producer::new(1);
    first.push(&ring, record(None, 1), Some(("shot", 1)));
    ring.give_back();
    assert!(ring.take() && !ring.take());
    let mut second = Producer::new(2);
    second.push(&ring, record(None, 2), Some(("", 1)));
    second.push(&ring, record(None, 3), Some(("shot", 2)));
    let mut found = Vec::new();
    ring.drain(&mut Consumer::default(), |thread, record, name| {
        found.push((thread, record.bytes, name.to_owned()));
    });
    let expected = [(1, 1, "shot"), (2, 2, ""), (2, 3, "shot")];
    assert_eq!(found, expected.map(|(thread, bytes, name)| (thread, bytes, name.to_owned())));
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
                producer.push(&ring, record(None, i), Some((name, i as i32)));
            }
        });
        let (mut at, mut seen, mut last) = (Consumer::default(), 0, None);
        while seen + ring.dropped() < total {
            ring.drain(&mut at, |thread, record, name| {
                assert_eq!(thread, 1);
                assert!(last < Some(record.bytes));
                last = Some(record.bytes);
                assert_eq!(record.version, Some(record.bytes as i32));
                assert_eq!(name, if record.bytes % 7 < 3 { "a" } else { "b" });
                seen += 1;
            });
        }
    });
}
