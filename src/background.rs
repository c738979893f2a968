//! Work that no call of the application's waits for, on a thread that is not one of the library's own
//! workers: the log of messages gives its memory to the engine on such a thread. What the
//! application's thread does while it waits, which may be calls of MPI's, is not for that thread, and
//! what that thread waits for has kept nobody.

use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread works in the background until this is dropped.
#[derive(Debug)]
pub struct Background(PhantomData<*const ()>);

impl Background {
    /// From here on.
    pub fn begin() -> Background {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Background(PhantomData)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Whether the calling thread works in the background.
pub fn is_here() -> bool {
    // A thread that is ending does nothing of the kind.
    DEPTH.try_with(|depth| depth.get() > 0).unwrap_or(false)
}
