//! A level whose store compresses: it asks for room as the bytes come, and gives back what it has not used.

use super::world::{Job0, Third, World, NAME};
use crate::space::Extent;
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

impl World {
    pub(super) fn is_compressed(&self, level: Level) -> bool {
        self.compressed == Some(level)
    }

    /// Compresses the bytes of a part into the room that there is for them.
    pub(super) fn compress(&mut self, job: &MoveJob) {
        let bytes = self.plain(job.from.level, &job.from.extents, job.len);
        let mut room = job.to.extents.to_vec();
        let mut stored: Vec<u8> = Vec::new();
        for piece in bytes.chunks(PIECE) {
            stored.extend(packed(piece));
            let has: u64 = room.iter().map(|extent| extent.len).sum();
            let lacks = (stored.len() as u64).saturating_sub(has);
            if lacks == 0 {
                continue;
            }
            let Some(more) = self.state.down().more_room(job, lacks) else {
                let (_, free) = self.state.levels().room(job.to.level);
                assert!(free < lacks, "{lacks} bytes were refused, {free} are free");
                return self.state.down().stored(job, StoreResult::Full(stored.len() as u64));
            };
            room.extend(more.iter());
            self.state.check().unwrap();
        }
        let room: Vec<Extent> = crate::space::cut(&room, 0, stored.len() as u64).collect();
        self.put(job.to.level, &room, &stored);
        self.state.down().stored(job, StoreResult::In(stored.len() as u64));
        self.state.check().unwrap();
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
    let job = world.state.down().next_flush(Level::HOST);
    assert!(job.is_none(), "{job:?}: nothing can be evicted, both are only there");
    assert!(world.state.drained());
    world.state.removal().withdraw(NAME, 0);
    world.expected.remove(&0);
    world.everybody_works();
    assert_eq!(world.state.levels().room(THIRD), (24, 12), "version 2 has tried, and needs more");
    assert!(world.state.drained(), "until something changes");
    world.state.removal().withdraw(NAME, 1);
    world.expected.remove(&1);
    world.everybody_works();
    assert_eq!(world.state.levels().room(THIRD), (24, 0));
    world.restore(2);
}
