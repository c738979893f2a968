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
//! | `instances` | all runs, and what replays need of freed objects |
//! | `open` | the stack of open parts |
//! | `replaying` | a replay at its next call |
//! | `boundaries` | the beginning and the end of parts and of their replays |
//! | `events` | recording and replaying calls inside parts |
//! | `resend`, `unsettled` | what is logged of messages that are sent again |
//! | `fault` | errors |

mod boundaries;
mod events;
mod fault;
mod instance;
mod instances;
mod open;
mod replaying;
mod resend;
#[cfg(test)]
mod tests;
mod unsettled;

use std::rc::Rc;

use crate::log::{Log, Position};
use crate::resend::closed::ClosedMessages;

pub use fault::{Divergence, Fault};
pub use instance::{Instance, OpenPart, Replay};
pub use instances::{CommOrigin, Instances, NeededBy};
pub use open::Stack;
pub use replaying::Replaying;
use unsettled::Unsettled;

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
    pub(crate) instances: Instances,
    pub(crate) open: Stack,
    /// The highest number of an operation.
    pub(crate) begun: u64,
    /// Whether no part has begun or ended since the last event.
    can_repeat: bool,
    /// Whether an instance has failed while it was recorded.
    has_lost: bool,
    /// Messages that instances receive again, for runs not yet replaced: id, position, messages.
    pub(crate) replaced: Vec<(i32, Position, Option<Rc<ClosedMessages>>)>,
    unsettled: Unsettled,
    boundaries: Boundaries,
}

/// A number of beginnings and ends of parts with [`RESEND`] and of their replays.
#[derive(Debug, Default)]
struct Boundaries(u64);

impl Boundaries {
    /// Counts the beginning or end of a part with these flags, or of its replay.
    fn pass(&mut self, flags: i32) {
        self.0 += u64::from(flags & RESEND != 0);
    }
}

impl Parts {
    /// Parts that a restarted process continues. The next poll is a new event. `counts`: the numbers of
    /// instances and operations so far.
    pub fn continued(
        log: Log,
        instances: Vec<Instance>,
        open: Vec<OpenPart>,
        replaced: Vec<(i32, Position, Option<Rc<ClosedMessages>>)>,
        (numbers, begun): (u64, u64),
    ) -> Parts {
        let has_lost = instances.iter().any(|instance| instance.broken.is_some());
        let (instances, open) = (Instances { all: instances, now: numbers }, Stack(open));
        let parts = Parts { log, instances, open, begun, replaced, ..Parts::default() };
        Parts { has_lost, ..parts }
    }

    /// The log.
    #[inline]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The log, for changes of its events.
    pub fn log_mut(&mut self) -> &mut Log {
        &mut self.log
    }

    /// The runs that are logged or being logged.
    pub fn instances(&self) -> &Instances {
        &self.instances
    }

    /// The same, for changes.
    pub fn instances_mut(&mut self) -> &mut Instances {
        &mut self.instances
    }

    /// The open parts.
    #[inline]
    pub fn open(&self) -> &Stack {
        &self.open
    }

    /// The innermost replay.
    pub fn replaying(&self) -> Option<Replaying<'_>> {
        let replay = self.open.replay()?;
        let instance = self.instances.get(replay.instance)?;
        Some(Replaying::new(&self.log, instance, replay))
    }

    /// The id of the innermost open part.
    pub fn innermost(&self) -> Option<i32> {
        self.instances.get(self.open.innermost()?.number()).map(|instance| instance.id)
    }

    /// The id of the outermost open part, and the number of operations begun before it.
    pub fn outermost(&self) -> Option<(i32, u64)> {
        let instance = self.instances.get(self.open.0.first()?.number())?;
        Some((instance.id, instance.begun))
    }

    /// The number that the next event gets in the log.
    #[inline]
    pub fn next_event(&self) -> u64 {
        self.log.end().event
    }

    /// A number for an operation that begins now.
    #[inline]
    pub fn begin_number(&mut self) -> u64 {
        self.begin_numbers(1)
    }

    /// The first of `count` consecutive numbers.
    #[inline]
    pub fn begin_numbers(&mut self, count: u64) -> u64 {
        let first = self.begun + 1;
        self.begun += count;
        first
    }

    /// The number of operations begun before the replayed part: higher ones are begun again.
    pub fn replayed_since(&self) -> u64 {
        let replayed = self.open.replayed().and_then(|number| self.instances.get(number));
        replayed.map_or(0, |instance| instance.begun)
    }
}
