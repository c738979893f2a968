//! The stand-in for the CUDA runtime, as the shared libraries that programs ask for.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result, While};
use crate::files::write;
use crate::project::{line, root, run};

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

/// Builds the runtime's test program for each library in the folder of a software device, and runs it.
///
/// # Errors
///
/// Those of the program. It finds kernels and errors that do not exist, state of a context that outlives it,
/// threads without a context, and structures that are longer than a program's.
pub fn try_out(softcuda: &Path) -> Result<()> {
    let folder = tempfile::tempdir().when(|| "making a folder".into())?;
    let program = folder.path().join("runtime");
    for (release, library) in RELEASES.iter().zip(libraries(softcuda)) {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
        compiler.arg(&program).arg(root().join("crates/softcudart/tests/runtime.c"));
        run(compiler.arg(library))?;
        let mut command = Command::new(&program);
        command.arg(release).env("LD_LIBRARY_PATH", softcuda).env("SOFTCUDA_DEVICES", "2");
        let output = command.output().when(|| format!("starting {}", line(&command)))?;
        let printed = String::from_utf8_lossy(&output.stdout);
        let said = String::from_utf8_lossy(&output.stderr);
        let refused = ["compile with nvcc --no-compress", "there is no PTX"];
        let is_right = output.status.success()
            && printed.ends_with("done\n")
            && refused.iter().all(|why| said.contains(why))
            && said.matches("softcudart: ").count() == refused.len();
        if !is_right {
            return Err(Error::new(format!("{}: {printed}{said}", line(&command))));
        }
    }
    Ok(())
}

/// The libraries in a folder.
pub fn libraries(folder: &Path) -> Vec<PathBuf> {
    RELEASES.map(|release| folder.join(format!("libcudart.so.{release}"))).to_vec()
}
