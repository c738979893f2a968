//! NVIDIA's own driver library on a machine without a card: a program that loads it goes on without
//! a device, or says what is missing and ends.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use super::packages::{self, DRIVERS};
use super::{had, Findings};
use crate::driver::devices;
use crate::error::{Error, Result, While};
use crate::files::{folder, read, write};
use crate::project::{line, root, run};
use crate::stage::{build_program, stage, Profile, StagedFolders};

/// Seconds after which a program is taken to hang: many times what any of them takes.
const BOUND: &str = "120";

/// How a program is to end.
#[derive(Clone, Copy, Debug)]
pub(super) enum ExpectedEnd {
    /// Ends with success, and prints these words.
    Well(&'static str),
    /// Ends with an error that contains these words.
    Badly(&'static str),
}

/// C programs that need no device, with their arguments. The driver's library is loaded before them.
const ALONE: [&str; 12] = [
    "host round-trip",
    "host selective",
    "host many",
    "threads",
    "job_ends case=fork",
    "job_ends case=exit",
    "job_ends case=relative",
    "sweep runs=3 bytes=100000 verify=1",
    "script take=x:1 take=x:2 wait restore=x:2 restore=x:1",
    "left_work finalize",
    // These load the driver themselves, and go on without a device.
    "device broken-driver",
    "driver_loaded_late",
];

/// The configurations of these programs, in which `DIR` stands for a folder.
const CONFIGURATIONS: [&str; 2] = [
    "mode = async\nscratch = DIR/scratch\n",
    "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 8M\nhost_cache_size = 4M\n",
];

pub(super) fn check(findings: &mut Findings) -> Result<()> {
    let what = "the driver's library without a card";
    if devices() != 0 {
        println!("skipped  {what}: there is one");
        return Ok(());
    }
    let (package, release) = DRIVERS[1];
    let Some(driver) = had(what, packages::driver(package, release)) else { return Ok(()) };
    let stage = stage(Profile::Release)?;
    let program = |package, name| build_program(package, name, Profile::Release);
    let (rtm, veloc) = (&*program("rtm", "rtm")?, &*program("veloc-cli", "veloc")?);
    let bench = &*program("veloc-bench", "veloc-bench")?;
    let none = "no CUDA-capable device";
    for (program, arguments, end) in [
        (veloc, "doctor", ExpectedEnd::Well("the driver has none")),
        (bench, "run --repeats 1", ExpectedEnd::Badly(none)),
        (bench, "leads --only facts --out DIR/facts.json", ExpectedEnd::Badly(none)),
        (bench, "engine --parts init --repeats 1 --out DIR/engine.json", ExpectedEnd::Well("")),
        (rtm, "--steps 100 --output DIR/rtm.png", ExpectedEnd::Well("device  host")),
    ] {
        let place = tempfile::tempdir().when(|| "making a folder".into())?;
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let mut command = bounded(program, &driver);
        command.args(words(arguments, place.path())).current_dir(place.path());
        findings.add(&format!("no card: {name} {arguments}"), ends(&mut command, end));
    }
    let programs = stage.folder.join("without-card");
    folder(&programs)?;
    for run in ALONE {
        let result = CONFIGURATIONS.iter().try_for_each(|configuration| {
            job(&stage, &programs, run, configuration, &driver, None)
        });
        findings.add(&format!("no card: {run}"), result);
    }
    // The first line of each program in the GPU's list.
    let mut seen = Vec::new();
    for text in read(&root().join("capi-tests/programs/device.list"))?.lines() {
        let Some((run, settings)) = text.split_once('|') else { continue };
        let name = run.split_whitespace().next().unwrap_or_default();
        if text.starts_with('#') || seen.contains(&name.to_owned()) {
            continue;
        }
        seen.push(name.to_owned());
        let configuration = settings.replace('|', "\n");
        let end = Some(ExpectedEnd::Badly("returned CUresult 100"));
        let result = job(&stage, &programs, run.trim(), &configuration, &driver, end);
        findings.add(&format!("no card: {}", run.trim()), result);
    }
    Ok(())
}

/// Runs a C program in a folder of its own.
fn job(
    stage: &StagedFolders,
    programs: &Path,
    run: &str,
    configuration: &str,
    driver: &Path,
    end: Option<ExpectedEnd>,
) -> Result<()> {
    let (name, arguments) = run.split_once(' ').unwrap_or((run, ""));
    let program = programs.join(name);
    compile(stage, name, &program)?;
    let place = tempfile::tempdir().when(|| "making a folder".into())?;
    let file = place.path().join("veloc.cfg");
    write(&file, &configuration.replace("DIR", &place.path().display().to_string()))?;
    let mut command = bounded(&program, driver);
    command.arg(&file).args(words(arguments, place.path())).current_dir(place.path());
    // Programs that use a device load the driver themselves.
    if end.is_none() {
        command.env("LD_PRELOAD", driver.join("libcuda.so.1"));
    }
    ends(&mut command, end.unwrap_or(ExpectedEnd::Well("")))
}

fn compile(stage: &StagedFolders, name: &str, to: &Path) -> Result<()> {
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-I"]).arg(stage.include());
    command.arg(root().join(format!("capi-tests/programs/{name}.c"))).arg("-o").arg(to);
    command.arg("-L").arg(stage.lib()).arg(format!("-Wl,-rpath,{}", stage.lib().display()));
    run(command.args(["-lveloc-client", "-ldl", "-lpthread", "-lm"]))
}

/// A program that finds this driver and is ended after [`BOUND`] seconds.
pub(super) fn bounded(program: &Path, driver: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", BOUND]).arg(program).env("LD_LIBRARY_PATH", driver);
    command
}

/// Arguments, in which `DIR` stands for a folder.
fn words(arguments: &str, folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    arguments.split_whitespace().map(|word| word.replace("DIR", &folder)).collect()
}

/// Fails if a program does not end as it should.
pub(super) fn ends(command: &mut Command, end: ExpectedEnd) -> Result<()> {
    let output = command.output().when(|| format!("starting {}", line(command)))?;
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let status = output.status;
    let as_it_should = match end {
        ExpectedEnd::Well(words) => status.success() && text.contains(words),
        // The program ended by itself, not by a signal or the bound.
        ExpectedEnd::Badly(words) => {
            status.code().is_some_and(|code| (1..124).contains(&code)) && text.contains(words)
        }
    };
    // The loader prints the latter if a library lacks the versions of functions that a program asks
    // for.
    let bad = ["panicked", "no version information"].iter().find(|bad| text.contains(**bad));
    if as_it_should && bad.is_none() {
        return Ok(());
    }
    let what = command.get_args().nth(2).unwrap_or(OsStr::new(""));
    Err(Error::new(format!("{} ({status}, not {end:?}): {text}", Path::new(what).display())))
}
