//! Which parts are open, which are logged, and where a call's result comes from.
//!
//! The open parts are a stack. A call looks for the innermost replay: it gives the next event of its
//! range, and the parts that are recorded inside it become owners of that event, so their ranges are
//! ranges of the same events. Without a replay the call is real, and its event belongs to all parts
//! that are being recorded.
//!
//! The logged instances of one id are a stack too: a loop that runs a part many times is replayed
//! in reverse.
//!
//! | file | owns |
//! | --- | --- |
//! | `instance` | one run of a part, and how far an open one is |
//! | `boundaries` | how parts begin and end, and their replays |
//! | `events` | what a call inside parts records, or gets |
//! | `resend` | what is kept for messages that are sent again |
//! | `ahead` | what replays will read next |
//! | `freed_objects` | what replays still use of that which the application has freed |
//! | `fault` | what goes wrong |

mod boundaries;
mod events;
mod fault;
mod freed_objects;
mod instance;
mod resend;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::rc::Rc;

use crate::log::{Log, Position};
use crate::resend::closed::Closed;

pub use fault::{Divergence, Fault};
pub use freed_objects::NeededBy;
pub use instance::Instance;
pub(crate) use instance::{Open, Replay};

/// `VELOC_PART_RESEND`: messages closed inside the part may be sent again instead of kept.
pub const RESEND: i32 = 1;
/// `VELOC_PART_KEEP`: the log stays after a replay.
pub const KEEP: i32 = 2;

/// Where a call's result comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The log.
    Log,
    /// MPI, and then it is logged.
    Mpi,
}

/// The parts and their log.
#[derive(Debug, Default)]
pub struct Parts {
    pub(crate) log: Log,
    /// By number.
    pub(crate) instances: Vec<Instance>,
    pub(crate) open: Vec<Open>,
    pub(crate) numbers: u64,
    /// Of what was begun, the highest number.
    pub(crate) begun: u64,
    /// No part has begun or ended since the last event.
    can_repeat: bool,
    /// Some instance was broken off while it was recorded.
    has_lost: bool,
    /// What those get again whose place is not taken yet: the id, the place, the messages.
    pub(crate) replaced: Vec<(i32, Position, Option<Rc<Closed>>)>,
    /// Messages that are sent again are kept as well, unless the number of their exchange is less.
    settled: u64,
    /// Where they are kept: the number of the exchange, and that of the instance.
    unsettled: BTreeSet<(u64, u64)>,
    /// How many beginnings and ends of parts with [`RESEND`], and of their replays, there have been.
    boundaries: u64,
}

impl Parts {
    /// Those of another process. What is polled next is another event. `counts`: how many instances
    /// and things there have been.
    pub(crate) fn gone_on(
        log: Log,
        instances: Vec<Instance>,
        open: Vec<Open>,
        replaced: Vec<(i32, Position, Option<Rc<Closed>>)>,
        (numbers, begun): (u64, u64),
    ) -> Parts {
        let has_lost = instances.iter().any(|instance| instance.broken.is_some());
        let parts = Parts { log, instances, open, numbers, begun, replaced, ..Parts::default() };
        Parts { has_lost, ..parts }
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// How many instances are logged or being logged.
    pub fn live(&self) -> usize {
        self.instances.len()
    }

    /// Whether a part is open.
    pub fn is_any_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Where the result of a call made now comes from. `None` outside parts.
    pub fn source(&self) -> Option<Source> {
        if self.open.is_empty() {
            return None;
        }
        match self.replay() {
            Some(_) => Some(Source::Log),
            None => Some(Source::Mpi),
        }
    }

    /// The id of the innermost open part.
    pub fn innermost(&self) -> Option<i32> {
        self.instance(self.open.last()?.number()).map(|instance| instance.id)
    }

    /// The number that the next event gets in the log.
    pub fn next_event(&self) -> u64 {
        self.log.end().event
    }

    /// A number for something that begins now.
    pub fn begin_number(&mut self) -> u64 {
        self.begin_numbers(1)
    }

    /// As many numbers, of which this is the first.
    pub fn begin_numbers(&mut self, count: u64) -> u64 {
        let first = self.begun + 1;
        self.begun += count;
        first
    }

    /// The number of the instance that is replayed: of the outermost replay that goes on with what
    /// is called now.
    pub fn replayed(&self) -> Option<u64> {
        let mut replays = self.open.iter().rev().filter_map(|open| match open {
            Open::Replay(replay) => Some(replay),
            Open::Record(_) => None,
        });
        let innermost = replays.next()?;
        let mut replay = innermost;
        while replay.is_step {
            let Some(around) = replays.next() else { break };
            replay = around;
        }
        Some(replay.instance)
    }

    /// Whether the instance with this number is being replayed.
    pub fn is_replayed(&self, number: u64) -> bool {
        self.open
            .iter()
            .any(|open| matches!(open, Open::Replay(replay) if replay.instance == number))
    }

    /// What was begun before the part that is replayed: what has a higher number is begun again.
    pub fn replayed_since(&self) -> u64 {
        let replayed = self.replayed().and_then(|number| self.instance(number));
        replayed.map_or(0, |instance| instance.begun)
    }

    /// The innermost replay.
    fn replay(&self) -> Option<Replay> {
        self.open.iter().rev().find_map(|open| match open {
            Open::Replay(replay) => Some(*replay),
            Open::Record(_) => None,
        })
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.instances.binary_search_by_key(&number, |instance| instance.number).ok()
    }

    fn instance(&self, number: u64) -> Option<&Instance> {
        self.place(number).map(|place| &self.instances[place])
    }

    fn instance_mut(&mut self, number: u64) -> Option<&mut Instance> {
        self.place(number).map(|place| &mut self.instances[place])
    }

    fn is(&self, number: u64, id: i32) -> bool {
        self.instance(number).is_some_and(|instance| instance.id == id)
    }
}
