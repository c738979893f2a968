//! Whether this machine has a CUDA driver with a device.

use std::ffi::{c_int, c_uint, OsString};
use std::path::PathBuf;
use std::process::Command;

use libloading::{Library, Symbol};

use crate::error::{Result, While};

/// The status of a successful driver call.
const SUCCESS: c_int = 0;

/// The number of devices of this machine's driver; 0 without a driver.
pub fn devices() -> usize {
    // SAFETY: the driver's constructors do nothing that harms this process.
    let Ok(library) = (unsafe { Library::new("libcuda.so.1") }) else {
        return 0;
    };
    let mut count = 0;
    // SAFETY: both functions have these types in every version of the driver.
    let counted = unsafe {
        let init: std::result::Result<Symbol<unsafe extern "C" fn(c_uint) -> c_int>, _> =
            library.get(b"cuInit\0");
        let ask: std::result::Result<Symbol<unsafe extern "C" fn(*mut c_int) -> c_int>, _> =
            library.get(b"cuDeviceGetCount\0");
        match (init, ask) {
            (Ok(init), Ok(ask)) => init(0) == SUCCESS && ask(&mut count) == SUCCESS,
            _ => false,
        }
    };
    // A driver that has run is not unloaded: its threads may still run.
    std::mem::forget(library);
    if counted {
        usize::try_from(count).unwrap_or(0)
    } else {
        0
    }
}

/// Has `command` use the software device in this folder.
pub fn use_software(command: &mut Command, softcuda: PathBuf) -> Result<()> {
    command.env("LD_LIBRARY_PATH", before_libraries(softcuda)?);
    Ok(())
}

/// The search path for libraries, with another folder in front.
fn before_libraries(folder: PathBuf) -> Result<OsString> {
    let others = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let others = std::env::split_paths(&others).filter(|path| !path.as_os_str().is_empty());
    let what = || format!("putting {} on LD_LIBRARY_PATH", folder.display());
    std::env::join_paths(std::iter::once(folder.clone()).chain(others)).when(what)
}
