//! Which run made a checkpoint: processes are restored from one run, and no job touches what another one needs.

use std::fs;

use capi_tests::backends::MARK;
use capi_tests::job::Job;
use capi_tests::mpi::Mpi;
use capi_tests::program::{mpi_program, staged};
use capi_tests::run::Run;

use crate::mpi::every_mpi;

/// A run on so many processes; `None` without MPI.
fn of(mpi: &Mpi, job: &Job, processes: usize, commands: &str) -> Option<Run> {
    let run = mpi.start(processes)?.arg(mpi_program(mpi.compiler, "script.c"));
    Some(run.arg(job.path("veloc.cfg")).args(commands))
}

/// A run that kills itself, after its commands did what they should.
fn ends_by_kill(run: Run) {
    let ended = run.end();
    assert!(!ended.status.success() && !ended.stdout.contains("script.c"), "{}", ended.stdout);
}

/// Run A is killed after ranks 1 and 2 have taken version 5, run B, which goes on from 4, after rank 0 has. Catches
/// ranks that are restored from two runs, also without a question for the newest version.
#[test]
fn ranks_are_restored_from_one_run() {
    for mpi in every_mpi() {
        for (mode, chksum) in [("sync", false), ("async", false), ("sync", true)] {
            let job = Job::new(&format!(
                "mode = {mode}\nscratch = DIR/scratch\nmeta = DIR/meta\nchksum = {chksum}\n"
            ));
            let killed = "wait barrier kill";
            let commands = format!("take=x:3 take=x:4 @1:take=x:5:50 @2:take=x:5:50 {killed}");
            let Some(run) = mpi.script(&job, &commands) else { return };
            ends_by_kill(run);
            let commands = format!("newest=x:4 restore=x:4 @0:take=x:5:60 {killed}");
            ends_by_kill(mpi.script(&job, &commands).unwrap());
            let words = "version_5|different_runs";
            let commands = format!(
                "refuse=x:5:{words} nolist=x:5:{words} newest=x:4 list=x:4 restore=x:4 take=x:5:70 wait"
            );
            mpi.script(&job, &commands).unwrap().succeed();
            // What one process lacks, the others are told.
            let commands =
                "newest=x:5 restore=x:5:70 @1:id=9 nolist=x:5:no_region_9 @1:id=1 list=x:5:70";
            mpi.script(&job, commands).unwrap().succeed();
        }
    }
}

/// Persistent has a version of run A on all processes, and scratch one of run B on one. Catches a version that is
/// passed over though all have it, and one process that takes the nearest copy.
#[test]
fn the_copy_that_all_have_is_restored() {
    for mpi in every_mpi() {
        let scratch = "mode = sync\nscratch = DIR/scratch\n";
        let both = format!("{scratch}persistent = DIR/persistent\n");
        let job = Job::new(&both);
        let Some(run) = mpi.script(&job, "take=x:4 take=x:5:50") else { return };
        run.succeed();
        job.configure(scratch);
        ends_by_kill(mpi.script(&job, "restore=x:4 @0:take=x:5:60 barrier kill").unwrap());
        mpi.script(&job, "newest=x:4").unwrap().succeed();
        job.configure(&both);
        mpi.script(&job, "newest=x:5 restore=x:5:50 take=x:6 restore=x:5:50").unwrap().succeed();
    }
}

/// A number is taken again by one process alone. Catches versions of one run that pass for one.
#[test]
fn a_number_that_is_taken_again_is_another_version() {
    for mpi in every_mpi() {
        for mode in ["sync", "async"] {
            let job = Job::new(&format!("mode = {mode}\nscratch = DIR/scratch\n"));
            let takes = "take=x:0 take=x:1 take=x:0:20 wait barrier";
            let commands = format!("{takes} @1:take=x:1:30 wait barrier kill");
            let Some(run) = mpi.script(&job, &commands) else { return };
            ends_by_kill(run);
            mpi.script(&job, "newest=x:0 restore=x:0:20 refuse=x:1").unwrap().succeed();
        }
    }
}

/// Files of the application's own, in scratch and at the paths that links in persistent lead to.
#[test]
fn routed_files_are_restored_from_one_run() {
    for mpi in every_mpi() {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
        let on = |ranks: &[u32], call: &str| -> String {
            let file = |rank| job.path(&format!("own-{rank}")).display().to_string();
            ranks.iter().map(|rank| format!("@{rank}:{call}:{} ", file(rank))).collect()
        };
        let (first, restored) = (on(&[0, 1, 2], "route=x:1"), on(&[0, 1, 2], "reroute=x:1"));
        let commands = format!("{first}{}barrier kill", on(&[1, 2], "route=x:2"));
        let Some(run) = mpi.script(&job, &commands) else { return };
        ends_by_kill(run);
        let commands = format!("newest=x:1 {restored}{}barrier kill", on(&[0], "route=x:2"));
        ends_by_kill(mpi.script(&job, &commands).unwrap());
        mpi.script(&job, &format!("newest=x:1 {restored}")).unwrap().succeed();
    }
}

/// Each process has its part of an aggregated file of run A, and one of them a file of run B.
#[test]
fn aggregated_files_are_of_one_run() {
    for mpi in every_mpi() {
        let scratch = "mode = sync\nscratch = DIR/scratch\nmeta = DIR/meta\n";
        let job = Job::new(&format!("{scratch}persistent = DIR/persistent\naggregated = true\n"));
        let Some(run) = mpi.script(&job, "take=x:4 take=x:5:50 wait") else { return };
        run.succeed();
        fs::remove_dir_all(job.scratch()).unwrap();
        job.configure(scratch);
        ends_by_kill(mpi.script(&job, "@0:take=x:5:60 barrier kill").unwrap());
        job.configure(&format!("{scratch}persistent = DIR/persistent\naggregated = true\n"));
        mpi.script(&job, "newest=x:5 restore=x:5:50").unwrap().succeed();
    }
}

/// Run A is killed after processes 1 and 2 have handed version 5 over, run B after process 0 has. Catches memory that
/// passes for any run's.
#[test]
fn memory_that_is_handed_over_is_of_one_run() {
    for mpi in every_mpi() {
        let job = Job::new("");
        let name = format!("capi-tests-runs-{}", std::process::id());
        job.configure(&format!(
            "mode = async\nephemeral = true\nhost_cache_size = 16M\nhand_over = {name}\nlog_prefix = DIR/log\n"
        ));
        let commands = "take=x:4 @1:take=x:5:50 @2:take=x:5:50 barrier kill";
        let Some(run) = mpi.script(&job, commands) else { return };
        ends_by_kill(run);
        ends_by_kill(
            mpi.script(&job, "newest=x:4 restore=x:4 @0:take=x:5:60 barrier kill").unwrap(),
        );
        let commands = "refuse=x:5:different_runs newest=x:4 restore=x:4 take=x:5:70 newest=x:5";
        mpi.script(&job, commands).unwrap().succeed();
        let drop = Run::new(&staged().bin().join("veloc-backend")).env(MARK, job.path(""));
        assert!(drop.args(&format!("drop {name}")).end().status.success());
    }
}

/// Process 1's file of run A is rebuilt, and then run B takes that version on process 0 alone. Catches a rebuilt file
/// without its run.
#[test]
fn a_file_that_is_rebuilt_is_of_the_run_that_made_it() {
    for mpi in every_mpi() {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\nec_interval = 0\n");
        let Some(run) = of(mpi, &job, 2, "take=x:4 take=x:5:50") else { return };
        run.succeed();
        let lost = job.scratch().join("x-1-5.dat");
        fs::remove_file(&lost).unwrap();
        of(mpi, &job, 2, "newest=x:5 restore=x:5:50").unwrap().succeed();
        assert!(lost.exists(), "it was not rebuilt");
        ends_by_kill(of(mpi, &job, 2, "restore=x:4 @0:take=x:5:60 barrier kill").unwrap());
        let commands = "refuse=x:5:different_runs newest=x:4 restore=x:4";
        of(mpi, &job, 2, commands).unwrap().succeed();
    }
}

/// Two processes, started by mistake where three have left versions, destroy nothing, and say how they could go on.
#[test]
fn another_number_of_processes_destroys_nothing() {
    for mpi in every_mpi() {
        for mode in ["sync", "async"] {
            let job = Job::new(&format!(
                "mode = {mode}\nscratch = DIR/scratch\npersistent = DIR/persistent\nmax_versions = 3\n\
                 scratch_versions = 3\n"
            ));
            let Some(run) = of(mpi, &job, 3, "take=x:5 take=x:10 wait") else { return };
            run.succeed();
            let words = "3_ranks|has_2|Cleanup|proof_=_accept";
            let refused = match mode {
                "sync" => {
                    format!("newest=x:-1 fail=x:5:{words} fail=x:10:{words} take=x:11 take=x:12")
                }
                _ => format!(
                    "newest=x:-1 take=x:5 late={words}|scratch_keeps_its_older_file \
                     take=x:11 take=x:12"
                ),
            };
            let more = "take=x:13 take=x:14 take=x:15";
            // A restart that fails, also of one process alone, allows nothing, nor does that of one's own.
            if mode == "sync" {
                let commands =
                    "refuse=x:5 fail=x:5:3_ranks take=x:16 restore=x:16 fail=x:5:3_ranks";
                of(mpi, &job, 1, commands).unwrap().succeed();
                fs::remove_file(job.scratch().join("x-0-16.dat")).unwrap();
                fs::remove_file(job.persistent().join("x-0-16.dat")).unwrap();
            }
            // What an async job has not written, its backend is refused as well.
            let commands = format!("{refused} {more} barrier kill");
            ends_by_kill(of(mpi, &job, 2, &commands).unwrap());
            of(mpi, &job, 3, "newest=x:10 restore=x:10 restore=x:5").unwrap().succeed();
            // A job that has said that it means it.
            let commands = "cleanup=x take=x:5:50 wait newest=x:15 restore=x:5:50";
            of(mpi, &job, 2, commands).unwrap().succeed();
        }
    }
}

/// Files that do not say which run made them are restored as before, and that is said once.
#[test]
fn what_is_not_known_is_restored_and_said() {
    for mpi in every_mpi() {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\nproof = off\n");
        let Some(run) = mpi.script(&job, "take=x:1 take=x:2") else { return };
        run.succeed();
        job.configure("mode = sync\nscratch = DIR/scratch\n");
        let ended = mpi.script(&job, "newest=x:2 restore=x:2 restore=x:1").unwrap().succeed();
        assert_eq!(ended.stderr.matches("do not say which run").count(), 1, "{}", ended.stderr);
    }
}

/// A second job of the same configuration is refused while the first one is alive, and not after a kill.
#[test]
fn two_live_jobs_do_not_share_a_name() {
    for mode in ["sync", "async"] {
        let job = Job::new(&format!("mode = {mode}\nscratch = DIR/scratch\n"));
        let first = job.run("script", "take=x:1 wait sleep=1000000").start();
        while !job.scratch().join("x-0-1.dat").exists() {
            std::thread::yield_now();
        }
        let words = format!("\"x\"|process_{}_|is_at_work|with_a_number_for_each", first.id());
        // Other names, other ranks and readers are free.
        let commands = format!("newest=x:1 restore=x:1 fail=x:2:{words} take=y:1 newest=x:1");
        job.run("script", &commands).succeed();
        job.run("script", "rank=1 take=x:1").succeed();
        first.signal(libc::SIGKILL);
        assert!(!first.end().status.success());
        job.run("script", "newest=x:1 take=x:2 drain take=x:3 newest=x:3").succeed();
    }
}
