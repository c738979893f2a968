//! The changes since a part began, and the report at its end.

use std::collections::HashMap;

use super::counters::{KeyedCounter, StreamCounts, NOWHERE};
use super::stream::{MessageStream, PostingOrder};
use super::Streams;
use crate::memory::{self, NoMemory};
use crate::resend::report::{Doubt, EntryKind, ProcessReport, ReportEntry};

/// The table of a changed counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChangedTable {
    Outgoing,
    Incoming,
    Collective,
}

/// A change of a counter while a part is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) table: ChangedTable,
    pub(super) place: u32,
    pub(super) before: StreamCounts,
    /// The message is not sent again if it was posted before this ticket.
    pub(super) posted: PostingOrder,
}

/// How many messages of unknown streams represent a part that began in another process.
const REOPENED: u64 = u64::MAX;

/// Where a part began.
#[derive(Clone, Copy, Debug)]
pub struct PartStart {
    journal: usize,
    ticket: PostingOrder,
    unknown: u64,
    nth: u64,
}

impl PartStart {
    /// How many parts whose messages may be sent again had begun before.
    pub fn nth(&self) -> u64 {
        self.nth
    }
}

impl Streams {
    #[inline(always)]
    pub(super) fn note(
        &mut self,
        table: ChangedTable,
        place: u32,
        before: StreamCounts,
        posted: PostingOrder,
    ) {
        if self.open > 0 {
            self.note_change(Change { table, place, before, posted });
        }
    }

    #[inline(never)]
    fn note_change(&mut self, change: Change) {
        if change.place != NOWHERE {
            self.is_miscounted |= memory::push(&mut self.journal, change).is_err();
        }
    }

    /// Whether a counter is wrong.
    fn is_miscounted(&self) -> bool {
        let lacks =
            [self.outgoing.lacks_some, self.incoming.lacks_some, self.collective.lacks_some];
        self.is_miscounted || lacks.contains(&true)
    }

    /// A part begins whose messages may be sent again.
    pub fn begin(&mut self) -> PartStart {
        self.open += 1;
        let nth = self.begun;
        self.begun += 1;
        PartStart { journal: self.journal.len(), ticket: self.tickets, unknown: self.unknown, nth }
    }

    /// A part is open that began in another process, from which this one was restarted: its messages are
    /// unknown, so all are logged.
    pub fn reopen(&mut self) -> PartStart {
        PartStart { unknown: REOPENED, ..self.begin() }
    }

    /// Whether a part is open whose messages may be sent again.
    pub fn is_any_open(&self) -> bool {
        self.open > 0
    }

    /// A part ends without a report.
    pub fn forget(&mut self) {
        self.open = self.open.saturating_sub(1);
        if self.open == 0 {
            self.journal.clear();
        }
    }

    /// The last part ends: returns its report. If there are more than `room` entries, it only says that.
    pub fn end(&mut self, mark: PartStart, room: usize) -> ProcessReport {
        let entries = self.changed(mark).unwrap_or_else(|NoMemory| {
            self.is_miscounted = true;
            Vec::new()
        });
        let mut report = ProcessReport {
            needed: entries.len() as u64,
            doubt: self.doubt(mark),
            ..ProcessReport::default()
        };
        if entries.len() <= room {
            for (table, place, entry) in entries {
                self.mark_reported(table, place);
                report.entries.push(entry);
            }
        }
        self.forget();
        report
    }

    /// Why the messages of the part that began at `mark` cannot be classified.
    fn doubt(&self, mark: PartStart) -> Option<Doubt> {
        match mark.unknown {
            REOPENED => Some(Doubt::Resumed),
            _ if self.is_miscounted() => Some(Doubt::Miscounted),
            unknown => (unknown != self.unknown).then_some(Doubt::Unknown),
        }
    }

    /// The counters that changed inside a part, and those that changed outside it and are not reported yet.
    fn changed(
        &mut self,
        mark: PartStart,
    ) -> Result<Vec<(ChangedTable, u32, ReportEntry)>, NoMemory> {
        self.reports += 1;
        let report = self.reports;
        let mut entries: Vec<(ChangedTable, u32, ReportEntry)> = Vec::new();
        let mut places: HashMap<(u8, u32), usize> = HashMap::new();
        // Changes are kept for enclosing parts.
        for nth in mark.journal..self.journal.len() {
            let change = self.journal[nth];
            let key = (change.table as u8, change.place);
            let at = match places.get(&key) {
                Some(at) => *at,
                None => {
                    self.seen(change.table, change.place, report);
                    places.try_reserve(1)?;
                    places.insert(key, entries.len());
                    memory::push(&mut entries, (change.table, change.place, self.entry(&change)))?;
                    entries.len() - 1
                }
            };
            entries[at].2.untidy |= change.posted <= mark.ticket;
        }
        for table in [ChangedTable::Outgoing, ChangedTable::Incoming, ChangedTable::Collective] {
            let due = self.unreported(table, report);
            entries.try_reserve(due.count())?;
            for place in self.unreported(table, report) {
                let before = self.counts(table, place);
                let change = Change { table, place, before, posted: PostingOrder::MAX };
                entries.push((table, place, self.entry(&change)));
            }
        }
        Ok(entries)
    }

    fn seen(&mut self, table: ChangedTable, place: u32, report: u64) {
        match table {
            ChangedTable::Outgoing => self.outgoing.at_mut(place).seen = report,
            ChangedTable::Incoming => self.incoming.at_mut(place).seen = report,
            ChangedTable::Collective => self.collective.at_mut(place).seen = report,
        }
    }

    fn mark_reported(&mut self, table: ChangedTable, place: u32) {
        match table {
            ChangedTable::Outgoing => self.outgoing.at_mut(place).changed = false,
            ChangedTable::Incoming => self.incoming.at_mut(place).changed = false,
            ChangedTable::Collective => self.collective.at_mut(place).changed = false,
        }
    }

    fn counts(&self, table: ChangedTable, place: u32) -> StreamCounts {
        match table {
            ChangedTable::Outgoing => self.outgoing.at(place).counts,
            ChangedTable::Incoming => self.incoming.at(place).counts,
            ChangedTable::Collective => self.collective.at(place).counts,
        }
    }

    /// Indices that have changed in a table and are not in this report.
    fn unreported(&self, table: ChangedTable, report: u64) -> impl Iterator<Item = u32> + use<'_> {
        let is_due = move |place: &u32| {
            let place = *place as usize;
            fn is_due<K>(counter: &KeyedCounter<K>, report: u64) -> bool {
                counter.changed && counter.seen != report
            }
            match table {
                ChangedTable::Outgoing => is_due(&self.outgoing.counters[place], report),
                ChangedTable::Incoming => is_due(&self.incoming.counters[place], report),
                ChangedTable::Collective => is_due(&self.collective.counters[place], report),
            }
        };
        let len = match table {
            ChangedTable::Outgoing => self.outgoing.counters.len(),
            ChangedTable::Incoming => self.incoming.counters.len(),
            ChangedTable::Collective => self.collective.counters.len(),
        };
        (0..len as u32).filter(is_due)
    }

    /// An entry with the current counters and those before the first change in the part.
    fn entry(&self, first: &Change) -> ReportEntry {
        let place = first.place;
        let mut entry = ReportEntry { begin: first.before.messages, ..ReportEntry::default() };
        let now = self.counts(first.table, first.place);
        (entry.end, entry.other) = (now.messages, now.other);
        let of_stream = |entry: &mut ReportEntry, kind, stream: &MessageStream| {
            (entry.kind, entry.comm, entry.peer, entry.tag) =
                (kind, stream.comm, stream.peer, stream.tag);
        };
        match first.table {
            ChangedTable::Outgoing => {
                let counter = self.outgoing.at(place);
                of_stream(&mut entry, EntryKind::Sent, &counter.key);
                entry.reach = counter.reach;
                // Some sends may complete after the part's end.
                entry.untidy = counter.open > 0;
            }
            ChangedTable::Incoming => {
                let counter = self.incoming.at(place);
                of_stream(&mut entry, EntryKind::Received, &counter.key);
                entry.reach = counter.reach;
                // Some probed messages may be received after the part's end.
                entry.untidy = counter.open > 0;
            }
            ChangedTable::Collective => {
                entry.reach = now.messages;
                let key = self.collective.at(place).key;
                (entry.kind, entry.comm, entry.peer) = (EntryKind::Collective, key.comm, key.size);
            }
        }
        entry
    }
}
