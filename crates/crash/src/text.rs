//! Text and files without allocating memory: another thread may hold the allocator's lock when a crash is made.

use std::ffi::{c_int, CStr};

/// A text of at most 8191 bytes, with a NUL behind it; what is beyond is cut off.
pub(crate) struct Text {
    bytes: [u8; 8192],
    len: usize,
}

impl Text {
    pub(crate) const fn new() -> Text {
        Text { bytes: [0; 8192], len: 0 }
    }

    pub(crate) fn push(mut self, bytes: &[u8]) -> Text {
        for byte in bytes.iter().take(self.bytes.len() - 1 - self.len) {
            self.bytes[self.len] = *byte;
            self.len += 1;
        }
        self.bytes[self.len] = 0;
        self
    }

    pub(crate) fn number(self, number: i64) -> Text {
        let mut digits = [0_u8; 20];
        let mut at = digits.len();
        let mut rest = number.unsigned_abs();
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let sign: &[u8] = if number < 0 { b"-" } else { b"" };
        self.push(sign).push(&digits[at..])
    }

    /// `key number` on a line.
    pub(crate) fn line(self, key: &str, number: i64) -> Text {
        self.push(key.as_bytes()).push(b" ").number(number).push(b"\n")
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(crate) fn c_str(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.bytes).unwrap_or_default()
    }
}

/// Opens a file that is then written; -1 if it cannot be.
pub(crate) fn create(path: &CStr) -> c_int {
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC;
    // SAFETY: a string with NUL.
    unsafe { libc::open(path.as_ptr(), flags, 0o644) }
}

/// Writes all of it, and says whether it could.
pub(crate) fn write_all(file: c_int, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        // SAFETY: reads these bytes.
        let written = unsafe { libc::write(file, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(written) {
            Ok(written) => bytes = &bytes[written..],
            Err(_) if interrupted() => {}
            Err(_) => return false,
        }
    }
    true
}

/// Whether the last call ended by a signal alone.
pub(crate) fn interrupted() -> bool {
    // SAFETY: the thread's own variable.
    unsafe { *libc::__errno_location() == libc::EINTR }
}

/// Makes a file, and says whether it could.
pub(crate) fn write_file(path: &CStr, bytes: &[u8]) -> bool {
    let file = create(path);
    let written = file >= 0 && write_all(file, bytes);
    // SAFETY: opened above; -1 is refused.
    unsafe { libc::close(file) };
    written
}

/// Ends the process at once with a line on standard error: nothing that follows could be believed.
pub(crate) fn fail(what: &str, which: &[u8]) -> ! {
    let line = Text::new().push(b"veloc crash: ").push(what.as_bytes()).push(which).push(b"\n");
    write_all(libc::STDERR_FILENO, line.bytes());
    // SAFETY: always sound.
    unsafe { libc::_exit(125) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches numbers and long texts that are written wrongly.
    #[test]
    fn texts_are_what_was_pushed() {
        let text = Text::new().push(b"/a/").number(0).push(b"-").number(i64::MIN).line(" x", 907);
        assert_eq!(text.bytes(), b"/a/0--9223372036854775808 x 907\n");
        let long = Text::new().push(&[b'x'; 10_000]).number(5);
        assert_eq!((long.bytes().len(), long.c_str().to_bytes().len()), (8191, 8191));
    }
}
