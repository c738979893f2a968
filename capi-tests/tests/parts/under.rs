//! How the programs are started.

use capi_tests::mpi::{Mpi, MPICH, OPEN_MPI};
use capi_tests::program::{parts_program, staged};
use capi_tests::run::Run;

/// Both installations.
pub(crate) const EVERY_MPI: [Mpi; 2] = [OPEN_MPI, MPICH];

/// How a program gets at the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Library {
    /// It is linked with it.
    Linked,
    /// The library is loaded ahead of it.
    Preloaded,
    /// Not at all.
    None,
}

/// A run of a program on so many processes, if this MPI is installed. `arguments` are separated by
/// spaces.
pub(crate) fn run(
    mpi: &Mpi,
    library: Library,
    processes: usize,
    name: &str,
    arguments: &str,
) -> Option<Run> {
    let run = mpi.start(processes)?;
    let program = parts_program(mpi.compiler, name, matches!(library, Library::Linked));
    let run = match library {
        // Not into the program that starts the others.
        Library::Preloaded => {
            run.arg("env").arg(format!("LD_PRELOAD={}", staged().message_log().display()))
        }
        Library::Linked | Library::None => run,
    };
    Some(run.arg(program).args(arguments))
}

/// Runs a program with the library in both ways under each MPI. It must come to its end.
pub(crate) fn passes(processes: usize, name: &str, arguments: &str) {
    for mpi in &EVERY_MPI {
        for library in [Library::Linked, Library::Preloaded] {
            let Some(run) = run(mpi, library, processes, name, arguments) else { continue };
            let _ = run.succeed();
        }
    }
}
