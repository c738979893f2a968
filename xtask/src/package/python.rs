//! The Python package, installed by pip beside the library, and its tests.

use std::ffi::OsString;
use std::path::Path;

use super::consumers::clean;
use super::mpi::{self, Mpi};
use super::{outputs, quietly, Installed};
use crate::error::{Error, Result};
use crate::files::{copy_folder, write};
use crate::project::{line, root, run};
use crate::python::{has_module, interpreter};
use crate::stage::Stage;

/// Installs it into the prefix and runs its tests on what is installed.
pub(super) fn check(package: &Installed, work: &Path, stage: &Stage) -> Result<()> {
    // pip leaves files beside what it builds.
    let source = work.join("python");
    copy_folder(&root().join("python"), &source)?;
    let site = package.prefix.join("lib/python3/site-packages");
    let words: [OsString; 10] = [
        interpreter().into(),
        "-m".into(),
        "pip".into(),
        "install".into(),
        "--no-deps".into(),
        "--no-index".into(),
        "--no-build-isolation".into(),
        "--target".into(),
        site.clone().into(),
        source.clone().into(),
    ];
    quietly(&mut clean(&words))?;

    let words = ["-m", "unittest", "discover", "--start-directory"].map(Into::into);
    let tests = source.join("tests");
    let mut command =
        clean(&[&[interpreter().into()], &words[..], &[tests.clone().into()]].concat());
    command.env("PYTHONPATH", &site).env("LD_LIBRARY_PATH", stage.softcuda());
    command.env("PYTHONWARNINGS", "error");
    println!("$ {}", line(&command));
    run(&mut command)?;

    // The module belongs to one MPI.
    let open_mpi = mpi::found().into_iter().find(|mpi| mpi.name == "openmpi");
    match open_mpi.filter(|_| has_module("mpi4py")) {
        Some(mpi) => over_mpi(mpi, &site, work, &tests),
        None => {
            println!("skipped: mpi4py is not installed");
            Ok(())
        }
    }
}

fn over_mpi(mpi: Mpi, site: &Path, work: &Path, tests: &Path) -> Result<()> {
    let config = work.join("python.cfg");
    let scratch = work.join("python-scratch");
    write(&config, &format!("mode = async\nscratch = {}\n", scratch.display()))?;
    let mut words = mpi.starter();
    words.extend([interpreter().into(), tests.join("over_mpi.py").into(), config.into()]);
    let mut command = clean(&words);
    println!("$ {}", line(&command));
    let (stdout, stderr) = outputs(command.env("PYTHONPATH", site))?;
    if stdout == "done\n" {
        return Ok(());
    }
    Err(Error::new(format!("{} printed\n{stdout}{stderr}", line(&command))))
}
