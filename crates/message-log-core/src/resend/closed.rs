//! The messages of a part that this process sends and receives again, and their tags.

use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::BuildHasherDefault;
use std::ops::Range;

use super::key_hasher::KeyHasher;
use super::streams::{MessageLink, MessageStream, Streams};
use super::tightness;
use super::MOST;

/// Tags are reused after this many parts, when none of their messages can be in flight.
const PARTS: u64 = 15;

/// How a message is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The other process's rank in `MPI_COMM_WORLD`.
    pub peer: c_int,
    /// The stream's tag among this library's messages.
    pub tag: c_int,
}

/// The closed messages of a part that concern this process.
#[derive(Debug, Default)]
pub struct ClosedMessages {
    /// The number of the exchange that found them closed.
    pub(crate) number: u64,
    pub(crate) sent: HashMap<u32, (Range<u64>, Route), BuildHasherDefault<KeyHasher>>,
    pub(crate) received: HashMap<u32, (Range<u64>, Route), BuildHasherDefault<KeyHasher>>,
}

impl ClosedMessages {
    /// The messages of process `own` among those of all processes, which the exchange `number` found closed.
    pub fn new(
        streams: &mut Streams,
        own: u32,
        number: u64,
        all: &[tightness::ResentMessages],
    ) -> ClosedMessages {
        let mut closed = ClosedMessages { number, ..ClosedMessages::default() };
        for one in all {
            let pair = one.pair;
            let tag = (number % PARTS) as c_int * (MOST as c_int + 1) + one.nth as c_int;
            let stream = |peer| MessageStream { comm: pair.comm, peer, tag: pair.tag };
            let entry = |peer| (one.numbers.clone(), Route { peer: peer as c_int, tag });
            if pair.from == own {
                closed.sent.insert(streams.outgoing(stream(pair.to)), entry(pair.to));
            }
            if pair.to == own {
                closed.received.insert(streams.incoming(stream(pair.from)), entry(pair.from));
            }
        }
        closed
    }

    /// How a sent message is sent again.
    pub fn sent(&self, link: Option<MessageLink>) -> Option<Route> {
        route(&self.sent, link)
    }

    /// How a received message is received again.
    pub fn received(&self, link: Option<MessageLink>) -> Option<Route> {
        route(&self.received, link)
    }
}

fn route(
    table: &HashMap<u32, (Range<u64>, Route), BuildHasherDefault<KeyHasher>>,
    link: Option<MessageLink>,
) -> Option<Route> {
    let link = link?;
    let (numbers, route) = table.get(&link.stream)?;
    numbers.contains(&link.number).then_some(*route)
}
