//! The library's state in a process, in parts with a task each.
//!
//! | file | owns |
//! | --- | --- |
//! | `recording` | the parts and their log, and data that could not be logged |
//! | `tracked` | requests and probed messages |
//! | `objects` | communicators and types |
//! | `sent` | hashes of what calls send |
//!
//! Messages are counted by `message_log_core::counting`.

mod objects;
mod recording;
mod sent;
mod tracked;

use std::ffi::c_int;

use message_log_core::counting::{Counted, Counting};
use message_log_core::log::{Call, Item};
use message_log_core::memory::NoMemory;
use message_log_core::parts::Source;
use message_log_core::resend::streams::MessageLink;
use message_log_core::target::CallTarget;

use crate::mpi::MpiProperties;
use crate::refuse;
use crate::resend::Resend;
use crate::status::{MpiStatus as _, StatusBytes};
use crate::store::lineage::LineageStore;
use objects::MpiObjects;
use recording::Recording;
use tracked::Tracked;

/// The whole state.
#[derive(Debug)]
pub(crate) struct LogState {
    /// The MPI library.
    pub mpi: MpiProperties,
    /// What is recorded and replayed.
    pub recording: Recording,
    /// The application's requests and messages.
    pub tracked: Tracked,
    /// The application's communicators and types.
    pub objects: MpiObjects,
    /// Counts messages, if they may be sent again.
    pub counting: Counting,
    /// What the processes tell each other of messages that are sent again, if possible.
    pub resend: Option<Resend>,
    /// Whether the warning that it is impossible was printed.
    pub is_resend_missed: bool,
    /// The state for continuing in another process.
    pub store: LineageStore,
    /// Whether replays compare what they send.
    pub compares_sent: bool,
}

impl LogState {
    /// Before the first call.
    pub(crate) fn new(mpi: MpiProperties) -> LogState {
        LogState {
            mpi,
            recording: Recording::new(),
            tracked: Tracked::default(),
            objects: MpiObjects::new(&mpi),
            counting: Counting::default(),
            resend: None,
            is_resend_missed: false,
            store: LineageStore::default(),
            compares_sent: sent::compares(&mpi),
        }
    }

    /// Reserves room for what a call is about to begin and the events that it takes: once begun, the
    /// call must not fail. Nothing is needed if a replay has the result, or no recorded part can be
    /// replayed.
    ///
    /// # Errors
    /// Out of memory; the result of the call, which has done nothing.
    pub(crate) fn reserve(&mut self, call: Call, comm: usize, events: usize) -> Result<(), c_int> {
        let parts = &mut self.recording.parts;
        if parts.open().source() != Some(Source::Mpi) || !parts.can_log() {
            return Ok(());
        }
        let room = parts.log_mut().reserve(events).and_then(|()| self.tracked.requests.reserve());
        room.map_err(|NoMemory| refuse::no_room(&self.mpi, call, comm))
    }

    /// Whether a call made now is recorded, there is room for it, and nothing has to be done first.
    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        let is_resumed = |resend: &Resend| resend.judge.is_resumed;
        self.recording.parts.has_room() && !self.resend.as_ref().is_some_and(is_resumed)
    }

    /// Packs what a request or a call has received: see [`Recording::received`].
    ///
    /// # Safety
    /// MPI has completed writing to `target`.
    pub(crate) unsafe fn received(
        &mut self,
        target: &CallTarget,
        status: Option<&StatusBytes>,
    ) -> Item {
        // SAFETY: by the caller's promise.
        unsafe { self.recording.received(&self.mpi, &mut self.objects.types, target, status) }
    }

    /// Counts the message of a completed request.
    #[inline]
    pub(crate) fn is_done(
        &mut self,
        counted: &Counted,
        status: Option<&StatusBytes>,
        failed: bool,
    ) -> Option<MessageLink> {
        let sender = status.map(|status| status.sender(&self.mpi));
        self.counting.is_done(counted, sender, failed, &mut self.recording.parts)
    }

    /// Takes the verdicts on parts that have arrived, or waits for all of them.
    pub(crate) fn take_verdicts(&mut self, waits: bool) {
        if let Some(resend) = &mut self.resend {
            resend.take_verdicts(&self.mpi, &mut self.counting, &mut self.recording.parts, waits);
        }
    }

    /// The hash of what a call inside a part sends to a process; 0: it is not compared.
    ///
    /// # Safety
    /// `sent` is nothing, or the memory that the application passed to be sent.
    pub(crate) unsafe fn sum_of_sent(&mut self, peer: Option<c_int>, sent: &CallTarget) -> u64 {
        let is_nobody = peer == Some(self.mpi.numbers.proc_null);
        if !self.compares_sent || is_nobody || self.recording.parts.open().source().is_none() {
            return 0;
        }
        // SAFETY: by the caller's promise.
        unsafe { sent::sum(&self.mpi, &mut self.objects.types, sent) }
    }

    /// A communicator is freed.
    pub(crate) fn forget_comm(&mut self, handle: usize) {
        self.objects.forget_comm(handle);
        if let Some(comms) = self.counting.comms() {
            comms.forget(handle);
        }
    }
}
