//! Adjoint computations of several processes, one of which fails: all end with the error of that
//! process, and go on together. The processes check this in `mpi/adjoint_failures.c`.

use capi_tests::backends::{wait_for_backends, MARK};
use capi_tests::depth::{cases, is_all};
use capi_tests::job::{names, Job};
use capi_tests::program::{mpi_faults, mpi_program};
use capi_tests::random::Random;
use capi_tests::run::{Ended, Run};

use crate::mpi::{every_mpi, Mpi, MPICH, OPEN_MPI};

const SYNC: &str = "mode = sync\nscratch = DIR/scratch\n";

/// A run of the program, if this MPI is installed.
pub(crate) fn ring(mpi: &'static Mpi, job: &Job, processes: usize, arguments: &str) -> Option<Run> {
    let run = mpi.start(processes)?.arg(mpi_program(mpi.compiler, "../mpi/adjoint_failures.c"));
    let directory = format!("dir={}", job.path("").display());
    Some(run.arg(job.path("veloc.cfg")).arg(directory).args(arguments))
}

fn failed(ended: &Ended) -> u64 {
    println!("{}", ended.stdout);
    ended.figure("failed")
}

/// Callbacks, states that are not the same again, and files that cannot be written, on any process
/// and at any step, forward and reverse, while the others are elsewhere. Catches a process that is
/// not told and waits, an error with another process's reason, a communicator that is left, and a
/// run that cannot go on from what a failed run has left.
#[test]
fn failures_of_one_are_told_to_all() {
    for (mpi, processes, seed) in cases(1, [(&OPEN_MPI, 3, 1), (&MPICH, 2, 2)]) {
        let job = Job::new(SYNC);
        let times = if is_all() { 40 } else { 16 };
        let arguments = format!("lone=1 verify=1 kinds=ccsd times={times} seed={seed}");
        let Some(run) = ring(mpi, &job, processes, &arguments) else { continue };
        assert!(failed(&run.succeed()) > times / 2);
    }
}

/// A bit changes in a stored state of one process: that process names it, and does its steps until
/// all know; the state is removed, and the next run does without it. Catches a damaged state that a
/// run goes on from, a damaged state that stays, and a process that leaves the others waiting.
#[test]
fn a_state_that_was_damaged_is_named_and_removed() {
    for (mpi, processes, lone) in cases(1, [(&OPEN_MPI, 3, 0), (&MPICH, 2, 0), (&MPICH, 2, 1)]) {
        // With proofs the state would be refused before it is compared.
        let job = Job::new(&format!("{SYNC}proof = off\n"));
        let arguments = format!("lone={lone} verify=1 kinds=b times=3 seed=7");
        let Some(run) = ring(mpi, &job, processes, &arguments) else { continue };
        let ended = run.succeed();
        assert_eq!(failed(&ended), 3);
        // The last run went on: state 0, and the states behind the damaged one, were there.
        assert!(ended.figure("first") < 300, "{}{}", ended.stdout, ended.stderr);
    }
}

/// A state of one process differs when it is computed again, and so do the states that the others
/// compute from it in the next steps: all name that process and that state. Catches a message that
/// names the lowest process instead.
#[test]
fn the_first_state_that_differs_is_named_by_all() {
    for (mpi, processes, seed) in cases(1, [(&OPEN_MPI, 3, 4), (&MPICH, 2, 6)]) {
        let job = Job::new(SYNC);
        let arguments = format!("verify=1 kinds=d times=8 seed={seed}");
        let Some(run) = ring(mpi, &job, processes, &arguments) else { continue };
        assert!(failed(&run.succeed()) > 2);
    }
}

/// Failures of processes that exchange something in each step, at any step, forward and reverse: a
/// process that cannot store goes on with its steps until all know, and needs no state that it
/// could not store. Catches a process that ends at once, or that needs a state it does not have,
/// and leaves the others waiting in a step.
#[test]
fn who_cannot_store_keeps_nobody_waiting() {
    for (mpi, device) in cases(1, [(&OPEN_MPI, true), (&MPICH, false), (&MPICH, true)]) {
        let job = Job::new(SYNC);
        let arguments = format!("kinds=s times=12 pace=200 steps=250 device={}", u8::from(device));
        let Some(run) = ring(mpi, &job, 2, &arguments) else { continue };
        let ended = if device { run.with_device() } else { run }.succeed();
        assert!(failed(&ended) > 4);
        assert!(!ended.stderr.contains("MPI_Abort"), "{}", ended.stderr);
    }
}

/// One process has another name, other numbers, or impossible arguments: all are told, and the next
/// run works. Catches a process that begins alone, or returns alone and is waited for.
#[test]
fn who_is_asked_for_something_else_is_told() {
    for mpi in every_mpi() {
        for more in ["", "ec_interval = 0\n"] {
            let job = Job::new(&format!("{SYNC}{more}"));
            let Some(run) = ring(mpi, &job, 2, "differ=1") else { continue };
            run.succeed();
        }
    }
}

/// MPI fails on one process, when it sends or when it receives: all are told nevertheless.
#[test]
fn failures_of_mpi_are_told_to_all() {
    for (mpi, faults) in cases(
        1,
        [
            (&OPEN_MPI, &["MPI_Wait:0:4:1"][..]),
            (&MPICH, &["MPI_Iallreduce:0:1:1", "MPI_Iallreduce:0:4:1", "MPI_Wait:0:3:1"]),
        ],
    ) {
        for fault in faults {
            let job = Job::new(SYNC);
            let Some(run) = ring(mpi, &job, 2, "lone=1 kinds=m times=1 at=1") else { continue };
            let run = run.env("LD_PRELOAD", mpi_faults(mpi.compiler, &job.path("")));
            assert_eq!(failed(&run.env("MPI_FAULT", fault).succeed()), 1, "{fault}");
        }
    }
}

/// A callback fails while the other processes wait for its process in theirs: the failing one gets
/// its error, and can end the job. Catches a process that waits for ever for those that wait for
/// it.
#[test]
fn who_is_waited_for_in_a_step_gets_its_error() {
    let job = Job::new(SYNC);
    let Some(run) = ring(&OPEN_MPI, &job, 2, "kinds=c times=1 within=50 abort=1") else { return };
    let ended = run.end();
    assert!(!ended.status.success());
    let told = std::fs::read_to_string(job.path("told")).unwrap_or_default();
    assert!(told.contains("returned -1"), "{told}{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("MPI_Abort"), "{}", ended.stderr);
}

/// Stops that one process asks for, at many places: all stop at the same step, and go on from there.
#[test]
fn stops_of_one_are_stops_of_all() {
    for (mpi, arguments) in cases(1, [(&OPEN_MPI, "lone=1 stop=1:170"), (&MPICH, "stop=0:230")]) {
        let job = Job::new("mode = async\nscratch = DIR/scratch\n");
        let Some(run) = ring(mpi, &job, 2, arguments) else { continue };
        let stopped = run.succeed().figure("stopped");
        assert!(stopped > 1, "{stopped}");
    }
}

/// Checkpoints of the application's own, between runs that fail on one process: their old versions
/// are removed, whatever the processes have stored of the runs. Catches processes that have begun
/// different numbers of agreements after such a run: they would keep all versions.
#[test]
fn after_a_failure_the_processes_agree_again() {
    let all = [(&OPEN_MPI, 3, "ccs"), (&MPICH, 2, "cs"), (&MPICH, 3, "sc")];
    for (mpi, processes, kinds) in cases(1, all) {
        for mode in ["sync", "async"] {
            let job =
                Job::new(&format!("mode = {mode}\nscratch = DIR/scratch\nscratch_versions = 1\n"));
            let arguments = format!("lone=1 verify=1 own=3 times=6 kinds={kinds} seed=5");
            let Some(run) = ring(mpi, &job, processes, &arguments) else { continue };
            let ended = run.succeed();
            let failed = failed(&ended);
            assert!(failed > 1 || mode == "async");
            assert!(!ended.stderr.contains("different checkpoints"), "{}", ended.stderr);
            for rank in 0..processes {
                let last = format!("own-{rank}-20.dat");
                assert_eq!(names(&job.path(&format!("scratch-{rank}"))), [last]);
            }
        }
    }
}

/// The scratch directory of one process is lost, and later that of another: its files are rebuilt
/// from the parities of the others, and the run goes on where it was. Catches a run that looks only
/// at existing files, an adjoint that is removed before the next has parities, and parities not
/// made again.
#[test]
fn what_a_lost_directory_had_is_rebuilt() {
    for (mpi, mode) in cases(1, [(&OPEN_MPI, "async"), (&MPICH, "sync")]) {
        let configuration = format!("mode = {mode}\nscratch = DIR/scratch\nec_interval = 0\n");
        let job = Job::new(&configuration);
        let run = |arguments: &str| {
            let arguments = format!("lone=1 verify=1 {arguments}");
            Some(ring(mpi, &job, 3, &arguments)?.env("VELOC_LOG", "info").succeed())
        };
        let Some(whole) = run("") else { continue };
        assert_eq!(whole.figure("first"), 300);
        let lose = |rank: usize| std::fs::remove_dir_all(job.path(&format!("scratch-{rank}")));
        run("kinds=c times=1 at=700 leave=1").unwrap();
        lose(1).unwrap();
        let ended = run("kinds=c times=1 at=40 leave=1").unwrap();
        assert!(ended.stderr.contains("it was rebuilt from"), "{}", ended.stderr);
        lose(2).unwrap();
        let ended = run("").unwrap();
        assert!(ended.stderr.contains("it was rebuilt from"), "{}", ended.stderr);
        assert!(ended.figure("first") < 270, "{}{}", ended.stdout, ended.stderr);
        let (more, all) = (ended.figure("computed"), whole.figure("computed"));
        assert!(more + 400 < all, "{more} steps more, of {all}");
        for rank in 0..3 {
            assert_eq!(names(&job.path(&format!("scratch-{rank}"))), [""; 0]);
        }
    }
}

/// Parities are made of few versions: the last adjoint that has any stays until the next one has
/// them. Catches an adjoint that is removed because of newer ones that are lost with a directory.
#[test]
fn what_has_parities_at_intervals_stays() {
    for mpi in every_mpi() {
        let job = Job::new("mode = async\nscratch = DIR/scratch\nec_interval = 1\n");
        let run = |arguments: &str| {
            let arguments = format!("lone=1 adjoint=5 {arguments}");
            Some(ring(mpi, &job, 2, &arguments)?.env("VELOC_LOG", "info").succeed())
        };
        if run("pace=4000 kinds=c times=1 at=500 leave=1").is_none() {
            continue;
        }
        std::fs::remove_dir_all(job.path("scratch-1")).unwrap();
        let ended = run("").unwrap();
        assert!(ended.stderr.contains("it was rebuilt from"), "{}", ended.stderr);
        assert!(ended.figure("first") < 296, "{}{}", ended.stdout, ended.stderr);
        for rank in 0..2 {
            assert_eq!(names(&job.path(&format!("scratch-{rank}"))), [""; 0]);
        }
    }
}

/// A process is killed, and the directory of one is lost, again and again. Catches files and
/// parities of different moments that are taken for those of the same.
#[test]
fn what_a_killed_job_has_left_of_a_lost_directory_is_rebuilt() {
    let mut random = Random::seeded("adjoint_failures::what_a_killed_job_has_left");
    for (mpi, lone) in cases(1, [(&OPEN_MPI, 0), (&MPICH, 1)]) {
        let job = Job::new("mode = async\nscratch = DIR/scratch\nec_interval = 0\n");
        let run = |arguments: &str| {
            let arguments = format!("lone={lone} verify=1 pace=300 {arguments}");
            Some(ring(mpi, &job, 3, &arguments)?.env(MARK, job.path("")))
        };
        let mut rebuilt = 0;
        for _ in 0..3 {
            let at = 200 + random.below(500);
            let Some(run) = run(&format!("kinds=k times=1 at={at}")) else { return };
            let ended = run.end();
            rebuilt += ended.stderr.matches("it was rebuilt from").count();
            assert!(!ended.stdout.contains("did not succeed"), "{}", ended.stdout);
            if ended.status.success() {
                break;
            }
            wait_for_backends(&job);
            let lost = job.path(&format!("scratch-{}", random.below(3)));
            std::fs::remove_dir_all(lost).unwrap();
        }
        let last = run("").unwrap().succeed();
        rebuilt += last.stderr.matches("it was rebuilt from").count();
        println!("{rebuilt} files were rebuilt");
        for rank in 0..3 {
            assert_eq!(names(&job.path(&format!("scratch-{rank}"))), [""; 0]);
        }
    }
}
