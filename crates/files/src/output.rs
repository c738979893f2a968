//! A file that is written from its start to its end, with the digest of what was written.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::thread;

use super::aligned::Aligned;
use super::hashing::{is_worth_a_thread, HashedPiece, Hashing, PIECE};
use errors::{Error, Result};
use format::frames::Compressor;
use format::proof::{Digest, DigestHasher, Sort};
use os::{files, threads};

/// A file that is being written, under its temporary name.
#[derive(Debug)]
pub struct Output {
    /// The file.
    pub(super) file: File,
    /// Its temporary name.
    pub(super) temporary: PathBuf,
    /// Bytes written: where the next ones go.
    end: u64,
    begin: u64,
    hasher: Option<DigestHasher>,
    aligned: Aligned,
    compressor: Option<Compressor>,
}

/// A file that was written to its end.
#[derive(Debug)]
pub struct Written {
    /// The temporary name of the file.
    pub(super) temporary: PathBuf,
    /// Its length in bytes.
    pub(super) len: u64,
    /// The digest of its bytes, if it was asked for.
    pub(super) digest: Option<Digest>,
}

/// Pieces up to this many bytes are gathered before they are written.
const SMALL: usize = 16 << 10;

/// Bytes that are gathered for one write.
const GATHERED: usize = 64 << 10;

/// Appends pieces to a file, and several small ones at a time: each write is a system call.
#[derive(Debug)]
#[must_use = "what was put last may have to be written"]
pub struct Gathering<'a> {
    output: &'a mut Output,
    small: Vec<u8>,
}

/// The end of a file at some moment, and the digest up to there.
#[derive(Debug)]
pub struct Mark {
    end: u64,
    hasher: Option<DigestHasher>,
}

impl Output {
    /// Creates the file; `digest` is the kind of digest to take, if any.
    pub fn create(temporary: PathBuf, digest: Option<Sort>) -> Result<Output> {
        let file = files::create(&temporary)?;
        Ok(Output::within(file, temporary, 0, digest))
    }

    /// A part within a file, from byte `begin` on.
    pub fn within(file: File, temporary: PathBuf, begin: u64, digest: Option<Sort>) -> Output {
        let hasher = digest.map(DigestHasher::new);
        let aligned = Aligned::default();
        Output { file, temporary, end: begin, begin, hasher, aligned, compressor: None }
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Its temporary name.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Where the next bytes go.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Compresses what is put from here on, until [`Output::end_content`]. The file has to be empty.
    pub fn compress(&mut self, compressor: Compressor) -> Result<()> {
        self.append(&compressor.head())?;
        self.compressor = Some(compressor);
        Ok(())
    }

    /// Ends what was put. Needed for compressed files alone.
    pub fn end_content(&mut self) -> Result<()> {
        self.compressor
            .take()
            .map_or(Ok(()), |compressor| compressor.finish(|bytes| self.append(bytes)))
    }

    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(mut compressor) = self.compressor.take() else { return self.append(bytes) };
        let put = compressor.put(bytes, |bytes| self.append(bytes));
        self.compressor = Some(compressor);
        put
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let Output { file, temporary, end, hasher, aligned, .. } = self;
        let mut write = |bytes: &[u8]| {
            aligned.write(file, bytes, *end, temporary)?;
            *end += bytes.len() as u64;
            Ok(())
        };
        match hasher {
            Some(hasher) => beside(hasher, bytes, write),
            None => write(bytes),
        }
    }

    /// Appends small pieces together.
    pub fn gathering(&mut self) -> Gathering<'_> {
        Gathering { output: self, small: Vec::new() }
    }

    /// Where the file ends now.
    pub fn mark(&self) -> Mark {
        Mark { end: self.end, hasher: self.hasher.clone() }
    }

    /// Takes back what was written since the mark, also what was written in part.
    pub fn take_back(&mut self, to: Mark) -> Result<()> {
        (self.end, self.hasher) = (to.end, to.hasher);
        let truncated = self.file.set_len(self.end);
        truncated.map_err(|error| {
            Error::system(format!("truncating {}", self.temporary.display()), &error)
        })
    }

    /// How many bytes were written.
    pub(super) fn length(&self) -> u64 {
        self.end - self.begin
    }

    /// The digest of what was written so far, if one is taken.
    pub fn digest(&self) -> Option<Digest> {
        self.hasher.clone().map(DigestHasher::finish)
    }

    /// Ends the file.
    pub fn finish(self) -> Written {
        let len = self.length();
        Written { temporary: self.temporary, len, digest: self.hasher.map(DigestHasher::finish) }
    }
}

impl Gathering<'_> {
    /// Appends bytes, now or with later ones.
    ///
    /// # Errors
    /// As [`Output::put`]; bytes that were put before may be missing.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() > SMALL || self.small.len() + bytes.len() > GATHERED {
            self.write()?;
        }
        match bytes.len() > SMALL {
            true => self.output.put(bytes),
            false => {
                self.small.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Where the next bytes go.
    pub fn end(&self) -> u64 {
        self.output.end + self.small.len() as u64
    }

    /// Appends what is left.
    ///
    /// # Errors
    /// As [`Output::put`].
    pub fn finish(mut self) -> Result<()> {
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        if self.small.is_empty() {
            return Ok(());
        }
        self.output.put(&self.small)?;
        self.small.clear();
        Ok(())
    }
}

impl Written {
    /// Its length in bytes.
    pub fn length(&self) -> u64 {
        self.len
    }

    /// The temporary name of the file.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// [`discard`](Self::discard), without waiting for the system to give the file's memory back.
    pub fn discard_behind(self) {
        let bytes = File::open(&self.temporary);
        self.discard();
        // Whatever happens, the file is closed.
        let _ = threads::behind("veloc-remove", move || drop(bytes));
    }

    /// Removes the file. A failure is a warning: the failure that made the file useless is the one
    /// to report.
    pub fn discard(self) {
        if let Err(error) = files::remove(&self.temporary) {
            log::warn!("{error}");
        }
    }
}

/// Hands `bytes` to `write`, in order and in pieces, and hashes them meanwhile.
fn beside(
    hasher: &mut DigestHasher,
    bytes: &[u8],
    mut write: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    if !is_worth_a_thread(hasher.sort(), bytes.len() as u64) {
        return bytes.chunks(PIECE).try_for_each(|piece| {
            hasher.update(piece);
            write(piece)
        });
    }
    let so_far = hasher.clone();
    *hasher = thread::scope(|scope| {
        let mut hashing = Hashing::start(scope, so_far, bytes.len() as u64);
        for piece in bytes.chunks(PIECE) {
            hashing.add(HashedPiece::Lent(piece))?;
            write(piece)?;
        }
        hashing.finish()
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a piece that is hashed twice, not at all, or out of order.
    #[test]
    fn what_is_written_is_hashed() {
        let directory = tempfile::tempdir().unwrap();
        let lengths = [0, 1, PIECE - 1, PIECE, 12 * PIECE + 12_345];
        let sorts = [Sort::Xxh3, Sort::Sha256];
        for (len, sort) in lengths.into_iter().flat_map(|len| sorts.map(|sort| (len, sort))) {
            let bytes: Vec<u8> = (0..len).map(|i| (i ^ (i >> 9)) as u8).collect();
            let path = directory.path().join("f");
            let mut output = Output::create(path.clone(), Some(sort)).unwrap();
            output.put(b"head").unwrap();
            output.put(&bytes).unwrap();
            let written = output.finish();
            let whole = std::fs::read(&path).unwrap();
            assert_eq!(whole, [b"head", &bytes[..]].concat());
            assert_eq!(written.len, whole.len() as u64);
            assert_eq!(written.digest, Some(Digest::of(sort, &whole)));
        }
    }

    /// Catches small pieces that are lost, written twice, or out of order with large ones, and a write for each.
    #[test]
    fn small_pieces_are_gathered() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let lengths = [4, 0, SMALL, SMALL + 1, 7, GATHERED - 7, 1, 3 * GATHERED, SMALL, SMALL, 5];
        let lengths = lengths.into_iter().chain(std::iter::repeat_n(3, GATHERED));
        let mut whole = Vec::new();
        let mut output = Output::create(path.clone(), None).unwrap();
        output.put(b"head").unwrap();
        let mut gathering = output.gathering();
        for (at, len) in lengths.enumerate() {
            assert_eq!(gathering.end(), 4 + whole.len() as u64);
            let piece: Vec<u8> = (0..len).map(|i| (i ^ at) as u8).collect();
            gathering.put(&piece).unwrap();
            whole.extend(piece);
        }
        gathering.finish().unwrap();
        assert_eq!(output.end, 4 + whole.len() as u64);
        assert_eq!(std::fs::read(&path).unwrap()[4..], whole);
    }

    /// Catches a digest of bytes that are not in the file any more.
    #[test]
    fn what_is_taken_back_was_never_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let sort = Sort::Sha256;
        let mut output = Output::create(path.clone(), Some(sort)).unwrap();
        output.put(b"ab").unwrap();
        let mark = output.mark();
        output.put(b"xyz").unwrap();
        output.take_back(mark).unwrap();
        output.put(b"c").unwrap();
        assert_eq!(output.finish().digest, Some(Digest::of(sort, b"abc")));
        assert_eq!(std::fs::read(&path).unwrap(), b"abc");
    }

    #[test]
    fn a_failed_write_is_reported() {
        let bytes = vec![0; 2 * PIECE];
        assert!(beside(&mut DigestHasher::new(Sort::Sha256), &bytes, |_| Err(Error::invalid(
            "no"
        )))
        .is_err());
    }
}
