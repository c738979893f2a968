//! The kernels in PTX: an assembler checks them as a driver would.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::packages::{self, entries, ASSEMBLERS, RUNTIME_COMPILER};
use super::{had, Findings};
use crate::error::{Error, Result, While};
use crate::files::{copy, read};
use crate::project::{line, root};
use crate::python::{installed_together, interpreter};

/// The largest major version of PTX: drivers older than a version do not take its kernels.
const NEWEST_PTX: u32 = 6;

/// The architectures that are checked, as far as an assembler knows them.
const ARCHITECTURES: std::ops::RangeInclusive<u32> = 60..=120;

pub(super) fn check(findings: &mut Findings) -> Result<()> {
    let kernels = files_of("ptx", root())?;
    if kernels.is_empty() {
        return Err(Error::new("there is no PTX"));
    }
    for kernel in &kernels {
        findings.add(&format!("{}: .version", shown(kernel)), version(kernel));
    }
    for packages in ASSEMBLERS {
        let name = format!("ptxas {}", packages[0].1);
        let Some(assembler) = had(&name, packages::file(packages, "ptxas")) else { continue };
        for kernel in &kernels {
            let what = format!("{}: {name}", shown(kernel));
            match assemble(&assembler, kernel) {
                Ok(count) => findings.add(&format!("{what}, {count} architectures"), Ok(())),
                Err(error) => findings.add(&what, Err(error)),
            }
        }
    }
    let (package, number) = RUNTIME_COMPILER;
    let compiler = had(&format!("{package} {number}"), installed_together(&[RUNTIME_COMPILER]));
    if let Some(compiler) = compiler {
        for kernel in &kernels {
            findings.add(&format!("{}: compiled again", shown(kernel)), again(&compiler, kernel));
        }
    }
    Ok(())
}

/// The files below a folder with this extension, without the target directory.
pub(super) fn files_of(extension: &str, folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in entries(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !path.is_symlink() && name != "target" && !name.starts_with('.') {
            found.extend(files_of(extension, &path)?);
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

pub(super) fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Fails if only newer drivers would take the kernel.
fn version(kernel: &Path) -> Result<()> {
    let text = read(kernel)?;
    let version = text.lines().find_map(|line| line.strip_prefix(".version "));
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    match (major, version) {
        (Some(major), _) if major <= NEWEST_PTX => Ok(()),
        (_, Some(version)) => Err(Error::new(format!(
            "{version} is newer than {NEWEST_PTX}.x, and so needs a newer driver"
        ))),
        _ => Err(Error::new("there is none")),
    }
}

/// Assembles a file for every architecture that the assembler knows. Returns their number.
fn assemble(assembler: &Path, kernel: &Path) -> Result<usize> {
    let known = known(&said(Command::new(assembler).arg("--help"))?);
    if known.is_empty() {
        return Err(Error::new("it names no architecture"));
    }
    for architecture in &known {
        let mut command = Command::new(assembler);
        command.args(["--verbose", "--warning-as-error", "--warn-on-spills"]);
        command.args(["--output-file", "/dev/null"]);
        command.arg(format!("--gpu-name=sm_{architecture}")).arg(kernel);
        let text = said(&mut command)?;
        if let Some(wrong) = first_wrong(&text) {
            return Err(Error::new(format!("sm_{architecture}: {wrong}")));
        }
    }
    Ok(known.len())
}

/// The architectures of [`ARCHITECTURES`] that an assembler's help names.
fn known(help: &str) -> Vec<u32> {
    let names = help.split("'sm_").skip(1).filter_map(|rest| rest.split('\'').next());
    let mut known: Vec<u32> = names.filter_map(|number| number.parse().ok()).collect();
    known.retain(|number| ARCHITECTURES.contains(number));
    known.sort_unstable();
    known.dedup();
    known
}

/// The first line of an assembler's output that tells of a warning, or of registers that did not
/// suffice.
fn first_wrong(text: &str) -> Option<&str> {
    text.lines().find(|line| {
        line.contains("warning")
            || line.contains("spill")
                && !line.contains(" 0 bytes spill stores, 0 bytes spill loads")
    })
}

/// Fails if compiling the source does not give exactly this PTX.
fn again(compiler: &Path, kernel: &Path) -> Result<()> {
    let source = kernel.with_extension("cu");
    let name = source.file_name().unwrap_or_default();
    let folder = tempfile::tempdir().when(|| "making a folder".into())?;
    let copied = folder.path().join(name);
    copy(&source, &copied)?;
    let mut command = Command::new(interpreter());
    command.arg(root().join("scripts/make_ptx.py")).arg(&copied).env("PYTHONPATH", compiler);
    said(&mut command)?;
    if read(&copied.with_extension("ptx"))? == read(kernel)? {
        return Ok(());
    }
    Err(Error::new(format!("{} gives another", shown(&source))))
}

/// The output of a command, errors included; if it failed, an error with that output.
pub(super) fn said(command: &mut Command) -> Result<String> {
    let output = command.output().when(|| format!("starting {}", line(command)))?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    Err(Error::new(format!("{} failed ({}): {}", line(command), output.status, text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn architectures_are_read_from_the_help() {
        let help = "values: 'compute_75','lto_90','sm_100','sm_100a',\n 'sm_52','sm_90','sm_121',";
        assert_eq!(known(help), [90, 100]);
    }

    #[test]
    fn warnings_and_spills_are_seen() {
        let good = "ptxas info : Used 7 registers\n 8 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
        assert_eq!(first_wrong(good), None);
        let spilled = " 8 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads";
        assert_eq!(first_wrong(spilled), Some(spilled));
        assert!(first_wrong("ptxas warning : odd").is_some());
        let more = " 8 bytes stack frame, 10 bytes spill stores, 0 bytes spill loads";
        assert_eq!(first_wrong(more), Some(more));
    }

    #[test]
    fn a_kernel_for_new_drivers_alone_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let kernel = folder.path().join("k.ptx");
        for (text, right) in [(".version 6.0\n", true), ("//\n.version 7.8\n", false), ("", false)]
        {
            std::fs::write(&kernel, text).unwrap();
            assert_eq!(version(&kernel).is_ok(), right, "{text}");
        }
    }
}
