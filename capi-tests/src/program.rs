//! The C programs: compiled once for each content and flavour, against the staged library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::compiled::compiled;
use xtask::stage::{stage, Profile, StagedFolders};

/// How a program is compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// As a user would compile it.
    #[default]
    Plain,
    /// With AddressSanitizer and UndefinedBehaviorSanitizer.
    Sanitized,
}

/// The libraries and headers.
pub fn staged() -> &'static StagedFolders {
    // A failure is kept as well: another attempt in each test would take as long each time.
    static STAGE: OnceLock<Result<StagedFolders, String>> = OnceLock::new();
    let stage = STAGE.get_or_init(|| {
        let profile = if cfg!(debug_assertions) { Profile::Debug } else { Profile::Release };
        stage(profile).map_err(|error| error.to_string())
    });
    stage.as_ref().unwrap_or_else(|error| panic!("staging the library: {error}"))
}

/// The folder of the C sources.
pub fn sources() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/programs"))
}

/// The executable of a program.
pub fn program(name: &str, flavour: Flavour) -> PathBuf {
    let mut command = compiler();
    match flavour {
        Flavour::Plain => command.arg("-O1"),
        Flavour::Sanitized => command.args([
            "-O1",
            "-g",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            "-fno-omit-frame-pointer",
        ]),
    };
    compile(command, &format!("{name}.c"), &["-lveloc-client", "-ldl", "-lpthread", "-lm"])
}

/// What a compiler needs to know of HDF5, if it is installed.
pub fn hdf5() -> Option<Vec<String>> {
    let found = Command::new("pkg-config").args(["--cflags", "--libs", "hdf5"]).output().ok()?;
    let Some(flags) = String::from_utf8(found.stdout).ok().filter(|_| found.status.success())
    else {
        println!("skipped: HDF5 is not installed");
        return None;
    };
    Some(flags.split_whitespace().map(str::to_owned).collect())
}

/// The executable of a program that uses a library.
pub fn program_with(name: &str, flags: &[String]) -> PathBuf {
    let mut libraries: Vec<&str> = flags.iter().map(String::as_str).collect();
    libraries.extend(["-lveloc-client", "-lm"]);
    compile(compiler(), &format!("{name}.c"), &libraries)
}

/// The executable of the program `source`, a path beside the other C programs, made with MPI by the
/// compiler of an installation.
pub fn mpi_program(compiler: &str, source: &str) -> PathBuf {
    let mut command = Command::new(compiler);
    command.arg("-DCHECK_WITH_MPI");
    compile(command, source, &["-lveloc-client", "-lm"])
}

/// The executable of a program in `parts/`, made with MPI by the compiler of an installation. It is
/// linked with the library that logs messages, or finds it if it is preloaded.
pub fn parts_program(compiler: &str, name: &str, linked: bool) -> PathBuf {
    let mut command = Command::new(compiler);
    // MPICH declares MPI_STATUSES_IGNORE as an array, which it is not.
    command.args(["-O1", "-Wno-stringop-overflow"]);
    let source = format!("../parts/{name}.c");
    if !linked {
        return compile(command, &source, &["-lm"]);
    }
    command.arg("-DPARTS_LINKED");
    compile(command, &source, &["-lveloc-mpi", "-lveloc-client", "-lm"])
}

/// The executable of the C example `examples/<name>`, made of these of its files, as its README says.
pub fn example(name: &str, files: &[&str]) -> PathBuf {
    let stage = staged();
    let folder = sources().join("../../examples").join(name);
    let mut command = compiler();
    command.args(["-std=c99", "-O3", "-Wall", "-Wextra", "-Werror", "-I"]);
    command.arg(stage.include()).args(files.iter().map(|file| folder.join(file)));
    command.arg("-L").arg(stage.lib()).args(["-lveloc-client", "-lm"]);
    let inputs = [folder.clone(), folder.join("../persistent.h"), stage.include()];
    let how = format!("{command:?}");
    compiled(name, &how, &inputs, |folder| {
        command.arg("-o").arg(folder.join(name));
        finish(command);
    })
    .join(name)
}

/// The executable of a C program, a path below the sources, with these libraries.
fn compile(mut command: Command, source: &str, libraries: &[&str]) -> PathBuf {
    let stage = staged();
    let source = sources().join(source);
    command.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-I"]);
    command.arg(stage.include()).arg(&source).arg("-L").arg(stage.lib()).args(libraries);
    let name = source.file_stem().unwrap().to_string_lossy().into_owned();
    // All files that a program may include.
    let mut inputs = vec![source.clone(), stage.include(), sources().join("../../examples/hager")];
    inputs.extend(headers(sources()).chain(headers(&sources().join("../parts"))));
    let how = format!("{command:?}");
    compiled(&name, &how, &inputs, |folder| {
        command.arg("-o").arg(folder.join(&name));
        finish(command);
    })
    .join(&name)
}

/// The headers beside sources.
fn headers(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut headers: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|of| of == "h" || of == "list")).collect();
    headers.sort();
    headers.into_iter()
}

/// The executable of the Fortran program in the last of these files, paths below `fortran/` or from the
/// root, made with the modules in the others and with these of the library's by a compiler that a user
/// may have, and with the user's own flags.
pub fn fortran_program(
    compiler: &str,
    flags: &[&str],
    files: &[&str],
    modules: &[&str],
) -> PathBuf {
    let folder = sources().join("../fortran");
    let sources: Vec<PathBuf> =
        files.iter().map(|file| folder.join(format!("{file}.f90"))).collect();
    let name = sources.last().unwrap().file_stem().unwrap().to_str().unwrap();
    compile_fortran(compiler, flags, name, modules, &sources)
}

/// The executable of the Fortran example `examples/<name>/<name>.f90`, with these modules of its
/// own.
pub fn fortran_example(compiler: &str, name: &str, own_modules: &[&str]) -> PathBuf {
    let folder = sources().join("../../examples").join(name);
    let files: Vec<PathBuf> =
        own_modules.iter().chain([&name]).map(|file| folder.join(format!("{file}.f90"))).collect();
    compile_fortran(compiler, &["-O2"], name, &["veloc", "veloc_f08"], &files)
}

/// The executable of a Fortran program with this text.
pub fn fortran_of_text(compiler: &str, name: &str, text: &str) -> PathBuf {
    let folder = staged().folder.join(format!("texts/{}/{compiler}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join(format!("{name}.f90"));
    std::fs::write(&file, text).unwrap();
    compile_fortran(compiler, &["-O1"], name, &["veloc"], &[file])
}

fn compile_fortran(
    compiler: &str,
    flags: &[&str],
    name: &str,
    modules: &[&str],
    files: &[PathBuf],
) -> PathBuf {
    let stage = staged();
    let interface = stage.fortran();
    let mut inputs = vec![interface.clone()];
    inputs.extend_from_slice(files);
    let how = format!("{compiler} {flags:?} {modules:?}");
    // Module files serve only the compiler that made them, with the same flags.
    compiled(name, &how, &inputs, |folder| {
        let shim = folder.join("descriptor.o");
        let mut command = self::compiler();
        command.args(["-Wall", "-Wextra", "-Werror", "-c", "-o"]);
        command.arg(&shim).arg(interface.join("descriptor.c"));
        let flang = compiler.starts_with("flang");
        if flang {
            // The C compiler is of another make, and has another header of that name.
            let program = std::fs::canonicalize(found(compiler).unwrap()).unwrap();
            command.arg("-I").arg(program.parent().unwrap().join("../include/flang"));
        }
        finish(command);
        let mut command = Command::new(compiler);
        command.arg("-std=f2018").args(flags);
        if !flang {
            command.args(["-Wall", "-Wextra"]);
        }
        command.arg("-J").arg(folder);
        command.args(modules.iter().map(|module| interface.join(format!("{module}.f90"))));
        command.args(files);
        command.arg(&shim).arg("-o").arg(folder.join(name));
        command.arg("-L").arg(stage.lib()).arg("-lveloc-client");
        finish(command);
    })
    .join(name)
}

/// The command of this name, if there is one.
pub fn found(command: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(command)).find(|file| file.exists())
}

/// A driver library that has one function and lacks the rest, in a folder of its own.
pub fn maimed_driver(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("maimed.c"), folder.join("libcuda.so.1"));
    std::fs::write(&source, "int cuInit(unsigned flags) { return flags != 0; }\n").unwrap();
    let mut command = compiler();
    command.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"]).arg(&library).arg(&source);
    finish(command);
    library
}

/// The stand-in for NVTX, under the name of its version 2, in a folder of its own.
pub fn nvtx_standin(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libnvToolsExt.so.1"), "../nvtx/standin.c")
}

/// A library to be loaded ahead of others, which prints the files that `fsync` is called for.
pub fn sync_witness(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libsync.so"), "../preload/sync.c")
}

/// A library to be loaded ahead of others, which intercepts the calls that change files.
pub fn faults(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libfaults.so"), "../preload/faults.c")
}

/// A library to be loaded ahead of others, which refuses io_uring to the process.
pub fn no_uring(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libnouring.so"), "../preload/no_uring.c")
}

/// A library to be loaded before all others, which kills the process as soon as it has given a file
/// a name that ends with `DIES_AT`.
pub fn dying(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libdying.so"), "../preload/dying.c")
}

/// A library to be loaded before all others, which makes a process wait for the file `HELD_UNTIL`
/// before it gives a file a name that ends with `HOLDS_AT`.
pub fn holding(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libholding.so"), "../preload/holding.c")
}

/// A library to be loaded ahead of others, which makes calls of MPI fail, for one MPI.
pub fn mpi_faults(mpi: &str, folder: &Path) -> PathBuf {
    let library = folder.join("libmpifaults.so");
    shared_library_by(Command::new(mpi), &library, "../preload/mpi.c")
}

/// A library to be loaded ahead of others, with which a rank that waits leaves its processor to others; made once.
pub fn patient() -> PathBuf {
    let (source, name) = ("../preload/patient.c", "libpatient.so");
    compiled("patient", "", &[sources().join(source)], |folder| {
        shared_library(&folder.join(name), source);
    })
    .join(name)
}

/// A library to be loaded behind the one that logs messages, with which an MPI takes buffers in
/// device memory; made by the compiler of its installation.
pub fn cuda_aware(mpi: &str, folder: &Path) -> PathBuf {
    let library = folder.join("libaware.so");
    shared_library_by(Command::new(mpi), &library, "../preload/aware.c")
}

/// A library to be loaded ahead of others, which gives the one that logs messages no memory.
pub fn starving(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libstarve.so"), "../preload/starve.c")
}

/// A library to be loaded ahead of others, with which the file `MEMINFO` tells the free memory.
pub fn told_memory(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libmeminfo.so"), "../preload/meminfo.c")
}

/// A library to be loaded ahead of others, with which each file is in persistent memory.
pub fn persistent_memory(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libdax.so"), "../preload/dax.c")
}

fn shared_library(library: &Path, source: &str) -> PathBuf {
    shared_library_by(compiler(), library, source)
}

fn shared_library_by(mut command: Command, library: &Path, source: &str) -> PathBuf {
    let soname = library.file_name().unwrap().to_string_lossy();
    command
        .args(["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror"])
        .arg(format!("-Wl,-soname,{soname}"))
        .arg("-o")
        .arg(library)
        .arg(sources().join(source))
        .args(["-lpthread", "-ldl"]);
    finish(command);
    library.to_owned()
}

pub(crate) fn compiler() -> Command {
    Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

pub(crate) fn finish(mut command: Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}
