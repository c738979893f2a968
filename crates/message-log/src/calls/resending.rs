//! Sends and receives counted messages again in a replay.

use std::ffi::c_int;
use std::time::Instant;

use super::p2p::Message;
use super::SUCCESS;
use crate::log::{Position, Shape};
use crate::parts::Source;
use crate::pmpi::{self, Handle, Ptr};
use crate::refuse;
use crate::resend::closed::Route;
use crate::resend::exchange::PATIENCE;
use crate::state::State;
use crate::target::{Block, Target};

impl State {
    /// How a replayed call sends its message again; `None` if it does not.
    pub(crate) fn sends_again(&self, shape: &Shape) -> Option<Route> {
        if self.source() == Source::Mpi {
            return None;
        }
        let link = self.parts.peek(shape)?.outcome.links.get(0);
        self.parts.closed()?.sent(link)
    }

    /// How a replayed non-blocking receive gets its message again; `None` if it does not.
    pub(crate) fn posts_again(&self, shape: &Shape) -> Option<Route> {
        if self.source() == Source::Mpi {
            return None;
        }
        let link = self.parts.peek(shape)?.outcome.links.get(0);
        self.parts.closed()?.received(link)
    }

    /// How a replayed blocking receive gets its message again; `None` if it does not.
    pub(crate) fn receives_again(&self, shape: &Shape) -> Option<Route> {
        if self.source() == Source::Mpi {
            return None;
        }
        let items = &self.parts.peek(shape)?.outcome.items;
        self.parts.closed()?.received(items.as_slice().first()?.link)
    }

    /// The communicator for messages that are sent again.
    fn resend_comm(&self) -> Handle {
        self.resend.as_ref().map_or(self.mpi.comm_null, |resend| resend.channel.comm)
    }

    /// Counts the bytes of a message that is sent again.
    fn count_again(&mut self, message: &Message) {
        let datatype = self.mpi.abi.truncate(message.datatype);
        let bytes = message.count * self.types.get(datatype).size;
        if let Some(resend) = &mut self.resend {
            resend.resent += bytes as u64;
        }
    }

    /// Starts to send or receive a message again; returns the request.
    ///
    /// # Safety
    /// The message describes the application's memory.
    pub(crate) unsafe fn begin_again(
        &mut self,
        message: &Message,
        route: Route,
        sends: bool,
    ) -> Handle {
        if sends {
            self.count_again(message);
        }
        // SAFETY: by the caller's promise.
        unsafe { self.start_resent(message, route, sends) }
    }

    /// Starts to send or receive again the message of a persistent request at this index.
    ///
    /// # Safety
    /// The application has started such a request.
    pub(crate) unsafe fn begin_block_again(
        &mut self,
        block: &Block,
        route: Route,
        sends: bool,
    ) -> Handle {
        if let Some(resend) = self.resend.as_mut().filter(|_| sends) {
            resend.resent += block.bytes() as u64;
        }
        let (buf, datatype) = (block.buf as Ptr, block.datatype.handle());
        // SAFETY: by the caller's promise.
        unsafe {
            self.start_resent(&Message::new(buf, block.count, datatype, 0, 0, 0), route, sends)
        }
    }

    /// # Safety
    /// As for [`begin_again`](Self::begin_again).
    unsafe fn start_resent(&mut self, message: &Message, route: Route, sends: bool) -> Handle {
        let comm = self.resend_comm();
        let Message { buf, count, datatype, .. } = *message;
        let (count, Route { peer, tag }) = (count as c_int, route);
        let mut request = 0usize;
        let at = (&raw mut request).cast();
        // SAFETY: by the caller's promise; the buffer is as wide as any handle.
        unsafe {
            match sends {
                true => pmpi::isend(buf, count, datatype, peer, tag, comm, at),
                false => pmpi::irecv(buf, count, datatype, peer, tag, comm, at),
            };
            self.mpi.read_handle(at)
        }
    }

    /// Sends a message again.
    ///
    /// # Safety
    /// The message describes the application's memory.
    pub(crate) unsafe fn send_again(&mut self, message: &Message, route: Route) -> c_int {
        // SAFETY: by the caller's promise.
        let request = unsafe { self.begin_again(message, route, true) };
        self.wait_again(request, true)
    }

    /// Receives a message again.
    ///
    /// # Safety
    /// The message describes the application's memory.
    pub(crate) unsafe fn recv_again(&mut self, message: &Message, route: Route) -> c_int {
        // SAFETY: by the caller's promise.
        let request = unsafe { self.begin_again(message, route, false) };
        self.wait_again(request, false)
    }

    /// Waits until a message was sent or received again. If the other processes do not replay the part,
    /// that may never happen: then the replay is abandoned.
    pub(crate) fn wait_again(&mut self, request: Handle, sends: bool) -> c_int {
        let (mut handle, mut flag) = (0usize, 0);
        let at = (&raw mut handle).cast();
        // SAFETY: the buffer is as wide as any handle.
        unsafe { self.mpi.write_handle(at, request) };
        let since = Instant::now();
        loop {
            // SAFETY: a request of `begin_again`, or the null request.
            let code = unsafe { pmpi::test(at, &mut flag, self.mpi.numbers.status_ignore as Ptr) };
            if flag != 0 || code != SUCCESS {
                return code;
            }
            let Some(resend) = &mut self.resend else { return SUCCESS };
            if let Some(text) = resend.part_order.difference(&self.mpi) {
                let text = text.to_owned();
                // SAFETY: as above; nobody waits for it any more.
                unsafe {
                    if !sends {
                        pmpi::cancel(at);
                    }
                    pmpi::request_free(at);
                }
                self.parts.break_off(&text);
                return refuse::fail(&self.mpi, 0, &text);
            }
            if !resend.part_order.wait_reported && since.elapsed() > PATIENCE {
                resend.part_order.wait_reported = true;
                let part = self.parts.replay_at().map_or(0, |(part, _)| part);
                let why = match resend.part_order.is_ahead() {
                    true => "not all processes have begun it",
                    false => "all processes have begun it",
                };
                let does = if sends { "send" } else { "receive" };
                let text =
                    format!("the replay of part {part} waits to {does} a message again: {why}");
                refuse::warn(&self.mpi, &format!("{text} (VELOC_PART_RESEND)"));
            }
            std::thread::yield_now();
        }
    }

    /// A message has been received again. If a part that is being recorded needs its bytes, they are
    /// logged.
    ///
    /// # Safety
    /// MPI has completed writing to `target`.
    pub(crate) unsafe fn keep_again(&mut self, at: Position, nth: usize, target: &Target) {
        if !self.parts.lacks(at, nth) {
            return;
        }
        let event = self.parts.event(at);
        let status = event.and_then(|event| event.outcome.items.as_slice().get(nth));
        let Some(status) = status.map(|item| item.status) else { return };
        let bytes = status.bytes(&self.mpi);
        // SAFETY: by the caller's promise; the first run's status tells how many bytes were received.
        if let Some(payload) = unsafe { self.packed(target, Some(bytes)) } {
            self.parts.keep(at, nth, payload);
        }
    }

    /// Reports once that a part's messages cannot be sent again.
    pub(crate) fn no_resend(&mut self) {
        let mut processes = 1;
        // SAFETY: an integer of ours, and a communicator that always exists.
        unsafe { pmpi::comm_size(self.mpi.comm_world, &mut processes) };
        if self.resend.is_none() && !self.is_resend_missed && processes > 1 {
            self.is_resend_missed = true;
            let text = "no message is sent again (VELOC_PART_RESEND), all are logged: ";
            let why =
                "VELOC_MPI_STREAMS is 0, or MPI_Init was called before this library was loaded";
            refuse::warn(&self.mpi, &format!("{text}{why}"));
        }
    }
}
