//! Protected regions.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::Arc;

use super::boundary::{call_back, status, string, with_client};
use super::constants::{
    VELOC_COMPRESS_12, VELOC_COMPRESS_16, VELOC_COMPRESS_8, VELOC_COMPRESS_LOSSLESS,
    VELOC_COMPRESS_NONE, VELOC_COMPRESS_RELATIVE,
};
use super::{VELOC_Flags, VELOC_CAPTURE_AUTO, VELOC_SUCCESS};
use client::regions::ProtectedMemory;
use client::terms::{Encoding, Terms};
use compression::{Bits, Bound};
use engine::deferred::Release;
use errors::{Error, ErrorKind, Result};
use policy::capture::{Capture, ROWS};

/// Bytes that a guard has for the reason of a failure, the final NUL included.
const REASON_BYTES: usize = 256;

/// Protects a region of memory: it is part of checkpoints from here on, except of names that have
/// regions of their own (`VELOC_Region_protect`).
///
/// Device memory, managed memory and host memory are told apart by the driver; a checkpoint may
/// have regions of every kind. An id that is protected already gets the new region.
///
/// @param id         names the region in checkpoints; any but, in a process that has libveloc-mpi.so,
///                   -2147483647 to -2146435071
/// @param ptr        its first byte, on the host or the device
/// @param count      number of elements
/// @param base_size  bytes of an element
/// @return VELOC_SUCCESS; VELOC_FAILURE if the id is the library's, or if the range is none, NULL with a
///         size, reaches past the end of its device allocation, or belongs to another device or context
///
/// Source: VELOC_Mem_protect of VELOC 1.8 (which returns -1 when an id is protected again).
#[no_mangle]
pub extern "C" fn VELOC_Mem_protect(
    id: c_int,
    ptr: *mut c_void,
    count: usize,
    base_size: usize,
) -> c_int {
    status("VELOC_Mem_protect", || {
        with_client(|client| {
            client.protecting().protect(
                None,
                id,
                ProtectedMemory::new(id, ptr as u64, count, base_size)?,
            )
        })
    })
}

/// A region of memory, for VELOC_Mem_protect_list and VELOC_Restart_list.
///
/// Source: an addition of this library.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VELOC_Region {
    /// Names the region in checkpoints, as for VELOC_Mem_protect.
    pub id: c_int,
    /// Its first byte, on the host or the device.
    pub ptr: *mut c_void,
    /// Number of elements.
    pub count: usize,
    /// Bytes of an element.
    pub base_size: usize,
}

/// Protects all regions of a list, each as VELOC_Mem_protect does, or none of them.
///
/// @param list  the regions, each with an id of its own. It is not needed after the call
/// @param n     their number
/// @return VELOC_SUCCESS; VELOC_FAILURE if the list is NULL and `n` is not 0, two regions have the
///         same id, or VELOC_Mem_protect would refuse one, which the reason names as `list[i]`: then
///         what was protected before is protected as before
///
/// Source: an addition of this library.
///
/// # Safety
/// `list` is NULL or points to `n` regions.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Mem_protect_list(list: *const VELOC_Region, n: usize) -> c_int {
    status("VELOC_Mem_protect_list", || {
        // SAFETY: the caller's promise.
        let list = unsafe { entries(list, n) }?;
        let regions = memories(list)?;
        with_client(|client| client.protecting().protect_list(regions, called))
    })
}

/// What an entry of a list is called.
pub(super) fn called(place: usize) -> String {
    format!("list[{place}]")
}

/// The memory of a list of regions.
pub(super) fn memories(list: &[VELOC_Region]) -> Result<Vec<(i32, ProtectedMemory)>> {
    let memory = |(place, region): (usize, &VELOC_Region)| {
        let &VELOC_Region { id, ptr, count, base_size } = region;
        let memory = ProtectedMemory::new(id, ptr as u64, count, base_size);
        Ok((id, memory.map_err(|error| error.within(called(place)))?))
    };
    list.iter().enumerate().map(memory).collect()
}

/// The entries of a list.
///
/// # Safety
/// `list` is NULL or points to `n` entries.
pub(super) unsafe fn entries<'a, T>(list: *const T, n: usize) -> Result<&'a [T]> {
    if n == 0 {
        return Ok(&[]);
    }
    if list.is_null() || n > isize::MAX as usize / size_of::<T>() {
        return Err(Error::invalid(format!(
            "a list of {n} entries cannot be at {list:p}: the pointer is NULL, or the number too large"
        )));
    }
    // SAFETY: not NULL, and not longer than memory can be; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(list, n) })
}

/// Protects a region of memory as VELOC_Mem_protect does, with flags.
///
/// With VELOC_READ_ONLY the capture is deferred: the application leaves the region as it is until it
/// is released, and may read it meanwhile. The checkpoint call copies nothing; a thread of the
/// library copies the bytes to the host buffer, and then releases the region. Where that is not
/// possible the region is copied and released before the call returns, as without the flag: with
/// `mode = sync`, for a checkpoint that goes straight to a file, and for device memory if the host
/// buffer has no room for it at the moment, or beside device memory without the flag. Without
/// `release`, VELOC_Checkpoint_wait waits for every deferred capture. If the application is killed,
/// bytes that have not reached the host buffer are lost.
///
/// @param id         as VELOC_Mem_protect
/// @param ptr        as VELOC_Mem_protect
/// @param count      as VELOC_Mem_protect
/// @param base_size  as VELOC_Mem_protect
/// @param flags      VELOC_DEFAULT or VELOC_READ_ONLY. Any other number is as good as VELOC_DEFAULT, which is said
///                   once: the capture is not deferred
/// @param release    called once for each checkpoint that the region is captured into, as soon as
///         the library needs it no more, also if the checkpoint is given up or its copy fails. Any
///         thread may call it; what it returns is ignored; NULL: nothing is called. Its calls of the
///         library fail, and it must not end by an exception or `longjmp`
/// @return as VELOC_Mem_protect
///
/// Source: VELOC_Mem_protect of VELOC's GPU prototype, which has it for C++ with six arguments, and
/// never calls `release`.
#[no_mangle]
pub extern "C" fn VELOC_Mem_protect_flags(
    id: c_int,
    ptr: *mut c_void,
    count: usize,
    base_size: usize,
    flags: c_uint,
    release: Option<extern "C" fn() -> c_int>,
) -> c_int {
    protect(
        id,
        ptr,
        (count, base_size),
        flags,
        release.map(|routine| Routine { routine, guard: None }),
    )
}

/// Protects a region of memory as VELOC_Mem_protect_flags does, with a release routine of a language
/// that has exceptions. C++ programs need not call it: `veloc.h` gives them VELOC_Mem_protect with flags
/// and a release routine.
///
/// @param id         as VELOC_Mem_protect
/// @param ptr        as VELOC_Mem_protect
/// @param count      as VELOC_Mem_protect
/// @param base_size  as VELOC_Mem_protect
/// @param flags      as VELOC_Mem_protect_flags
/// @param release    as VELOC_Mem_protect_flags, but that `guard` calls it
/// @param guard      calls `release` and catches what it throws: then it returns another value than
///         VELOC_SUCCESS, and may write why, with a NUL, to the `room` bytes at `reason`. That is a
///         failure in the background, which is reported once, by the next VELOC_Checkpoint_begin, _wait
///         or _finished; the checkpoint is as good as any. NULL: as VELOC_Mem_protect_flags
/// @return as VELOC_Mem_protect_flags
///
/// Source: an addition of this library.
#[no_mangle]
pub extern "C" fn VELOC_Mem_protect_guarded(
    id: c_int,
    ptr: *mut c_void,
    count: usize,
    base_size: usize,
    flags: c_uint,
    release: Option<extern "C" fn() -> c_int>,
    guard: Option<
        extern "C" fn(
            release: Option<extern "C" fn() -> c_int>,
            reason: *mut c_char,
            room: usize,
        ) -> c_int,
    >,
) -> c_int {
    protect(id, ptr, (count, base_size), flags, release.map(|routine| Routine { routine, guard }))
}

fn protect(
    id: c_int,
    ptr: *mut c_void,
    (count, base_size): (usize, usize),
    flags: c_uint,
    release: Option<Routine>,
) -> c_int {
    status("VELOC_Mem_protect", || {
        let terms = Terms {
            read_only: flags == VELOC_Flags::VELOC_READ_ONLY as c_uint,
            capture: None,
            release: release.map(|routine| Arc::new(routine) as Arc<dyn Release>),
            encoding: None,
            may_compress: false,
        };
        let address = ptr as u64;
        with_client(|client| {
            if !terms.read_only && flags != VELOC_Flags::VELOC_DEFAULT as c_uint {
                client.engine().telemetry().degrade(
                    "flags",
                    format_args!(
                        "region {id}: the flags are {flags}, neither VELOC_DEFAULT nor VELOC_READ_ONLY: they count \
                         as VELOC_DEFAULT"
                    ),
                );
            }
            let mut memory = ProtectedMemory::new(id, address, count, base_size)?;
            memory.terms = terms;
            client.protecting().protect(None, id, memory)
        })
    })
}

/// Sets how `VELOC_Checkpoint` takes a region in host memory, in place of the key `host_capture`, until it is
/// unprotected.
///
/// @param id    the region, which is protected
/// @param mode  VELOC_CAPTURE_AUTO (the key's), or another VELOC_CAPTURE_*. With VELOC_CAPTURE_PROTECT the region may
///              also be shared memory, if no other process and no device writes to it; VELOC_CAPTURE_FORK needs a job
///              with veloc-backend, or a key host_capture other than copy, so that the host buffer is shared memory
/// @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region or mode, or the region is VELOC_READ_ONLY, an
///         object, or memory of a device. A mode that the system refuses is no error: the next one is taken, which is said once
///
/// Source: an addition of this library; CRUM, section III.
#[no_mangle]
pub extern "C" fn VELOC_Mem_capture(id: c_int, mode: c_int) -> c_int {
    status("VELOC_Mem_capture", || {
        let way = u8::try_from(mode).ok().and_then(Capture::of_number);
        let way = match (mode, way) {
            (VELOC_CAPTURE_AUTO, _) => None,
            (_, Some(way)) => Some(way),
            (_, None) => {
                let known = ROWS.iter().filter_map(|row| {
                    Some(format!("_{} ({})", row.word.to_uppercase(), row.number?))
                });
                return Err(Error::invalid(format!(
                    "region {id}: the mode is {mode}; it must be VELOC_CAPTURE_AUTO ({VELOC_CAPTURE_AUTO}) or one of \
                     {}",
                    known.collect::<Vec<_>>().join(", ")
                )));
            }
        };
        with_client(|client| client.protecting().set_capture(id, way))
    })
}

/// Has checkpoints take a region of floats or doubles with fewer bits, within a bound on the error or without loss, until it
/// is unprotected.
///
/// Blocks of 64 values have one step and 8, 12 or 16 bits for each value. The largest error of each block is computed as it
/// is made, and a block beyond the bound is kept whole, as are those with infinities and NaN; a region with too many of
/// them is taken whole. So after a restart each value is within the bound of what it was. Other readers of VELOC's files
/// refuse one that has such a region.
///
/// Device memory is compressed on the device, where the call takes memory for it; managed memory is taken as it is.
///
/// @param id     the region, which is protected, with elements of 4 bytes (float) or 8 (double)
/// @param mode   VELOC_COMPRESS_8, VELOC_COMPRESS_12 or VELOC_COMPRESS_16, to which VELOC_COMPRESS_RELATIVE may be added;
///               VELOC_COMPRESS_LOSSLESS: all bits come back, and the region is taken as it is where that saves less than an
///               eighth; VELOC_COMPRESS_NONE: it is taken as it is
/// @param bound  the most by which a value may differ after a restart, above 0; with VELOC_COMPRESS_RELATIVE, as a part of the
///               largest absolute value of the region, at least 2 to the power of minus the bits and below 1;
///               0 with VELOC_COMPRESS_LOSSLESS
/// @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region, mode or bound, the region is an object or of other
///         elements, the job has `incremental = true`, or the driver cannot load what compresses device memory
///
/// Source: an addition of this library; the prototype of HiPC'22 compresses in front of VELOC_Mem_protect (section VI).
#[no_mangle]
pub extern "C" fn VELOC_Mem_compress(id: c_int, mode: c_int, bound: f64) -> c_int {
    status("VELOC_Mem_compress", || {
        let how = compression(id, mode, bound)?;
        let set = with_client(|client| client.protecting().set_compression(None, id, how));
        set.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                error.followed_by("for the state of an adjoint run call VELOC_Adjoint_compress")
            }
            _ => error,
        })
    })
}

/// How a region is to be compressed, from what a call gives.
pub(super) fn compression(id: c_int, mode: c_int, bound: f64) -> Result<Option<Encoding>> {
    Ok(match mode {
        VELOC_COMPRESS_NONE => None,
        VELOC_COMPRESS_LOSSLESS if bound == 0.0 => Some(Encoding::Lossless),
        VELOC_COMPRESS_LOSSLESS => {
            return Err(Error::invalid(format!(
            "region {id}: the error bound is {bound:?}; with VELOC_COMPRESS_LOSSLESS it must be 0"
        )))
        }
        mode => {
            let bits = match mode & !VELOC_COMPRESS_RELATIVE {
                VELOC_COMPRESS_8 => Bits::Eight,
                VELOC_COMPRESS_12 => Bits::Twelve,
                VELOC_COMPRESS_16 => Bits::Sixteen,
                _ => {
                    return Err(Error::invalid(format!(
                        "region {id}: the mode is {mode}; it must be VELOC_COMPRESS_NONE (0), _LOSSLESS \
                         ({VELOC_COMPRESS_LOSSLESS}), _8 (8), _12 (12) or _16 (16); _RELATIVE \
                         ({VELOC_COMPRESS_RELATIVE}) may be added to the last three"
                    )))
                }
            };
            let bound = match mode & VELOC_COMPRESS_RELATIVE {
                0 => Bound::absolute(bound),
                _ => Bound::relative(bound, bits),
            };
            let bound = bound.map_err(|error| error.within(format!("region {id}")))?;
            Some(Encoding::Bounded { bits, bound })
        }
    })
}

/// Permits to compress a region without loss (VELOC_COMPRESS_LOSSLESS) in checkpoints, or takes that back: the fifth
/// argument of VELOC_Mem_protect in C++. It is done where it needs no other promise: not of elements of other sizes than 4 and
/// 8, of VELOC_READ_ONLY regions, of those that host_capture takes otherwise than by a copy, nor with `incremental = true` or
/// `stream_ordered = true`. VELOC_Mem_compress goes before it.
///
/// @param id   the region, which is protected
/// @param may  whether it may be compressed
/// @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region
///
/// Source: an addition of this library, for `should_compress` of later prototypes.
#[no_mangle]
pub extern "C" fn VELOC_Mem_may_compress(id: c_int, may: c_int) -> c_int {
    status("VELOC_Mem_may_compress", || {
        with_client(|client| client.protecting().set_may_compress(id, may != 0))
    })
}

/// Calls a release routine.
type ReleaseGuard = extern "C" fn(Option<extern "C" fn() -> c_int>, *mut c_char, usize) -> c_int;

/// A release routine.
#[derive(Debug)]
struct Routine {
    routine: extern "C" fn() -> c_int,
    guard: Option<ReleaseGuard>,
}

impl Release for Routine {
    fn release(&self) -> Result<()> {
        let Some(guard) = self.guard else {
            call_back(|| (self.routine)());
            return Ok(());
        };
        let mut reason = [0; REASON_BYTES];
        let ended =
            call_back(|| guard(Some(self.routine), reason.as_mut_ptr().cast(), reason.len()));
        if ended == VELOC_SUCCESS {
            return Ok(());
        }
        let reason = CStr::from_bytes_until_nul(&reason).unwrap_or_default().to_string_lossy();
        Err(Error::invalid(format!("its release routine {reason}")))
    }
}

/// Ends the protection of a region. Checkpoints that have it keep it.
///
/// @param id  the region
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is not protected
///
/// Source: VELOC_Mem_unprotect of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Mem_unprotect(id: c_int) -> c_int {
    status("VELOC_Mem_unprotect", || with_client(|client| client.protecting().unprotect(None, id)))
}

/// Ends the protection of all regions but those of `VELOC_Region_protect`.
///
/// @return VELOC_SUCCESS; VELOC_FAILURE outside a job
///
/// Source: VELOC_Mem_clear of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Mem_clear() -> c_int {
    status("VELOC_Mem_clear", || with_client(|client| client.protecting().unprotect_all(None)))
}

/// Protects a region of memory for the checkpoints of one name alone.
///
/// A name that has regions of its own has no others: `VELOC_Mem_protect` then concerns only other
/// names. Ids are counted for each name by itself.
///
/// @param id         names the region in checkpoints of that name
/// @param ptr        its first byte, on the host or the device
/// @param count      number of elements
/// @param base_size  bytes of an element
/// @param name       the name of the checkpoints
/// @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Mem_protect, or if the name is NULL or not allowed
///
/// Source: VELOC_Region_protect of VELOC 1.8 (where later changes of other regions are ignored once
/// a name has had its first checkpoint; here they count).
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Region_protect(
    id: c_int,
    ptr: *mut c_void,
    count: usize,
    base_size: usize,
    name: *const c_char,
) -> c_int {
    status("VELOC_Region_protect", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| {
            client.protecting().protect(
                Some(name),
                id,
                ProtectedMemory::new(id, ptr as u64, count, base_size)?,
            )
        })
    })
}

/// Ends the protection of a region of a name's own. With the last one the name has again those of
/// `VELOC_Mem_protect`.
///
/// @param id    the region
/// @param name  the name of the checkpoints
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is not protected for that name
///
/// Source: VELOC_Region_unprotect of VELOC 1.8.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Region_unprotect(id: c_int, name: *const c_char) -> c_int {
    status("VELOC_Region_unprotect", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| client.protecting().unprotect(Some(name), id))
    })
}

/// Ends the protection of all regions of a name's own.
///
/// @param name  the name of the checkpoints
/// @return VELOC_SUCCESS; VELOC_FAILURE if the name is NULL or not allowed
///
/// Source: VELOC_Region_clear of VELOC 1.8.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Region_clear(name: *const c_char) -> c_int {
    status("VELOC_Region_clear", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| client.protecting().unprotect_all(Some(name)))
    })
}
