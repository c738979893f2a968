//! Counts messages, so that they can be sent again.
//!
//! | file | owns |
//! | --- | --- |
//! | `counted` | what a call or a request counts |
//! | `lookup` | the stream that a message belongs to |
//! | `sends`, `receives` | what is counted of sends and of receives |

mod counted;
mod lookup;
mod receives;
mod sends;

use std::collections::HashMap;
use std::ffi::c_int;
use std::hash::BuildHasherDefault;

use crate::resend::comms::{Comms, GroupIndex};
use crate::resend::streams::{MessageLink, Streams};
use crate::resend::KeyHasher;

pub use counted::{is_buffered, Counted, Envelope, ImmediateReceive, Posted, Sender};

/// The numbers by which the process's MPI library tells messages apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatchingNumbers {
    /// `MPI_ANY_SOURCE`.
    pub any_source: c_int,
    /// `MPI_ANY_TAG`.
    pub any_tag: c_int,
    /// `MPI_PROC_NULL`.
    pub proc_null: c_int,
    /// `MPI_MESSAGE_NO_PROC`.
    pub no_message: usize,
    /// The bits of a handle in an argument.
    pub handle_bits: usize,
    /// This process's rank in `MPI_COMM_WORLD`.
    pub rank: u32,
}

/// Counts messages, if some may be sent again; otherwise all of its methods count nothing.
#[derive(Debug, Default)]
pub struct Counting {
    numbers: MatchingNumbers,
    counts: Option<MessageCounts>,
}

/// What is counted.
#[derive(Debug, Default)]
struct MessageCounts {
    comms: Comms,
    streams: Streams,
    /// Messages of matched probes that are not received yet, by handle.
    matched: HashMap<usize, MessageLink, BuildHasherDefault<KeyHasher>>,
}

impl Counting {
    /// Counts from now on. Nothing was sent before.
    pub fn start(&mut self, numbers: MatchingNumbers) {
        (self.numbers, self.counts) = (numbers, Some(MessageCounts::default()));
    }

    /// Whether messages are counted.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.counts.is_some()
    }

    /// The application's communicators.
    pub fn comms(&mut self) -> Option<&mut Comms> {
        self.counts.as_mut().map(|counts| &mut counts.comms)
    }

    /// The streams of messages, with counts.
    #[inline(always)]
    pub fn streams(&mut self) -> Option<&mut Streams> {
        self.counts.as_mut().map(|counts| &mut counts.streams)
    }

    /// Whether messages may be sent again: a part is open that allows it.
    pub fn may_resend(&self) -> bool {
        self.counts.as_ref().is_some_and(|counts| counts.streams.is_any_open())
    }

    /// The link, if an open part may need it.
    #[inline]
    pub fn linked(&self, link: Option<MessageLink>) -> Option<MessageLink> {
        let streams = &self.counts.as_ref()?.streams;
        link.filter(|_| streams.is_any_open())
    }

    /// A call makes the counts of messages unreliable.
    pub fn miscounts(&mut self) {
        if let Some(counts) = &mut self.counts {
            counts.streams.miscounted();
        }
    }

    /// A collective call begins.
    pub fn collects(&mut self, comm: usize) -> Option<GroupIndex> {
        let place = self.group(comm)?;
        let counts = self.counts.as_mut()?;
        let group = counts.comms.group(place);
        counts.streams.collective_begun(group.number, group.world.len() as u32);
        Some(place)
    }

    /// A collective call is done.
    pub fn has_collected(&mut self, place: Option<GroupIndex>) {
        if let (Some(place), Some(counts)) = (place, &mut self.counts) {
            let group = counts.comms.group(place);
            counts.streams.collective_done(group.number, group.world.len() as u32);
        }
    }

    /// A request is freed before its completion was seen.
    pub fn given_up(&mut self, counted: &Counted, cancelled: bool) {
        match (counted, &mut self.counts) {
            (Counted::Nothing, _) | (_, None) => {}
            (Counted::Send { link, .. }, Some(counts)) if !cancelled => {
                counts.streams.send_given_up(*link);
            }
            // It is unknown which message the request received, or whether it was cancelled.
            (_, Some(counts)) => counts.streams.miscounted(),
        }
    }
}
