//! The driver's functions, found when the first device is opened, one typed pointer for each. The
//! library's own functions are not used: the library and the bench share nothing but the list of
//! functions.

use std::ffi::{c_char, CStr};
use std::sync::OnceLock;

use anyhow::{anyhow, Context as _, Result};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

/// A driver's status: 0 is success (`CUresult`).
pub(super) type DriverStatus = u32;

/// The names of the driver's library; the second is for systems where only a toolkit's link is on
/// the path.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// `CUDA_ERROR_NOT_INITIALIZED`: the driver was not loaded.
const NOT_INITIALISED: DriverStatus = 3;

struct Loaded {
    functions: Functions,
    library: Library,
}

static DRIVER: OnceLock<Loaded> = OnceLock::new();

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),* $(,)?);)*) => {
        #[allow(non_snake_case)]
        struct Functions {
            $($name: unsafe extern "C" fn($($type),*) -> DriverStatus,)*
        }

        impl Functions {
            /// Looks up all functions; an error names the first that is missing.
            fn find(library: &Library) -> Result<Functions> {
                Ok(Functions {
                    $($name: {
                        // SAFETY: the type is the one that the driver's header gives this symbol.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($type),*) -> DriverStatus>(
                                concat!(stringify!($name), "\0").as_bytes(),
                            )
                        };
                        *symbol.map_err(|_| {
                            anyhow!("the CUDA driver has no function {}", stringify!($name))
                        })?
                    },)*
                })
            }
        }

        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As the driver's reference says; pointers must be valid for the call.
            #[allow(non_snake_case, dead_code, clippy::too_many_arguments)]
            pub(crate) unsafe fn $name($($arg: $type),*) -> DriverStatus {
                match DRIVER.get() {
                    // SAFETY: the caller's promise; the pointer was found under this very name.
                    Some(driver) => unsafe { (driver.functions.$name)($($arg),*) },
                    None => NOT_INITIALISED,
                }
            }
        )*
    };
}

driver::driver_functions! { functions {} }

/// Loads the driver, once.
///
/// # Errors
/// There is no driver, or it lacks a function.
pub(super) fn load() -> Result<()> {
    if DRIVER.get().is_some() {
        return Ok(());
    }
    let open = |name: &str| {
        // SAFETY: loading the driver runs no more than its constructors.
        unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.ok()
    };
    let library = NAMES.iter().find_map(|name| open(name)).context(
        "no CUDA driver was found (libcuda.so.1, or libcuda.so, in LD_LIBRARY_PATH and where the \
         system's loader looks); `cargo xtask veloc` brings a software device along, as `run.sh \
         --software` of a GPU bundle does",
    )?;
    let functions = Functions::find(&library)?;
    // Another thread may have been first; its copy is as good.
    let _ = DRIVER.set(Loaded { functions, library });
    Ok(())
}

/// A symbol of the driver that is not part of CUDA.
///
/// # Safety
/// `T` must be the type of the symbol.
pub(super) unsafe fn extension<T: Copy>(name: &CStr) -> Option<T> {
    let driver = DRIVER.get()?;
    // SAFETY: the caller's promise. The library is never closed.
    let symbol = unsafe { driver.library.get::<T>(name.to_bytes_with_nul()) };
    symbol.ok().map(|symbol| *symbol)
}

/// An error for any status but success, with what was tried.
pub(super) fn checked(status: DriverStatus, what: impl FnOnce() -> String) -> Result<()> {
    if status == 0 {
        return Ok(());
    }
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: the driver writes a pointer to a constant string, or NULL.
    let asked = unsafe { cuGetErrorString(status, &mut text) };
    let what = what();
    if asked != 0 || text.is_null() {
        return Err(anyhow!("{what}: CUDA error {status}"));
    }
    // SAFETY: not NULL; the driver's strings end with NUL and stay.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    Err(anyhow!("{what}: {text} (CUDA error {status})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_that_nobody_knows_is_an_error_like_any_other() {
        xtask::on_device::run(|| {
            load().unwrap();
            let error = checked(4_000_000_000, || "a call".into()).unwrap_err().to_string();
            assert!(error.contains("a call: ") && error.contains("4000000000"), "{error}");
            let known = checked(2, || "a call".into()).unwrap_err().to_string();
            assert!(known.ends_with("(CUDA error 2)"), "{known}");
        });
    }
}
