//! Mistakes that lose data in silence with VELOC: each is told in one line, and the right program beside it is not.

use std::fs;
use std::process::Command;

use capi_tests::job::Job;
use capi_tests::program::mpi_program;

use crate::mpi::every_mpi;

const SYNC: &str = "mode = sync\nscratch = DIR/scratch\n";
const ASYNC: &str = "mode = async\nscratch = DIR/scratch\n";

/// The lines of warnings.
fn warnings(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| line.contains(": warning: ")).collect()
}

/// Catches a guard that is silent, one that repeats itself, and one that warns of the right program.
#[test]
fn mistakes_are_told_and_right_programs_are_not() {
    let cases: &[(&str, &[&str])] = &[
        ("end-with-zero", &["version 1 has its regions and is kept"]),
        ("file-with-zero", &["version 1, the file", "is given up"]),
        ("no-end", &[]),
        ("same-id", &["region 0: protected again at another address"]),
        (
            "pointers",
            &["region 0: it begins with addresses", "region 1: it begins", "region 2: it begins"],
        ),
        ("stack", &["region 3: its memory was the stack of a routine that has returned"]),
        ("variable", &["region 3: its memory was the stack of a routine that has returned"]),
        ("no-bytes", &["region 0: its size is 0"]),
        ("other-size", &["region 0: 4000 of 8000 bytes are restored"]),
        ("own-regions", &["region 0 (VELOC_Mem_protect) was in no checkpoint: those of \"a\""]),
    ];
    for configuration in [SYNC, ASYNC] {
        for (case, told) in cases {
            // Without a backend, about which a slow machine would print a warning.
            let run = |arguments: &str| {
                let job = Job::new(configuration);
                let run = job.run("mistakes", arguments).env("VELOC_THREADED", "true");
                let here = |command: &mut Command| {
                    let _ = command.current_dir(job.path(""));
                };
                run.with(here).succeed().stderr
            };
            let said = run(case);
            let lines = warnings(&said);
            for words in *told {
                let count = lines.iter().filter(|line| line.contains(words)).count();
                assert_eq!(count, 1, "{case}: {words}: {said}");
            }
            let most = if told.is_empty() { 0 } else { 3 };
            assert!(lines.len() <= most.min(told.len()), "{case}: {said}");
            let said = run(&format!("{case} right"));
            assert_eq!(warnings(&said), Vec::<&str>::new(), "{case}: {said}");
        }
    }
}

/// Run 1 takes versions 1 to 5, run 2 begins anew and takes 1 and 2. Catches a restart with the old run's last version in
/// silence, a key that changes nothing, and one that finds nothing where the newer run left nothing that is good.
#[test]
fn an_older_run_with_higher_numbers_is_told() {
    let job = Job::new(SYNC);
    job.run("script", "take=x:1 take=x:2 take=x:3 take=x:4 take=x:5").succeed();
    let said = job.run("script", "newest=x:5").succeed().stderr;
    assert_eq!(warnings(&said), Vec::<&str>::new());
    job.run("script", "take=x:1:7 take=x:2:7").succeed();
    let said = job.run("script", "newest=x:5 newest=x:5 newest=x:2:2").succeed().stderr;
    assert_eq!(warnings(&said).len(), 1, "{said}");
    assert!(said.contains("version 2 was taken after it"), "{said}");
    let by_time = |commands: &str| {
        let run = job.run("script", commands).env("VELOC_NEWEST_BY", "time");
        run.succeed().stderr
    };
    assert_eq!(by_time("newest=x:2 restore=x:2:7 newest=x:2:3"), "");
    for version in 1..=2 {
        fs::write(job.scratch().join(format!("x-0-{version}.dat")), "no checkpoint").unwrap();
    }
    by_time("newest=x:5");
}

/// Rank 0 has version 4 alone, rank 1 version 5. Catches a restart that finds nothing in silence, and one that speaks
/// where there is nothing.
#[test]
fn ranks_with_different_versions_are_told() {
    for mpi in every_mpi() {
        let job = Job::new(SYNC);
        let run = |commands: &str| mpi.script(&job, commands).map(|run| run.succeed().stderr);
        let Some(said) = run("newest=x:-1 @0:take=x:4 @1:take=x:5") else { return };
        assert!(!said.contains("on all ranks"), "{said}");
        let said = run("newest=x:-1").unwrap();
        let told = "no version of \"x\" is on all ranks; the newest on any of them is 5";
        assert_eq!(said.matches(told).count(), 1, "{said}");
    }
}

/// Each program of replay_verification.c has a wrong adjoint, but the right one. Catches a run that says nothing of it,
/// one that is told though it is right, and a comparison of replays that computes them otherwise than the run would.
#[test]
fn forward_steps_that_are_not_the_same_again_are_told() {
    let told = "state 3, computed again from state 0, is not what it was";
    let cases = [
        ("right", ""),
        ("nothing", "has changed nothing of the state from state 0 to state 399"),
        ("counter", told),
        ("partly", told),
        ("random", told),
        ("two-buffers", told),
        ("first-step", told),
    ];
    for (case, words) in cases {
        let job = Job::new(ASYNC);
        let run = |more: &str| {
            let run = job
                .run("replay_verification", &format!("{case} {more}"))
                .env("VELOC_THREADED", "true");
            run.succeed().stderr
        };
        let said = run("steps=400");
        let lines = warnings(&said);
        assert_eq!(lines.len(), usize::from(!words.is_empty()), "{case}: {said}");
        assert!(lines.iter().all(|line| line.contains(words)), "{case}: {said}");
        if case != "nothing" {
            let refused = match case {
                "right" => "",
                "first-step" => "refused=it_is_the_same_if",
                _ => "refused=is_not_what_it_was_the_first_time",
            };
            run(&format!("steps=400 verify=1 {refused}"));
        }
    }
}

/// A configuration with a relative path, from its own directory and from others. Catches a job that looks in silence in
/// another place than the one before, and a word where it is the same place.
#[test]
fn relative_directories_in_another_place_are_told() {
    let job = Job::new("mode = sync\nscratch = ck\n");
    let run = |commands: &str, directory: &str| {
        let run = job.run("script", commands);
        let there = |command: &mut Command| {
            let _ = command.current_dir(job.path(directory));
        };
        run.with(there).succeed().stderr
    };
    fs::create_dir(job.path("other")).unwrap();
    assert_eq!(run("take=x:1", ""), "");
    let said = run("newest=x:-1", "other");
    assert_eq!(warnings(&said).len(), 1, "{said}");
    assert!(said.contains("relative paths (ck) begin in the working directory"), "{said}");
    assert_eq!(run("newest=x:-1", "other") + &run("newest=x:1", ""), "");
}

/// Catches a communicator in another order that nobody hears of, and one told of that leaves a rank out.
#[test]
fn a_communicator_in_another_order_is_told() {
    for mpi in every_mpi() {
        let run = |more: &str| {
            let run = mpi.start(3)?.arg(mpi_program(mpi.compiler, "../mpi/reordered_ranks.c"));
            let job = Job::new(SYNC);
            Some(run.arg(job.path("veloc.cfg")).args(more).succeed().stderr)
        };
        let Some(said) = run("") else { return };
        let told = "its ranks 0 and 1 are 2 and 1 there";
        assert_eq!(said.matches(told).count(), 1, "{said}");
        assert!(!run("in-order").unwrap().contains("MPI_COMM_WORLD"));
    }
}

/// Run 1 takes versions 1 to 3, run 2 begins anew and is killed when one rank has taken 2. Catches ranks that go by their
/// own last version, and wait for each other or find none.
#[test]
fn ranks_agree_on_what_was_taken_last() {
    for mpi in every_mpi() {
        let job = Job::new(SYNC);
        let run = |commands: &str| mpi.script(&job, commands);
        let Some(first) = run("take=x:1 take=x:2 take=x:3") else { return };
        first.succeed();
        run("take=x:1:7 @0:take=x:2:7").unwrap().succeed();
        let said = run("newest=x:3").unwrap().succeed().stderr;
        assert_eq!(said.matches("version 2 was taken after it").count(), 1, "{said}");
        let by_time = run("newest=x:1 restore=x:1:7").unwrap().env("VELOC_NEWEST_BY", "time");
        by_time.succeed();
    }
}
