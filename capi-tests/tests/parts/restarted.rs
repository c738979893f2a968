//! Processes that are killed inside a part, and the processes that go on there.

use std::fs;

use capi_tests::backends::{wait_for_backends, MARK};
use capi_tests::checkpoint_file::{encode, parse};
use capi_tests::job::{names, Job};
use capi_tests::mpi::Mpi;
use capi_tests::run::{Ended, Run};

use crate::under::{every_mpi, run, Library};

/// The region with the log, as in the guide.
const MESSAGES: i32 = i32::MIN + 1;

fn job() -> Job {
    Job::new("mode = async\nscratch = DIR/scratch\nmax_versions = 100\n")
}

fn adjoint(mpi: &Mpi, job: &Job, arguments: &str) -> Option<Run> {
    let arguments = format!("{} {arguments}", job.path("veloc.cfg").display());
    let run = run(mpi, Library::Linked, 3, "restarted", &arguments)?;
    Some(run.env(MARK, job.path("")))
}

/// The result of the processes, to the last bit.
fn result(ended: &Ended) -> Vec<String> {
    let lines = ended.stdout.lines().filter(|line| line.starts_with("adjoint"));
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.sort();
    assert_eq!(lines.len(), 3, "{}", ended.stdout);
    lines
}

/// Runs the program, kills it at these places, one after the other, and compares its result.
fn goes_on(arguments: &str, places: &[u64]) {
    for mpi in every_mpi() {
        let whole = job();
        let Some(run) = adjoint(mpi, &whole, arguments) else { continue };
        let whole = run.succeed();
        // With three steps, places 1, 5 and 9 lie before parts, 13, 17 and 21 before replays.
        assert_eq!(whole.figure("places") % 8, 0);
        let job = job();
        let mut before = None;
        for place in places {
            let Some(run) = adjoint(mpi, &job, &format!("{arguments} die={place}")) else {
                continue;
            };
            let ended = run.end();
            assert!(!ended.status.success(), "{}\n{}", ended.stdout, ended.stderr);
            assert_eq!(ended.figures("restarted").pop(), before, "{}", ended.stderr);
            wait_for_backends(&job);
            before = Some(*place);
        }
        let Some(run) = adjoint(mpi, &job, arguments) else { continue };
        let ended = run.succeed();
        assert_eq!(ended.figures("restarted").pop(), before);
        assert_eq!(result(&ended), result(&whole));
        // Bytes of all processes in the whole computation. A part that was killed is logged whole.
        let resent = |ended: &Ended| ended.figures("resent").iter().sum::<u64>();
        assert!(resent(&ended) <= resent(&whole));
        assert_eq!(resent(&ended) > 0, arguments.contains("flags=1"), "{}", ended.stdout);
    }
}

/// Catches events, payloads, cursors or communicators that a new process lacks, and old addresses.
#[test]
fn inside_a_first_run_and_inside_a_replay() {
    goes_on("", &[3, 10, 13, 16, 24]);
}

/// Catches a checkpoint that waits for what other processes say of a part, counts of messages or verdicts
/// on parts that are not the same for all processes that go on, and payloads that are given up though a
/// process goes on that does not know of it.
#[test]
fn with_messages_that_are_sent_again() {
    goes_on("flags=1 steps=6 late=1", &[13, 21, 33, 39]);
}

/// Catches a replay that waits for messages of a process that has gone on from another checkpoint.
#[test]
fn processes_that_go_on_from_different_checkpoints_are_told() {
    for mpi in every_mpi() {
        let job = job();
        let Some(run) = adjoint(mpi, &job, "flags=1 steps=6 die=33 odd=29") else { continue };
        let _ = run.end();
        wait_for_backends(&job);
        let Some(run) = adjoint(mpi, &job, "flags=1 steps=6 odd=29") else { continue };
        let ended = run.end();
        // Not lines: the launcher may put the text of two processes before the end of either's line.
        let refused = ended.stdout.matches("refused").count();
        assert_eq!(refused, 3, "{}\n{}", ended.stdout, ended.stderr);
    }
}

/// Catches a request that nobody could complete, and a request that is wrongly taken for such.
#[test]
fn a_request_under_way_is_no_part_of_a_checkpoint() {
    for mpi in every_mpi() {
        let job = job();
        let configuration = job.path("veloc.cfg").display().to_string();
        let Some(run) = run(mpi, Library::Linked, 2, "checkpoint_with_request", &configuration)
        else {
            continue;
        };
        let _ = run.succeed();
    }
}

/// Catches a checkpoint that waits for a process that waits, in a part, for a later call.
#[test]
fn a_checkpoint_waits_for_nobody() {
    for mpi in every_mpi() {
        let job = job();
        let configuration = job.path("veloc.cfg").display().to_string();
        let Some(run) = run(mpi, Library::Linked, 2, "checkpoint_not_right_tight", &configuration)
        else {
            continue;
        };
        let _ = run.succeed();
    }
}

/// Catches a log that is used though its bytes have changed, communicators that are taken for
/// others, and a process that goes on without its log.
#[test]
fn a_log_that_is_not_right_is_refused() {
    for mpi in every_mpi() {
        let job = job();
        let Some(run) = adjoint(mpi, &job, "die=7") else { continue };
        let _ = run.end();
        wait_for_backends(&job);
        let refused = |arguments: &str, words: &[&str]| {
            let Some(run) = adjoint(mpi, &job, arguments) else { return };
            // Refused by the log's own digest, not by the file's proof.
            let ended = run.env("VELOC_PROOF", "off").end();
            let said = ended.stdout.lines().find(|line| line.contains("refused:"));
            let said = said.unwrap_or_else(|| panic!("{}\n{}", ended.stdout, ended.stderr));
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        };
        refused("swapped=1", &["communicator", "in the same order"]);
        let path = job.scratch().join("all-1-7.dat");
        let mut regions = parse(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(regions.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [MESSAGES, 0]);
        let len = regions[0].1.len();
        regions[0].1[len / 2] ^= 1;
        fs::write(&path, encode(&regions)).unwrap();
        refused("", &["log of messages", "damaged"]);
    }
}

/// Catches a region in the checkpoints of programs that do not use parts.
#[test]
fn without_parts_there_is_no_log() {
    for mpi in every_mpi() {
        let job = job();
        let configuration = job.path("veloc.cfg").display().to_string();
        let arguments = format!("{configuration} parts=0");
        let Some(run) = run(mpi, Library::Linked, 2, "checkpoint_in_part", &arguments) else {
            continue;
        };
        let _ = run.succeed();
        for name in names(&job.scratch()).iter().filter(|name| name.ends_with(".dat")) {
            let regions = parse(&fs::read(job.scratch().join(name)).unwrap()).unwrap();
            assert_eq!(regions.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [0], "{name}");
        }
    }
}
