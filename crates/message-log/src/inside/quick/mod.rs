//! What most calls outside parts are: sends and receives on streams that were used lately, persistent ones
//! too, and waits for them. Nothing else is looked at here; a call that is otherwise is not made, and takes
//! the long way.
//!
//! Before a call is passed on its stream is looked up, and what has to be known of its request is put where
//! it will stand; afterwards they are counted. None of this panics.

mod completion;
mod persistent;

use std::ffi::c_int;

use super::counted::{Counted, Posted};
use super::p2p::Message;
use super::{At, SUCCESS};
use crate::log::Call;
use crate::memory::NoMemory;
use crate::pmpi::Ptr;
use crate::requests::Plain;
use crate::resend::shortcuts::NOBODY;
use crate::resend::Resend;
use crate::state::{self, State};

pub use completion::{wait, wait_all};
pub use persistent::start;

/// What a request does.
#[derive(Clone, Copy, Debug)]
enum Way {
    Send { is_buffered: bool },
    Receive,
}

/// A send that is done when it returns; `None`: it was not called.
///
/// # Safety
/// No part is open.
#[inline(always)]
pub unsafe fn send(
    message: &Message,
    is_buffered: bool,
    real: impl FnOnce() -> c_int,
) -> Option<c_int> {
    // SAFETY: by the caller's promise.
    let stream = unsafe { state::look_at(|state| state.outgoing_lately(message)) }?;
    let quick = |state: &mut State, code| match &mut state.resend {
        Some(resend) if stream != NOBODY => {
            code == SUCCESS && resend.streams.sent_quickly(stream, is_buffered)
        }
        _ => true,
    };
    let slow = move |state: &mut State, code| {
        let link = state.resend.as_mut().map(|resend| resend.streams.sent_at(stream, false));
        state.has_sent(link, is_buffered, code);
        code
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { state::passing(At::Outside, real, quick, slow) })
}

/// A receive that is done when it returns; `None`: it was not called.
///
/// # Safety
/// No part is open.
#[inline(always)]
pub unsafe fn recv(message: &Message, real: impl FnOnce() -> c_int) -> Option<c_int> {
    // SAFETY: by the caller's promise.
    let stream = unsafe { state::look_at(|state| state.incoming_lately(message)) }?;
    let quick = |state: &mut State, code| match &mut state.resend {
        Some(resend) if stream != NOBODY => {
            code == SUCCESS && resend.streams.received_at_once_quickly(stream)
        }
        _ => code == SUCCESS,
    };
    let slow = move |state: &mut State, code| {
        match &mut state.resend {
            Some(resend) if code == SUCCESS => {
                resend.streams.received_at_once_at(stream, false);
            }
            _ => state.miscounts(),
        }
        code
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { state::passing(At::Outside, real, quick, slow) })
}

/// A call that begins to send; `None`: it was not called.
///
/// # Safety
/// No part is open; `request` is the call's.
#[inline(always)]
pub unsafe fn isend(
    call: Call,
    message: &Message,
    is_buffered: bool,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> Option<c_int> {
    // SAFETY: by the caller's promise.
    unsafe {
        let stream = state::look_at(|state| state.outgoing_lately(message))?;
        begin(call, message, Way::Send { is_buffered }, stream, request, real)
    }
}

/// A call that begins to receive; `None`: it was not called.
///
/// # Safety
/// No part is open; `request` is the call's.
#[inline(always)]
pub unsafe fn irecv(
    call: Call,
    message: &Message,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> Option<c_int> {
    // SAFETY: by the caller's promise.
    unsafe {
        let stream = state::look_at(|state| state.incoming_lately(message))?;
        begin(call, message, Way::Receive, stream, request, real)
    }
}

/// # Safety
/// No part is open; `request` is the call's.
#[inline(always)]
unsafe fn begin(
    call: Call,
    message: &Message,
    way: Way,
    stream: u32,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> Option<c_int> {
    let prepare = |state: &mut State| {
        let receives = match way {
            Way::Send { .. } => false,
            Way::Receive => stream != NOBODY || message.peer != state.mpi.numbers.proc_null,
        };
        let plain = state.requests.about_to_begin()?;
        plain.note(&state.mpi, call, message, receives, request);
        Some(())
    };
    // SAFETY: by the caller's promise.
    unsafe { state::look_at(prepare) }?;
    let quick = |state: &mut State, code| {
        // SAFETY: by the caller's promise, MPI has written a handle there if it has returned this.
        code == SUCCESS && unsafe { state.has_begun_quickly(way, stream, request) }
    };
    let slow = move |state: &mut State, code| {
        let plain = state.requests.about_to_begin().copied();
        let Some(plain) = plain.filter(|_| code == SUCCESS) else {
            state.miscounts();
            return code;
        };
        let counted = state.counts(way, stream);
        // SAFETY: by the caller's promise, as above.
        let handle = unsafe { state.mpi.read_handle(request) };
        state.begun_plain(handle, Plain { counted, ..plain });
        code
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { state::passing(At::Outside, real, quick, slow) })
}

impl State {
    /// # Safety
    /// A handle is at `request`.
    #[inline(always)]
    unsafe fn has_begun_quickly(&mut self, way: Way, stream: u32, request: Ptr) -> bool {
        // SAFETY: by the caller's promise.
        let handle = unsafe { self.mpi.read_handle(request) };
        let Some(plain) = self.requests.has_begun(handle) else { return false };
        plain.counted = counts(&mut self.resend, way, stream);
        true
    }

    fn counts(&mut self, way: Way, stream: u32) -> Counted {
        counts(&mut self.resend, way, stream)
    }

    /// A plain request has begun.
    pub(super) fn begun_plain(&mut self, handle: usize, plain: Plain) {
        match self.requests.insert_plain(handle, plain) {
            // Its send was done when it began: only such requests share a handle.
            Ok(Some(before @ Counted::Send { .. })) => {
                self.is_done(&before, None, false);
            }
            Ok(_) => {}
            // A part in which it is completed cannot be replayed.
            Err(NoMemory) => self.miscounts(),
        }
    }
}

/// What a request counts when it is done: it has begun on this stream.
#[inline(always)]
fn counts(resend: &mut Option<Resend>, way: Way, stream: u32) -> Counted {
    match resend {
        Some(resend) if stream != NOBODY => match way {
            Way::Send { is_buffered } => {
                Counted::Send { link: resend.streams.sent_at(stream, false), is_buffered }
            }
            Way::Receive => {
                let ticket = resend.streams.posted_quickly(stream);
                Counted::Receive(Posted::of(
                    ticket.unwrap_or_else(|| resend.streams.posted_at(stream)),
                ))
            }
        },
        _ => Counted::Nothing,
    }
}
