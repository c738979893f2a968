//! `veloc schedule`.

use serde_json::json;

use crate::files::Job;

/// The example of the paper's section 3, and what a crash in it leaves. Catches stale slots that are
/// left out, and an adjoint that is taken for stored where it is not.
#[test]
fn the_example_of_the_paper() {
    let job = Job::new();
    let asked = "schedule --steps 100 --slots 5 --resilience 30 --adjoint 12 --rule paper";
    let found = job.veloc(&format!("{asked} --crash-after 57 --json")).json();
    assert_eq!(found["first_sweep"], json!([0, 30, 60, 80, 94]));
    assert_eq!(found["slots"], json!([0, 30, 44, 51, 56]));
    assert_eq!((&found["restart_from"], &found["max_gap"]), (&json!(64), &json!(30)));
    assert_eq!(found["restart_advances"], json!(119));
    assert_eq!(found["forward_evals"], json!(found["advances"].as_u64().unwrap() + 100));

    let text = job.veloc(&format!("{asked} --crash-after 64")).success();
    assert!(text.contains("at the crash: 0 30 60 64 65"), "{text}");
    let text = job.veloc(&format!("{asked} --out plan")).success();
    assert!(text.ends_with("plan.svg\nplan.png\n"), "{text}");
    assert!(job.path("plan.svg").exists() && job.path("plan.png").exists());
}

/// Numbers as large as they come, at once; and what cannot be planned.
#[test]
fn large_plans_and_wrong_ones() {
    let job = Job::new();
    let large = "schedule --steps 1000000000000 --slots 100";
    let found = job.veloc(&format!("{large} --json")).json();
    // r l - β(c + 1, r - 1) with r = 9.
    assert_eq!(found["advances"].as_u64(), Some(8_620_091_152_461));
    for (arguments, words) in [
        ("--steps 0 --slots 3", "0 steps"),
        ("--steps 10 --slots 0", "0 slots"),
        ("--steps 100 --slots 5 --resilience 19", "6 slots would do, or a distance of 20"),
        ("--steps 100 --slots 5 --adjoint 0", "adjoint distance of 0"),
        ("--steps 1000000000000 --slots 1000000000000", "states are stored in the first sweep"),
        ("--steps 100 --slots 5 --crash-after 100", "--crash-after 100"),
        ("--steps 1000000000000 --slots 100 --crash-after 5", "forward steps to go through"),
    ] {
        job.veloc(&format!("schedule {arguments}")).failure(&[words]);
    }
}
