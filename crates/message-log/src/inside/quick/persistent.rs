//! Persistent requests that are started again.

use std::ffi::c_int;

use super::{counts, Way};
use crate::inside::counted::{is_buffered, Counted};
use crate::inside::persistent::has_started;
use crate::inside::{At, SUCCESS};
use crate::pmpi::Ptr;
use crate::requests::{Life, Place, Request};
use crate::resend::shortcuts::NOBODY;
use crate::state::{self, State};
use crate::target::Target;

/// A call that starts requests; `None`: it was not called.
///
/// # Safety
/// No part is open; so many `requests` are the call's.
#[inline(always)]
pub unsafe fn start(requests: Ptr, count: c_int, real: impl FnOnce() -> c_int) -> Option<c_int> {
    let len = usize::try_from(count).ok()?;
    (!requests.is_null() || len == 0).then_some(())?;
    let nth = move |state: &State, n| {
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(requests, n)) };
        state.startable(handle)
    };
    // SAFETY: by the caller's promise.
    let is_known = unsafe { state::look_at(|state| (0..len).all(|n| nth(state, n).is_some())) };
    is_known.then_some(())?;
    let quick = |state: &mut State, code| {
        if code == SUCCESS {
            for n in 0..len {
                if let Some(Some(place)) = nth(state, n) {
                    state.starts_quickly(place);
                }
            }
        }
        code == SUCCESS
    };
    // SAFETY: by the caller's promise.
    let slow = move |state: &mut State, code| unsafe { has_started(state, requests, count, code) };
    // SAFETY: by the caller's promise.
    Some(unsafe { state::passing(At::Outside, real, quick, slow) })
}

/// Whether it was started before, so that its type was looked at.
#[inline(always)]
fn is_simple(known: &Request) -> bool {
    let is_own = known.life == Life::Real && known.general.is_none();
    let is_resolved = matches!(known.target, Target::Nothing | Target::One(_));
    known.persistent && is_own && is_resolved
}

impl State {
    /// A persistent request that sends or receives on a stream that was used lately, or `Some(None)`: one of
    /// which nothing is known, and nothing is noted.
    #[inline(always)]
    fn startable(&self, handle: usize) -> Option<Option<Place>> {
        if !self.requests.has(handle) {
            return Some(None);
        }
        let (place, known) = self.requests.alone(handle)?;
        (is_simple(known) && self.stream_of_started(known).is_some()).then_some(Some(place))
    }

    #[inline(always)]
    fn stream_of_started(&self, known: &Request) -> Option<u32> {
        let Some(resend) = &self.resend else { return Some(NOBODY) };
        let (peer, tag) = (known.shape.peer?, known.shape.tag?);
        match known.is_message {
            true => resend.comms.incoming.get(known.shape.comm, peer, tag),
            false => resend.comms.outgoing.get(known.shape.comm, peer, tag),
        }
    }

    /// MPI has started a request that is [startable](Self::startable).
    #[inline(always)]
    fn starts_quickly(&mut self, place: Place) {
        let Some(known) = self.requests.at(place) else { return };
        let stream = self.stream_of_started(known).unwrap_or(NOBODY);
        let way = match known.is_message {
            true => Way::Receive,
            false => Way::Send { is_buffered: is_buffered(known.shape.call.0) },
        };
        let counted: Counted = counts(&mut self.resend, way, stream);
        if let Some(known) = self.requests.at_mut(place) {
            known.began = 0;
            known.cancelled = false;
            known.active = true;
            known.counted = counted;
        }
    }
}
