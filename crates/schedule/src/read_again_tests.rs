//! What an action says of the later reads of its slot, compared with all later actions, for schedules of every
//! kind.

use super::configured::ConfiguredSchedule;
use super::resume::Survivors;
use super::rule::Rule;
use super::schedule::{Action, Stored};

/// Pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Whether `slot` is read in `later` before something else is stored there.
fn is_read(slot: u64, later: &[Action]) -> bool {
    later
        .iter()
        .find_map(|action| match *action {
            Action::Restore { slot: read, .. } | Action::Reverse { slot: read, .. } => {
                (read == slot).then_some(true)
            }
            Action::Takeshot { slot: written, .. } | Action::Record { slot: written, .. } => {
                (written == slot).then_some(false)
            }
            _ => None,
        })
        .unwrap_or(false)
}

/// Compares each action from `known` on with those that follow, and the earlier ones with "may be". Returns how
/// many reads were the last of their slot, and how many stores are never read.
fn compare(actions: &[Action], known: usize, case: &str) -> (usize, usize) {
    let (mut last, mut unread) = (0, 0);
    for (i, action) in actions.iter().enumerate() {
        let (slot, read_again, is_store) = match *action {
            Action::Takeshot { slot, read_again, .. } => (slot, read_again, true),
            Action::Restore { slot, read_again, .. } => (slot, read_again, false),
            Action::Record { slot, .. } => (slot, true, true),
            Action::Reverse { slot, .. } => (slot, false, false),
            _ => continue,
        };
        let expected = i < known || is_read(slot, &actions[i + 1..]);
        assert_eq!(read_again, expected, "{case}: action {i}, {action:?} of {actions:?}");
        last += usize::from(!read_again && !is_store);
        unread += usize::from(!read_again && is_store);
    }
    (last, unread)
}

fn all(course: &mut ConfiguredSchedule) -> Vec<Action> {
    std::iter::repeat_with(|| course.next_action().unwrap())
        .take_while(|action| *action != Action::Terminate)
        .collect()
}

/// A schedule with a known end and any settings.
fn course(steps: u64, slots: u64, random: &mut Random) -> ConfiguredSchedule {
    let mut course = ConfiguredSchedule::new(steps as i64, slots as i64).unwrap();
    match random.below(4) {
        0 => {
            let costs = [0.0, 0.2, 1.0, 5.0];
            let mut cost = || costs[random.below(4) as usize];
            let (write, read) = (cost(), cost());
            course.set_disk(1 + random.below(6) as i64, write, read).unwrap();
        }
        1 => course.set_resilience((steps.div_ceil(slots) + random.below(9)) as i64).unwrap(),
        2 => {}
        _ => {
            course.set_mixed().unwrap();
            return course;
        }
    }
    if random.below(2) == 0 {
        course.set_adjoint(1 + random.below(20) as i64).unwrap();
    }
    if random.below(2) == 0 {
        // Refused with slots on disk.
        let _ = course.set_rule(Rule::ALL[random.below(4) as usize].0);
    }
    course
}

/// From the beginning. Catches a state that is freed and read again, and one that is kept after its last read.
#[test]
fn with_a_known_end() {
    let mut random = Random(1);
    let mut unread = 0;
    for _ in 0..3000 {
        let (steps, slots) = (1 + random.below(90), 1 + random.below(9));
        let mut course = course(steps, slots, &mut random);
        let case = format!("{course:?}");
        unread += compare(&all(&mut course), 0, &case).1;
    }
    // State 0 of a single step.
    assert!(unread > 0);
}

/// After a crash or a planned stop. Catches a state that is moved, which is read for the last time although a
/// step lies between it and the adjoint.
#[test]
fn after_a_crash() {
    let mut random = Random(2);
    let mut last = 0;
    for i in 0..3000 {
        let (steps, slots) = (1 + random.below(90), 1 + random.below(9));
        let mut course = course(steps, slots, &mut random);
        if course.mixed {
            continue;
        }
        let places = slots + course.disk.map_or(i % 2, |disk| disk.slots);
        let states = (0..places).filter(|_| random.below(3) > 0).collect::<Vec<_>>();
        let mut state = |slot| if slot % slots == 0 { 0 } else { random.below(steps) };
        let states = states.into_iter().map(|slot| Stored { state: state(slot), slot }).collect();
        let adjoint = (i % 3 > 0).then(|| random.below(steps + 1));
        let survivors = Survivors { states, adjoint, at_start: true };
        course.resume_stopped(&survivors).unwrap();
        let case = format!("{course:?}");
        last += compare(&all(&mut course), 0, &case).0;
    }
    assert!(last > 0);
}

/// A pass whose end is said at any place, at the last state or before the last step, also where a state was
/// just stored; also after a crash in the pass. Catches a promise that is made too early, and a last state that
/// was stored and is taken for one of the way back.
#[test]
fn with_an_unknown_end() {
    let mut random = Random(3);
    for i in 0..3000 {
        let (most, slots) = (1 + random.below(120), 1 + random.below(9));
        let mut course = ConfiguredSchedule::online(slots as i64).unwrap();
        if i % 3 == 0 {
            let states = (0..slots).filter(|_| random.below(3) > 0).collect::<Vec<_>>();
            let mut state = |slot| if slot == 0 { 0 } else { random.below(60) };
            let states =
                states.into_iter().map(|slot| Stored { state: state(slot), slot }).collect();
            course.resume(&Survivors { states, adjoint: None, at_start: true }).unwrap();
        }
        let (mut actions, mut advanced) = (Vec::new(), 0);
        for _ in 0..most {
            actions.push(course.next_action().unwrap());
            advanced += u64::from(matches!(actions.last(), Some(Action::Advance { .. })));
        }
        let at_the_end = i % 2 == 0 && advanced > 0;
        let ended = if at_the_end { course.end() } else { course.end_after_next() };
        if ended.is_err() {
            // After a crash a state is restored first.
            assert!(i % 3 == 0);
            continue;
        }
        let known = actions.len();
        let rest = all(&mut course);
        let turned = rest
            .iter()
            .filter(|action| matches!(action, Action::Firsturn { .. } | Action::Youturn { .. }));
        assert_eq!(turned.count() as u64, course.steps());
        actions.extend(rest);
        compare(&actions, known, &format!("{i}: {slots} slots, {known} actions"));
    }
}
