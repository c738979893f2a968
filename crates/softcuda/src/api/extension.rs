//! The functions that steer this device; a real driver has none of them.
//!
//! `include/softcuda.h` declares them for C. They count as no call of the
//! driver, need no initialisation, and may be called from any thread.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::panic::catch_unwind;
use std::sync::atomic::Ordering;

use super::entry::{give_if_wanted, give_text};
use crate::abi::CUdeviceptr;
use crate::kernels::{self, NativeKernel};
use crate::notice::notice;
use crate::{config, inject, misuse, queue, registry, transfer};

pub use crate::kernels::softcuda_launch;

const DONE: c_int = 0;
const REFUSED: c_int = -1;

/// Runs `body`, which returns what the caller gets; a panic gives `otherwise`.
fn guarded<T>(otherwise: T, body: impl FnOnce() -> T + std::panic::UnwindSafe) -> T {
    catch_unwind(body).unwrap_or(otherwise)
}

/// Says that this library is not a real driver.
#[no_mangle]
pub extern "C" fn softcuda_is_software() -> c_int {
    1
}

/// Changes a setting, named as its environment variable is or without
/// `SOFTCUDA_`. The number of devices is fixed once the driver is
/// initialised. Returns 0, or -1 and a line on stderr.
///
/// # Safety
/// Both must be null, which is refused, or terminated strings.
#[no_mangle]
pub unsafe extern "C" fn softcuda_configure(key: *const c_char, value: *const c_char) -> c_int {
    // SAFETY: the caller vouches for both strings.
    let (key, value) = unsafe { (text_of(key), text_of(value)) };
    guarded(REFUSED, || {
        let (Some(key), Some(value)) = (key, value) else {
            return REFUSED;
        };
        if key.to_ascii_uppercase().ends_with("DEVICES") && registry::driver().is_ok() {
            notice(&format!("{key}={value}: the driver is initialised"));
            return REFUSED;
        }
        report(config::configure(key, value), key, value)
    })
}

/// Replaces the failures to inject, by a list like `cuMemMap:3=2,cuLaunchKernel:1+~700`. Returns 0, or -1 and
/// a line on stderr, in which case nothing changes.
///
/// # Safety
/// `specification` must be null, which is refused, or a terminated string.
#[no_mangle]
pub unsafe extern "C" fn softcuda_inject(specification: *const c_char) -> c_int {
    // SAFETY: the caller vouches for the string.
    let text = unsafe { text_of(specification) };
    guarded(REFUSED, || {
        let Some(text) = text else { return REFUSED };
        report(config::configure("FAIL", text), "softcuda_inject", text)
    })
}

/// How often a driver function was called since the start or the last
/// [`softcuda_reset_counts`], failed calls among them.
///
/// # Safety
/// `name` must be null or a terminated string.
#[no_mangle]
pub unsafe extern "C" fn softcuda_call_count(name: *const c_char) -> u64 {
    // SAFETY: the caller vouches for the string.
    let name = unsafe { text_of(name) };
    guarded(0, || name.map_or(0, inject::count))
}

/// Writes every driver function called so far and how often, one `name count`
/// to a line, cut to fit. Returns the room it takes in full, terminator and
/// all.
///
/// # Safety
/// `buffer` must be null or writable for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn softcuda_calls(buffer: *mut c_char, size: usize) -> usize {
    let text = guarded(String::new(), inject::listing);
    // SAFETY: the caller vouches for the buffer.
    unsafe { hand_out(buffer, size, &text) }
}

/// How often something was done that a program must never do, since the
/// start or the last [`softcuda_reset_counts`].
#[no_mangle]
pub extern "C" fn softcuda_misuse_count() -> u64 {
    guarded(0, misuse::count)
}

/// Writes what was done wrong, one case to a line, as `softcuda_calls` does.
///
/// # Safety
/// `buffer` must be null or writable for `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn softcuda_misuse_log(buffer: *mut c_char, size: usize) -> usize {
    let text = guarded(String::new(), misuse::entries);
    // SAFETY: the caller vouches for the buffer.
    unsafe { hand_out(buffer, size, &text) }
}

/// How many copies in streams made their caller wait, as their host memory was not page-locked, since the
/// start or the last [`softcuda_reset_counts`].
#[no_mangle]
pub extern "C" fn softcuda_staged_count() -> u64 {
    transfer::STAGED.load(Ordering::Relaxed)
}

/// How many waits for unfinished work would spin in a driver (all but those for an event that was made with
/// `CU_EVENT_BLOCKING_SYNC`), since the start or the last [`softcuda_reset_counts`].
#[no_mangle]
pub extern "C" fn softcuda_spun_count() -> u64 {
    queue::SPUN.load(Ordering::Relaxed)
}

/// How many bytes of managed memory have moved to a device (`to_device`) and back to the host, in blocks of 2 MiB.
///
/// # Safety
/// Both must be null or writable.
#[no_mangle]
pub unsafe extern "C" fn softcuda_migrated(to_device: *mut u64, to_host: *mut u64) {
    let moved = guarded((0, 0), || registry::driver().map_or((0, 0), |d| d.memory.moved()));
    // SAFETY: the caller vouches for both pointers.
    unsafe {
        give_if_wanted(to_device, moved.0);
        give_if_wanted(to_host, moved.1);
    }
}

/// Resets the counts of calls, misuse, staged copies and waits to zero. Failures to inject stay set and go by
/// the new numbers.
#[no_mangle]
pub extern "C" fn softcuda_reset_counts() {
    guarded((), || {
        inject::reset_counts();
        misuse::reset();
        transfer::STAGED.store(0, Ordering::Relaxed);
        queue::SPUN.store(0, Ordering::Relaxed);
    });
}

/// Registers a native kernel under the name that `cuModuleGetFunction` finds,
/// replacing any before it. Returns 0, or -1 for a null argument, a name that
/// is no UTF-8 or a parameter of no or more than eight bytes.
///
/// # Safety
/// `name` must be a terminated string and `sizes` hold `count` sizes in
/// bytes, or be null if there are none. `function` must stay callable, from
/// other threads, with any launch of so many parameters of these sizes.
#[no_mangle]
pub unsafe extern "C" fn softcuda_register_kernel(
    name: *const c_char,
    count: c_uint,
    sizes: *const usize,
    function: Option<NativeKernel>,
) -> c_int {
    // SAFETY: the caller vouches for the string.
    let name = unsafe { text_of(name) };
    let sizes = match (count as usize, sizes.is_null()) {
        (0, _) => Vec::new(),
        (_, true) => return REFUSED,
        // SAFETY: the caller vouches for the array.
        (count, false) => unsafe { std::slice::from_raw_parts(sizes, count) }.to_vec(),
    };
    guarded(REFUSED, || {
        let (Some(name), Some(function)) = (name, function) else {
            return REFUSED;
        };
        kernels::register(name.to_owned(), sizes, function).map_or(REFUSED, |()| DONE)
    })
}

/// Where a native kernel reads and writes `size` bytes at a device address; null, and the end of the context,
/// if the kernel's device may not access all of them. Only a kernel may call this, on its own thread, and use
/// the result until it returns; memory that its device may only read must not be written there.
#[no_mangle]
pub extern "C" fn softcuda_host_alias(address: CUdeviceptr, size: usize) -> *mut c_void {
    guarded(std::ptr::null_mut(), || kernels::alias_for_kernel(address, size as u64))
}

/// # Safety
/// `text` must be null or a terminated string that outlives what is returned.
unsafe fn text_of<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller vouches for it.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// # Safety
/// `buffer` must be null or writable for `size` bytes.
unsafe fn hand_out(buffer: *mut c_char, size: usize, text: &str) -> usize {
    // A buffer that is null or too small for a terminator gets nothing.
    // SAFETY: the caller vouches for the buffer.
    let _ = unsafe { give_text(buffer, size, text) };
    text.len() + 1
}

fn report(outcome: Result<(), String>, key: &str, value: &str) -> c_int {
    match outcome {
        Ok(()) => DONE,
        Err(why) => {
            notice(&format!("{key}={value}: {why}"));
            REFUSED
        }
    }
}
