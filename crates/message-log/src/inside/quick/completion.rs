//! Calls that complete requests: they are counted, and gone unless they are persistent.

use std::cell::Cell;
use std::ffi::c_int;

use crate::inside::counted::Counted;
use crate::inside::{At, SUCCESS};
use crate::pmpi::Ptr;
use crate::requests::{Life, Place, Request};
use crate::state::{self, State};

/// A request whose completion takes no status to be counted.
#[derive(Clone, Copy)]
enum Known {
    /// It is of no interest.
    No,
    /// It is gone when it is done.
    Plain(Place),
    /// It stays.
    Persistent(Place),
}

/// How many requests of a call are looked at.
const FEW: usize = 8;

/// A call that completes one request, if it says so with its flag or has none; `None`: it was not called.
///
/// # Safety
/// No part is open; `request` and `flag` are the call's.
#[inline(always)]
pub unsafe fn wait(
    request: Ptr,
    flag: *const c_int,
    real: impl FnOnce() -> c_int,
) -> Option<c_int> {
    (!request.is_null()).then_some(())?;
    // SAFETY: by the caller's promise, a handle is there before the call and after it.
    let handle = move |state: &State| unsafe { state.mpi.read_handle(request) };
    // SAFETY: by the caller's promise.
    let known = unsafe { state::look_at(|state| state.known(handle(state))) }?;
    let is_done = move |state: &State| match known {
        Known::No => false,
        Known::Plain(_) => handle(state) == state.mpi.request_null,
        // SAFETY: the call's flag.
        Known::Persistent(_) => flag.is_null() || unsafe { flag.read() } != 0,
    };
    let quick =
        |state: &mut State, code| code == SUCCESS && (!is_done(state) || state.ends_quickly(known));
    let slow = move |state: &mut State, code| {
        match known {
            Known::Plain(place) if code != SUCCESS => {
                let counted = state.requests.counted_at(place).copied().unwrap_or_default();
                if is_done(state) {
                    state.requests.remove_at(place);
                }
                state.is_done(&counted, None, true);
            }
            _ if code == SUCCESS => state.ends(known),
            _ if state.requests.is_empty() => {}
            _ => state.miscounts(),
        }
        code
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { state::passing(At::Outside, real, quick, slow) })
}

/// A call that completes all of a few requests; `None`: it was not called.
///
/// # Safety
/// No part is open; so many `requests` are the call's.
#[inline(always)]
pub unsafe fn wait_all(requests: Ptr, count: c_int, real: impl FnOnce() -> c_int) -> Option<c_int> {
    let count = usize::try_from(count).ok().filter(|&count| count <= FEW)?;
    (!requests.is_null() || count == 0).then_some(())?;
    let mut handles = [0; FEW];
    let prepare = |state: &mut State| {
        handles.iter_mut().take(count).enumerate().all(|(n, handle)| {
            // SAFETY: by the caller's promise.
            *handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(requests, n)) };
            state.known(*handle).is_some()
        })
    };
    // SAFETY: by the caller's promise.
    unsafe { state::look_at(prepare) }.then_some(())?;
    // As far as they are counted.
    let nth = Cell::new(0);
    let quick = |state: &mut State, code| {
        code == SUCCESS
            && handles.iter().take(count).all(|&handle| {
                let is_counted = state.known(handle).is_some_and(|known| state.ends_quickly(known));
                nth.set(nth.get() + usize::from(is_counted));
                is_counted
            })
    };
    let slow = |state: &mut State, code| {
        if code != SUCCESS && !state.requests.is_empty() {
            // Which are done and how can be told of each, but not what was sent or received.
            state.miscounts();
        }
        for (n, &handle) in handles.iter().enumerate().take(count).skip(nth.get()) {
            // SAFETY: by the caller's promise.
            let after = unsafe { state.mpi.read_handle(state.mpi.nth_handle(requests, n)) };
            match state.known(handle) {
                Some(known) if code == SUCCESS => state.ends(known),
                Some(Known::Plain(place)) if after == state.mpi.request_null => {
                    state.requests.remove_at(place);
                }
                _ => {}
            }
        }
        code
    };
    // SAFETY: by the caller's promise.
    Some(unsafe { state::passing(At::Outside, real, quick, slow) })
}

/// Whether a persistent request is one of a message, or sends one, and its completion takes no status.
#[inline(always)]
fn is_simple(known: &Request) -> bool {
    let is_counted = match &known.counted {
        Counted::Nothing | Counted::Send { .. } => true,
        Counted::Receive(posted) => !posted.ticket().is_any(),
        Counted::Matched(_) | Counted::Collective(_) => false,
    };
    let is_own = known.life == Life::Real && known.general.is_none();
    known.persistent && is_own && is_counted && !known.cancelled
}

impl State {
    /// What is known of a request, if that is simple.
    #[inline(always)]
    fn known(&self, handle: usize) -> Option<Known> {
        if let Some((place, counted)) = self.requests.plain(handle) {
            return (!counted.needs_status()).then_some(Known::Plain(place));
        }
        if !self.requests.has(handle) {
            return Some(Known::No);
        }
        let (place, known) = self.requests.alone(handle)?;
        is_simple(known).then_some(Known::Persistent(place))
    }

    /// A request is done. Whether it was counted, and is gone unless it is persistent.
    #[inline(always)]
    fn ends_quickly(&mut self, known: Known) -> bool {
        let counted = match known {
            Known::No => return true,
            Known::Plain(place) => self.requests.counted_at(place),
            Known::Persistent(place) => self.requests.at(place).map(|known| &known.counted),
        };
        let Some(counted) = counted else { return false };
        if let (Some(resend), Counted::Receive(posted)) = (&mut self.resend, counted) {
            if !resend.streams.received_quickly(posted.ticket()) {
                return false;
            }
        } else if let (Some(resend), Counted::Send { link, is_buffered }) =
            (&mut self.resend, counted)
        {
            resend.streams.send_done(*link, *is_buffered);
        }
        self.rests(known);
        true
    }

    /// A request that was counted is gone, or not under way any more.
    #[inline(always)]
    fn rests(&mut self, known: Known) {
        match known {
            Known::No => {}
            Known::Plain(place) => self.requests.remove_at(place),
            Known::Persistent(place) => {
                if let Some(known) = self.requests.at_mut(place) {
                    known.active = false;
                    known.counted = Counted::Nothing;
                }
            }
        }
    }

    /// As [`ends_quickly`](Self::ends_quickly), whatever it takes.
    fn ends(&mut self, known: Known) {
        let counted = match known {
            Known::No => None,
            Known::Plain(place) => self.requests.counted_at(place).copied(),
            Known::Persistent(place) => self.requests.at(place).map(|known| known.counted),
        };
        self.rests(known);
        self.is_done(&counted.unwrap_or_default(), None, false);
    }
}
