//! Communicators, types and persistent requests that the application has freed and that a replay may
//! still use. They are freed when no instance is left that was recorded before.

use std::collections::{HashSet, VecDeque};

use message_log_core::memory::NoMemory;

use crate::mpi::MpiProperties;
use crate::pmpi;

/// The kind of a handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum HandleKind {
    /// A communicator.
    Comm,
    /// A type.
    Type,
    /// A persistent request.
    Request,
}

#[derive(Debug)]
struct Freed {
    kind: HandleKind,
    handle: usize,
    /// How many instances had begun by then.
    at: u64,
}

/// Objects whose freeing is deferred.
#[derive(Debug, Default)]
pub(crate) struct DeferredFrees {
    /// In the order of the application's calls.
    freed: VecDeque<Freed>,
    /// A set for lookup: types may be freed in every step of a long computation.
    handles: HashSet<(HandleKind, usize)>,
}

impl DeferredFrees {
    /// The application frees an object when `at` instances have begun.
    ///
    /// # Errors
    /// Out of memory; the object is not added.
    pub(crate) fn add(&mut self, kind: HandleKind, handle: usize, at: u64) -> Result<(), NoMemory> {
        self.freed.try_reserve(1)?;
        self.handles.try_reserve(1)?;
        self.freed.push_back(Freed { kind, handle, at });
        self.handles.insert((kind, handle));
        Ok(())
    }

    /// Whether something may be freed if only instances from this number on are left.
    pub(crate) fn is_due(&self, first: Option<u64>) -> bool {
        let due = |freed: &Freed| first.is_none_or(|first| freed.at <= first);
        self.freed.front().is_some_and(due)
    }

    /// Whether the application has freed this handle.
    pub(crate) fn has(&self, kind: HandleKind, handle: usize) -> bool {
        self.handles.contains(&(kind, handle))
    }

    /// Frees what no instance needs; `oldest` is the number of the oldest instance left. Returns what
    /// was freed.
    pub(crate) fn free(
        &mut self,
        mpi: &MpiProperties,
        oldest: Option<u64>,
    ) -> Vec<(HandleKind, usize)> {
        let mut gone = Vec::new();
        while self.is_due(oldest) {
            let Some(Freed { kind, handle, .. }) = self.freed.pop_front() else { break };
            self.handles.remove(&(kind, handle));
            let mut place = 0usize;
            let at = (&raw mut place).cast();
            // SAFETY: room for the widest handle; the handle is live, since the application's
            // request to free it was not passed on.
            unsafe {
                mpi.write_handle(at, handle);
                match kind {
                    HandleKind::Comm => pmpi::comm_free(at),
                    HandleKind::Type => pmpi::type_free(at),
                    HandleKind::Request => pmpi::request_free(at),
                };
            }
            gone.push((kind, handle));
        }
        gone
    }
}
