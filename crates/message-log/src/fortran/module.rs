//! Functions for the module in `fortran/veloc_parts.f90` beyond the C interface. Not in the header:
//! the module is the only caller.

#![allow(non_snake_case)] // C's names.

use std::ffi::{c_char, c_int, CStr};

use crate::capi;

/// Refuses a number that C's `int` cannot hold, which was given to `call`.
///
/// # Safety
/// `call` is a string that ends with a null byte.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Fortran_refuse_part(call: *const c_char, number: i64) -> c_int {
    // SAFETY: the caller's promise.
    let call = unsafe { CStr::from_ptr(call) }.to_string_lossy();
    capi::fail(&call, &format!("{number} is too large a number for a part"))
}
