//! Deferred captures.

use super::world::{world, How, NAME};
use crate::state::*;
use crate::{Level, Part};

/// Catches a checkpoint that is written, restored or dropped while its deferred capture is incomplete.
#[test]
fn a_deferred_checkpoint_is_there_once_it_has_arrived() {
    let mut world = world(0, 40, true, false);
    assert!(world.capture_from(1, [0, 20], How::Deferred));
    assert!(!world.state.drained() && !world.state.has_work(Worker::Write));
    let id = world.state.checkpoints().find(NAME, 1).unwrap();
    world.state.up().begin_restore(id);
    assert!(matches!(world.state.up().acquire(id, Part::Host), Acquire::Wait));
    // Its room is allocated, and more will become free.
    let other = world.state.captures().open(NAME, 2);
    let reserved = world.state.captures().reserve(other, Part::Host, 24, Level::HOST);
    assert!(matches!(reserved, Reserve::Wait(WaitFor::Room(Level::HOST))));
    world.state.captures().abort(other);
    world.state.up().end_restore(id, false);
    world.begin_jobs();
    world.end_job(0, false);
    world.restore(1);
    world.everybody_works();
    assert_eq!(world.scratch[&(NAME.to_string(), 1)], world.expected[&1]);
}

/// A checkpoint is complete in its call, and an older one is still being copied. Catches a file that is there before that
/// of an older version: after a kill it was removed for that one.
#[test]
fn files_come_in_the_order_of_taking() {
    let mut world = world(0, 60, true, false);
    assert!(world.capture_from(1, [0, 20], How::Deferred) && world.capture(2, [0, 20]));
    assert!(!world.state.has_work(Worker::Write) && world.state.down().next_write().is_none());
    world.begin_jobs();
    world.end_job(0, false);
    assert_eq!(world.state.down().next_write().unwrap().version, 1);
    assert!(world.state.has_work(Worker::Write));
    assert_eq!(world.state.down().next_write().unwrap().version, 2);
}

/// Catches a deferred capture that discards a checkpoint although the device cache has room.
#[test]
fn a_deferred_capture_discards_nothing_and_waits_for_nothing() {
    let mut world = world(48, 12, false, true);
    assert!(world.capture(0, [0, 12]));
    world.restore(0);
    let id = world.state.captures().open(NAME, 1);
    assert_eq!(world.state.captures().reserve_for_deferred(id, 12, [12, 0]), None);
    assert!(matches!(
        world.state.captures().reserve(id, Part::Device, 12, Level::DEVICE),
        Reserve::Got { .. }
    ));
    assert_eq!(world.state.counts().discards, 0);
    world.state.captures().abort(id);
    // In a job with files, checkpoints in files make room.
    let mut world = self::world(48, 12, true, false);
    assert!(world.capture(0, [0, 12]));
    world.everybody_works();
    let id = world.state.captures().open(NAME, 1);
    assert_eq!(
        world.state.captures().reserve_for_deferred(id, 12, [12, 4]),
        None,
        "both parts do not fit"
    );
    assert!(world.state.captures().reserve_for_deferred(id, 12, [12, 0]).is_some());
    world.state.check().unwrap();
}

/// Catches room that is reused while bytes are being copied to it, and bytes of a failed capture that are
/// taken for a checkpoint's.
#[test]
fn a_deferred_capture_that_fails_or_is_replaced_leaves_nothing() {
    let mut world = world(0, 40, true, false);
    assert!(world.capture_from(1, [0, 20], How::Deferred));
    let id = world.state.checkpoints().find(NAME, 1).unwrap();
    world.state.up().begin_restore(id);
    world.begin_jobs();
    assert!(world.capture(1, [0, 16]));
    world.state.check().unwrap();
    assert_eq!(
        world.state.levels().room(Level::HOST).1,
        4,
        "the old one's room is still being written to"
    );
    world.end_job(0, true);
    assert!(matches!(world.state.up().acquire(id, Part::Host), Acquire::Lost));
    world.state.up().end_restore(id, false);
    assert_eq!(world.state.levels().room(Level::HOST).1, 24);
    assert_eq!(world.state.take_failure(), None, "nobody wants it any more");
    assert!(world.capture_from(2, [0, 20], How::Deferred));
    world.begin_jobs();
    while !world.jobs.is_empty() {
        world.end_job(0, true);
    }
    assert!(world.state.take_failure().is_some());
    assert_eq!(world.state.checkpoints().find(NAME, 2), None);
    world.state.check().unwrap();
}
