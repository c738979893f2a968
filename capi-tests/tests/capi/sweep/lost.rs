//! Adjoint computations whose states find no place in files, or lose it: what is lost is computed again, and
//! said once.

use capi_tests::ground::Ground;
use capi_tests::job::{names, Job};
use capi_tests::run::Ended;

use super::{ASYNC, SYNC};
use crate::failing::on_each;

/// How often a run has said that something stays out of its files.
fn said(ended: &Ended) -> usize {
    ended.stderr.matches("stores nothing there").count()
}

/// The scratch directory is removed while a run is under way: memory has the states, so it comes to its
/// end, wherever that happens, and says once what has become of its files. Catches a run that ends by a
/// failure which some call happens to hear of, one that speaks of each state, and a VELOC_Finalize that
/// fails because of a run that nobody needs any more.
#[test]
fn a_scratch_directory_that_is_removed() {
    for gone in [1, 40, 149, 150, 151, 160, 190, 240, 300] {
        for more in ["", "verify=1", "bytes=300000 slots=9"] {
            let job = Job::new(ASYNC);
            let plan = format!("steps=150 adjoint=3 gone={gone} scratch=DIR/scratch {more}");
            let ended = job.run("sweep", &plan).succeed();
            assert_eq!(said(&ended), 1, "{plan}: {}", ended.stderr);
            let directory = format!("{} is not the directory that it was", job.scratch().display());
            assert!(ended.stderr.contains(&directory), "{}", ended.stderr);
            assert!(ended.stderr.contains("No such file"), "{}", ended.stderr);
            // It may have lost a state between two looks, too.
            assert!(ended.complaints().len() <= 3, "{plan}: {}", ended.stderr);
        }
    }
}

/// States that have left memory go with the directory. Those that can be computed again are; if state 0
/// is among them, the run says why it cannot go on, and the next call does.
#[test]
fn states_that_are_lost_are_computed_again() {
    let job = Job::new(&format!("{ASYNC}host_cache_size = 256K\n"));
    let plan = "bytes=100000 slots=5 distance=0 adjoint=5 verify=1 gone=130 scratch=DIR/scratch";
    let words = "No_such_file|cannot_be_computed_again";
    job.run("sweep", &format!("{plan} again=1 expect={words}")).succeed();
    // One state alone, in the first sweep and after it.
    for gone in [70, 120, 180, 240] {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
        let plan = format!("verify=1 gone={gone} scratch=DIR/scratch/sweep-0-2.dat");
        let ended = job.run("sweep", &plan).succeed();
        let lost = ended.stderr.matches("is lost").count();
        assert!(lost == 1 || lost == 0 && gone > 200, "{gone}: {}", ended.stderr);
        assert_eq!(names(&job.scratch()), [""; 0]);
    }
}

/// A call after one that has failed, which has left states in memory alone, and not state 0, whose file is
/// gone: memory that is full of them takes state 0 all the same. Catches a run that can never begin, as
/// what is in its way would only go at its end.
#[test]
fn state_0_takes_the_room_of_what_is_of_no_use_without_it() {
    // Memory for two states. Four are written; the next two stay in memory, and displace the others.
    let job = Job::new(&format!("{ASYNC}host_cache_size = 256K\n"));
    let plan = "bytes=100000 steps=20 slots=20 distance=0 adjoint=0 wait=5 gone=5 full=5 fail=12";
    let more = "scratch=DIR/scratch/sweep-0-0.dat expect=returned_-1 again=1";
    let ended = job.run("sweep", &format!("{plan} {more}")).env("VELOC_LOG", "info").succeed();
    assert!(ended.stderr.contains("state 0 takes the room"), "{}", ended.stderr);
}

/// Scratch becomes read-only with the last step: the application has its adjoint, and is told what remains.
/// Catches a run that fails at its end, and one that goes on from what an ended one has left, whose states
/// may be others.
#[test]
fn what_cannot_be_removed_at_the_end_is_said() {
    for configuration in [ASYNC, SYNC] {
        let whole = Job::new(configuration).run("sweep", "").succeed().figure("computed");
        on_each(configuration, "scratch", |job, ground| {
            let plan = format!("wait={whole} at={whole} runs=2 expect=cannot_be_removed|Read-only");
            let run = job.run("sweep", &plan).arg(format!("shell={}", ground.to_read_only()));
            let ended = ground.under(run).succeed();
            let said = ended.stderr.matches("checkpoints of the run remain").count();
            assert!(said == 1 && ended.stderr.contains("sweep-0-0.dat"), "{}", ended.stderr);
        });
    }
}

/// Memory that does not hold as many states as there are slots, while no file takes any: the run goes on
/// with fewer. Where it has no memory for them at all, it fails with the cause, and goes on later.
#[test]
fn files_that_cannot_be_written() {
    let mut went_on = 0;
    for full in [1, 60, 99, 103, 140, 200] {
        let plan = format!("bytes=100000 slots=8 adjoint=5 verify=1 full={full}");
        for more in ["", "persistent = DIR/persistent\n"] {
            let job = Job::new(&format!("{ASYNC}host_cache_size = 400K\n{more}"));
            let ended = job.run("sweep", &plan).succeed();
            assert!(said(&ended) <= 1, "{plan}: {}", ended.stderr);
            // What cannot be written, and 7, 3 and 1 slots.
            assert!(ended.stderr.matches("the run goes on with").count() <= 4, "{}", ended.stderr);
            println!("{plan}: {} steps", ended.figure("computed"));
        }
        let job = Job::new(SYNC);
        let ended = job.run("sweep", &plan).end();
        println!("{plan}, sync: {}{}", ended.stdout, ended.stderr);
        went_on += u32::from(ended.status.success());
        if !ended.status.success() {
            assert!(ended.stdout.contains("File too large"), "{}", ended.stdout);
            assert!(ended.stdout.contains("steps would remain instead of"), "{}", ended.stdout);
        }
        assert!(said(&ended) <= 1, "{plan}: {}", ended.stderr);
        assert!(ended.stderr.matches("the run goes on with").count() <= 4, "{}", ended.stderr);
        job.run("sweep", "bytes=100000 slots=8 adjoint=5 verify=1").succeed();
    }
    assert!(went_on > 2, "{went_on}");
    // Nothing but memory, and too little of it.
    let job = Job::new("mode = async\nephemeral = true\nhost_cache_size = 256K\n");
    let ended = job.run("sweep", "bytes=100000 slots=8").succeed();
    assert!(ended.stderr.contains("instead of 8"), "{}", ended.stderr);
}

/// With `mode = sync` a run whose scratch directory has room for four states only goes on with these, each
/// of which makes room for the next one when the adjoint has passed it. Catches a run that ends there, and
/// one that has a slot less with each state.
#[test]
fn a_full_directory_without_memory() {
    let job = Job::new(SYNC);
    let grounds = [
        Some(Ground::injected(&job, "scratch", 450_000)),
        Ground::mounted(&job, "scratch", 450_000),
    ];
    for ground in grounds.iter().flatten() {
        let run = job.run("sweep", "bytes=100000 slots=8 adjoint=5 verify=1");
        let ended = ground.under(run.env("VELOC_LOG", "info")).succeed();
        let said = ended.stderr.matches("the run goes on with 4 slots instead of 8").count();
        assert!(said == 1 && ended.stderr.matches("instead of").count() == 1, "{}", ended.stderr);
    }
}

/// With `mode = sync` a run whose scratch directory becomes read-only goes on with the states that are there,
/// and computes the others again; but not if that were nearly all of it, again and again. Catches a run
/// that ends with the first state that cannot be stored, and one that never ends.
#[test]
fn a_read_only_directory_without_memory() {
    for (at, goes_on) in [(20, false), (60, true), (99, true), (140, true), (200, true)] {
        let job = Job::new(SYNC);
        let ground = Ground::injected(&job, "scratch", 4 << 20);
        let plan = format!("bytes=100000 slots=8 adjoint=5 verify=1 at={at}");
        let run = job.run("sweep", &plan).arg(format!("shell={}", ground.to_read_only()));
        if !goes_on {
            let words = "expect=Read-only|with_the_1_states|4950_steps_would_remain_instead_of_215";
            ground.under(run.arg(words)).succeed();
            continue;
        }
        let ended = ground.under(run).succeed();
        let said = ended.stderr.matches("the run goes on with").count();
        assert!((1..=4).contains(&said), "{plan}: {}", ended.stderr);
    }
}

/// With `mode = sync`, states that come to scratch and not to persistent are not lost: no step is computed
/// more than without that. Catches a run that takes them for states that were not stored.
#[test]
fn a_persistent_directory_that_becomes_read_only() {
    let configuration = format!("{SYNC}persistent = DIR/persistent\n");
    let whole = Job::new(&configuration).run("sweep", "").succeed().figure("computed");
    on_each(&configuration, "persistent", |job, ground| {
        let run = job.run("sweep", "at=40").arg(format!("shell={}", ground.to_read_only()));
        let ended = ground.under(run).succeed();
        assert_eq!(ended.figure("computed"), whole);
        assert_eq!(said(&ended), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains("persistent = "), "{}", ended.stderr);
    });
}

/// A checkpoint of the application's own that cannot be written is the application's to hear of. Catches
/// a run that takes the failure for one of its own.
#[test]
fn failures_of_the_application_are_its_own() {
    for own in [50, 120, 200] {
        let job = Job::new(ASYNC);
        let plan = format!("steps=150 full=45 own={own}");
        job.run("sweep", &plan).succeed();
    }
}
