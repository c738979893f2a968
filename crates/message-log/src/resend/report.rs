//! What a process tells all others of a part at its end: numbers of one length for all.

use std::fmt;

use super::verdicts::CheckpointOrigin;

/// What an entry is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A stream to another process.
    #[default]
    Sent,
    /// A stream from another process.
    Received,
    /// A communicator's collective calls.
    Collective,
}

/// Counts of a stream, or of the collective calls of a communicator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// What it is about.
    pub kind: Kind,
    /// The communicator, by the number that all its processes have for it.
    pub comm: u64,
    /// The other process; for collective calls, how many processes the communicator has.
    pub peer: u32,
    /// The tag.
    pub tag: i32,
    /// Messages sent, messages received or calls completed when the part began.
    pub begin: u64,
    /// The same when it ended.
    pub end: u64,
    /// What those that were done when it ended wait for: so many messages must have been sent for what
    /// was received, so many receives posted for what was sent otherwise than into a buffer, and so many
    /// calls begun by all for the collective calls that were completed.
    pub reach: u64,
    /// What others may wait for: messages received, or waited for by a receive that names the stream,
    /// or collective calls begun.
    pub other: u64,
    /// Not all messages of the part are begun and completed in it, in an order that is known.
    pub untidy: bool,
}

/// What a report is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A part that has ended.
    Part {
        /// What the application calls it.
        id: i32,
        /// How many parts whose messages may be sent again the process had begun before.
        nth: u64,
    },
    /// None: the process goes on from a checkpoint.
    Resumed(CheckpointOrigin),
    /// None: the process has come to `MPI_Finalize`.
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
                "goes on from a checkpoint of run {run:x}, behind border {boundaries} of its parts"
            ),
            Subject::Nothing => f.write_str("has called MPI_Finalize"),
        }
    }
}

/// Why it is not known of all messages of a part which streams they are of, or as which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// The part began in another process, of which this one goes on.
    Resumed,
    /// Some are of communicators of which both ends have no number.
    Unknown,
    /// Something that came before has made the counts wrong.
    Miscounted,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Doubt::Resumed => "goes on inside it from a checkpoint",
            Doubt::Unknown => {
                "has sent or received messages in it that cannot be counted: those of an \
                 intercommunicator, or of a communicator that was made without a word to this library"
            }
            Doubt::Miscounted => {
                "has had messages that cannot be counted, in it or before: cancelled ones, calls that have \
                 failed, receives that were given up, or ones for which there was no memory"
            }
        })
    }
}

/// What one process tells of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many entries there would be.
    pub needed: u64,
    /// Why its messages of the part are not all known to both ends, if they are not.
    pub doubt: Option<Doubt>,
    /// How many verdicts the process had heard; where it goes on, how many were settled.
    pub heard: u64,
    /// The entries; none if there would be too many.
    pub entries: Vec<Entry>,
}

/// Numbers of a report before its entries.
const HEAD: usize = 6;
/// Numbers of an entry.
const ENTRY: usize = 7;

/// What a report is of, as a number.
const NOTHING: u64 = 0;
const PART: u64 = 1;
const RESUMED: u64 = 2;

/// Doubts, or none, by their numbers.
const DOUBTS: [Option<Doubt>; 4] =
    [None, Some(Doubt::Resumed), Some(Doubt::Unknown), Some(Doubt::Miscounted)];

fn doubt(doubt: Option<Doubt>) -> u64 {
    DOUBTS.iter().zip(0..).find(|(other, _)| **other == doubt).map_or(0, |(_, number)| number)
}

/// Numbers of a report with room for so many entries.
pub const fn words(room: usize) -> usize {
    HEAD + room * ENTRY
}

impl Report {
    /// As numbers, with room for so many entries.
    pub fn pack(&self, of: Subject, room: usize) -> Vec<u64> {
        let mut words = Vec::with_capacity(self::words(room));
        let (kind, of) = match of {
            Subject::Part { id, nth } => (PART, [u64::from(id as u32), nth, 0]),
            Subject::Resumed(CheckpointOrigin { run, boundaries, begun }) => {
                (RESUMED, [run, boundaries, begun])
            }
            Subject::Nothing => (NOTHING, [0; 3]),
        };
        words.extend([self.needed, self::doubt(self.doubt) | kind << 2, self.heard]);
        words.extend(of);
        for entry in self.entries.iter().take(room) {
            let kind = match entry.kind {
                Kind::Sent => 0,
                Kind::Received => 1,
                Kind::Collective => 2,
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

    /// From what [`pack`](Self::pack) gave, and what it is of.
    pub fn unpack(words: &[u64]) -> (Report, Subject) {
        let [needed, flags, heard, first, second, third, ..] = *words else {
            return (Report::default(), Subject::Nothing);
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
        let entry = |words: &[u64]| Entry {
            kind: match words[0] & 0xff {
                0 => Kind::Sent,
                1 => Kind::Received,
                _ => Kind::Collective,
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
        (Report { needed, doubt, heard, entries }, of)
    }
}
