//! The digest of a file that is being read or written. XXH3 is taken on the way, when the bytes are
//! in the processor's caches. SHA-256 of many bytes is taken by another thread meanwhile; it has to
//! see them in order, so a second thread is all that is of use.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::{sync_channel, Receiver, Sender, SyncSender};
use std::thread::{Builder, Scope, ScopedJoinHandle};

use errors::{Error, ErrorKind, Result};
use format::proof::{Digest, DigestHasher, Sort};
use os::files;

/// From so many bytes on, a thread is worth starting: hashing them takes some hundred microseconds.
const WORTH_A_THREAD: u64 = 1 << 20;

/// Bytes that are read or written, and hashed, at a time: both find them in the processor's caches.
pub(super) const PIECE: usize = 256 << 10;

/// Bytes after which a reader for the checksum alone is asked whether to go on.
const STEP: u64 = 64 << 20;

/// Pieces that may wait to be hashed.
const WAITING: usize = 8;

/// A hash of bytes that come piece by piece, in the order of the file.
#[derive(Debug)]
pub(super) enum Hashing<'scope> {
    /// On this thread, with a buffer that is free.
    Here(DigestHasher, Vec<u8>),
    /// On another thread.
    Beside {
        pieces: SyncSender<HashedPiece<'scope>>,
        used: Receiver<Vec<u8>>,
        thread: ScopedJoinHandle<'scope, DigestHasher>,
    },
}

/// Bytes to be hashed.
#[derive(Debug)]
pub(super) enum HashedPiece<'scope> {
    /// Bytes of somebody who leaves them as they are.
    Lent(&'scope [u8]),
    /// Bytes in a buffer of [`Hashing::buffer`].
    Given(Vec<u8>),
}

/// Whether so many bytes take so long to hash that another thread does it.
pub(super) fn is_worth_a_thread(sort: Sort, len: u64) -> bool {
    // With XXH3 two threads would only be in each other's way at the memory: a sixth slower.
    sort == Sort::Sha256 && len >= WORTH_A_THREAD
}

impl<'scope> Hashing<'scope> {
    /// Goes on with a hash for `len` bytes, by another thread if that is worth it.
    pub(super) fn start(
        scope: &'scope Scope<'scope, '_>,
        hasher: DigestHasher,
        len: u64,
    ) -> Hashing<'scope> {
        if !is_worth_a_thread(hasher.sort(), len) {
            return Hashing::here(hasher);
        }
        // Should the thread not start, this one goes on from here.
        let so_far = hasher.clone();
        let (pieces, to_hash) = sync_channel(WAITING);
        let (give_back, used) = std::sync::mpsc::channel();
        let work = move || hash(hasher, &to_hash, &give_back);
        let builder = Builder::new().name("veloc-hash".to_owned());
        let started = os::threads::unsignalled(|| builder.spawn_scoped(scope, work));
        match started {
            Ok(thread) => Hashing::Beside { pieces, used, thread },
            Err(_) => Hashing::here(so_far),
        }
    }

    /// Goes on with a hash on this thread.
    pub(super) fn here(hasher: DigestHasher) -> Hashing<'scope> {
        Hashing::Here(hasher, Vec::new())
    }

    /// A buffer of `len` bytes with any content.
    pub(super) fn buffer(&mut self, len: usize) -> Vec<u8> {
        let mut buffer = match self {
            Hashing::Here(_, free) => std::mem::take(free),
            Hashing::Beside { used, .. } => used.try_recv().unwrap_or_default(),
        };
        buffer.resize(len, 0);
        buffer
    }

    /// Adds the next bytes.
    pub(super) fn add(&mut self, piece: HashedPiece<'scope>) -> Result<()> {
        match self {
            Hashing::Here(hasher, free) => {
                hasher.update(piece.bytes());
                if let HashedPiece::Given(buffer) = piece {
                    *free = buffer;
                }
                Ok(())
            }
            Hashing::Beside { pieces, .. } => pieces.send(piece).map_err(|_| ended()),
        }
    }

    /// Reads bytes of a file for the hash alone.
    pub(super) fn read(&mut self, file: &File, range: Range<u64>, path: &Path) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let mut buffer = self.buffer((range.end - at).min(PIECE as u64) as usize);
            files::read_exact_at(file, &mut buffer, at, path)?;
            at += buffer.len() as u64;
            self.add(HashedPiece::Given(buffer))?;
        }
        Ok(())
    }

    /// The hash of all bytes.
    pub(super) fn finish(self) -> Result<DigestHasher> {
        match self {
            Hashing::Here(hasher, _) => Ok(hasher),
            Hashing::Beside { pieces, used: _, thread } => {
                drop(pieces);
                thread.join().map_err(|_| ended())
            }
        }
    }
}

impl HashedPiece<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            HashedPiece::Lent(bytes) => bytes,
            HashedPiece::Given(bytes) => bytes,
        }
    }
}

/// The digest of the bytes of `range` of the open file `file`, which messages call `path`. `go_on`
/// is called first, and now and then: its error ends the hashing.
pub(super) fn of_range(
    sort: Sort,
    file: &File,
    range: Range<u64>,
    path: &Path,
    mut go_on: impl FnMut() -> Result<()>,
) -> Result<Digest> {
    std::thread::scope(|scope| {
        let len = range.end.saturating_sub(range.start);
        let mut hashing = Hashing::start(scope, DigestHasher::new(sort), len);
        let mut at = range.start;
        while at < range.end {
            go_on()?;
            let end = range.end.min(at.saturating_add(STEP));
            hashing.read(file, at..end, path)?;
            at = end;
        }
        hashing.finish().map(DigestHasher::finish)
    })
}

fn hash(
    mut hasher: DigestHasher,
    pieces: &Receiver<HashedPiece<'_>>,
    give_back: &Sender<Vec<u8>>,
) -> DigestHasher {
    for piece in pieces {
        hasher.update(piece.bytes());
        if let HashedPiece::Given(buffer) = piece {
            // The reader may have all that it needs.
            let _ = give_back.send(buffer);
        }
    }
    hasher
}

fn ended() -> Error {
    Error::new(ErrorKind::Internal, "the thread that takes checksums has ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a piece that is hashed twice, out of order or not at all, on both sides of the length
    /// from which on there is a thread.
    #[test]
    fn as_if_by_one_thread() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        let worth = WORTH_A_THREAD as usize;
        let bytes: Vec<u8> = (0..9 * worth + 17).map(|i| (i ^ (i >> 9)) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = files::open(&path).unwrap();
        for range in [0..0, 3..4, 0..worth - 1, 5..worth + 5, 7..bytes.len()] {
            let within = range.start as u64..range.end as u64;
            for sort in [Sort::Xxh3, Sort::Sha256] {
                let found = of_range(sort, &file, within.clone(), &path, || Ok(())).unwrap();
                assert_eq!(found, Digest::of(sort, &bytes[range.clone()]), "{range:?}");
            }
        }
        let beyond = 0..bytes.len() as u64 + 1;
        let beyond = of_range(Sort::Sha256, &file, beyond, &path, || Ok(()));
        assert_eq!(beyond.unwrap_err().kind(), ErrorKind::Corrupt);
        let end = || Err(Error::invalid("the end"));
        assert!(of_range(Sort::Xxh3, &file, 0..4, &path, end)
            .unwrap_err()
            .to_string()
            .contains("the end"));
    }
}
