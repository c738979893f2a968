//! Programs of the CUDA runtime, as NVIDIA's compilers make them: on the software device and the
//! project's stand-in for the runtime they do what they do on a card.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::kernels::said;
use super::packages::{self, COMPILERS, NEWEST};
use super::without_card::{bounded, ends, End};
use super::{had, Findings};
use crate::error::{Error, Result, While};
use crate::files::{link, write};
use crate::project::root;
use crate::stage::{stage, Profile, Stage};

/// The programs, which are in `gpu/`.
const PROGRAMS: [&str; 4] = ["hello", "uniform", "variable", "managed"];

/// Their configuration: caches that are too small for all versions. `DIR` stands for a folder.
const CONFIGURATION: &str = "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 8M\n\
                             host_cache_size = 16M\ngpu_chunk_size = 2M\n";

/// Machine code for one architecture and PTX for all later ones, as programs mostly have them.
const CODE: &str = "arch=compute_80,code=[sm_80,compute_80]";

/// nvcc, with what it needs to compile a program.
struct Compiler {
    nvcc: PathBuf,
    arguments: Vec<OsString>,
    /// The path on which it finds its parts.
    path: Option<OsString>,
    /// NVIDIA's runtime, which programs are linked with.
    runtime: PathBuf,
}

pub fn check(findings: &mut Findings) -> Result<()> {
    let debian = COMPILERS
        .map(|(release, version, wheels, runtime)| (version, of_debian(release, wheels, runtime)));
    let newest = NEWEST[0].1;
    let found = debian.into_iter().chain([(newest, of_pip())]);
    let place = tempfile::tempdir().when(|| "making a folder".into())?;
    for (version, compiler) in found {
        let name = format!("nvcc {version}");
        let folder = place.path().join(version);
        let usable = compiler.and_then(|compiler| compiler.tried(&folder).map(|()| compiler));
        let Some(compiler) = had(&name, usable) else { continue };
        let stage = &stage(Profile::Release)?;
        for program in PROGRAMS {
            let compiled = compiler.compile(stage, program, &["--no-compress"], &folder);
            let runs = compiled.and_then(|program| runs(stage, &program));
            findings.add(&format!("{program}.cu: {name}"), runs);
        }
        let compiled = compiler.compile(stage, PROGRAMS[0], &[], &folder);
        let end = End::Badly("--no-compress");
        let refused = compiled.and_then(|program| job(stage, &program, "", end));
        findings.add(&format!("{}.cu, compressed: {name}", PROGRAMS[0]), refused);
    }
    Ok(())
}

/// Runs a program; and once more with a byte that it shall find wrong.
fn runs(stage: &Stage, program: &Path) -> Result<()> {
    job(stage, program, "", End::Well(" versions, 0 bytes wrong"))?;
    job(stage, program, "damage=2", End::Badly(" bytes wrong"))
}

fn job(stage: &Stage, program: &Path, argument: &str, end: End) -> Result<()> {
    let place = tempfile::tempdir().when(|| "making a folder".into())?;
    let file = place.path().join("veloc.cfg");
    write(&file, &CONFIGURATION.replace("DIR", &place.path().display().to_string()))?;
    let mut command = bounded(program, &stage.softcuda());
    command.arg(&file).args(argument.split_whitespace()).current_dir(place.path());
    ends(&mut command, end)
}

/// Debian's nvcc of this release, with headers and runtime from pip's index: Debian has these
/// among gigabytes.
fn of_debian(release: &str, wheels: &[packages::Wheel], runtime: &str) -> Result<Compiler> {
    let toolkit = packages::unpacked("nvidia-cuda-toolkit", release)?.join("usr");
    let own = toolkit.join("lib/nvidia-cuda-toolkit");
    let mut arguments: Vec<OsString> =
        ["-noprof", "-cudadevrt", "none", "-ldir"].map(Into::into).into();
    arguments.push(own.join("libdevice").into());
    for header in ["cuda_runtime.h", "fatbinary_section.h"] {
        let header = packages::file(wheels, header)?;
        arguments.extend(["-I".into(), header.parent().unwrap_or(&header).into()]);
    }
    let others = std::env::var_os("PATH").unwrap_or_default();
    let folders = [own.join("bin"), toolkit.join("bin")];
    let path = std::env::join_paths(folders.into_iter().chain(std::env::split_paths(&others)));
    Ok(Compiler {
        nvcc: own.join("bin/nvcc"),
        arguments,
        path: Some(path.when(|| "putting nvcc on the path".into())?),
        runtime: packages::file(wheels, runtime)?,
    })
}

/// The newest nvcc, whose package knows where it has everything.
fn of_pip() -> Result<Compiler> {
    Ok(Compiler {
        nvcc: packages::file(&NEWEST, "nvcc")?,
        arguments: Vec::new(),
        path: None,
        runtime: packages::file(&NEWEST, "libcudart.so.13")?,
    })
}

impl Compiler {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.nvcc);
        // Not the g++ that Debian's has beside it: that wants one of an older release.
        command.args(["-allow-unsupported-compiler", "-ccbin", "c++"]).args(&self.arguments);
        if let Some(path) = &self.path {
            command.env("PATH", path);
        }
        command
    }

    /// Fails if it cannot compile anything here: C++ compilers become too new for it.
    fn tried(&self, folder: &Path) -> Result<()> {
        let source = folder.join("nothing.cu");
        write(&source, "int main() { return 0; }\n")?;
        said(self.command().arg("-c").arg(&source).arg("-o").arg(folder.join("nothing.o")))?;
        Ok(())
    }

    /// Compiles a program, and links it with the library of the stage and NVIDIA's shared runtime.
    fn compile(&self, stage: &Stage, name: &str, more: &[&str], folder: &Path) -> Result<PathBuf> {
        let runtime = self.runtime.display().to_string();
        link(&runtime, &folder.join("libcudart.so"))?;
        let program = folder.join(name);
        let mut command = self.command();
        command.arg("-o").arg(&program).arg(root().join(format!("gpu/{name}.cu")));
        command.args(["-cudart", "shared", "-gencode", CODE]);
        command.args(["-Xcompiler", "-Wall,-Wextra,-Werror"]);
        command.arg("-I").arg(stage.include()).arg("-L").arg(folder).arg("-L").arg(stage.lib());
        command.args(["-lveloc-client", "-Xlinker", "-rpath", "-Xlinker"]).arg(stage.lib());
        let text = said(command.args(more))?;
        if text.contains("warning") {
            return Err(Error::new(text));
        }
        Ok(program)
    }
}
