//! Checkpointing of programs whose parts communicate, without a log of messages: each of these
//! programs fails without the library. If one passed, its test would show nothing.

use crate::under::{every_mpi, run, Library};

/// How a program fails.
#[derive(Clone, Copy, Debug)]
enum Failure {
    /// A check finds another value than without parts.
    Wrong,
    /// The program waits for ever.
    Hangs,
    /// The program fails in a way that depends on the MPI library.
    Somehow,
}

fn fails(how: Failure, processes: usize, name: &str, arguments: &str) {
    for mpi in every_mpi() {
        // A program that hangs says so after these seconds. A slow program must not count as wrong.
        let watchdog = if matches!(how, Failure::Wrong) { 60 } else { 1 };
        let arguments = format!("{arguments} watchdog={watchdog}");
        let Some(run) = run(mpi, Library::None, processes, name, &arguments) else { continue };
        let ended = run.end();
        let (stdout, stderr) = (&ended.stdout, &ended.stderr);
        let so = match how {
            Failure::Wrong => stdout.contains("there is no library"),
            Failure::Hangs => stdout.lines().any(|line| line == "hangs"),
            Failure::Somehow => true,
        };
        let failed = !ended.status.success() && !stdout.lines().any(|line| line == "done");
        assert!(failed && so, "{name} {arguments}: {how:?}\n{stdout}{stderr}");
    }
}

/// An eager send that is repeated is received in the next iteration, and nobody notices.
#[test]
fn figure_3a_has_a_wrong_value() {
    fails(Failure::Wrong, 2, "paper_figures", "figure=3a");
}

#[test]
fn figures_hang() {
    for figure in ["3a", "3b", "6a", "6b", "8", "10"] {
        fails(Failure::Hangs, 2, "paper_figures", &format!("figure={figure} synchronous=1"));
    }
}

/// A wait for a request that does not exist any more: for an irecv it brings no value.
#[test]
fn figure_3c_fails() {
    fails(Failure::Wrong, 2, "paper_figures", "figure=3c-receive");
    let arguments = "figure=3c synchronous=1 snapshot_has_requests=1";
    fails(Failure::Somehow, 2, "paper_figures", arguments);
}

#[test]
fn others_fail() {
    fails(Failure::Wrong, 4, "bisect", "");
    fails(Failure::Hangs, 4, "halo", "");
    fails(Failure::Somehow, 3, "random", "seed=1");
    fails(Failure::Somehow, 4, "work_farm", "");
    fails(Failure::Somehow, 3, "polling_loops", "case=iprobe");
    fails(Failure::Somehow, 4, "collectives", "case=allreduce");
    fails(Failure::Wrong, 4, "collectives", "case=ibcast");
    fails(Failure::Somehow, 3, "point_to_point", "case=sendrecv");
}
