//! Whether a part is right-tight, and which of its messages are closed: what every process finds in
//! the reports of all, alike.
//!
//! A part is right-tight if nothing in it waits for something behind it (section 4 of Taftaf and
//! Hascoet, "On the correct application of AD checkpointing to adjoint MPI-parallel programs"): no
//! message received in it was sent behind its sender's end of the part; no send completed in it has
//! a receive posted behind its receiver's end; and no collective call completed in it was begun by
//! another process behind that one's end. Then messages that were sent and received in it are closed:
//! to send them again cannot keep anybody waiting.

use std::collections::HashMap;
use std::ops::Range;

use super::report::{Entry, Kind, Report, Subject};

/// A stream, as all processes know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// The sender's number in `MPI_COMM_WORLD`.
    pub from: u32,
    /// The receiver's.
    pub to: u32,
    /// The communicator's number.
    pub comm: u64,
    /// The tag.
    pub tag: i32,
}

/// Messages of a stream that are sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The stream.
    pub pair: Pair,
    /// Their numbers.
    pub numbers: Range<u64>,
    /// Tells the stream from others between the two processes: counted from 0.
    pub nth: u32,
}

/// What becomes of a part's messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The part is right-tight: these are sent again, those of all processes.
    RightTight(Vec<Closed>),
    /// All are read from the log, for this reason.
    Logged(String),
    /// The processes have not done the same with their parts, and this is the difference.
    Misused(String),
}

/// Counts of a stream when its part ended, as far as they were told.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    sent: u64,
    posted: u64,
}

/// What a part has of a stream.
#[derive(Clone, Copy, Debug)]
struct Piece {
    begin: u64,
    end: u64,
    untidy: bool,
}

/// What is known of all streams of the job.
#[derive(Debug, Default)]
pub struct Survey {
    streams: HashMap<Pair, Ends>,
    /// Calls begun by each process, for each communicator.
    collectives: HashMap<u64, HashMap<u32, u64>>,
}

impl Survey {
    /// Takes the reports of all processes, in their order, of one part.
    pub fn judge(&mut self, reports: &[(Report, Subject)]) -> Verdict {
        self.learn(reports);
        if let Some(text) = difference(reports) {
            return Verdict::Misused(text);
        }
        let too_many = |report: &Report| report.needed > report.entries.len() as u64;
        if let Some(rank) = reports.iter().position(|(report, _)| too_many(report)) {
            return Verdict::Logged(format!(
                "process {rank} has {} streams of messages, more than there is room for \
                 (VELOC_MPI_STREAMS)",
                reports[rank].0.needed
            ));
        }
        if let Some(rank) = reports.iter().position(|(report, _)| !report.is_known) {
            return Verdict::Logged(format!(
                "process {rank} has sent or received messages that cannot be counted, as those of an \
                 intercommunicator"
            ));
        }
        match self.loose_end(reports) {
            Some(why) => Verdict::Logged(why),
            None => Verdict::RightTight(closed(reports)),
        }
    }

    fn learn(&mut self, reports: &[(Report, Subject)]) {
        for (rank, (report, _)) in (0..).zip(reports) {
            for entry in &report.entries {
                let pair = |from, to| Pair { from, to, comm: entry.comm, tag: entry.tag };
                match entry.kind {
                    Kind::Sent => {
                        self.streams.entry(pair(rank, entry.peer)).or_default().sent = entry.end;
                    }
                    Kind::Received => {
                        let pair = pair(entry.peer, rank);
                        self.streams.entry(pair).or_default().posted = entry.other;
                    }
                    Kind::Collective => {
                        let begun = self.collectives.entry(entry.comm).or_default();
                        begun.insert(rank, entry.other);
                    }
                }
            }
        }
    }

    /// Something in the part that waits for something behind it.
    fn loose_end(&self, reports: &[(Report, Subject)]) -> Option<String> {
        let ends = |pair| self.streams.get(&pair).copied().unwrap_or_default();
        for (rank, (report, _)) in (0..).zip(reports) {
            for entry in &report.entries {
                let (other, tag) = (entry.peer, entry.tag);
                let pair = |from, to| Pair { from, to, comm: entry.comm, tag };
                let has_more = entry.end > entry.begin;
                let why = match entry.kind {
                    Kind::Received if has_more && ends(pair(other, rank)).sent < entry.end => {
                        format!(
                            "process {rank} received a message with tag {tag} in it that process \
                             {other} sent behind its end"
                        )
                    }
                    Kind::Sent if ends(pair(rank, other)).posted < entry.other => format!(
                        "process {rank} completed the send of a message with tag {tag} in it for \
                         which process {other} posted a receive behind its end"
                    ),
                    Kind::Collective if has_more && self.begun(entry) < entry.peer as usize => {
                        format!(
                            "process {rank} completed a collective call in it that another process \
                             began behind its end"
                        )
                    }
                    _ => continue,
                };
                return Some(why);
            }
        }
        None
    }

    /// How many processes have begun the collective call that was completed last.
    fn begun(&self, entry: &Entry) -> usize {
        let all = self.collectives.get(&entry.comm);
        all.map_or(0, |all| all.values().filter(|&&begun| begun >= entry.end).count())
    }
}

/// What processes have done that did not do the same.
pub fn difference(reports: &[(Report, Subject)]) -> Option<String> {
    let (_, first) = reports.first()?;
    let rank = reports.iter().position(|(_, of)| of != first)?;
    let other = reports[rank].1;
    Some(format!("process 0 {first} (VELOC_PART_RESEND), and process {rank} {other} instead"))
}

/// The messages that were sent and received in a part.
fn closed(reports: &[(Report, Subject)]) -> Vec<Closed> {
    let mut received: HashMap<Pair, Piece> = HashMap::new();
    let mut sent: Vec<(Pair, Piece)> = Vec::new();
    for (rank, (report, _)) in (0..).zip(reports) {
        for entry in report.entries.iter().filter(|entry| entry.end > entry.begin) {
            let pair = |from, to| Pair { from, to, comm: entry.comm, tag: entry.tag };
            let piece = Piece { begin: entry.begin, end: entry.end, untidy: entry.untidy };
            match entry.kind {
                Kind::Sent => sent.push((pair(rank, entry.peer), piece)),
                Kind::Received => {
                    received.insert(pair(entry.peer, rank), piece);
                }
                Kind::Collective => {}
            }
        }
    }
    sent.sort_by_key(|(pair, _)| *pair);
    let mut closed: Vec<Closed> = Vec::new();
    for (pair, out) in sent {
        let Some(into) = received.get(&pair) else { continue };
        let numbers = out.begin.max(into.begin)..out.end.min(into.end);
        if out.untidy || into.untidy || numbers.is_empty() {
            continue;
        }
        let before = closed.last();
        let same = |last: &&Closed| (last.pair.from, last.pair.to) == (pair.from, pair.to);
        let nth = before.filter(same).map_or(0, |last| last.nth + 1);
        closed.push(Closed { pair, numbers, nth });
    }
    closed
}
