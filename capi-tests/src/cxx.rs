//! The library with the C++ layer in it, and C++ programs that use it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use tempfile::TempDir;
use xtask::project::root;

use crate::program::{finish, staged};

/// Where everything here is made, for the life of the process.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

/// The folder with `libveloc-client.so`: the layer and the Rust library in one, as an installation
/// has it.
pub fn library() -> &'static Path {
    static LINKED: OnceLock<PathBuf> = OnceLock::new();
    LINKED.get_or_init(|| {
        let folder = folder().join("lib");
        std::fs::create_dir_all(&folder).unwrap();
        let sources = root().join("cpp/src");
        let mut command = compiler();
        command.args(["-fPIC", "-shared", "-Wl,-soname,libveloc-client.so", "-Wl,-z,nodelete"]);
        command.args(["-Wl,--gc-sections", "-o"]).arg(folder.join("libveloc-client.so"));
        let exports = root().join("cpp/exports.map");
        command.arg(format!("-Wl,--version-script={}", exports.display()));
        for entry in std::fs::read_dir(&sources).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "cpp") {
                command.arg(path);
            }
        }
        command.arg("-Wl,--whole-archive").arg(staged().static_library());
        command.args(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm"]);
        finish(command);
        folder
    })
}

/// The executable of a program in `cxx/`.
pub fn cxx_program(name: &str) -> PathBuf {
    cxx_program_with(name, &[])
}

/// The same, linked with other libraries.
pub fn cxx_program_with(name: &str, libraries: &[&str]) -> PathBuf {
    program(compiler(), name, libraries)
}

/// The executable of `cxx/together.cpp`, made by the C++ compiler of an MPI installation.
pub fn mpi_program(mpi: &str) -> PathBuf {
    let mut command = Command::new(mpi);
    // The old C++ bindings of MPI do not compile without a warning.
    command.args(["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]);
    warn(&mut command);
    program(command, "together", &[])
}

fn program(mut command: Command, name: &str, libraries: &[&str]) -> PathBuf {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let library = library();
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let compiler = command.get_program().to_string_lossy().into_owned();
    let executable = folder().join(format!("{name}-{compiler}").replace('/', "-"));
    if executable.exists() {
        return executable;
    }
    let sources = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/cxx"));
    // Where the stand-in for bitsery is.
    command.arg("-I").arg(sources);
    command.arg(sources.join(format!("{name}.cpp"))).arg("-o").arg(&executable);
    command.arg("-L").arg(library).args(["-lveloc-client", "-lpthread"]);
    command.args(libraries.iter().map(|library| format!("-l{library}")));
    finish(command);
    executable
}

fn compiler() -> Command {
    let mut command = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    warn(&mut command);
    command
}

fn warn(command: &mut Command) {
    command.args(["-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I"]);
    command.arg(staged().include());
}
