//! Modules, functions and kernel launches. Kernels are native functions that
//! the program has registered, by name, or else compiled from the module's PTX.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};

use super::entry::{enter, give, not_null, CallNeeds, DriverCall};
use crate::abi::{CUfunction, CUmodule, CUstream, ResultCode};
use crate::config;
use crate::kernels::{self, LaunchShape};
use crate::status::{DriverResult, ErrorCode};

/// `CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK`.
const MAX_THREADS_PER_BLOCK: c_int = 0;
/// `CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES`.
const SHARED_SIZE_BYTES: c_int = 1;

/// Makes a module of any image. PTX is compiled when a program first asks for a kernel that it has not
/// registered.
///
/// # Safety
/// `module` must be null or writable, and `image` null or an image: PTX ends
/// with a zero byte.
#[no_mangle]
pub unsafe extern "C" fn cuModuleLoadData(
    module: *mut CUmodule,
    image: *const c_void,
) -> ResultCode {
    // SAFETY: the caller vouches for `module`.
    enter("cuModuleLoadData", CallNeeds::Context, |call| unsafe { load(call, module, image) })
}

/// Loads a module as [`cuModuleLoadData`] does; the options are not read.
///
/// # Safety
/// As for [`cuModuleLoadData`].
#[no_mangle]
pub unsafe extern "C" fn cuModuleLoadDataEx(
    module: *mut CUmodule,
    image: *const c_void,
    _option_count: c_uint,
    _options: *mut c_int,
    _option_values: *mut *mut c_void,
) -> ResultCode {
    // SAFETY: the caller vouches for `module`.
    enter("cuModuleLoadDataEx", CallNeeds::Context, |call| unsafe { load(call, module, image) })
}

/// # Safety
/// As for [`cuModuleLoadData`].
unsafe fn load(call: &DriverCall, module: *mut CUmodule, image: *const c_void) -> DriverResult {
    not_null(module)?;
    not_null(image.cast_mut())?;
    // SAFETY: the caller vouches for an image, which has a first byte.
    let first = unsafe { *image.cast::<u8>() };
    let is_text = first.is_ascii_graphic() || first.is_ascii_whitespace();
    // SAFETY: the caller vouches for PTX; other images do not begin with such a byte: ELF begins with 0x7f.
    let text = is_text.then(|| unsafe { CStr::from_ptr(image.cast()) });
    let text = text.map(|text| text.to_string_lossy().into_owned());
    let loaded = call.driver()?.load_module(call.context()?, text);
    // SAFETY: the caller vouches for `module`.
    unsafe { give(module, loaded) }
}

/// Unloads a module and ends the functions taken from it.
#[no_mangle]
pub extern "C" fn cuModuleUnload(module: CUmodule) -> ResultCode {
    enter("cuModuleUnload", CallNeeds::Context, |call| call.driver()?.unload_module(module))
}

/// Takes the native kernel of this name.
///
/// # Safety
/// `function` must be null or writable, `name` null or a terminated string.
#[no_mangle]
pub unsafe extern "C" fn cuModuleGetFunction(
    function: *mut CUfunction,
    module: CUmodule,
    name: *const c_char,
) -> ResultCode {
    enter("cuModuleGetFunction", CallNeeds::Context, |call| {
        not_null(function)?;
        not_null(name.cast_mut())?;
        // SAFETY: the caller vouches for `name`.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| ErrorCode::NOT_FOUND)?;
        let found = call.driver()?.add_function(module, |code| {
            let native = if config::only_ptx() { None } else { kernels::find(name).ok() };
            native.map_or_else(|| code.kernel(name), Ok)
        })?;
        // SAFETY: the caller vouches for `function`.
        unsafe { give(function, found) }
    })
}

/// A property of a function: its largest block and its shared memory are known.
///
/// # Safety
/// `value` must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn cuFuncGetAttribute(
    value: *mut c_int,
    attribute: c_int,
    function: CUfunction,
) -> ResultCode {
    enter("cuFuncGetAttribute", CallNeeds::Context, |call| {
        let kernel = call.driver()?.kernel(function, call.context()?)?;
        let known = match attribute {
            MAX_THREADS_PER_BLOCK => 1024,
            SHARED_SIZE_BYTES => kernel.shared_bytes() as c_int,
            _ => 0,
        };
        // SAFETY: the caller vouches for `value`.
        unsafe { give(value, known) }
    })
}

/// Queues a kernel. The parameters' values are taken now.
///
/// # Safety
/// `params` must point to as many pointers to values as the kernel was
/// registered with, and the kernel must be sound for these values.
#[no_mangle]
pub unsafe extern "C" fn cuLaunchKernel(
    function: CUfunction,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: CUstream,
    params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> ResultCode {
    enter("cuLaunchKernel", CallNeeds::Context, |call| {
        let context = call.context()?;
        let kernel = call.driver()?.kernel(function, context)?;
        let stream = call.own_stream(stream)?;
        if !extra.is_null() {
            return Err(ErrorCode::NOT_SUPPORTED);
        }
        let shape = LaunchShape {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            shared_bytes,
        };
        kernel.check(&shape)?;
        // SAFETY: the caller vouches for `params`.
        let values = unsafe { kernel.capture(params)? };
        let device = context.device;
        call.submit(&stream, Box::new(move || kernel.run(device, shape, values))).map(|_| ())
    })
}
