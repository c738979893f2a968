//! A process's report to all others at a part's end. All reports have the same length.

use std::fmt;

use super::verdicts::CheckpointOrigin;

/// The subject of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryKind {
    /// A stream to another process.
    #[default]
    Sent,
    /// A stream from another process.
    Received,
    /// A communicator's collective calls.
    Collective,
}

/// Counters of a stream, or of a communicator's collective calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReportEntry {
    /// The subject.
    pub kind: EntryKind,
    /// The communicator's number, common to all its processes.
    pub comm: u64,
    /// The other process; for collective calls, the size of the communicator.
    pub peer: u32,
    /// The tag.
    pub tag: i32,
    /// Messages sent or received, or calls completed, at the part's beginning.
    pub begin: u64,
    /// Messages sent or received, or calls completed, at the part's end.
    pub end: u64,
    /// The requirements of the completed operations: messages that must have been sent, receives
    /// that must have been posted for unbuffered sends, or calls that all processes must have
    /// begun.
    pub reach: u64,
    /// Operations that others may wait for: messages received or waited for by a receive that names
    /// the stream, or collective calls begun.
    pub other: u64,
    /// Whether some of the part's messages are not begun and completed inside it in a known order.
    pub untidy: bool,
}

/// The subject of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A part that has ended.
    Part {
        /// The application's id of the part.
        id: i32,
        /// How many parts whose messages may be sent again the process had begun before.
        nth: u64,
    },
    /// No part: the process was restarted from a checkpoint.
    Resumed(CheckpointOrigin),
    /// No part: the process has called `MPI_Finalize`.
    Nothing,
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Part { id, nth } => {
                write!(f, "has ended part {id}, which it began as number {}", nth + 1)
            }
            Subject::Resumed(CheckpointOrigin { run, boundaries, .. }) => write!(
                f,
                "was restarted from a checkpoint of run {run:x}, after boundary {boundaries} of its parts"
            ),
            Subject::Nothing => f.write_str("has called MPI_Finalize"),
        }
    }
}

/// Why the streams of a part's messages, or their numbers, are not all known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The part began in another process, from which this one was restarted.
    Resumed,
    /// Some belong to communicators that the two ends may number differently.
    Unknown,
    /// Earlier events have made the counters wrong.
    Miscounted,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doubt::Resumed => "was restarted inside it from a checkpoint",
            Doubt::Unknown => {
                "has sent or received messages in it that cannot be counted: those of an \
                 intercommunicator, or of a communicator that was made by a call that this library does not see"
            }
            Doubt::Miscounted => {
                "has had messages that cannot be counted, in it or before: cancelled ones, calls that have \
                 failed, receives that were freed, or ones for which there was no memory"
            }
        })
    }
}

/// One process's report on a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessReport {
    /// The number of entries, even if they do not fit.
    pub needed: u64,
    /// Why its messages are not all known to both ends, if so.
    pub doubt: Option<Doubt>,
    /// The number of verdicts that the process knew or, at a restart, that were settled.
    pub known: u64,
    /// The entries; empty if there are too many.
    pub entries: Vec<ReportEntry>,
}

/// Numbers of a report before its entries.
const HEAD: usize = 6;
/// Numbers of an entry.
const ENTRY: usize = 7;

/// The subjects as numbers.
const NOTHING: u64 = 0;
const PART: u64 = 1;
const RESUMED: u64 = 2;

/// The doubts by number, the first being none.
const DOUBTS: [Option<Doubt>; 4] =
    [None, Some(Doubt::Resumed), Some(Doubt::Unknown), Some(Doubt::Miscounted)];

fn doubt(doubt: Option<Doubt>) -> u64 {
    DOUBTS.iter().zip(0..).find(|(other, _)| **other == doubt).map_or(0, |(_, number)| number)
}

/// The length of a report with room for `entries` entries.
pub const fn words(room: usize) -> usize {
    HEAD + room * ENTRY
}

impl ProcessReport {
    /// Encodes it with room for `entries` entries.
    pub fn pack(&self, of: Subject, room: usize) -> Vec<u64> {
        let mut words = Vec::with_capacity(self::words(room));
        let (kind, of) = match of {
            Subject::Part { id, nth } => (PART, [u64::from(id as u32), nth, 0]),
            Subject::Resumed(CheckpointOrigin { run, boundaries, begun }) => {
                (RESUMED, [run, boundaries, begun])
            }
            Subject::Nothing => (NOTHING, [0; 3]),
        };
        words.extend([self.needed, self::doubt(self.doubt) | kind << 2, self.known]);
        words.extend(of);
        for entry in self.entries.iter().take(room) {
            let kind = match entry.kind {
                EntryKind::Sent => 0,
                EntryKind::Received => 1,
                EntryKind::Collective => 2,
            };
            let flags = u64::from(entry.untidy) << 8;
            words.extend([
                kind | flags | u64::from(entry.tag as u32) << 32,
                entry.comm,
                u64::from(entry.peer),
                entry.begin,
                entry.end,
                entry.reach,
                entry.other,
            ]);
        }
        words.resize(self::words(room), 0);
        words
    }

    /// Decodes what [`pack`](Self::pack) returned; with its subject.
    pub fn unpack(words: &[u64]) -> (ProcessReport, Subject) {
        let [needed, flags, known, first, second, third, ..] = *words else {
            return (ProcessReport::default(), Subject::Nothing);
        };
        let of = match flags >> 2 {
            PART => Subject::Part { id: first as u32 as i32, nth: second },
            RESUMED => {
                Subject::Resumed(CheckpointOrigin { run: first, boundaries: second, begun: third })
            }
            _ => Subject::Nothing,
        };
        let room = (words.len() - HEAD) / ENTRY;
        let has_all = usize::try_from(needed).is_ok_and(|needed| needed <= room);
        let count = if has_all { needed as usize } else { 0 };
        let entry = |words: &[u64]| ReportEntry {
            kind: match words[0] & 0xff {
                0 => EntryKind::Sent,
                1 => EntryKind::Received,
                _ => EntryKind::Collective,
            },
            untidy: words[0] >> 8 & 1 == 1,
            tag: (words[0] >> 32) as u32 as i32,
            comm: words[1],
            peer: words[2] as u32,
            begin: words[3],
            end: words[4],
            reach: words[5],
            other: words[6],
        };
        let entries = words[HEAD..].chunks_exact(ENTRY).take(count).map(entry).collect();
        let doubt = DOUBTS[(flags & 3) as usize];
        (ProcessReport { needed, doubt, known, entries }, of)
    }
}
