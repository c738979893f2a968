//! Which units have their pages, and which chunks are registered.

use super::*;
use policy::register::{Pin, RegistrarStep};

const U: u64 = TOUCH_UNIT;

/// Catches a chunk that counts as touched too early or never, also the short one at the end.
#[test]
fn a_chunk_is_touched_with_its_last_unit() {
    let mut pages = Pages::new(3 * U - 512, 2 * U);
    pages.written(&[Extent { offset: U, len: U }]);
    assert_eq!(pages.chunks().next(Pin::Chunked), RegistrarStep::Wait);
    pages.written(&[Extent { offset: 2 * U, len: U - 512 }]);
    assert_eq!(pages.chunks().next(Pin::Chunked), RegistrarStep::Register(1));
    assert_eq!(pages.chunks().next(Pin::Serial), RegistrarStep::Wait);
    let unit = pages.claim().unwrap();
    assert_eq!(unit, 0..U);
    pages.touched(unit);
    assert!(pages.all_touched());
    assert_eq!(pages.chunks().next(Pin::Serial), RegistrarStep::Register(0));
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
    pages.chunks_mut().give_up();
    assert_eq!(pages.chunks().next(Pin::Serial), RegistrarStep::Register(0));
}

/// Catches a registrar that waits for pages while nobody touches, and one that is done although
/// pages are touched later.
#[test]
fn what_rests_is_waited_for_but_keeps_nothing_off() {
    for pin in [Pin::Serial, Pin::Chunked] {
        let mut pages = Pages::new(3 * U, U);
        let unit = pages.claim().unwrap();
        pages.touched(unit);
        pages.chunks_mut().rest(true);
        assert_eq!(pages.chunks().next(pin), RegistrarStep::Register(0));
        assert!(pages.chunks_mut().begin(0));
        pages.chunks_mut().ended(0, true);
        assert_eq!(pages.chunks().next(pin), RegistrarStep::Wait);
        assert_eq!(pages.chunks().next(Pin::Off), RegistrarStep::Done);
        pages.chunks_mut().rest(false);
        assert_eq!(pages.chunks().next(pin), RegistrarStep::Wait);
        for chunk in 1..3 {
            let unit = pages.claim().unwrap();
            pages.touched(unit);
            if pin == Pin::Chunked || chunk == 2 {
                assert_eq!(pages.chunks().next(pin), RegistrarStep::Register(1));
            }
        }
        pages.chunks_mut().rest(true);
        pages.chunks_mut().give_up();
        assert_eq!(pages.chunks().next(pin), RegistrarStep::Register(1));
        for chunk in 1..3 {
            assert!(pages.chunks_mut().begin(chunk));
            pages.chunks_mut().ended(chunk, true);
        }
        assert_eq!(pages.chunks().next(pin), RegistrarStep::Done);
    }
}

/// Catches pages for which there is no need, pages that stay away although what is held grows,
/// pages of a failed copy beyond the need, and a need that still limits after all is wanted.
#[test]
fn touching_goes_by_need() {
    let mut pages = Pages::new(20 * U, 2 * U);
    pages.go_by_need();
    assert!(pages.has_enough());
    assert_eq!(pages.claim(), None);
    assert!(pages.expect(U / 8 + 1), "more than a unit, with eight checkpoints");
    assert!(!pages.expect(U / 8), "no more than before");
    assert_eq!((pages.claim(), pages.claim()), (Some(0..U), None), "never more than is wanted");
    pages.touched(0..U);
    // Eight checkpoints, what is held, and two units more: a bit more than five, two of them by the copy.
    let first = [Extent { offset: 0, len: 2 * U }];
    assert!(pages.writing(&first));
    pages.written(&first);
    assert_eq!(pages.touched_bytes(), 2 * U);
    assert_eq!(std::iter::from_fn(|| pages.claim()).count(), 3);
    assert!(pages.has_enough());
    let next = [Extent { offset: 6 * U, len: U }];
    assert!(!pages.writing(&next), "one unit more, by the copy");
    assert_eq!(pages.claim(), None);
    pages.not_written(&next);
    assert_eq!((pages.claim(), pages.claim()), (Some(5 * U..6 * U), None));
    assert!(!pages.hold(2 * U) && pages.has_enough());
    assert!(pages.hold(5 * U), "a bit more than eight units");
    assert_eq!(std::iter::from_fn(|| pages.claim()).count(), 2);
    assert!(pages.want_all());
    assert_eq!(std::iter::from_fn(|| pages.claim()).count(), 12);
    assert!(!pages.has_enough(), "nothing is left");
}

/// Catches a touching thread left asleep as a unit counts twice that a copy has written, too.
#[test]
fn a_unit_counts_once() {
    let mut pages = Pages::new(4 * U, U);
    pages.go_by_need();
    pages.expect(U / 8);
    let unit = pages.claim().unwrap();
    let copy = [Extent { offset: 0, len: U }];
    assert!(pages.writing(&copy), "three units");
    pages.touched(unit);
    assert!(!pages.has_enough());
    assert_eq!((pages.claim(), pages.claim()), (Some(U..2 * U), Some(2 * U..3 * U)));
    pages.written(&copy);
    assert!(pages.claim().is_none() && pages.has_enough());
}

/// Catches a buffer that is touched or registered beyond its wanted part, or waits for the rest.
#[test]
fn the_first_part_alone_is_wanted() {
    for pin in [Pin::Chunked, Pin::Serial] {
        let mut pages = Pages::new(6 * U, 2 * U);
        pages.go_by_need();
        assert_eq!(pages.want_first(5 * U), (4 * U, true));
        for unit in 0..4 {
            assert_eq!(pages.claim(), Some(unit * U..(unit + 1) * U));
            pages.touched(unit * U..(unit + 1) * U);
        }
        assert!(pages.claim().is_none() && pages.has_enough());
        for chunk in 0..2 {
            assert_eq!(pages.chunks().next(pin), RegistrarStep::Register(chunk));
            assert!(pages.chunks_mut().begin(chunk));
            pages.chunks_mut().ended(chunk, true);
        }
        assert_eq!(pages.chunks().next(pin), RegistrarStep::Done);
    }
    let mut pages = Pages::new(6 * U, 2 * U);
    pages.go_by_need();
    assert_eq!(pages.want_first(7 * U), (6 * U, true));
    assert_eq!(std::iter::from_fn(|| pages.claim()).count(), 6);
}

/// Catches pages that go while somebody touches or registers them, or while a part of them holds
/// something; and pages that do not come back.
#[test]
fn idle_pages_go_back() {
    let mut pages = Pages::new(6 * U - 512, 2 * U);
    pages.go_by_need();
    pages.hold(6 * U);
    for unit in 0..6 {
        assert_eq!(pages.claim().unwrap().start, unit * U);
    }
    assert_eq!(pages.last_idle(0..6 * U - 512), None, "all are being touched");
    for unit in 0..6 {
        pages.touched(unit * U..(unit + 1) * U);
    }
    assert_eq!(pages.last_idle(0..6 * U - 512), Some(5 * U..6 * U - 512));
    assert_eq!(pages.last_idle(U / 2..4 * U - 1), Some(2 * U..3 * U));
    assert_eq!(pages.last_idle(U / 2..2 * U - 1), None);
    assert!(pages.chunks_mut().begin(2));
    assert_eq!(pages.last_idle(2 * U..6 * U - 512), Some(3 * U..4 * U));
    let unit = 3 * U..4 * U;
    assert!(pages.giving_back(&unit) && !pages.giving_back(&unit));
    assert_eq!(pages.touched_bytes(), 5 * U - 512);
    assert_eq!(pages.claim(), None, "they are going");
    assert_ne!(pages.chunks().next(Pin::Chunked), RegistrarStep::Register(1));
    pages.given_back(&unit);
    assert_eq!(pages.claim(), Some(unit.clone()));
    pages.touched(unit.clone());
    assert_eq!(pages.touched_bytes(), 6 * U - 512);
    pages.want_all();
    assert!(!pages.giving_back(&unit), "a device wants all of them");
}

mod random {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The model is a flag for each unit, and copies that cover units. Catches a count of pages that drifts
        /// away from what there is, more pages than are wanted, and claims of what has its pages.
        #[test]
        fn pages_are_as_many_as_are_counted(
            steps in prop::collection::vec((0..6u8, 0..12u64, 0..12u64), 1..80)
        ) {
            let mut pages = Pages::new(12 * U, 3 * U);
            pages.go_by_need();
            let mut there = [false; 12];
            for (what, first, last) in steps {
                let units = first.min(last)..first.max(last) + 1;
                let extents = [Extent { offset: units.start * U, len: (units.end - units.start) * U }];
                match what {
                    0 => {
                        pages.writing(&extents);
                        pages.written(&extents);
                        units.for_each(|unit| there[unit as usize] = true);
                    }
                    1 => {
                        pages.writing(&extents);
                        pages.not_written(&extents);
                    }
                    2 => while let Some(unit) = pages.claim() {
                        let index = (unit.start / U) as usize;
                        prop_assert!(!std::mem::replace(&mut there[index], true));
                        pages.touched(unit);
                    },
                    3 => { pages.hold(first * U); }
                    4 => { pages.expect(first * U / 8); }
                    _ => while let Some(unit) = pages.last_idle(units.start * U..units.end * U) {
                        let index = (unit.start / U) as usize;
                        prop_assert!(std::mem::take(&mut there[index]) && units.contains(&(index as u64)));
                        prop_assert!(pages.giving_back(&unit));
                        pages.given_back(&unit);
                    }
                }
                let count = there.iter().filter(|there| **there).count() as u64;
                prop_assert_eq!(pages.touched_bytes(), count * U);
                prop_assert_eq!(pages.untouched(&[Extent { offset: 0, len: 12 * U }]), (12 - count) * U);
            }
        }
    }
}
