//! A request: the call that began it, where it receives, and whether MPI has it.

use crate::counting::Counted;
use crate::log::{Call, CallShape};
use crate::target::CallTarget;

/// How MPI knows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestLife {
    /// As the original request.
    Real,
    /// As a generalized request that the replay of the instance with this number has begun.
    Replayed(u64),
    /// As a generalized request that is not active in a replay.
    Idle,
    /// As a request whose result could not be restored.
    Foreign,
}

/// The progress of a generalized request of the application, whose functions MPI calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum General {
    /// The application has begun it.
    Begun,
    /// It is complete (`MPI_Grequest_complete`).
    Complete,
    /// It was freed, and will be completed later.
    Freed,
}

/// An active or persistent request.
#[derive(Clone, Debug)]
pub struct MpiRequest {
    /// The call that began it or, if it is persistent, created it.
    pub shape: CallShape,
    /// Where it receives.
    pub target: CallTarget,
    /// The data to send, if the request is persistent.
    pub source: CallTarget,
    /// The address of the application's handle when it began.
    pub place: usize,
    /// Whether it receives a message, whose size the status tells.
    pub is_message: bool,
    /// The number of the operation that began it, 0: outside parts. See
    /// [`CallOutcome::began`](crate::log::CallOutcome::began).
    pub began: u64,
    /// The number of the operation that created it, if it is persistent; 0: outside parts.
    pub made: u64,
    /// How many instances of parts had begun when it was created, if it is persistent.
    pub since: u64,
    /// Whether it is persistent.
    pub persistent: bool,
    /// Whether it is persistent and active.
    pub active: bool,
    /// The state of a generalized request of the application, which a replay begins too.
    pub general: Option<General>,
    /// How MPI knows it.
    pub life: RequestLife,
    /// Whether it was cancelled.
    pub cancelled: bool,
    /// The operation that the request's completion counts.
    pub counted: Counted,
    /// The request by which its message is sent or received again.
    pub again: Option<usize>,
}

impl MpiRequest {
    /// A request that began outside parts and counts nothing.
    pub fn new(shape: CallShape, target: CallTarget, is_message: bool) -> MpiRequest {
        MpiRequest {
            shape,
            target,
            source: CallTarget::Nothing,
            place: 0,
            is_message,
            began: 0,
            made: 0,
            since: 0,
            persistent: false,
            active: false,
            general: None,
            life: RequestLife::Real,
            cancelled: false,
            counted: Counted::Nothing,
            again: None,
        }
    }

    /// Resets everything but its shape.
    #[inline(always)]
    pub(super) fn reset(&mut self) {
        self.target = CallTarget::Nothing;
        self.source = CallTarget::Nothing;
        self.place = 0;
        self.is_message = false;
        (self.began, self.made, self.since) = (0, 0, 0);
        (self.persistent, self.active, self.cancelled) = (false, false, false);
        self.general = None;
        self.life = RequestLife::Real;
        self.counted = Counted::Nothing;
        self.again = None;
    }

    /// Whether its handle is certainly unique: only for a receive from another process.
    pub(super) fn is_unique(&self) -> bool {
        let is_own = self.persistent || self.general.is_some();
        is_own || self.life != RequestLife::Real || self.is_message
    }
}

/// A send or a receive that began outside parts: what is needed if it completes inside one.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainRequest {
    /// The call that began it.
    pub call: Call,
    /// The communicator's handle.
    pub comm: usize,
    /// The address of the application's handle.
    pub place: usize,
    /// Whether it receives a message.
    pub receives: bool,
    /// Where it receives.
    pub buf: usize,
    /// The number of elements.
    pub count: i64,
    /// The handle of the elements' type.
    pub datatype: usize,
    /// The operation that the request's completion counts.
    pub counted: Counted,
}

impl PlainRequest {
    pub(super) fn known(&self) -> MpiRequest {
        let PlainRequest { call, comm, place, receives, buf, count, datatype, counted } = *self;
        let target =
            if receives { CallTarget::Plain { buf, count, datatype } } else { CallTarget::Nothing };
        let shape = CallShape { comm, ..CallShape::new(call) };
        MpiRequest { place, counted, ..MpiRequest::new(shape, target, receives) }
    }
}
