//! MPI, and the backend.

use std::io::{Read as _, Seek as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use config::Config;
use mpi::{Abi, Library};
use recovery as backend;

use super::Finding;

const AREA: &str = "programs";

/// How long a program is given to say its version.
const PATIENCE: Duration = Duration::from_secs(20);

/// Looks for MPI and the backend.
pub(super) fn look(config: Option<&Config>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Library::load_all()
        .into_iter()
        .map(|(name, library)| {
            let abi = match library.abi() {
                Abi::OpenMpi => "interface of Open MPI",
                Abi::Mpich => "interface of MPICH",
                Abi::Standard => "standard interface",
            };
            let version = library.version().unwrap_or_else(|| "of no known version".to_owned());
            let version: Vec<&str> = version.split_whitespace().collect();
            let version = version.join(" ");
            Finding::ok(AREA, "MPI", format!("{version} ({}, {abi})", name.to_string_lossy()))
        })
        .collect();
    if findings.is_empty() {
        findings.push(
            Finding::ok(AREA, "MPI", "the loader finds none").note(
                "VELOC_Init uses what the program has loaded; load its module to see it here",
            ),
        );
    }
    let needed = config.is_some_and(Config::outlives_application);
    findings.push(match backend::program() {
        Ok(program) => backend(&program, needed),
        Err(error) => judged(Finding::ok(AREA, "veloc-backend", error.to_string()), needed),
    });
    findings
}

/// The finding on the backend, which is needed or only of use.
fn backend(program: &Path, needed: bool) -> Finding {
    let finding = |found: String| Finding::ok(AREA, "veloc-backend", found);
    let judge = |found: String| judged(finding(found), needed);
    let shown = program.display();
    match version_of(program) {
        Ok(version) if version == backend::version() => finding(format!("{shown}, {version}")),
        Ok(version) => {
            judge(format!("{shown} says {version:?}; this is of {:?}", backend::version()))
        }
        Err(error) => judge(format!("{shown}: {error}")),
    }
}

/// What is found where no backend of use is.
fn judged(found: Finding, needed: bool) -> Finding {
    let advice = "what only memory has is lost if an async job is killed; install it beside the \
                  library or in ../bin, or name its directory in VELOC_BIN";
    match needed {
        true => found.problem(advice),
        false => found.note(advice),
    }
}

/// What a program says to `--version`, in its first line.
fn version_of(program: &Path) -> Result<String, String> {
    // A file, not a pipe: the program of another project may leave behind a process that holds the
    // pipe.
    let mut output = tempfile::tempfile().map_err(|error| error.to_string())?;
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(|error| error.to_string())?)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())?;
    let since = Instant::now();
    while child.try_wait().map_err(|error| error.to_string())?.is_none() {
        if since.elapsed() > PATIENCE {
            // The program may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
            return Err("it does not say its version".to_owned());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut text = Vec::new();
    output
        .rewind()
        .and_then(|()| output.take(1000).read_to_end(&mut text))
        .map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&text).lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;
    use xtask::files::write_program;

    /// Catches a backend of another version that passes, and a missing backend where it is needed.
    #[test]
    fn backends_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("veloc-backend");
        assert_eq!(backend(&program, false).state, Severity::Note);
        assert_eq!(backend(&program, true).state, Severity::Problem);
        let says = |text: &str| {
            write_program(&program, &format!("#!/bin/sh\n{text}\n")).unwrap();
            backend(&program, true)
        };
        let own = says(&format!("echo '{}'", backend::version()));
        assert_eq!(own.state, Severity::Ok, "{own:?}");
        for other in ["echo 'veloc-backend 99 (protocol 99)'", "exit 1", "yes | head -c 100000"] {
            assert_eq!(says(other).state, Severity::Problem, "{other}");
        }
        // A program that leaves a process behind.
        let left = says("sleep 1000 & echo $! > \"$0.pid\"; echo x");
        assert!(left.found.contains("says \"x\""), "{left:?}");
        let left = std::fs::read_to_string(folder.path().join("veloc-backend.pid")).unwrap();
        // SAFETY: sends a signal to a process that this test has started.
        unsafe { libc::kill(left.trim().parse().unwrap(), libc::SIGKILL) };
    }
}
