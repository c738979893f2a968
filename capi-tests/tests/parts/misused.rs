//! Programs that misuse parts: each gets an error that names the calls.

use capi_tests::job::Job;
use capi_tests::mpi::OPEN_MPI;
use capi_tests::program::{parts_program, staged, starving};

use crate::under::{every_mpi, passes, run, Library};

/// Catches a divergence that is not noticed or is not described, and a process that cannot go on.
#[test]
fn divergences() {
    passes(2, "diverging_replays", "");
}

/// Divergences in one argument, of other kinds of calls. Catches an argument that is not compared,
/// and results of one persistent request that go to another.
#[test]
fn differences_of_one_argument() {
    passes(2, "changed_arguments", "");
}

/// Catches a call that sends other bytes in silence where they are compared, sends the same ones and fails, or whose gaps
/// count; and a comparison that nobody has asked for.
#[test]
fn other_bytes_than_were_sent() {
    for mpi in every_mpi() {
        let start =
            |what: &str| run(mpi, Library::Linked, 2, "changed_arguments", &format!("sent={what}"));
        let Some(compared) = start("compared") else { continue };
        let _ = compared.env("VELOC_MPI_COMPARE", "1").succeed();
        let _ = start("free").unwrap().succeed();
        let told = start("free").unwrap().env("VELOC_MPI_COMPARE", "yes").succeed().stderr;
        assert!(told.contains("VELOC_MPI_COMPARE is \"yes\""), "{told}");
    }
}

/// Catches an error handler that is not called: by default a divergence ends the job.
#[test]
fn a_divergence_ends_the_job() {
    ends_the_job(
        "diverging_replays",
        &["MPI_Recv", "peer 0", "tag 5", "tag 6", "3 elements", "part 3"],
    );
}

/// Catches a message that is printed as often as a program polls.
#[test]
fn a_divergence_is_said_once() {
    for mpi in every_mpi() {
        let Some(run) = run(mpi, Library::Preloaded, 2, "diverging_replays", "case=poll") else {
            continue;
        };
        let said = run.succeed().stderr;
        assert_eq!(said.matches("does not do what its first run did").count(), 1, "{said}");
    }
}

/// Catches calls that would go wrong silently.
#[test]
fn refusals() {
    let job = Job::new("");
    for mpi in every_mpi() {
        let arguments = format!("file={}", job.path("file").display());
        let Some(run) = run(mpi, Library::Preloaded, 2, "refused_calls", &arguments) else {
            continue;
        };
        let _ = run.succeed();
    }
    ends_the_job("refused_calls", &["MPI_Win_create", "part 5"]);
}

/// Catches calls within an error handler that are taken for calls of the part; and, if a handler
/// jumps out of its call, later calls that hang, or a replay of the part whose log lacks them.
#[test]
fn error_handlers() {
    passes(2, "error_handlers", "case=returns");
    // MPICH keeps its lock after a jump, and every later call waits, also without this library.
    let mpi = &OPEN_MPI;
    for case in ["outside", "inside"] {
        let arguments = format!("case={case}");
        let Some(run) = run(mpi, Library::Preloaded, 1, "error_handlers", &arguments) else {
            continue;
        };
        let _ = run.succeed();
    }
}

/// Catches a state that several threads would use at once.
#[test]
fn threads() {
    passes(2, "refused_calls", "case=threads");
}

/// Catches a log that runs out of memory, or a function that the MPI library does not have, if it
/// ends the process, or is not noticed and gives a replay wrong values.
#[test]
fn failures_beneath() {
    passes(2, "failures", "");
}

/// Catches a lack of memory for the library's notes of a call that ends the process, or makes a
/// replay wrong without a message.
#[test]
fn without_memory() {
    for mpi in every_mpi() {
        let job = Job::new("");
        let starving = starving(&job.path(""));
        let preload = format!("{}:{}", starving.display(), staged().message_log().display());
        for case in [
            "events", "before", "inside", "posting", "outside", "results", "borders", "types",
            "comms", "streams",
        ] {
            let Some(run) = mpi.start(2) else { continue };
            // All streams have a number, so that their count does not matter.
            let run = run.args("env VELOC_MPI_STREAMS=2047").arg(format!("LD_PRELOAD={preload}"));
            let program = parts_program(mpi.compiler, "log_without_memory", false);
            let _ = run.arg(program).arg(format!("case={case}")).succeed();
        }
    }
}

/// Catches a process that waits, in a replay or in MPI_Finalize, for another process to end a part
/// that it does not end or to make a replay that it does not make, and messages that only some
/// processes send again.
#[test]
fn parts_that_not_all_have() {
    let ended = ["missing", "replayed", "order", "given_up", "all_given_up", "open"];
    let replayed = ["replayed_by_some", "another_replayed", "another_before"];
    for case in ended.iter().chain(&replayed) {
        passes(3, "uneven_parts", &format!("case={case} watchdog=60"));
    }
}

/// The program must not succeed, and its output must contain these words.
fn ends_the_job(name: &str, words: &[&str]) {
    for mpi in every_mpi() {
        let Some(run) = run(mpi, Library::Preloaded, 2, name, "case=fatal") else { continue };
        let ended = run.end();
        assert!(!ended.status.success(), "{name} goes on");
        let said = &ended.stderr;
        let missing: Vec<_> = words.iter().filter(|word| !said.contains(**word)).collect();
        assert!(missing.is_empty(), "{name}: no {missing:?} in\n{said}");
    }
}
