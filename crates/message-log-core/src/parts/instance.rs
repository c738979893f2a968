//! One run of a part: its range in the log, and its progress while it is open.

use std::rc::Rc;

use crate::log::Position;
use crate::resend::closed::ClosedMessages;
use crate::resend::streams::PartStart;

/// One run of a part that is logged or being logged.
#[derive(Debug)]
pub struct Instance {
    /// The application's id of the part.
    pub id: i32,
    /// `RESEND` and `KEEP`.
    pub flags: i32,
    /// A serial number that identifies the instance.
    pub number: u64,
    /// The serial number of the first run of its events: objects that the application freed later are
    /// needed by its replay.
    pub(crate) since: u64,
    pub(crate) begin: Position,
    /// The number of operations that its first run had begun before it, as in
    /// [`CallOutcome::began`](crate::log::CallOutcome::began).
    pub(crate) begun: u64,
    /// Its end; `None` while it is recorded.
    pub(crate) end: Option<Position>,
    /// The instances that were open when it began, recorded or replayed.
    pub(crate) around: Box<[u64]>,
    /// Why it cannot be replayed further.
    pub(crate) broken: Option<String>,
    /// Where it began among the process's messages, if they may be sent again.
    pub(crate) mark: Option<PartStart>,
    /// The messages that its replay sends and receives again.
    pub(crate) closed: Option<Rc<ClosedMessages>>,
}

impl Instance {
    /// Whether it began at this position, inside the instance of this replay, and before the replay.
    pub(super) fn was_at(&self, at: Position, replay: &Replay) -> bool {
        self.begin == at && self.number < replay.since && self.around.contains(&replay.instance)
    }

    /// Whether a replay of it sends messages again.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// The messages that it receives again and does not log, if this many exchanges are settled.
    pub(super) fn given_up(&self, settled: u64) -> Option<&ClosedMessages> {
        self.closed.as_deref().filter(|closed| closed.number < settled)
    }
}

/// An open part.
#[derive(Clone, Copy, Debug)]
pub enum OpenPart {
    /// The instance with this number is recorded.
    Record(u64),
    /// The instance with this number is replayed.
    Replay(Replay),
}

impl OpenPart {
    /// The instance's number.
    pub fn number(&self) -> u64 {
        match self {
            OpenPart::Record(number) => *number,
            OpenPart::Replay(replay) => replay.instance,
        }
    }

    /// The replay, if it is one.
    #[inline]
    pub(super) fn replay(&self) -> Option<&Replay> {
        match self {
            OpenPart::Replay(replay) => Some(replay),
            OpenPart::Record(_) => None,
        }
    }
}

/// The progress of a replay.
#[derive(Clone, Copy, Debug)]
pub struct Replay {
    /// The instance's number.
    pub(crate) instance: u64,
    /// The next event.
    pub(crate) cursor: Position,
    /// The number of operations that the first run had begun at that position.
    pub(crate) begun: u64,
    /// Whether it belongs to the enclosing replay: the first run had the part at that position, too.
    pub(crate) is_step: bool,
    /// The serial number of the next instance when it began.
    pub(crate) since: u64,
    /// The last included run, and where it began. After a run without calls, another one may begin at
    /// the same position.
    pub(crate) passed: Option<(Position, u64)>,
}
