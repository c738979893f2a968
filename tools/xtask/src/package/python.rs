//! The Python package and its tests.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use super::mpi::{self, MpiInstallation};
use super::{clean, outputs, quietly, wheel, Installed};
use crate::error::{Error, Result, While};
use crate::files::{copy_folder, folder as create, write};
use crate::project::{line, root, run};
use crate::python::{
    adjoint_packages, has_module, interpreter, pytorch, tests_of_pyrevolve, tools,
};
use crate::stage::{build_program, Profile, StagedFolders};

/// Each warning of Python's is an error, but for that of a system whose own Matplotlib hides a part of the installed one.
const WARNINGS: &str = "error,ignore:Unable to import Axes3D";

/// Makes the wheel, and runs the tests on its content; of a debug build, or without the tools for that, on the
/// sources beside the installed library. Returns what was left out.
pub(super) fn check(
    package: &Installed,
    work: &Path,
    stage: &StagedFolders,
    profile: Profile,
) -> Result<Vec<String>> {
    if !has_module("numpy") {
        return Ok(vec!["the Python package: numpy is not installed".to_owned()]);
    }
    let mut skipped = Vec::new();
    // Python leaves files beside the modules that it runs.
    let (sources, source) = (root().join("python"), work.join("python"));
    for folder in ["veloc", "tests", "examples"] {
        copy_folder(&sources.join(folder), &source.join(folder))?;
    }
    let site = package.prefix.join("lib/python3/site-packages");
    let mut path = vec![site.clone()];
    // The wheel has builds of its own, as users get them.
    match tools() {
        _ if profile == Profile::Debug => copy_folder(&source.join("veloc"), &site.join("veloc"))?,
        Ok(tools) => {
            wheel::is_typed(&tools, work)?;
            let wheel = wheel::build(&tools, work)?;
            wheel::is_accepted(&tools, &wheel)?;
            wheel::works_where_nothing_else_is(&wheel, work)?;
            wheel::install(&wheel, &site)?;
            path.push(tools);
        }
        Err(error) => {
            skipped.push(format!("wheel, types and pictures: no tools for them: {error}"));
            copy_folder(&source.join("veloc"), &site.join("veloc"))?;
        }
    }
    let has_tools = path.len() > 1;
    let tests = source.join("tests");
    let path = std::env::join_paths(path).when(|| "a path for Python".to_string())?;
    let mut command = clean(interpreter());
    command.args(["-m", "unittest", "discover", "--start-directory"]).arg(&tests);
    command.env("PYTHONPATH", &path).env("LD_LIBRARY_PATH", stage.softcuda());
    command.env("PYTHONWARNINGS", WARNINGS);
    println!("$ {}", line(&command));
    run(&mut command)?;
    if profile == Profile::Release {
        skipped.extend(with_adjoint_packages(&site, work, &tests, stage)?);
        skipped.extend(with_pytorch(&site, &tests)?);
    }
    if has_tools {
        pictures(package, work, &path, stage, profile)?;
    }

    // The module belongs to one MPI.
    let open_mpi = mpi::found().0.into_iter().find(|mpi| mpi.name == "openmpi");
    match open_mpi.filter(|_| has_module("mpi4py")) {
        Some(mpi) => over_mpi(mpi, &site, work, &tests)?,
        None => skipped.push("Python over MPI: mpi4py or Open MPI is not installed".to_owned()),
    }
    Ok(skipped)
}

/// Runs the tests that need Devito, pyrevolve, checkpoint_schedules or pyadjoint, which were
/// skipped before. These packages print warnings of their own. Returns why they were skipped, if so.
fn with_adjoint_packages(
    site: &Path,
    work: &Path,
    tests: &Path,
    stage: &StagedFolders,
) -> Result<Option<String>> {
    let packages = match adjoint_packages() {
        Ok(packages) => packages,
        Err(error) => {
            return Ok(Some(format!("Devito, pyadjoint: they are not installed: {error}")))
        }
    };
    let path = std::env::join_paths([site, &packages]).when(|| "a path for Python".to_string())?;
    let mut command = clean(interpreter());
    command.args(["-m", "unittest", "test_devito", "test_schedules"]).current_dir(tests);
    command.env("PYTHONPATH", &path).env("LD_LIBRARY_PATH", stage.softcuda());
    println!("$ {}", line(&command));
    run(&mut command)?;
    in_place_of_pyrevolve(site, &packages, work, tests)
}

/// Runs the tests of `veloc.torch` with PyTorch itself, which ran on a stand-in before. Returns why not, if so.
fn with_pytorch(site: &Path, tests: &Path) -> Result<Option<String>> {
    let packages = match pytorch() {
        Ok(packages) => packages,
        Err(error) => return Ok(Some(format!("PyTorch: it is not installed: {error}"))),
    };
    let path = std::env::join_paths([site, &packages]).when(|| "a path for Python".to_string())?;
    let mut command = clean(interpreter());
    command.args(["-m", "unittest", "test_torch"]).current_dir(tests).env("PYTHONPATH", &path);
    println!("$ {}", line(&command));
    run(&mut command).map(|()| None)
}

/// Runs pyrevolve's own tests on `veloc.revolve`. Catches what programs for pyrevolve do, and ours do not.
/// Returns why they were skipped, if so.
fn in_place_of_pyrevolve(
    site: &Path,
    packages: &Path,
    work: &Path,
    tests: &Path,
) -> Result<Option<String>> {
    let theirs = match tests_of_pyrevolve() {
        Ok(theirs) => theirs,
        Err(error) => {
            return Ok(Some(format!("pyrevolve's own tests: its source package: {error}")))
        }
    };
    let ours = tests.join("in_place_of_pyrevolve");
    let path = std::env::join_paths([&ours, site, packages]);
    let mut command = clean(interpreter());
    command.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]).arg(theirs);
    // Snapshots are not compressed.
    command.args(["-k", "not test_compression_is_used"]).current_dir(work);
    command.env("PYTHONPATH", path.when(|| "a path for Python".to_string())?);
    println!("$ {}", line(&command));
    run(&mut command)?;
    Ok(None)
}

/// Draws pictures from files that the programs `veloc` and `veloc-bench` write. Catches a name that has changed on
/// one side.
fn pictures(
    package: &Installed,
    work: &Path,
    path: &OsStr,
    stage: &StagedFolders,
    profile: Profile,
) -> Result<()> {
    let bench = build_program("veloc-bench", "veloc-bench", profile)?;
    let folder = work.join("pictures");
    create(&folder)?;
    let small =
        "--count 6 --size 64K --device-cache 256K --host-cache 1M --repeats 2 --interval 1,2";
    for (program, arguments) in [
        ("bench", format!("run --approach ours,direct-pin --out r.json {small}")),
        ("veloc", "schedule --steps 100 --slots 5 --out plan.json".to_owned()),
        ("plot", "results r.json --out results".to_owned()),
        ("plot", "timeline t-01-ours-1.json --out timeline".to_owned()),
        ("plot", "schedule plan.json".to_owned()),
    ] {
        let mut command = match program {
            "plot" => clean(interpreter()),
            "bench" => clean(&bench),
            _ => clean(package.prefix.join("bin/veloc")),
        };
        if program == "plot" {
            command.args(["-m", "veloc.plot"]);
        }
        command.args(arguments.split(' ')).current_dir(&folder).env("VELOC_TRACE", "t.json");
        command.env("PYTHONPATH", path).env("PYTHONWARNINGS", WARNINGS);
        quietly(command.env("LD_LIBRARY_PATH", stage.softcuda()))?;
    }
    for picture in ["results/5a-checkpoints.svg", "results/hops.png", "timeline.png", "plan.png"] {
        let picture = folder.join(picture);
        fs::metadata(&picture).when(|| format!("looking for {}", picture.display()))?;
    }
    Ok(())
}

fn over_mpi(mpi: MpiInstallation, site: &Path, work: &Path, tests: &Path) -> Result<()> {
    let config = work.join("python.cfg");
    let scratch = work.join("python-scratch");
    write(&config, &format!("mode = async\nscratch = {}\n", scratch.display()))?;
    let mut command = mpi.starter(&interpreter());
    command.arg(tests.join("over_mpi.py")).arg(config).arg(work.join("python-options"));
    println!("$ {}", line(&command));
    let (stdout, stderr) = outputs(command.env("PYTHONPATH", site))?;
    if stdout == "done\n" {
        return Ok(());
    }
    Err(Error::new(format!("{} printed\n{stdout}{stderr}", line(&command))))
}
