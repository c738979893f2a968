//! What a process tells all others of a part at its end: numbers of one length for all.

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
    /// The same when it ended. Messages that may have been received before others, though they were
    /// not waited for, count.
    pub end: u64,
    /// Of a stream to another process: the number of the last message whose send was completed in
    /// the part, other than into a buffer, plus 1; 0 if there is none. From another: messages
    /// received, or waited for by a receive that names the stream, when the part ended. Of
    /// collective calls: those begun then.
    pub other: u64,
    /// Not all messages of the part are begun and completed in it, in an order that is known.
    pub untidy: bool,
}

/// What one process tells of a part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// How many entries there would be.
    pub needed: u64,
    /// All messages of the part belong to streams that both ends know.
    pub is_known: bool,
    /// The entries; none if there would be too many.
    pub entries: Vec<Entry>,
}

/// Numbers of a report before its entries.
const HEAD: usize = 3;
/// Numbers of an entry.
const ENTRY: usize = 6;

/// Numbers of a report with room for so many entries.
pub const fn words(room: usize) -> usize {
    HEAD + room * ENTRY
}

impl Report {
    /// As numbers, with room for so many entries. `part` names the part.
    pub fn pack(&self, part: i32, room: usize) -> Vec<u64> {
        let mut words = Vec::with_capacity(self::words(room));
        words.extend([self.needed, u64::from(self.is_known), part as u32 as u64]);
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
                entry.other,
            ]);
        }
        words.resize(self::words(room), 0);
        words
    }

    /// From what [`pack`](Self::pack) gave, and the part's name.
    pub fn unpack(words: &[u64]) -> (Report, i32) {
        let [needed, is_known, part, ..] = *words else {
            return (Report::default(), 0);
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
            other: words[5],
        };
        let entries = words[HEAD..].chunks_exact(ENTRY).take(count).map(entry).collect();
        (Report { needed, is_known: is_known != 0, entries }, part as u32 as i32)
    }
}
