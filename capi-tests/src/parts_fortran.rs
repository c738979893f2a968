//! The Fortran programs of the message log's tests, and an interface for Fortran that they lack.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiled::compiled;
use crate::mpi::OPEN_MPI;
use crate::program::{compiler, finish, sources, staged};

/// How a program gets the interface of MPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interface {
    /// `use mpi`.
    Module,
    /// `use mpi_f08`.
    F08,
    /// `mpif.h`.
    Include,
}

impl Interface {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Interface::Module => &["-std=f2018"],
            Interface::F08 => &["-std=f2018", "-DWITH_F08"],
            // Without interfaces, buffers of several types are arguments of the same procedure.
            Interface::Include => &["-DWITH_MPIF", "-fallow-argument-mismatch", "-w"],
        }
    }
}

/// The executable of a program in `parts/fortran/`, made by the Fortran compiler of an MPI
/// installation. It is linked with the library that logs messages, or with an empty one.
pub fn parts_program(compiler: &str, interface: Interface, name: &str, linked: bool) -> PathBuf {
    let module = staged().fortran().join("veloc_parts.f90");
    let files = ["support", name].map(|file| parts().join(format!("{file}.F90")));
    let inputs = [parts(), module.clone(), staged().include(), none()];
    let how = format!("{compiler} {interface:?} {linked}");
    compiled(name, &how, &inputs, |folder| {
        let mut command = Command::new(compiler);
        command.args(["-cpp", "-Wall", "-Wextra"]).args(interface.flags());
        command.arg("-I").arg(parts());
        if compiler == OPEN_MPI.fortran {
            // This MPI has persistent collective calls under names of its own.
            command.arg("-DWITH_MPIX");
        }
        command.arg("-J").arg(folder).arg(&module).args(&files);
        command.arg("-o").arg(folder.join(name));
        match linked {
            true => command.arg("-L").arg(staged().lib()).arg("-lveloc-mpi"),
            // The empty library is beside the program, wherever that will be.
            false => command.arg(empty_library(folder)).arg("-Wl,-rpath,$ORIGIN"),
        };
        finish(command);
    })
    .join(name)
}

/// A program that has default integers of 64 bits and no MPI.
pub fn long_program() -> PathBuf {
    let files = [staged().fortran().join("veloc_parts.f90"), parts().join("long.f90")];
    compiled("long", "gfortran", &files, |folder| {
        let mut command = Command::new("gfortran");
        command.args(["-std=f2018", "-Wall", "-Wextra", "-fdefault-integer-8", "-J"]).arg(folder);
        command.args(&files).arg("-o").arg(folder.join("long"));
        command.arg("-L").arg(staged().lib()).arg("-lveloc-mpi");
        finish(command);
    })
    .join("long")
}

/// An object that passes for an interface for Fortran, compiled with these flags, in this folder.
pub fn stand_in(compiler: &str, flags: &[&str], folder: &Path) -> PathBuf {
    let library = folder.join("libmpi_mpifh_standin.so");
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror"]).args(flags);
    command.arg(parts().join("../standin.c")).arg("-o").arg(&library);
    finish(command);
    library
}

/// A library with the exported names of the one that logs messages, and nothing behind them.
fn empty_library(folder: &Path) -> PathBuf {
    let library = folder.join("libparts-none.so");
    let mut command = compiler();
    command.args([
        "-shared",
        "-fPIC",
        "-Wl,-soname,libparts-none.so",
        "-Wall",
        "-Wextra",
        "-Werror",
    ]);
    command.arg("-I").arg(staged().include()).arg(none()).arg("-o").arg(&library);
    finish(command);
    library
}

fn parts() -> PathBuf {
    sources().join("../parts/fortran")
}

/// The source of the empty library.
fn none() -> PathBuf {
    parts().join("../no_library.c")
}
