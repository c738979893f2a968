//! Communicators, types and persistent requests that the application has freed and that a replay still uses: they are
//! freed when no instance is left that was recorded before.

use crate::mpi::Mpi;
use crate::pmpi;

/// What a handle is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A communicator.
    Comm,
    /// A type.
    Type,
    /// A persistent request.
    Request,
}

#[derive(Debug)]
struct Freed {
    kind: Kind,
    handle: usize,
    /// The number of instances at that time.
    at: u64,
}

/// What is to be freed, oldest first.
#[derive(Debug, Default)]
pub struct Deferred {
    freed: Vec<Freed>,
}

impl Deferred {
    /// The application frees this, and `at` instances have begun.
    pub fn add(&mut self, kind: Kind, handle: usize, at: u64) {
        self.freed.push(Freed { kind, handle, at });
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.freed.is_empty()
    }

    /// Whether the application has freed this.
    pub fn has(&self, kind: Kind, handle: usize) -> bool {
        self.freed.iter().any(|freed| (freed.kind, freed.handle) == (kind, handle))
    }

    /// Frees what no instance needs, of which the oldest one that is left began as number `oldest`.
    /// What went.
    pub fn free(&mut self, mpi: &Mpi, oldest: Option<u64>) -> Vec<(Kind, usize)> {
        let mut gone = Vec::new();
        let mut free = |freed: &Freed| {
            let mut handle = 0usize;
            let place = (&raw mut handle).cast();
            // SAFETY: room for the widest handle; the handle is live, since the application's
            // request to free it was not passed on.
            unsafe {
                mpi.write_handle(place, freed.handle);
                match freed.kind {
                    Kind::Comm => pmpi::comm_free(place),
                    Kind::Type => pmpi::type_free(place),
                    Kind::Request => pmpi::request_free(place),
                };
            }
            gone.push((freed.kind, freed.handle));
        };
        self.freed.retain(|freed| {
            let stays = oldest.is_some_and(|oldest| oldest < freed.at);
            if !stays {
                free(freed);
            }
            stays
        });
        gone
    }
}
