//! How the programs are started.

use std::path::PathBuf;

use capi_tests::depth::is_all;
use capi_tests::mpi::{Mpi, OPEN_MPI};
use capi_tests::program::{parts_program, staged};
use capi_tests::run::Run;

/// The installations for a test that is the same under each.
pub(crate) fn every_mpi() -> impl Iterator<Item = &'static Mpi> {
    capi_tests::mpi::every_mpi(&OPEN_MPI)
}

/// How a program gets the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Library {
    /// The program is linked with the library.
    Linked,
    /// The library is loaded ahead of the program.
    Preloaded,
    /// The program is linked with the library, but MPI is loaded ahead of both.
    Behind,
    /// The program runs without the library.
    None,
}

/// A run of a program on so many processes, if this MPI is installed, with these arguments.
pub(crate) fn run(
    mpi: &Mpi,
    library: Library,
    processes: usize,
    name: &str,
    arguments: &str,
) -> Option<Run> {
    let linked = matches!(library, Library::Linked | Library::Behind);
    let run = start(mpi, library, processes, || parts_program(mpi.compiler, name, linked))?;
    Some(run.args(arguments))
}

/// A run of a program that is made if this MPI is installed.
pub(crate) fn start(
    mpi: &Mpi,
    library: Library,
    processes: usize,
    program: impl FnOnce() -> PathBuf,
) -> Option<Run> {
    // These programs exchange many messages, for each of which a rank that sleeps would wait longer.
    let run = mpi.start(processes)?.with(|command| {
        command.env_remove("LD_PRELOAD");
    });
    // The library is not loaded into the program that starts the others.
    let preload = |run: Run, what: &str| run.arg("env").arg(format!("LD_PRELOAD={what}"));
    let run = match library {
        Library::Preloaded => preload(run, &staged().message_log().display().to_string()),
        Library::Behind => preload(run, mpi.library),
        Library::Linked | Library::None => run,
    };
    Some(run.arg(program()))
}

/// Runs a program with the library under each MPI, in both ways in a full test. It must succeed.
pub(crate) fn passes(processes: usize, name: &str, arguments: &str) {
    let ways = if is_all() { 2 } else { 1 };
    for mpi in every_mpi() {
        for library in [Library::Linked, Library::Preloaded].into_iter().take(ways) {
            let Some(run) = run(mpi, library, processes, name, arguments) else { continue };
            let _ = run.succeed();
        }
    }
}
