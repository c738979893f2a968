//! SHA-256 of bytes that are being written, on a thread of its own beside the write.

use std::fs::File;
use std::path::Path;
use std::thread;

use sha2::{Digest as _, Sha256};

use super::files;
use crate::error::Result;

/// The SHA-256 of a file.
pub type Digest = [u8; 32];

/// From so many bytes on, a thread is worth starting: hashing them takes some hundred microseconds.
const WORTH_A_THREAD: usize = 1 << 20;

/// The most bytes that are hashed beside one write, so that both stay in the processor's caches.
const PIECE: usize = 8 << 20;

/// Bytes of a file that are read at a time.
const BLOCK: usize = 1 << 20;

/// A SHA-256 under way.
#[derive(Clone, Debug, Default)]
pub struct Hasher(Sha256);

impl Hasher {
    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Hands `bytes` to `write`, in order and in pieces, and adds them meanwhile.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn write(
        &mut self,
        bytes: &[u8],
        mut write: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        if bytes.len() < WORTH_A_THREAD {
            self.update(bytes);
            return write(bytes);
        }
        for piece in bytes.chunks(PIECE) {
            let (written, hashed) = thread::scope(|scope| {
                let hashing = thread::Builder::new()
                    .name("veloc-hash".to_owned())
                    .spawn_scoped(scope, || self.0.update(piece))
                    .is_ok();
                (write(piece), hashing)
            });
            if !hashed {
                self.update(piece);
            }
            written?;
        }
        Ok(())
    }

    /// The digest of all that was added.
    pub fn finish(self) -> Digest {
        self.0.finalize().into()
    }
}

/// The digest of the open file `file`, which messages call `path`.
///
/// # Errors
/// As [`files::read_exact_at`].
pub fn of_file(file: &File, path: &Path) -> Result<Digest> {
    let len = files::len(file, path)?;
    let mut buffer = vec![0; BLOCK.min(len as usize)];
    let mut hasher = Hasher::default();
    let mut at = 0;
    while at < len {
        let step = (len - at).min(BLOCK as u64) as usize;
        files::read_exact_at(file, &mut buffer[..step], at, path)?;
        hasher.update(&buffer[..step]);
        at += step as u64;
    }
    Ok(hasher.finish())
}

/// A digest as people write it, for messages.
pub fn hex(digest: &Digest) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

    /// The examples of FIPS 180-4.
    #[test]
    fn known_digests() {
        for (text, digest) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ] {
            let mut hasher = Hasher::default();
            hasher.update(text.as_bytes());
            assert_eq!(hex(&hasher.finish()), digest);
        }
    }

    /// Catches a piece that is hashed twice, not at all, or out of order.
    #[test]
    fn what_is_written_is_hashed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        for len in [0, 1, WORTH_A_THREAD - 1, WORTH_A_THREAD, 2 * PIECE + 12_345] {
            let bytes: Vec<u8> = (0..len).map(|i| (i ^ (i >> 9)) as u8).collect();
            let file = files::create(&path).unwrap();
            let (mut at, mut hasher) = (0, Hasher::default());
            hasher.update(b"");
            hasher
                .write(&bytes, |piece| {
                    files::write_all_at(&file, piece, at, &path)?;
                    at += piece.len() as u64;
                    Ok(())
                })
                .unwrap();
            assert_eq!(at, len as u64);
            assert_eq!(hasher.finish(), of_file(&file, &path).unwrap());
        }
    }

    #[test]
    fn a_failed_write_is_reported() {
        let bytes = vec![0; 2 * PIECE];
        let failed = Hasher::default().write(&bytes, |_| Err(Error::invalid("no")));
        assert!(failed.is_err());
    }
}
