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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// Catches results in the order of the threads.
    #[test]
    fn results_are_in_the_order_of_the_pieces() {
        // No thread takes two pieces while the other takes none.
        let both = Barrier::new(2);
        let work = |piece| {
            both.wait();
            piece
        };
        assert_eq!(each(0..64, 2, work).unwrap(), (0..64).collect::<Vec<_>>());
        assert_eq!(each(0..0, 2, |piece: i32| piece).unwrap(), []);
    }

    /// Catches a panic that ends the application.
    #[test]
    fn a_thread_that_panics_is_an_error() {
        let both = Barrier::new(2);
        let here = thread::current().id();
        let work = |_| {
            both.wait();
            assert_eq!(thread::current().id(), here, "on purpose");
        };
        let error = each(0..2, 2, work).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Internal);
    }
}
