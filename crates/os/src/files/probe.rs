//! Tests whether a file system in which an empty file was created has room for data.

use std::fs::File;
use std::path::Path;

use super::write_all_at;
use errors::{Error, Result};

/// The bytes written: at least the default block size of any file system.
const PROBE: usize = 64 << 10;

/// Tests whether the empty `file` (`path` in messages) can be written, by writing some bytes and
/// truncating it. A full file system still creates empty files; only writing data reveals that.
///
/// # Errors
/// The errors of [`write_all_at`]; the system's, if truncating fails.
pub fn probe_room(file: &File, path: &Path) -> Result<()> {
    let written = write_all_at(file, &incompressible(), 0, path);
    let emptied = file
        .set_len(0)
        .map_err(|error| Error::system(format!("truncating {}", path.display()), &error));
    written.and(emptied)
}

/// Incompressible bytes (xorshift).
fn incompressible() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let words = (0..PROBE / 8).flat_map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    words.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use errors::ErrorKind;

    /// Catches a probe that leaves bytes behind, and one that writes none.
    #[test]
    fn nothing_is_left_of_what_was_tried() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let file = super::super::create(&path).unwrap();
        probe_room(&file, &path).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 0);
        // `/dev/full` opens like a file, but takes no byte.
        let full = File::options().write(true).open("/dev/full").unwrap();
        let error = probe_room(&full, Path::new("/dev/full")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoRoom);
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }
}
