//! Calls that reach the library, and calls that do not: then parts are refused.

use capi_tests::job::Job;
use capi_tests::parts_fortran::stand_in;

use crate::under::{every_mpi, run, Library};

/// An interface for Fortran that is loaded while the program runs, with slots that are filled when
/// they are first used, and with slots that are read-only from the start.
const SLOTS: [&[&str]; 3] =
    [&["-Wl,-z,lazy"], &["-Wl,-z,relro,-z,now"], &["-fno-plt", "-Wl,-z,relro,-z,now"]];

fn passes(case: &str, flags: &[&str]) {
    let job = Job::new("");
    for mpi in every_mpi() {
        let arguments = format!("case={case}");
        let Some(run) = run(mpi, Library::Preloaded, 2, "intercepted_calls", &arguments) else {
            continue;
        };
        let library = stand_in(mpi.compiler, flags, &job.path(""));
        let _ = run.arg(format!("interface={}", library.display())).succeed();
    }
}

/// Catches slots that are looked up in the wrong table, or cannot be written.
#[test]
fn interfaces_loaded_before_mpi_begins() {
    for flags in SLOTS {
        passes("early", flags);
    }
}

/// Catches calls that are not seen: a replay would be wrong, silently.
#[test]
fn interfaces_that_are_not_seen() {
    passes("late", SLOTS[0]);
    passes("blind", &["-DBLIND"]);
}

/// Catches a library that is linked in the wrong order, and so does nothing.
#[test]
fn a_library_behind_mpi() {
    for mpi in every_mpi() {
        let arguments = "case=behind";
        let Some(run) = run(mpi, Library::Behind, 2, "intercepted_calls", arguments) else {
            continue;
        };
        let _ = run.succeed();
    }
}

/// Catches calls of the profiling interface that are logged, although a tool makes them.
#[test]
fn tools() {
    for mpi in every_mpi() {
        for library in [Library::Linked, Library::Preloaded] {
            let Some(run) = run(mpi, library, 2, "intercepted_calls", "case=tool") else {
                continue;
            };
            let _ = run.succeed();
        }
    }
}
