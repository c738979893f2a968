//! Which units have their pages, and which chunks are registered.

use super::*;

const U: u64 = TOUCH_UNIT;

/// Catches a chunk that counts as touched too early or never, also the short one at the end.
#[test]
fn a_chunk_is_touched_with_its_last_unit() {
    let mut pages = Pages::new(3 * U - 512, 2 * U);
    pages.written(&[Extent { offset: U, len: U }]);
    assert_eq!(pages.next_registration(Pin::Chunked), Next::Wait);
    pages.written(&[Extent { offset: 2 * U, len: U - 512 }]);
    assert_eq!(pages.next_registration(Pin::Chunked), Next::Register(1));
    assert_eq!(pages.next_registration(Pin::Serial), Next::Wait);
    let unit = pages.claim().unwrap();
    assert_eq!(unit, 0..U);
    pages.touched(unit);
    assert!(pages.all_touched());
    assert_eq!(pages.next_registration(Pin::Serial), Next::Register(0));
}

/// Catches touching beside a flush in the same pages, and pages that nobody makes any more after
/// a flush that failed.
#[test]
fn touching_goes_ahead_of_a_flush_and_back_if_it_fails() {
    let mut pages = Pages::new(6 * U, 2 * U);
    let flush = [Extent { offset: U / 2, len: 3 * U }];
    pages.writing(&flush);
    assert_eq!(pages.untouched(&flush), 3 * U, "nothing is written yet");
    assert_eq!(pages.claim(), Some(0..U), "the flush covers half of this unit");
    assert_eq!(pages.claim(), Some(3 * U..4 * U));
    pages.not_written(&flush);
    assert!(!pages.is_being_written());
    assert_eq!(pages.claim(), Some(U..2 * U));
    pages.writing(&[Extent { offset: 2 * U, len: U }]);
    assert!(pages.is_being_written());
    pages.written(&[Extent { offset: 2 * U, len: U }]);
    assert!(!pages.is_being_written());
    assert_eq!(pages.touched_bytes(), U);
}

/// Catches a registrar that waits for pages which nobody is going to touch.
#[test]
fn what_is_given_up_is_not_waited_for() {
    let mut pages = Pages::new(2 * U, U);
    let unit = pages.claim().unwrap();
    pages.touched(unit);
    pages.give_up();
    assert_eq!(pages.next_registration(Pin::Serial), Next::Register(0));
}

/// Catches a registrar that waits for pages while nobody touches, and one that is done although they
/// are touched later.
#[test]
fn what_rests_is_waited_for_but_keeps_nothing_off() {
    for pin in [Pin::Serial, Pin::Chunked] {
        let mut pages = Pages::new(3 * U, U);
        let unit = pages.claim().unwrap();
        pages.touched(unit);
        pages.rest(true);
        assert_eq!(pages.next_registration(pin), Next::Register(0));
        assert!(pages.begin_registration(0));
        pages.registration_ended(0, true);
        assert_eq!(pages.next_registration(pin), Next::Wait);
        assert_eq!(pages.next_registration(Pin::Off), Next::Done);
        pages.rest(false);
        assert_eq!(pages.next_registration(pin), Next::Wait);
        for chunk in 1..3 {
            let unit = pages.claim().unwrap();
            pages.touched(unit);
            if pin == Pin::Chunked || chunk == 2 {
                assert_eq!(pages.next_registration(pin), Next::Register(1));
            }
        }
        pages.rest(true);
        pages.give_up();
        assert_eq!(pages.next_registration(pin), Next::Register(1));
        for chunk in 1..3 {
            assert!(pages.begin_registration(chunk));
            pages.registration_ended(chunk, true);
        }
        assert_eq!(pages.next_registration(pin), Next::Done);
    }
}

/// Catches pages for which there is no need, pages that stay away although what is used grows, those
/// of a copy that fails beyond the need, and a need that still limits what is all wanted.
#[test]
fn touching_goes_by_need() {
    let mut pages = Pages::new(20 * U, 2 * U);
    pages.go_by_need();
    assert!(pages.has_enough());
    assert_eq!(pages.claim(), None);
    assert!(pages.expect(U / 8 + 1), "more than a unit, with eight checkpoints");
    assert!(!pages.expect(U / 8), "no more than before");
    assert_eq!((pages.claim(), pages.claim(), pages.claim()), (Some(0..U), Some(U..2 * U), None));
    // Eight checkpoints, and twice what is used: a bit more than four units.
    let first = [Extent { offset: 0, len: U + U / 2 }];
    assert!(pages.writing(&first));
    pages.written(&first);
    assert_eq!(std::iter::from_fn(|| pages.claim()).count(), 3);
    assert!(pages.has_enough());
    let next = [Extent { offset: 6 * U, len: U }];
    assert!(pages.writing(&next), "a need for more than fifteen units");
    assert_eq!((pages.claim(), pages.claim()), (Some(5 * U..6 * U), Some(7 * U..8 * U)));
    pages.not_written(&next);
    assert_eq!(pages.claim(), Some(6 * U..7 * U));
    assert_eq!(std::iter::from_fn(|| pages.claim()).count(), 9);
    assert!(pages.has_enough());
    assert!(pages.want_all());
    assert_eq!(std::iter::from_fn(|| pages.claim()).count(), 4);
    assert!(!pages.has_enough(), "nothing is left");
}
