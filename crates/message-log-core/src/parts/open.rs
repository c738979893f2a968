//! The open parts, a stack: where a call's result comes from.

use super::instance::{OpenPart, Replay};
use super::Source;
use crate::log::Position;

/// The open parts, outermost first.
#[derive(Debug, Default)]
pub struct Stack(pub(crate) Vec<OpenPart>);

impl Stack {
    /// Whether a part is open.
    #[inline]
    pub fn is_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The source of the result of a call made now. `None` outside parts.
    #[inline]
    pub fn source(&self) -> Option<Source> {
        if self.0.is_empty() {
            return None;
        }
        match self.replay() {
            Some(_) => Some(Source::Log),
            None => Some(Source::Mpi),
        }
    }

    /// The number of the replayed instance: of the outermost replay that includes the current call.
    pub fn replayed(&self) -> Option<u64> {
        let mut replays = self.0.iter().rev().filter_map(OpenPart::replay);
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
        self.0.iter().filter_map(OpenPart::replay).any(|replay| replay.instance == number)
    }

    /// The innermost open part.
    pub(super) fn innermost(&self) -> Option<&OpenPart> {
        self.0.last()
    }

    /// The innermost replay.
    #[inline]
    pub(super) fn replay(&self) -> Option<Replay> {
        self.0.iter().rev().find_map(OpenPart::replay).copied()
    }

    /// All replays, outermost first.
    pub(super) fn replays(&self) -> impl DoubleEndedIterator<Item = &Replay> {
        self.0.iter().filter_map(OpenPart::replay)
    }

    /// The instances that include the current call, innermost first.
    pub(super) fn recorded(&self) -> impl Iterator<Item = u64> + '_ {
        let goes_on = |open: &&OpenPart| open.replay().is_none_or(|replay| replay.is_step);
        self.0.iter().rev().take_while(goes_on).filter_map(|open| match open {
            OpenPart::Record(number) => Some(*number),
            OpenPart::Replay(_) => None,
        })
    }

    /// The innermost replay includes the instance with this number, which began at its position.
    pub(super) fn pass_by(&mut self, begin: Position, number: u64) {
        let around = self.0.iter_mut().rev().find_map(|open| match open {
            OpenPart::Replay(replay) => Some(replay),
            OpenPart::Record(_) => None,
        });
        if let Some(around) = around {
            around.passed = Some((begin, number));
        }
    }

    /// How far the open instance with this number is recorded, in a log with this end.
    pub(super) fn reached(&self, number: u64, end: Position) -> Position {
        let around = self.0.iter().take_while(|open| open.number() != number);
        around.filter_map(|open| Some(open.replay()?.cursor)).last().unwrap_or(end)
    }
}
