//! The C programs: compiled once for each process and flavour, against the staged library.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use xtask::stage::{stage, Profile, Stage};

/// How a program is compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// As a user would.
    #[default]
    Plain,
    /// With AddressSanitizer and UndefinedBehaviorSanitizer.
    Sanitized,
}

/// The libraries and headers: those built from this tree, or, to test an installation that is laid
/// out like a stage, those in the folder `VELOC_STAGE`.
pub fn staged() -> &'static Stage {
    // A failure is kept, too: to try again for each test would take as long each time.
    static STAGE: OnceLock<Result<Stage, String>> = OnceLock::new();
    let stage = STAGE.get_or_init(|| {
        if let Some(folder) = std::env::var_os("VELOC_STAGE") {
            return Ok(Stage { folder: folder.into() });
        }
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
    static COMPILED: Mutex<Option<HashMap<(String, Flavour), PathBuf>>> = Mutex::new(None);
    let mut compiled = COMPILED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    compiled
        .get_or_insert_with(HashMap::new)
        .entry((name.to_owned(), flavour))
        .or_insert_with(|| compile(name, flavour))
        .clone()
}

fn compile(name: &str, flavour: Flavour) -> PathBuf {
    let stage = staged();
    let folder = stage.folder.join("capi-tests");
    std::fs::create_dir_all(&folder).unwrap();
    let executable = folder.join(format!("{name}-{flavour:?}"));
    let unfinished = folder.join(format!("{name}-{flavour:?}-{}", std::process::id()));
    let mut command = compiler();
    match flavour {
        Flavour::Plain => command.arg("-O1"),
        Flavour::Sanitized => command.args([
            "-O1",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=all",
            "-fno-omit-frame-pointer",
        ]),
    };
    command
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-g", "-I"])
        .arg(stage.include())
        .arg(sources().join(format!("{name}.c")))
        .arg("-o")
        .arg(&unfinished)
        .arg("-L")
        .arg(stage.lib())
        .args(["-lveloc-client", "-ldl", "-lpthread", "-lm"]);
    finish(command);
    // Another test process may be running the one of before.
    std::fs::rename(&unfinished, &executable).unwrap();
    executable
}

/// The executable of the program `source`, a path beside the other C programs, made with MPI by the
/// compiler of an installation.
pub fn mpi_program(compiler: &str, source: &str) -> PathBuf {
    static COMPILED: Mutex<Option<HashMap<(String, String), PathBuf>>> = Mutex::new(None);
    let mut compiled = COMPILED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    compiled
        .get_or_insert_with(HashMap::new)
        .entry((compiler.to_owned(), source.to_owned()))
        .or_insert_with(|| compile_with_mpi(compiler, source))
        .clone()
}

fn compile_with_mpi(compiler: &str, source: &str) -> PathBuf {
    let stage = staged();
    let folder = stage.folder.join("capi-tests");
    std::fs::create_dir_all(&folder).unwrap();
    let name = source.replace('/', "-");
    let executable = folder.join(format!("mpi-{compiler}-{name}-{}", std::process::id()));
    let mut command = Command::new(compiler);
    command
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-g", "-I"])
        .arg(stage.include())
        .arg("-DCHECK_WITH_MPI")
        .arg(sources().join(source))
        .arg("-o")
        .arg(&executable)
        .arg("-L")
        .arg(stage.lib())
        .args(["-lveloc-client", "-lm"]);
    finish(command);
    executable
}

/// The executable of a program in `parts/`, made with MPI by the compiler of an installation. It is
/// linked with the library that logs messages, or finds it if it is preloaded.
pub fn parts_program(compiler: &str, name: &str, linked: bool) -> PathBuf {
    static COMPILED: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);
    let mut compiled = COMPILED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    compiled
        .get_or_insert_with(HashMap::new)
        .entry(format!("{compiler} {name} {linked}"))
        .or_insert_with(|| compile_with_parts(compiler, name, linked))
        .clone()
}

fn compile_with_parts(compiler: &str, name: &str, linked: bool) -> PathBuf {
    let stage = staged();
    let folder = stage.folder.join("capi-tests");
    std::fs::create_dir_all(&folder).unwrap();
    let how = if linked { "linked" } else { "alone" };
    let executable = folder.join(format!("parts-{compiler}-{name}-{how}-{}", std::process::id()));
    let mut command = Command::new(compiler);
    command
        .args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-g"])
        // MPICH declares as an array what MPI_STATUSES_IGNORE is not.
        .args(["-Wno-stringop-overflow", "-I"])
        .arg(stage.include())
        .arg(sources().join(format!("../parts/{name}.c")))
        .arg("-o")
        .arg(&executable);
    if linked {
        command
            .args(["-DPARTS_LINKED", "-L"])
            .arg(stage.lib())
            .args(["-lveloc-mpi", "-lveloc-client"]);
    }
    command.arg("-lm");
    finish(command);
    executable
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
    let name = files.last().unwrap();
    compile_fortran(compiler, flags, name, modules, &sources)
}

/// The executable of the example in Fortran `examples/<name>/<name>.f90`, which has these modules of
/// its own.
pub fn fortran_example(compiler: &str, name: &str, own_modules: &[&str]) -> PathBuf {
    static COMPILED: Mutex<Option<HashMap<(String, String), PathBuf>>> = Mutex::new(None);
    let folder = sources().join("../../examples").join(name);
    let files: Vec<PathBuf> =
        own_modules.iter().chain([&name]).map(|file| folder.join(format!("{file}.f90"))).collect();
    let mut compiled = COMPILED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    compiled
        .get_or_insert_with(HashMap::new)
        .entry((compiler.to_owned(), name.to_owned()))
        .or_insert_with(|| {
            compile_fortran(compiler, &["-O2"], name, &["veloc", "veloc_f08"], &files)
        })
        .clone()
}

fn compile_fortran(
    compiler: &str,
    flags: &[&str],
    name: &str,
    modules: &[&str],
    files: &[PathBuf],
) -> PathBuf {
    let stage = staged();
    // What a compiler makes of a module is of use to itself alone, and with these flags.
    let folder = format!("capi-tests/{compiler}{}-{}", flags.concat(), std::process::id());
    let folder = stage.folder.join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let interface = stage.fortran();
    // Programs may be made at once: what each makes of a module is its own.
    let own = folder.join(format!("{name}.d"));
    std::fs::create_dir_all(&own).unwrap();
    let shim = own.join("descriptor.o");
    let mut command = self::compiler();
    command.args(["-Wall", "-Wextra", "-Werror", "-c", "-o"]);
    command.arg(&shim).arg(interface.join("descriptor.c"));
    let flang = compiler.starts_with("flang");
    if flang {
        // The C compiler is not of its make, and has another header of that name.
        let program = std::fs::canonicalize(found(compiler).unwrap()).unwrap();
        command.arg("-I").arg(program.parent().unwrap().join("../include/flang"));
    }
    finish(command);
    let executable = folder.join(name);
    let mut command = Command::new(compiler);
    command.args(["-std=f2018", "-g"]).args(flags);
    if !flang {
        command.args(["-Wall", "-Wextra"]);
    }
    command.arg("-J").arg(&own);
    command.args(modules.iter().map(|module| interface.join(format!("{module}.f90"))));
    command.args(files);
    command.arg(&shim).arg("-o").arg(&executable);
    command.arg("-L").arg(stage.lib()).arg("-lveloc-client");
    finish(command);
    executable
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

/// A library to be loaded ahead of others, which says what `fsync` is called for.
pub fn sync_witness(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libsync.so"), "../preload/sync.c")
}

/// A library to be loaded ahead of others, in front of the calls that change files.
pub fn faults(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libfaults.so"), "../preload/faults.c")
}

/// A library to be loaded before all others, by which a process is killed as soon as it has given a
/// file the name that `DIES_AT` ends.
pub fn dying(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libdying.so"), "../preload/dying.c")
}

/// A library to be loaded before all others, by which a process waits for the file `HELD_UNTIL` before it
/// gives a file the name that `HOLDS_AT` ends.
pub fn holding(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libholding.so"), "../preload/holding.c")
}

/// A library to be loaded ahead of others, by which calls of MPI fail; made by the compiler of an MPI
/// installation.
pub fn mpi_faults(mpi: &str, folder: &Path) -> PathBuf {
    let library = folder.join("libmpifaults.so");
    shared_library_by(Command::new(mpi), &library, "../preload/mpi.c")
}

/// A library to be loaded behind the one that logs messages, by which an MPI takes buffers in device
/// memory; made by the compiler of its installation.
pub fn cuda_aware(mpi: &str, folder: &Path) -> PathBuf {
    let library = folder.join("libaware.so");
    shared_library_by(Command::new(mpi), &library, "../preload/aware.c")
}

/// A library to be loaded ahead of others, by which the one that logs messages gets no memory.
pub fn starving(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libstarve.so"), "../preload/starve.c")
}

/// A library to be loaded ahead of others, by which the file `MEMINFO` tells how much memory there is.
pub fn told_memory(folder: &Path) -> PathBuf {
    shared_library(&folder.join("libmeminfo.so"), "../preload/meminfo.c")
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
