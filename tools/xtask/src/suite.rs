//! The test command: every check that the project has, one after the other.

use std::ffi::OsString;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::error::{Error, Result, While as _};
use crate::project::{cargo, has_program, line, root, run, target_directory};
use crate::stage::Profile;
use crate::{bundle, docs, header, notices, nvidia, package, programs, sanitizers, system};

/// One check.
struct Step {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<Outcome>,
}

/// How a check that did not fail ended.
enum Outcome {
    Passed,
    Skipped(&'static str),
}

/// The checks, the quick ones first. The tests come last, so that a log ends with them.
const STEPS: [Step; 13] = [
    Step { name: "system", about: "the programs that the tests need", run: system_programs },
    Step { name: "format", about: "rustfmt finds nothing to change", run: format },
    Step { name: "lints", about: "clippy has no warning", run: lints },
    Step { name: "licences", about: "licences and sources of all crates", run: licences },
    Step { name: "docs", about: "the documentation builds without a warning", run: docs },
    Step { name: "generated", about: "header, table and notices are up to date", run: generated },
    Step { name: "models", about: "catalog and ring under model checkers", run: models },
    Step { name: "sanitizers", about: "threads and memory of the library", run: sanitizers },
    Step { name: "rtm", about: "the demonstration, small, verified", run: rtm },
    Step { name: "nvidia", about: "NVIDIA's compilers, headers and libraries", run: nvidia_parts },
    Step { name: "bundle", about: "the GPU bundle on the software device", run: gpu_bundle },
    Step { name: "package", about: "programs that use the installed package", run: package },
    Step { name: "tests", about: "the tests of the workspace", run: tests },
];

/// The names of the checks.
pub fn names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

/// Runs the checks called `only` (all if there is none) up to the first that fails, or all of them
/// with `keep_going`. Ends with a table.
pub fn test(only: &[String], keep_going: bool) -> Result<()> {
    let since = Instant::now();
    let mut table = Vec::new();
    let mut failed = Vec::new();
    for step in STEPS.iter().filter(|step| only.is_empty() || only.iter().any(|n| n == step.name)) {
        println!("\n==> {}: {}", step.name, step.about);
        let since = Instant::now();
        let result = (step.run)();
        let verdict = match &result {
            Ok(Outcome::Passed) => "ok".to_string(),
            Ok(Outcome::Skipped(why)) => format!("skipped: {why}"),
            Err(_) => "FAILED".to_string(),
        };
        if let Err(error) = result {
            // Behind what the step has printed.
            let _ = std::io::stdout().flush();
            eprintln!("error: {}: {error}", step.name);
            failed.push(step.name);
        }
        table.push((step.name, since.elapsed(), verdict));
        if !failed.is_empty() && !keep_going {
            break;
        }
    }
    println!("\n{:<12} {:>13}  result", "step", "time");
    for (name, time, verdict) in &table {
        println!("{name:<12} {:>13}  {verdict}", clock(*time));
    }
    println!("{:<12} {:>13}", "all", clock(since.elapsed()));
    if failed.is_empty() {
        return Ok(());
    }
    Err(Error::new(format!(
        "failed: {}; to repeat: cargo xtask test --only {}",
        failed.join(", "),
        failed.join(" --only ")
    )))
}

/// Minutes and seconds, or seconds alone.
fn clock(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    let seconds = format!("{}.{} s", tenths / 10 % 60, tenths % 10);
    match tenths / 600 {
        0 => seconds,
        minutes => format!("{minutes} min {seconds:>6}"),
    }
}

/// Runs cargo, and shows the command.
fn cargo_step(arguments: &[&str], variables: &[(&str, &str)]) -> Result<Outcome> {
    let mut command = cargo();
    command.args(arguments).envs(variables.iter().copied());
    let shown: Vec<_> =
        variables.iter().map(|(name, value)| format!("{name}='{value}' ")).collect();
    println!("$ {}{}", shown.concat(), line(&command));
    run(&mut command)?;
    Ok(Outcome::Passed)
}

fn system_programs() -> Result<Outcome> {
    system::prepare()?;
    Ok(Outcome::Passed)
}

fn format() -> Result<Outcome> {
    cargo_step(&["fmt", "--all", "--check"], &[])
}

fn lints() -> Result<Outcome> {
    cargo_step(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"], &[])
}

fn licences() -> Result<Outcome> {
    if !has_program("cargo-deny") {
        return Ok(Outcome::Skipped("cargo-deny is not installed"));
    }
    // Not the advisories: their database is fetched anew each time.
    cargo_step(&["deny", "--workspace", "check", "licenses", "bans", "sources"], &[])
}

fn docs() -> Result<Outcome> {
    cargo_step(&["doc", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
}

fn generated() -> Result<Outcome> {
    header::check()?;
    docs::check()?;
    notices::check()?;
    Ok(Outcome::Passed)
}

/// The crates whose locks and atomics are model-checked.
const MODELLED: [&str; 3] = ["engine", "levels", "trace"];

fn models() -> Result<Outcome> {
    let features = MODELLED.map(|package| format!("{package}/model-check")).join(",");
    let packages = MODELLED.iter().flat_map(|package| ["--package", package]);
    let arguments: Vec<&str> =
        ["test", "--lib", "--features", &features].into_iter().chain(packages).collect();
    cargo_step(&[&arguments[..], &["model"]].concat(), &[])
}

fn sanitizers() -> Result<Outcome> {
    Ok(sanitizers::check()?.map_or(Outcome::Passed, Outcome::Skipped))
}

fn rtm() -> Result<Outcome> {
    let folder = target_directory()?.join("rtm");
    crate::files::folder(&folder)?;
    programs::rtm(
        &["--verify", "--steps", "300", "--output", "rtm.png"].map(Into::into),
        &[],
        &folder,
    )?;
    // What NVIDIA's compiler made of the kernels shall do the same as those that stand in for them: in two
    // layers of rock, as kernels of which C was made are slow.
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
    // The compiler joins multiplications and additions, which rounds once and not twice.
    let is_same = native.len() == compiled.len() && difference <= 1e-3 * largest && largest > 0.0;
    match is_same {
        true => Ok(Outcome::Passed),
        false => Err(Error::new("the kernels from PTX make another image than the native ones")),
    }
}

fn gpu_bundle() -> Result<Outcome> {
    let folder = bundle::make(None)?;
    let script = folder.join("run.sh");
    if has_program("shellcheck") {
        run(std::process::Command::new("shellcheck").arg("--severity=warning").arg(&script))?;
    }
    let results = target_directory()?.join("gpu-bundle-results");
    let _ = std::fs::remove_dir_all(&results);
    // One after the other, as on a machine that is lent by the command, and within its limits.
    for part in ["--tests", "--figures", "--rest"] {
        let mut command = std::process::Command::new("bash");
        command.arg(&script).args(["--software", "--quick", part]);
        command.arg(&results).current_dir(root());
        println!("$ {}", line(&command));
        run(&mut command)?;
    }
    Ok(Outcome::Passed)
}

fn nvidia_parts() -> Result<Outcome> {
    // Not on everybody's machine: they are not free software.
    if std::env::var_os("CI").is_none() {
        return Ok(Outcome::Skipped("CI is not set; cargo xtask nvidia runs it"));
    }
    Ok(nvidia::check()?.map_or(Outcome::Passed, Outcome::Skipped))
}

fn package() -> Result<Outcome> {
    // After the steps that have built this profile.
    package::check(Profile::Release)?;
    Ok(Outcome::Passed)
}

fn tests() -> Result<Outcome> {
    cargo_step(&["test", "--workspace", "--no-fail-fast"], &[])
}

#[cfg(test)]
mod tests_of_the_table {
    use super::*;

    #[test]
    fn times_are_in_minutes_and_seconds() {
        assert_eq!(clock(Duration::from_millis(61_250)), "1 min  1.2 s");
        assert_eq!(clock(Duration::from_secs(3600)), "60 min  0.0 s");
        assert_eq!(clock(Duration::from_millis(9_999)), "9.9 s");
    }
}
