//! What the memory of the host buffer is like: which *units* (the steps of touching) have their
//! pages, and which *chunks* (the steps of registration) the driver has pinned.
//!
//! Plain state: no memory, no lock, no waiting. `host_buffer` puts those around it, and the model
//! of a node runs it in virtual time.

use std::ops::Range;

use crate::space::Extent;
use policy::prefault::PrefaultTarget;
use policy::register::{self, Next, Pin};

/// Bytes touched in one step: short enough that a flush hardly waits for the step at hand.
pub const TOUCH_UNIT: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    /// Not registered yet.
    Open,
    /// Being registered.
    Registering,
    /// Registered.
    Registered,
    /// The driver would not.
    Refused,
}

/// Where the chunks lie.
#[derive(Clone, Copy, Debug)]
pub struct Chunks {
    len: u64,
    size: u64,
}

impl Chunks {
    /// How many there are.
    pub fn count(self) -> usize {
        self.len.div_ceil(self.size) as usize
    }

    /// The bytes of a chunk.
    pub fn bytes(self, chunk: usize) -> Range<u64> {
        let start = chunk as u64 * self.size;
        start..(start + self.size).min(self.len)
    }

    /// Where the chunk of `offset` ends: no copy by the device goes beyond.
    pub fn end(self, offset: u64) -> u64 {
        ((offset / self.size + 1) * self.size).min(self.len)
    }

    fn of(self, offset: u64) -> usize {
        (offset / self.size) as usize
    }
}

/// The state of every unit and chunk.
#[derive(Clone, Debug)]
pub struct Pages {
    len: u64,
    layout: Chunks,
    touched: Vec<bool>,
    /// Units that a copy is writing to: it makes their pages.
    written_to: Vec<bool>,
    /// How many of those there are.
    being_written: usize,
    touched_bytes: u64,
    /// Units below this one are touched, or being touched or written to.
    front: usize,
    /// What is to be touched for now, if not all.
    target: Option<PrefaultTarget>,
    chunks: Vec<Chunk>,
    /// For each chunk, its units that have no pages.
    untouched_units: Vec<u32>,
    registered_bytes: u64,
    /// Nothing is touched for now.
    resting: bool,
}

impl Pages {
    /// The pages of `len` bytes, none of which exists; registration will go by `chunk` bytes,
    /// rounded up to whole units.
    pub fn new(len: u64, chunk: u64) -> Pages {
        let layout = Chunks { len, size: chunk.max(TOUCH_UNIT).next_multiple_of(TOUCH_UNIT) };
        let units = |bytes: Range<u64>| (bytes.end - bytes.start).div_ceil(TOUCH_UNIT) as u32;
        Pages {
            len,
            layout,
            touched: vec![false; len.div_ceil(TOUCH_UNIT) as usize],
            written_to: vec![false; len.div_ceil(TOUCH_UNIT) as usize],
            being_written: 0,
            touched_bytes: 0,
            front: 0,
            target: None,
            chunks: vec![Chunk::Open; layout.count()],
            untouched_units: (0..layout.count()).map(|chunk| units(layout.bytes(chunk))).collect(),
            registered_bytes: 0,
            resting: false,
        }
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    // ---- touching ------------------------------------------------------------------------

    /// Only what is needed is to be touched from here on; as nothing is known yet, that is nothing.
    pub(crate) fn go_by_need(&mut self) {
        self.target = Some(PrefaultTarget::default());
    }

    /// All is to be touched, whatever is needed. Whether there is more to claim by that.
    pub fn want_all(&mut self) -> bool {
        self.target.take().is_some()
    }

    /// A checkpoint may have so many bytes. Whether there is more to claim by that.
    pub fn expect(&mut self, bytes: u64) -> bool {
        self.learn(|target| target.note_checkpoint(bytes))
    }

    fn learn(&mut self, learn: impl FnOnce(&mut PrefaultTarget)) -> bool {
        let Some(target) = &mut self.target else { return false };
        let before = target.bytes();
        learn(target);
        let at = self.front as u64 * TOUCH_UNIT;
        at < self.len && before <= at && at < target.bytes()
    }

    /// Whether all that is needed for now has pages, or is being given them, and there is more.
    pub(crate) fn has_enough(&mut self) -> bool {
        self.pass();
        self.front < self.touched.len() && self.front as u64 * TOUCH_UNIT >= self.wanted()
    }

    /// Bytes that are to have pages for now.
    fn wanted(&self) -> u64 {
        self.target.map_or(self.len, |target| target.bytes())
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
        if self.front == self.touched.len() || self.has_enough() {
            return None;
        }
        let unit = self.front as u64;
        self.front += 1;
        Some(unit * TOUCH_UNIT..((unit + 1) * TOUCH_UNIT).min(self.len))
    }

    /// Whether copies are making pages: should they fail, there will be more to claim.
    pub fn is_being_written(&self) -> bool {
        self.being_written > 0
    }

    /// The pages of a claimed unit exist.
    pub fn touched(&mut self, unit: Range<u64>) {
        self.mark((unit.start / TOUCH_UNIT) as usize);
    }

    /// A copy is about to write there, which makes the pages: the units that it wholly covers need
    /// not be touched. Whether there is more to claim by that, as more is used.
    pub fn writing(&mut self, extents: &[Extent]) -> bool {
        if self.all_touched() {
            return false;
        }
        for unit in self.covered(extents) {
            self.write_to(unit, !self.touched[unit]);
        }
        self.used(extents)
    }

    /// The copy has written its bytes, so their pages exist. Units that are wholly covered count as
    /// touched. Whether there is more to claim by that, as more is used.
    pub fn written(&mut self, extents: &[Extent]) -> bool {
        if self.all_touched() && !self.is_being_written() {
            return false;
        }
        for unit in self.covered(extents) {
            self.write_to(unit, false);
            self.mark(unit);
        }
        self.used(extents)
    }

    fn used(&mut self, extents: &[Extent]) -> bool {
        let end = extents.iter().map(|extent| extent.offset + extent.len).max().unwrap_or(0);
        self.learn(|target| target.note_use(end))
    }

    /// The copy has failed: what it was to write needs to be touched after all.
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

    /// What has no pages yet will not be touched: only the rest is to be registered.
    pub fn give_up(&mut self) {
        for chunk in 0..self.chunks.len() {
            if self.chunks[chunk] == Chunk::Open && !self.chunk_touched(chunk) {
                self.chunks[chunk] = Chunk::Refused;
            }
        }
    }

    /// Whether nothing is touched for now: what has its pages is then registered without waiting for
    /// the rest.
    pub fn rest(&mut self, resting: bool) {
        self.resting = resting;
    }

    /// Every byte before this one has its page, or is being given it.
    pub fn front(&self) -> u64 {
        (self.front as u64 * TOUCH_UNIT).min(self.len)
    }

    /// Bytes that have their pages.
    pub fn touched_bytes(&self) -> u64 {
        self.touched_bytes
    }

    /// Whether every byte has its page.
    pub fn all_touched(&self) -> bool {
        self.touched_bytes == self.len
    }

    /// Bytes that are registered.
    pub fn registered_bytes(&self) -> u64 {
        self.registered_bytes
    }

    // ---- registration --------------------------------------------------------------------

    /// Where the chunks lie.
    pub fn layout(&self) -> Chunks {
        self.layout
    }

    /// What the registrar is to do next.
    pub fn next_registration(&self, pin: Pin) -> Next {
        let open = |chunk: usize| self.chunks[chunk] == Chunk::Open;
        let waits = |chunk: usize| open(chunk) && !self.chunk_touched(chunk);
        let any_waits = (0..self.chunks.len()).any(waits);
        let next = register::next(
            pin,
            self.chunks.len(),
            self.resting || !any_waits,
            |chunk| self.chunk_touched(chunk),
            |chunk| !open(chunk) || self.resting && waits(chunk),
        );
        match next {
            Next::Done if any_waits && pin != Pin::Off => Next::Wait,
            next => next,
        }
    }

    /// The chunk is about to be registered. False: it is not to be after all.
    pub fn begin_registration(&mut self, chunk: usize) -> bool {
        let is_open = self.chunks[chunk] == Chunk::Open;
        if is_open {
            self.chunks[chunk] = Chunk::Registering;
        }
        is_open
    }

    /// The registration of a chunk has ended: it is registered, or the driver has refused.
    pub fn registration_ended(&mut self, chunk: usize, registered: bool) {
        if registered {
            self.chunks[chunk] = Chunk::Registered;
            let bytes = self.layout.bytes(chunk);
            self.registered_bytes += bytes.end - bytes.start;
        } else {
            self.chunks[chunk] = Chunk::Refused;
        }
    }

    /// Whether the chunk of `offset` is registered.
    pub fn is_registered(&self, offset: u64) -> bool {
        self.chunks[self.layout.of(offset)] == Chunk::Registered
    }

    /// The chunks that are registered.
    pub fn registered(&self) -> Vec<usize> {
        (0..self.chunks.len()).filter(|&c| self.chunks[c] == Chunk::Registered).collect()
    }

    fn chunk_touched(&self, chunk: usize) -> bool {
        self.untouched_units[chunk] == 0
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
        let before = std::mem::replace(&mut self.written_to[unit], now);
        self.being_written += usize::from(now);
        self.being_written -= usize::from(before);
    }

    fn mark(&mut self, unit: usize) {
        if !std::mem::replace(&mut self.touched[unit], true) {
            let start = unit as u64 * TOUCH_UNIT;
            self.touched_bytes += (start + TOUCH_UNIT).min(self.len) - start;
            self.untouched_units[self.layout.of(start)] -= 1;
        }
    }
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
