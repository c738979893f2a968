//! Messages that are counted, so that they can be sent again.

use std::ffi::c_int;

use super::p2p::Message;
use super::SUCCESS;
use crate::log::Call;
use crate::pmpi::Handle;
use crate::resend::comms::GroupIndex;
use crate::resend::shortcuts::NOBODY;
use crate::resend::streams::{Link, Pattern, Ticket};
use crate::state::State;
use crate::status::Status;

/// What a request counts when it is done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Counted {
    /// Nothing.
    #[default]
    Nothing,
    /// A message that is sent.
    Send {
        /// The message.
        link: Link,
        /// Its completion says nothing of its receiver.
        is_buffered: bool,
    },
    /// A message that is received.
    Receive(Posted),
    /// A message that is received and was probed for.
    Matched(Link),
    /// A collective call.
    Collective(GroupIndex),
}

/// What is counted when a call has received something at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival<'a> {
    /// Nothing.
    Nothing,
    /// A message.
    Message(&'a Message),
    /// One that was probed for, if it is known; `resending`: it can be received again, as far as the call
    /// goes.
    Matched {
        /// The message.
        link: Option<Link>,
        /// Whether it can.
        again: bool,
    },
}

impl Counted {
    /// Whether the status is needed to count it.
    #[inline]
    pub(crate) fn needs_status(&self) -> bool {
        matches!(self, Counted::Receive(posted) if posted.ticket.is_any())
    }
}

/// The event of a receive that was posted outside parts.
const NO_EVENT: u64 = u64::MAX;

/// A receive that was posted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Posted {
    ticket: Ticket,
    /// The number of the event that posted it, or [`NO_EVENT`].
    event: u64,
    /// If it names no stream: where it was posted.
    group: GroupIndex,
    /// Its place among the requests of that event.
    nth: u32,
    /// It can be received again, as far as the kind of call goes.
    again: bool,
}

impl Posted {
    /// Outside parts, where nothing is received again: one that names its stream.
    #[inline(always)]
    pub(crate) fn of(ticket: Ticket) -> Posted {
        Posted { ticket, event: NO_EVENT, group: GroupIndex::default(), nth: 0, again: false }
    }

    /// What names it among those that were posted.
    #[inline(always)]
    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// By the `nth` of the requests that the call has started.
    pub(crate) fn by(self, nth: usize) -> Posted {
        Posted { nth: nth as u32, ..self }
    }
}

/// Whether a call is one whose completion says nothing of the receiver. Its message is not sent again,
/// as that could wait for the receiver, and the part's first run did not.
#[inline(always)]
pub(crate) fn is_buffered(call: &str) -> bool {
    call.starts_with("MPI_Bsend") || call.starts_with("MPI_Ibsend")
}

impl State {
    /// A message is sent. `resending`: it can be sent again, as far as the kind of call goes.
    #[inline]
    pub(crate) fn sends(&mut self, message: &Message, again: bool) -> Option<Link> {
        let place = self.outgoing(message)?;
        self.sends_on(place, message.count, again)
    }

    /// A message of so many elements is sent on the stream at a place, unless that is [`NOBODY`]'s.
    #[inline(always)]
    pub(super) fn sends_on(&mut self, place: u32, count: i64, again: bool) -> Option<Link> {
        let own = self.mpi.rank as u32;
        let streams = &mut self.resend.as_mut().filter(|_| place != NOBODY)?.streams;
        let again = again && streams.receiver(place) != own && count <= i64::from(c_int::MAX);
        Some(streams.sent_at(place, again))
    }

    /// A message of so many elements was sent on the stream at a place, and its send completed. What names it,
    /// if parts are open that may need that.
    #[inline(always)]
    pub(super) fn sent_on(&mut self, place: u32, count: i64, is_buffered: bool) -> Option<Link> {
        let link = self.sends_on(place, count, !is_buffered)?;
        self.resend.as_mut()?.streams.send_done(link, is_buffered);
        self.linked(Some(link))
    }

    /// A non-blocking call sends a message: what its request counts.
    #[inline]
    pub(crate) fn counts_send(&mut self, call: Call, message: &Message) -> Counted {
        let is_buffered = is_buffered(call.0);
        match self.sends(message, !is_buffered) {
            Some(link) => Counted::Send { link, is_buffered },
            None => Counted::Nothing,
        }
    }

    /// A non-blocking call receives a message: what its request counts.
    #[inline]
    pub(crate) fn counts_receive(&mut self, message: &Message) -> Counted {
        self.posts(message, true).map_or(Counted::Nothing, Counted::Receive)
    }

    /// A message is sent, in so far as its call has returned with this code.
    #[inline]
    pub(crate) fn has_sent(&mut self, link: Option<Link>, is_buffered: bool, code: c_int) {
        let (Some(link), Some(resend)) = (link, &mut self.resend) else { return };
        match code {
            SUCCESS => resend.streams.send_done(link, is_buffered),
            // It may have been sent or not.
            _ => resend.streams.miscounted(),
        }
    }

    /// A receive is posted.
    #[inline]
    pub(crate) fn posts(&mut self, message: &Message, again: bool) -> Option<Posted> {
        match self.incoming(message) {
            Some(place) => self.posts_on(place, message.count, again),
            None => self.posts_any(message, again),
        }
    }

    /// A receive for so many elements is posted that names the stream at a place, unless that is
    /// [`NOBODY`]'s.
    #[inline(always)]
    pub(super) fn posts_on(&mut self, place: u32, count: i64, again: bool) -> Option<Posted> {
        let (event, own) = (self.posting_event(), self.mpi.rank as u32);
        let streams = &mut self.resend.as_mut().filter(|_| place != NOBODY)?.streams;
        let again = again && streams.sender(place) != own && count <= i64::from(c_int::MAX);
        Some(Posted { event, again, ..Posted::of(streams.posted_at(place)) })
    }

    /// The event of a receive that is posted now. Outside parts the next event is of another call.
    #[inline(always)]
    fn posting_event(&self) -> u64 {
        match self.parts.is_any_open() {
            true => self.parts.next_event(),
            false => NO_EVENT,
        }
    }

    /// A receive is posted that names no stream that is known.
    #[inline(never)]
    fn posts_any(&mut self, message: &Message, again: bool) -> Option<Posted> {
        self.resend.as_ref()?;
        if message.peer == self.mpi.numbers.proc_null || !self.is_any(message) {
            return None;
        }
        let (numbers, event) = (self.mpi.numbers, self.posting_event());
        let group = self.group(message.comm)?;
        let resend = self.resend.as_mut()?;
        let processes = resend.comms.group(group);
        let peer = match message.peer {
            any if any == numbers.any_source => None,
            peer => Some(processes.process(peer)?),
        };
        let tag = (message.tag != numbers.any_tag).then_some(message.tag);
        let ticket = resend.streams.posted(Pattern { comm: processes.number, peer, tag });
        let is_own = peer == Some(self.mpi.rank as u32);
        let again = again && !is_own && message.count <= i64::from(c_int::MAX);
        Some(Posted { group, event, again, ..Posted::of(ticket) })
    }

    /// A posted receive is done, with this status, which is looked at if the receive does not name a
    /// stream.
    #[inline]
    pub(crate) fn arrives(&mut self, posted: &Posted, status: Option<&Status>) -> Option<Link> {
        let (mut stream, mut again) = (None, posted.again);
        if posted.ticket.is_any() {
            stream = status.and_then(|status| self.stream_of(posted.group, status));
            again = again && stream.is_some_and(|stream| stream.peer != self.mpi.rank as u32);
        }
        let streams = &mut self.resend.as_mut()?.streams;
        let Some(link) = streams.received(posted.ticket, stream, again) else {
            streams.given_up(posted.ticket);
            return None;
        };
        let link = streams.is_any_open().then_some(link)?;
        if posted.again && posted.event != NO_EVENT {
            self.parts.link(posted.event, posted.nth as usize, link);
        }
        Some(link)
    }

    /// A receive that was posted in the same call is done, with this status, which is looked at if
    /// the receive does not name a stream.
    #[inline]
    pub(crate) fn arrives_at_once(
        &mut self,
        message: &Message,
        status: Option<&Status>,
    ) -> Option<Link> {
        let place = match self.is_any(message) {
            true => self.incoming_of(message, status)?,
            false => self.incoming(message)?,
        };
        self.received_on(place, message.count)
    }

    /// A receive for so many elements that was posted in the same call, on the stream at a place unless that is
    /// [`NOBODY`]'s, is done.
    #[inline(always)]
    pub(super) fn received_on(&mut self, place: u32, count: i64) -> Option<Link> {
        let own = self.mpi.rank as u32;
        let streams = &mut self.resend.as_mut().filter(|_| place != NOBODY)?.streams;
        let again = streams.sender(place) != own && count <= i64::from(c_int::MAX);
        let link = streams.received_at_once_at(place, again);
        streams.is_any_open().then_some(link)
    }

    /// A message was probed for and reserved, with this status and handle.
    pub(crate) fn matches(&mut self, comm: Handle, status: &Status, message: Handle) {
        if self.resend.is_none() || message == self.mpi.message_no_proc {
            return;
        }
        let Some(place) = self.group(comm) else { return };
        let Some(stream) = self.stream_of(place, status) else { return self.miscounts() };
        let again = stream.peer != self.mpi.rank as u32;
        let Some(resend) = &mut self.resend else { return };
        if resend.matched.try_reserve(1).is_err() {
            return self.miscounts();
        }
        let link = resend.streams.matched(stream, again);
        resend.matched.insert(message, link);
    }

    /// A message that was probed for is being received. What it is, if that is known.
    pub(crate) fn matched(&mut self, message: Handle) -> Option<Link> {
        self.resend.as_mut()?.matched.remove(&message)
    }

    /// A message that was probed for has been received. `resending`: it can be received again, as far as the
    /// call goes.
    pub(crate) fn takes(&mut self, link: Option<Link>, again: bool) -> Option<Link> {
        let link = link?;
        self.resend.as_mut()?.streams.taken(link, again);
        self.linked(Some(link))
    }

    /// What a call has received at once, with this status, is counted.
    pub(crate) fn arrives_by(&mut self, arrival: Arrival<'_>, status: &Status) -> Option<Link> {
        match arrival {
            Arrival::Nothing => None,
            Arrival::Message(message) => self.arrives_at_once(message, Some(status)),
            Arrival::Matched { link, again } => self.takes(link, again),
        }
    }

    /// A link, if parts are open that may need it.
    pub(crate) fn linked(&self, link: Option<Link>) -> Option<Link> {
        let streams = &self.resend.as_ref()?.streams;
        link.filter(|_| streams.is_any_open())
    }

    /// Something was done to messages that makes their counts wrong.
    pub(crate) fn miscounts(&mut self) {
        if let Some(resend) = &mut self.resend {
            resend.streams.miscounted();
        }
    }

    /// A collective call begins.
    pub(crate) fn collects(&mut self, comm: Handle) -> Option<GroupIndex> {
        self.resend.as_ref()?;
        let place = self.group(comm)?;
        let resend = self.resend.as_mut()?;
        let group = resend.comms.group(place);
        resend.streams.collective_begun(group.number, group.world.len() as u32);
        Some(place)
    }

    /// A collective call is done.
    pub(crate) fn has_collected(&mut self, place: Option<GroupIndex>) {
        if let (Some(place), Some(resend)) = (place, &mut self.resend) {
            let group = resend.comms.group(place);
            resend.streams.collective_done(group.number, group.world.len() as u32);
        }
    }

    /// What a request counts when it is done, with this status and as this code says.
    #[inline]
    pub(crate) fn is_done(
        &mut self,
        counted: &Counted,
        status: Option<&Status>,
        failed: bool,
    ) -> Option<Link> {
        self.resend.as_ref()?;
        match counted {
            Counted::Nothing => None,
            _ if failed => {
                self.miscounts();
                None
            }
            Counted::Send { link, is_buffered } => {
                self.has_sent(Some(*link), *is_buffered, SUCCESS);
                None
            }
            Counted::Receive(posted) => self.arrives(posted, status),
            Counted::Matched(link) => self.takes(Some(*link), true),
            Counted::Collective(group) => {
                self.has_collected(Some(*group));
                None
            }
        }
    }

    /// A request that was cancelled is done.
    pub(crate) fn is_cancelled(&mut self, counted: &Counted) {
        match (counted, &mut self.resend) {
            (Counted::Receive(posted), Some(resend)) => resend.streams.given_up(posted.ticket),
            (Counted::Send { .. }, _) => self.miscounts(),
            _ => {}
        }
    }
}
