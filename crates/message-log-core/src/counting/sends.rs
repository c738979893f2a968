//! What is counted of sends.

use std::ffi::c_int;

use super::{is_buffered, Counted, Counting, Envelope};
use crate::log::Call;
use crate::resend::shortcuts::NOBODY;
use crate::resend::streams::MessageLink;
use crate::status::SUCCESS;

impl Counting {
    /// Counts a message that is sent. `again`: this kind of call allows to send it again.
    #[inline]
    pub fn sends(&mut self, message: &Envelope, again: bool) -> Option<MessageLink> {
        let place = self.outgoing(message)?;
        self.sends_on(place, message.count, again)
    }

    /// Counts a send of `count` elements on the stream at `place`, unless that is [`NOBODY`].
    #[inline(always)]
    pub fn sends_on(&mut self, place: u32, count: i64, again: bool) -> Option<MessageLink> {
        let own = self.numbers.rank;
        let streams = &mut self.counts.as_mut().filter(|_| place != NOBODY)?.streams;
        let again = again && streams.receiver(place) != own && count <= i64::from(c_int::MAX);
        Some(streams.sent_at(place, again))
    }

    /// Counts a completed send of `count` elements on the stream at `place`. Returns its link if an open part
    /// may need it.
    #[inline(always)]
    pub fn sent_on(&mut self, place: u32, count: i64, is_buffered: bool) -> Option<MessageLink> {
        let link = self.sends_on(place, count, !is_buffered)?;
        self.counts.as_mut()?.streams.send_done(link, is_buffered);
        self.linked(Some(link))
    }

    /// The operation that the request of a non-blocking send counts.
    #[inline]
    pub fn counts_send(&mut self, call: Call, message: &Envelope) -> Counted {
        let is_buffered = is_buffered(call.0);
        match self.sends(message, !is_buffered) {
            Some(link) => Counted::Send { link, is_buffered },
            None => Counted::Nothing,
        }
    }

    /// A send has returned with this code.
    #[inline]
    pub fn has_sent(&mut self, link: Option<MessageLink>, is_buffered: bool, code: c_int) {
        let (Some(link), Some(counts)) = (link, &mut self.counts) else { return };
        match code {
            SUCCESS => counts.streams.send_done(link, is_buffered),
            // It is unknown whether the message was sent.
            _ => counts.streams.miscounted(),
        }
    }
}
