//! Compiled kernels: the C compiler makes a library of them, which is loaded.

use std::collections::HashMap;
use std::ffi::{CStr, CString, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::kernels::{self, Kernel, NativeKernel};

/// Of longer code, in bytes, compiling it well takes longer than what a test computes with it: 20 s.
const LONG_CODE: usize = 256 << 10;

/// The kernels of a module. Its library stays loaded: functions taken from it may still be queued.
#[derive(Debug)]
pub(crate) struct Compiled {
    kernels: HashMap<String, Result<Arc<Kernel>, String>>,
}

impl Compiled {
    /// Compiles a module's text.
    ///
    /// # Errors
    /// What the translator does not understand, or the compiler says.
    pub(crate) fn new(ptx: &str) -> Result<Compiled, String> {
        let translation = super::translate(ptx)?;
        let library = load(&translation.code)?;
        // SAFETY: the library's variable, which is a pointer to such a function.
        unsafe {
            let find = symbol(library, c"softcuda_find_window")?;
            find.cast::<kernels::FindWindow>().write(kernels::find_window);
        }
        let mut found = HashMap::new();
        for (name, needs) in translation.kernels {
            let needs = match needs {
                Ok(needs) => needs,
                Err(why) => {
                    found.insert(name, Err(why));
                    continue;
                }
            };
            let symbol_name =
                CString::new(format!("k_{name}")).map_err(|error| error.to_string())?;
            // SAFETY: the library has a function of this type for each kernel, and is never unloaded.
            let function = unsafe {
                let function = symbol(library, &symbol_name)?;
                std::mem::transmute::<*mut libc::c_void, NativeKernel>(function)
            };
            found.insert(name, Ok(Arc::new(Kernel::new(function, needs))));
        }
        Ok(Compiled { kernels: found })
    }

    /// The kernel of this name, or why it was not translated.
    pub(crate) fn kernel(&self, name: &str) -> Option<Result<Arc<Kernel>, String>> {
        self.kernels.get(name).cloned()
    }
}

/// Compiles and loads `code`. Its files are gone when this returns, but for that in the cache.
fn load(code: &str) -> Result<*mut libc::c_void, String> {
    let folder = folder()?;
    let loaded = cached(code, &folder).and_then(|library| open(&library));
    let _ = fs::remove_dir_all(&folder);
    loaded
}

/// The library of `code` in `folder`: a copy of the one in the cache, as each module has variables of its own.
fn cached(code: &str, folder: &Path) -> Result<PathBuf, String> {
    // Named as the folder: CRIU makes a file whose folder is gone in the one above, by this name.
    let library = folder.join(folder.file_name().unwrap_or_default()).with_extension("so");
    // The variable of the driver's own compiler.
    let Some(cache) = std::env::var_os("CUDA_CACHE_PATH") else {
        return compile(code, &library).map(|()| library);
    };
    let mut hasher = DefaultHasher::new();
    code.hash(&mut hasher);
    let kept = Path::new(&cache).join(format!("softcuda-{:016x}.so", hasher.finish()));
    if fs::copy(&kept, &library).is_err() {
        compile(code, &library)?;
        // Complete under its name, or not there. Without a cache the next process compiles.
        let partial = Path::new(&cache).join(folder.file_name().unwrap_or_default());
        let _ = fs::create_dir_all(&cache)
            .and_then(|()| fs::copy(&library, &partial))
            .and_then(|_| fs::rename(&partial, &kept));
    }
    Ok(library)
}

/// A new folder that only this user can enter.
fn folder() -> Result<PathBuf, String> {
    let wanted = std::env::temp_dir().join("softcuda-XXXXXX");
    let name = CString::new(wanted.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    let name = name.into_raw();
    // SAFETY: a terminated text that is written in place, and its own again afterwards.
    let (made, name) = unsafe { (!libc::mkdtemp(name).is_null(), CString::from_raw(name)) };
    if !made {
        return Err(format!("{}: {}", wanted.display(), std::io::Error::last_os_error()));
    }
    Ok(PathBuf::from(OsString::from_vec(name.into_bytes())))
}

fn compile(code: &str, library: &Path) -> Result<(), String> {
    let level = if code.len() > LONG_CODE { "-O0" } else { "-O2" };
    // Like a GPU: a product is rounded before a sum is computed from it.
    let flags = [level, "-shared", "-fPIC", "-ffp-contract=off", "-fwrapv", "-w", "-x", "c", "-"];
    let mut compiler = Command::new("cc");
    compiler.args(flags).arg("-o").arg(library).arg("-lm");
    // Settings for the program, such as preloaded sanitizers, are not for the compiler.
    compiler.env_remove("LD_PRELOAD").env_remove("LD_LIBRARY_PATH");
    compiler.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let run = || -> std::io::Result<std::process::Output> {
        let mut running = compiler.spawn()?;
        if let Some(mut input) = running.stdin.take() {
            input.write_all(code.as_bytes())?;
        }
        running.wait_with_output()
    };
    let mut run = run;
    let output = run().map_err(|error| format!("cc, which kernels are compiled with: {error}"))?;
    if !output.status.success() {
        return Err(format!("cc: {}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(())
}

fn open(library: &Path) -> Result<*mut libc::c_void, String> {
    let path = CString::new(library.to_string_lossy().as_bytes()).map_err(|e| e.to_string())?;
    // SAFETY: the library was just made from code without constructors.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(format!("{}: it cannot be loaded", library.display()));
    }
    Ok(handle)
}

/// # Safety
/// `library` must be a library that is loaded.
unsafe fn symbol(library: *mut libc::c_void, name: &CStr) -> Result<*mut libc::c_void, String> {
    // SAFETY: the caller's promise.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    if found.is_null() {
        return Err(format!("the compiled kernels have no {}", name.to_string_lossy()));
    }
    Ok(found)
}
