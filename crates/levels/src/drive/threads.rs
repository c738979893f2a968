//! Reads and writes of a drive by threads, where there is no io_uring.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, Builder};

use super::{no_bytes, piece_failed, Piece, Way};
use crate::store::GoOn;
use errors::Result;
use os::sync::Mutex;
use os::threads;

/// How many threads share a transfer.
const THREADS: usize = 8;

/// Transfers these pieces. No thread is left when it returns.
pub(super) fn transfer(way: Way, file: &File, pieces: Vec<Piece>, go_on: &GoOn<'_>) -> Result<()> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let share = || {
        while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let done = go_on().and_then(|()| {
                all_of(way, file, *piece).map_err(|error| piece_failed(way, *piece, &error))
            });
            if let Err(error) = done {
                next.store(pieces.len(), Ordering::Relaxed);
                failed.lock().get_or_insert(error);
                return;
            }
        }
    };
    thread::scope(|scope| {
        for _ in 1..THREADS.min(pieces.len()) {
            let builder = Builder::new().name("veloc-drive".to_owned());
            if threads::unsignalled(|| builder.spawn_scoped(scope, share)).is_err() {
                // The others have more to do.
                break;
            }
        }
        share();
    });
    let failed = failed.lock().take();
    failed.map_or(Ok(()), Err)
}

fn all_of(way: Way, file: &File, mut piece: Piece) -> io::Result<()> {
    loop {
        let (memory, len) = (piece.memory, piece.len as usize);
        // SAFETY: the caller of the transfer gives its memory to this thread alone, or only to be read.
        let done = unsafe {
            match way {
                Way::Read => {
                    file.read_at(std::slice::from_raw_parts_mut(memory, len), piece.offset)
                }
                Way::Write => file.write_at(std::slice::from_raw_parts(memory, len), piece.offset),
            }
        };
        match done {
            Ok(done) if done == len => return Ok(()),
            Ok(0) => return Err(no_bytes()),
            Ok(done) => piece = piece.behind(done as u64),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
