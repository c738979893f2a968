//! Writing bytes that lie in memory as they lie in the pages of the file.
//!
//! A checkpoint's header has 20 bytes or some more, so a region that begins with a page of memory does not begin with
//! one of its file. The kernel's copy of such bytes took 1.5 times as long as one of aligned bytes; a copy to where
//! they are aligned, within the processor's caches, takes a tenth of that.

use std::fs::File;
use std::path::Path;

use errors::Result;
use os::files;

/// The largest page that matters: that of the page cache.
const PAGE: usize = 4 << 10;

/// Bytes that are copied, and then written: few enough for the caches.
const PIECE: usize = 128 << 10;

/// Bytes of one `memcpy`: few enough for one by vector registers, which does not mind how bytes lie. For more, the C
/// library uses the instruction that the kernel uses, and that does.
const COPY: usize = 2 << 10;

/// Fewer bytes are not worth it.
const LEAST: usize = 64 << 10;

/// The memory for that. None until it is needed.
#[derive(Debug, Default)]
pub(super) struct Aligned(Vec<u8>);

impl Aligned {
    /// Writes all of `bytes` at `offset` of `file` (`path` in messages).
    ///
    /// # Errors
    /// Those of [`files::write_all_at`].
    pub(super) fn write(
        &mut self,
        file: &File,
        bytes: &[u8],
        offset: u64,
        path: &Path,
    ) -> Result<()> {
        let shift = |at: usize| (offset as usize).wrapping_sub(at) % PAGE;
        if bytes.len() < LEAST || shift(bytes.as_ptr() as usize) == 0 {
            return files::write_all_at(file, bytes, offset, path);
        }
        if self.0.is_empty() {
            self.0 = vec![0; PIECE + PAGE];
        }
        let begin = shift(self.0.as_ptr() as usize);
        let mut at = offset;
        for piece in bytes.chunks(PIECE) {
            let aligned = &mut self.0[begin..begin + piece.len()];
            for (to, from) in aligned.chunks_mut(COPY).zip(piece.chunks(COPY)) {
                to.copy_from_slice(from);
            }
            files::write_all_at(file, aligned, at, path)?;
            at += piece.len() as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a piece at the wrong place, for every way in which memory and file can lie to each other.
    #[test]
    fn what_is_written_is_where_it_belongs() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let memory: Vec<u8> = (0..5 * PIECE).map(|i| (i ^ (i >> 9)) as u8).collect();
        let mut aligned = Aligned::default();
        for (from, offset) in [(0, 0), (0, 20), (1, 20), (20, 20), (PAGE - 1, 3), (77, PAGE + 5)] {
            for len in [0, 1, LEAST - 1, LEAST, PIECE, PIECE + 1, 4 * PIECE + 99] {
                let file = files::create(&path).unwrap();
                let bytes = &memory[from..from + len];
                aligned.write(&file, bytes, offset as u64, &path).unwrap();
                let found = std::fs::read(&path).unwrap();
                assert!(len == 0 || found.len() == offset + len);
                assert!(
                    found.get(offset..).unwrap_or_default() == bytes,
                    "{from}, {offset}, {len}"
                );
            }
        }
    }
}
