//! Programs whose replays are right with the library.

use capi_tests::job::Job;

use crate::under::{every_mpi, passes, run, Library};

/// The figures of the paper, with standard and synchronous sends, with requests in the snapshots
/// and without, with inner parts that the first run has or has not. Catches a send that is
/// repeated, a receive or a wait that is not answered from the log, messages sent again by a part
/// that is not right-tight, and bytes that stay in the log.
#[test]
fn figures() {
    passes(2, "paper_figures", "");
}

/// Catches, in programs nobody thought of, what the figures catch in theirs: a hundred parts that
/// begin and end anywhere between messages of every kind.
#[test]
fn random_programs() {
    passes(2, "random", "seed=1 seeds=16");
    passes(3, "random", "seed=100 seeds=6");
    passes(4, "random", "seed=200 seeds=2 messages=40");
}

/// Random programs with parts that all processes share, so that messages may be sent again.
#[test]
fn random_programs_with_common_parts() {
    passes(2, "random", "seed=1 seeds=16 common=1");
    passes(3, "random", "seed=100 seeds=20 common=1");
}

/// Catches an order of completion, an index or a status that differs in the replay.
#[test]
fn a_farm() {
    passes(4, "work_farm", "");
}

/// Catches persistent requests that a replay starts or loses, wrong types, and undelivered halos.
#[test]
fn a_halo_exchange() {
    for arguments in ["", "known=0"] {
        passes(4, "halo", arguments);
    }
}

/// Catches instances of a part that are replayed in the wrong order, or dropped with another one.
#[test]
fn bisection() {
    passes(4, "bisect", "");
}

/// Catches a replay that polls more or less often than the first run.
#[test]
fn loops_steered_by_messages() {
    passes(3, "polling_loops", "");
}

/// Catches a collective operation that is called again in a replay, computed anew, or delivered into
/// the gaps between its blocks.
#[test]
fn collectives() {
    passes(4, "collectives", "");
}

/// Catches bytes logged twice, logged bytes that were not received, and bytes that stay in the log.
#[test]
fn bytes() {
    passes(3, "log_size", "");
}

/// Catches statuses, errors and elements of unusual messages that differ in the replay, and
/// buffered sends that wait in it.
#[test]
fn exchanges_of_every_kind() {
    passes(3, "point_to_point", "");
    passes(3, "point_to_point", "resend=1 watchdog=100");
}

/// Catches messages of persistent requests and matched receives that are logged without need, that are
/// sent again and not received, or by another request, and types that are freed meanwhile.
#[test]
fn every_receive_again() {
    passes(3, "resent_requests", "");
}

/// Catches a message that one process sends or receives again and the other does not, because it
/// begins in a part inside the replayed part and ends behind that; and a part without any call that
/// is taken for the next one.
#[test]
fn parts_replayed_within_others() {
    passes(2, "nested_resend", "watchdog=100");
}

/// Catches a part that is taken for right-tight while a call before it waits for a call behind it,
/// and a part that sends nothing again without a reason given.
#[test]
fn what_lies_before_a_part_may_wait_for_what_lies_behind() {
    let both = [Library::Linked, Library::Preloaded];
    for (mpi, library) in every_mpi().flat_map(|mpi| both.map(|library| (mpi, library))) {
        let run = run(mpi, library, 2, "resend_not_right_tight", "watchdog=100");
        let Some(ended) = run.map(|run| run.succeed()) else { continue };
        // The reason is given by one process, once.
        let said = ended.stderr.lines().filter(|line| line.contains("part 7 is sent again"));
        let said: Vec<_> = said.collect();
        let what = ["a message", "the send of a message"];
        let whys = what.map(|what| format!("before its end {what} with tag 2, "));
        let is_why =
            |line: &&str| line.contains("rank 0") && whys.iter().any(|why| line.contains(why));
        assert!(matches!(&said[..], [line] if is_why(line)), "{}", ended.stderr);
    }
}

/// Catches errors in odd programs: calls on nothing and of no type, errors of every call that
/// completes requests, types with negative bounds and blocks at negative places, error handlers and
/// attributes that communicate, or free types, parts inside themselves, receives that are given up.
#[test]
fn odd_programs() {
    passes(3, "rare_calls", "");
    passes(2, "rare_calls", "resend=1");
}

/// Catches requests that a replay takes for others: cancelled, freed, persistent and shared ones, and
/// those that begin or end beyond the part.
#[test]
fn requests_across_borders() {
    passes(3, "requests", "");
}

/// Catches handles that a replay needs and that are freed, and communicators made twice.
#[test]
fn handles_that_come_and_go() {
    passes(3, "handles", "");
}

/// Catches communicators that are kept for each step of a long run, until MPI has no more, and a
/// communicator that represents another and is not the same.
#[test]
fn communicators_in_every_step() {
    passes(1, "many_communicators", "own=5000");
    passes(3, "many_communicators", "");
}

/// Catches checkpoints whose messages are taken for the part's, and a region of the application's
/// with the id of the log, for which the checkpoint would be lost.
#[test]
fn checkpoints_within_a_part() {
    for mpi in every_mpi() {
        let job = Job::new("mode = async\nscratch = DIR/scratch\nmax_versions = 2\n");
        let configuration = job.path("veloc.cfg").display().to_string();
        let Some(run) = run(mpi, Library::Linked, 2, "checkpoint_in_part", &configuration) else {
            continue;
        };
        let _ = run.succeed();
    }
}
