//! What is recorded and replayed: the parts, their log, and data that could not be logged.

use message_log_core::log::{
    Arena, CallOutcome, CallShape, Item, Limit, LogEvent, Payload, Position,
};
use message_log_core::parts::{Parts, Source};
use message_log_core::resend::closed::Route;
use message_log_core::target::CallTarget;

use crate::mpi::MpiProperties;
use crate::scratch;
use crate::status::{MpiStatus as _, StatusBytes};
use crate::target;
use crate::types::RecentTypes;

/// The parts, the memory of their log, and the next failure.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// The parts and their log.
    pub parts: Parts,
    /// The memory of payloads.
    pub arena: Arena,
    /// Received data that could not be logged: the communicator, and the message.
    lost: Option<(usize, String)>,
    /// Why the log's memory limit is invalid.
    unlimited: Option<String>,
}

impl Recording {
    /// Without parts, within the configured limit.
    pub(crate) fn new() -> Recording {
        match Limit::wanted() {
            Ok(limit) => Recording {
                arena: Arena::within(limit, scratch::make_file),
                ..Recording::default()
            },
            Err(text) => Recording { unlimited: Some(text), ..Recording::default() },
        }
    }

    /// # Errors
    /// The log's memory limit is invalid.
    pub(crate) fn check_limit(&self) -> Result<(), String> {
        self.unlimited.clone().map_or(Ok(()), Err)
    }

    /// The source of a call's result inside parts.
    pub(crate) fn source(&self) -> Source {
        self.parts.open().source().unwrap_or(Source::Mpi)
    }

    /// Logs the outcome of a real call. Out of memory, the call fails.
    pub(crate) fn record(&mut self, shape: CallShape, outcome: CallOutcome) {
        let comm = shape.comm;
        if self.parts.record(shape, outcome).is_err() {
            self.out_of_memory(comm, &format!("to log {}", shape.call.0));
        }
    }

    /// Reports that data of the recorded parts could not be logged: the parts cannot be replayed, and the
    /// call on this communicator fails. Later calls log nothing for these parts, so this happens once.
    #[cold]
    pub(crate) fn out_of_memory(&mut self, comm: usize, what: &str) {
        if self.parts.can_log() {
            self.fail_parts(comm, &format!("there is no memory {what}"));
        }
    }

    fn fail_parts(&mut self, comm: usize, why: &str) {
        let text = format!("{why}: the open parts cannot be replayed");
        self.parts.fail_recorded(&text);
        self.lost = Some((comm, text));
    }

    /// Whether data could not be logged since [`take_lost`](Self::take_lost).
    #[inline(always)]
    pub(crate) fn has_lost(&self) -> bool {
        self.lost.is_some()
    }

    /// The communicator on which the loss of data is reported, and the message.
    pub(crate) fn take_lost(&mut self) -> Option<(usize, String)> {
        self.lost.take()
    }

    /// Corrects the communicator on which the loss of data is reported.
    pub(crate) fn lost_on(&mut self, comm: usize) {
        if let Some((on, _)) = &mut self.lost {
            *on = comm;
        }
    }

    /// Packs what a request or a call has received. With a `status` it is a message, whose size the
    /// status tells; otherwise all of the target was written.
    ///
    /// # Safety
    /// MPI has completed writing to `target`.
    pub(crate) unsafe fn received(
        &mut self,
        mpi: &MpiProperties,
        types: &mut RecentTypes,
        target: &CallTarget,
        status: Option<&StatusBytes>,
    ) -> Item {
        let bytes = match (target, status) {
            (CallTarget::Nothing, _) => Some(0),
            (_, Some(status)) => Some(status.received(mpi)),
            (_, None) => None,
        };
        let target = target::resolved(target, types);
        // SAFETY: by the caller's promise.
        let payload = unsafe { self.packed(mpi, &target, bytes) }.unwrap_or_default();
        let status = status.copied().unwrap_or_default();
        Item::new(status, target, payload)
    }

    /// Packs a target, or the received bytes of it. `None`: out of memory, or it cannot be read; then
    /// the parts that need it cannot be replayed, and the call will fail.
    ///
    /// # Safety
    /// As for [`target::pack`].
    unsafe fn packed(
        &mut self,
        mpi: &MpiProperties,
        target: &CallTarget,
        bytes: Option<i64>,
    ) -> Option<Payload> {
        if !self.parts.can_log() {
            return None;
        }
        // SAFETY: by the caller's promise.
        let packed = unsafe { target::pack(target, mpi, &mut self.arena, bytes) };
        packed.map_err(|text| self.fail_parts(0, &text)).ok()
    }

    /// How a replayed call sends its message again; `None` if it does not.
    pub(crate) fn sends_again(&self, shape: &CallShape) -> Option<Route> {
        let link = self.replayed(shape)?.outcome.links.get(0);
        self.parts.closed()?.sent(link)
    }

    /// How a replayed non-blocking receive gets its message again; `None` if it does not.
    pub(crate) fn posts_again(&self, shape: &CallShape) -> Option<Route> {
        let link = self.replayed(shape)?.outcome.links.get(0);
        self.parts.closed()?.received(link)
    }

    /// How a replayed blocking receive gets its message again; `None` if it does not.
    pub(crate) fn receives_again(&self, shape: &CallShape) -> Option<Route> {
        let items = &self.replayed(shape)?.outcome.items;
        self.parts.closed()?.received(items.as_slice().first()?.link)
    }

    /// The next event of a replay, if it is that of this call.
    fn replayed(&self, shape: &CallShape) -> Option<&LogEvent> {
        match self.source() {
            Source::Mpi => None,
            Source::Log => self.parts.replaying()?.peek(shape),
        }
    }

    /// A message has been received again. If a part that is being recorded needs its bytes, they are
    /// logged.
    ///
    /// # Safety
    /// MPI has completed writing to `target`.
    pub(crate) unsafe fn keep_again(
        &mut self,
        mpi: &MpiProperties,
        at: Position,
        nth: usize,
        target: &CallTarget,
    ) {
        if !self.parts.log().lacks(at, nth) {
            return;
        }
        let event = self.parts.log().get(at);
        let status = event.and_then(|event| event.outcome.items.as_slice().get(nth));
        let Some(status) = status.map(|item| item.status) else { return };
        let bytes = status.received(mpi);
        // SAFETY: by the caller's promise; the first run's status tells how many bytes were received.
        if let Some(payload) = unsafe { self.packed(mpi, target, Some(bytes)) } {
            self.parts.log_mut().keep(at, nth, payload);
        }
    }

    /// Records that this event received the message of the probe with number `began`, if that is not 0.
    pub(crate) fn has_taken(&mut self, event: u64, began: u64) {
        if began != 0 {
            self.parts.log_mut().takes(event, began);
        }
    }
}
