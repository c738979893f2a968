//! The test command: every check that the project has, one after the other.

use std::ffi::OsString;

use crate::error::{Error, Result, While as _};
use crate::files::read;
use crate::project::{has_program, line, root, run, target_directory};
use crate::runner::ALL;
use crate::stage::Profile;
use crate::steps::{cargo_step, run_all, CommandStep, StepOutcome, StepsReport};
use crate::{
    bundle, docs, driver, map, notices, nvidia, package, programs, runner, sanitizers, system,
};

/// The checks, the quick ones first. The tests come last, so that a log ends with them.
const STEPS: [CommandStep<'static>; 13] = [
    CommandStep {
        name: "system",
        about: "the programs that the tests need",
        run: &system_programs,
    },
    CommandStep { name: "format", about: "rustfmt finds nothing to change", run: &format },
    CommandStep { name: "lints", about: "clippy has no warning", run: &lints },
    CommandStep { name: "licences", about: "licences and sources of all crates", run: &licences },
    CommandStep { name: "docs", about: "the documentation builds without a warning", run: &docs },
    CommandStep {
        name: "generated",
        about: "header, table and notices are up to date",
        run: &generated,
    },
    CommandStep {
        name: "models",
        about: "catalog and host buffer under model checkers",
        run: &models,
    },
    CommandStep {
        name: "sanitizers",
        about: "threads and memory of the library",
        run: &sanitizers,
    },
    CommandStep {
        name: "nvidia",
        about: "NVIDIA's compilers, headers and libraries",
        run: &nvidia_parts,
    },
    CommandStep {
        name: "bundle",
        about: "the GPU bundle on the software device",
        run: &gpu_bundle,
    },
    CommandStep { name: "rtm", about: "the demonstration, small, verified", run: &rtm },
    CommandStep {
        name: "package",
        about: "programs that use the installed package",
        run: &package,
    },
    CommandStep { name: "tests", about: "the tests of the workspace", run: &tests },
];

/// The names of the checks.
pub fn names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

/// The steps that only run before a release, or by name: each builds the crates another time, in a way that
/// nothing else uses.
const BEFORE_A_RELEASE: [&str; 6] = ["lints", "docs", "models", "sanitizers", "nvidia", "bundle"];

/// What the other steps leave out then.
const LEFT_OUT: &str =
    "the wheel and the package as users build it, kernels from PTX, valgrind, each program \
    with each MPI, the message log preloaded, most random kills and cases";

/// Runs the checks called `only` (without names the daily ones, or with `all` all of them) up to
/// the first that fails, or all of them with `keep_going`. Ends with a table of the results and of
/// what was not covered.
pub fn test(only: &[String], keep_going: bool, all: bool) -> Result<()> {
    let chosen = |step: &CommandStep| match only {
        [] => all || !BEFORE_A_RELEASE.contains(&step.name),
        _ => only.iter().any(|name| name == step.name),
    };
    let steps: Vec<CommandStep> = STEPS.into_iter().filter(chosen).collect();
    if all {
        std::env::set_var(ALL, "1");
    }
    let mut report = run_all(&steps, keep_going);
    if only.is_empty() && !all {
        let why = "for a release: cargo xtask test --all";
        for what in [&BEFORE_A_RELEASE.join(", "), LEFT_OUT] {
            report.open.push((what.to_owned(), why.to_owned()));
        }
    }
    if only.is_empty() {
        let found = match driver::devices() {
            0 => "there is none here",
            _ => "only the demonstration ran on it",
        };
        let why = format!("{found}; cargo xtask gpu-bundle makes a folder of tests for one");
        report.open.push(("a GPU".to_owned(), why));
    }
    println!("\n{}", uncovered(&report));
    report
        .result(|failed| format!("to repeat: cargo xtask test --only {}", failed.join(" --only ")))
}

/// The lines about what was not covered.
fn uncovered(report: &StepsReport) -> String {
    if report.open.is_empty() {
        return "no step was skipped".to_owned();
    }
    let lines = report.open.iter().map(|(what, why)| format!("  {what}: {why}\n"));
    format!("not covered:\n{}", lines.collect::<String>().trim_end())
}

fn system_programs() -> Result<StepOutcome> {
    let missing = system::prepare()?;
    Ok(match &missing[..] {
        [] => StepOutcome::Passed,
        _ => StepOutcome::Skipped(format!("tests that need {}", missing.join(", "))),
    })
}

fn format() -> Result<StepOutcome> {
    cargo_step(&["fmt", "--all", "--check"], &[])
}

fn lints() -> Result<StepOutcome> {
    cargo_step(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
}

fn licences() -> Result<StepOutcome> {
    if !has_program("cargo-deny") {
        return Ok(StepOutcome::Skipped("cargo-deny is not installed".to_owned()));
    }
    // Without the advisories, whose database is fetched anew each time.
    cargo_step(&["deny", "--workspace", "check", "licenses", "bans", "sources"], &[])
}

fn docs() -> Result<StepOutcome> {
    cargo_step(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
}

fn generated() -> Result<StepOutcome> {
    docs::headers(true)?;
    docs::check()?;
    map::check()?;
    notices::check()?;
    Ok(StepOutcome::Passed)
}

/// The crates whose locks are model-checked.
const MODELLED: [&str; 2] = ["engine", "levels"];

fn models() -> Result<StepOutcome> {
    let features = MODELLED.map(|package| format!("{package}/model-check")).join(",");
    let packages = MODELLED.iter().flat_map(|package| ["--package", package]);
    let arguments: Vec<&str> =
        ["test", "--lib", "--features", &features].into_iter().chain(packages).collect();
    cargo_step(&[&arguments[..], &["model"]].concat(), &[])
}

fn sanitizers() -> Result<StepOutcome> {
    Ok(sanitizers::check()?.into())
}

/// Whether everything is to run, as before a release.
fn is_all() -> bool {
    std::env::var_os(ALL).is_some()
}

fn rtm() -> Result<StepOutcome> {
    let folder = target_directory()?.join("rtm");
    crate::files::folder(&folder)?;
    programs::rtm(
        &["--verify", "--steps", "300", "--output", "rtm.png"].map(Into::into),
        &[],
        &folder,
    )?;
    if !is_all() {
        return Ok(StepOutcome::Passed);
    }
    // The kernels that NVIDIA's compiler made shall give the same image as their stand-ins: in two
    // layers of rock only, as kernels translated to C are slow.
    let (columns, depth) = (96, 64);
    let speed = |z| if z < depth / 2 { 1800.0_f32 } else { 3000.0 };
    let model: Vec<u8> =
        (0..columns * depth).flat_map(|point| speed(point % depth).to_le_bytes()).collect();
    let path = folder.join("layers");
    std::fs::write(&path, model).when(|| format!("writing {}", path.display()))?;
    let image = |kernels: &str| {
        let model = ["--velocity", "layers", "--nx", "96", "--nz", "64", "--dx", "10"];
        let files = ["--output", "layers.png", "--data", "layers.image", "--device", "gpu"];
        let words: Vec<OsString> = model.iter().chain(&files).map(Into::into).collect();
        programs::rtm(&words, &[("SOFTCUDA_KERNELS", kernels)], &folder)?;
        let data = folder.join("layers.image");
        let bytes = std::fs::read(&data).when(|| format!("reading {}", data.display()))?;
        let values = bytes.as_chunks().0.iter().map(|value| f32::from_le_bytes(*value));
        Ok(values.collect::<Vec<f32>>())
    };
    let (native, compiled) = (image("native")?, image("ptx")?);
    let largest = native.iter().fold(0.0, |largest: f32, value| largest.max(value.abs()));
    let differences = native.iter().zip(&compiled).map(|(a, b)| (a - b).abs());
    let difference = differences.fold(0.0, f32::max);
    println!(
        "values of the image: {largest:e} at the most; {difference:e} from one kernel to the other"
    );
    // The compiler fuses multiplications and additions, which rounds once instead of twice.
    let is_same = native.len() == compiled.len() && difference <= 1e-3 * largest && largest > 0.0;
    match is_same {
        true => Ok(StepOutcome::Passed),
        false => Err(Error::new("the kernels from PTX make another image than the native ones")),
    }
}

fn gpu_bundle() -> Result<StepOutcome> {
    let folder = bundle::make(None)?;
    let script = folder.join("run.sh");
    if has_program("shellcheck") {
        run(std::process::Command::new("shellcheck").arg("--severity=warning").arg(&script))?;
    }
    let results = target_directory()?.join("gpu-bundle-results");
    let _ = std::fs::remove_dir_all(&results);
    // One after the other, as on a lent machine, and within its limits.
    for part in ["--tests", "--figures", "--rest", "--paper"] {
        let mut command = std::process::Command::new("bash");
        command.arg(&script).args(["--software", "--quick", part]);
        command.arg(&results).current_dir(root());
        println!("$ {}", line(&command));
        run(&mut command)?;
    }
    let table = read(&results.join("paper.md"))?;
    if !table.contains("\n19 of 19 numbers") {
        return Err(Error::new(format!(
            "run.sh --paper lacks some of the paper's numbers:\n{table}"
        )));
    }
    Ok(StepOutcome::Passed)
}

fn nvidia_parts() -> Result<StepOutcome> {
    // Not on everybody's machine: these parts are not free software.
    if std::env::var_os("CI").is_none() {
        return Ok(StepOutcome::Skipped("CI is not set; cargo xtask nvidia runs it".to_owned()));
    }
    Ok(nvidia::check()?.into())
}

fn package() -> Result<StepOutcome> {
    // Otherwise of what the tests build.
    let skipped = package::check(if is_all() { Profile::Release } else { Profile::Debug })?;
    Ok(match &skipped[..] {
        [] => StepOutcome::Passed,
        _ => StepOutcome::Skipped(skipped.join("; ")),
    })
}

/// The crates with examples in their documentation: looking for some takes seconds in each.
const WITH_EXAMPLES: &str = "trace";

fn tests() -> Result<StepOutcome> {
    runner::run(is_all())?;
    if !is_all() {
        // Compiling it takes longer than all the crate's tests.
        return Ok(StepOutcome::Passed);
    }
    cargo_step(&["test", "--doc", "--package", WITH_EXAMPLES], &[])
}

#[cfg(test)]
mod tests_of_the_report {
    use super::*;

    /// Catches a skipped step, or a machine without a GPU, that is not reported.
    #[test]
    fn what_was_not_covered_is_listed_with_its_reason() {
        let mut report = StepsReport::default();
        assert_eq!(uncovered(&report), "no step was skipped");
        report.open.push(("licences".to_owned(), "no cargo-deny".to_owned()));
        report.open.push(("a GPU".to_owned(), "there is none".to_owned()));
        let wanted = "not covered:\n  licences: no cargo-deny\n  a GPU: there is none";
        assert_eq!(uncovered(&report), wanted);
    }
}
