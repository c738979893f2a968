//! Threads that share the blocks of an array.

use std::sync::{Mutex, PoisonError};
use std::thread::{self, Builder};

use errors::{Error, ErrorKind, Result};
use os::threads::unsignalled;

/// Blocks of a piece. What becomes of an array does not depend on the number of threads, as this does not.
pub(crate) const PIECE: usize = 4096;

/// Has so many threads, this one among them, do `work` for each piece. What it returns is in the order of the pieces.
pub(crate) fn each<P, T: Send>(
    pieces: impl Iterator<Item = P> + Send,
    threads: usize,
    work: impl Fn(P) -> T + Sync,
) -> Result<Vec<T>> {
    let most = pieces.size_hint().0;
    let pieces = Mutex::new(pieces.enumerate());
    let work_off = || {
        let next = || pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
        let mut done = Vec::new();
        while let Some((nth, piece)) = next() {
            done.push((nth, work(piece)));
        }
        done
    };
    let mut done = thread::scope(|scope| {
        // Where no thread can be had, those that there are do more.
        let start = |_| {
            let builder = Builder::new().name("veloc-encode".to_owned());
            unsignalled(|| builder.spawn_scoped(scope, work_off)).ok()
        };
        let others: Vec<_> = (1..threads.min(most)).map_while(start).collect();
        let mut done = work_off();
        for thread in others {
            done.extend(thread.join().map_err(|_| {
                Error::new(ErrorKind::Internal, "a thread that encodes or decodes panicked")
            })?);
        }
        Ok(done)
    })?;
    done.sort_unstable_by_key(|(nth, _)| *nth);
    Ok(done.into_iter().map(|(_, made)| made).collect())
}
