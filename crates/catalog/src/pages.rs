//! The state of the host buffer's memory: which *units* (the steps of touching) have their pages.
//!
//! Plain state: no memory, no lock, no waiting. `host_buffer` puts those around it, and the model
//! of a node runs it in virtual time.

use std::ops::Range;

use super::chunks::{ChunkStates, Chunks};
use super::space::Extent;
use policy::prefault::{self, PrefaultTarget};

/// Bytes touched in one step: short enough that a flush hardly waits for the step at hand.
pub const TOUCH_UNIT: u64 = 4 << 20;

/// The state of every unit and chunk.
#[derive(Clone, Debug)]
pub struct Pages {
    len: u64,
    touched: Vec<bool>,
    /// Units that somebody touches at the moment.
    claimed: Vec<bool>,
    /// Units that have pages, or are being given them.
    given: u64,
    /// Units that a copy is writing to, which makes their pages, or that give their pages back.
    written_to: Vec<bool>,
    /// How many units are in `written_to`.
    being_written: usize,
    touched_bytes: u64,
    /// Units below this one are touched, or being touched or written to.
    front: usize,
    /// No unit from this one on is touched.
    top: usize,
    /// How much is to be touched for now; `None`: all.
    target: Option<PrefaultTarget>,
    /// Nothing is touched from this unit on.
    end: usize,
    /// Which of it the driver has pinned.
    chunks: ChunkStates,
}

impl Pages {
    /// The pages of `len` bytes, none of which exists; registration will go by `chunk` bytes,
    /// rounded up to whole units.
    pub fn new(len: u64, chunk: u64) -> Pages {
        Pages {
            len,
            touched: vec![false; len.div_ceil(TOUCH_UNIT) as usize],
            claimed: vec![false; len.div_ceil(TOUCH_UNIT) as usize],
            given: 0,
            written_to: vec![false; len.div_ceil(TOUCH_UNIT) as usize],
            being_written: 0,
            touched_bytes: 0,
            front: 0,
            top: 0,
            target: None,
            end: len.div_ceil(TOUCH_UNIT) as usize,
            chunks: ChunkStates::new(Chunks::new(len, chunk)),
        }
    }

    /// The bytes of the buffer.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    // ---- touching ------------------------------------------------------------------------

    /// From here on only what is needed is touched; as nothing is known yet, that is nothing.
    pub fn go_by_need(&mut self) {
        self.target = Some(PrefaultTarget::default());
    }

    /// All is to be touched, whatever is needed. Returns whether there is more to claim now.
    pub fn want_all(&mut self) -> bool {
        self.target.take().is_some()
    }

    /// Only the whole chunks within the first `bytes` are to be touched and registered. Returns how
    /// many bytes these have, and whether there is more to claim now.
    pub fn want_first(&mut self, bytes: u64) -> (u64, bool) {
        if bytes >= self.len {
            return (self.len, self.want_all());
        }
        let layout = self.chunks.layout();
        let chunks = layout.within(bytes);
        let wanted = layout.bytes(chunks).start;
        self.end = (wanted / TOUCH_UNIT) as usize;
        self.chunks.refuse_from(chunks);
        (wanted, self.want_all())
    }

    /// A checkpoint may have so many bytes. Returns whether there is more to claim now.
    pub fn expect(&mut self, bytes: u64) -> bool {
        self.learn(|target| target.note_checkpoint(bytes))
    }

    /// Checkpoints hold so many bytes. Returns whether there is more to claim now.
    pub fn hold(&mut self, bytes: u64) -> bool {
        self.learn(|target| target.hold(bytes))
    }

    fn learn(&mut self, learn: impl FnOnce(&mut PrefaultTarget)) -> bool {
        let had_enough = self.is_enough();
        let Some(target) = &mut self.target else { return false };
        learn(target);
        had_enough && !self.is_enough()
    }

    /// Whether all units that are needed for now have or get their pages, and there may be more to touch later:
    /// others have none, or pages may go back.
    pub fn has_enough(&mut self) -> bool {
        self.pass();
        match self.front < self.touched.len() {
            true => self.is_enough(),
            false => self.target.is_some(),
        }
    }

    fn is_enough(&self) -> bool {
        let Some(target) = &self.target else { return self.front >= self.end };
        let wanted = target.bytes();
        // Whole units, so that there are not more bytes than wanted; but at least one.
        self.made() >= wanted || self.made() > 0 && self.made() + TOUCH_UNIT > wanted
    }

    /// Bytes that have pages, or are being given them.
    fn made(&self) -> u64 {
        self.given * TOUCH_UNIT
    }

    /// Changes a unit. Touching and copies may be at the same unit, which counts once.
    fn change(&mut self, unit: usize, change: impl FnOnce(&mut Self)) {
        let is_given =
            |pages: &Pages| pages.touched[unit] || pages.claimed[unit] || pages.written_to[unit];
        self.given -= u64::from(is_given(self));
        change(self);
        self.given += u64::from(is_given(self));
    }

    /// Goes on to the next unit that neither has pages nor is being given them.
    fn pass(&mut self) {
        while self.front < self.touched.len()
            && (self.touched[self.front] || self.written_to[self.front])
        {
            self.front += 1;
        }
    }

    /// Claims the next unit that has no pages yet, in ascending order. `None`: all have, or are
    /// being given them, or no more are needed for now.
    ///
    /// Touching goes ahead of the copies, never beside them in the same unit: both would make the
    /// same pages, one after the other, and gain nothing (HiPC'22, IV-A: "the pages that are not
    /// involved in flushes are touched").
    pub fn claim(&mut self) -> Option<Range<u64>> {
        self.pass();
        if self.front == self.touched.len() || self.is_enough() {
            return None;
        }
        let unit = self.front;
        self.front += 1;
        self.change(unit, |pages| pages.claimed[unit] = true);
        Some(self.bytes_of(unit))
    }

    fn bytes_of(&self, unit: usize) -> Range<u64> {
        let start = unit as u64 * TOUCH_UNIT;
        start..(start + TOUCH_UNIT).min(self.len)
    }

    /// Whether copies are making pages: should they fail, there will be more to claim.
    pub fn is_being_written(&self) -> bool {
        self.being_written > 0
    }

    /// The pages of a claimed unit exist.
    pub fn touched(&mut self, unit: Range<u64>) {
        let unit = (unit.start / TOUCH_UNIT) as usize;
        self.change(unit, |pages| {
            pages.claimed[unit] = false;
            pages.mark(unit);
        });
    }

    /// A copy is about to write these bytes, which makes their pages: units that it wholly covers
    /// need not be touched. Returns whether there is more to claim now, as more is used.
    pub fn writing(&mut self, extents: &[Extent]) -> bool {
        if self.all_touched() {
            return false;
        }
        for unit in self.covered(extents) {
            self.write_to(unit, !self.touched[unit]);
        }
        let bytes = extents.iter().map(|extent| extent.len).sum();
        self.learn(|target| target.note_use(bytes))
    }

    /// The copy has written its bytes, so their pages exist. Units that are wholly covered count as
    /// touched.
    pub fn written(&mut self, extents: &[Extent]) {
        if self.all_touched() && !self.is_being_written() {
            return;
        }
        for unit in self.covered(extents) {
            self.change(unit, |pages| {
                pages.set_written_to(unit, false);
                pages.mark(unit);
            });
        }
    }

    /// A copy has failed: what it was to write needs to be touched after all.
    pub fn not_written(&mut self, extents: &[Extent]) {
        if self.is_being_written() {
            for unit in self.covered(extents) {
                self.write_to(unit, false);
                if !self.touched[unit] {
                    self.front = self.front.min(unit);
                }
            }
        }
    }

    /// How many of these bytes lie in units without pages.
    pub fn untouched(&self, extents: &[Extent]) -> u64 {
        if self.all_touched() {
            return 0;
        }
        let mut bytes = 0;
        for extent in extents {
            let end = extent.offset + extent.len;
            let mut at = extent.offset;
            while at < end {
                let unit_end = (at / TOUCH_UNIT + 1) * TOUCH_UNIT;
                if !self.touched[(at / TOUCH_UNIT) as usize] {
                    bytes += unit_end.min(end) - at;
                }
                at = unit_end;
            }
        }
        bytes
    }

    /// Every byte before this one has its page, or is being given it.
    pub fn front(&self) -> u64 {
        (self.front as u64 * TOUCH_UNIT).min(self.len)
    }

    // ---- giving pages back ---------------------------------------------------------------

    /// How many bytes of pages are to go back, where at most `held` were held for a while.
    pub fn surplus(&self, held: u64) -> u64 {
        match self.target {
            Some(_) => prefault::surplus(self.touched_bytes, held),
            None => 0,
        }
    }

    /// The last unit with pages that lies wholly in these bytes, which hold nothing and will hold nothing
    /// meanwhile. Nobody touches it, and it is not registered.
    pub fn last_idle(&mut self, bytes: Range<u64>) -> Option<Range<u64>> {
        while self.top > 0 && !self.touched[self.top - 1] {
            self.top -= 1;
        }
        let first = bytes.start.div_ceil(TOUCH_UNIT) as usize;
        let end = if bytes.end == self.len {
            self.touched.len()
        } else {
            (bytes.end / TOUCH_UNIT) as usize
        };
        let idle = |&unit: &usize| {
            let in_use = || self.chunks.is_in_use(unit as u64 * TOUCH_UNIT);
            self.touched[unit] && !self.claimed[unit] && !in_use()
        };
        let unit = (first..end.min(self.top)).rev().find(idle)?;
        Some(self.bytes_of(unit))
    }

    /// The pages of an idle unit are about to go: until [`Pages::given_back`] nobody touches it and
    /// its chunk is not registered. False if it keeps its pages after all.
    pub fn giving_back(&mut self, unit: &Range<u64>) -> bool {
        if self.target.is_none() || self.last_idle(unit.clone()).as_ref() != Some(unit) {
            return false;
        }
        let index = (unit.start / TOUCH_UNIT) as usize;
        self.touched_bytes -= unit.end - unit.start;
        self.chunks.unit_goes(unit.start);
        self.change(index, |pages| {
            pages.touched[index] = false;
            pages.set_written_to(index, true);
        });
        true
    }

    /// The pages of a unit are gone.
    pub fn given_back(&mut self, unit: &Range<u64>) {
        let index = (unit.start / TOUCH_UNIT) as usize;
        self.write_to(index, false);
        self.front = self.front.min(index);
    }

    /// Bytes that have their pages.
    pub fn touched_bytes(&self) -> u64 {
        self.touched_bytes
    }

    /// Whether every byte has its page.
    pub fn all_touched(&self) -> bool {
        self.touched_bytes == self.len
    }

    /// The chunks, the steps of registration.
    pub fn chunks(&self) -> &ChunkStates {
        &self.chunks
    }

    /// The chunks, to register them.
    pub fn chunks_mut(&mut self) -> &mut ChunkStates {
        &mut self.chunks
    }

    /// The units that the extents cover wholly; the last one may be short.
    fn covered(&self, extents: &[Extent]) -> impl Iterator<Item = usize> {
        let len = self.len;
        let units: Vec<Range<u64>> = extents
            .iter()
            .map(|extent| {
                let end = extent.offset + extent.len;
                let last = if end == len { end.div_ceil(TOUCH_UNIT) } else { end / TOUCH_UNIT };
                extent.offset.div_ceil(TOUCH_UNIT)..last
            })
            .collect();
        units.into_iter().flatten().map(|unit| unit as usize)
    }

    fn write_to(&mut self, unit: usize, now: bool) {
        self.change(unit, |pages| pages.set_written_to(unit, now));
    }

    fn set_written_to(&mut self, unit: usize, now: bool) {
        let before = std::mem::replace(&mut self.written_to[unit], now);
        self.being_written += usize::from(now);
        self.being_written -= usize::from(before);
    }

    fn mark(&mut self, unit: usize) {
        if !std::mem::replace(&mut self.touched[unit], true) {
            let bytes = self.bytes_of(unit);
            self.touched_bytes += bytes.end - bytes.start;
            self.chunks.unit_touched(bytes.start);
            self.top = self.top.max(unit + 1);
        }
    }
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
