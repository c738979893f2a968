//! The verdicts on parts: which of their messages are sent again, and what the log need not keep then.

use std::ffi::c_int;
use std::rc::Rc;

use super::closed::ClosedMessages;
use super::not_resent::NotResent;
use super::report::{ProcessReport, Subject};
use super::streams::{PartStart, Streams};
use super::tightness::{self, TightnessCheck, TightnessVerdict};
use super::verdicts::Verdicts;
use crate::parts::Parts;

/// Finds the verdicts, the same on all processes, as all have the same reports.
#[derive(Debug)]
pub struct PartJudge {
    /// The number of entries that fit in a report.
    room: usize,
    tightness: TightnessCheck,
    not_resent: NotResent,
    /// The verdicts that this process and all processes know.
    pub verdicts: Verdicts,
    /// Whether the next call inside a part is the first one after a restart.
    pub is_resumed: bool,
    /// Bytes that were dropped from the log.
    pub dropped: u64,
    /// Bytes that were sent again.
    pub resent: u64,
}

impl PartJudge {
    /// Before anything was sent in the run with this number. Reports have room for this many entries.
    pub fn new(room: usize, run: u64) -> PartJudge {
        PartJudge {
            room,
            tightness: TightnessCheck::default(),
            not_resent: NotResent::default(),
            verdicts: Verdicts::new(run),
            is_resumed: false,
            dropped: 0,
            resent: 0,
        }
    }

    /// The report on a part that has ended, its subject, and the number of the exchange. `mark` is from its
    /// beginning.
    pub fn report(
        &mut self,
        streams: &mut Streams,
        id: i32,
        mark: PartStart,
    ) -> (ProcessReport, Subject, u64) {
        let known = self.verdicts.known();
        let report = ProcessReport { known, ..streams.end(mark, self.room) };
        (report, Subject::Part { id, nth: mark.nth() }, self.verdicts.begin())
    }

    /// The report on a restart, once.
    pub fn origin(&mut self) -> Option<(ProcessReport, Subject)> {
        let origin = self.verdicts.take_origin()?;
        let report = ProcessReport { known: self.verdicts.settled(), ..ProcessReport::default() };
        Some((report, Subject::Resumed(origin)))
    }

    /// Finds the verdict on a part. Returns the reason if all of its messages are logged.
    pub fn judge(
        &mut self,
        rank: c_int,
        streams: &mut Streams,
        parts: &mut Parts,
        (instance, number): (u64, u64),
        reports: Result<Vec<(ProcessReport, Subject)>, String>,
    ) -> Option<String> {
        let (verdict, least) = match reports {
            Ok(reports) => (self.tightness.judge(&reports), least_known(&reports)),
            Err(text) => (TightnessVerdict::Misused(text), None),
        };
        self.verdicts.record(number, least);
        let mut why = None;
        match verdict {
            TightnessVerdict::RightTight(closed) => {
                let own = u32::try_from(rank).unwrap_or(0);
                let closed = ClosedMessages::new(streams, own, number, &closed);
                parts.close(instance, &Rc::new(closed));
            }
            TightnessVerdict::Logged(reason) => why = Some(reason),
            TightnessVerdict::Misused(text) => parts.instances_mut().invalidate(instance, &text),
        }
        self.dropped += parts.drop_settled(self.verdicts.settled());
        why
    }

    /// The message, once per part, that all messages of a part are logged for this reason.
    pub fn not_resent(&mut self, id: i32, why: &str) -> Option<String> {
        self.not_resent.message(id, why)
    }

    /// All processes have reported what they restart from: decides which earlier messages are sent again.
    pub fn agree(
        &mut self,
        parts: &mut Parts,
        reports: Result<Vec<(ProcessReport, Subject)>, String>,
    ) {
        let different = match &reports {
            Ok(reports) => tightness::difference(reports),
            Err(text) => Some(text.clone()),
        };
        if let Some(text) = different {
            self.verdicts.agree(None);
            parts.instances_mut().invalidate_closed(&text);
            return;
        }
        let reports = reports.unwrap_or_default();
        self.verdicts.agree(reports.iter().map(|(report, _)| report.known).max());
        self.dropped += parts.drop_settled(self.verdicts.settled());
        parts.log_unsettled();
    }
}

/// The minimum of the numbers of verdicts that the processes knew; `None` if their reports do not match.
fn least_known(reports: &[(ProcessReport, Subject)]) -> Option<u64> {
    if tightness::difference(reports).is_some() {
        return None;
    }
    reports.iter().map(|(report, _)| report.known).min()
}
