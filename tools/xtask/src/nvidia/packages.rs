//! NVIDIA's parts, from the index that pip uses and from the archive of the system. Fetched
//! packages stay below the target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result, While};
use crate::files::{folder, read, write};
use crate::project::{has_program, output, run, target_directory};
use crate::python::installed_together;

/// A package of pip's index in one version.
pub type Wheel = (&'static str, &'static str);

/// The runtime compiler with which `scripts/make_ptx.py` makes the kernels.
pub const RUNTIME_COMPILER: Wheel = ("nvidia-cuda-nvrtc-cu11", "11.8.89");

/// The assemblers: the oldest that exists as a package, the newest, and between them the newest
/// that knows the oldest architectures. The last is also in nvcc's package.
pub const ASSEMBLERS: [&[Wheel]; 3] =
    [&[("nvidia-cuda-nvcc-cu11", "11.7.99")], &[("nvidia-cuda-nvcc-cu12", "12.9.86")], &NEWEST];

/// The packages that nvcc needs to compile and link a program.
pub const NEWEST: [Wheel; 4] = [
    ("nvidia-cuda-nvcc", "13.5.37"),
    ("nvidia-cuda-crt", "13.5.37"),
    ("nvidia-nvvm", "13.5.37"),
    ("nvidia-cuda-runtime", "13.5.37"),
];

/// The packages with `cuda.h`, from the oldest that exists to the newest.
pub const HEADERS: [&[Wheel]; 4] = [
    &[("nvidia-cuda-runtime-cu11", "11.7.99")],
    &[("nvidia-cuda-runtime-cu11", "11.8.89")],
    &[("nvidia-cuda-runtime-cu12", "12.9.79")],
    &NEWEST,
];

/// Debian's packages of the driver's library and the releases that have them: 470, 535 and 550.
pub const DRIVERS: [(&str, &str); 3] =
    [("libnvidia-tesla-470-cuda1", "bookworm"), ("libcuda1", "bookworm"), ("libcuda1", "trixie")];

/// A compiler of Debian's, with headers and runtime from pip's index: in Debian these are among
/// gigabytes, and pip's index has no nvcc before 13.
#[derive(Debug)]
pub struct Toolkit {
    /// The release of Debian.
    pub release: &'static str,
    /// The version of the compiler.
    pub version: &'static str,
    /// Headers and runtime.
    pub wheels: [Wheel; 2],
    /// The runtime as a shared library.
    pub runtime: &'static str,
}

/// Debian's package of the compiler.
pub const TOOLKIT: &str = "nvidia-cuda-toolkit";

/// The compilers. The programs of the first run with every driver since CUDA 11.
pub const TOOLKITS: [Toolkit; 2] = [
    Toolkit {
        release: "bookworm",
        version: "11.8.89",
        wheels: [("nvidia-cuda-nvcc-cu11", "11.8.89"), ("nvidia-cuda-runtime-cu11", "11.8.89")],
        runtime: "libcudart.so.11.0",
    },
    Toolkit {
        release: "trixie",
        version: "12.4.131",
        wheels: [("nvidia-cuda-nvcc-cu12", "12.4.131"), ("nvidia-cuda-runtime-cu12", "12.4.127")],
        runtime: "libcudart.so.12",
    },
];

/// The file of this name in these packages.
pub fn file(packages: &[Wheel], name: &str) -> Result<PathBuf> {
    let folder = installed_together(packages)?;
    find(&folder, name).ok_or_else(|| Error::new(format!("{} has no {name}", folder.display())))
}

/// The folder of a driver's library.
pub fn driver(package: &str, release: &str) -> Result<PathBuf> {
    let unpacked = unpacked(package, release)?;
    let library = find(&unpacked, "libcuda.so.1");
    let library = library.as_deref().and_then(Path::parent).map(Path::to_path_buf);
    library.ok_or_else(|| Error::new(format!("{} has no libcuda.so.1", unpacked.display())))
}

/// The folder that a package of Debian's is unpacked in.
pub fn unpacked(package: &str, release: &str) -> Result<PathBuf> {
    let folder = folder_of(package, release)?;
    if !folder.is_dir() {
        fetch(package, release, &folder)?;
    }
    Ok(folder)
}

/// The folder that the package is or would be unpacked in.
pub fn folder_of(package: &str, release: &str) -> Result<PathBuf> {
    Ok(target_directory()?.join("nvidia").join(format!("{package}-{release}")))
}

/// Unpacks a package of Debian's, and installs nothing.
///
/// The system's list of packages stays as it is: on few systems it contains the part for software
/// that is not free.
fn fetch(package: &str, release: &str, to: &Path) -> Result<()> {
    for program in ["apt-get", "dpkg-deb"] {
        if !has_program(program) {
            return Err(Error::new(format!("there is no {program}")));
        }
    }
    let own = target_directory()?.join("nvidia").join(format!("apt-{release}"));
    folder(&own.join("lists/partial"))?;
    folder(&own.join("cache/archives/partial"))?;
    let sources = own.join("sources.list");
    write(&sources, &format!("deb {} {release} non-free\n", archive()?))?;
    let apt = || {
        let mut command = Command::new("apt-get");
        command.args(["--quiet=2", "-o", "Dir::Etc::sourceparts=-", "-o", "Acquire::Retries=1"]);
        command.args(["-o", "Acquire::Languages=none", "-o", "APT::Sandbox::User="]);
        command.args(["-o", "APT::Update::Error-Mode=any"]);
        let places = [
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::State::lists", "lists"),
            ("Dir::Cache", "cache"),
        ];
        for (key, place) in places {
            command.arg("-o").arg(format!("{key}={}", own.join(place).display()));
        }
        command.current_dir(&own);
        command
    };
    run(apt().arg("update"))?;
    run(apt().arg("download").arg(package))?;
    let fetched = entries(&own)?.into_iter().find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&format!("{package}_")) && name.ends_with(".deb")
    });
    let fetched = fetched.ok_or_else(|| Error::new(format!("{package} was not fetched")))?;
    let part = to.with_extension(std::process::id().to_string());
    run(Command::new("dpkg-deb").arg("-x").arg(&fetched).arg(&part))?;
    std::fs::rename(&part, to).when(|| format!("renaming {}", part.display()))?;
    std::fs::remove_dir_all(&own).when(|| format!("removing {}", own.display()))
}

/// The address of the archive from which the system gets its packages.
fn archive() -> Result<String> {
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "Identifier: Packages", "--format", "$(RELEASE) $(REPO_URI)"]);
    let targets = output(&mut command)?;
    let system = read(Path::new("/etc/os-release"))?;
    let release = system.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let own = targets.lines().filter_map(|line| line.split_once(' '));
    let own = own.into_iter().find(|(of, _)| Some(*of) == release);
    own.map(|(_, from)| from.to_owned())
        .ok_or_else(|| Error::new("apt has no archive of this system"))
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = entries(folder).ok()?;
    let (folders, files): (Vec<_>, Vec<_>) = entries.into_iter().partition(|path| path.is_dir());
    let here = files.into_iter().find(|file| file.file_name().is_some_and(|found| found == name));
    here.or_else(|| folders.iter().find_map(|folder| find(folder, name)))
}

/// The paths in a folder.
pub fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("reading the folder {}", folder.display());
    let entries = std::fs::read_dir(folder).when(what)?;
    entries.map(|entry| Ok(entry.when(what)?.path())).collect()
}
