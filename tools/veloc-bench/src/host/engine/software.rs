//! The software device, in this process, with copies that take no time.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{bail, ensure, Context, Result};
use device::{kinds, Device};

use crate::cuda;

/// What readers of the times must know.
pub(super) const WARNING: &str =
    "device memory is that of the software device, whose copies were made to take no time: only \
     the library's own cost beside them means anything";

/// The environment of a process that uses the software device.
pub(super) fn settings(given: Option<&Path>) -> Result<Vec<(&'static str, String)>> {
    let folder = folder(given)?;
    let others = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let others = env::split_paths(&others).filter(|path| !path.as_os_str().is_empty());
    let path = env::join_paths(std::iter::once(folder.clone()).chain(others))
        .with_context(|| format!("putting {} on LD_LIBRARY_PATH", folder.display()))?;
    let path = path.into_string().ok().context("LD_LIBRARY_PATH is not UTF-8")?;
    Ok(vec![("LD_LIBRARY_PATH", path), ("SOFTCUDA_COPY", "none".to_owned())])
}

/// The folder of the software device's library: where the user says, or beside this program.
fn folder(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(folder) = given {
        ensure!(is_folder(folder), "--softcuda {}: there is no libcuda.so.1", folder.display());
        return Ok(folder.to_path_buf());
    }
    let program = env::current_exe().context("finding this program")?;
    let bin = program.parent().context("a program without a folder")?;
    let profile = bin.file_name().unwrap_or_default();
    // A bundle has `bin` and `softcuda`; a checkout `target/<profile>` and the staged folders.
    let places = [bin.join("../softcuda"), bin.join("../stage").join(profile).join("softcuda")];
    match places.iter().find(|folder| is_folder(folder)) {
        Some(folder) => Ok(folder.clone()),
        None => bail!(
            "there is no software device in {} or {}: make it with `cargo xtask stage --release`, \
             or say --softcuda FOLDER",
            places[0].display(),
            places[1].display()
        ),
    }
}

fn is_folder(folder: &Path) -> bool {
    folder.join("libcuda.so.1").is_file()
}

/// Opens the software device for the bench and for the library. Its context is this thread's.
pub(super) fn start() -> Result<(cuda::BenchDevice, Arc<Device>)> {
    let device = cuda::BenchDevice::open(0)?;
    ensure!(device.is_software(), "{} is not the software device", device.name());
    ensure!(kinds::is_there()?, "the library finds no driver");
    let same = kinds::current()?.context("the library finds no context")?;
    Ok((device, Arc::new(same)))
}
