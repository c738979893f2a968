//! The request handles before MPI changes them, and statuses for calls that ignore theirs.

use std::ffi::c_int;

use message_log_core::memory::{self, NoMemory};

use super::Completion;
use crate::pmpi::Ptr;
use crate::refuse;
use crate::state::LogState;
use crate::status::{MpiStatus as _, StatusBytes};

/// How many handles are kept without an allocation.
const FEW: usize = 16;

/// The request handles of a call, read before MPI changes them.
pub(super) enum RequestHandles {
    Few([usize; FEW], usize),
    Many(Vec<usize>),
}

impl RequestHandles {
    /// # Errors
    /// Out of memory.
    ///
    /// # Safety
    /// As for [`complete`](super::complete).
    pub(super) unsafe fn read(
        state: &LogState,
        call: &Completion,
    ) -> Result<RequestHandles, NoMemory> {
        // SAFETY: as many handles as the call says, by the promise of `complete`.
        let nth = |n| unsafe { state.mpi.read_handle(state.mpi.nth_handle(call.requests, n)) };
        let len = call.len();
        if len > FEW {
            let mut many = memory::room(len)?;
            many.extend((0..len).map(nth));
            return Ok(RequestHandles::Many(many));
        }
        let mut few = [0; FEW];
        for (n, handle) in few[..len].iter_mut().enumerate() {
            *handle = nth(n);
        }
        Ok(RequestHandles::Few(few, len))
    }

    pub(super) fn as_slice(&self) -> &[usize] {
        match self {
            RequestHandles::Few(few, len) => &few[..*len],
            RequestHandles::Many(handles) => handles,
        }
    }

    pub(super) fn get(&self, n: usize) -> Option<usize> {
        self.as_slice().get(n).copied()
    }
}

/// Statuses for a call that ignores its own.
#[derive(Default)]
pub(super) struct Statuses {
    one: StatusBytes,
    many: Vec<StatusBytes>,
}

impl Statuses {
    /// Where MPI writes the status or statuses.
    ///
    /// # Errors
    /// Out of memory.
    pub(super) fn place(&mut self, state: &LogState, call: &Completion) -> Result<Ptr, NoMemory> {
        let numbers = state.mpi.numbers;
        let ignored = if call.has_many() { numbers.statuses_ignore } else { numbers.status_ignore };
        Ok(match (call.statuses as usize == ignored, call.has_many()) {
            (false, _) => call.statuses,
            (true, false) => self.one.as_mut_ptr(),
            (true, true) => {
                self.many = memory::room(call.len() + 1)?;
                self.many.resize(call.len() + 1, StatusBytes::default());
                self.many.as_mut_ptr().cast()
            }
        })
    }
}

/// Fails a call before it has done anything: there is no memory for its handles and statuses.
#[cold]
pub(super) fn refuse(state: &LogState, call: &Completion) -> c_int {
    let text = format!("{}: there is no memory for its {} requests", call.call.0, call.count);
    refuse::fail(&state.mpi, 0, &text)
}
