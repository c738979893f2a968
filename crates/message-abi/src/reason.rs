//! How a function of a table reports its error: as text in the caller's buffer.

use std::ffi::{c_char, c_int};

/// Size of that buffer in bytes, including the final NUL.
const ROOM: usize = 1024;

/// Calls a function of a table with a buffer for its reason.
///
/// # Errors
/// The reason.
pub fn told(call: impl FnOnce(*mut c_char, usize) -> c_int) -> Result<(), String> {
    let mut reason = [0; ROOM];
    if call(reason.as_mut_ptr(), ROOM) == 0 {
        return Ok(());
    }
    let bytes: Vec<u8> = reason.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
    Err(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes a function's error to the buffer, and returns its status.
///
/// # Safety
/// The buffer has this many bytes.
pub unsafe fn say(done: Result<(), &str>, reason: *mut c_char, room: usize) -> c_int {
    let Err(text) = done else { return 0 };
    if let Some(most) = room.checked_sub(1) {
        let text = &text.as_bytes()[..text.len().min(most)];
        // SAFETY: by the caller's promise; the text and its NUL fit.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), reason, text.len());
            reason.add(text.len()).write(0);
        }
    }
    -1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a text that exceeds the buffer or lacks its NUL, and an error out of nothing.
    #[test]
    fn what_is_said_is_told() {
        let tell = |done: Result<(), &str>| {
            // SAFETY: the place that `told` has.
            told(|reason, room| unsafe { say(done, reason, room) })
        };
        assert_eq!(tell(Ok(())), Ok(()));
        assert_eq!(tell(Err("no space left")), Err("no space left".to_owned()));
        let long = "x".repeat(3 * ROOM);
        assert_eq!(tell(Err(&long)), Err("x".repeat(ROOM - 1)));
        let mut short = [1 as c_char; 4];
        // SAFETY: a place of so many bytes.
        assert_eq!(unsafe { say(Err("long"), short.as_mut_ptr(), 3) }, -1);
        assert_eq!(short, [b'l' as c_char, b'o' as c_char, 0, 1]);
        // SAFETY: no place at all.
        assert_eq!(unsafe { say(Err("long"), std::ptr::null_mut(), 0) }, -1);
    }
}
