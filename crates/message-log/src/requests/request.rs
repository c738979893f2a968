//! One request: what began it, where it receives, and whether MPI knows it.

use crate::calls::counted::Counted;
use crate::calls::p2p::Message;
use crate::log::{Call, Shape};
use crate::mpi::Mpi;
use crate::pmpi::{Handle, Ptr};
use crate::target::Target;

/// Whether MPI knows a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// As what it is.
    Real,
    /// As a generalized one: the replay of the instance with this number has begun it.
    Replayed(u64),
    /// As a generalized one that no replayed call has under way.
    Idle,
    /// As one whose result could not be given again.
    Foreign,
}

/// How far a generalized request of the application's is: MPI calls the application's functions for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum General {
    /// The application has begun it.
    Begun,
    /// It has said that it is done (`MPI_Grequest_complete`).
    Complete,
    /// It has given it up, and will still say that.
    Freed,
}

/// A request under way, or a persistent one.
#[derive(Clone, Debug)]
pub struct Request {
    /// The call that began it or, if it is persistent, made it.
    pub shape: Shape,
    /// Where it receives.
    pub target: Target,
    /// What it sends, if it is persistent.
    pub source: Target,
    /// Where the application had its handle when it began.
    pub place: usize,
    /// It receives one message, and the status says how much.
    pub is_message: bool,
    /// The number of what began it, 0 if that was outside parts. See
    /// [`Outcome::began`](crate::log::Outcome::began).
    pub began: u64,
    /// The number of what made it, if it is persistent; 0 if that was outside parts.
    pub made: u64,
    /// How many instances of parts had begun when it was made, if it is persistent.
    pub since: u64,
    /// It stays when it is done.
    pub persistent: bool,
    /// It is persistent and was started, and nobody has completed it.
    pub active: bool,
    /// It is a generalized one of the application's. That of a replay is real as well.
    pub general: Option<General>,
    /// Whether MPI knows it.
    pub life: Life,
    /// The application asked for its end.
    pub cancelled: bool,
    /// What it counts when it is done.
    pub counted: Counted,
    /// The request by which its message is sent or received again.
    pub again: Option<Handle>,
}

impl Request {
    /// One that MPI knows, has begun outside parts, and counts nothing when it is done.
    pub fn new(shape: Shape, target: Target, is_message: bool) -> Request {
        Request {
            shape,
            target,
            source: Target::Nothing,
            place: 0,
            is_message,
            began: 0,
            made: 0,
            since: 0,
            persistent: false,
            active: false,
            general: None,
            life: Life::Real,
            cancelled: false,
            counted: Counted::Nothing,
            again: None,
        }
    }

    /// As if nothing had begun, but for its shape.
    #[inline(always)]
    pub(super) fn reset(&mut self) {
        self.target = Target::Nothing;
        self.source = Target::Nothing;
        self.place = 0;
        self.is_message = false;
        (self.began, self.made, self.since) = (0, 0, 0);
        (self.persistent, self.active, self.cancelled) = (false, false, false);
        self.general = None;
        self.life = Life::Real;
        self.counted = Counted::Nothing;
        self.again = None;
    }

    /// Whether its handle is its own. Only a receive from another process can be sure of that.
    pub(super) fn is_unique(&self) -> bool {
        let is_own = self.persistent || self.general.is_some();
        is_own || self.life != Life::Real || self.is_message
    }
}

/// A send or a receive that has begun outside parts: as much as is needed if it ends inside one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain {
    /// The call that began it.
    pub call: Call,
    /// The communicator's handle.
    pub comm: usize,
    /// Where the application had its handle.
    pub place: usize,
    /// It receives, and there is a message.
    pub receives: bool,
    /// Where it receives.
    pub buf: usize,
    /// How many elements.
    pub count: i64,
    /// Their type's handle.
    pub datatype: usize,
    /// What it counts when it is done.
    pub counted: Counted,
}

impl Plain {
    /// What a call has begun, but for what that counts; `receives`: there is a message that it receives.
    #[inline(always)]
    pub fn note(&mut self, mpi: &Mpi, call: Call, message: &Message, receives: bool, request: Ptr) {
        self.call = call;
        self.comm = mpi.abi.truncate(message.comm);
        self.place = request as usize;
        self.receives = receives;
        self.buf = message.buf as usize;
        self.count = message.count;
        self.datatype = mpi.abi.truncate(message.datatype);
    }

    pub(super) fn known(&self) -> Request {
        let Plain { call, comm, place, receives, buf, count, datatype, counted } = *self;
        let target =
            if receives { Target::Plain { buf, count, datatype } } else { Target::Nothing };
        let shape = Shape { comm, ..Shape::new(call) };
        Request { place, counted, ..Request::new(shape, target, receives) }
    }
}
