//! The sequence of events by itself.

use super::*;

fn event(tag: i32, len: usize, arena: &mut Arena) -> (CallShape, CallOutcome) {
    let shape = CallShape { tag: Some(tag), ..CallShape::new(Call("MPI_Recv")) };
    let mut outcome = CallOutcome::of(0);
    if len > 0 {
        outcome.items = Items::One(Item::new(
            crate::status::StatusBytes::default(),
            crate::target::CallTarget::Nothing,
            arena.keep(len, |_| Ok(())).unwrap(),
        ));
    }
    (shape, outcome)
}

fn at(event: u64) -> Position {
    Position { event, nth: 0 }
}

#[test]
fn the_last_owner_frees_the_bytes() {
    let (mut log, mut arena) = (Log::default(), Arena::default());
    let (shape, outcome) = event(1, 1000, &mut arena);
    log.push(shape, outcome, 2).unwrap();
    log.disown(at(0), at(1), None);
    assert_eq!(log.figures().bytes, 1000);
    log.disown(at(0), at(1), None);
    assert_eq!(log.figures(), Figures { bytes: 0, peak: 1000 });
    log.trim();
    assert!(log.is_empty());
}

#[test]
fn numbers_stay_with_events_when_the_first_ones_go() {
    let (mut log, mut arena) = (Log::default(), Arena::default());
    for tag in 0..4 {
        let (shape, outcome) = event(tag, 10, &mut arena);
        log.push(shape, outcome, 1).unwrap();
    }
    log.disown(at(0), at(2), None);
    log.trim();
    assert_eq!(log.len(), 2);
    assert_eq!(log.get(at(2)).unwrap().shape.tag, Some(2));
    assert!(log.get(at(1)).is_none());
    assert_eq!(log.end(), at(4));
}

#[test]
fn no_number_is_used_twice() {
    let (mut log, mut arena) = (Log::default(), Arena::default());
    for tag in 0..4 {
        let (shape, outcome) = event(tag, 10, &mut arena);
        log.push(shape, outcome, 1).unwrap();
    }
    log.disown(at(2), at(4), None);
    log.trim();
    assert_eq!((log.len(), log.end()), (2, at(4)));
    let (shape, outcome) = event(9, 10, &mut arena);
    log.push(shape, outcome, 1).unwrap();
    assert_eq!(log.get(at(4)).unwrap().shape.tag, Some(9));
    assert_eq!(log.get(at(1)).unwrap().shape.tag, Some(1));
    assert!(log.get(at(2)).is_none() && log.get(at(3)).is_none() && log.get(at(5)).is_none());
    // A payload that is gone is not dropped again.
    log.disown(at(2), at(4), None);
    assert_eq!(log.figures().bytes, 30);
}

#[test]
fn equal_polls_are_one_event() {
    let (mut log, mut arena) = (Log::default(), Arena::default());
    let (shape, outcome) = event(1, 0, &mut arena);
    log.push(shape, outcome, 1).unwrap();
    let (_, again) = event(1, 0, &mut arena);
    assert!(log.repeat(&shape, &again));
    let (other, again) = event(2, 0, &mut arena);
    assert!(!log.repeat(&other, &again));
    let (_, received) = event(1, 5, &mut arena);
    assert!(!log.repeat(&shape, &received));
    assert_eq!(log.len(), 1);
    assert_eq!(log.after(at(0)), Position { event: 0, nth: 1 });
    assert_eq!(log.after(Position { event: 0, nth: 1 }), at(1));
}

/// Payloads of all sizes keep their bytes, and the memory of dropped ones is reused.
#[test]
fn memory_is_used_again() {
    let mut arena = Arena::default();
    let mut held = Vec::new();
    let keep = |arena: &mut Arena, len: usize, byte: u8| {
        let fill = |bytes: &mut [u8]| {
            bytes.fill(byte);
            Ok(())
        };
        arena.keep(len, fill).unwrap()
    };
    for round in 0..3u8 {
        for len in [1usize, 22, 23, 4096, 1 << 20, (32 << 20) + 1] {
            let payload = keep(&mut arena, len, round);
            assert_eq!(payload.len(), len);
            held.push((round, payload));
        }
        for (round, payload) in &held {
            assert!(payload.bytes().iter().all(|byte| byte == round));
        }
    }
    held.clear();
    let place = |payload: Payload| payload.bytes().as_ptr();
    let first = place(keep(&mut arena, 1 << 20, 1));
    for _ in 0..100 {
        assert_eq!(place(keep(&mut arena, 1 << 20, 1)), first);
    }
}

/// Catches a call that is taken for another because one of the two runs has made no hash of what it sends.
#[test]
fn what_is_sent_is_compared_if_both_runs_say_it() {
    let shape = |tag, sum| CallShape { tag: Some(tag), sum, ..CallShape::new(Call("MPI_Send")) };
    for (sum, replayed, is) in [(5, 5, true), (5, 6, false), (5, 0, true), (0, 5, true)] {
        assert_eq!(shape(1, sum).is(&shape(1, replayed)), is, "{sum} {replayed}");
        assert!(!shape(1, sum).is(&shape(2, replayed)));
    }
}
