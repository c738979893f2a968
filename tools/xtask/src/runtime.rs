//! The stand-in for the CUDA runtime, as the shared libraries that programs ask for.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Result, While};
use crate::files::write;
use crate::project::run;

/// The endings of the names of the runtime's libraries. nvcc 11, 12 and 13 write them into
/// programs, and into each function that these ask for.
pub const RELEASES: [&str; 3] = ["11.0", "12", "13"];

/// Links the library of each release from one archive, unless they are there already.
pub fn link(archive: &Path, folder: &Path) -> Result<()> {
    let own = std::env::current_exe().when(|| "finding this program".into())?;
    for release in RELEASES {
        let name = format!("libcudart.so.{release}");
        let library = folder.join(&name);
        if is_newer(&library, &[archive, &own]) {
            continue;
        }
        let what = || format!("linking {}", library.display());
        let place = tempfile::tempdir_in(folder).when(what)?;
        let (script, part) = (place.path().join("versions"), place.path().join(&name));
        // All functions have one version, which is the library's name.
        let exported = "cuda*; __cuda*; softcudart_is_software";
        write(&script, &format!("{name} {{ global: {exported}; local: *; }};\n"))?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.arg("-shared").arg("-o").arg(&part).arg(format!("-Wl,-soname,{name}"));
        command.arg(format!("-Wl,--version-script={}", script.display()));
        command.args(["-Wl,--gc-sections", "-Wl,-z,defs", "-Wl,--whole-archive"]).arg(archive);
        run(command.args(["-Wl,--no-whole-archive", "-lpthread", "-ldl", "-lm"]))?;
        std::fs::rename(&part, &library).when(what)?;
    }
    Ok(())
}

/// Whether a file exists and is newer than all of `others`.
fn is_newer(file: &Path, others: &[&Path]) -> bool {
    let time = |path: &Path| path.metadata().and_then(|found| found.modified());
    time(file).is_ok_and(|own| others.iter().all(|path| time(path).is_ok_and(|other| other < own)))
}

/// The libraries in a folder.
pub fn libraries(folder: &Path) -> Vec<PathBuf> {
    RELEASES.map(|release| folder.join(format!("libcudart.so.{release}"))).to_vec()
}
