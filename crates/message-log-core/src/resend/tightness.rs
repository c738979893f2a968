//! Checks whether a part is right-tight, and which of its messages are closed. All processes find the same,
//! as all have the reports of all.
//!
//! A part is right-tight if nothing in it or before it waits for something after it (section 4 of Taftaf
//! and Hascoet, "On the correct application of AD checkpointing to adjoint MPI-parallel programs"): no
//! message received at its end was sent after its sender's end of the part; no send completed by then
//! has a receive posted after its receiver's end; and no collective call completed by then was begun by
//! another process after that one's end. Then messages that were sent and received inside it are closed:
//! sending them again cannot block anybody. What precedes the part counts as well, because it follows
//! the part's replay in the backward sweep, and would be waited for there.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::report::{EntryKind, ProcessReport, Subject};

/// A stream as all processes identify it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// The sender's rank in `MPI_COMM_WORLD`.
    pub from: u32,
    /// The receiver's rank in `MPI_COMM_WORLD`.
    pub to: u32,
    /// The communicator's number.
    pub comm: u64,
    /// The tag.
    pub tag: i32,
}

/// Messages of a stream that are sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResentMessages {
    /// The stream.
    pub pair: Pair,
    /// Their numbers.
    pub numbers: Range<u64>,
    /// The stream's index between the two processes, from 0.
    pub nth: u32,
}

/// How a part's messages are treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TightnessVerdict {
    /// The part is right-tight: these messages of all processes are sent again.
    RightTight(Vec<ResentMessages>),
    /// All messages are read from the log, for this reason.
    Logged(String),
    /// The processes have run different parts; the difference.
    Misused(String),
}

/// The counts of a stream at the end of the part, as reported.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    /// Messages sent.
    sent: u64,
    /// Messages that must have been sent, because they were received.
    received: u64,
    /// Receives posted.
    posted: u64,
    /// Receives that must have been posted, because sends were completed.
    completed: u64,
}

impl Ends {
    fn is_loose(&self) -> bool {
        self.sent < self.received || self.posted < self.completed
    }
}

/// The counts of a communicator's collective calls.
#[derive(Debug, Default)]
struct CollectiveCalls {
    processes: usize,
    /// Calls begun by each process.
    begun: HashMap<u32, u64>,
    /// The most calls that a process has completed, and its rank.
    completed: (u64, u32),
}

impl CollectiveCalls {
    fn is_loose(&self) -> bool {
        let (completed, _) = self.completed;
        let begun = self.begun.values().filter(|&&begun| begun >= completed).count();
        completed > 0 && begun < self.processes
    }
}

/// A part's messages of a stream.
#[derive(Clone, Copy, Debug)]
struct PartMessages {
    begin: u64,
    end: u64,
    untidy: bool,
}

/// The counts of all streams of the job.
#[derive(Debug, Default)]
pub struct TightnessCheck {
    streams: HashMap<Pair, Ends>,
    collectives: HashMap<u64, CollectiveCalls>,
    /// Streams and communicators in which something waits for what follows the part.
    loose: BTreeSet<Pair>,
    loose_calls: BTreeSet<u64>,
}

impl TightnessCheck {
    /// Judges one part by the reports of all processes, in the order of their ranks.
    pub fn judge(&mut self, reports: &[(ProcessReport, Subject)]) -> TightnessVerdict {
        self.learn(reports);
        if let Some(text) = difference(reports) {
            return TightnessVerdict::Misused(text);
        }
        let too_many = |report: &ProcessReport| report.needed > report.entries.len() as u64;
        if let Some(rank) = reports.iter().position(|(report, _)| too_many(report)) {
            return TightnessVerdict::Logged(format!(
                "process {rank} has {} streams of messages, more than there is room for \
                 (VELOC_MPI_STREAMS)",
                reports[rank].0.needed
            ));
        }
        let doubts =
            (0_u32..).zip(reports).filter_map(|(rank, (report, _))| Some((rank, report.doubt?)));
        if let Some((rank, doubt)) = { doubts }.next() {
            return TightnessVerdict::Logged(format!("process {rank} {doubt}"));
        }
        match self.loose_end() {
            Some(why) => TightnessVerdict::Logged(why),
            None => TightnessVerdict::RightTight(closed(reports)),
        }
    }

    fn learn(&mut self, reports: &[(ProcessReport, Subject)]) {
        let (mut streams, mut collectives) = (Vec::new(), BTreeSet::new());
        for (rank, (report, _)) in (0..).zip(reports) {
            for entry in &report.entries {
                let pair = |from, to| Pair { from, to, comm: entry.comm, tag: entry.tag };
                match entry.kind {
                    EntryKind::Sent => {
                        let pair = pair(rank, entry.peer);
                        let ends = self.streams.entry(pair).or_default();
                        (ends.sent, ends.completed) = (entry.end, entry.reach);
                        streams.push(pair);
                    }
                    EntryKind::Received => {
                        let pair = pair(entry.peer, rank);
                        let ends = self.streams.entry(pair).or_default();
                        (ends.received, ends.posted) = (entry.reach, entry.other);
                        streams.push(pair);
                    }
                    EntryKind::Collective => {
                        let calls = self.collectives.entry(entry.comm).or_default();
                        calls.processes = entry.peer as usize;
                        calls.begun.insert(rank, entry.other);
                        calls.completed = calls.completed.max((entry.reach, rank));
                        collectives.insert(entry.comm);
                    }
                }
            }
        }
        for pair in streams {
            let is_loose = self.streams.get(&pair).is_some_and(Ends::is_loose);
            keep(&mut self.loose, pair, is_loose);
        }
        for comm in collectives {
            let is_loose = self.collectives.get(&comm).is_some_and(CollectiveCalls::is_loose);
            keep(&mut self.loose_calls, comm, is_loose);
        }
    }

    /// Describes something in the part or before it that waits for something after it.
    fn loose_end(&self) -> Option<String> {
        if let Some(pair @ Pair { from, to, tag, .. }) = self.loose.first() {
            let ends = self.streams.get(pair)?;
            return Some(match ends.sent < ends.received {
                true => format!(
                    "process {to} received before its end a message with tag {tag}, which process {from} sent after \
                     its end"
                ),
                false => format!(
                    "process {from} completed before its end the send of a message with tag {tag}, for which process \
                     {to} posted a receive after its end"
                ),
            });
        }
        let calls = self.collectives.get(self.loose_calls.first()?)?;
        Some(format!(
            "process {} completed before its end a collective call, which another process began after its end",
            calls.completed.1
        ))
    }
}

/// Adds to a set or removes from it.
fn keep<T: Ord>(set: &mut BTreeSet<T>, one: T, is_one: bool) {
    match is_one {
        true => set.insert(one),
        false => set.remove(&one),
    };
}

/// How the processes' reports differ, if they are not of the same part.
pub fn difference(reports: &[(ProcessReport, Subject)]) -> Option<String> {
    let (_, first) = reports.first()?;
    let rank = reports.iter().position(|(_, of)| of != first)?;
    let other = reports[rank].1;
    Some(format!("process 0 {first} (VELOC_PART_RESEND), and process {rank} {other} instead"))
}

/// The messages that were sent and received inside a part.
fn closed(reports: &[(ProcessReport, Subject)]) -> Vec<ResentMessages> {
    let mut received: HashMap<Pair, PartMessages> = HashMap::new();
    let mut sent: Vec<(Pair, PartMessages)> = Vec::new();
    for (rank, (report, _)) in (0..).zip(reports) {
        for entry in report.entries.iter().filter(|entry| entry.end > entry.begin) {
            let pair = |from, to| Pair { from, to, comm: entry.comm, tag: entry.tag };
            let piece = PartMessages { begin: entry.begin, end: entry.end, untidy: entry.untidy };
            match entry.kind {
                EntryKind::Sent => sent.push((pair(rank, entry.peer), piece)),
                EntryKind::Received => {
                    received.insert(pair(entry.peer, rank), piece);
                }
                EntryKind::Collective => {}
            }
        }
    }
    sent.sort_by_key(|(pair, _)| *pair);
    let mut closed: Vec<ResentMessages> = Vec::new();
    for (pair, out) in sent {
        let Some(into) = received.get(&pair) else { continue };
        let numbers = out.begin.max(into.begin)..out.end.min(into.end);
        if out.untidy || into.untidy || numbers.is_empty() {
            continue;
        }
        let before = closed.last();
        let same = |last: &&ResentMessages| (last.pair.from, last.pair.to) == (pair.from, pair.to);
        let nth = before.filter(same).map_or(0, |last| last.nth + 1);
        closed.push(ResentMessages { pair, numbers, nth });
    }
    closed
}
