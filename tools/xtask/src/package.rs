//! The package as CMake installs it: its content, and programs that use it as applications do.

pub(crate) mod consumers;
mod mpi;
mod python;
mod tutorials;
pub(crate) mod wheel;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use self::mpi::MpiInstallation;
use crate::error::{Error, Result, While};
use crate::files::read;
use crate::links::linked_files;
use crate::notices;
use crate::project::{cargo, has_program, line, root, target_directory};
use crate::python::has_module;
use crate::runtime;
use crate::stage::{stage, Profile, StagedFolders};

#[derive(Debug)]
struct Installed {
    prefix: PathBuf,
    /// The folder of the library in it.
    libdir: &'static str,
}

impl Installed {
    fn library(&self) -> PathBuf {
        self.prefix.join(self.libdir).join("libveloc-client.so")
    }
}

/// Installs the package, made with this profile of cargo's, and tests it. What was left out is returned, each
/// time with what is not installed.
pub fn check(profile: Profile) -> Result<Vec<String>> {
    if let Some(absent) = ["cmake", "make", "c++"].into_iter().find(|name| !has_program(name)) {
        return Ok(vec![format!("the package: there is no {absent}")]);
    }
    let mut skipped = Vec::new();
    let has = |program: &str, of: &str, skipped: &mut Vec<String>| {
        let found = has_program(program);
        if !found {
            skipped.push(format!("{of}: there is no {program}"));
        }
        found
    };
    let fortran = has("gfortran", "programs in Fortran and over MPI", &mut skipped);
    let languages = if fortran { "C;CXX;Fortran" } else { "C;CXX" };
    let what = || "making a temporary folder".to_string();
    let temporary = tempfile::Builder::new().prefix("veloc-package-").tempdir().when(what)?;
    let work = temporary.path();
    let stage = stage(profile)?;

    let machines = install(profile, work, "machines", "lib/machine")?;
    consumers::with_cmake(&machines, work, "C", None)?;

    let package = install(profile, work, "package", "lib")?;
    has_the_tools(&package)?;
    shows_itself(&package, work)?;
    runtime::try_out(&package.prefix.join("lib/veloc/softcuda"))?;
    names_no_folder(&package.prefix, &[work, root()])?;
    exports_what_the_library_does(&package, &stage)?;
    let pkg_config = has("pkg-config", "programs without CMake, and the tutorials", &mut skipped);
    let (found, absent) = mpi::found();
    // The second one is much the same.
    let few = if profile == Profile::Release { &found[..] } else { &found[..found.len().min(1)] };
    let folder = work.join("mpi");
    fs::create_dir(&folder).when(|| format!("making {}", folder.display()))?;
    // Most of these commands keep one processor busy.
    std::thread::scope(|scope| {
        let over_mpi = scope.spawn(|| match fortran {
            true => programs_over_mpi(&package, &folder, languages, few, pkg_config),
            false => Ok(()),
        });
        skipped.extend(programs(&package, work, languages, pkg_config)?);
        skipped.extend(python::check(&package, work, &stage, profile)?);
        over_mpi.join().unwrap_or_else(|_| Err(Error::new("the checks over MPI panicked")))
    })?;
    skipped.extend(absent);
    if profile == Profile::Release {
        publishes()?;
    }
    Ok(skipped)
}

/// Builds and runs programs of one process. Returns what was left out.
fn programs(
    package: &Installed,
    work: &Path,
    languages: &str,
    pkg_config: bool,
) -> Result<Vec<String>> {
    consumers::with_cmake(package, work, languages, None)?;
    let library = has_module("numpy").then(|| package.library());
    consumers::examples(&package.prefix, work, library.as_deref())?;
    if !pkg_config {
        return Ok(Vec::new());
    }
    consumers::with_pkg_config(package, work, languages.contains("Fortran"))?;
    consumers::linked_to_two(package, work)?;
    tutorials::check(package, work)
}

/// Builds and runs programs of several processes, with each of these installations of MPI.
fn programs_over_mpi(
    package: &Installed,
    work: &Path,
    languages: &str,
    installations: &[MpiInstallation],
    pkg_config: bool,
) -> Result<()> {
    for mpi in installations.iter().copied() {
        consumers::with_cmake(package, work, languages, Some(mpi))?;
        if pkg_config {
            consumers::with_pkg_config_and_mpi(package, work, mpi)?;
        }
        consumers::over_mpi(package, work, mpi)?;
    }
    Ok(())
}

/// Fails if the registry would refuse the one crate that is of use without the library, or its example is wrong.
fn publishes() -> Result<()> {
    let name = "veloc-schedule";
    quietly(cargo().args(["test", "--doc", "--package", name]))?;
    let dry = ["publish", "--dry-run", "--locked", "--allow-dirty", "--package", name];
    quietly(cargo().args(dry)).map(drop)
}

/// Installs the package and moves it to `work/name`. The folder that it was made for does not exist
/// any more.
fn install(profile: Profile, work: &Path, name: &str, libdir: &'static str) -> Result<Installed> {
    let (build, made, prefix) = (work.join("build"), work.join("made"), work.join(name));
    let set = |name: &str, value: &Path| format!("-D{name}={}", value.display());
    let cargo_profile = match profile {
        Profile::Debug => "dev",
        Profile::Release => "release",
    };
    quietly(
        Command::new("cmake")
            .arg("-S")
            .arg(root())
            .arg("-B")
            .arg(&build)
            .arg(set("CMAKE_INSTALL_PREFIX", &made))
            .arg(set("CMAKE_INSTALL_LIBDIR", Path::new(libdir)))
            .arg(set("VELOC_CARGO_PROFILE", Path::new(cargo_profile)))
            // Crates that other steps have built there need not be built again.
            .arg(set("VELOC_CARGO_TARGET_DIR", &target_directory()?)),
    )?;
    quietly(Command::new("cmake").arg("--build").arg(&build))?;
    quietly(Command::new("cmake").arg("--install").arg(&build).arg("--strip"))?;
    fs::rename(&made, &prefix).when(|| format!("moving {}", made.display()))?;
    Ok(Installed { prefix, libdir })
}

/// Fails if a program, one of its files, or a licence or notice is missing.
fn has_the_tools(package: &Installed) -> Result<()> {
    for (program, wanted) in
        [("veloc", "inspect"), ("veloc-inspect", "--extract"), ("veloc-backend", "--foreground")]
    {
        let path = package.prefix.join("bin").join(program);
        let help = quietly(Command::new(&path).arg("--help"))?;
        if !help.contains(wanted) {
            return Err(Error::new(format!("{}: knows no {wanted}\n{help}", path.display())));
        }
        let version = quietly(Command::new(&path).arg("--version"))?;
        if !version.contains(concat!(env!("CARGO_PKG_VERSION"), " (VELOC 1.8)")) {
            return Err(Error::new(format!("{}: is of version {version}", path.display())));
        }
    }
    let mut files = vec!["man/man1/veloc.1", "bash-completion/completions/veloc-inspect"];
    files.extend(["man/man3/VELOC_Checkpoint.3", "veloc/examples/CMakeLists.txt"]);
    files.extend(["doc/veloc/LICENSE-MIT", "doc/veloc/THIRD-PARTY-NOTICES"]);
    files.extend([
        "man/man1/veloc-backend.1",
        "doc/veloc/guide/README.md",
        "doc/veloc/configuration.md",
    ]);
    if notices::of_rust()?.is_some() {
        files.push("doc/veloc/rust-standard-library.html");
    }
    for file in files {
        let path = package.prefix.join("share").join(file);
        fs::metadata(&path).when(|| format!("looking for {}", path.display()))?;
    }
    let documents = package.prefix.join("share/doc/veloc");
    let what = || format!("reading {}", documents.display());
    let mut paths = Vec::new();
    for folder in [&documents, &documents.join("guide"), &documents.join("tutorials")] {
        for entry in fs::read_dir(folder).when(what)? {
            paths.push(entry.when(what)?.path());
        }
    }
    for path in paths.into_iter().filter(|path| path.extension() == Some(OsStr::new("md"))) {
        for link in linked_files(&read(&path)?) {
            let target = path.with_file_name(link);
            fs::metadata(&target).when(|| format!("{}: the link to {link}", path.display()))?;
        }
    }
    Ok(())
}

/// Fails if the demonstration of the installed package does not run, with or without a GPU.
fn shows_itself(package: &Installed, work: &Path) -> Result<()> {
    let veloc = package.prefix.join("bin/veloc");
    let arguments = "rtm --steps 100 --verify --output installed.png";
    quietly(clean(&veloc).args(arguments.split(' ')).current_dir(work)).map(drop)
}

/// Fails if a file below `folder` contains one of the paths `others`, which would be wrong
/// elsewhere.
fn names_no_folder(folder: &Path, others: &[&Path]) -> Result<()> {
    let what = || format!("reading {}", folder.display());
    for entry in fs::read_dir(folder).when(what)? {
        let path = entry.when(what)?.path();
        if path.is_dir() {
            names_no_folder(&path, others)?;
        } else if let Ok(text) = fs::read_to_string(&path) {
            if let Some(named) =
                others.iter().find(|other| text.contains(&*other.to_string_lossy()))
            {
                let (path, named) = (path.display(), named.display());
                return Err(Error::new(format!("{path}: names the folder {named}")));
            }
        }
    }
    Ok(())
}

/// Fails if the library, which CMake links, has another name or other functions than cargo's own,
/// or exports anything beside these and the C++ interface.
fn exports_what_the_library_does(package: &Installed, stage: &StagedFolders) -> Result<()> {
    let library = package.library();
    let (installed, cargos) = (exports(&library)?, exports(&stage.shared_library())?);
    if let Some(missing) = cargos.difference(&installed).next() {
        return Err(Error::new(format!("{}: lacks {missing}", library.display())));
    }
    if let Some(more) = installed.difference(&cargos).find(|name| !name.contains("veloc::")) {
        return Err(Error::new(format!("{}: exports {more}", library.display())));
    }
    let dynamic = quietly(Command::new("readelf").arg("-d").arg(&library))?;
    for wanted in ["Library soname: [libveloc-client.so]", "NODELETE"] {
        if !dynamic.contains(wanted) {
            return Err(Error::new(format!("{}: no {wanted}\n{dynamic}", library.display())));
        }
    }
    Ok(())
}

/// The functions that a library exports, with their C++ names.
fn exports(library: &Path) -> Result<BTreeSet<String>> {
    let text = quietly(Command::new("nm").args(["-DC", "--defined-only"]).arg(library))?;
    // Address, kind, name.
    Ok(text.lines().filter_map(|line| line.splitn(3, ' ').nth(2)).map(String::from).collect())
}

/// A program without the library's variables in its environment.
pub(crate) fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_remove("LD_LIBRARY_PATH");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("VELOC_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs a command, whose output is shown only if it fails. Returns that output.
pub(crate) fn quietly(command: &mut Command) -> Result<String> {
    println!("$ {}", line(command));
    Ok(outputs(command)?.0)
}

/// Runs a command and returns its output and its errors.
pub(crate) fn outputs(command: &mut Command) -> Result<(String, String)> {
    let output = command.output().when(|| format!("starting {}", line(command)))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    if output.status.success() {
        return Ok((stdout, stderr));
    }
    Err(Error::new(format!("{} failed: {}\n{stdout}{stderr}", line(command), output.status)))
}
