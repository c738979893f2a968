//! NVIDIA's compilers, which make the programs of the CUDA runtime in `gpu`. A bundle contains the
//! compiled programs, as few machines with a card have a compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::kernels::{files_of, said};
use super::packages::{self, Toolkit, NEWEST, TOOLKIT, TOOLKITS};
use crate::error::{Error, Result, While};
use crate::files::{folder, write};
use crate::project::root;

/// The architectures that programs are compiled for; later ones get PTX.
const CODE: [&str; 3] =
    ["arch=compute_80,code=sm_80", "arch=compute_90,code=sm_90", "arch=compute_80,code=compute_80"];

/// The most that a program may take, in bytes.
const LARGEST: u64 = 1 << 20;

/// A compiler with the runtime for its programs.
#[derive(Debug)]
pub(crate) struct Compiler {
    nvcc: PathBuf,
    /// The folders of its other programs and of its library for devices, if they are not beside it.
    apart: Option<[PathBuf; 2]>,
    includes: Vec<PathBuf>,
    /// The runtime as a shared library: a program finds NVIDIA's on a card, and the first in the
    /// path on the software device.
    pub runtime: PathBuf,
    /// The licence under which the runtime may be passed on.
    pub licence: PathBuf,
}

/// How the PTX for later architectures is kept in a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ptx {
    /// As text, which the stand-in for the runtime can read.
    Plain,
    /// In NVIDIA's format, the compiler's default.
    Compressed,
}

/// The compiler of the first toolkit, if it was fetched before.
pub(crate) fn at_hand() -> Result<Compiler> {
    let [oldest, _] = &TOOLKITS;
    if !packages::folder_of(TOOLKIT, oldest.release)?.is_dir() {
        let what = format!("there is no nvcc {}: `cargo xtask nvidia` fetches it", oldest.version);
        return Err(Error::new(what));
    }
    of_debian(oldest)
}

/// All compilers by their versions, fetched unless they were before.
pub(super) fn all() -> Vec<(&'static str, Result<Compiler>)> {
    let debian = TOOLKITS.iter().map(|toolkit| (toolkit.version, of_debian(toolkit)));
    debian.chain([(NEWEST[0].1, of_pip())]).collect()
}

fn of_debian(toolkit: &Toolkit) -> Result<Compiler> {
    let unpacked = packages::unpacked(TOOLKIT, toolkit.release)?.join("usr");
    let own = unpacked.join("lib").join(TOOLKIT);
    let headers = ["cuda_runtime.h", "fatbinary_section.h"].map(|header| {
        let header = packages::file(&toolkit.wheels, header)?;
        Ok(header.parent().map(Path::to_path_buf).unwrap_or_default())
    });
    Ok(Compiler {
        nvcc: own.join("bin/nvcc"),
        apart: Some([unpacked.join("bin"), own.join("libdevice")]),
        includes: headers.into_iter().collect::<Result<_>>()?,
        runtime: packages::file(&toolkit.wheels, toolkit.runtime)?,
        licence: packages::file(&toolkit.wheels, "License.txt")?,
    })
}

/// The newest compiler, whose package knows where all its parts are.
fn of_pip() -> Result<Compiler> {
    Ok(Compiler {
        nvcc: packages::file(&NEWEST, "nvcc")?,
        apart: None,
        includes: Vec::new(),
        runtime: packages::file(&NEWEST, "libcudart.so.13")?,
        licence: packages::file(&NEWEST, "License.txt")?,
    })
}

/// The programs of the CUDA runtime that use the library, in order.
pub(crate) fn sources() -> Result<Vec<PathBuf>> {
    let folder = root().join("gpu");
    let mut found = files_of("cu", &folder)?;
    found.retain(|source| source.parent() == Some(&folder));
    Ok(found)
}

impl Compiler {
    fn command(&self) -> Result<Command> {
        let mut command = Command::new(&self.nvcc);
        if let Some([programs, device_library]) = &self.apart {
            let own = self.nvcc.parent().unwrap_or(programs).to_path_buf();
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path = [own, programs.clone()].into_iter().chain(std::env::split_paths(&path));
            let path = std::env::join_paths(path).map_err(|error| Error::new(error.to_string()))?;
            command.env("PATH", path).env("NVVMIR_LIBRARY_DIR", device_library);
        }
        // The system's C++ compiler, not the one of an older release that Debian's nvcc asks for;
        // it may be newer than nvcc knows.
        command.args(["-ccbin", "c++", "-allow-unsupported-compiler"]);
        command.args(self.includes.iter().flat_map(|folder| ["-I".as_ref(), folder.as_os_str()]));
        Ok(command)
    }

    /// Fails if the compiler cannot compile anything here: C++ compilers become too new for it.
    pub(super) fn try_out(&self, folder: &Path) -> Result<()> {
        let source = folder.join("nothing.cu");
        write(&source, "int main() { return 0; }\n")?;
        said(self.command()?.arg("-c").arg(&source).arg("-o").arg(folder.join("nothing.o")))?;
        Ok(())
    }

    /// Compiles a program without a warning. The program finds the library and the runtime by
    /// `path`, unless `LD_LIBRARY_PATH` has others.
    pub(crate) fn compile(
        &self,
        source: &Path,
        (include, lib): (&Path, &Path),
        path: &str,
        ptx: Ptx,
        to: &Path,
    ) -> Result<()> {
        if let Some(parent) = to.parent() {
            folder(parent)?;
        }
        let mut command = self.command()?;
        // The runtime is named below.
        command.args(["-O2", "-cudart", "none", "-cudadevrt", "none"]);
        if ptx == Ptx::Plain {
            command.arg("-no-compress");
        }
        command.args(CODE.into_iter().flat_map(|code| ["-gencode", code]));
        command.args(["-Xcompiler", "-Wall,-Wextra,-Werror", "-I"]).arg(include);
        command.arg("-o").arg(to).arg(source);
        // Not for a program that does not use it.
        command.args(["-Xlinker", "--as-needed", "-L"]).arg(lib).arg("-lveloc-client");
        command.arg("-Xlinker").arg(&self.runtime);
        command.args(["-Xlinker", &format!("-rpath,{path}")]);
        command.args(["-Xlinker", "--enable-new-dtags", "-Xlinker", "-s"]);
        let text = said(&mut command)?;
        if text.contains("warning") {
            return Err(Error::new(text));
        }
        let bytes = std::fs::metadata(to).when(|| format!("reading {}", to.display()))?.len();
        if bytes > LARGEST {
            return Err(Error::new(format!("it has {bytes} bytes; {LARGEST} are allowed")));
        }
        Ok(())
    }
}
