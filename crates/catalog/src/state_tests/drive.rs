//! A drive below the host buffer: what is flushed to it, and what is not.

use super::world::{mapped, Job0, Third, World, NAME};
use crate::state::*;
use crate::{Level, Part};
use policy::order::RestoreOrder;

/// A device cache of so many bytes, a host buffer for three checkpoints, and this below it.
fn above(device: u64, third: Third) -> World {
    mapped(Job0 {
        device,
        growth: 0,
        host: 36,
        third: Some(third),
        scratch: false,
        persistent: false,
        ephemeral: true,
        order: RestoreOrder::Reverse,
        beside: None,
    })
}

fn restore(world: &mut World, version: i32) {
    let id = world.state.checkpoints().find(NAME, version).unwrap();
    world.state.up().begin_restore(id);
    world.state.up().end_restore(id, true);
}

/// Catches a flush to a drive that goes on although what it flushes was read, one that counts as a failure, and room of it that
/// stays.
#[test]
fn a_flush_to_a_drive_of_what_was_restored_is_in_vain() {
    let mut world = above(0, Third::Drive(120));
    assert!(world.capture(0, [0, 12]));
    let flush = world.state.down().next_flush(Level::HOST).unwrap();
    assert!(!flush.is_in_vain(&world.state));
    restore(&mut world, 0);
    assert!(flush.is_in_vain(&world.state));
    world.state.down().stored(&flush, StoreResult::Full(12));
    world.state.down().flush_done(&flush, MoveEnd::Done);
    assert_eq!(world.state.levels().used(Level::new(2)), 0);
    assert!(world.state.take_failure().is_none());
    assert!(world.state.down().next_flush(Level::HOST).is_none());
    world.state.check().unwrap();
    // It will be read again.
    world.state.up().hint(NAME, 0);
    assert!(world.state.down().next_flush(Level::HOST).is_some());
}

/// A host buffer for three, of which the last was restored, above a drive. Catches a fetch that waits until what was
/// restored has been written there, and anything else that is discarded for it.
#[test]
fn what_was_restored_is_not_written_to_a_drive() {
    for drive in [true, false] {
        let third = if drive { Third::Drive(120) } else { Third::Below(120) };
        let mut world = above(0, third);
        for version in 0..4 {
            assert!(world.capture(version, [0, 12]));
            if version < 2 {
                world.begin_jobs();
                world.end_job(0, false);
            }
        }
        let next = |world: &mut World| {
            let flush = world.state.down().next_flush(Level::HOST).map(|job| job.version);
            let fetch = world.state.up().next_fetch(Level::HOST).map(|job| job.version);
            (flush, fetch)
        };
        restore(&mut world, 3);
        assert_eq!(next(&mut world), (Some(2), drive.then_some(0)));
        let last = world.state.down().next_flush(Level::HOST).map(|job| job.version);
        assert_eq!(last, (!drive).then_some(3));
        assert_eq!(world.state.checkpoints().find(NAME, 3).is_none(), drive);
        world.state.check().unwrap();
    }
}

/// Catches flushes to a drive that take their share from what is read ahead, and that keep a capture from its room.
#[test]
fn a_drive_reads_first_unless_a_capture_lacks_room() {
    let mut world = above(0, Third::Drive(120));
    for version in 0..4 {
        assert!(world.capture(version, [0, 12]));
        if version == 0 {
            world.begin_jobs();
            world.end_job(0, false);
        }
    }
    restore(&mut world, 3);
    let fetch = world.state.up().next_fetch(Level::HOST).unwrap();
    assert_eq!(fetch.version, 0);
    assert!(world.state.down().next_flush(Level::HOST).is_none());
    let id = world.state.captures().open(NAME, 4);
    let reserved = world.state.captures().reserve(id, Part::Host, 12, Level::HOST);
    assert!(matches!(reserved, Reserve::Wait(WaitFor::Room(_))));
    let flush = world.state.down().next_flush(Level::HOST).unwrap();
    world.state.down().flush_done(&flush, MoveEnd::Done);
    let reserved = world.state.captures().reserve(id, Part::Host, 12, Level::HOST);
    assert!(matches!(reserved, Reserve::Got { .. }));
    assert!(world.state.down().next_flush(Level::HOST).is_none());
    world.state.up().fetch_done(&fetch, MoveEnd::Done);
    assert!(world.state.down().next_flush(Level::HOST).is_some());
}

/// Catches a part that was restored and takes the room of what is read ahead, which discards it there again, for ever.
#[test]
fn what_was_restored_is_not_flushed_towards_a_drive() {
    for drive in [true, false] {
        let third = if drive { Third::Drive(120) } else { Third::Below(120) };
        let mut world = above(36, third);
        assert!(world.capture(0, [12, 0]));
        restore(&mut world, 0);
        assert_eq!(world.state.down().next_flush(Level::DEVICE).is_none(), drive);
        world.state.check().unwrap();
    }
}

/// Catches an error that has the user look at the host buffer alone where the drive is full, too.
#[test]
fn a_full_drive_is_named() {
    let mut world = above(0, Third::Drive(24));
    for version in 0..5 {
        assert!(world.capture(version, [0, 12]));
        world.everybody_works();
    }
    let id = world.state.captures().open(NAME, 5);
    let Reserve::Never(error) = world.state.captures().reserve(id, Part::Host, 12, Level::HOST)
    else {
        panic!("there is room");
    };
    assert!(
        error
            .to_string()
            .contains("; below it is the third level (third_cache_size, 24 bytes, 0 of them free)"),
        "{error}"
    );
}
