//! The levels of memory in the catalog: for each its row, its room and its own lists. Nothing else in the
//! catalog knows which levels there are.

use super::State;
use crate::entry::{Entry, MemoryCopy, PartState, Readable, Stage};
use crate::level::LevelSpec;
use crate::space::{Extent, Space};
use crate::{Id, Level, Part, MOST, PARTS};
use policy::evict::EvictionClass;
use std::collections::BTreeSet;
use std::ops::Range;

/// A level of memory.
#[derive(Debug)]
pub(super) struct LevelState {
    pub(super) spec: LevelSpec,
    pub(super) space: Space,
    /// Free room that nobody gets for now, as its pages are being given back to the system.
    pub(super) aside: u64,
    /// Room that is never used again, as a copy to it could not be waited for, or cannot be written.
    pub(super) stranded: u64,
    /// Whether all bytes that it begins with are there, or will not come.
    pub(super) complete: bool,
    /// Up to how many bytes it grows when captures would wait for room.
    most: u64,
    /// It was asked to grow, and could not.
    refused: bool,
    /// Bytes that a capture lacks, by which it is to grow.
    wanted: u64,
    /// Checkpoints that could be flushed from it. Consumed ones come last, the others in the order in which
    /// they were taken.
    pub(super) flush: BTreeSet<(bool, Id)>,
    pub(super) victims: BTreeSet<(EvictionClass, Id)>,
    /// Hinted checkpoints that could be fetched to it.
    pub(super) hinted: BTreeSet<(u64, Id)>,
    /// Whether a flush from it waits for room below: ephemeral checkpoints may then spill to files.
    pub(super) starved: bool,
    /// Flushes from it that are under way.
    pub(super) flushing: u32,
    /// Fetches to it that are under way.
    pub(super) fetching: u32,
}

impl LevelState {
    pub(super) fn new(spec: LevelSpec) -> LevelState {
        let mut space = Space::new(spec.granule);
        if !spec.grows {
            space.grow(spec.capacity);
        }
        LevelState {
            space,
            aside: 0,
            stranded: 0,
            complete: !spec.grows || spec.capacity == 0,
            most: 0,
            refused: false,
            wanted: 0,
            spec,
            flush: BTreeSet::new(),
            victims: BTreeSet::new(),
            hinted: BTreeSet::new(),
            starved: false,
            flushing: 0,
            fetching: 0,
        }
    }

    /// Takes the room of a copy for good.
    pub(super) fn strand(&mut self, copy: &mut MemoryCopy) {
        let extents = std::mem::take(&mut copy.extents);
        copy.stage = Stage::default();
        self.stranded += extents.iter().map(|extent| extent.len).sum::<u64>();
    }

    /// Whether `len` bytes would fit if it were empty, in what it has for good.
    pub(super) fn fits(&self, len: u64) -> bool {
        self.space.rounded(len) <= self.spec.capacity
    }

    /// By how many bytes it may still grow.
    fn growable(&self) -> u64 {
        match self.refused {
            true => 0,
            false => self.most.saturating_sub(self.space.capacity()),
        }
    }

    /// The bytes that a capture may count on: it can wait until they are there.
    pub(super) fn reach(&self) -> u64 {
        self.spec.capacity.max(self.space.capacity() + self.growable())
    }

    /// How many bytes of an allocation of `len` are not free.
    fn lacks(&self, len: u64) -> u64 {
        self.space.rounded(len).saturating_sub(self.space.free())
    }

    /// A capture has its room: whoever else lacks some asks again.
    pub(super) fn wants_no_more(&mut self) {
        self.wanted = 0;
    }

    /// Asks for the memory that `len` bytes lack. Returns whether any may come.
    pub(super) fn ask_to_grow(&mut self, len: u64) -> bool {
        let growable = self.growable();
        self.wanted = self.wanted.max(self.lacks(len).min(growable));
        growable > 0
    }
}

/// All levels of memory.
#[derive(Debug)]
pub struct MemoryLevels {
    /// The fastest first.
    pub(super) levels: Vec<LevelState>,
    pub(super) staging: Level,
    /// The first level that captures each part.
    pub(super) tops: [Level; 2],
    /// Whether the application waits for room: ephemeral checkpoints may then spill to files.
    pub(super) starved: Option<Level>,
}

impl MemoryLevels {
    pub(super) fn new(rows: &[LevelSpec]) -> Self {
        let levels: Vec<LevelState> = rows.iter().cloned().map(LevelState::new).collect();
        let first = |is: &dyn Fn(&LevelState) -> bool| levels.iter().position(is).map(Level::new);
        let staging = first(&|level| level.spec.staging).unwrap_or(Level::HOST);
        let tops = [0, 1].map(|part| first(&|level| level.spec.captures[part]).unwrap_or(staging));
        MemoryLevels { levels, staging, tops, starved: None }
    }

    /// Whether the staging level, if it were empty, could hold `lens` bytes of each part.
    pub fn fits_staging(&self, lens: [u64; 2]) -> bool {
        let staging = self.level(self.staging);
        let [device, host] = lens.map(|len| staging.space.rounded(len));
        device.saturating_add(host) <= staging.spec.capacity
    }

    /// How many checkpoints could be flushed from a level next.
    pub fn flushes_waiting(&self, from: Level) -> usize {
        self.level(from).flush.len()
    }

    pub(super) fn level(&self, level: Level) -> &LevelState {
        &self.levels[level.index()]
    }

    pub(super) fn level_mut(&mut self, level: Level) -> &mut LevelState {
        &mut self.levels[level.index()]
    }

    /// All levels of memory, the fastest first.
    pub fn all(&self) -> impl DoubleEndedIterator<Item = Level> {
        (0..self.levels.len()).map(Level::new)
    }

    /// The level that files are written from and read to.
    pub fn staging(&self) -> Level {
        self.staging
    }

    /// The name of a level in messages.
    pub fn name_of(&self, level: Level) -> &'static str {
        self.level(level).spec.name
    }

    /// The first level that captures a part.
    pub(super) fn top(&self, part: Part) -> Level {
        self.tops[part as usize]
    }

    /// The next lower level that could hold a part.
    pub(super) fn below(&self, level: Level, part: &PartState) -> Option<Level> {
        let mut lower = self.all().skip(level.index() + 1);
        lower.find(|&below| self.level(below).fits(self.first_room(part, below)))
    }

    /// The room with which a flush of a part to a level begins. A store that compresses has to be asked how much it
    /// needs: until then it is none, and more follows ([`Down::more_room`](super::Down::more_room)).
    pub(super) fn first_room(&self, part: &PartState, to: Level) -> u64 {
        match self.level(to).spec.compresses {
            true => part.copy(to).needs,
            false => part.len,
        }
    }

    /// The next part that a flush of an entry from a level would copy, and the destination.
    pub(super) fn flush_of(&self, entry: &Entry, level: Level) -> Option<(Part, Level)> {
        PARTS.into_iter().find_map(|part| {
            let state = entry.part(part);
            let flushable =
                state.len > 0 && state.is_ready(level) && state.is_absent(level.index() + 1..MOST);
            flushable.then(|| Some((part, self.below(level, state)?)))?
        })
    }

    /// The next part that a fetch of an entry to a level would copy, and the source.
    pub(super) fn fetch_of(&self, entry: &Entry, level: Level) -> Option<(Part, Level)> {
        PARTS.into_iter().find_map(|part| {
            let state = entry.part(part);
            let below = self.below(level, state)?;
            let fetchable = state.len > 0
                && level >= self.top(part)
                && state.is_absent(0..level.index() + 1)
                && state.is_ready(below)
                && self.level(level).fits(state.len.max(state.copy(level).needs));
            fetchable.then_some((part, below))
        })
    }

    /// Frees all memory of a checkpoint, if there is one.
    pub(super) fn release(&mut self, entry: Option<&mut Entry>) {
        for part in entry.into_iter().flat_map(|entry| &mut entry.parts) {
            part.len = 0;
            for (copy, level) in part.copies.iter_mut().zip(&mut self.levels) {
                level.space.release(&std::mem::take(copy).extents);
            }
        }
    }

    /// Allocates room, without eviction.
    pub(super) fn allocate(&mut self, level: Level, len: u64) -> Option<std::sync::Arc<[Extent]>> {
        Some(self.level_mut(level).space.allocate(len)?.into())
    }

    /// The room of a level in bytes: all that exists, and the free part.
    pub fn room(&self, level: Level) -> (u64, u64) {
        let space = &self.level(level).space;
        (space.capacity(), space.free())
    }

    /// The used bytes of a level.
    pub fn used(&self, level: Level) -> u64 {
        let (capacity, free) = self.room(level);
        capacity - free
    }

    /// The bytes of checkpoints that the levels of memory can hold for good.
    pub fn capacity(&self) -> u64 {
        self.levels.iter().map(|level| level.spec.capacity).sum()
    }

    /// By how many bytes a level is to grow, as a capture waits for them.
    pub fn wanted(&self, level: Level) -> u64 {
        let level = self.level(level);
        level.wanted.min(level.growable())
    }

    /// Where a writer could read the whole checkpoint from now, if it could.
    pub(super) fn readable(&self, entry: &Entry) -> Option<Readable> {
        let mut from = Readable::Staged;
        for part in entry.parts.iter().filter(|part| part.len > 0) {
            // A part that can never be in the staging level is always read elsewhere.
            let may_come = self.level(self.staging).fits(part.len) && !part.flush_has_failed();
            if self.readable_from(part)? < self.staging && may_come {
                from = Readable::Unstaged;
            }
        }
        Some(from)
    }

    /// The level from which a writer reads a part; `None` if it is empty or not in memory.
    pub(super) fn readable_from(&self, part: &PartState) -> Option<Level> {
        let above = self.staging.index();
        // A part below the staging level is not moved there to be written.
        let mut nearest = self.all().skip(above).chain(self.all().take(above));
        nearest.find(|&level| part.len > 0 && part.is_ready(level))
    }

    /// Whether an entry is not in memory, and the staging level could hold all of it.
    pub(super) fn could_be_read(&self, entry: &Entry) -> bool {
        let staging = self.level(self.staging);
        let total: u64 = entry.parts.iter().map(|part| staging.space.rounded(part.len)).sum();
        total > 0
            && total <= staging.spec.capacity
            && entry.parts.iter().all(|part| part.is_absent(0..MOST))
    }

    /// Whether flushes from a level wait until what is fetched to it has come: a drive does one or the other at its speed,
    /// and what is read is awaited sooner than room that nobody lacks.
    pub(super) fn reads_first(&self, from: Level, to: Level) -> bool {
        let somebody_lacks_room =
            || self.starved.is_some() || self.levels.iter().any(|level| level.starved);
        self.level(to).spec.drive && self.level(from).fetching > 0 && !somebody_lacks_room()
    }

    /// Whether room only comes if ephemeral checkpoints spill to files.
    pub(super) fn pressed(&self) -> bool {
        // Flushes make room for the application where they have room themselves.
        let flushes =
            |level: &LevelState| level.flushing > 0 || !(level.starved || level.flush.is_empty());
        let waits = |level| level == self.staging || !flushes(self.level(level));
        // The checkpoints to be flushed may be gone.
        self.starved.is_some_and(waits)
            || self.levels.iter().any(|level| level.starved && !level.flush.is_empty())
    }
}

/// Steps of levels that get room, or lose it.
#[derive(Debug)]
pub struct Growth<'a> {
    pub(super) state: &'a mut State,
}

impl Growth<'_> {
    /// A level will get `bytes`, none of which exist yet.
    pub fn expect_capacity(&mut self, level: Level, bytes: u64) {
        let level = self.state.levels.level_mut(level);
        level.spec.capacity = bytes;
        level.complete = bytes == 0;
    }

    /// A level may grow up to so many bytes when a capture would wait for room.
    pub fn may_grow_to(&mut self, level: Level, most: u64) {
        self.state.levels.level_mut(level).most = most;
    }

    /// A level cannot grow now. Nobody waits for that until [`Growth::ask_again`].
    pub fn refused(&mut self, level: Level) {
        let memory = self.state.levels.level_mut(level);
        (memory.refused, memory.wanted) = (true, 0);
        self.state.work.changes += 1;
    }

    /// A level that could not grow may be asked again.
    pub fn ask_again(&mut self, level: Level) {
        self.state.levels.level_mut(level).refused = false;
        self.state.work.changes += 1;
    }

    /// Takes the room from `start` to the end out of a level; what is there and elsewhere, too, is evicted. False, and
    /// nothing has changed, if something has to stay, or a capture waits for room.
    pub fn shrink(&mut self, level: Level, start: u64) -> bool {
        let LevelState { space, victims, wanted, .. } = self.state.levels.level(level);
        if *wanted > 0 || self.state.levels.starved == Some(level) {
            return false;
        }
        let beyond = |range: Range<u64>| range.end.saturating_sub(range.start.max(start));
        let free: u64 = space.holes().map(beyond).sum();
        let mut held = space.capacity().saturating_sub(start) - free;
        let mut there: Vec<Id> = Vec::new();
        for &(_, id) in victims.iter().take_while(|(class, _)| *class < EvictionClass::Discardable)
        {
            let Some(entry) = self.state.checkpoints.entries.get(&id) else { continue };
            let copies = entry.parts.iter().filter(|part| part.is_ready(level));
            let extents = copies.flat_map(|part| part.copy(level).extents.iter());
            let bytes: u64 = extents.map(|e| beyond(e.offset..e.offset + e.len)).sum();
            if bytes > 0 {
                held -= bytes;
                there.push(id);
            }
        }
        if held > 0 {
            return false;
        }
        there.into_iter().for_each(|id| self.state.eviction().evict(id, level));
        self.state.work.changes += 1;
        self.state.levels.level_mut(level).space.shrink(start)
    }

    /// Gives out freed room first, as it has pages already, or else goes by FIFO, as in HiPC'22.
    pub fn pack(&mut self, level: Level, packs: bool) {
        self.state.levels.level_mut(level).space.pack(packs);
    }

    /// Sets aside free room that `find` picks in one of the runs of free bytes, the last one first.
    /// To be followed by [`Growth::put_back`].
    pub fn set_aside(
        &mut self,
        level: Level,
        find: impl FnMut(Range<u64>) -> Option<Range<u64>>,
    ) -> Option<Range<u64>> {
        let memory = self.state.levels.level_mut(level);
        let found = memory.space.holes().find_map(find)?;
        let len = found.end - found.start;
        if !memory.space.take(&[Extent { offset: found.start, len }]) {
            return None;
        }
        memory.aside += len;
        Some(found)
    }

    /// The most bytes of a level that were used at once since the last call.
    pub fn most_used(&mut self, level: Level) -> u64 {
        self.state.levels.level_mut(level).space.most_taken()
    }

    /// A level has grown by `bytes`.
    pub fn grown(&mut self, level: Level, bytes: u64) {
        let memory = self.state.levels.level_mut(level);
        memory.space.grow(bytes);
        memory.wanted = memory.wanted.saturating_sub(bytes);
        self.state.work.changes += 1;
    }

    /// A level has what it begins with, and nothing waits for the rest.
    pub fn completed(&mut self, level: Level) {
        self.state.levels.level_mut(level).complete = true;
        self.resized(level);
    }

    /// Frees room that was set aside.
    pub fn put_back(&mut self, level: Level, room: &Range<u64>) {
        let len = room.end - room.start;
        let memory = self.state.levels.level_mut(level);
        memory.aside -= len;
        memory.space.release(&[Extent { offset: room.start, len }]);
        self.state.work.changes += 1;
    }

    /// Limits a level to what is used of its first `bytes` and its existing room beyond them, as
    /// memory is short.
    pub fn limit(&mut self, level: Level, bytes: u64) {
        let memory = self.state.levels.level_mut(level);
        memory.space.withdraw(bytes.next_multiple_of(memory.spec.granule));
        self.resized(level);
    }

    /// Limits a level like [`Growth::limit`], but permanently.
    pub fn shorten(&mut self, level: Level, bytes: u64) {
        self.limit(level, bytes);
        self.state.levels.level_mut(level).space.forget_withdrawn();
    }

    /// Removes the limit of [`Growth::limit`].
    pub fn lift_limit(&mut self, level: Level) {
        self.state.levels.level_mut(level).space.restore();
        self.resized(level);
    }

    fn resized(&mut self, level: Level) {
        let memory = self.state.levels.level_mut(level);
        memory.spec.capacity = memory.space.capacity();
        self.state.work.changes += 1;
        let ids: Vec<Id> = self.state.checkpoints.entries.keys().copied().collect();
        for id in ids {
            self.state.reindex(id);
        }
    }
}
