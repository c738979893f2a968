//! Hand-over: what a successor must know to continue where this process ends, and the take-over.

use super::State;
use crate::entry::{Entry, FileCopy, Life, MemoryCopy, Stage};
use crate::ledger::{Ledger, Record, Slot, Standing};
use crate::{Id, Level, Part, Region, PARTS};
use errors::{Error, ErrorKind, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::Arc;

/// The ledger's content for an entry.
fn standing(entry: &Entry, staging: Level, hands_over: bool) -> Standing {
    if !matches!(entry.life, Life::Live | Life::Held) {
        return Standing::default();
    }
    let (in_scratch, needed) = (entry.scratch == FileCopy::Present, entry.needs_memory());
    let is_kept = hands_over && entry.can_be_kept();
    Standing {
        in_host: (needed || is_kept)
            && entry.parts.iter().all(|part| part.len == 0 || part.is_ready(staging)),
        in_scratch,
        persist: entry.persistent.is_due() || entry.persistent == FileCopy::Undecided,
        doomed: entry.doomed,
        placed: entry.place.is_some(),
        kept: is_kept && !in_scratch && !needed,
        in_persistent: is_kept && entry.persistent == FileCopy::Present,
        consumed: is_kept && entry.consumed.is_some(),
        carrier: entry.carrier,
    }
}

fn record(id: Id, entry: &Entry, staging: Level) -> Record<'_> {
    let part = |part: Part| {
        let part = entry.part(part);
        (part.len, Cow::Borrowed(&*part.copy(staging).extents))
    };
    Record {
        id,
        name: Cow::Borrowed(&entry.name),
        version: entry.version,
        identity: entry.identity,
        may_replace: entry.may_replace,
        routed: entry.routed.as_deref().map(Cow::Borrowed),
        place: entry.place.as_deref().copied(),
        regions: Cow::Borrowed(&entry.regions),
        mark: entry.mark,
        parts: PARTS.map(part),
    }
}

/// What a successor knows of this process.
#[derive(Debug, Default)]
pub struct Successor {
    /// Records which checkpoints are not in files yet, for the successor if this process is killed.
    pub(super) ledger: Option<Ledger>,
    /// Whether the ledger records all that is in the host buffer, for the next job.
    pub(super) hands_over: bool,
    /// The number of checkpoints that have still to reach a file and are not in the ledger, if there is one.
    pub(super) exposed: usize,
    /// Replaced checkpoints that keep their memory until the new ones are safe.
    pub(super) held: BTreeSet<Id>,
}

impl Successor {
    /// The word of a record in which a carrier sets [`crate::ledger::IN_HOST`].
    pub fn record_state(&self, slot: Slot) -> Option<&AtomicU64> {
        self.ledger.as_ref().map(|ledger| ledger.state(slot))
    }

    /// Whether the ledger has everything that has still to reach a file, or another job, so that this
    /// process is not needed for it.
    pub fn is_handed_over(&self) -> bool {
        self.exposed == 0
    }

    /// The number of stores to the ledger so far.
    #[cfg(test)]
    pub(crate) fn ledger_stores(&self) -> u64 {
        self.ledger.as_ref().map_or(0, Ledger::stores)
    }
}

impl State {
    /// Updates the record of an entry in the ledger.
    pub(super) fn note(&mut self, id: Id) {
        let Some(ledger) = &mut self.successor.ledger else { return };
        let Some(entry) = self.checkpoints.entries.get_mut(&id) else { return };
        let hands_over = self.successor.hands_over;
        let wanted = standing(entry, self.levels.staging, hands_over);
        match (entry.noted, wanted.is_of_use()) {
            (None, false) => {}
            (None, true) => {
                let slot = ledger.put(&record(id, entry, self.levels.staging), wanted);
                entry.noted = slot.map(|slot| (slot, wanted));
            }
            (Some((slot, now)), false) if entry.carrier != 0 => {
                if now != wanted {
                    ledger.void(slot);
                    entry.noted = Some((slot, wanted));
                }
            }
            (Some((slot, _)), false) => {
                ledger.remove(slot);
                entry.noted = None;
            }
            (Some((_, now)), true) if now == wanted => {}
            // The checkpoint was read back, elsewhere: a new record, before the old one goes.
            (Some((old, now)), true) if wanted.in_host && !now.in_host && now.carrier == 0 => {
                if let Some(slot) = ledger.put(&record(id, entry, self.levels.staging), wanted) {
                    ledger.remove(old);
                    entry.noted = Some((slot, wanted));
                }
            }
            (Some((slot, _)), true) => {
                ledger.set(slot, wanted, entry.place.as_deref());
                entry.noted = Some((slot, wanted));
            }
        }
        if !entry.is_exposed(hands_over) && entry.replaces.is_some() {
            self.removal().drop_replaced(id);
        }
    }

    /// The checkpoints that the ledger does not have though another job should get them, by name and
    /// version.
    pub fn not_handed_over(&self) -> Vec<(Arc<str>, i32)> {
        let exposed = self.checkpoints.entries.values().filter(|entry| entry.lists.exposed);
        exposed.map(|entry| (entry.name.clone(), entry.version)).collect()
    }
}

/// Steps of a job that begins with what another has left, or records for another.
#[derive(Debug)]
pub struct Handover<'a> {
    pub(super) state: &'a mut State,
}

impl Handover<'_> {
    /// Gives back what [`Handover::prepare_record`] has taken.
    pub fn forget_record(&mut self, slot: Slot) {
        if let Some(ledger) = &mut self.state.successor.ledger {
            ledger.remove(slot);
        }
    }

    /// From now on, records in this ledger which checkpoints are not in files yet.
    pub fn note_to(&mut self, ledger: Ledger) {
        self.state.successor.ledger = Some(ledger);
    }

    /// From now on, records all that is in the host buffer: another job takes it over.
    pub fn hand_over_to(&mut self, ledger: Ledger) {
        self.state.successor.hands_over = true;
        self.note_to(ledger);
    }

    /// Takes room in the ledger for a checkpoint that is about to be committed, of these regions, and
    /// whose bytes a carrier will copy. The record counts once it is committed. `None`: there is no
    /// ledger, or no room in it.
    pub fn prepare_record(&mut self, id: Id, regions: &[Region]) -> Option<Slot> {
        let staging = self.state.levels.staging;
        let ledger = self.state.successor.ledger.as_mut()?;
        let entry = self.state.checkpoints.entries.get(&id)?;
        let record = Record { regions: Cow::Borrowed(regions), ..record(id, entry, staging) };
        ledger.prepare(&record)
    }

    /// Takes over a checkpoint that another process has left in the staging level or in scratch.
    /// `slot`: its place in the ledger, if this process goes on with that.
    ///
    /// # Errors
    /// The checkpoint's bytes are outside the level, or where another one's are.
    pub fn take_over(
        &mut self,
        record: &Record<'_>,
        standing: Standing,
        slot: Option<Slot>,
    ) -> Result<()> {
        let taken = self.take_one_over(record, standing, slot);
        if let (Err(_), Some(ledger), Some(slot)) = (&taken, &mut self.state.successor.ledger, slot)
        {
            ledger.remove(slot);
        }
        taken
    }

    fn take_one_over(
        &mut self,
        record: &Record<'_>,
        standing: Standing,
        slot: Option<Slot>,
    ) -> Result<()> {
        let id = record.id;
        if self.state.checkpoints.entries.contains_key(&id) {
            // The writer was killed between the new record and the end of the old: either is true.
            if let (Some(ledger), Some(slot)) = (&mut self.state.successor.ledger, slot) {
                ledger.remove(slot);
            }
            return Ok(());
        }
        if id == Id::MAX {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("checkpoint \"{}\" has the number {id}", record.name),
            ));
        }
        self.state.checkpoints.next_id = self.state.checkpoints.next_id.max(id + 1);
        let staging = self.state.levels.staging;
        let mut entry = Entry::new(
            self.state.checkpoints.interned(&record.name),
            record.version,
            record.identity,
        );
        entry.regions = Arc::from(&*record.regions);
        entry.mark = record.mark;
        entry.may_replace = record.may_replace;
        for part in PARTS {
            let (len, extents) = &record.parts[part as usize];
            let state = entry.part_mut(part);
            state.len = *len;
            if !standing.in_host || *len == 0 {
                continue;
            }
            if !self.state.levels.level_mut(staging).space.take(extents) {
                return Err(Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "checkpoint \"{}\" version {}: its bytes are not where its record says",
                        record.name, record.version
                    ),
                ));
            }
            let extents = Arc::from(&**extents);
            *state.copy_mut(staging) =
                MemoryCopy { stage: Stage::Ready, extents, ..MemoryCopy::default() };
        }
        entry.scratch = match (standing.in_scratch, standing.kept) {
            (true, _) => FileCopy::Present,
            (false, false) => FileCopy::Wanted,
            (false, true) => FileCopy::Absent,
        };
        if standing.persist {
            entry.persistent = FileCopy::Wanted;
        } else if standing.in_persistent {
            entry.persistent = FileCopy::Present;
        }
        if standing.consumed {
            entry.consumed = Some(self.state.ahead.next_consumed);
            self.state.ahead.next_consumed += 1;
        }
        entry.noted =
            slot.filter(|_| self.state.successor.ledger.is_some()).map(|slot| (slot, standing));
        entry.routed = record.routed.as_deref().map(Arc::from);
        entry.place = record.place.map(Box::new);
        entry.doomed = standing.doomed;
        self.state.checkpoints.entries.insert(id, Box::new(entry));
        self.state.make_live(id);
        Ok(())
    }
}
