//! Fat binaries: what nvcc puts into a program, code for several devices in one piece.
//!
//! A header, then entries, each a header of its own and a payload. Both headers say how long they are,
//! so that newer compilers can add to them. All numbers are little-endian.

use std::ffi::{c_int, c_void, CString};

use crate::answer::RuntimeError;

/// The magic number of the structure that a program registers.
const WRAPPER_MAGIC: c_int = 0x4662_43b1;
/// The version in which `data` is one fat binary. In the other one it is a list of them, of a program whose
/// device code was linked.
const WRAPPER_VERSION: c_int = 1;
/// The magic number of a fat binary.
const MAGIC: u32 = 0xba55_ed50;
/// The length of its header, as far as this library reads it.
const HEADER: usize = 16;
/// The length of an entry's header, as far as this library reads it.
const ENTRY: usize = 48;
/// The kind of an entry that is PTX.
const PTX: u16 = 1;
/// The flags of an entry whose payload is compressed, in two ways.
const COMPRESSED: u64 = 0x2000 | 0x8000;

/// The structure that a program registers (`__fatBinC_Wrapper_t`).
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Wrapper {
    magic: c_int,
    version: c_int,
    data: *const u8,
    other: *const c_void,
}

/// Why a fat binary gives no kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It is not a fat binary.
    Foreign,
    /// It was linked by NVIDIA's linker for device code.
    Linked,
    /// It ends too early.
    Truncated,
    /// Its PTX is compressed.
    Compressed,
    /// It has no PTX.
    NoPtx,
}

impl Unusable {
    /// What to do about it.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Unusable::Foreign => "they are in no fat binary of a kind that is known here",
            Unusable::Linked => {
                "device code that was linked is not supported: compile without -rdc"
            }
            Unusable::Truncated => "their fat binary ends too early",
            Unusable::Compressed => "their PTX is compressed: compile with nvcc --no-compress",
            Unusable::NoPtx => {
                "there is no PTX: compile with nvcc -gencode ...,code=compute_NN, too"
            }
        }
    }
}

impl From<Unusable> for RuntimeError {
    fn from(unusable: Unusable) -> RuntimeError {
        match unusable {
            Unusable::NoPtx => RuntimeError::NO_KERNEL_IMAGE,
            _ => RuntimeError::INVALID_KERNEL_IMAGE,
        }
    }
}

/// The PTX of what a program registers.
///
/// # Safety
/// `wrapper` is null, or points to such a structure, whose `data` is as long as it says.
pub(crate) unsafe fn registered(wrapper: *const Wrapper) -> Result<CString, Unusable> {
    // SAFETY: the caller's promise.
    let wrapper = unsafe { wrapper.as_ref() }.ok_or(Unusable::Foreign)?;
    match (wrapper.magic, wrapper.version) {
        (WRAPPER_MAGIC, WRAPPER_VERSION) if !wrapper.data.is_null() => {}
        (WRAPPER_MAGIC, _) => return Err(Unusable::Linked),
        _ => return Err(Unusable::Foreign),
    }
    // SAFETY: the caller's promise: there is a header, and as much behind it as that says.
    let all = unsafe {
        let header = std::slice::from_raw_parts(wrapper.data, HEADER);
        std::slice::from_raw_parts(wrapper.data, length(header)?)
    };
    let text = ptx(all)?;
    // It may be padded.
    let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
    CString::new(text).map_err(|_| Unusable::Foreign)
}

/// The length of a fat binary, by its header.
fn length(bytes: &[u8]) -> Result<usize, Unusable> {
    if number::<4>(bytes, 0)? != u64::from(MAGIC) {
        return Err(Unusable::Foreign);
    }
    let (header, entries) = (number::<2>(bytes, 6)?, number::<8>(bytes, 8)?);
    // No memory is longer than `isize::MAX`.
    let all = header.checked_add(entries).and_then(|all| isize::try_from(all).ok());
    all.and_then(|all| usize::try_from(all).ok()).ok_or(Unusable::Truncated)
}

/// The PTX in a fat binary: that for the oldest architecture, which all devices take.
fn ptx(bytes: &[u8]) -> Result<&[u8], Unusable> {
    let bytes = bytes.get(..length(bytes)?).ok_or(Unusable::Truncated)?;
    let mut rest = from(bytes, number::<2>(bytes, 6)?)?;
    let mut found: Option<(u64, u64, &[u8])> = None;
    while !rest.is_empty() {
        let (kind, header, size) =
            (number::<2>(rest, 0)?, number::<4>(rest, 4)?, number::<8>(rest, 8)?);
        let (architecture, flags) = (number::<4>(rest, 28)?, number::<8>(rest, ENTRY - 8)?);
        let size = usize::try_from(size).map_err(|_| Unusable::Truncated)?;
        let payload = from(rest, header)?.get(..size).ok_or(Unusable::Truncated)?;
        if kind == u64::from(PTX) && found.is_none_or(|(oldest, ..)| architecture < oldest) {
            found = Some((architecture, flags, payload));
        }
        // At least the part of the header that was read, so the loop advances.
        rest = from(from(rest, header.max(ENTRY as u64))?, size as u64)?;
    }
    match found {
        None => Err(Unusable::NoPtx),
        Some((_, flags, _)) if flags & COMPRESSED != 0 => Err(Unusable::Compressed),
        Some((.., payload)) => Ok(payload),
    }
}

/// The number of `N` bytes at `at`.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Result<u64, Unusable> {
    let found = bytes.get(at..at + N).ok_or(Unusable::Truncated)?;
    Ok(found.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// The bytes from `start` on.
fn from(bytes: &[u8], start: u64) -> Result<&[u8], Unusable> {
    let start = usize::try_from(start).map_err(|_| Unusable::Truncated)?;
    bytes.get(start..).ok_or(Unusable::Truncated)
}

#[cfg(test)]
mod tests;
