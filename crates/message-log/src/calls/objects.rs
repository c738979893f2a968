//! Communicators and datatypes. Objects that a replay may still use are not freed.
//!
//! Communicators are made together with other processes, so a replay returns those of the first run, or
//! stand-ins for them. Types are local: a replay makes and frees its own.

use std::ffi::c_int;

use super::{with, At, SUCCESS};
use crate::deferred::Kind;
use crate::divergence;
use crate::log::{Call, Outcome, Shape};
use crate::memory::NoMemory;
use crate::parts::{NeededBy, Source};
use crate::pmpi::{Handle, Ptr};
use crate::refuse;
use crate::stand_ins::CommOrigin;
use crate::state::State;
use crate::types::Types;

/// A call that makes a communicator from `comm`. Messages on it are counted, outside parts too.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn make_comm(
    at: At,
    call: Call,
    comm: Handle,
    made: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let shape = Shape { comm: state.mpi.abi.truncate(comm), ..Shape::new(call) };
        if at == At::Outside || state.source() == Source::Mpi {
            if let Err(code) = state.reserve_comm(call, shape.comm) {
                return code;
            }
        }
        if at == At::Outside {
            let code = real();
            if code == SUCCESS {
                // SAFETY: by the caller's promise, MPI has written a handle there.
                let handle = unsafe { state.mpi.read_handle(made) };
                state.comm_made(call, shape.comm, handle, false);
            }
            return code;
        }
        match state.source() {
            Source::Mpi => {
                let code = real();
                let mut outcome = Outcome::of(code);
                if code == SUCCESS {
                    // SAFETY: by the caller's promise, MPI has written a handle there.
                    outcome.handle = unsafe { state.mpi.read_handle(made) };
                    state.comm_made(call, shape.comm, outcome.handle, true);
                }
                state.record(shape, outcome);
                code
            }
            Source::Log => match state.parts.next(&shape) {
                Ok(at) => {
                    let Some(event) = state.parts.event(at) else { return SUCCESS };
                    if event.outcome.code == SUCCESS {
                        // SAFETY: by the caller's promise.
                        unsafe { state.mpi.write_handle(made, event.outcome.handle) };
                    }
                    event.outcome.code
                }
                Err(divergence) => divergence::stop(state, &shape, &divergence),
            },
        }
    })
}

/// A collective call that changes a communicator; a replay does not repeat it.
pub(crate) fn set(call: Call, comm: Handle, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let comm = state.mpi.abi.truncate(comm);
        state.plain(Shape { comm, ..Shape::new(call) }, real)
    })
}

/// A call that gives a communicator an attribute; a replay repeats it.
pub(crate) fn set_attribute(
    call: Call,
    comm: Handle,
    keyval: c_int,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let comm = state.mpi.abi.truncate(comm);
        if state.stand_ins.reserve_keyval().is_err() {
            return refuse::no_memory(&state.mpi, comm, call.0);
        }
        let code = real();
        if code == SUCCESS {
            state.stand_ins.sets(keyval);
        }
        code
    })
}

/// A call that frees a kind of attributes; a replay repeats it.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn free_keyval(keyval: *mut c_int, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        // SAFETY: by the caller's promise.
        state.stand_ins.frees(unsafe { *keyval });
        real()
    })
}

/// A call that frees a communicator.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn free_comm(
    at: At,
    call: Call,
    comm: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        if at == At::Outside {
            // SAFETY: by the caller's promise.
            return unsafe { state.freeing_comm(comm, real) }.0;
        }
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(comm) };
        let mut shape = Shape { comm: handle, ..Shape::new(call) };
        if state.source() == Source::Mpi {
            // SAFETY: as above.
            let (code, logged) = unsafe { state.freeing_comm(comm, real) };
            shape.comm = logged;
            state.record(shape, Outcome::of(code));
            return code;
        }
        let code = state.plain(shape, || SUCCESS);
        if code == SUCCESS {
            // The first run has freed it.
            // SAFETY: as above.
            unsafe { state.mpi.write_handle(comm, state.mpi.comm_null) };
        }
        code
    })
}

/// A call that makes a type, inside or outside parts: types are local, so a replay makes its own.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn make_type(made: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let code = real();
        if code == SUCCESS {
            // SAFETY: by the caller's promise, MPI has written a handle there.
            let handle = unsafe { state.mpi.read_handle(made) };
            state.types.made(handle, state.parts.now());
        }
        code
    })
}

/// `MPI_Type_free`, inside or outside parts.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn free_type(datatype: Ptr, real: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: by the caller's promise.
    with(|state| unsafe { state.freeing_type(datatype, real) })
}

impl State {
    /// Reserves room to track a communicator before the call makes it, as the call must not fail afterwards.
    ///
    /// # Errors
    /// Out of memory; the result of the call, which has done nothing.
    fn reserve_comm(&mut self, call: Call, comm: usize) -> Result<(), c_int> {
        self.reserve(call, comm, 1)?;
        let own = self.names.reserve().and_then(|()| self.stand_ins.reserve());
        let room = own.and_then(|()| self.store.comms.reserve());
        let counted = |()| self.resend.as_mut().map_or(Ok(()), |resend| resend.comms.reserve());
        room.and_then(counted).map_err(|NoMemory| self.has_no_room(call, comm))
    }

    /// `call` has made the communicator `handle` from `comm`.
    fn comm_made(&mut self, call: Call, comm: usize, handle: usize, is_logged: bool) {
        self.names.made(&self.mpi, call, comm, handle);
        self.store.comms.made(&self.mpi, handle);
        if let Some(resend) = &mut self.resend {
            resend.comms.made(&self.mpi, handle);
        }
        // The call is recorded as the next event.
        let event = self.parts.next_event();
        let made = is_logged.then_some((call, event));
        let origin = CommOrigin { first: event + u64::from(made.is_some()), made };
        self.stand_ins.made(handle, (self.parts.live() > 0).then_some(origin));
        self.stand_ins.forget(handle);
        if call.0.starts_with("MPI_Comm_dup") {
            self.stand_ins.duplicated(handle);
        }
    }

    /// A communicator is freed.
    pub(crate) fn forget_comm(&mut self, handle: usize) {
        self.names.forget(handle);
        self.store.comms.forget(handle);
        self.stand_ins.forget(handle);
        if let Some(resend) = &mut self.resend {
            resend.comms.forget(handle);
        }
    }

    /// Frees a communicator, or keeps it if a replay may use it; fails if there is no memory to do that.
    /// Returns the result and the handle for the log.
    ///
    /// # Safety
    /// `comm` points to a handle.
    pub(super) unsafe fn freeing_comm(
        &mut self,
        comm: Ptr,
        real: impl FnOnce() -> c_int,
    ) -> (c_int, usize) {
        // SAFETY: by the caller's promise.
        let handle = unsafe { self.mpi.read_handle(comm) };
        let origin = self.stand_ins.freed(handle);
        let logged = match (self.parts.needed_by(&origin), origin.made) {
            (NeededBy::Nobody, _) => {
                self.forget_comm(handle);
                return (real(), handle);
            }
            (NeededBy::Replays, Some(made)) if !self.is_used_on(handle) => {
                let (end, at) = (self.parts.next_event() + 1, self.parts.now());
                self.stand_ins.stand_in(&self.mpi, handle, made, end, at)
            }
            _ => self.deferred.add(Kind::Comm, handle, self.parts.now()).map(|()| handle),
        };
        let Ok(logged) = logged else {
            self.stand_ins.made(handle, Some(origin));
            return (refuse::no_memory(&self.mpi, handle, "MPI_Comm_free"), handle);
        };
        if logged == handle {
            self.store.comms.freed(handle);
            // SAFETY: as above.
            unsafe { self.mpi.write_handle(comm, self.mpi.comm_null) };
            return (SUCCESS, handle);
        }
        if let Some((_, made)) = origin.made {
            self.parts.rename(made, handle, logged);
            self.names.shared(logged);
        }
        for (_, request) in self.requests.iter_mut() {
            if request.shape.comm == handle {
                request.shape.comm = logged;
            }
        }
        self.forget_comm(handle);
        (real(), logged)
    }

    /// Whether there are persistent requests on a communicator, which may still be started.
    fn is_used_on(&mut self, comm: usize) -> bool {
        self.requests.iter_mut().any(|(_, known)| known.persistent && known.shape.comm == comm)
    }

    /// Frees a type, or keeps it if a replay may use it. Returns the call's result.
    ///
    /// # Safety
    /// `datatype` points to a handle.
    pub(super) unsafe fn freeing_type(
        &mut self,
        datatype: Ptr,
        real: impl FnOnce() -> c_int,
    ) -> c_int {
        // SAFETY: by the caller's promise.
        let handle = unsafe { self.mpi.read_handle(datatype) };
        if handle == self.mpi.datatype_null {
            // MPI reports what is wrong.
            return real();
        }
        // The handle comes from the application's snapshot, and the first run has freed it already.
        let is_freed = self.deferred.has(Kind::Type, handle);
        if !is_freed {
            if self.keep_type(handle).is_err() {
                return refuse::no_memory(&self.mpi, 0, "MPI_Type_free");
            }
            let made = self.types.freed(handle);
            if !self.parts.has_since(made) {
                self.types.forget(handle);
                return real();
            }
            if self.deferred.add(Kind::Type, handle, self.parts.now()).is_err() {
                self.types.made(handle, made);
                return refuse::no_memory(&self.mpi, 0, "MPI_Type_free");
            }
        }
        // SAFETY: as above.
        unsafe { self.mpi.write_handle(datatype, self.mpi.datatype_null) };
        SUCCESS
    }

    /// Gives pending requests a copy of a type that the application frees.
    fn keep_type(&mut self, handle: usize) -> Result<(), NoMemory> {
        let mut copy = None;
        self.requests.expand_all()?;
        for (_, request) in self.requests.iter_mut() {
            for buffer in [&mut request.target, &mut request.source] {
                if buffer.uses(handle) {
                    let copy = copy.get_or_insert_with(|| Types::copy(&self.mpi, handle));
                    *buffer = buffer.with(handle, copy);
                }
            }
        }
        Ok(())
    }
}
