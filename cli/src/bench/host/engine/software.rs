//! The software device, in this process, with copies that take no time.

use std::env;
use std::ffi::{c_int, c_uint, c_void, CStr};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use anyhow::{bail, ensure, Context, Result};
use veloc_client::device::{Device, Driver};

/// What must be known by who reads the times.
pub const WARNING: &str =
    "device memory is that of the software device, whose copies were made to take no time: only \
     the library's own cost beside them means anything";

/// `CUstream` for the C interface.
pub type RawStream = *mut c_void;

/// `CU_STREAM_NON_BLOCKING`.
const NON_BLOCKING: c_uint = 1;

/// The environment of a process that uses it.
pub fn settings(given: Option<&Path>) -> Result<Vec<(&'static str, String)>> {
    let folder = folder(given)?;
    let others = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let others = env::split_paths(&others).filter(|path| !path.as_os_str().is_empty());
    let path = env::join_paths(std::iter::once(folder.clone()).chain(others))
        .with_context(|| format!("putting {} on LD_LIBRARY_PATH", folder.display()))?;
    let path = path.into_string().ok().context("LD_LIBRARY_PATH is not UTF-8")?;
    Ok(vec![("LD_LIBRARY_PATH", path), ("SOFTCUDA_COPY", "none".to_owned())])
}

/// Where its library is: where the user says, or beside this program.
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

/// Loads it and makes the primary context of its device this thread's, for good.
pub fn start() -> Result<Arc<Device>> {
    type Retain = unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_uint;
    type SetCurrent = unsafe extern "C" fn(*mut c_void) -> c_uint;
    open()?;
    let driver = Driver::get()?.context("the software device has no device")?;
    ensure!(driver.is_software(), "the driver at hand is not the software device");
    let mut context = std::ptr::null_mut();
    // SAFETY: both types are those that the driver's header gives these symbols; the pointer is to
    // a local, and the context is the one just retained.
    unsafe {
        let retain: Retain = std::mem::transmute(function(c"cuDevicePrimaryCtxRetain")?);
        check("cuDevicePrimaryCtxRetain", retain(&mut context, 0))?;
        let set_current: SetCurrent = std::mem::transmute(function(c"cuCtxSetCurrent")?);
        check("cuCtxSetCurrent", set_current(context))?;
    }
    let device = Device::current(&driver)?.context("the software device has no context")?;
    Ok(Arc::new(device))
}

/// A stream of the application's. It is left to the end of the process.
pub fn stream() -> Result<RawStream> {
    type Create = unsafe extern "C" fn(*mut RawStream, c_uint) -> c_uint;
    let mut stream = std::ptr::null_mut();
    // SAFETY: the type is the one that the driver's header gives this symbol; the pointer is to a
    // local, and a context is current.
    unsafe {
        let create: Create = std::mem::transmute(function(c"cuStreamCreate")?);
        check("cuStreamCreate", create(&mut stream, NON_BLOCKING))?;
    }
    Ok(stream)
}

fn check(call: &str, status: c_uint) -> Result<()> {
    ensure!(status == 0, "{call} failed: {status}");
    Ok(())
}

/// A function of the driver's library.
fn function(name: &CStr) -> Result<NonNull<c_void>> {
    // SAFETY: a library that is open, and a name that ends with NUL.
    let found = unsafe { libc::dlsym(open()?, name.as_ptr()) };
    NonNull::new(found)
        .with_context(|| format!("the software device has no {}", name.to_string_lossy()))
}

/// The driver's library, which stays open.
fn open() -> Result<*mut c_void> {
    // SAFETY: the driver's constructors do nothing that this process could mind.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        // SAFETY: after a failure of dlopen it is a text that ends with NUL.
        let reason = unsafe { CStr::from_ptr(libc::dlerror()) };
        bail!("{}", reason.to_string_lossy());
    }
    Ok(library)
}
