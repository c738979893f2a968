//! Tracks which parts are open, which are logged, and where a call's result comes from.
//!
//! The open parts form a stack. A call uses the innermost replay: it takes the next event of the
//! replay's range, and the parts that are recorded inside the replay become owners of that event, so
//! their ranges share events. Without a replay the call is real, and its event belongs to all parts that
//! are being recorded.
//!
//! The logged instances of one id form a stack, too: a loop that runs a part many times is replayed in
//! reverse.
//!
//! | file | owns |
//! | --- | --- |
//! | `instance` | one run of a part, and how far an open one is |
//! | `boundaries` | the beginning and the end of parts and of their replays |
//! | `events` | recording and replaying calls inside parts |
//! | `resend` | what is logged of messages that are sent again |
//! | `freed_objects` | what replays need of freed objects |
//! | `fault` | errors |

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
pub use freed_objects::{CommOrigin, NeededBy};
pub use instance::Instance;
pub use instance::{Open, Replay};

/// `VELOC_PART_RESEND`: closed messages of the part may be sent again instead of logged.
pub const RESEND: i32 = 1;
/// `VELOC_PART_KEEP`: the log is kept after a replay.
pub const KEEP: i32 = 2;

/// The source of a call's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The log.
    Log,
    /// MPI; then it is logged.
    Mpi,
}

/// The parts and their log.
#[derive(Debug, Default)]
pub struct Parts {
    pub(crate) log: Log,
    /// The instances by number.
    pub(crate) instances: Vec<Instance>,
    pub(crate) open: Vec<Open>,
    pub(crate) numbers: u64,
    /// The highest number of an operation.
    pub(crate) begun: u64,
    /// Whether no part has begun or ended since the last event.
    can_repeat: bool,
    /// Whether an instance has failed while it was recorded.
    has_lost: bool,
    /// Messages that instances receive again, for runs not yet replaced: id, position, messages.
    pub(crate) replaced: Vec<(i32, Position, Option<Rc<Closed>>)>,
    /// Messages that are sent again are logged, too, unless their exchange is below this number.
    settled: u64,
    /// The others, by exchange and instance.
    unsettled: BTreeSet<(u64, u64)>,
    /// The number of beginnings and ends of parts with [`RESEND`] and of their replays.
    boundaries: u64,
}

impl Parts {
    /// Parts that a restarted process continues. The next poll is a new event. `counts`: the numbers of
    /// instances and operations so far.
    pub fn continued(
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

    /// The number of instances that are logged or being logged.
    pub fn live(&self) -> usize {
        self.instances.len()
    }

    /// Whether a part is open.
    pub fn is_any_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The source of the result of a call made now. `None` outside parts.
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

    /// The id of the outermost open part, and the number of operations begun before it.
    pub fn outermost(&self) -> Option<(i32, u64)> {
        self.instance(self.open.first()?.number()).map(|instance| (instance.id, instance.begun))
    }

    /// The number that the next event gets in the log.
    pub fn next_event(&self) -> u64 {
        self.log.end().event
    }

    /// A number for an operation that begins now.
    pub fn begin_number(&mut self) -> u64 {
        self.begin_numbers(1)
    }

    /// The first of `count` consecutive numbers.
    pub fn begin_numbers(&mut self, count: u64) -> u64 {
        let first = self.begun + 1;
        self.begun += count;
        first
    }

    /// The number of the replayed instance: of the outermost replay that includes the current call.
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

    /// The number of operations begun before the replayed part: higher ones are begun again.
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
