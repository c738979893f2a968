//! Starts the backend.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::usage::PROGRAM;
use errors::{Error, ErrorKind, Result};
use os::programs;
use os::socket::Listener;

/// The option by which standard input is the listening socket.
pub const SOCKET_OPTION: &str = "--socket";

/// Starts a backend that serves this socket, for the configuration in `file`. The caller reaps the
/// child, which exits when the backend has become a daemon.
pub(super) fn launch(listener: Listener, file: Option<&Path>) -> Result<Child> {
    if os::environment::is_foreign() {
        // The user of a set-user-id program could redirect the search in several ways.
        return Err(Error::invalid(format!(
            "a set-user-id program starts no other program; {PROGRAM} can be started by hand"
        )));
    }
    let program = program()?;
    Command::new(&program)
        .arg(SOCKET_OPTION)
        // The configuration is shown in process lists. The program takes text only.
        .args(file.map(Path::to_string_lossy).as_deref())
        // The application's preloaded libraries are not for the backend.
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::from(listener.into_file()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // A signal to the job's process group (mpirun, a terminal) must not kill the backend before it
        // is a daemon.
        .process_group(0)
        .spawn()
        .map_err(|error| {
            Error::system(
                format!("starting {} (VELOC_BIN names the directory it is in)", program.display()),
                &error,
            )
        })
}

/// The program that would be started: in the directory `VELOC_BIN` (as upstream), beside the library or
/// in its installation, else in a directory of `PATH`. Its path is absolute.
///
/// # Errors
/// There is none; the message says where it was looked for.
pub fn program() -> Result<PathBuf> {
    if let Some(directory) = os::environment::var_os("VELOC_BIN").filter(|set| !set.is_empty()) {
        let path = PathBuf::from(directory).join(PROGRAM);
        return Ok(std::path::absolute(&path).unwrap_or(path));
    }
    let here: fn() -> Result<PathBuf> = program;
    let library = programs::file_of_code(here as *const ());
    let installed = library.as_deref().and_then(Path::parent).and_then(installed);
    installed.or_else(|| programs::in_path(PROGRAM)).ok_or_else(|| {
        let beside = library.as_deref().and_then(Path::parent).unwrap_or(Path::new("the library"));
        Error::new(
            ErrorKind::NotFound,
            format!(
                "there is no {PROGRAM} in {}, its installation, or an absolute directory of PATH (VELOC_BIN names \
                 the directory it is in)",
                beside.display()
            ),
        )
    })
}

/// The program for a library in this directory: beside it, or in the `bin` that belongs to `lib`,
/// `lib64` or `lib/<machine>`.
fn installed(library: &Path) -> Option<PathBuf> {
    let places = ["", "../bin", "../../bin"];
    places.iter().map(|place| library.join(place).join(PROGRAM)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a library that starts the program of another installation, or none.
    #[test]
    fn the_program_of_the_same_installation_is_found() {
        let prefix = tempfile::tempdir().unwrap();
        let bin = prefix.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join(PROGRAM), "").unwrap();
        for place in ["lib", "lib64", "lib/x86_64-linux-gnu", "bin"] {
            let library = prefix.path().join(place);
            std::fs::create_dir_all(&library).unwrap();
            let found = installed(&library).expect(place);
            assert_eq!(found.canonicalize().unwrap(), bin.join(PROGRAM), "{place}");
        }
        let elsewhere = prefix.path().join("share/veloc/fortran");
        std::fs::create_dir_all(&elsewhere).unwrap();
        assert_eq!(installed(&elsewhere), None);
    }
}
