//! What most calls are, outside parts and inside parts that are recorded: sends and receives on streams that
//! were used lately, and waits for them; inside parts of types without gaps in host memory. A call that is
//! otherwise is not made here, and takes the general way.
//!
//! Before a call is passed on it is seen to that it can be noted where it stands. What could not be known
//! before, such as an error, is noted by the general way, which is told what the call has returned instead of
//! making it. None of this panics, nor does what keeps a payload (`crate::log`): no panic would be caught here.
//!
//! Each function is compiled into each call twice, with `at` as a constant.

mod requests;

use std::ffi::c_int;
use std::rc::Rc;

use super::counted::is_buffered;
use super::p2p::{self, Message};
use super::{At, SUCCESS};
use crate::copy;
use crate::device;
use crate::log::{Arena, Call, Item, Items, Outcome, Payload, Shape};
use crate::pmpi::Ptr;
use crate::state::{self, State};
use crate::status::Status;
use crate::target::Target;
use crate::types::Datatype;

pub(crate) use requests::{irecv, isend, wait};

/// A send that is done when it returns; `None`: it was not called.
///
/// # Safety
/// The phase is that of `at`; as MPI says of the call.
#[inline(always)]
pub(crate) unsafe fn send(
    at: At,
    call: Call,
    message: &Message,
    real: impl FnOnce() -> c_int,
) -> Option<c_int> {
    let prepare = |state: &mut State| {
        Some((state.room_to_note(at, call, message)?, state.outgoing_lately(message)?))
    };
    // SAFETY: by the caller's promise.
    let (noted, stream) = unsafe { state::with_state(prepare) }?;
    let quick = |state: &mut State, code| {
        if code != SUCCESS {
            return false;
        }
        let link = state.sent_on(stream, message.count, is_buffered(call.0));
        let Some(shape) = noted else { return true };
        if link.is_none() && state.parts.record_same(shape) {
            return true;
        }
        let outcome = Outcome { links: link.into(), ..Outcome::of(SUCCESS) };
        state.parts.record_in_room(shape, outcome)
    };
    let message = *message;
    let slow = move |state: &mut State, code| p2p::sending(state, at, call, &message, || code);
    // SAFETY: by the caller's promise.
    Some(unsafe { state::pass_through(at, real, quick, slow) })
}

/// A receive that is done when it returns; `None`: it was not called. `real` gets the place for the status.
///
/// # Safety
/// The phase is that of `at`; as MPI says of the call.
#[inline(always)]
pub(crate) unsafe fn recv(
    at: At,
    call: Call,
    message: &Message,
    status: Ptr,
    real: impl FnOnce(Ptr) -> c_int,
) -> Option<c_int> {
    let prepare = |state: &mut State| {
        let noted = state.room_to_note(at, call, message)?;
        if noted.is_some() {
            (!device::is_there() && state.known_type(message)?.is_dense).then_some(())?;
        }
        Some((noted, state.incoming_lately(message)?, state.mpi.numbers.status_ignore))
    };
    // SAFETY: by the caller's promise.
    let (noted, stream, ignored) = unsafe { state::with_state(prepare) }?;
    let mut own = Status::default();
    let is_own = noted.is_some() && status as usize == ignored;
    let place = if is_own { own.as_mut_ptr() } else { status };
    let quick = |state: &mut State, code| {
        if code != SUCCESS {
            return false;
        }
        let Some(shape) = noted else {
            state.received_on(stream, message.count);
            return true;
        };
        // SAFETY: MPI has written it.
        let status = unsafe { Status::read(&state.mpi, place) };
        let bytes = status.bytes(&state.mpi);
        let State { types, arena, mpi, .. } = state;
        let Some(datatype) = types.recent(mpi.abi.truncate(message.datatype)) else { return false };
        let (buf, count) = (message.buf as usize, message.count);
        // SAFETY: the call has returned; it was seen that the memory is no device's.
        let packed = unsafe { packed(arena, datatype, buf, count, bytes) };
        let Some(payload) = packed else { return false };
        let link = state.received_on(stream, message.count);
        // A replay of the call says itself where to.
        let item = Item { link, ..Item::new(status, Target::Nothing, payload) };
        let outcome = Outcome { items: Items::One(item), ..Outcome::of(SUCCESS) };
        state.parts.record_in_room(shape, outcome)
    };
    let message = *message;
    let slow = move |state: &mut State, code| {
        let mpi = state.mpi;
        let real = |to: Ptr| {
            // Outside parts nobody asks for the status of what has failed.
            if at == At::Inside {
                // SAFETY: MPI has written it there, and wherever it is wanted is room for it.
                unsafe { Status::read(&mpi, place).write_all(&mpi, to) };
            }
            code
        };
        // SAFETY: by the caller's promise.
        unsafe { p2p::receiving(state, at, call, &message, status, real) }
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { state::pass_through(at, || real(place), quick, slow) })
}

/// Packs what lies at an address of elements without gaps, or as many bytes of it as were received. `None`: the
/// general way will say why not.
///
/// # Safety
/// MPI has completed what writes there, and the host can read it.
#[inline(always)]
unsafe fn packed(
    arena: &mut Arena,
    datatype: &Datatype,
    buf: usize,
    count: i64,
    received: i64,
) -> Option<Payload> {
    let all = count.checked_mul(datatype.size)?;
    let wanted = if received >= all { all } else { all.min(datatype.whole(received)) };
    let len = usize::try_from(wanted).ok()?;
    let from = (buf as i64).checked_add(datatype.lb)? as *const u8;
    // SAFETY: by the caller's promise.
    if let Some(payload) = unsafe { Payload::copied(from, len) } {
        return Some(payload);
    }
    // SAFETY: as above.
    let copied =
        |to: &mut [u8]| unsafe { copy::into_log(to.as_mut_ptr().cast(), from.cast(), to.len()) };
    arena.keep(len, copied).ok()
}

impl State {
    /// As what a call is noted that is made now: outside parts as nothing, `Some(None)`. `None`: it cannot be
    /// noted where it stands.
    #[inline(always)]
    fn room_to_note(&self, at: At, call: Call, message: &Message) -> Option<Option<Shape>> {
        if at == At::Outside {
            return Some(None);
        }
        self.has_room().then_some(())?;
        let Message { count, peer, tag, comm, .. } = *message;
        let (comm, size) = (self.mpi.abi.truncate(comm), self.known_type(message)?.size);
        Some(Some(Shape { call, comm, peer: Some(peer), tag: Some(tag), count, size }))
    }

    /// Whether a call made now is recorded, and there is room to note it and nothing to be done before.
    #[inline(always)]
    fn has_room(&self) -> bool {
        self.parts.has_room() && self.resend.as_ref().is_none_or(|resend| !resend.is_resumed)
    }

    /// The type of a message, if it was used lately.
    #[inline(always)]
    fn known_type(&self, message: &Message) -> Option<&Rc<Datatype>> {
        self.types.recent(self.mpi.abi.truncate(message.datatype))
    }
}
