//! Parts of programs in Fortran, with each of MPI's interfaces for Fortran.

use capi_tests::mpi::Mpi;
use capi_tests::parts_fortran::{long_program, parts_program, Interface};
use capi_tests::program::found;
use capi_tests::run::Run;

use crate::under::{every_mpi, start, Library};

/// A run of a Fortran program on three processes, if this MPI and its Fortran compiler are installed.
fn run(mpi: &Mpi, library: Library, interface: Interface, name: &str) -> Option<Run> {
    if found(mpi.fortran).is_none() {
        println!("skipped: {} is not installed", mpi.fortran);
        return None;
    }
    let linked = matches!(library, Library::Linked);
    start(mpi, library, 3, || parts_program(mpi.fortran, interface, name, linked))
}

/// The program must be right under each MPI.
fn passes(interface: Interface, name: &str) {
    for mpi in every_mpi() {
        let Some(run) = run(mpi, Library::Linked, interface, name) else { continue };
        let _ = run.succeed();
    }
}

/// Without the library the program must not succeed.
fn fails_alone(interface: Interface, name: &str) {
    for mpi in every_mpi() {
        let Some(run) = run(mpi, Library::None, interface, name) else { continue };
        // A program that hangs is ended after a second; on a slow machine it may be ended before it
        // could end, which is no success either.
        let ended = run.arg("1").end();
        let done = ended.stdout.lines().any(|line| line == "done");
        assert!(!ended.status.success() && !done, "{name} passes without the library");
    }
}

/// Catches messages that a replay sends, or does not deliver: to sections of arrays, MPI_BOTTOM,
/// vectors, from any source, probed for; statuses and flags that differ in the replay.
#[test]
fn messages() {
    passes(Interface::Module, "messages");
    passes(Interface::F08, "messages");
    passes(Interface::Include, "messages");
}

/// Catches waits and tests that are not seen (those of mpi_f08 under MPICH have other names),
/// indices that are counted differently in a replay, and requests that it does not know.
#[test]
fn requests() {
    passes(Interface::Module, "requests");
    passes(Interface::F08, "requests");
    passes(Interface::Include, "requests");
}

/// Catches results gathered or reduced in place, or by a Fortran function, that differ in a replay.
#[test]
fn collectives() {
    passes(Interface::Module, "collectives");
    passes(Interface::F08, "collectives");
    passes(Interface::Include, "collectives");
}

/// Catches calls that would go wrong silently, and parts of the C interface that the module hides.
#[test]
fn what_fails() {
    passes(Interface::Module, "faulty");
    passes(Interface::F08, "faulty");
    passes(Interface::Include, "faulty");
}

/// Catches an interface whose calls are seen only if the library is linked.
#[test]
fn preloaded() {
    for mpi in every_mpi() {
        let Some(run) = run(mpi, Library::Preloaded, Interface::F08, "requests") else { continue };
        let _ = run.succeed();
    }
}

/// Each of these programs would show nothing if it passed without the library.
#[test]
fn alone() {
    for name in ["messages", "requests", "collectives"] {
        fails_alone(Interface::F08, name);
    }
}

/// Catches a library that needs MPI or a Fortran library to be loaded, and a number that is cut off.
#[test]
fn numbers_of_64_bits() {
    let _ = Run::new(&long_program()).succeed();
}
