//! One run of a part: where it lies in the log, and how far it is while it is open.

use std::rc::Rc;

use crate::log::Position;
use crate::resend::closed::Closed;
use crate::resend::streams::Mark;

/// One run of a part that is logged or being logged.
#[derive(Debug)]
pub struct Instance {
    /// What the application calls the part.
    pub id: i32,
    /// `RESEND` and `KEEP`.
    pub flags: i32,
    /// Counts up with every instance, so that it names this one.
    pub number: u64,
    /// When the first run of its events began: what the application freed later is still used by its
    /// replay. In numbers of instances.
    pub since: u64,
    pub(crate) begin: Position,
    /// What its first run had begun before, in numbers of
    /// [`Outcome::began`](crate::log::Outcome::began).
    pub(crate) begun: u64,
    /// Where it ended; `None` while it is recorded.
    pub(crate) end: Option<Position>,
    /// The instances that were open around it when it began, recorded or replayed.
    pub(crate) around: Box<[u64]>,
    /// Why it cannot be replayed any further.
    pub(crate) broken: Option<String>,
    /// Where it began among the messages of the process, if they may be sent again.
    pub(crate) mark: Option<Mark>,
    /// The messages that its replay sends and receives again.
    pub(crate) closed: Option<Rc<Closed>>,
}

impl Instance {
    /// Whether it began at this place, inside what this replay is of, and before that replay.
    pub(super) fn was_at(&self, at: Position, replay: &Replay) -> bool {
        self.begin == at && self.number < replay.since && self.around.contains(&replay.instance)
    }

    /// The messages that it gets again and does not keep, if so many exchanges are settled.
    pub(super) fn given_up(&self, settled: u64) -> Option<&Closed> {
        self.closed.as_deref().filter(|closed| closed.number < settled)
    }
}

/// An open part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Open {
    /// The instance with this number is recorded.
    Record(u64),
    /// The instance with this number is replayed.
    Replay(Replay),
}

impl Open {
    /// The instance's number.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Open::Record(number) => *number,
            Open::Replay(replay) => replay.instance,
        }
    }
}

/// How far a replay is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replay {
    /// The instance's number.
    pub(crate) instance: u64,
    /// The next event.
    pub(crate) cursor: Position,
    /// What the first run had begun at that place, in the same numbers.
    pub(crate) begun: u64,
    /// The replay around it goes on with it: the first run had the part at that place, too.
    pub(crate) is_step: bool,
    /// The number that instances have from its beginning on.
    pub(crate) since: u64,
    /// The run within it that was taken along last, and where that began. Behind one without any call
    /// another one may begin at the same place.
    pub(crate) passed: Option<(Position, u64)>,
}
