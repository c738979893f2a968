//! Lines on standard error about calls that fail: one line each, once for each job, and none by the
//! library where the program prints the error.

use capi_tests::job::Job;
use capi_tests::run::Ended;

use crate::mpi::every_mpi;

/// The lines of errors: their origin, and their text.
fn errors(ended: &Ended) -> Vec<(&str, &str)> {
    let lines = ended.stderr.lines().filter(|line| line.starts_with("veloc"));
    lines.filter_map(|line| line.split_once(": error: ")).collect()
}

/// Catches errors printed twice, by the library and by a program that asks for them, and lost
/// errors.
#[test]
fn programs_that_ask_print_by_themselves() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    let job = |value: &str| {
        // The program asks for each error after the call.
        let run = job.run("script", "fail=x:-1:below|0 fail=x:-2:below|0");
        run.env("VELOC_PRINT_ERRORS", value).succeed()
    };
    let lines = |numbers: &[i32]| -> Vec<(&str, String)> {
        let of = |number| format!("VELOC_Checkpoint: version {number} of \"x\" is below 0");
        numbers.iter().map(|number| ("veloc", of(number))).collect()
    };
    for (value, wanted) in [("auto", &[-1][..]), ("yes", &[-1, -2]), ("false", &[])] {
        let ended = job(value);
        let found: Vec<_> =
            errors(&ended).into_iter().map(|(from, what)| (from, what.to_owned())).collect();
        assert_eq!(found, lines(wanted), "{value}: {}", ended.stderr);
    }
}

/// A program that goes on after each error. Catches a line for each of them, one alone for errors that differ in more than
/// their numbers, and a text for the program that is not that of its error.
#[test]
fn errors_that_are_alike_are_counted() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\nprint_errors = true\n");
    let alike = |name: &str, count: i32| -> String {
        (1..=count).map(|version| format!("fail={name}:-{version}:version|-{version} ")).collect()
    };
    let ended = job.run("script", &(alike("x", 120) + &alike("y", 2))).succeed();
    let found = errors(&ended);
    let of = |text: &str| found.iter().filter(|(_, what)| what.contains(text)).count();
    assert_eq!((of("\"x\""), of("\"y\"")), (5, 2), "{}", ended.stderr);
    for (at, words) in [(3, "10 errors like this one"), (4, "100 errors like this one")] {
        assert!(found[at].1.contains(words), "{}", ended.stderr);
    }
}

/// Catches a misspelt variable that is ignored without a word, and a directory that "exists".
#[test]
fn what_was_meant_is_said() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    let run = job.run("script", "").env("VELOC_SCRACH", "/none").env("VELOC_ROOT", "/opt/veloc");
    let said = run.succeed().stderr;
    assert!(said.contains("VELOC_SCRACH is ignored; was VELOC_SCRATCH meant?"), "{said}");
    assert!(!said.contains("VELOC_ROOT"), "{said}");
    let job = Job::new("mode = sync\nscratch = /etc/passwd\n");
    let ended = job.run("script", "").end();
    assert!(ended.stderr.contains("scratch: /etc/passwd is a file"), "{}", ended.stderr);
}

/// Catches one line for each process where all have failed alike, and lines of processes that have
/// only been told of the failure.
#[test]
fn what_fails_everywhere_is_printed_once() {
    for mpi in every_mpi() {
        let job = Job::new("mode = async\nscratch = DIR/scratch\nscrach = typo\n");
        let commands = "set=VELOC_SCRATCH:/proc/none/s noinit=/proc/none/s set=VELOC_SCRATCH: init \
                        @1:set=VELOC_PROOF:some @1:noinit=proof @0:noinit=process_1 @2:noinit=process_1 \
                        @1:set=VELOC_PROOF: init @1:set=VELOC_PROOF:off \
                        noinit=configured|differently @1:set=VELOC_PROOF: init \
                        set=VELOC_PROOF:none noinit=proof set=VELOC_PROOF: init refuse=gone:7:gone";
        let Some(run) = mpi.script(&job, commands) else { return };
        let ended = run.succeed();
        let found = errors(&ended);
        let says = |at: usize, rank: &str, words: &str| {
            let (from, what) = found[at];
            from.starts_with(&format!("veloc (rank {rank} on ")) && what.contains(words)
        };
        assert!(
            found.len() == 5
                && says(0, "0", "scratch directory /proc/none/s")
                && says(1, "1", "proof = \"some\"")
                && says(2, "0", "configured differently")
                // The same text on all ranks, and texts that differ in the rank.
                && says(3, "0", "proof = \"none\"")
                && says(4, "0", "gone"),
            "{}",
            ended.stderr
        );
        let warnings = ended.stderr.lines().filter(|line| line.contains("unknown key scrach"));
        // Once for each VELOC_Init whose configuration rank 0 can read.
        assert_eq!(warnings.count(), 8, "{}", ended.stderr);
    }
}
