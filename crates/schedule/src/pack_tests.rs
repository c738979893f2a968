//! Schedules that are packed and unpacked.

use super::*;
use crate::resume::Survivors;
use crate::schedule::Action;

/// Schedules of all kinds, with and without the optional settings.
fn courses() -> Vec<ConfiguredSchedule> {
    let mut courses: Vec<ConfiguredSchedule> = [(1, 1), (50, 1), (100, 5), (90, 200)]
        .map(|(l, c)| ConfiguredSchedule::new(l, c).unwrap())
        .into();
    let mut course = ConfiguredSchedule::new(100, 5).unwrap();
    course.set_resilience(30).unwrap();
    course.set_adjoint(12).unwrap();
    course.set_rule(Rule::Resilient).unwrap();
    courses.push(course.clone());
    let states = [(0, 0), (30, 1), (44, 2), (51, 3), (56, 4)];
    let states = states.map(|(state, slot)| Stored { state, slot }).to_vec();
    let survivors = Survivors { states, adjoint: Some(64), at_start: false };
    course.resume(&survivors).unwrap();
    courses.push(course);
    let mut course = ConfiguredSchedule::new(120, 3).unwrap();
    course.set_disk(4, 2.0, 1.5).unwrap();
    course.set_failures(300.0, 2.0, 3.0).unwrap();
    courses.push(course);
    courses.push(ConfiguredSchedule::online(4).unwrap());
    for (steps, slots) in [(1, 1), (50, 1), (100, 5), (90, 200)] {
        let mut course = ConfiguredSchedule::new(steps, slots).unwrap();
        course.set_mixed().unwrap();
        courses.push(course);
    }
    courses
}

/// At each action of each: the unpacked schedule gives the same actions up to the end, and packs to the same
/// bytes.
#[test]
fn it_goes_on_as_if_nothing_had_happened() {
    for mut course in courses() {
        loop {
            let bytes = course.pack();
            let mut same = ConfiguredSchedule::unpack(&bytes).unwrap();
            assert_eq!(same.pack(), bytes, "{course:?}");
            let action = course.next_action().unwrap();
            assert_eq!(same.next_action().unwrap(), action);
            assert_eq!(same.pack(), course.pack(), "{action:?} of {course:?}");
            match action {
                Action::Advance { to: 70, .. } if course.steps() == 0 => course.end().unwrap(),
                Action::Terminate => break,
                _ => {}
            }
        }
        let mut ended = ConfiguredSchedule::unpack(&course.pack()).unwrap();
        assert!(ended.next_action().is_err());
    }
}

/// After crashes with any states left, and with states that are moved before they are used. Catches checks
/// that are too strict.
#[test]
fn what_goes_on_after_a_crash_is_not_refused() {
    let mut seed = 5_u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut moved = 0;
    for _ in 0..400 {
        let (steps, slots) = (1 + random(70), 1 + random(7));
        let mut course = ConfiguredSchedule::new(steps as i64, slots as i64).unwrap();
        if random(2) == 0 {
            course.set_resilience((steps.div_ceil(slots) + random(9)) as i64).unwrap();
        }
        let states = (0..slots).filter(|_| random(3) > 0);
        let states =
            states.map(|slot| (slot, if slot == 0 { 0 } else { slot })).collect::<Vec<_>>();
        let states = states
            .into_iter()
            .map(|(slot, low)| Stored { state: if low == 0 { 0 } else { random(steps) }, slot });
        let states = states.collect();
        let adjoint = Some(random(steps + 1));
        course.resume(&Survivors { states, adjoint, at_start: true }).unwrap();
        if let ActiveSchedule::Known(schedule) = &course.way {
            moved += schedule.moves.len();
        }
        loop {
            let mut same = ConfiguredSchedule::unpack(&course.pack()).unwrap();
            let action = course.next_action().unwrap();
            assert_eq!(same.next_action().unwrap(), action);
            if action == Action::Terminate {
                break;
            }
        }
    }
    assert!(moved > 20, "{moved}");
}

#[test]
fn other_bytes_are_refused() {
    let bytes = ConfiguredSchedule::new(100, 5).unwrap().pack();
    for (bytes, words) in [
        (&b""[..], "0 bytes"),
        (b"VSc", "3 bytes"),
        (b"VSCH\x03\x00", "do not begin"),
        // A whole schedule of version 1, which had no checksum.
        (
            b"VSch\x01\x64\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\0\0\0\0\0\0",
            "of version 1, and this library reads version 3",
        ),
        (b"VSch\x03\x00", "6 bytes are too few"),
        (&bytes[..bytes.len() - 1], "checksum"),
    ] {
        let message = ConfiguredSchedule::unpack(bytes).unwrap_err().to_string();
        assert!(message.contains(words), "{message}");
    }
    let longer = [&bytes[..], b"\0"].concat();
    assert!(ConfiguredSchedule::unpack(&longer).is_err());
    // Also with a valid checksum.
    let content = &bytes[..bytes.len() - 8];
    assert_eq!(sealed(content.to_vec()), bytes);
    for content in [&content[..content.len() - 1], &[content, b"\0"].concat()] {
        let message =
            ConfiguredSchedule::unpack(&sealed(content.to_vec())).unwrap_err().to_string();
        assert!(message.contains("up to byte"), "{message}");
    }
}

/// At any position, no bit can change unnoticed. Catches a checksum that leaves something out, and one that
/// is not compared.
#[test]
fn a_bit_that_changes_is_noticed() {
    for mut course in courses() {
        for _ in 0..12 {
            let mut bytes = course.pack();
            for bit in 0..8 * bytes.len() {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(ConfiguredSchedule::unpack(&bytes).is_err(), "bit {bit} of {course:?}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            for _ in 0..11 {
                let _ = course.next_action();
            }
        }
    }
}
