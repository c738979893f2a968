//! NVIDIA's compiler, which makes the programs of the CUDA runtime that are in `gpu`. A bundle has them
//! compiled, as few machines with a card have a compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::kernels::{files_of, said, shown};
use super::packages::{self, COMPILER, NEWEST, RUNTIME};
use super::{had, Findings};
use crate::error::{Error, Result, While};
use crate::files::folder;
use crate::project::root;
use crate::python::installed_together;
use crate::stage::{stage, Profile};

/// For which architectures, and as PTX for those that came later.
const CODE: [&str; 3] =
    ["arch=compute_80,code=sm_80", "arch=compute_90,code=sm_90", "arch=compute_80,code=compute_80"];

/// The most that a program may take, in bytes.
const LARGEST: u64 = 1 << 20;

/// A compiler with the runtime that its programs are linked with.
#[derive(Debug)]
pub struct Compiler {
    nvcc: PathBuf,
    /// Its other programs, where they are not beside it.
    programs: Option<PathBuf>,
    device_library: Option<PathBuf>,
    includes: Vec<PathBuf>,
    /// The runtime as a shared library: the same program finds NVIDIA's on a card, and whatever comes
    /// first in the path on the software device.
    pub runtime: PathBuf,
    /// The conditions under which that may be passed on.
    pub licence: PathBuf,
}

/// The compiler 11.8, if it was fetched before.
pub fn at_hand() -> Result<Compiler> {
    let (package, release) = COMPILER;
    if !packages::folder_of(package, release)?.is_dir() {
        return Err(Error::new("there is no nvcc 11.8: `cargo xtask nvidia` fetches it"));
    }
    fetched()
}

/// The same, fetched unless it was before.
fn fetched() -> Result<Compiler> {
    let (package, release) = COMPILER;
    let (unpacked, wheels) = (packages::unpacked(package, release)?, installed_together(&RUNTIME)?);
    let toolkit = unpacked.join("usr/lib/nvidia-cuda-toolkit");
    Ok(Compiler {
        nvcc: toolkit.join("bin/nvcc"),
        programs: Some(unpacked.join("usr/bin")),
        device_library: Some(toolkit.join("libdevice")),
        includes: ["cuda_runtime", "cuda_nvcc"]
            .map(|part| wheels.join("nvidia").join(part).join("include"))
            .into(),
        runtime: packages::file(&RUNTIME, "libcudart.so.11.0")?,
        licence: packages::file(&RUNTIME, "License.txt")?,
    })
}

/// The newest, fetched unless it was before.
fn newest() -> Result<Compiler> {
    Ok(Compiler {
        nvcc: packages::file(&NEWEST, "nvcc")?,
        programs: None,
        device_library: None,
        includes: Vec::new(),
        runtime: packages::file(&NEWEST, "libcudart.so.13")?,
        licence: packages::file(&NEWEST, "License.txt")?,
    })
}

/// The programs of the CUDA runtime, in order.
pub fn sources() -> Result<Vec<PathBuf>> {
    files_of("cu", &root().join("gpu"))
}

/// Compiles and links all of them.
pub(super) fn check(findings: &mut Findings) -> Result<()> {
    let stage = stage(Profile::Release)?;
    for (name, compiler) in [("nvcc 11.8", fetched()), ("nvcc 13.5", newest())] {
        let Some(compiler) = had(&format!("programs and {name}"), compiler) else { continue };
        for source in sources()? {
            let place = tempfile::tempdir().when(|| "making a folder".into())?;
            let program = place.path().join("program");
            let result = compiler.compile(&source, &stage.include(), &stage.lib(), &program);
            findings.add(&format!("{}: {name}", shown(&source)), result);
        }
    }
    Ok(())
}

impl Compiler {
    /// Compiles a program that finds the library in `../lib`, and the runtime in `../cuda` unless
    /// `LD_LIBRARY_PATH` has another.
    pub fn compile(&self, source: &Path, include: &Path, lib: &Path, to: &Path) -> Result<()> {
        if let Some(parent) = to.parent() {
            folder(parent)?;
        }
        let mut command = Command::new(&self.nvcc);
        if let Some(programs) = &self.programs {
            let own = self.nvcc.parent().unwrap_or(programs).to_path_buf();
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path = [programs.clone(), own].into_iter().chain(std::env::split_paths(&path));
            let path = std::env::join_paths(path).map_err(|error| Error::new(error.to_string()))?;
            command.env("PATH", path);
        }
        if let Some(folder) = &self.device_library {
            command.env("NVVMIR_LIBRARY_DIR", folder);
        }
        // The system's compiler may be newer than any that it knows. The runtime is named below.
        command.args(["-ccbin", "c++", "-allow-unsupported-compiler", "-cudart", "none"]);
        // Whoever takes the place of the runtime may not know how the PTX was compressed.
        command.args(["-cudadevrt", "none", "-no-compress", "-O2"]);
        command.args(CODE.into_iter().flat_map(|code| ["-gencode", code]));
        for folder in self.includes.iter().map(PathBuf::as_path).chain([include]) {
            command.arg("-I").arg(folder);
        }
        command.arg("-o").arg(to).arg(source).arg("-L").arg(lib).arg("-lveloc-client");
        command.arg("-Xlinker").arg(&self.runtime);
        command.args(["-Xlinker", "-rpath,$ORIGIN/../lib:$ORIGIN/../cuda"]);
        command.args(["-Xlinker", "--enable-new-dtags", "-Xlinker", "-s"]);
        said(&mut command)?;
        let bytes = std::fs::metadata(to).when(|| format!("reading {}", to.display()))?.len();
        if bytes > LARGEST {
            return Err(Error::new(format!("it has {bytes} bytes; {LARGEST} are allowed")));
        }
        Ok(())
    }
}
