//! Finding the entry points by name.

use std::ffi::{c_char, c_int, c_ulonglong, c_void, CStr, CString};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use super::entry::{enter, give_if_wanted, not_null, CallNeeds};
use crate::abi::ResultCode;
use crate::status::{DriverResult, ErrorCode};

/// `CU_GET_PROC_ADDRESS_SUCCESS`.
const FOUND: c_int = 0;
/// `CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND`.
const SYMBOL_NOT_FOUND: c_int = 1;

/// Finds a driver function of this library by its name without a version.
/// Where there is a second version, that is meant: it is what programs built
/// against CUDA 12 use.
///
/// # Safety
/// `name` must be null or a terminated string; `function` must be null or
/// writable, and so must `symbol_status`.
#[no_mangle]
pub unsafe extern "C" fn cuGetProcAddress_v2(
    name: *const c_char,
    function: *mut *mut c_void,
    _version: c_int,
    _flags: c_ulonglong,
    symbol_status: *mut c_int,
) -> ResultCode {
    enter("cuGetProcAddress_v2", CallNeeds::Nothing, |_| {
        not_null(name.cast_mut())?;
        not_null(function)?;
        // SAFETY: the caller vouches for `name`.
        let name = unsafe { CStr::from_ptr(name) };
        let found = look_up(name)?;
        let status = if found.is_null() { SYMBOL_NOT_FOUND } else { FOUND };
        // SAFETY: the caller vouches for both pointers.
        unsafe {
            function.write(found);
            give_if_wanted(symbol_status, status);
        }
        if found.is_null() {
            Err(ErrorCode::NOT_FOUND)
        } else {
            Ok(())
        }
    })
}

fn look_up(name: &CStr) -> DriverResult<*mut c_void> {
    let text = name.to_str().map_err(|_| ErrorCode::NOT_FOUND)?;
    if !text.starts_with("cu") {
        return Ok(null_mut());
    }
    let second = CString::new(format!("{text}_v2")).map_err(|_| ErrorCode::NOT_FOUND)?;
    let library = this_library()?;
    let lookups = [second.as_c_str(), name].map(|symbol| {
        // SAFETY: the library is loaded and the symbol is a terminated string.
        unsafe { libc::dlsym(library, symbol.as_ptr()) }
    });
    Ok(lookups.into_iter().find(|address| !address.is_null()).unwrap_or(null_mut()))
}

/// A handle of the library this code is in.
fn this_library() -> DriverResult<*mut c_void> {
    let own: *const c_void = cuGetProcAddress_v2 as *const c_void;
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: `own` is an address in loaded code and `info` is writable.
    if unsafe { libc::dladdr(own, info.as_mut_ptr()) } == 0 {
        return Err(ErrorCode::NOT_FOUND);
    }
    // SAFETY: it was zeroed, which is a value of it, and then filled in.
    let path = unsafe { info.assume_init() }.dli_fname;
    // SAFETY: `path` is the terminated path of a loaded library, and
    // RTLD_NOLOAD makes this load nothing.
    let library = unsafe { libc::dlopen(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    if library.is_null() {
        Err(ErrorCode::NOT_FOUND)
    } else {
        Ok(library)
    }
}
