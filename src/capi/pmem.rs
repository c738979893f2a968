//! Files of arrays in persistent memory: opening them, finding arrays, marking iterations and writing back.

use std::ffi::{c_char, c_int, c_void, CString};
use std::path::Path;

use super::boundary::{refuse_within_callbacks, status, string};
use super::job::start_logging;
use super::{VELOC_CRASH_PAGE, VELOC_CRASH_POWER, VELOC_CRASH_PROCESS};
use errors::{Error, Result};
use os::persistent::{Model, Survives};
use os::sync::Mutex;
use pmem::file::{Pmem, Slots};
use pmem::iterations::Iterations;

/// An open file of arrays. Opaque. Any thread may use it; a thread drains only what it has flushed
/// itself.
#[derive(Debug)]
#[allow(non_camel_case_types)] // C's name.
pub struct VELOC_Pmem {
    pub(super) iterations: Iterations,
    /// Why the file is no more than it is, for C.
    why: CString,
    /// Boxed: a program has their addresses.
    #[allow(clippy::vec_box)]
    arrays: Mutex<Vec<Box<VELOC_Array>>>,
}

/// An array of a VELOC_Pmem. Opaque; it ends with VELOC_Pmem_close.
#[derive(Debug)]
#[allow(non_camel_case_types)] // C's name.
pub struct VELOC_Array {
    slots: Slots,
}

/// What a crash leaves of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)] // C's name.
pub struct VELOC_Domain {
    /// The worst crash after which what was flushed and drained is there: one of VELOC_CRASH_*.
    pub crash: c_int,
    /// Bytes that reach the file together: 1 where nothing has to be flushed, a line of the cache,
    /// or a page.
    pub granularity: c_int,
    /// Why the file does not survive a worse crash; valid until VELOC_Pmem_close.
    pub why: *const c_char,
}

/// Opens a file of arrays, or makes one. Only one process has it open at a time; the death of the
/// process closes it.
///
/// @param path   the file. A new one appears whole, and has all its room on the disk
/// @param bytes  room for slots of arrays, each of which takes a multiple of 4096
/// @param crash  the crash that the arrays are to survive. VELOC_CRASH_PROCESS: a crash of the
///               process; any file will do. VELOC_CRASH_PAGE: a crash of the machine; persistent
///               memory acts as with VELOC_CRASH_POWER, for another file each flush writes pages to
///               a disk. VELOC_CRASH_POWER: a crash of the machine; only persistent memory will do
/// @param pmem   gets the file, for VELOC_Pmem_close
/// @return VELOC_SUCCESS; VELOC_FAILURE if the file is open elsewhere; is no such file, is damaged,
///         or is of another version, order of bytes or size; lies where nothing survives such a
///         crash; or cannot be written; or if the disk has no room
///
/// Source: an addition of this library, after Yang et al., "Algorithm-directed crash consistence in
/// non-volatile memory for HPC".
///
/// # Safety
/// `path` is NULL or a string that ends with NUL, `pmem` is NULL or has room for a pointer.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_open(
    path: *const c_char,
    bytes: usize,
    crash: c_int,
    pmem: *mut *mut VELOC_Pmem,
) -> c_int {
    // There need not be a job.
    start_logging();
    status("VELOC_Pmem_open", || {
        // SAFETY: the caller's promise.
        let path = unsafe { string("path", path) }?;
        let survives = match crash {
            VELOC_CRASH_PROCESS => Survives::Process,
            VELOC_CRASH_PAGE => Survives::Machine,
            VELOC_CRASH_POWER => Survives::Power,
            _ => {
                return Err(Error::invalid(format!(
                    "crash = {crash}; it must be 0 (process), 1 (power) or 2 (page)"
                )))
            }
        };
        if pmem.is_null() {
            return Err(Error::invalid("pmem is NULL"));
        }
        let file = Pmem::open(Path::new(path), bytes as u64, survives)?;
        let why = CString::new(file.domain().why.clone()).unwrap_or_default();
        let iterations = Iterations::new(file);
        let opened = VELOC_Pmem { iterations, why, arrays: Mutex::default() };
        // SAFETY: not NULL; the rest is the caller's promise.
        unsafe { pmem.write(Box::into_raw(Box::new(opened))) };
        Ok(())
    })
}

/// Closes a file of arrays, and unmaps them. What was stored stays in the file.
///
/// @param pmem  the file
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is NULL
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or of VELOC_Pmem_open, and nobody uses it or its arrays any more.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_close(pmem: *mut VELOC_Pmem) -> c_int {
    status("VELOC_Pmem_close", || {
        if pmem.is_null() {
            return Err(Error::invalid("pmem is NULL"));
        }
        // SAFETY: of VELOC_Pmem_open, and closed once, by the caller's promise.
        drop(unsafe { Box::from_raw(pmem) });
        Ok(())
    })
}

/// Tells what a crash leaves of the file, as the library has found out.
///
/// @param pmem    the file
/// @param domain  gets it
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or an open file; `domain` is NULL or has room for a VELOC_Domain.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_domain(
    pmem: *const VELOC_Pmem,
    domain: *mut VELOC_Domain,
) -> c_int {
    status("VELOC_Pmem_domain", || {
        // SAFETY: the caller's promise.
        let pmem = unsafe { opened(pmem) }?;
        let found = pmem.iterations.file().domain();
        let crash = match found.model {
            Model::Process => VELOC_CRASH_PROCESS,
            Model::Power => VELOC_CRASH_POWER,
            Model::Page => VELOC_CRASH_PAGE,
        };
        let granularity = found.granularity as c_int;
        let said = VELOC_Domain { crash, granularity, why: pmem.why.as_ptr() };
        // SAFETY: the caller's promise.
        unsafe { give("domain", domain, said) }
    })
}

/// Finds an array by its name, or adds one, full of zeros.
///
/// An array of several slots keeps that many iterations: iteration i is in slot i modulo `slots`.
/// An array of one slot is overwritten in each iteration. A process that is killed meanwhile leaves
/// a mixture of two iterations in it, which an invariant has to detect.
///
/// @param pmem           the file
/// @param name           1 to 63 bytes
/// @param element_bytes  bytes of an element; 1 or more
/// @param count          elements of a slot; 1 or more
/// @param slots          1 to 64
/// @param array          gets the array, which ends with VELOC_Pmem_close
/// @return VELOC_SUCCESS; VELOC_FAILURE if the array exists with another shape, or there is no room
///         for it
///
/// Source: an addition of this library; algorithm-directed crash consistence, section III-A (the
/// dimension that is added to p, q, r and z).
///
/// # Safety
/// `pmem` is NULL or an open file; `name` is NULL or a string that ends with NUL; `array` is NULL
/// or has room for a pointer.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_array(
    pmem: *mut VELOC_Pmem,
    name: *const c_char,
    element_bytes: usize,
    count: usize,
    slots: c_int,
    array: *mut *mut VELOC_Array,
) -> c_int {
    status("VELOC_Pmem_array", || {
        // SAFETY: the caller's promise.
        unsafe { find(pmem, name, 0, element_bytes, count, slots, array) }
    })
}

/// As VELOC_Pmem_array, and refuses an array with elements of another kind, which may be as many
/// bytes. An array that was added by VELOC_Pmem_array has no kind to compare with.
///
/// @param pmem           the file
/// @param name           1 to 63 bytes
/// @param kind           the kind of the elements, one of NumPy's letters: 'f' numbers with a
///                       fraction, 'c' complex numbers, 'i' and 'u' integers with and without a
///                       sign, 'b' truth values; 0: not said
/// @param element_bytes  bytes of an element; 1 or more
/// @param count          elements of a slot; 1 or more
/// @param slots          1 to 64
/// @param array          gets the array, which ends with VELOC_Pmem_close
/// @return VELOC_SUCCESS; VELOC_FAILURE if the array exists with another shape or kind, or there is
///         no room for it
///
/// Source: an addition of this library.
///
/// # Safety
/// As VELOC_Pmem_array.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_array_of(
    pmem: *mut VELOC_Pmem,
    name: *const c_char,
    kind: c_char,
    element_bytes: usize,
    count: usize,
    slots: c_int,
    array: *mut *mut VELOC_Array,
) -> c_int {
    status("VELOC_Pmem_array_of", || {
        // SAFETY: the caller's promise.
        unsafe { find(pmem, name, kind as u8, element_bytes, count, slots, array) }
    })
}

/// # Safety
/// As VELOC_Pmem_array.
unsafe fn find(
    pmem: *mut VELOC_Pmem,
    name: *const c_char,
    kind: u8,
    element_bytes: usize,
    count: usize,
    slots: c_int,
    array: *mut *mut VELOC_Array,
) -> Result<()> {
    // SAFETY: the caller's promise.
    let (pmem, name) = unsafe { (opened(pmem)?, string("name", name)?) };
    if array.is_null() {
        return Err(Error::invalid("array is NULL"));
    }
    let slots = u64::try_from(slots).map_err(|_| {
        Error::invalid(format!(
            "the array \"{name}\" would have {slots} slots; it needs at least 1"
        ))
    })?;
    let slots =
        pmem.iterations.file().array_of(name, kind, element_bytes as u64, count as u64, slots)?;
    let mut arrays = pmem.arrays.lock();
    let place = arrays.iter().position(|array| array.slots == slots).unwrap_or(arrays.len());
    if place == arrays.len() {
        arrays.push(Box::new(VELOC_Array { slots }));
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    unsafe { array.write(&raw mut *arrays[place]) };
    Ok(())
}

/// The slot that an array has for an iteration.
///
/// @param array      the array
/// @param iteration  0 or more
/// @return its address, a multiple of 4096; NULL if the array is NULL or the iteration negative
///
/// Source: an addition of this library.
///
/// # Safety
/// `array` is NULL or an array of an open file.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_at(array: *const VELOC_Array, iteration: i64) -> *mut c_void {
    // SAFETY: the caller's promise.
    match (unsafe { array.as_ref() }, u64::try_from(iteration)) {
        (Some(array), Ok(iteration)) => array.slots.at(iteration).cast(),
        _ => std::ptr::null_mut(),
    }
}

/// Says that an iteration is done. Once this returns, the iteration's number and scalars survive a
/// crash, and so does everything that was flushed before. Other stored data may be lost: the
/// invariants detect that.
///
/// @param pmem       the file
/// @param iteration  0 or more, after the last one marked or recovered, with fewer iterations
///                   between them than there are slots
/// @param scalars    numbers for the invariants, or NULL
/// @param n          how many; 0 to 5
/// @return VELOC_SUCCESS; VELOC_FAILURE for another iteration, or more scalars (then nothing is
///         marked)
///
/// Source: an addition of this library; algorithm-directed crash consistence, section III-B (the
/// line with the number of the iteration, which alone is flushed).
///
/// # Safety
/// `pmem` is NULL or an open file; `scalars` is NULL or points to `n` numbers.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_mark(
    pmem: *mut VELOC_Pmem,
    iteration: i64,
    scalars: *const f64,
    n: c_int,
) -> c_int {
    status("VELOC_Pmem_mark", || {
        refuse_within_callbacks()?;
        // SAFETY: the caller's promise.
        let pmem = unsafe { opened(pmem) }?;
        let number = u64::try_from(iteration)
            .map_err(|_| Error::invalid(format!("iteration {iteration} is negative")))?;
        let scalars = match usize::try_from(n) {
            Ok(0) => &[],
            Ok(_) if scalars.is_null() => {
                return Err(Error::invalid(format!(
                    "{n} scalars are given, but the pointer to them is NULL"
                )))
            }
            // SAFETY: not NULL; the rest is the caller's promise.
            Ok(n) => unsafe { std::slice::from_raw_parts(scalars, n) },
            Err(_) => {
                return Err(Error::invalid(format!(
                    "the number of scalars is {n}; it must be 0 or more"
                )))
            }
        };
        pmem.iterations.file().mark(number, scalars)
    })
}

/// Has part of an array written back. That part survives a crash once this thread has called
/// VELOC_Pmem_drain or VELOC_Pmem_mark.
///
/// @param pmem     the file
/// @param address  where the part begins, within an array
/// @param bytes    its length
/// @return VELOC_SUCCESS; VELOC_FAILURE if the part is not within the file; for an ordinary file
///         also if the disk fails
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or an open file.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_flush(
    pmem: *mut VELOC_Pmem,
    address: *const c_void,
    bytes: usize,
) -> c_int {
    status("VELOC_Pmem_flush", || {
        // SAFETY: the caller's promise.
        let pmem = unsafe { opened(pmem) }?;
        let start = address as u64;
        let end = start.checked_add(bytes as u64).ok_or_else(|| {
            Error::invalid(format!("{bytes} bytes at {start:#x} would reach past the last address"))
        })?;
        pmem.iterations.file().flush(&(start..end))
    })
}

/// Waits until everything that this thread has flushed survives a crash.
///
/// @param pmem  the file
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is NULL
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or an open file.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_drain(pmem: *mut VELOC_Pmem) -> c_int {
    status("VELOC_Pmem_drain", || {
        // SAFETY: the caller's promise.
        unsafe { opened(pmem) }?.iterations.file().drain();
        Ok(())
    })
}

/// # Safety
/// `pmem` is NULL or an open file.
pub(super) unsafe fn opened<'a>(pmem: *const VELOC_Pmem) -> Result<&'a VELOC_Pmem> {
    // SAFETY: the caller's promise.
    unsafe { pmem.as_ref() }.ok_or_else(|| Error::invalid("pmem is NULL"))
}

/// # Safety
/// `to` is NULL or has room for the value.
pub(super) unsafe fn give<T>(what: &str, to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(Error::invalid(format!("{what} is NULL")));
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}
