//! The application's requests and probed messages.

use message_log_core::log::{Call, CallShape};
use message_log_core::memory::NoMemory;
use message_log_core::requests::{General, MpiRequest, RequestLife, Requests};
use message_log_core::target::CallTarget;

use crate::messages::{Messages, Probed};
use crate::mpi::MpiProperties;
use crate::pmpi::{self, Ptr};
use crate::request_pool::IdleRequests;
use crate::status::{MpiStatus as _, StatusBytes};
use crate::types::RecentTypes;

/// Requests and messages, and the requests that replays return.
#[derive(Debug, Default)]
pub(crate) struct Tracked {
    /// The application's requests.
    pub requests: Requests,
    /// Messages of matched probes.
    pub messages: Messages,
    /// The requests that replays return.
    pool: IdleRequests,
}

impl Tracked {
    /// The call that returned this request, if its result cannot be replayed.
    pub(crate) fn foreign(&self, handle: usize) -> Option<Call> {
        let request = self.requests.get(handle)?;
        (request.life == RequestLife::Foreign).then_some(request.shape.call)
    }

    /// Begins a request of a replay; returns its handle.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn begin_replayed(
        &mut self,
        mpi: &MpiProperties,
        begun: MpiRequest,
    ) -> Result<usize, NoMemory> {
        let handle = self.pool.take(mpi);
        let inserted = self.requests.insert(handle, begun);
        if inserted.is_err() {
            self.pool.put_back(handle);
        }
        inserted.map(|()| handle)
    }

    /// A replayed request has completed; its generalized request can be reused.
    pub(crate) fn release_replayed(&mut self, handle: usize) {
        if let Some(request) = self.requests.get_mut(handle) {
            if matches!(request.life, RequestLife::Replayed(_)) {
                request.life = RequestLife::Idle;
                request.target = CallTarget::Nothing;
                self.pool.put_back(handle);
            }
        }
    }

    /// Forgets the request that MPI has freed, whose handle was at `place`.
    pub(crate) fn forget_request(&mut self, handle: usize, place: Ptr) -> Option<MpiRequest> {
        let request = self.requests.remove(handle, place as usize)?;
        if request.life != RequestLife::Real {
            self.pool.remove(handle);
        }
        Some(request)
    }

    /// The replay of the instance with this number has ended. Requests that it began and did not complete are
    /// released: the backward sweep comes next and will not wait for them.
    pub(crate) fn replay_ended(&mut self, number: u64) {
        self.messages.replay_ended(number);
        for (handle, request) in self.requests.iter_mut() {
            if request.life == RequestLife::Replayed(number) {
                request.life = RequestLife::Idle;
                request.target = CallTarget::Nothing;
                self.pool.put_back(handle);
            }
        }
    }

    /// `MPI_Finalize` begins.
    pub(crate) fn close(&mut self, mpi: &MpiProperties) {
        self.requests.clear();
        self.pool.clear(mpi);
    }

    /// The application completes a generalized request; `is_done`: MPI has accepted that.
    pub(crate) fn completes_general(&mut self, handle: usize, is_done: bool) {
        let Some(known) = self.requests.get_mut(handle).filter(|_| is_done) else { return };
        match &mut known.general {
            Some(General::Freed) => drop(self.requests.remove(handle, 0)),
            Some(general) => *general = General::Complete,
            None => {}
        }
    }

    /// The application frees a request. Returns whether it is a generalized one that has not completed; then
    /// it stays in the table until it has.
    pub(crate) fn frees_general(&mut self, handle: usize) -> bool {
        // Checked first without inserting a plain request, which would need memory.
        let is_begun = |known: &MpiRequest| known.general == Some(General::Begun);
        if !self.requests.get(handle).is_some_and(is_begun) {
            return false;
        }
        if let Some(known) = self.requests.get_mut(handle) {
            known.general = Some(General::Freed);
        }
        true
    }

    /// Whether this is a generalized request that was begun after this many operations.
    pub(crate) fn is_general_since(&self, first: u64, handle: usize) -> bool {
        let is_own = |known: &MpiRequest| known.general.is_some() && known.began > first;
        self.requests.get(handle).is_some_and(is_own)
    }

    /// Completes or tests a generalized request of the replay, as the replayed call did, so that MPI calls
    /// the application's callbacks.
    pub(crate) fn replays_general(
        &mut self,
        mpi: &MpiProperties,
        handle: usize,
        is_get_status: bool,
    ) {
        let (mut place, mut flag, mut status) = (0usize, 0, StatusBytes::default());
        let at = (&raw mut place).cast();
        // SAFETY: the request exists; `place` is as wide as any handle, the rest are ours. The request has
        // completed, or another thread is about to complete it, as in the first run.
        unsafe {
            if is_get_status {
                pmpi::request_get_status(handle, &mut flag, status.as_mut_ptr());
                return;
            }
            mpi.write_handle(at, handle);
            pmpi::wait(at, status.as_mut_ptr());
        }
        self.forget_request(handle, at);
    }

    /// Takes a probed message that is received. Returns the shape to compare, and the number of the call that
    /// probed for it, 0 if that was outside parts.
    pub(crate) fn takes_probed(
        &mut self,
        mpi: &MpiProperties,
        shape: CallShape,
        handle: usize,
    ) -> (CallShape, u64) {
        if handle == mpi.message_no_proc {
            return (CallShape { peer: Some(mpi.numbers.proc_null), ..shape }, 0);
        }
        match self.messages.take(handle) {
            Some(Probed { began, source, tag, .. }) => {
                (CallShape { peer: Some(source), tag: Some(tag), ..shape }, began)
            }
            None => (shape, 0),
        }
    }

    /// Whether there are persistent requests on a communicator, which may still be started.
    pub(crate) fn has_persistent_on(&mut self, comm: usize) -> bool {
        self.requests.iter_mut().any(|(_, known)| known.persistent && known.shape.comm == comm)
    }

    /// Another communicator represents this one.
    pub(crate) fn rename_comm(&mut self, from: usize, to: usize) {
        for (_, request) in self.requests.iter_mut() {
            if request.shape.comm == from {
                request.shape.comm = to;
            }
        }
    }

    /// Gives pending requests a copy of a type that the application frees.
    ///
    /// # Errors
    /// Out of memory.
    pub(crate) fn keep_type(&mut self, mpi: &MpiProperties, handle: usize) -> Result<(), NoMemory> {
        let mut copy = None;
        self.requests.expand_all()?;
        for (_, request) in self.requests.iter_mut() {
            for buffer in [&mut request.target, &mut request.source] {
                if buffer.uses(handle) {
                    let copy = copy.get_or_insert_with(|| RecentTypes::copy(mpi, handle));
                    *buffer = buffer.with(handle, copy);
                }
            }
        }
        Ok(())
    }

    /// Why another process could not go on here: a request or a message of an open part that is under way.
    /// `id`: the outermost part, which began after `begun` operations; `is_real`: no open part is replayed.
    pub(crate) fn under_way(&mut self, id: i32, begun: u64, is_real: bool) -> Option<String> {
        let pending = |request: &MpiRequest| {
            let inside = request.began > begun;
            match request.life {
                RequestLife::Replayed(_) => true,
                RequestLife::Real if request.general.is_some() => inside,
                RequestLife::Real if request.persistent => request.active && inside,
                RequestLife::Real => is_real && inside,
                RequestLife::Idle | RequestLife::Foreign => false,
            }
        };
        if self.messages.is_any_since(begun) {
            return Some(format!(
                "a message that was probed for inside part {id} (MPI_Mprobe) is not received yet: a restarted \
                 process could not receive it"
            ));
        }
        let (_, request) = self.requests.iter_mut().find(|(_, request)| pending(request))?;
        Some(format!(
            "a request of {} that was begun inside part {} is not completed yet: a restarted process could not \
             complete it",
            request.shape.call.0, id
        ))
    }
}
