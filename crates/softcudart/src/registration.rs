//! What a program's constructors register, before its `main`: fat binaries, and the host functions that
//! stand for kernels. The driver is not asked for anything before a kernel is launched.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::{null_mut, with_exposed_provenance_mut, without_provenance_mut};
use std::sync::Mutex;

use crate::answer::{answer, notice, RuntimeError, RuntimeResult};
use crate::context::{enter_with_context, lock};
use crate::driver::{CUfunction, RuntimeDriver};
use crate::fatbin::{self, Unusable, Wrapper};

/// All that is registered.
static REGISTERED: Mutex<Registered> =
    Mutex::new(Registered { count: 0, binaries: BTreeMap::new(), kernels: BTreeMap::new() });

struct Registered {
    /// How many fat binaries there were so far.
    count: usize,
    /// By their handles, which are never followed.
    binaries: BTreeMap<usize, Binary>,
    /// By the addresses of their host functions.
    kernels: BTreeMap<usize, RegisteredKernel>,
}

struct Binary {
    ptx: Result<CString, Unusable>,
    /// The modules made of it, by their contexts.
    modules: BTreeMap<usize, usize>,
}

struct RegisteredKernel {
    binary: usize,
    name: CString,
    /// The driver's functions, by their contexts.
    functions: BTreeMap<usize, usize>,
}

/// Registers a fat binary and returns a handle for it. One without usable kernels is an error at their
/// launch.
///
/// # Safety
/// `wrapper` is what nvcc has made.
#[no_mangle]
pub(crate) unsafe extern "C" fn __cudaRegisterFatBinary(
    wrapper: *const Wrapper,
) -> *mut *mut c_void {
    let mut handle = 0;
    answer(|| {
        // SAFETY: the caller's promise.
        let ptx = unsafe { fatbin::registered(wrapper) };
        let mut registered = lock(&REGISTERED);
        registered.count += 1;
        handle = registered.count;
        registered.binaries.insert(handle, Binary { ptx, modules: BTreeMap::new() });
        Ok(())
    });
    without_provenance_mut(handle)
}

/// Does nothing: the kernels of a fat binary are registered one by one.
#[no_mangle]
pub(crate) extern "C" fn __cudaRegisterFatBinaryEnd(_binary: *mut *mut c_void) {}

/// Forgets a fat binary and its kernels. Modules made of it end with their contexts: at the end of the
/// process there is no driver any more.
#[no_mangle]
pub(crate) extern "C" fn __cudaUnregisterFatBinary(binary: *mut *mut c_void) {
    answer(|| {
        let mut registered = lock(&REGISTERED);
        registered.binaries.remove(&binary.addr());
        registered.kernels.retain(|_, kernel| kernel.binary != binary.addr());
        Ok(())
    });
}

/// Registers a kernel: `host` is the host function of the kernel `name`. The other arguments are not needed.
///
/// # Safety
/// `name` is a string that ends with a null byte.
#[no_mangle]
pub(crate) unsafe extern "C" fn __cudaRegisterFunction(
    binary: *mut *mut c_void,
    host: *const c_char,
    _device: *mut c_char,
    name: *const c_char,
    _threads: c_int,
    _thread: *mut c_void,
    _block: *mut c_void,
    _block_size: *mut c_void,
    _grid_size: *mut c_void,
    _warp: *mut c_int,
) {
    answer(|| {
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) }.to_owned();
        let kernel = RegisteredKernel { binary: binary.addr(), name, functions: BTreeMap::new() };
        lock(&REGISTERED).kernels.insert(host.addr(), kernel);
        Ok(())
    });
}

/// Ignores a variable of a device: kernels have those of constant memory in their module, and a program that
/// copies to or from one needs a function that this library lacks.
#[no_mangle]
pub(crate) extern "C" fn __cudaRegisterVar(
    _binary: *mut *mut c_void,
    _host: *mut c_char,
    _address: *mut c_char,
    _name: *const c_char,
    _external: c_int,
    _size: usize,
    _constant: c_int,
    _global: c_int,
) {
}

/// Does nothing: a module is made at its first launch.
#[no_mangle]
pub(crate) extern "C" fn __cudaInitModule(_binary: *mut *mut c_void) -> c_char {
    1
}

/// The driver, and its function for the kernel of the host function `host`, in the current context.
pub(crate) fn function(host: *const c_void) -> RuntimeResult<(&'static RuntimeDriver, CUfunction)> {
    let (driver, context) = enter_with_context()?;
    let mut registered = lock(&REGISTERED);
    let Registered { binaries, kernels, .. } = &mut *registered;
    let kernel = kernels.get_mut(&host.addr()).ok_or(RuntimeError::INVALID_DEVICE_FUNCTION)?;
    if let Some(found) = kernel.functions.get(&context.addr()) {
        return Ok((driver, with_exposed_provenance_mut(*found)));
    }
    let binary = binaries.get_mut(&kernel.binary).ok_or(RuntimeError::INVALID_DEVICE_FUNCTION)?;
    let ptx = binary.ptx.as_ref().map_err(|why| {
        notice(&format!(
            "{}: the program's kernels: {}",
            kernel.name.to_string_lossy(),
            why.text()
        ));
        *why
    })?;
    let module = match binary.modules.get(&context.addr()) {
        Some(module) => with_exposed_provenance_mut(*module),
        None => {
            let mut module = null_mut();
            // SAFETY: the pointer is to a local, and the text ends with a null byte.
            unsafe { driver.cuModuleLoadData(&mut module, ptx.as_ptr().cast())? };
            binary.modules.insert(context.addr(), module.expose_provenance());
            module
        }
    };
    let mut function = null_mut();
    // SAFETY: the pointer is to a local; the module is one of the current context, which lives.
    unsafe { driver.cuModuleGetFunction(&mut function, module, kernel.name.as_ptr())? };
    kernel.functions.insert(context.addr(), function.expose_provenance());
    Ok((driver, function))
}

/// Forgets what was made in a context, which ends.
pub(crate) fn forget(context: usize) {
    let mut registered = lock(&REGISTERED);
    registered
        .binaries
        .values_mut()
        .for_each(|binary| binary.modules.retain(|of, _| *of != context));
    registered
        .kernels
        .values_mut()
        .for_each(|kernel| kernel.functions.retain(|of, _| *of != context));
}
