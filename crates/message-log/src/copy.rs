//! Copies between the application's memory, host or device, and the log.

use std::ffi::c_void;

use crate::device;

/// Copies into the log of at least this many bytes bypass the caches: logged data is not read soon, and
/// fully written lines need not be read first. Without the log in cache, that is as fast as `memcpy` at
/// 4 KiB, and nearly twice as fast from 32 KiB on.
#[cfg(any(test, target_arch = "x86_64"))]
const STREAM: usize = 8 << 10;

/// Copies received data into the log.
///
/// # Errors
/// The data is in device memory, and the driver cannot copy it.
///
/// # Safety
/// Both ranges are valid and do not overlap.
pub(crate) unsafe fn into_log(
    to: *mut c_void,
    from: *const c_void,
    len: usize,
) -> Result<(), String> {
    if let Some(buffer) = device::buffer(from, len)? {
        // SAFETY: by the caller's promise.
        return unsafe { buffer.read(to, len) };
    }
    #[cfg(target_arch = "x86_64")]
    if len >= STREAM {
        // SAFETY: by the caller's promise.
        unsafe { stream(to.cast(), from.cast(), len) };
        return Ok(());
    }
    // SAFETY: by the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), len) };
    Ok(())
}

/// Copies logged data to the application.
///
/// # Errors
/// The target is in device memory, and the driver cannot copy it.
///
/// # Safety
/// Both ranges are valid and do not overlap.
pub(crate) unsafe fn from_log(
    to: *mut c_void,
    from: *const c_void,
    len: usize,
) -> Result<(), String> {
    if let Some(buffer) = device::buffer(to, len)? {
        // SAFETY: by the caller's promise.
        return unsafe { buffer.write(from, len) };
    }
    // SAFETY: by the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), len) };
    Ok(())
}

/// Copies with non-temporal stores.
///
/// # Safety
/// Both ranges are valid and do not overlap.
#[cfg(target_arch = "x86_64")]
unsafe fn stream(to: *mut u8, from: *const u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const WIDTH: usize = size_of::<__m128i>();
    const LINE: usize = 4 * WIDTH;
    // Non-temporal stores need alignment.
    let before = to.align_offset(LINE).min(len);
    let lines = (len - before) / LINE;
    let behind = before + lines * LINE;
    // SAFETY: all three pieces lie in both ranges, the middle one is aligned as its stores need it,
    // and every x86-64 processor has these instructions. The fence puts the stores before whatever
    // this thread does next.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, before);
        for line in 0..lines {
            let (to, from) = (to.add(before + line * LINE), from.add(before + line * LINE));
            let (to, from) = (to.cast::<__m128i>(), from.cast::<__m128i>());
            let parts = [
                _mm_loadu_si128(from),
                _mm_loadu_si128(from.add(1)),
                _mm_loadu_si128(from.add(2)),
                _mm_loadu_si128(from.add(3)),
            ];
            _mm_stream_si128(to, parts[0]);
            _mm_stream_si128(to.add(1), parts[1]);
            _mm_stream_si128(to.add(2), parts[2]);
            _mm_stream_si128(to.add(3), parts[3]);
        }
        _mm_sfence();
        std::ptr::copy_nonoverlapping(from.add(behind), to.add(behind), len - behind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lengths around the block size, with any alignment; nothing outside is written.
    #[test]
    fn every_byte_arrives_and_no_other() {
        for (len, shift, place) in [
            (0, 0, 0),
            (1, 3, 5),
            (63, 1, 1),
            (64, 0, 63),
            (1000, 7, 9),
            (STREAM, 0, 0),
            (STREAM + 1, 1, 0),
            (STREAM + 63, 0, 1),
            (STREAM + 64, 5, 63),
            (3 * STREAM + 17, 33, 31),
        ] {
            let from: Vec<u8> = (0..len + shift).map(|i| (i * 31 % 251) as u8).collect();
            let mut to = vec![255; len + place + 8];
            // SAFETY: both have that many bytes behind those places.
            unsafe {
                let (to, from) = (to.as_mut_ptr().add(place), from.as_ptr().add(shift));
                into_log(to.cast(), from.cast(), len).unwrap();
            }
            assert_eq!(to[place..place + len], from[shift..], "{len}");
            assert!(to[..place].iter().chain(&to[place + len..]).all(|byte| *byte == 255));
            let mut back = vec![0; len];
            // SAFETY: as above.
            unsafe { from_log(back.as_mut_ptr().cast(), to.as_ptr().add(place).cast(), len) }
                .unwrap();
            assert_eq!(back, from[shift..]);
        }
    }
}
