//! Arrays in persistent memory, and the search for the newest iteration in which what must hold between them does.

use std::ffi::{c_char, c_int, c_void, CString};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::boundary::{call_back, refuse_within_callbacks, status, string, with_client};
use super::job::start_logging;
use super::{
    VELOC_CRASH_PAGE, VELOC_CRASH_POWER, VELOC_CRASH_PROCESS, VELOC_INVARIANT_FAILS,
    VELOC_INVARIANT_HOLDS, VELOC_INVARIANT_UNKNOWN,
};
use errors::{Error, Kind, Result};
use os::persistent::{Model, Survives};
use os::sync::Mutex;
use pmem::file::{Pmem, Slots};
use pmem::search::{Answer, Mark, Tried};

/// An open file of arrays. Opaque. Any thread may call with it; each drains what it has flushed itself.
#[derive(Debug)]
#[allow(non_camel_case_types)] // C's name.
pub struct VELOC_Pmem {
    file: Pmem,
    /// Why the file is no more than it is, for C.
    why: CString,
    /// Boxed: a program has their addresses.
    #[allow(clippy::vec_box)]
    arrays: Mutex<Vec<Box<VELOC_Array>>>,
    invariants: Mutex<Vec<Invariant>>,
    report: Mutex<Vec<(Tried, CString)>>,
    /// Whether it was said that nothing tells a mixture.
    has_warned: AtomicBool,
}

/// An array of such a file. Opaque; it ends with VELOC_Pmem_close.
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
    /// Bytes that reach the file together: 1 where nothing has to be flushed, a line of the cache, or a page.
    pub granularity: c_int,
    /// Why it is no more than that; valid until VELOC_Pmem_close.
    pub why: *const c_char,
}

/// An iteration that VELOC_Pmem_recover has tried.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)] // C's name.
pub struct VELOC_Tried {
    /// The iteration.
    pub iteration: i64,
    /// One of VELOC_INVARIANT_*.
    pub answer: c_int,
    /// The invariant that has not held, or "" if all have; valid until the next search.
    pub invariant: *const c_char,
}

/// Tells whether an iteration is consistent: it gets the iteration, its scalars, and the context given to
/// VELOC_Pmem_invariant. VELOC_Pmem_at has the slots.
type Function = unsafe extern "C" fn(
    iteration: i64,
    scalars: *const f64,
    n: c_int,
    context: *mut c_void,
) -> c_int;

#[derive(Clone, Debug)]
struct Invariant {
    name: Arc<str>,
    function: Function,
    context: *mut c_void,
}

// SAFETY: the pointer is the application's, which says which threads call it: those that search.
unsafe impl Send for Invariant {}

/// Opens a file of arrays, or makes one. One process has it open at a time; a process that has died has it no longer.
///
/// @param path   the file. A new one appears whole, and has all its room on the disk
/// @param bytes  room for slots of arrays, each of which takes a multiple of 4096
/// @param crash  the crash that the arrays are to survive. VELOC_CRASH_PROCESS: that of the process; any file.
///               VELOC_CRASH_PAGE: that of the machine; with persistent memory as VELOC_CRASH_POWER, else each flush
///               writes pages to a disk. VELOC_CRASH_POWER: that of the machine; persistent memory alone
/// @param pmem   gets the file, for VELOC_Pmem_close
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is open elsewhere, is no such file, a damaged one, of another version,
///         order of bytes or size; lies where nothing survives such a crash; cannot be written; or the disk has no room
///
/// Source: an addition of this library, after Yang et al., "Algorithm-directed crash consistence in non-volatile memory
/// for HPC".
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
                    "crash = {crash}: 0 (process), 1 (power) and 2 (page) exist"
                )))
            }
        };
        if pmem.is_null() {
            return Err(Error::invalid("pmem is NULL"));
        }
        let file = Pmem::open(Path::new(path), bytes as u64, survives)?;
        let why = CString::new(file.domain().why.clone()).unwrap_or_default();
        let opened = VELOC_Pmem {
            file,
            why,
            arrays: Mutex::default(),
            invariants: Mutex::default(),
            report: Mutex::default(),
            has_warned: AtomicBool::new(false),
        };
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

/// What a crash leaves of the file, as it was found out.
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
        let found = pmem.file.domain();
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
/// An array of several slots keeps that many iterations: iteration i is in slot i modulo `slots`. One of one slot is written
/// over in each iteration, and a process that is killed meanwhile leaves a mixture of two: then an invariant has to tell.
///
/// @param pmem           the file
/// @param name           1 to 63 bytes
/// @param element_bytes  bytes of an element; 1 or more
/// @param count          elements of a slot; 1 or more
/// @param slots          1 to 64
/// @param array          gets the array, which ends with VELOC_Pmem_close
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is there with another shape, or there is no room for it
///
/// Source: an addition of this library; algorithm-directed crash consistence, section III-A (the dimension that is added
/// to p, q, r and z).
///
/// # Safety
/// `pmem` is NULL or an open file; `name` is NULL or a string that ends with NUL; `array` is NULL or has room for a
/// pointer.
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

/// The same, and refuses an array with elements of another kind: 8 bytes may be a number of either. Nothing is compared with
/// an array that was added by VELOC_Pmem_array.
///
/// @param pmem           the file
/// @param name           1 to 63 bytes
/// @param kind           of the elements, a letter as NumPy has them: 'f' numbers with a fraction, 'c' complex numbers, 'i' and
///                       'u' integers with and without a sign, 'b' truth values; 0: not said
/// @param element_bytes  bytes of an element; 1 or more
/// @param count          elements of a slot; 1 or more
/// @param slots          1 to 64
/// @param array          gets the array, which ends with VELOC_Pmem_close
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is there with another shape or kind, or there is no room for it
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
    let slots = u64::try_from(slots)
        .map_err(|_| Error::invalid(format!("the array \"{name}\" would have {slots} slots")))?;
    let slots = pmem.file.array_of(name, kind, element_bytes as u64, count as u64, slots)?;
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

/// Says that an iteration is done. Once this returns, a crash leaves its number and scalars, and what was flushed before.
/// Everything else that was stored is there or not: the invariants tell.
///
/// @param pmem       the file
/// @param iteration  0 or more, after the last one marked or recovered, with no more between than there are slots
/// @param scalars    numbers for the invariants, or NULL
/// @param n          how many; 0 to 5
/// @return VELOC_SUCCESS; VELOC_FAILURE for another iteration, or more scalars (then nothing is marked)
///
/// Source: an addition of this library; algorithm-directed crash consistence, section III-B (the line with the number of
/// the iteration, which alone is flushed).
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
                return Err(Error::invalid(format!("{n} scalars at a NULL pointer")))
            }
            // SAFETY: not NULL; the rest is the caller's promise.
            Ok(n) => unsafe { std::slice::from_raw_parts(scalars, n) },
            Err(_) => return Err(Error::invalid(format!("the number of scalars is {n}"))),
        };
        pmem.file.mark(number, scalars)
    })
}

/// Has part of an array written back. It is where the crash leaves it once this thread has called VELOC_Pmem_drain or
/// VELOC_Pmem_mark.
///
/// @param pmem     the file
/// @param address  where it begins, within an array
/// @param bytes    its length
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is not within the file; for an ordinary file also if the disk fails
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
        let end = start
            .checked_add(bytes as u64)
            .ok_or_else(|| Error::invalid(format!("{bytes} bytes at {start:#x} are no memory")))?;
        pmem.file.flush(&(start..end))
    })
}

/// Waits until what this thread has flushed is where a crash leaves it.
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
        unsafe { opened(pmem) }?.file.drain();
        Ok(())
    })
}

/// Says what must hold between the data of an iteration. VELOC_Pmem_recover asks in the order in which they were said.
///
/// @param pmem      the file
/// @param name      names it in reports; one of another name is added, one of the same replaced
/// @param function  gets an iteration and its scalars, and answers VELOC_INVARIANT_HOLDS, _FAILS or _UNKNOWN. It has
///                  its own tolerance, and calls of this library only VELOC_Pmem_at and the sums
/// @param context   what it gets
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument but the context is NULL
///
/// Source: an addition of this library; algorithm-directed crash consistence, section II-C.
///
/// # Safety
/// `pmem` is NULL or an open file, `name` is NULL or a string that ends with NUL; the function can be called as long as
/// the file is open.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_invariant(
    pmem: *mut VELOC_Pmem,
    name: *const c_char,
    function: Option<
        unsafe extern "C" fn(
            iteration: i64,
            scalars: *const f64,
            n: c_int,
            context: *mut c_void,
        ) -> c_int,
    >,
    context: *mut c_void,
) -> c_int {
    status("VELOC_Pmem_invariant", || {
        // SAFETY: the caller's promise.
        let (pmem, name) = unsafe { (opened(pmem)?, string("name", name)?) };
        if name.is_empty() {
            return Err(Error::invalid("the invariant has a name of 0 bytes"));
        }
        let function = function.ok_or_else(|| {
            Error::invalid(format!("the invariant \"{name}\" has no function: it is NULL"))
        })?;
        let invariant = Invariant { name: name.into(), function, context };
        let mut invariants = pmem.invariants.lock();
        match invariants.iter_mut().find(|other| &*other.name == name) {
            Some(other) => *other = invariant,
            None => invariants.push(invariant),
        }
        Ok(())
    })
}

/// Finds the newest marked iteration in which all invariants hold. Iterations go on behind it: newer marks are gone.
///
/// As many iterations are tried as the array with the fewest has slots, the newest first. Arrays of one slot do not count:
/// they have no iterations, and the invariants decide. Where no array has more slots and there is no invariant, a warning
/// says that nothing tells whether the iteration is whole.
///
/// @param pmem       the file
/// @param iteration  gets it; -1: nothing was marked yet
/// @return VELOC_SUCCESS; VELOC_FAILURE if none is consistent, or an invariant answered something else; VELOC_Pmem_report
///         and VELOC_Last_error tell. Then nothing is changed: VELOC_Pmem_forget begins anew
///
/// Source: an addition of this library; algorithm-directed crash consistence, section III-A.
///
/// # Safety
/// `pmem` is NULL or an open file; `iteration` is NULL or has room for a number.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_recover(pmem: *mut VELOC_Pmem, iteration: *mut i64) -> c_int {
    status("VELOC_Pmem_recover", || {
        refuse_within_callbacks()?;
        // SAFETY: the caller's promise.
        let pmem = unsafe { opened(pmem) }?;
        if iteration.is_null() {
            return Err(Error::invalid("iteration is NULL"));
        }
        pmem.report.lock().clear();
        let found = pmem.newest(i64::MAX)?;
        if found.is_none() {
            pmem.is_new()?;
        }
        pmem.go_on_behind(found)?;
        // SAFETY: the caller's promise.
        unsafe { give("iteration", iteration, found.unwrap_or(-1)) }
    })
}

/// The scalars of the iteration that VELOC_Pmem_recover or VELOC_Pmem_restart has found, or that was marked since: what goes
/// on behind it begins with the numbers that it had. Before a search they are those of the newest mark, consistent or not.
///
/// @param pmem     the file
/// @param scalars  gets them; NULL for their number alone
/// @param room     how many it has room for; 5 are enough
/// @return how many its mark has; 0 also if there is no such iteration, or a checkpoint has it; VELOC_FAILURE if the file is
///         NULL
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or an open file; `scalars` is NULL or has so much room.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_scalars(
    pmem: *const VELOC_Pmem,
    scalars: *mut f64,
    room: c_int,
) -> c_int {
    let mut number = 0;
    let done = status("VELOC_Pmem_scalars", || {
        // SAFETY: the caller's promise.
        let found = unsafe { opened(pmem) }?.file.scalars();
        let room = if scalars.is_null() { 0 } else { usize::try_from(room).unwrap_or(0) };
        for (nth, scalar) in found.iter().enumerate().take(room) {
            // SAFETY: within the room, by the caller's promise.
            unsafe { scalars.add(nth).write(*scalar) };
        }
        number = found.len() as c_int;
        Ok(())
    });
    if done == super::VELOC_SUCCESS {
        number
    } else {
        done
    }
}

/// What the last search has tried, the newest iteration first.
///
/// @param pmem   the file
/// @param tried  gets them; NULL for their number alone
/// @param room   how many it has room for
/// @return how many were tried; VELOC_FAILURE if the file is NULL
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or an open file; `tried` is NULL or has so much room.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_report(
    pmem: *const VELOC_Pmem,
    tried: *mut VELOC_Tried,
    room: c_int,
) -> c_int {
    let mut number = 0;
    let done = status("VELOC_Pmem_report", || {
        // SAFETY: the caller's promise.
        let report = unsafe { opened(pmem) }?.report.lock();
        let room = if tried.is_null() { 0 } else { usize::try_from(room).unwrap_or(0) };
        for (nth, (one, name)) in report.iter().enumerate().take(room) {
            let said = VELOC_Tried {
                iteration: one.iteration as i64,
                answer: match one.against {
                    None => VELOC_INVARIANT_HOLDS,
                    Some((_, Answer::Unknown)) => VELOC_INVARIANT_UNKNOWN,
                    Some(_) => VELOC_INVARIANT_FAILS,
                },
                invariant: name.as_ptr(),
            };
            // SAFETY: within the room, by the caller's promise.
            unsafe { tried.add(nth).write(said) };
        }
        number = report.len() as c_int;
        Ok(())
    });
    if done == super::VELOC_SUCCESS {
        number
    } else {
        done
    }
}

/// Forgets all marks, so that iterations begin anew. The arrays keep their content.
///
/// @param pmem  the file
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is NULL
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or an open file.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_forget(pmem: *mut VELOC_Pmem) -> c_int {
    status("VELOC_Pmem_forget", || {
        refuse_within_callbacks()?;
        // SAFETY: the caller's promise.
        unsafe { opened(pmem) }?.file.go_back(None)
    })
}

/// Finds what is newer: the newest consistent iteration, or the newest checkpoint of a name, whose versions are numbers of
/// iterations. Needs a job. Collective under MPI: what all processes have.
///
/// @param pmem       the file
/// @param name       the name of the checkpoints
/// @param iteration  gets the iteration to go on behind; -1: nothing was marked yet, and there is no checkpoint
/// @param version    gets -1 if the arrays have it, as after VELOC_Pmem_recover; else the checkpoint to restore, by
///                   VELOC_Restart: then all marks are forgotten, and the arrays are the application's to fill
/// @return VELOC_SUCCESS; VELOC_FAILURE if the search failed, or no iteration is consistent and there is no checkpoint, here
///         or, under MPI, on another process; then nothing is changed
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or an open file; `name` is NULL or a string that ends with NUL; `iteration` and `version` are NULL or
/// have room for a number.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_restart(
    pmem: *mut VELOC_Pmem,
    name: *const c_char,
    iteration: *mut i64,
    version: *mut c_int,
) -> c_int {
    status("VELOC_Pmem_restart", || {
        // A process that cannot search takes part all the same: the others wait for it.
        // SAFETY: the caller's promise.
        let (mine, name) = unsafe { (opened(pmem), string("name", name)) };
        let wrong = iteration.is_null() || version.is_null();
        let able = match wrong {
            true => Err(Error::invalid("iteration or version is NULL")),
            false => mine.clone().and(name.clone().map(drop)),
        };
        if let Ok(pmem) = &mine {
            pmem.report.lock().clear();
        }
        let (found, checkpoint) = with_client(|client| {
            let newest = |bound| mine.clone().and_then(|pmem| pmem.newest(bound));
            let neither = || mine.clone().and_then(VELOC_Pmem::is_new);
            client.newest_of_arrays(name.unwrap_or_default(), able, newest, neither)
        })?;
        let pmem = mine?;
        let (newest, restored) = match checkpoint {
            Some(checkpoint) if found.is_none_or(|found| found < i64::from(checkpoint)) => {
                (i64::from(checkpoint), checkpoint)
            }
            _ => (found.unwrap_or(-1), -1),
        };
        let kept = found.filter(|_| restored == -1);
        pmem.go_on_behind(kept)?;
        // SAFETY: not NULL; the rest is the caller's promise.
        unsafe {
            iteration.write(newest);
            version.write(restored);
        }
        Ok(())
    })
}

impl VELOC_Pmem {
    /// The newest consistent iteration that is not after `bound`. Notes what was tried.
    fn newest(&self, bound: i64) -> Result<Option<i64>> {
        let invariants = self.invariants.lock().clone();
        let mut odd = None;
        let tried = self.file.search(bound, invariants.len(), |mark, nth| {
            let invariant = &invariants[nth];
            let answer = invariant.ask(mark);
            match answer {
                VELOC_INVARIANT_HOLDS => Answer::Holds,
                VELOC_INVARIANT_FAILS => Answer::Fails,
                VELOC_INVARIANT_UNKNOWN => Answer::Unknown,
                _ => {
                    odd.get_or_insert((invariant.name.clone(), mark.iteration, answer));
                    Answer::Unknown
                }
            }
        });
        let found = tried.last().filter(|tried| tried.against.is_none());
        let found = found.map(|tried| tried.iteration as i64);
        let name = |tried: &Tried| {
            let name = tried.against.map_or("", |(nth, _)| &invariants[nth].name);
            CString::new(name).unwrap_or_default()
        };
        let said = tried.into_iter().map(|tried| (tried.clone(), name(&tried)));
        self.report.lock().extend(said);
        match odd {
            Some((name, iteration, answer)) => Err(Error::invalid(format!(
                "the invariant \"{name}\" answered {answer} for iteration {iteration}: 1 (holds), 0 (fails) and -1 \
                 (unknown) exist"
            ))),
            None => Ok(found),
        }
    }

    /// Iterations go on behind this one. Warns, once, if nothing tells whether it is whole.
    fn go_on_behind(&self, found: Option<i64>) -> Result<()> {
        self.file.go_back(found.and_then(|found| u64::try_from(found).ok()))?;
        let Some(iteration) = found.filter(|_| self.file.slots() == 1) else { return Ok(()) };
        let names = self.file.names();
        let is_judged = !self.invariants.lock().is_empty();
        if names.is_empty() || is_judged || self.has_warned.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        log::warn!(
            "{}: nothing tells whether iteration {iteration} is whole, as no array has a second slot and there is no \
             invariant: a process that is killed while it writes to \"{}\" leaves a mixture of two iterations there",
            self.file.path().display(),
            names.join("\", \"")
        );
        Ok(())
    }

    /// Whether nothing was marked yet, after a search that has found nothing.
    fn is_new(&self) -> Result<()> {
        let consistent = |(tried, _): &(Tried, CString)| tried.against.is_none();
        let report = self.report.lock();
        // What is consistent here alone is nothing that all processes have.
        if report.is_empty() || report.iter().any(consistent) {
            return Ok(());
        }
        drop(report);
        Err(self.nothing_consistent())
    }

    fn nothing_consistent(&self) -> Error {
        let report = self.report.lock();
        let tried: Vec<String> = report
            .iter()
            .map(|(tried, name)| {
                let name = name.to_string_lossy();
                let verb = match tried.against {
                    Some((_, Answer::Unknown)) => "cannot tell",
                    _ => "fails",
                };
                format!("{}: \"{name}\" {verb}", tried.iteration)
            })
            .collect();
        let path = self.file.path().display();
        let text = format!("{path}: no marked iteration is consistent; tried {}", tried.join(", "));
        Error::new(Kind::NotFound, text)
    }
}

impl Invariant {
    fn ask(&self, mark: &Mark) -> c_int {
        let Mark { iteration, scalars } = mark;
        call_back(|| {
            // SAFETY: the application's promise of VELOC_Pmem_invariant; the scalars are there for the call.
            unsafe {
                (self.function)(
                    *iteration as i64,
                    scalars.as_ptr(),
                    scalars.len() as c_int,
                    self.context,
                )
            }
        })
    }
}

/// # Safety
/// `pmem` is NULL or an open file.
unsafe fn opened<'a>(pmem: *const VELOC_Pmem) -> Result<&'a VELOC_Pmem> {
    // SAFETY: the caller's promise.
    unsafe { pmem.as_ref() }.ok_or_else(|| Error::invalid("pmem is NULL"))
}

/// # Safety
/// `to` is NULL or has room for the value.
unsafe fn give<T>(what: &str, to: *mut T, value: T) -> Result<()> {
    if to.is_null() {
        return Err(Error::invalid(format!("{what} is NULL")));
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}
