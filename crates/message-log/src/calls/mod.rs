//! What each kind of call does inside and outside parts.
//!
//! Inside parts a call has two branches, selected by [`State::source`]: with [`Source::Mpi`] the call is
//! real, and its event is [recorded](State::record); with [`Source::Log`] the [next
//! event](crate::parts::Parts::next) has the outcome of the first run.

pub(crate) mod collective;
pub(crate) mod completion;
pub(crate) mod counted;
pub(crate) mod deferred_free;
pub(crate) mod fast_path;
pub(crate) mod general;
pub(crate) mod matched;
pub(crate) mod nonblocking;
pub(crate) mod objects;
pub(crate) mod p2p;
pub(crate) mod persistent;
pub(crate) mod plan;
pub(crate) mod probe;
pub(crate) mod requests;
pub(crate) mod resending;
pub(crate) mod sent;
pub(crate) mod starting;
pub(crate) mod streams;

use std::ffi::c_int;

use crate::divergence;
use crate::log::{Call, Item, Items, Outcome, Payload, Shape};
use crate::memory::NoMemory;
use crate::parts::Source;
use crate::pmpi::Ptr;
use crate::refuse;
use crate::state::{self, State};
use crate::status::Status;
use crate::target::Target;
use counted::Arrival;

/// Where a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// Outside parts. What the call begins or ends is tracked, as parts may need it.
    Outside,
    /// Inside a part.
    Inside,
}

/// MPI_SUCCESS, in every interface.
pub(crate) const SUCCESS: c_int = 0;

/// Runs a call's body with the state. The call fails if its data cannot be logged.
pub(crate) fn with(body: impl FnOnce(&mut State) -> c_int) -> c_int {
    state::call(|state| {
        if state.resend.as_ref().is_some_and(|resend| resend.is_resumed) {
            state.report_restart();
        }
        let code = body(state);
        finish_call(state, code)
    })
}

/// Ends a call that returned `code`. The call fails if its data could not be logged.
#[inline(always)]
pub(crate) fn finish_call(state: &mut State, code: c_int) -> c_int {
    if state.lost.is_some() {
        return has_lost(state).unwrap_or(code);
    }
    if state.arena.has_notice() {
        state.print_notice();
    }
    code
}

#[cold]
fn has_lost(state: &mut State) -> Option<c_int> {
    let (comm, text) = state.lost.take()?;
    Some(refuse::fail(&state.mpi, comm, &text))
}

impl State {
    /// The first call inside a part after a restart. It announces the restart to the other processes, and
    /// waits for them if it depends on messages that are sent again.
    #[cold]
    fn report_restart(&mut self) {
        let Some(resend) = self.resend.as_mut().filter(|_| self.parts.is_any_open()) else {
            return;
        };
        resend.is_resumed = false;
        resend.report_origin(&self.mpi);
        let waits = resend.verdicts.is_open() && self.parts.replays_closed();
        resend.take_verdicts(&self.mpi, &mut self.parts, waits);
    }

    /// Reserves room for what a call is about to begin and the events that it takes: once begun, the
    /// call must not fail. Nothing is needed if a replay has the result, or no recorded part can be
    /// replayed.
    ///
    /// # Errors
    /// Out of memory; the result of the call, which has done nothing.
    pub(crate) fn reserve(&mut self, call: Call, comm: usize, events: usize) -> Result<(), c_int> {
        if self.parts.source() != Some(Source::Mpi) || !self.parts.can_log() {
            return Ok(());
        }
        let room = self.parts.reserve(events).and_then(|()| self.requests.reserve());
        room.map_err(|NoMemory| self.has_no_room(call, comm))
    }

    /// Fails a call that has done nothing, as there is no memory to log it.
    #[cold]
    pub(crate) fn has_no_room(&self, call: Call, comm: usize) -> c_int {
        let text = format!("{}: there is no memory to log it, so it has done nothing", call.0);
        refuse::fail(&self.mpi, comm, &text)
    }

    /// Logs the outcome of a real call. Out of memory, the call fails.
    pub(crate) fn record(&mut self, shape: Shape, outcome: Outcome) {
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

    /// The source of a call's result inside parts.
    pub(crate) fn source(&self) -> Source {
        self.parts.source().unwrap_or(Source::Mpi)
    }

    /// Packs what a request or a call has received. With a `status` it is a message, whose size the
    /// status tells; otherwise all of the target was written.
    ///
    /// # Safety
    /// MPI has completed writing to `target`.
    pub(crate) unsafe fn received(&mut self, target: &Target, status: Option<&Status>) -> Item {
        let bytes = match (target, status) {
            (Target::Nothing, _) => Some(0),
            (_, Some(status)) => Some(status.bytes(&self.mpi)),
            (_, None) => None,
        };
        let target = target.resolved(&mut self.types);
        // SAFETY: by the caller's promise.
        let payload = unsafe { self.packed(&target, bytes) }.unwrap_or_default();
        let status = status.copied().unwrap_or_default();
        Item::new(status, target, payload)
    }

    /// Packs a target, or the received bytes of it. `None`: out of memory, or it cannot be read; then
    /// the parts that need it cannot be replayed, and the call will fail.
    ///
    /// # Safety
    /// As for [`Target::pack`].
    pub(crate) unsafe fn packed(&mut self, target: &Target, bytes: Option<i64>) -> Option<Payload> {
        if !self.parts.can_log() {
            return None;
        }
        // SAFETY: by the caller's promise.
        let packed = unsafe { target.pack(&self.mpi, &mut self.arena, bytes) };
        packed.map_err(|text| self.fail_parts(0, &text)).ok()
    }

    /// Prints the notice that the log has reached its memory limit.
    #[cold]
    pub(crate) fn print_notice(&mut self) {
        if let Some(text) = self.arena.notice() {
            refuse::warn(&self.mpi, &text);
        }
    }

    /// Corrects the communicator on which the loss of data is reported.
    pub(crate) fn lost_on(&mut self, comm: usize) {
        if let Some((on, _)) = &mut self.lost {
            *on = comm;
        }
    }

    /// Writes the bytes of a logged item to `target`, or to the first run's buffer. Fails with a text if
    /// there is less room now, or the memory cannot be written.
    ///
    /// # Safety
    /// `target` is resolved, and names the memory that the application passed.
    pub(crate) unsafe fn give(&self, item: &Item, target: Option<&Target>) -> Result<(), String> {
        let target = target.unwrap_or(&item.target);
        // SAFETY: by the caller's promise, or where MPI wrote in the first run; a replay has the same memory.
        unsafe { target.unpack(&self.mpi, item.payload.bytes()) }
    }

    /// A call that returns only its code.
    pub(crate) fn plain(&mut self, shape: Shape, real: impl FnOnce() -> c_int) -> c_int {
        match self.source() {
            Source::Mpi => {
                let code = real();
                self.record(shape, Outcome::of(code));
                code
            }
            Source::Log => match self.parts.next(&shape) {
                Ok(at) => self.parts.event(at).map_or(SUCCESS, |event| event.outcome.code),
                Err(divergence) => divergence::stop(self, &shape, &divergence),
            },
        }
    }

    /// A call that receives one message or the result of a collective call, with or without a status. `real`
    /// is called with a pointer for the status.
    ///
    /// # Safety
    /// The requirements of the MPI call.
    pub(crate) unsafe fn receiving(
        &mut self,
        shape: Shape,
        target: &Target,
        arrival: Arrival<'_>,
        status: Option<Ptr>,
        real: impl FnOnce(Ptr) -> c_int,
    ) -> c_int {
        match self.source() {
            Source::Mpi => {
                let mut own = Status::default();
                let ignored = self.mpi.numbers.status_ignore;
                let place = status.filter(|status| *status as usize != ignored);
                let code = real(place.unwrap_or(own.as_mut_ptr()));
                if let Some(place) = place {
                    // SAFETY: the application's status, by the caller's promise.
                    own = unsafe { Status::read(&self.mpi, place) };
                }
                let mut outcome = Outcome::of(code);
                if code == SUCCESS {
                    // SAFETY: the call has returned.
                    let mut item = unsafe { self.received(target, status.map(|_| &own)) };
                    self.lost_on(shape.comm);
                    item.link = self.arrives_by(arrival, &own);
                    outcome.items = Items::One(item);
                } else {
                    if status.is_some() {
                        // The source is known even if the buffer was too small.
                        outcome.items =
                            Items::One(Item::new(own, Target::Nothing, Payload::default()));
                    }
                    if !matches!(arrival, Arrival::Nothing) {
                        self.miscounts();
                    }
                }
                self.record(shape, outcome);
                code
            }
            Source::Log => {
                let at = match self.parts.next(&shape) {
                    Ok(at) => at,
                    Err(divergence) => return divergence::stop(self, &shape, &divergence),
                };
                let target = target.resolved(&mut self.types);
                let Some(event) = self.parts.event(at) else { return SUCCESS };
                let code = event.outcome.code;
                for item in event.outcome.items.as_slice() {
                    // SAFETY: the application's memory, by the caller's promise.
                    if let Err(text) = unsafe { self.give(item, Some(&target)) } {
                        let text = divergence::describe(self, &shape) + ": " + &text;
                        return divergence::broken(self, &shape, &text);
                    }
                    if let Some(status) = status {
                        // SAFETY: as above.
                        unsafe { item.status.write(&self.mpi, status) };
                    }
                }
                code
            }
        }
    }
}

/// A call on a request that `of` returned fails; both are named.
pub(crate) fn refuse_on(state: &mut State, call: Call, of: Call) -> c_int {
    let part = state.parts.innermost().unwrap_or_default();
    let text = format!(
        "{} cannot be called inside part {part} on a request of {}: it cannot be replayed",
        call.0, of.0
    );
    refuse::fail(&state.mpi, 0, &text)
}

/// A call that cannot be replayed fails with its name.
pub(crate) fn refuse(call: Call, comm: usize) -> c_int {
    with(|state| {
        let part = state.parts.innermost().unwrap_or_default();
        let text = format!("{} cannot be called inside part {part}: it cannot be replayed", call.0);
        let comm = state.mpi.abi.truncate(comm);
        refuse::fail(&state.mpi, comm, &text)
    })
}
