//! What is counted of receives, and of requests that complete.

use std::ffi::c_int;

use super::counted::NO_EVENT;
use super::{Counted, Counting, Envelope, ImmediateReceive, Posted, Sender};
use crate::parts::Parts;
use crate::resend::shortcuts::NOBODY;
use crate::resend::streams::{MessageLink, Pattern};
use crate::status::SUCCESS;

impl Counting {
    /// The operation that the request of a non-blocking receive counts.
    #[inline]
    pub fn counts_receive(&mut self, message: &Envelope, parts: &Parts) -> Counted {
        self.posts(message, true, parts).map_or(Counted::Nothing, Counted::Receive)
    }

    /// Counts a receive that is posted.
    #[inline]
    pub fn posts(&mut self, message: &Envelope, again: bool, parts: &Parts) -> Option<Posted> {
        match self.incoming(message) {
            Some(place) => self.posts_on(place, message.count, again, parts),
            None => self.posts_any(message, again, parts),
        }
    }

    /// Counts a posted receive of `count` elements that names the stream at `place`, unless that is
    /// [`NOBODY`].
    #[inline(always)]
    pub fn posts_on(
        &mut self,
        place: u32,
        count: i64,
        again: bool,
        parts: &Parts,
    ) -> Option<Posted> {
        let (event, own) = (posting_event(parts), self.numbers.rank);
        let streams = &mut self.counts.as_mut().filter(|_| place != NOBODY)?.streams;
        let again = again && streams.sender(place) != own && count <= i64::from(c_int::MAX);
        Some(Posted { event, again, ..Posted::of(streams.posted_at(place)) })
    }

    /// Counts a posted receive whose stream is not known yet.
    #[inline(never)]
    fn posts_any(&mut self, message: &Envelope, again: bool, parts: &Parts) -> Option<Posted> {
        self.counts.as_ref()?;
        if message.peer == self.numbers.proc_null || !self.is_any(message) {
            return None;
        }
        let (numbers, event) = (self.numbers, posting_event(parts));
        let group = self.group(message.comm)?;
        let counts = self.counts.as_mut()?;
        let processes = counts.comms.group(group);
        let peer = match message.peer {
            any if any == numbers.any_source => None,
            peer => Some(processes.process(peer)?),
        };
        let tag = (message.tag != numbers.any_tag).then_some(message.tag);
        let ticket = counts.streams.posted(Pattern { comm: processes.number, peer, tag });
        let is_own = peer == Some(self.numbers.rank);
        let again = again && !is_own && message.count <= i64::from(c_int::MAX);
        Some(Posted { group, event, again, ..Posted::of(ticket) })
    }

    /// A posted receive has completed. The status is used only for a wildcard receive.
    #[inline]
    fn arrives(
        &mut self,
        posted: &Posted,
        sender: Option<Sender>,
        parts: &mut Parts,
    ) -> Option<MessageLink> {
        let (mut stream, mut again) = (None, posted.again);
        if posted.ticket.is_any() {
            stream = sender.and_then(|sender| self.stream_of(posted.group, sender));
            again = again && stream.is_some_and(|stream| stream.peer != self.numbers.rank);
        }
        let streams = &mut self.counts.as_mut()?.streams;
        let Some(link) = streams.received(posted.ticket, stream, again) else {
            streams.given_up(posted.ticket);
            return None;
        };
        let link = streams.is_any_open().then_some(link)?;
        if posted.again && posted.event != NO_EVENT {
            parts.log_mut().link(posted.event, posted.nth as usize, link);
        }
        Some(link)
    }

    /// A receive that was posted by the same call has completed. The status is used only for a wildcard
    /// receive.
    #[inline]
    pub fn arrives_at_once(
        &mut self,
        message: &Envelope,
        sender: Option<Sender>,
    ) -> Option<MessageLink> {
        let place = match self.is_any(message) {
            true => self.incoming_of(message, sender)?,
            false => self.incoming(message)?,
        };
        self.received_on(place, message.count)
    }

    /// Counts a completed receive of `count` elements that was posted by the same call, on the stream at
    /// `place` unless that is [`NOBODY`].
    #[inline(always)]
    pub fn received_on(&mut self, place: u32, count: i64) -> Option<MessageLink> {
        let own = self.numbers.rank;
        let streams = &mut self.counts.as_mut().filter(|_| place != NOBODY)?.streams;
        let again = streams.sender(place) != own && count <= i64::from(c_int::MAX);
        let link = streams.received_at_once_at(place, again);
        streams.is_any_open().then_some(link)
    }

    /// A matched probe has returned a message with this status and handle.
    pub fn matches(&mut self, comm: usize, sender: Sender, message: usize) {
        if self.counts.is_none() || message == self.numbers.no_message {
            return;
        }
        let Some(place) = self.group(comm) else { return };
        let Some(stream) = self.stream_of(place, sender) else { return self.miscounts() };
        let again = stream.peer != self.numbers.rank;
        let Some(counts) = &mut self.counts else { return };
        if counts.matched.try_reserve(1).is_err() {
            return self.miscounts();
        }
        let link = counts.streams.matched(stream, again);
        counts.matched.insert(message, link);
    }

    /// The link of a probed message that is being received, if it is known.
    pub fn matched(&mut self, message: usize) -> Option<MessageLink> {
        self.counts.as_mut()?.matched.remove(&message)
    }

    /// A probed message has been received. `again`: this kind of call allows to receive it again.
    pub fn takes(&mut self, link: Option<MessageLink>, again: bool) -> Option<MessageLink> {
        let link = link?;
        self.counts.as_mut()?.streams.taken(link, again);
        self.linked(Some(link))
    }

    /// Counts what a call has received at once.
    pub fn arrives_by(&mut self, arrival: ImmediateReceive, sender: Sender) -> Option<MessageLink> {
        match arrival {
            ImmediateReceive::Nothing => None,
            ImmediateReceive::Message(message) => self.arrives_at_once(&message, Some(sender)),
            ImmediateReceive::Matched { link, again } => self.takes(link, again),
        }
    }

    /// Counts the message of a completed request.
    #[inline]
    pub fn is_done(
        &mut self,
        counted: &Counted,
        sender: Option<Sender>,
        failed: bool,
        parts: &mut Parts,
    ) -> Option<MessageLink> {
        self.counts.as_ref()?;
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
            Counted::Receive(posted) => self.arrives(posted, sender, parts),
            Counted::Matched(link) => self.takes(Some(*link), true),
            Counted::Collective(group) => {
                self.has_collected(Some(*group));
                None
            }
        }
    }

    /// A cancelled request has completed.
    pub fn is_cancelled(&mut self, counted: &Counted) {
        match (counted, &mut self.counts) {
            (Counted::Receive(posted), Some(counts)) => counts.streams.given_up(posted.ticket),
            (Counted::Send { .. }, _) => self.miscounts(),
            _ => {}
        }
    }
}

/// The event that posts a receive now. Outside parts there is none: the next event is another call's.
#[inline(always)]
fn posting_event(parts: &Parts) -> u64 {
    match parts.open().is_any() {
        true => parts.next_event(),
        false => NO_EVENT,
    }
}
