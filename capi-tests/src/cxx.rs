//! The library with the C++ layer in it, and C++ programs that use it.

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::project::root;

use crate::compiled::compiled;
use crate::program::{finish, staged, Flavour};

/// The folder with `libveloc-client.so`: the C++ layer and the Rust library, as installed.
pub fn library() -> PathBuf {
    library_of(Flavour::Plain)
}

/// The folder with `libveloc-client.so`, in which the C++ layer is compiled in this flavour.
pub fn library_of(flavour: Flavour) -> PathBuf {
    let (layer, archive) = (root().join("cpp"), staged().static_library());
    let mut command = compiler(flavour);
    command.args(["-fPIC", "-shared", "-Wl,-soname,libveloc-client.so", "-Wl,-z,nodelete"]);
    command.arg("-Wl,--gc-sections");
    command.arg(format!("-Wl,--version-script={}", layer.join("exports.map").display()));
    for entry in std::fs::read_dir(layer.join("src")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "cpp") {
            command.arg(path);
        }
    }
    command.arg("-Wl,--whole-archive").arg(&archive);
    command.args(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm"]);
    // The archive is large, and is written anew when it changes.
    let made = std::fs::metadata(&archive).and_then(|archive| archive.modified()).unwrap();
    let how = format!("{command:?} {made:?}");
    compiled("libveloc-client-with-cxx", &how, &[layer, staged().include()], |folder| {
        command.arg("-o").arg(folder.join("libveloc-client.so"));
        finish(command);
    })
}

/// The executable of a program in `cxx/`: `<name>.cpp`, and `<name>_calls.cpp` if there is one.
pub fn cxx_program(name: &str, flavour: Flavour) -> PathBuf {
    program(compiler(flavour), name, flavour, &[])
}

/// The executable of a program in `cxx/`, linked with these libraries as well.
pub fn cxx_program_with(name: &str, libraries: &[&str]) -> PathBuf {
    program(compiler(Flavour::Plain), name, Flavour::Plain, libraries)
}

/// The executable of a program in `cxx/`, made by the C++ compiler of an MPI installation.
pub fn mpi_program(mpi: &str, name: &str) -> PathBuf {
    let mut command = Command::new(mpi);
    // The old C++ bindings of MPI do not compile without a warning.
    command.args(["-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"]);
    strict(&mut command);
    program(command, name, Flavour::Plain, &[])
}

fn program(mut command: Command, name: &str, flavour: Flavour, libraries: &[&str]) -> PathBuf {
    let library = library_of(flavour);
    let sources = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/cxx"));
    // The folder of the stand-in for bitsery.
    command.arg("-I").arg(sources);
    command.arg(sources.join(format!("{name}.cpp")));
    let second = sources.join(format!("{name}_calls.cpp"));
    command.args(second.exists().then_some(second));
    command.arg("-L").arg(library).args(["-lveloc-client", "-lpthread"]);
    command.args(libraries.iter().map(|library| format!("-l{library}")));
    let how = format!("{command:?}");
    compiled(name, &how, &[sources.to_owned(), staged().include()], |folder| {
        command.arg("-o").arg(folder.join(name));
        finish(command);
    })
    .join(name)
}

fn compiler(flavour: Flavour) -> Command {
    let mut command = Command::new(std::env::var_os("CXX").unwrap_or_else(|| "c++".into()));
    strict(&mut command);
    if flavour == Flavour::Sanitized {
        // Optimised, it takes twice as long to compile.
        command.args(["-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    }
    command
}

fn strict(command: &mut Command) {
    command.args(["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-I"]);
    command.arg(staged().include());
}
