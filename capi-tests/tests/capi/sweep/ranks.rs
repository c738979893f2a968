//! Adjoint computations of several processes: killed together, and stopped together.

use capi_tests::backends::{wait_for_backends, MARK};
use capi_tests::job::{names, Job};
use capi_tests::program::mpi_program;
use capi_tests::random::Random;

use super::{result, ASYNC};
use crate::mpi::every_mpi;

/// Processes of a job without a common pace, killed together at many places: all go on from
/// checkpoints that all have. Catches a restart from another state, or from another adjoint, than
/// the others'.
#[test]
fn ranks_are_killed() {
    let plan = "20000 12 4000 500";
    for mpi in every_mpi() {
        let job = Job::new(&format!("{ASYNC}persistent = DIR/persistent\n"));
        let run = |job: &Job| {
            let run = mpi.start(2)?.env(MARK, job.path(""));
            let run = run.arg(mpi_program(mpi.compiler, "hager.c"));
            Some(run.arg(job.path("veloc.cfg")).args(plan))
        };
        let mut random = Random::seeded("sweep::ranks_are_killed");
        let free = Job::new("mode = async\nephemeral = true\n");
        let Some(reference) = run(&free) else { return };
        let reference = reference.succeed();
        let steps = reference.figure("computed");
        for round in 0..6 {
            let at = 1 + if round < 2 { random.below(20_000) } else { random.below(steps / 4) };
            let run = run(&job).unwrap().env("DIE_AT", at.to_string());
            let ended = run.env("DIE_ON", (round % 2).to_string()).end();
            println!("dies at {at}: {:?}", ended.stdout.lines().collect::<Vec<_>>());
            if ended.stdout.lines().any(|line| line == "done") {
                break;
            }
            // The last backend of the killed processes may be slower than the next job's start.
            // Files to be removed must not be renamed meanwhile.
            if round % 3 == 2 || round == 4 {
                wait_for_backends(&job);
            }
            if round == 4 {
                // One process has lost its node's disk.
                for name in names(&job.scratch()).iter().filter(|name| name.contains("-1-")) {
                    std::fs::remove_file(job.scratch().join(name)).unwrap();
                }
            }
        }
        let last = run(&job).unwrap().succeed();
        assert_eq!(result(&last), result(&reference));
        wait_for_backends(&job);
        for directory in [job.scratch(), job.persistent()] {
            assert_eq!(names(&directory), [""; 0]);
        }
    }
}

/// The time is over for one process first: all stop at the same step, and go on from there.
#[test]
fn ranks_stop_together() {
    for mpi in every_mpi() {
        let job = Job::new(ASYNC);
        let run = |seconds: &str| {
            let run = mpi.start(2)?.env(MARK, job.path(""));
            let run = run.arg(mpi_program(mpi.compiler, "hager.c"));
            Some(run.env("SECONDS", seconds).arg(job.path("veloc.cfg")).args("30000 12 4000 500"))
        };
        if mpi.start(2).is_none() {
            return;
        }
        // A fast machine comes to the end before that, and leaves no files.
        let mut jobs = ["0.2", "0.05", "0.01"].into_iter().map(|time| run(time).unwrap().succeed());
        let stopped = jobs.find(|ended| ended.stdout.contains("stopped; "));
        let stopped = stopped.expect("no job is stopped by the time");
        let ended = run("0").unwrap().succeed();
        assert_eq!(result(&ended).len(), 9);
        // Steps that were done before are not done again: in all 212,868 steps are needed.
        let computed = stopped.figure("computed") + ended.figure("computed");
        assert!(computed < 240_000, "{}{}", stopped.stdout, ended.stdout);
    }
}
