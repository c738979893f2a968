//! Schedules as applications use them, rightly and wrongly.

use super::*;

fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn wrong_use_is_refused_and_changes_nothing() {
    for (steps, slots, value) in [(0, 1, "steps = 0"), (-4, 1, "steps = -4"), (9, 0, "slots = 0")] {
        assert!(message(ConfiguredSchedule::new(steps, slots)).contains(value));
    }
    let mut course = ConfiguredSchedule::new(100, 5).unwrap();
    let before = course.cost().unwrap();
    assert!(message(course.set_resilience(-1)).contains("resilience distance -1"));
    let text = message(course.set_resilience(19));
    assert!(text.contains("95 of the 100 steps; 6 slots") && text.contains("of 20"), "{text}");
    assert!(message(course.set_adjoint(0)).contains("adjoint distance 0"));
    assert_eq!(course.cost().unwrap(), before);

    let text = message(ConfiguredSchedule::new(1 << 40, 1 << 40).unwrap().cost());
    assert!(text.contains("1099511627776 states"), "{text}");

    while course.next_action().unwrap() != Action::Terminate {}
    assert!(message(course.next_action()).contains("has ended"));
    assert!(message(course.set_rule(Rule::Monotone)).contains("before the first action"));
}

#[test]
fn what_excludes_each_other_is_refused() {
    let mut course = ConfiguredSchedule::new(100, 5).unwrap();
    for (slots, write, read, words) in [
        (0, 1.0, 1.0, "0 slots on disk"),
        (3, -1.0, 1.0, "write cost -1"),
        (3, 1.0, f64::NAN, "read cost NaN"),
        (3, 1e7, 1.0, "0 to 1000000 steps"),
    ] {
        assert!(message(course.set_disk(slots, write, read)).contains(words));
    }
    course.set_disk(3, 2.0, 0.0004).unwrap();
    let words = "3 slots on disk and a resilience distance of 30 steps exclude each other";
    assert!(message(course.set_resilience(30)).contains(words));
    assert!(message(course.set_failures(0.0, 1.0, 1.0)).contains("mtbf = 0: it is a finite"));
    assert!(message(course.set_failures(1.0, f64::INFINITY, 1.0)).contains("write_cost = inf"));
    assert!(message(course.set_failures(1.0, 1.0, f64::NAN)).contains("turn_cost = NaN"));
    // A schedule with such a number could not be packed.
    for extreme in [1e300, 1e-300] {
        assert!(message(course.set_failures(extreme, extreme, 1.0)).contains("product"));
    }
    assert!(message(course.end()).contains("known: 100"));
    let mut course = ConfiguredSchedule::new(100, 5).unwrap();
    course.set_resilience(30).unwrap();
    assert!(message(course.set_disk(3, 1.0, 1.0)).contains(words));
}

/// Catches a rule that is silently dropped, in either order of the calls, and an optimal rule that is
/// refused.
#[test]
fn a_rule_and_slots_on_disk_are_refused_by_both_names() {
    for rule in [Rule::Resilient, Rule::Monotone, Rule::Shortest] {
        let name = format!("{rule:?}").to_lowercase();
        let words = format!("the rule {name} and 3 slots on disk exclude each other");
        let mut course = ConfiguredSchedule::new(100, 5).unwrap();
        course.set_disk(3, 1.0, 1.0).unwrap();
        assert!(message(course.set_rule(rule)).contains(&words));
        course.set_rule(Rule::Optimal).unwrap();
        assert_eq!(course.plan.rule, Rule::Optimal);
        let mut course = ConfiguredSchedule::new(100, 5).unwrap();
        course.set_rule(rule).unwrap();
        assert!(message(course.set_disk(3, 1.0, 1.0)).contains(&words));
        assert!(course.disk.is_none() && course.plan.rule == rule);
    }
}

/// A pass continues from what is left if the application has state 0, and otherwise says that state 0 is
/// missing. Its position can be packed and unpacked before state 0 is stored again.
#[test]
fn a_pass_without_state_0_goes_on_where_the_application_has_it() {
    let states = vec![Stored { state: 5, slot: 1 }];
    let left = |at_start| Survivors { states: states.clone(), adjoint: None, at_start };
    let mut course = ConfiguredSchedule::online(3).unwrap();
    assert!(message(course.resume(&left(false))).contains("state 0 is in none of the slots"));
    course.resume(&left(true)).unwrap();
    assert!(message(course.end()).contains("no step was made"));
    let mut read = ConfiguredSchedule::unpack(&course.pack()).unwrap();
    assert_eq!(read.pack(), course.pack());
    for course in [&mut course, &mut read] {
        for action in [
            Action::Takeshot { state: 0, slot: 0, read_again: true },
            Action::Restore { state: 5, slot: 1, read_again: true },
            Action::Advance { from: 5, to: 6 },
        ] {
            assert_eq!(course.next_action().unwrap(), action);
        }
    }
}

#[test]
fn an_unknown_number_of_steps() {
    assert!(message(ConfiguredSchedule::online(0)).contains("slots = 0"));
    let mut course = ConfiguredSchedule::online(3).unwrap();
    for refused in [
        course.set_resilience(4),
        course.set_disk(1, 1.0, 1.0),
        course.set_rule(Rule::Monotone),
        course.cost().map(|_| ()),
    ] {
        assert!(message(refused).contains("not known"));
    }
    course.set_adjoint(4).unwrap();
    assert!(message(course.end()).contains("not begun"));
    assert_eq!(
        course.next_action().unwrap(),
        Action::Takeshot { state: 0, slot: 0, read_again: true }
    );
    assert!(message(course.end()).contains("no step"));
    while course.next_action().unwrap() != (Action::Advance { from: 19, to: 20 }) {}
    course.end().unwrap();
    assert_eq!(course.steps(), 20);
    assert!(message(course.end()).contains("known: 20"));
    let mut checks = 0;
    loop {
        match course.next_action().unwrap() {
            Action::Firsturn { check, .. } | Action::Youturn { check, .. } => {
                checks += u64::from(check);
            }
            Action::Terminate => break,
            _ => {}
        }
    }
    // After the first step, and at the states 16, 12, 8 and 4.
    assert_eq!(checks, 5);
    assert!(message(course.end_after_next()).contains("known: 20"));
    let mut course = ConfiguredSchedule::online(3).unwrap();
    course.end_after_next().unwrap();
    assert_eq!(course.steps(), 1);
    assert_eq!(
        course.next_action().unwrap(),
        Action::Takeshot { state: 0, slot: 0, read_again: false }
    );
    let read = ConfiguredSchedule::unpack(&course.pack()).unwrap();
    assert_eq!(read.pack(), course.pack());
    assert_eq!(course.next_action().unwrap(), Action::Firsturn { step: 1, check: false });
    let left = vec![Stored { state: 0, slot: 0 }, Stored { state: 5, slot: 1 }];
    let mut course = ConfiguredSchedule::online(3).unwrap();
    course.resume(&Survivors { states: left, adjoint: None, at_start: true }).unwrap();
    assert!(message(course.end_after_next()).contains("the next action restores it"));
    let adjoint = Survivors { states: Vec::new(), adjoint: Some(7), at_start: true };
    assert!(message(ConfiguredSchedule::online(3).unwrap().resume(&adjoint)).contains("state 7"));
}

/// What a mixed schedule excludes, whichever is set first; another rule ends it. Catches a setting that is
/// accepted and has no effect.
#[test]
fn what_a_mixed_schedule_excludes() {
    type Set = fn(&mut ConfiguredSchedule) -> Result<()>;
    let settings: [(&str, Set); 4] = [
        ("3 slots on disk", |course| course.set_disk(3, 1.0, 1.0)),
        ("the resilience distance 40", |course| course.set_resilience(40)),
        ("the adjoint distance 9", |course| course.set_adjoint(9)),
        ("a mean time between failures", |course| course.set_failures(100.0, 1.0, 1.0)),
    ];
    for (what, set) in settings {
        let words = format!("the rule mixed and {what} exclude each other");
        let mut course = ConfiguredSchedule::new(100, 5).unwrap();
        course.set_mixed().unwrap();
        assert_eq!(message(set(&mut course)), words);
        assert_eq!(course.cost().unwrap().advances, 252);
        course.set_rule(Rule::Optimal).unwrap();
        set(&mut course).unwrap();
        assert_eq!(message(course.set_mixed()), words);
        assert!(!course.mixed);
    }
    let mut course = ConfiguredSchedule::new(100, 5).unwrap();
    course.set_mixed().unwrap();
    let left = Survivors { states: Vec::new(), adjoint: None, at_start: true };
    for refused in [course.resume(&left), course.resume_stopped(&left)] {
        assert!(message(refused).contains("mixed and going on after a crash"));
    }
    let mut online = ConfiguredSchedule::online(5).unwrap();
    assert!(
        message(online.set_mixed()).contains("the rule mixed: the number of steps is not known")
    );
}
