//! The stream that a message belongs to.

use super::p2p::Message;
use crate::pmpi::Handle;
use crate::resend::comms::GroupIndex;
use crate::resend::shortcuts::NOBODY;
use crate::resend::streams::Stream;
use crate::state::State;
use crate::status::Status;

impl State {
    /// The group of a communicator, which counts its messages. `None` if messages are not counted, or not on
    /// this communicator.
    #[inline]
    pub(super) fn group(&mut self, comm: Handle) -> Option<GroupIndex> {
        let resend = self.resend.as_mut()?;
        let group = resend.comms.get(self.mpi.abi.truncate(comm));
        if group.is_none() {
            resend.streams.unknown();
        }
        group
    }

    /// The index of the stream that a message is sent on, if it was used recently; [`NOBODY`] if the message
    /// is not counted.
    #[inline(always)]
    pub(super) fn outgoing_lately(&self, message: &Message) -> Option<u32> {
        let Some(resend) = &self.resend else { return Some(NOBODY) };
        resend.comms.outgoing.get(message.comm, message.peer, message.tag)
    }

    /// The index of the stream that a receive names, likewise.
    #[inline(always)]
    pub(super) fn incoming_lately(&self, message: &Message) -> Option<u32> {
        let Some(resend) = &self.resend else { return Some(NOBODY) };
        resend.comms.incoming.get(message.comm, message.peer, message.tag)
    }

    /// The index of the stream that a message is sent on. `None` if it is not counted.
    #[inline]
    pub(super) fn outgoing(&mut self, message: &Message) -> Option<u32> {
        let comms = &self.resend.as_ref()?.comms;
        match comms.outgoing.get(message.comm, message.peer, message.tag) {
            Some(place) => (place != NOBODY).then_some(place),
            None => self.outgoing_named(message),
        }
    }

    #[inline(never)]
    fn outgoing_named(&mut self, message: &Message) -> Option<u32> {
        if message.peer == self.mpi.numbers.proc_null {
            let comms = &mut self.resend.as_mut()?.comms;
            comms.outgoing.set(message.comm, message.peer, message.tag, NOBODY);
            return None;
        }
        let group = self.group(message.comm)?;
        let resend = self.resend.as_mut()?;
        let group = resend.comms.group(group);
        let Some(peer) = group.process(message.peer) else {
            resend.streams.unknown();
            return None;
        };
        let place = resend.streams.outgoing(Stream { comm: group.number, peer, tag: message.tag });
        resend.comms.outgoing.set(message.comm, message.peer, message.tag, place);
        Some(place)
    }

    /// The index of the stream that a receive names. `None` if it names none, or is not counted.
    #[inline]
    pub(super) fn incoming(&mut self, message: &Message) -> Option<u32> {
        let comms = &self.resend.as_ref()?.comms;
        match comms.incoming.get(message.comm, message.peer, message.tag) {
            Some(place) => (place != NOBODY).then_some(place),
            None => self.incoming_named(message),
        }
    }

    #[inline(never)]
    fn incoming_named(&mut self, message: &Message) -> Option<u32> {
        if message.peer == self.mpi.numbers.proc_null {
            let comms = &mut self.resend.as_mut()?.comms;
            comms.incoming.set(message.comm, message.peer, message.tag, NOBODY);
            return None;
        }
        if self.is_any(message) {
            return None;
        }
        let group = self.group(message.comm)?;
        let resend = self.resend.as_mut()?;
        let group = resend.comms.group(group);
        let peer = group.process(message.peer)?;
        let place = resend.streams.incoming(Stream { comm: group.number, peer, tag: message.tag });
        resend.comms.incoming.set(message.comm, message.peer, message.tag, place);
        Some(place)
    }

    /// The index of the stream of a received message, by its status.
    #[inline(never)]
    pub(super) fn incoming_of(
        &mut self,
        message: &Message,
        status: Option<&Status>,
    ) -> Option<u32> {
        if self.resend.is_none() || message.peer == self.mpi.numbers.proc_null {
            return None;
        }
        let group = self.group(message.comm)?;
        let stream = self.stream_of(group, status?)?;
        Some(self.resend.as_mut()?.streams.incoming(stream))
    }

    /// Whether a blocking receive may take messages of several streams.
    #[inline]
    pub(crate) fn is_any(&self, message: &Message) -> bool {
        message.peer == self.mpi.numbers.any_source || message.tag == self.mpi.numbers.any_tag
    }

    /// The stream of a received message, by its status.
    pub(super) fn stream_of(&self, place: GroupIndex, status: &Status) -> Option<Stream> {
        let group = self.resend.as_ref()?.comms.group(place);
        let peer = group.process(status.source(&self.mpi))?;
        Some(Stream { comm: group.number, peer, tag: status.tag(&self.mpi) })
    }
}
