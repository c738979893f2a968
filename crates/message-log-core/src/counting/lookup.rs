//! The stream that a message belongs to.

use super::{Counting, Envelope, Sender};
use crate::resend::comms::GroupIndex;
use crate::resend::shortcuts::NOBODY;
use crate::resend::streams::MessageStream;

impl Counting {
    /// The group of a communicator, which counts its messages. `None` if messages are not counted, or not on
    /// this communicator.
    #[inline]
    pub fn group(&mut self, comm: usize) -> Option<GroupIndex> {
        let counts = self.counts.as_mut()?;
        let group = counts.comms.get(comm & self.numbers.handle_bits);
        if group.is_none() {
            counts.streams.unknown();
        }
        group
    }

    /// The index of the stream that a message is sent on, if it was used recently; [`NOBODY`] if the message
    /// is not counted.
    #[inline(always)]
    pub fn outgoing_lately(&self, message: &Envelope) -> Option<u32> {
        let Some(counts) = &self.counts else { return Some(NOBODY) };
        counts.comms.outgoing.get(message.comm, message.peer, message.tag)
    }

    /// The index of the stream that a receive names, likewise.
    #[inline(always)]
    pub fn incoming_lately(&self, message: &Envelope) -> Option<u32> {
        let Some(counts) = &self.counts else { return Some(NOBODY) };
        counts.comms.incoming.get(message.comm, message.peer, message.tag)
    }

    /// The index of the stream that a message is sent on. `None` if it is not counted.
    #[inline]
    pub fn outgoing(&mut self, message: &Envelope) -> Option<u32> {
        let comms = &self.counts.as_ref()?.comms;
        match comms.outgoing.get(message.comm, message.peer, message.tag) {
            Some(place) => (place != NOBODY).then_some(place),
            None => self.outgoing_named(message),
        }
    }

    #[inline(never)]
    fn outgoing_named(&mut self, message: &Envelope) -> Option<u32> {
        if message.peer == self.numbers.proc_null {
            let comms = &mut self.counts.as_mut()?.comms;
            comms.outgoing.set(message.comm, message.peer, message.tag, NOBODY);
            return None;
        }
        let group = self.group(message.comm)?;
        let counts = self.counts.as_mut()?;
        let group = counts.comms.group(group);
        let Some(peer) = group.process(message.peer) else {
            counts.streams.unknown();
            return None;
        };
        let place =
            counts.streams.outgoing(MessageStream { comm: group.number, peer, tag: message.tag });
        counts.comms.outgoing.set(message.comm, message.peer, message.tag, place);
        Some(place)
    }

    /// The index of the stream that a receive names. `None` if it names none, or is not counted.
    #[inline]
    pub fn incoming(&mut self, message: &Envelope) -> Option<u32> {
        let comms = &self.counts.as_ref()?.comms;
        match comms.incoming.get(message.comm, message.peer, message.tag) {
            Some(place) => (place != NOBODY).then_some(place),
            None => self.incoming_named(message),
        }
    }

    #[inline(never)]
    fn incoming_named(&mut self, message: &Envelope) -> Option<u32> {
        if message.peer == self.numbers.proc_null {
            let comms = &mut self.counts.as_mut()?.comms;
            comms.incoming.set(message.comm, message.peer, message.tag, NOBODY);
            return None;
        }
        if self.is_any(message) {
            return None;
        }
        let group = self.group(message.comm)?;
        let counts = self.counts.as_mut()?;
        let group = counts.comms.group(group);
        let peer = group.process(message.peer)?;
        let place =
            counts.streams.incoming(MessageStream { comm: group.number, peer, tag: message.tag });
        counts.comms.incoming.set(message.comm, message.peer, message.tag, place);
        Some(place)
    }

    /// The index of the stream of a received message, by its status.
    #[inline(never)]
    pub fn incoming_of(&mut self, message: &Envelope, sender: Option<Sender>) -> Option<u32> {
        if self.counts.is_none() || message.peer == self.numbers.proc_null {
            return None;
        }
        let group = self.group(message.comm)?;
        let stream = self.stream_of(group, sender?)?;
        Some(self.counts.as_mut()?.streams.incoming(stream))
    }

    /// Whether a blocking receive may take messages of several streams.
    #[inline]
    pub fn is_any(&self, message: &Envelope) -> bool {
        message.peer == self.numbers.any_source || message.tag == self.numbers.any_tag
    }

    /// The stream of a received message, by its status.
    pub fn stream_of(&self, place: GroupIndex, sender: Sender) -> Option<MessageStream> {
        let group = self.counts.as_ref()?.comms.group(place);
        let peer = group.process(sender.rank)?;
        Some(MessageStream { comm: group.number, peer, tag: sender.tag })
    }
}
