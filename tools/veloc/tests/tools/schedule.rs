//! `veloc schedule`.

use serde_json::json;

use crate::files::Job;

/// The content of a file that a command has written, as JSON.
fn read(job: &Job, file: &str) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(job.path(file)).unwrap()).unwrap()
}

/// The example of the paper's section 3, and the cost of a crash in it. Catches stale slots that
/// are left out, and an adjoint that is taken for stored where it is not.
#[test]
fn the_example_of_the_paper() {
    let job = Job::new();
    let asked = "schedule --steps 100 --slots 5 --resilience 30 --adjoint 12 --rule paper";
    let found = job.veloc(&format!("{asked} --crash-after 57 --json")).json();
    assert_eq!(found["first_sweep"], json!([0, 30, 60, 80, 94]));
    assert_eq!(found["slots"], json!([0, 30, 44, 51, 56]));
    assert_eq!((&found["restart_from"], &found["max_gap"]), (&json!(64), &json!(30)));
    assert_eq!((&found["restart_advances"], &found["crash_in"]), (&json!(119), &json!("reverse")));
    assert_eq!(found["forward_evals"], json!(found["advances"].as_u64().unwrap() + 100));

    let text = job.veloc(&format!("{asked} --crash-after 57")).success();
    // Each number with the state that it counts from.
    for (from, advances) in [
        ("state 64, restarted", &found["restart_advances"]),
        ("state 57, without the crash", &found["undisturbed_advances"]),
    ] {
        let line = text.lines().find(|line| line.contains(from));
        let number = line.and_then(|line| line.split_whitespace().last());
        assert_eq!(number, Some(advances.to_string().as_str()), "{from}: {text}");
    }
    let text = job.veloc(&format!("{asked} --crash-after 64")).success();
    assert!(text.contains("at the crash: 0 30 60 64 65"), "{text}");

    // The lines of a picture. Each step but the last is computed first at its own time.
    job.veloc(&format!("{asked} --out plan.json")).success();
    let written = read(&job, "plan.json");
    assert_eq!(written["first_sweep"], found["first_sweep"]);
    let lines = |kind: &str| written["drawing"][kind].as_array().unwrap().clone();
    assert_eq!(lines("forward")[0], json!([0.0, 0.0, 30.0, 30.0]));
    // The adjoint goes back from the last state to the first, once, while all work is done.
    let work = (found["forward_evals"].as_u64().unwrap() + 100) as f64;
    let adjoint = lines("adjoint");
    assert_eq!(adjoint.last().unwrap()[2], json!(work));
    assert_eq!(adjoint.last().unwrap()[3], json!(0.0));
    for two in adjoint.windows(2) {
        assert_eq!((&two[0][2], &two[0][3]), (&two[1][0], &two[1][1]));
    }
    // State 60 stays stored from when it was computed to when the adjoint has come to it.
    assert!(lines("stored").iter().any(|line| line[0] == json!(60.0) && line[1] == json!(60.0)));
}

/// Crashes of the forward sweep, at each state: the states stored by then are left, and only the
/// steps behind the last of them are computed twice. Catches a crash that is taken for one of the
/// adjoint's, a state that is not stored yet, and steps that are counted but were not made.
#[test]
fn crashes_in_the_forward_sweep() {
    let job = Job::new();
    let asked = "schedule --steps 100 --slots 5 --resilience 30 --adjoint 12 --rule paper";
    for (crash, left) in [(1, 0), (29, 0), (30, 0), (31, 30), (80, 60), (81, 80), (99, 94)] {
        let crash = format!("{asked} --crash-after {crash} --crash-in forward --json");
        let found = job.veloc(&crash).json();
        let number = |name: &str| found[name].as_u64().unwrap();
        assert_eq!(number("restart_from"), left, "{crash}");
        let states = [0, 30, 60, 80, 94].into_iter().filter(|state| *state <= left);
        assert_eq!(found["slots"], json!(states.collect::<Vec<u64>>()), "{crash}");
        // At most the steps behind the last stored state; the way on may be a better one than this
        // rule's.
        let most = number("undisturbed_advances") + number("crash_after") - left;
        assert!(number("restart_advances") <= most, "{crash}");
        assert_eq!(found["crash_in"], json!("forward"));
    }
    let text = job.veloc(&format!("{asked} --crash-after 81 --crash-in forward")).success();
    assert!(text.contains("at the crash: 0 30 60 80\n"), "{text}");
    assert!(text.contains("steps not recorded from state 80, restarted"), "{text}");
    // If the end is not known, the restart goes on as the pass would; with slots on disk, the slots
    // in memory are lost.
    for (more, left) in [("--online", 4), ("--disk-slots 3", 0)] {
        let asked = format!("schedule --steps 300 --slots 4 {more}");
        let crash = format!("{asked} --crash-after 5 --crash-in forward --json");
        let found = job.veloc(&crash).json();
        let [restart, undisturbed] =
            ["restart_advances", "undisturbed_advances"].map(|name| found[name].as_u64().unwrap());
        assert!(restart >= undisturbed && restart <= undisturbed + 5, "{found}");
        assert!(found["restart_from"].as_u64().unwrap() <= left, "{found}");
    }
    for (arguments, words) in [
        ("--crash-after 0 --crash-in forward", "--crash-after 0"),
        ("--crash-after 100 --crash-in forward", "from 1 to 99"),
    ] {
        job.veloc(&format!("{asked} {arguments}")).failure(&[words]);
    }
    let ended = job.veloc(&format!("{asked} --crash-in forward"));
    assert!(ended.stderr().contains("--crash-after"), "{}", ended.stderr());
}

/// Plans with the largest numbers take no time, and impossible plans are refused.
#[test]
fn large_plans_and_wrong_ones() {
    let job = Job::new();
    let large = "schedule --steps 1e12 --slots 100";
    let found = job.veloc(&format!("{large} --json")).json();
    // r l - β(c + 1, r - 1) with r = 9.
    assert_eq!(found["advances"].as_u64(), Some(8_620_091_152_461));
    for (arguments, words) in [
        ("--steps 0 --slots 3", "0 steps"),
        ("--steps 9 --slots 3 --disk-slots 2 --write-cost -1", "--write-cost -1"),
        ("--steps 9 --slots 3 --step-time 1 --mtbf -4", "--mtbf -4"),
        ("--steps 10 --slots 0", "0 slots"),
        ("--steps 100 --slots 5 --resilience 19", "6 slots would do, or a distance of 20"),
        ("--steps 100 --slots 5 --adjoint 0", "adjoint distance of 0"),
        (
            "--steps 1e12 --slots 1e12",
            "--slots 1000000000000: up to 1000000000000 states are stored",
        ),
        (
            "--steps 1 --slots 2 --crash-after 1 --crash-in forward",
            "a single step is the adjoint's",
        ),
        ("--steps 100 --slots 5 --crash-after 100", "--crash-after 100"),
        ("--steps 1e12 --slots 9 --disk-slots 9 --out plan", "forward steps to draw"),
        (
            "--steps 99 --slots 9 --disk-slots 4 --rule monotone",
            "monotone and 4 slots on disk exclude",
        ),
    ] {
        job.veloc(&format!("schedule {arguments}")).failure(&[words]);
    }
}

/// Long plans of other kinds, and the lines of their pictures, take no time. Catches a plan that is
/// gone through action by action.
#[test]
fn large_plans_of_other_kinds() {
    let job = Job::new();
    let found = job.veloc("schedule --steps 1e12 --slots 9 --disk-slots 9 --json").json();
    let count = |name: &str| found[name].as_f64().unwrap();
    assert!(count("ideal_advances") <= count("advances"), "{found}");
    assert_eq!(count("cost"), count("advances") + count("disk_writes") + count("disk_reads"));
    let pass =
        "schedule --steps 1e9 --slots 2 --online --crash-in forward --crash-after 999999999 --json";
    let found = job.veloc(pass).json();
    assert!(found["advances"].as_u64() > found["ideal_advances"].as_u64(), "{found}");
    assert!(found["slots"].as_array().unwrap().len() == 2, "{found}");
}

/// A crash in the longest plan, at any place, and its picture take no time. Catches a plan that is
/// gone through, and a result that differs from going through it action by action.
#[test]
fn crashes_of_large_plans() {
    let job = Job::new();
    let asked = "schedule --steps 1e12 --slots 100 --adjoint 1e6";
    for (crash, restart) in
        [("999999999999", 999_999_999_999_u64), ("123456789012", 123_457_000_000)]
    {
        let found = job.veloc(&format!("{asked} --crash-after {crash} --json")).json();
        assert_eq!(found["restart_from"], json!(restart));
        let count = |name: &str| found[name].as_u64().unwrap();
        let turned = restart - count("crash_after");
        let lost = count("restart_advances") - count("undisturbed_advances");
        // Steps reversed since the adjoint was stored, from states that are there or not.
        assert!(lost <= 20 * turned, "{lost} of {turned}");
        assert!(count("undisturbed_advances") < count("advances"));
    }
    // The adjoint is not stored, so all steps are to be reversed again: the restart costs no more
    // than a plan from the beginning.
    let again = "schedule --steps 1e9 --slots 10 --crash-after 5e8 --json";
    let found = job.veloc(again).json();
    assert!(found["restart_advances"].as_u64() <= found["advances"].as_u64(), "{found}");
    let text = job.veloc(&format!("{asked} --crash-after 5")).success();
    assert!(text.contains("steps not recorded from state 1000000, restarted"), "{text}");
    assert!(text.contains("1000000000000  ●") && !text.contains("too long"), "{text}");
}

/// Catches numbers that are taken for options, and errors that do not say which value is wrong, and
/// why.
#[test]
fn numbers_that_cannot_be() {
    let job = Job::new();
    for (arguments, words) in [
        ("--steps -4 --slots 3", "'-4' for '--steps <L>': it is negative"),
        ("--steps 9 --slots -1", "'-1' for '--slots <C>'"),
        ("--steps 9 --slots 2.5", "'2.5' for '--slots <C>'"),
        ("--steps 1e30 --slots 3", "'1e30' for '--steps <L>'"),
        ("--steps 9 --slots 3 --resilience -2", "'-2' for '--resilience <D>'"),
        ("--steps 9 --slots 3 --crash-after x", "'x' for '--crash-after <K>'"),
        (
            "--steps 281474976710657 --slots 3",
            "'--steps <L>': it is too large: at most 281474976710656",
        ),
        ("--steps 1e15 --slots 3", "it is too large: at most 281474976710656"),
        ("--steps 9 --slots 1e20", "'--slots <C>': it is too large: at most 281474976710656"),
        (
            "--steps 9 --slots 3 --disk-slots 1e20",
            "'--disk-slots <N>': it is too large: at most 2814",
        ),
        (
            "--steps 9 --slots 3 --resilience 1e16",
            "at most 18446744073709551615, or 9007199254740992",
        ),
        (
            "--steps 9 --slots 3 --crash-after 1e30",
            "it is too large: less than the number of --steps",
        ),
    ] {
        let ended = job.veloc(&format!("schedule {arguments}"));
        assert_eq!(ended.code(), Some(2));
        assert!(ended.stderr().contains(words), "{}", ended.stderr());
    }
}

/// A pass whose end is not known takes at least as many steps as one that knows it, and stores its
/// states at places of its own.
#[test]
fn an_end_that_is_not_known() {
    let job = Job::new();
    let found = job.veloc("schedule --steps 300 --slots 4 --online --json").json();
    let [advances, ideal] =
        ["advances", "ideal_advances"].map(|name| found[name].as_u64().unwrap());
    assert!(ideal < advances && advances < ideal * 11 / 10, "{advances}, {ideal}");
    assert_eq!((&found["repetition"], &found["plan"]["online"]), (&json!(7), &json!(true)));
    assert_eq!(found["least_resilience"], json!(null));
    let text = job.veloc("schedule --steps 300 --slots 4 --online --out pass").success();
    assert!(text.contains("the same with known end"), "{text}");
    for (arguments, words) in [
        ("--steps 10 --slots 3 --online --rule monotone", "rule of its own"),
        ("--steps 10 --slots 3 --online --step-time 1", "known number of steps"),
    ] {
        job.veloc(&format!("schedule {arguments}")).failure(&[words]);
    }
}

/// Slots with states and records. Catches an option that a mixed schedule cannot have and that has no effect,
/// and a picture that leaves out adjoint steps from records.
#[test]
fn states_and_records() {
    let job = Job::new();
    let asked = "schedule --steps 250 --slots 10 --rule mixed";
    let found = job.veloc(&format!("{asked} --json")).json();
    assert_eq!((&found["forward_evals"], &found["plan"]["rule"]), (&json!(717), &json!("mixed")));
    assert_eq!(found["least_resilience"], json!(null));
    let text = job.veloc(&format!("{asked} --out mixed")).success();
    assert!(text.contains("states and records stored"), "{text}");
    assert_eq!(text.matches('◀').count(), 25, "{text}");
    for option in [
        "--resilience 100",
        "--adjoint 9",
        "--disk-slots 3",
        "--crash-after 9",
        "--compare",
        "--step-time 1",
    ] {
        let name = option.split(' ').next().unwrap();
        let words = format!("the rule mixed and {name} exclude each other");
        job.veloc(&format!("{asked} {option}")).failure(&[&words]);
    }
    job.veloc("schedule --steps 9 --slots 3 --online --rule mixed").failure(&["rule of its own"]);
}

/// Reads and writes on disk are counted, and slots in memory do not survive a crash.
#[test]
fn slots_on_disk() {
    let job = Job::new();
    let asked = "schedule --steps 300 --slots 4 --disk-slots 5 --write-cost 5 --read-cost 3";
    let found = job.veloc(&format!("{asked} --adjoint 20 --crash-after 150 --json")).json();
    let count = |name: &str| found[name].as_f64().unwrap();
    let cost = count("advances") + 5.0 * count("disk_writes") + 3.0 * count("disk_reads");
    assert_eq!(count("cost"), cost);
    assert_eq!(found["least_resilience"], json!(null));
    assert!(count("ideal_advances") <= count("advances"));
    assert!(count("restart_advances") >= count("undisturbed_advances"));
    let text = job.veloc(&format!("{asked} --out disk.json")).success();
    assert!(text.contains("states written to disk"), "{text}");
    assert!(!read(&job, "disk.json")["drawing"]["stored"].as_array().unwrap().is_empty());
    let wrong = "schedule --steps 9 --slots 3 --disk-slots 2 --read-cost 1e7";
    job.veloc(wrong).failure(&["--read-cost 10000000"]);
}

/// The strategies of the paper's section 5, with its two-level cost put right.
#[test]
fn other_ways() {
    let job = Job::new();
    let asked = "schedule --steps 100 --slots 5 --resilience 30 --adjoint 12 --compare";
    let found = job.veloc(&format!("{asked} --json")).json();
    let ways = found["compare"].as_array().unwrap();
    let names: Vec<_> = ways.iter().map(|way| way["strategy"].as_str().unwrap()).collect();
    assert_eq!(names, ["chosen", "continuous", "single recovery", "two-level"]);
    // Two-level: 4 pieces of 25 steps, 2 slots for each: 3 · 25 + 4 · (25 · 6 - β(3, 5)) = 75 + 4 · 94.
    let advances: Vec<_> = ways.iter().map(|way| way["advances"].as_u64().unwrap()).collect();
    assert_eq!(advances, [321, 316, 374, 451]);
    let text = job.veloc(asked).success();
    assert!(text.contains("single recovery") && text.contains("lost in reverse"), "{text}");
    // Plans with as many steps as possible take no time with any rule. Catches figures that are
    // left out.
    for rule in ["optimal", "monotone", "shortest"] {
        let asked =
            format!("schedule --steps 1e12 --slots 100 --adjoint 1e6 --rule {rule} --compare");
        let found = job.veloc(&format!("{asked} --json")).json();
        for way in found["compare"].as_array().unwrap() {
            let [lost, stored, mean] = ["reverse_most_lost", "takeshots", "reverse_mean_lost"]
                .map(|name| way[name].as_f64().unwrap());
            // Steps reversed since the adjoint was stored, and the advances before them, some
            // times.
            assert!(mean > 0.0 && mean <= lost && lost < 2e7, "{rule}: {way}");
            assert!(stored > 1e11, "{rule}: {way}");
        }
        assert_eq!(found["takeshots"], found["compare"][0]["takeshots"]);
    }
    for (arguments, words) in [
        (
            "--steps 1e12 --slots 2",
            "--compare: with 2 slots a step is repeated up to 1414213 times",
        ),
        (
            "--steps 1e12 --slots 1e6",
            "--compare: ways are compared for at most 100000 slots, not 1000000",
        ),
    ] {
        job.veloc(&format!("schedule {arguments} --compare")).failure(&[words]);
    }
}

/// Run times, with failures and without.
#[test]
fn estimates() {
    let job = Job::new();
    let asked = "schedule --steps 300 --slots 8 --step-time 2 --write-time 4 --state-size 1000";
    let in_units = asked.replace("1000", "1.5G");
    let found = job.veloc(&format!("{in_units} --json")).json();
    assert_eq!(found["estimate"]["storage"], json!(8 * (3_u64 << 29)));
    let found = job.veloc(&format!("{asked} --json")).json();
    // Advances, turns of three steps each, and writes.
    let (advances, writes) = (found["advances"].as_f64(), found["takeshots"].as_f64());
    let time = 2.0 * advances.unwrap() + 6.0 * 300.0 + 4.0 * writes.unwrap();
    let estimate = &found["estimate"];
    assert_eq!(estimate["undisturbed"].as_f64(), Some(time));
    assert_eq!((&estimate["expected_loss"], &estimate["storage"]), (&json!(0.0), &json!(8000)));
    let found = job.veloc(&format!("{asked} --mtbf 2000 --restart-time 30 --json")).json();
    let estimate = &found["estimate"];
    assert!(
        estimate["failures"].as_f64().unwrap() > 1.0 && estimate["adjoints_stored"] != json!(0)
    );
    assert!(estimate["expected_loss"].as_f64().unwrap() > 60.0);
    for (arguments, words) in [
        ("--step-time 0", "--step-time 0: it is a finite number above 0"),
        ("--step-time inf", "--step-time inf: it is a finite number above 0"),
        ("--step-time 1 --turn-factor NaN", "--turn-factor NaN: it is a finite number above 0"),
        (
            "--step-time 1e300 --turn-factor 1e300",
            "their product, inf, is no finite number above 0",
        ),
        ("--step-time 1 --write-time inf", "--write-time inf: it is a finite number, 0 or more"),
        ("--step-time 1 --mtbf NaN", "--mtbf NaN: it is a number above 0"),
        ("--step-time 1 --mtbf 0", "--mtbf 0"),
        ("--step-time 1 --mtbf 1e-9", "never ends"),
    ] {
        job.veloc(&format!("schedule --steps 300 --slots 8 {arguments}")).failure(&[words]);
    }
    // Without failures no time is taken: 8,620,091,152,461 steps, and three for each that is
    // reversed.
    let long = "schedule --steps 1e12 --slots 100 --step-time 1";
    let found = job.veloc(&format!("{long} --json")).json();
    assert_eq!(found["estimate"]["undisturbed"].as_f64(), Some(8_620_091_152_461.0 + 3e12));
    // An estimate that would take too long is refused at once.
    let stored_often = "--steps 1e12 --slots 100 --step-time 1 --mtbf 1e5 --adjoint-time 10";
    job.veloc(&format!("schedule {stored_often}"))
        .failure(&["--mtbf 100000: with 1000000000000 steps"]);
    // With failures no time is taken either, unless the adjoint is stored all the time.
    let short = "--step-time 1e-6 --mtbf 86400 --write-time 1e-3 --adjoint-time 10 --json";
    let found = job.veloc(&format!("schedule --steps 1e12 --slots 100 {short}")).json();
    let estimate = &found["estimate"];
    assert!(estimate["expected"].as_f64() > estimate["undisturbed"].as_f64(), "{found}");
    assert!(estimate["adjoints_stored"].as_u64() > Some(1000), "{found}");
}
