//! Misuse of the memory and the checkpoints of a run by a callback of `VELOC_Adjoint_run`: calls
//! that would fail later, or make a wrong adjoint, are refused. The table is in
//! `programs/callback_misuse.c`.

use capi_tests::backends::wait_for_backends;
use capi_tests::job::{names, Job};

const CONFIGURATIONS: [&str; 3] = [
    "mode = sync\nscratch = DIR/scratch\n",
    "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n",
    "mode = async\nephemeral = true\n",
];

/// Catches a region of another size or id that gets into stored states, which no later call could restore,
/// a slot that is overwritten or removed, a state that is restored behind the run's back, and a run that
/// keeps its hold on the names when it has ended.
#[test]
fn what_is_the_runs_stays_as_it_is() {
    for configuration in CONFIGURATIONS {
        let job = Job::new(configuration);
        job.run("callback_misuse", "").succeed();
        wait_for_backends(&job);
        assert_eq!(names(&job.scratch()), [""; 0], "{configuration}");
    }
}

/// A run with refused calls is killed in either sweep, and goes on.
#[test]
fn what_was_refused_does_no_harm_after_a_kill() {
    for configuration in &CONFIGURATIONS[..2] {
        let job = Job::new(configuration);
        for kill in [20, 45, 90] {
            let _ = job.run("callback_misuse", &format!("kill={kill}")).end();
        }
        job.run("callback_misuse", "").succeed();
    }
}

/// A job is ended in a callback, and a forked child goes on as the process: each is told that, and
/// nothing else. Catches a message about damaged states where none is damaged.
#[test]
fn a_run_without_its_job_says_that_alone() {
    for at in [20, 90] {
        let job = Job::new(CONFIGURATIONS[0]);
        let ended = job.run("callback_misuse", &format!("finalize={at}")).end();
        assert!(ended.status.success() && ended.stdout.contains("ended"), "{}", ended.stdout);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        job.run("callback_misuse", "").succeed();
        let ended = job.run("callback_misuse", &format!("child={at}")).succeed();
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains("was forked from"), "{}", ended.stderr);
    }
}

/// Catches a run that can be begun anew only by hand, because its remaining files, also in
/// persistent, make a computation of another size fail for ever; and a removal of other files.
#[test]
fn a_run_is_discarded() {
    for configuration in &CONFIGURATIONS[..2] {
        let job = Job::new(configuration);
        for kill in [20, 90] {
            let _ = job.run("callback_misuse", &format!("kill={kill}")).end();
            let ended = job.run("callback_misuse", "grown=1").end();
            assert!(ended.stdout.contains("refused"), "{}", ended.stdout);
            job.run("callback_misuse", "discard=1").succeed();
            wait_for_backends(&job);
            for directory in [job.scratch(), job.persistent()] {
                let left = names(&directory).into_iter().filter(|name| name.starts_with("meddle"));
                // The last line of the program leaves persistent copies of its own.
                let left: Vec<String> = left.filter(|name| name != "meddle-0-1.dat").collect();
                assert_eq!(left, [""; 0], "{configuration}");
            }
            std::fs::remove_dir_all(job.persistent()).ok();
        }
    }
}
