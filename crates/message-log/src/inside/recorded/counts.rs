//! The counts of messages inside parts, by the quick way where no message of an open part is sent again.

use std::ffi::c_int;

use crate::inside::counted::Posted;
use crate::resend::shortcuts::NOBODY;
use crate::resend::streams::Link;
use crate::state::State;

impl State {
    /// A message of so many elements was sent, and its send completed.
    #[inline(always)]
    pub(super) fn sent_on(&mut self, stream: u32, count: i64, is_buffered: bool) -> Option<Link> {
        let streams = &mut self.resend.as_mut().filter(|_| stream != NOBODY)?.streams;
        if streams.sent_quickly(stream, is_buffered) {
            return None;
        }
        self.sent_and_linked(stream, count, is_buffered)
    }

    #[inline(never)]
    fn sent_and_linked(&mut self, stream: u32, count: i64, is_buffered: bool) -> Option<Link> {
        let link = self.begins_to_send(stream, count, is_buffered)?;
        self.resend.as_mut()?.streams.send_done(link, is_buffered);
        self.linked(Some(link))
    }

    /// A message of so many elements is being sent.
    #[inline(always)]
    pub(super) fn begins_to_send(
        &mut self,
        stream: u32,
        count: i64,
        is_buffered: bool,
    ) -> Option<Link> {
        let own = self.mpi.rank as u32;
        let streams = &mut self.resend.as_mut().filter(|_| stream != NOBODY)?.streams;
        let again =
            !is_buffered && streams.receiver(stream) != own && count <= i64::from(c_int::MAX);
        Some(streams.sent_at(stream, again))
    }

    /// A message was received, in a call that has posted its receive, for so many elements.
    #[inline(always)]
    pub(super) fn received_on(&mut self, stream: u32, count: i64) -> Option<Link> {
        let streams = &mut self.resend.as_mut().filter(|_| stream != NOBODY)?.streams;
        if streams.received_at_once_quickly(stream) {
            return None;
        }
        self.received_and_linked(stream, count)
    }

    #[inline(never)]
    fn received_and_linked(&mut self, stream: u32, count: i64) -> Option<Link> {
        let own = self.mpi.rank as u32;
        let streams = &mut self.resend.as_mut()?.streams;
        let again = streams.sender(stream) != own && count <= i64::from(c_int::MAX);
        let link = streams.received_at_once_at(stream, again);
        self.linked(Some(link))
    }

    /// A receive for so many elements was posted by the next event.
    #[inline(always)]
    pub(super) fn posted_on(&mut self, stream: u32, count: i64) -> Option<Posted> {
        let (event, own) = (self.parts.next_event(), self.mpi.rank as u32);
        let streams = &mut self.resend.as_mut().filter(|_| stream != NOBODY)?.streams;
        let again = streams.sender(stream) != own && count <= i64::from(c_int::MAX);
        let ticket = streams.posted_quickly(stream);
        let ticket = ticket.unwrap_or_else(|| streams.posted_at(stream));
        Some(Posted::at(ticket, event, again))
    }

    /// A receive that names its stream has got its message.
    #[inline(always)]
    pub(super) fn received_by(&mut self, posted: &Posted) -> Option<Link> {
        if self.resend.as_mut()?.streams.received_quickly(posted.ticket()) {
            return None;
        }
        self.arrives(posted, None)
    }
}
