//! The files that a C program needs, laid out as they would be installed.
//!
//! ```text
//! <target>/stage/<profile>/
//!     lib/        libveloc-client.so, libveloc-client.a, libveloc-mpi.so, libveloc-crash.so
//!     bin/        veloc-backend, which the library starts
//!     include/    veloc.h, veloc/*.h, veloc-mpi.h, softcuda.h
//!     fortran/    the sources of the Fortran module, for the user's compiler
//!     softcuda/   libcuda.so, libcuda.so.1: the software device, for LD_LIBRARY_PATH; libcudart.so.*: a
//!                 runtime for it
//! ```

use std::path::{Path, PathBuf};

use crate::error::{Error, Result, While};
use crate::files::{copy, copy_folder, folder, link, FileLock};
use crate::project::{cargo, output, root, target_directory};
use crate::runtime;

/// How the libraries are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// With the checks that tests want.
    Debug,
    /// As users build it.
    Release,
}

impl Profile {
    /// The name of cargo's folder.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Debug => "debug",
            Profile::Release => "release",
        }
    }

    /// The options that select the profile on cargo's command line.
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Profile::Debug => &[],
            Profile::Release => &["--release"],
        }
    }
}

/// The staged folders.
#[derive(Clone, Debug)]
pub struct StagedFolders {
    /// The folder of all staged folders.
    pub folder: PathBuf,
}

impl StagedFolders {
    /// The folder of the libraries: for `-L`, `-rpath` and `LD_LIBRARY_PATH`.
    pub fn lib(&self) -> PathBuf {
        self.folder.join("lib")
    }

    /// The folder of the programs.
    pub fn bin(&self) -> PathBuf {
        self.folder.join("bin")
    }

    /// The folder of the headers: for `-I`.
    pub fn include(&self) -> PathBuf {
        self.folder.join("include")
    }

    /// The folder with the sources of the Fortran module.
    pub fn fortran(&self) -> PathBuf {
        self.folder.join("fortran")
    }

    /// The folder of the software device: for `LD_LIBRARY_PATH`.
    pub fn softcuda(&self) -> PathBuf {
        self.folder.join("softcuda")
    }

    /// The shared library.
    pub fn shared_library(&self) -> PathBuf {
        self.lib().join("libveloc-client.so")
    }

    /// The library that logs messages.
    pub fn message_log(&self) -> PathBuf {
        self.lib().join("libveloc-mpi.so")
    }

    /// The static library.
    pub fn static_library(&self) -> PathBuf {
        self.lib().join("libveloc-client.a")
    }
}

/// The variable with the folder of a stage, or of an installation that is laid out like one, to be used as
/// it is.
pub const STAGE: &str = "VELOC_STAGE";

/// Builds the library and the software device, and lays them out, unless [`STAGE`] says where they are. Safe
/// to call from several processes at once.
pub fn stage(profile: Profile) -> Result<StagedFolders> {
    if let Some(folder) = std::env::var_os(STAGE) {
        return Ok(StagedFolders { folder: folder.into() });
    }
    let stages = target_directory()?.join("stage");
    folder(&stages)?;
    let lock = FileLock::take(&stages.join(format!("{}.lock", profile.name())))?;
    let packages = ["veloc", "daemon", "softcuda", "softcudart", "veloc-mpi", "veloc-crash"];
    let built = build(&packages, &["--lib", "--bin", "veloc-backend"], profile)?;

    let stage = StagedFolders { folder: stages.join(profile.name()) };
    copy(built.find("libveloc_client.so")?, &stage.shared_library())?;
    copy(built.find("libveloc_client.a")?, &stage.static_library())?;
    copy(built.find("libveloc_mpi.so")?, &stage.message_log())?;
    copy(built.find("libveloc_crash.so")?, &stage.lib().join("libveloc-crash.so"))?;
    copy(built.find("veloc-backend")?, &stage.bin().join("veloc-backend"))?;
    copy_folder(&root().join("include"), &stage.include())?;
    copy_folder(&root().join("fortran"), &stage.fortran())?;
    copy_folder(&root().join("crates/softcuda/include"), &stage.include())?;
    software_device(&built, profile)?;
    runtime::link(built.find("libsoftcudart.a")?, &stage.softcuda())?;
    drop(lock);
    Ok(stage)
}

/// Lays out the software device of a build. Returns its folder.
pub fn software_device(built: &Built, profile: Profile) -> Result<PathBuf> {
    let folder =
        StagedFolders { folder: target_directory()?.join("stage").join(profile.name()) }.softcuda();
    copy(built.find("libsoftcuda.so")?, &folder.join("libcuda.so.1"))?;
    // One file under both names: a process that opens both must not get two drivers.
    link("libcuda.so.1", &folder.join("libcuda.so"))?;
    Ok(folder)
}

/// The files that a build has made.
#[derive(Debug)]
pub struct Built(Vec<PathBuf>);

impl Built {
    /// The file of this name.
    pub fn find(&self, name: &str) -> Result<&Path> {
        let found = self.0.iter().find(|path| path.file_name().is_some_and(|file| file == name));
        found.map(PathBuf::as_path).ok_or_else(|| Error::new(format!("cargo build made no {name}")))
    }
}

/// Packages that each build names, and that need not be built: cargo selects the features of what packages share by
/// those that are named, and what they share is built once for each selection.
const IN_VIEW: [&str; 2] = ["veloc-cli", "rtm"];

/// Builds the program of this name in a package of this workspace.
pub fn build_program(package: &str, program: &str, profile: Profile) -> Result<PathBuf> {
    build(&[package], &["--bin", program], profile)?.find(program).map(Path::to_path_buf)
}

/// Builds those targets of these packages that `targets` selects on cargo's command line.
pub fn build(packages: &[&str], targets: &[&str], profile: Profile) -> Result<Built> {
    let mut command = cargo();
    command.args(["build", "--message-format=json-render-diagnostics"]);
    command.args(targets).args(profile.arguments());
    for package in packages.iter().chain(&IN_VIEW) {
        command.args(["--package", package]);
    }
    let mut files = Vec::new();
    for line in output(&mut command)?.lines() {
        let message: serde_json::Value =
            serde_json::from_str(line).when(|| format!("reading cargo's message {line}"))?;
        let made = message["filenames"].as_array().into_iter().flatten();
        files.extend(made.filter_map(|file| file.as_str().map(PathBuf::from)));
    }
    Ok(Built(files))
}
