//! A level whose store compresses: it asks for room as the bytes come, and gives back what it has not used.

use super::world::{Job0, Third, World, NAME};
use crate::space::{cut, Extent};
use crate::state::*;
use crate::Level;
use policy::order::RestoreOrder;

/// Bytes that are compressed together.
const PIECE: usize = 5;

const THIRD: Level = Level::new(2);

/// A piece, in two bytes if each of its bytes is the one before plus one, and in one more than it has if not.
fn packed(piece: &[u8]) -> Vec<u8> {
    let len = piece.len() as u8;
    match piece.windows(2).all(|pair| pair[1] == pair[0].wrapping_add(1)) {
        true => vec![len | 0x80, piece[0]],
        false => [&[len], piece].concat(),
    }
}

fn unpacked(mut bytes: &[u8], len: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < len {
        let count = usize::from(bytes[0] & 0x7f);
        let end = match bytes[0] & 0x80 {
            0 => {
                all.extend_from_slice(&bytes[1..=count]);
                1 + count
            }
            _ => {
                all.extend((0..count as u8).map(|i| bytes[1].wrapping_add(i)));
                2
            }
        };
        bytes = &bytes[end..];
    }
    all
}

/// A move into the level that compresses.
#[derive(Debug, Default)]
pub(super) struct Packing {
    room: Vec<Extent>,
    stored: Vec<u8>,
    pieces: usize,
    answered: bool,
    is_full: bool,
}

impl World {
    pub(super) fn is_compressed(&self, level: Level) -> bool {
        self.compressed == Some(level)
    }

    pub(super) fn has_answered(&self, job: &MoveJob) -> bool {
        let packing = self.packing.get(&(job.id, job.part as usize));
        self.is_compressed(job.to.level) && packing.is_some_and(|packing| packing.answered)
    }

    /// Compresses the bytes of a part into the room that there is for them.
    pub(super) fn compress(&mut self, job: &MoveJob) {
        while self.pack(job) {}
        let packing = &self.packing[&(job.id, job.part as usize)];
        let bytes = packing.stored.len() as u64;
        let stored =
            if packing.is_full { StoreResult::Full(bytes) } else { StoreResult::In(bytes) };
        self.state.down().stored(job, stored);
    }

    /// Compresses the next piece. False: the store has answered.
    pub(super) fn pack(&mut self, job: &MoveJob) -> bool {
        let key = (job.id, job.part as usize);
        let bytes = match self.is_compressed(job.from.level) {
            true => self.decompressed(&job.from, job.len),
            false => self.plain(job.from.level, &job.from.extents, job.len),
        };
        let mut packing = self
            .packing
            .remove(&key)
            .unwrap_or_else(|| Packing { room: job.to.extents.to_vec(), ..Packing::default() });
        if packing.answered {
            self.packing.insert(key, packing);
            return false;
        }
        let Some(piece) = bytes.chunks(PIECE).nth(packing.pieces) else {
            if !packing.is_full {
                let room: Vec<Extent> =
                    cut(&packing.room, 0, packing.stored.len() as u64).collect();
                self.put(job.to.level, &room, &packing.stored);
            }
            packing.answered = true;
            self.packing.insert(key, packing);
            return false;
        };
        packing.pieces += 1;
        packing.stored.extend(packed(piece));
        let has: u64 = packing.room.iter().map(|extent| extent.len).sum();
        let lacks = (packing.stored.len() as u64).saturating_sub(has);
        if lacks > 0 && !packing.is_full {
            match self.state.down().more_room(job, lacks) {
                Some(more) => packing.room.extend(more.iter()),
                None => {
                    let (_, free) = self.state.levels().room(job.to.level);
                    let is_wanted = self.state.checkpoints().still_wanted(job.id);
                    assert!(
                        free < lacks || !is_wanted,
                        "{lacks} bytes were refused, {free} are free"
                    );
                    packing.is_full = true;
                }
            }
            self.state.check().unwrap();
        }
        let goes_on = !packing.answered;
        self.packing.insert(key, packing);
        goes_on
    }

    /// The bytes of a part that is compressed.
    pub(super) fn decompressed(&mut self, source: &Source, len: u64) -> Vec<u8> {
        let stored = self.plain(source.level, &source.extents, u64::MAX);
        unpacked(&stored, len as usize)
    }
}

fn ephemeral(host: u64, compressed: u64) -> World {
    World::new(Job0 {
        device: 0,
        growth: 0,
        host,
        third: Some(Third::Compressed(compressed)),
        scratch: false,
        persistent: false,
        ephemeral: true,
        order: RestoreOrder::Reverse,
        beside: None,
    })
}

/// Catches room that is counted by the bytes of a checkpoint, not by what it takes, and room that stays after a
/// clean-up.
#[test]
fn room_is_what_a_store_has_used() {
    // Two of three take 8 bytes for 20, in 12; the third takes 24.
    let mut world = ephemeral(24, 96);
    for version in 0..7 {
        assert!(world.capture(version, [0, 20]), "version {version}");
        world.everybody_works();
    }
    assert_eq!(world.state.levels().room(THIRD), (96, 0));
    for version in (0..7).rev() {
        world.restore(version);
    }
    world.cleanup();
    assert_eq!(world.state.levels().room(THIRD), (96, 96));
    assert_eq!(world.state.levels().used(Level::HOST), 0);
}

/// Catches a flush that is tried again and again while the level is full, one that never is, and bytes that are
/// lost by it.
#[test]
fn what_does_not_fit_stays_where_it_is_until_there_is_room() {
    let mut world = ephemeral(48, 24);
    // The third cannot be compressed.
    for version in 0..2 {
        assert!(world.capture(version, [0, 20]));
        world.everybody_works();
    }
    assert!(world.capture(2, [0, 20]));
    world.everybody_works();
    assert!(world.state.drained(), "the store was asked what it needs, and nothing can be evicted");
    world.state.removal().withdraw(NAME, 0);
    world.expected.remove(&0);
    let job = world.state.down().next_flush(Level::HOST);
    assert!(job.is_none(), "{job:?}: it needs more than has become free");
    assert_eq!(world.state.levels().room(THIRD), (24, 12));
    assert!(world.state.drained(), "until something changes");
    world.state.removal().withdraw(NAME, 1);
    world.expected.remove(&1);
    world.everybody_works();
    assert_eq!(world.state.levels().room(THIRD), (24, 0));
    world.restore(2);
}

/// Catches a flush of a checkpoint that was dropped and that discards others for it.
#[test]
fn a_flush_of_what_was_dropped_discards_nothing() {
    let mut world = ephemeral(24, 24);
    for version in 0..2 {
        assert!(world.capture(version, [0, 20]));
        world.everybody_works();
    }
    for version in 0..2 {
        world.restore(version);
        world.everybody_works();
    }
    assert!(world.capture(2, [0, 20]));
    world.begin_jobs();
    for _ in 0..2 {
        world.pack_some(0);
    }
    assert!(world.state.checkpoints().find(NAME, 1).is_some());
    world.state.removal().withdraw(NAME, 2);
    world.expected.remove(&2);
    while !world.jobs.is_empty() {
        world.end_job(0, false);
    }
    assert!(world.state.checkpoints().find(NAME, 1).is_some(), "discarded for what is dropped");
}

/// Catches checkpoints that are discarded for a part that does not fit in the end.
#[test]
fn nothing_is_discarded_for_what_does_not_fit_after_all() {
    let mut world = ephemeral(24, 30);
    for version in 0..2 {
        assert!(world.capture(version, [0, 20]));
        world.everybody_works();
    }
    world.restore(0);
    world.everybody_works();
    assert!(world.capture(2, [0, 20]));
    world.everybody_works();
    assert!(!world.capture(3, [0, 20]), "version 2 stays in the host buffer");
    assert!(world.state.checkpoints().find(NAME, 0).is_some(), "discarded in vain");
}

/// Catches a level that is too small for a part's bytes, and not for what they take, and that it never gets to.
#[test]
fn a_part_that_fits_once_it_is_compressed_is_flushed() {
    let mut world = ephemeral(24, 18);
    assert!(world.capture(0, [0, 20]));
    world.everybody_works();
    assert!(world.capture(1, [0, 20]));
}

/// Catches neighbouring room that is not put together, so that each step copies more of it.
#[test]
fn room_that_is_asked_for_step_by_step_is_in_one_piece() {
    let mut world = ephemeral(600_000, 600_000);
    assert!(world.capture(0, [0, 600_000]));
    let job = world.state.down().next_flush(Level::HOST).unwrap();
    for _ in 0..64_000 {
        assert!(world.state.down().more_room(&job, 6).is_some());
    }
    world.state.down().stored(&job, StoreResult::In(6 * 64_000));
    world.state.down().flush_done(&job, MoveEnd::Done);
    let id = world.state.checkpoints().find(NAME, 0).unwrap();
    let entry = world.state.checkpoints().entry(id).unwrap();
    assert_eq!(entry.parts[1].copy(THIRD).extents.len(), 1);
}
