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
use format::subarray::{Subarray, DIMENSIONS};
use policy::capture::{Capture, ROWS};

/// Bytes that a guard has for the reason of a failure, the final NUL included.
const REASON_BYTES: usize = 256;

/// Protects a region of memory: from now on each checkpoint has it, except those of names with
/// regions of their own (`VELOC_Region_protect`).
///
/// The driver tells device memory, managed memory and host memory apart; a checkpoint may have
/// regions of every kind. If the id is protected already, the new region replaces the old one.
///
/// @param id         names the region in checkpoints; any number. In a process that has
///                   libveloc-mpi.so, -2147483647 to -2146435071 are the library's
/// @param ptr        its first byte, on the host or the device
/// @param count      number of elements
/// @param base_size  bytes of an element
/// @return VELOC_SUCCESS; VELOC_FAILURE if the id is the library's, `ptr` is NULL and the size is
///         not 0, or the range wraps around the end of memory, reaches past the end of its device
///         allocation, or belongs to another device or context
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
/// @param list  the regions, each with an id of its own. The list is not used after the call
/// @param n     their number
/// @return VELOC_SUCCESS; VELOC_FAILURE if the list is NULL and `n` is not 0, two regions have the
///         same id, or VELOC_Mem_protect would refuse one (the reason names it as `list[i]`). Then
///         nothing changes
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
/// With VELOC_READ_ONLY the capture is deferred: the application may read the region, but must not
/// change it until it is released. The checkpoint call copies nothing; a thread of the library
/// copies the bytes to the host buffer, and then releases the region. In these cases the call
/// itself copies and releases the region, as without the flag: with `mode = sync`; for a checkpoint
/// that goes straight to a file; for device memory if the host buffer has no room for it at the
/// moment; and for device memory beside device memory without the flag. A program without `release`
/// calls VELOC_Checkpoint_wait, which waits for every deferred capture. If the application is
/// killed, bytes that have not reached the host buffer are lost.
///
/// @param id         as VELOC_Mem_protect
/// @param ptr        as VELOC_Mem_protect
/// @param count      as VELOC_Mem_protect
/// @param base_size  as VELOC_Mem_protect
/// @param flags      VELOC_DEFAULT or VELOC_READ_ONLY. Any other number counts as VELOC_DEFAULT; a
///                   warning says so once
/// @param release    called once for each checkpoint that the region is captured into, as soon as
///         the library no longer needs the region, also if the checkpoint is given up or its copy
///         fails. NULL: nothing is called. Any thread may call it. Its return value is ignored. If
///         it calls the library, that call fails. It must not end by an exception or `longjmp`
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

/// Protects a region of memory as VELOC_Mem_protect_flags does, with a release routine of a
/// language that has exceptions. C++ programs need not call it: `veloc.h` gives them
/// VELOC_Mem_protect with flags and a release routine.
///
/// @param id         as VELOC_Mem_protect
/// @param ptr        as VELOC_Mem_protect
/// @param count      as VELOC_Mem_protect
/// @param base_size  as VELOC_Mem_protect
/// @param flags      as VELOC_Mem_protect_flags
/// @param release    as VELOC_Mem_protect_flags, but `guard` calls it
/// @param guard      calls `release` and catches what it throws. It then returns another value than
///         VELOC_SUCCESS, and may write the reason, with a NUL at its end, to the `room` bytes at
///         `reason`. The next VELOC_Checkpoint_begin, _wait or _finished reports this failure once;
///         the checkpoint is valid all the same. NULL: as VELOC_Mem_protect_flags
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
            release: release.map(|routine| Arc::new(routine) as Arc<dyn Release>),
            ..Terms::default()
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

/// Sets how `VELOC_Checkpoint` takes a region in host memory, in place of the key `host_capture`.
/// The setting ends with the region's protection.
///
/// @param id    the region, which is protected
/// @param mode  VELOC_CAPTURE_AUTO (as the key says), or another VELOC_CAPTURE_*. With
///              VELOC_CAPTURE_PROTECT the region may also be shared memory, if no other process and
///              no device writes to it. VELOC_CAPTURE_FORK needs a host buffer in shared memory: a
///              job has one with veloc-backend, or with a key host_capture other than copy
/// @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region or mode, or the region is
///         VELOC_READ_ONLY, an object, or memory of a device. If the system refuses a mode, the
///         call does not fail: the library takes the next mode, and says so once
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

/// Has checkpoints compress a region of floats or doubles, within a bound on the error or without
/// loss. The setting ends with the region's protection.
///
/// With a bound, each block of 64 values has one step, and each value 8, 12 or 16 bits. The library
/// computes the largest error of each block. It keeps a block whole if the error exceeds the bound,
/// or if there are infinities or NaN in it. It does not compress a region with too many such
/// blocks. So after a restart each value is within the bound of what it was. Other readers of
/// VELOC's files refuse a file with a compressed region.
///
/// Device memory is compressed on the device; this call allocates device memory for that. Managed
/// memory is not compressed.
///
/// @param id     the region, which is protected, with elements of 4 bytes (float) or 8 (double)
/// @param mode   VELOC_COMPRESS_8, VELOC_COMPRESS_12 or VELOC_COMPRESS_16, to which
///               VELOC_COMPRESS_RELATIVE may be added; VELOC_COMPRESS_LOSSLESS: all bits come back,
///               and a region of which this saves less than an eighth is not compressed;
///               VELOC_COMPRESS_NONE: the region is not compressed
/// @param bound  the most by which a value may differ after a restart, above 0. With
///               VELOC_COMPRESS_RELATIVE it is a fraction of the largest absolute value of the
///               region: at least 2 to the power of minus the bits, and below 1. With
///               VELOC_COMPRESS_LOSSLESS it is 0
/// @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region, mode or bound, the region is an
///         object or has other elements, the job has `incremental = true`, or the driver cannot
///         load the kernels that compress device memory
///
/// Source: an addition of this library; the prototype of HiPC'22 compresses in front of
/// VELOC_Mem_protect (section VI).
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

/// Permits checkpoints to compress a region without loss (VELOC_COMPRESS_LOSSLESS), or withdraws
/// that. In C++ it is the fifth argument of VELOC_Mem_protect. The permission is not used for
/// elements of other sizes than 4 and 8 bytes, for VELOC_READ_ONLY regions, for regions that
/// host_capture takes otherwise than by a copy, or with `incremental = true` or `stream_ordered =
/// true`. VELOC_Mem_compress takes precedence over it.
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

/// Says which part of an array a region is, so that another number of processes can restore it.
///
/// Each process of a job protects a block of an array: a range of indices in each of one to three
/// dimensions, in C's order (the last index changes fastest), without halo. The blocks of all
/// processes make up the array. Checkpoints remember how it was cut. A job of any number of
/// processes then finds such a version in persistent (VELOC_Restart_test), and VELOC_Restart gives
/// each process the block that it says it has. Regions of which nothing is said have to be alike
/// on all processes. The block stays with a region that is protected again with the same size, and
/// ends with its protection.
///
/// A checkpoint with such a region has one more, -2147483648 + 1048578 (-2146435070).
///
/// @param id            the region, which is protected, with as many bytes as the block
/// @param dimensions    1 to 3; 0: the region is no part of an array any more
/// @param global_sizes  elements of the array in each dimension
/// @param offsets       elements before the block in each dimension
/// @param sizes         elements of the block in each dimension; they may be 0
/// @param element_size  bytes of an element
/// @return VELOC_SUCCESS; VELOC_FAILURE if there is no such region, it is an object or has another
///         size, a pointer is NULL, the block does not lie in the array, or a checkpoint is open
///         that has regions already
///
/// Source: an addition of this library.
///
/// # Safety
/// `global_sizes`, `offsets` and `sizes` are NULL or point to `dimensions` numbers each.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Mem_decompose(
    id: c_int,
    dimensions: c_int,
    global_sizes: *const usize,
    offsets: *const usize,
    sizes: *const usize,
    element_size: usize,
) -> c_int {
    status("VELOC_Mem_decompose", || {
        let about = |error: Error| error.within(format!("region {id}"));
        let part = match usize::try_from(dimensions) {
            Ok(0) => None,
            Ok(n @ 1..=DIMENSIONS) => {
                // SAFETY: the caller's promise.
                let lists =
                    unsafe { (entries(global_sizes, n), entries(offsets, n), entries(sizes, n)) };
                let numbers = |list: Result<&[usize]>| -> Result<Vec<u64>> {
                    Ok(list.map_err(about)?.iter().map(|number| *number as u64).collect())
                };
                let (global, offsets) = (numbers(lists.0)?, numbers(lists.1)?);
                let sizes = numbers(lists.2)?;
                let part = Subarray::new(&global, &offsets, &sizes, element_size as u64);
                Some(part.map_err(about)?)
            }
            _ => {
                return Err(about(Error::invalid(format!(
                    "an array has 1 to {DIMENSIONS} dimensions, not {dimensions}"
                ))))
            }
        };
        let set = with_client(|client| client.protecting().set_subarray(id, part));
        set.map_err(|error| match error.kind() {
            ErrorKind::NotFound => error.followed_by(
                "call VELOC_Mem_protect first (regions of one name, VELOC_Region_protect, cannot be decomposed)",
            ),
            _ => error,
        })
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

/// Ends the protection of a region. Earlier checkpoints keep the region.
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
/// A name with regions of its own has no others: checkpoints of that name do not have the regions
/// of `VELOC_Mem_protect`. Each name has ids of its own.
///
/// @param id         names the region in checkpoints of that name
/// @param ptr        its first byte, on the host or the device
/// @param count      number of elements
/// @param base_size  bytes of an element
/// @param name       the name of the checkpoints
/// @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Mem_protect, or if the name is NULL or not allowed
///
/// Source: VELOC_Region_protect of VELOC 1.8 (which ignores later changes of other regions once a
/// name has had its first checkpoint; here they count).
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

/// Ends the protection of one of a name's own regions. After the last one the name has the regions
/// of `VELOC_Mem_protect` again.
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

/// Compresses one of a name's own regions, as VELOC_Mem_compress does. The setting ends with the region's protection.
///
/// @param id     the region, which is protected for that name
/// @param mode   as VELOC_Mem_compress
/// @param bound  as VELOC_Mem_compress
/// @param name   the name of the checkpoints
/// @return as VELOC_Mem_compress; VELOC_FAILURE also if the name is NULL or not allowed
///
/// Source: an addition of this library.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Region_compress(
    id: c_int,
    mode: c_int,
    bound: f64,
    name: *const c_char,
) -> c_int {
    status("VELOC_Region_compress", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        let how = compression(id, mode, bound)?;
        with_client(|client| client.protecting().set_compression(Some(name), id, how))
    })
}

/// Ends the protection of all of a name's own regions.
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
