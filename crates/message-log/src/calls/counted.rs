//! Counts messages, so that they can be sent again.

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

/// The operation that is counted when a request completes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Counted {
    /// Nothing.
    #[default]
    Nothing,
    /// A sent message.
    Send {
        /// The message.
        link: Link,
        /// Whether the send completes without the receiver.
        is_buffered: bool,
    },
    /// A received message.
    Receive(Posted),
    /// A received message that was probed for.
    Matched(Link),
    /// A collective call.
    Collective(GroupIndex),
}

/// The message that is counted for a call that receives at once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arrival<'a> {
    /// Nothing.
    Nothing,
    /// A message.
    Message(&'a Message),
    /// A message that was probed for.
    Matched {
        /// The message, if it is known.
        link: Option<Link>,
        /// Whether this kind of call allows to receive it again.
        again: bool,
    },
}

impl Counted {
    /// Whether counting needs the status.
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
    /// For a wildcard receive, the group of its communicator.
    group: GroupIndex,
    /// Its index among the requests of that event.
    nth: u32,
    /// Whether this kind of call allows to receive it again.
    again: bool,
}

impl Posted {
    /// A receive outside parts that names its stream; it is never received again.
    #[inline(always)]
    pub(crate) fn of(ticket: Ticket) -> Posted {
        Posted { ticket, event: NO_EVENT, group: GroupIndex::default(), nth: 0, again: false }
    }

    /// The ticket that identifies it among the posted receives.
    #[inline(always)]
    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// This receive, as the `nth` request that the call has started.
    pub(crate) fn by(self, nth: usize) -> Posted {
        Posted { nth: nth as u32, ..self }
    }
}

/// Whether a send completes without the receiver. Its message is not sent again: that could wait for the
/// receiver, where the first run did not.
#[inline(always)]
pub(crate) fn is_buffered(call: &str) -> bool {
    call.starts_with("MPI_Bsend") || call.starts_with("MPI_Ibsend")
}

impl State {
    /// Counts a message that is sent. `again`: this kind of call allows to send it again.
    #[inline]
    pub(crate) fn sends(&mut self, message: &Message, again: bool) -> Option<Link> {
        let place = self.outgoing(message)?;
        self.sends_on(place, message.count, again)
    }

    /// Counts a send of `count` elements on the stream at `place`, unless that is [`NOBODY`].
    #[inline(always)]
    pub(super) fn sends_on(&mut self, place: u32, count: i64, again: bool) -> Option<Link> {
        let own = self.mpi.rank as u32;
        let streams = &mut self.resend.as_mut().filter(|_| place != NOBODY)?.streams;
        let again = again && streams.receiver(place) != own && count <= i64::from(c_int::MAX);
        Some(streams.sent_at(place, again))
    }

    /// Counts a completed send of `count` elements on the stream at `place`. Returns its link if an open part
    /// may need it.
    #[inline(always)]
    pub(super) fn sent_on(&mut self, place: u32, count: i64, is_buffered: bool) -> Option<Link> {
        let link = self.sends_on(place, count, !is_buffered)?;
        self.resend.as_mut()?.streams.send_done(link, is_buffered);
        self.linked(Some(link))
    }

    /// The operation that the request of a non-blocking send counts.
    #[inline]
    pub(crate) fn counts_send(&mut self, call: Call, message: &Message) -> Counted {
        let is_buffered = is_buffered(call.0);
        match self.sends(message, !is_buffered) {
            Some(link) => Counted::Send { link, is_buffered },
            None => Counted::Nothing,
        }
    }

    /// The operation that the request of a non-blocking receive counts.
    #[inline]
    pub(crate) fn counts_receive(&mut self, message: &Message) -> Counted {
        self.posts(message, true).map_or(Counted::Nothing, Counted::Receive)
    }

    /// A send has returned with this code.
    #[inline]
    pub(crate) fn has_sent(&mut self, link: Option<Link>, is_buffered: bool, code: c_int) {
        let (Some(link), Some(resend)) = (link, &mut self.resend) else { return };
        match code {
            SUCCESS => resend.streams.send_done(link, is_buffered),
            // It is unknown whether the message was sent.
            _ => resend.streams.miscounted(),
        }
    }

    /// Counts a receive that is posted.
    #[inline]
    pub(crate) fn posts(&mut self, message: &Message, again: bool) -> Option<Posted> {
        match self.incoming(message) {
            Some(place) => self.posts_on(place, message.count, again),
            None => self.posts_any(message, again),
        }
    }

    /// Counts a posted receive of `count` elements that names the stream at `place`, unless that is
    /// [`NOBODY`].
    #[inline(always)]
    pub(super) fn posts_on(&mut self, place: u32, count: i64, again: bool) -> Option<Posted> {
        let (event, own) = (self.posting_event(), self.mpi.rank as u32);
        let streams = &mut self.resend.as_mut().filter(|_| place != NOBODY)?.streams;
        let again = again && streams.sender(place) != own && count <= i64::from(c_int::MAX);
        Some(Posted { event, again, ..Posted::of(streams.posted_at(place)) })
    }

    /// The event that posts a receive now. Outside parts there is none: the next event is another call's.
    #[inline(always)]
    fn posting_event(&self) -> u64 {
        match self.parts.is_any_open() {
            true => self.parts.next_event(),
            false => NO_EVENT,
        }
    }

    /// Counts a posted receive whose stream is not known yet.
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

    /// A posted receive has completed. The status is used only for a wildcard receive.
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

    /// A receive that was posted by the same call has completed. The status is used only for a wildcard
    /// receive.
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

    /// Counts a completed receive of `count` elements that was posted by the same call, on the stream at
    /// `place` unless that is [`NOBODY`].
    #[inline(always)]
    pub(super) fn received_on(&mut self, place: u32, count: i64) -> Option<Link> {
        let own = self.mpi.rank as u32;
        let streams = &mut self.resend.as_mut().filter(|_| place != NOBODY)?.streams;
        let again = streams.sender(place) != own && count <= i64::from(c_int::MAX);
        let link = streams.received_at_once_at(place, again);
        streams.is_any_open().then_some(link)
    }

    /// A matched probe has returned a message with this status and handle.
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

    /// The link of a probed message that is being received, if it is known.
    pub(crate) fn matched(&mut self, message: Handle) -> Option<Link> {
        self.resend.as_mut()?.matched.remove(&message)
    }

    /// A probed message has been received. `again`: this kind of call allows to receive it again.
    pub(crate) fn takes(&mut self, link: Option<Link>, again: bool) -> Option<Link> {
        let link = link?;
        self.resend.as_mut()?.streams.taken(link, again);
        self.linked(Some(link))
    }

    /// Counts what a call has received at once.
    pub(crate) fn arrives_by(&mut self, arrival: Arrival<'_>, status: &Status) -> Option<Link> {
        match arrival {
            Arrival::Nothing => None,
            Arrival::Message(message) => self.arrives_at_once(message, Some(status)),
            Arrival::Matched { link, again } => self.takes(link, again),
        }
    }

    /// The link, if an open part may need it.
    pub(crate) fn linked(&self, link: Option<Link>) -> Option<Link> {
        let streams = &self.resend.as_ref()?.streams;
        link.filter(|_| streams.is_any_open())
    }

    /// A call makes the counts of messages unreliable.
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

    /// Counts the message of a completed request.
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

    /// A cancelled request has completed.
    pub(crate) fn is_cancelled(&mut self, counted: &Counted) {
        match (counted, &mut self.resend) {
            (Counted::Receive(posted), Some(resend)) => resend.streams.given_up(posted.ticket),
            (Counted::Send { .. }, _) => self.miscounts(),
            _ => {}
        }
    }
}
