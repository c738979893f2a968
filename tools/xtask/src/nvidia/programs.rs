//! Programs of the CUDA runtime, made by NVIDIA's compilers: with the software device and the
//! project's stand-in for the runtime they work as on a card.

use std::path::{Path, PathBuf};

use super::compiler::{self, Compiler, Ptx};
use super::kernels::shown;
use super::without_card::{bounded, ends, ExpectedEnd};
use super::{had, unchanged, Findings};
use crate::error::{Result, While};
use crate::files::{folder, write};
use crate::stage::{stage, Profile, StagedFolders};

/// The programs' configuration: caches that are too small for all versions. `DIR` stands for a folder.
const CONFIGURATION: &str = "mode = async\nscratch = DIR/scratch\ngpu_cache_size = 8M\n\
                             host_cache_size = 16M\ngpu_chunk_size = 2M\n";

pub(super) fn check(findings: &mut Findings) -> Result<()> {
    let place = tempfile::tempdir().when(|| "making a folder".into())?;
    for (version, compiler) in compiler::all() {
        let (name, own) = (format!("nvcc {version}"), place.path().join(version));
        folder(&own)?;
        let usable = compiler.and_then(|compiler| compiler.try_out(&own).map(|()| compiler));
        let Some(compiler) = had(&name, usable) else { continue };
        let stage = &stage(Profile::Release)?;
        for source in compiler::sources()? {
            let compiled = compile(&compiler, stage, &source, Ptx::Plain, &own);
            let runs = compiled.and_then(|program| runs(stage, &program));
            findings.add(&format!("{}: {name}", shown(&source)), runs);
        }
        for source in compiler::sources()?.into_iter().take(1) {
            let compiled = compile(&compiler, stage, &source, Ptx::Compressed, &own);
            let end = ExpectedEnd::Badly("--no-compress");
            let refused = compiled.and_then(|program| job(stage, &program, "", end));
            findings.add(&format!("{}, compressed: {name}", shown(&source)), refused);
        }
        unchanged::check(findings, (&name, &compiler), stage, &own)?;
    }
    Ok(())
}

fn compile(
    compiler: &Compiler,
    stage: &StagedFolders,
    source: &Path,
    ptx: Ptx,
    folder: &Path,
) -> Result<PathBuf> {
    let program = folder.join(source.file_stem().unwrap_or_default());
    let lib = stage.lib();
    let path = lib.display().to_string();
    compiler.compile(source, (&stage.include(), &lib), &path, ptx, &program)?;
    Ok(program)
}

/// Runs a program, and once more with a wrong byte that it has to find.
fn runs(stage: &StagedFolders, program: &Path) -> Result<()> {
    job(stage, program, "", ExpectedEnd::Well(" versions, 0 bytes wrong\ndone"))?;
    job(stage, program, "damage=2", ExpectedEnd::Badly(" bytes wrong"))
}

fn job(stage: &StagedFolders, program: &Path, argument: &str, end: ExpectedEnd) -> Result<()> {
    let place = tempfile::tempdir().when(|| "making a folder".into())?;
    let file = place.path().join("veloc.cfg");
    write(&file, &CONFIGURATION.replace("DIR", &place.path().display().to_string()))?;
    let mut command = bounded(program, &stage.softcuda());
    command.arg(&file).args(argument.split_whitespace()).current_dir(place.path());
    ends(&mut command, end)
}
