//! Versions that are taken again.

use std::collections::BTreeMap;

use super::world::{world, How, Job, Job0, World, NAME};
use crate::ledger;
use crate::state::Content;
use crate::{Level, Part};
use format::header::Header;
use policy::order::RestoreOrder;

/// A job with a checkpoint in the host buffer and another one of its version only in device memory, and the
/// bytes of both.
fn taken_again(host: u64, persistent: bool) -> (Job0, World, [BTreeMap<i32, Vec<u8>>; 2]) {
    let job = Job0 {
        device: 40,
        growth: 0,
        host,
        third: None,
        scratch: true,
        persistent,
        ephemeral: false,
        order: RestoreOrder::Reverse,
        beside: None,
    };
    let mut world = World::new(job);
    while world.to_map > 0 {
        world.map();
    }
    let contents = [0, 1].map(|time| {
        assert!(world.capture(1, [10, 0]));
        if time == 0 {
            assert!(world.begin_jobs());
            world.end_job(0, false);
        }
        world.state.check().unwrap();
        world.expected[&1].clone()
    });
    (job, world, contents)
}

/// Catches a version that is lost if the process is killed before the new checkpoint has left the device, and
/// an old one that keeps its room longer.
#[test]
fn what_is_taken_again_stays_until_the_new_one_is_safe() {
    let (job, mut world, [old, new]) = taken_again(400, false);
    let written_by_heir = |world: &World| {
        let mut successor = world.successor(job);
        successor.everybody_works();
        successor.everybody_works();
        successor.scratch.get(&(NAME.to_string(), 1)).cloned()
    };
    assert_eq!(written_by_heir(&world), Some(old));
    assert_eq!(
        [Level::DEVICE, Level::HOST].map(|level| world.state.levels().used(level)),
        [12, 12],
        "one is in device memory, and one in the host's"
    );
    let flush = world.state.down().next_flush(Level::DEVICE).unwrap();
    world.jobs.push(Job::Flush(flush));
    world.end_job(0, false);
    world.state.check().unwrap();
    assert_eq!(
        [Level::DEVICE, Level::HOST].map(|level| world.state.levels().used(level)),
        [12, 12]
    );
    assert_eq!(written_by_heir(&world), Some(new));
    world.everybody_works();
    world.restore(1);
}

/// Catches a new checkpoint that waits for ever for the room of the one that is held for it, and room kept
/// for a version that was cleaned up.
#[test]
fn what_is_taken_again_gives_its_room_up() {
    let (_, mut world, [_, new]) = taken_again(12, false);
    for _ in 0..2 {
        world.everybody_works();
    }
    assert!(world.state.drained());
    assert_eq!(world.scratch.get(&(NAME.to_string(), 1)), Some(&new));
    for persistent in [false, true] {
        let (_, mut world, _) = taken_again(400, persistent);
        world.cleanup();
        assert_eq!(world.state.levels().used(Level::HOST), 0);
        world.state.check().unwrap();
    }
}

/// Catches a version taken a third time of which the first checkpoint, the only safe one, is dropped with the
/// second; and one whose write was active, and that is written again or never.
#[test]
fn what_is_taken_a_third_time_keeps_the_first() {
    let (job, mut world, [old, _]) = taken_again(400, false);
    let found = ledger::read(world.ledger.words()).unwrap();
    assert!(world.capture(1, [10, 0]));
    world.state.check().unwrap();
    assert_eq!(ledger::read(world.ledger.words()).unwrap(), found);
    let (_, mut other, _) = taken_again(400, false);
    assert!(other.state.down().next_write().is_none(), "what was replaced is not written");
    other.everybody_works();
    assert_eq!(other.state.levels().used(Level::HOST), 12);
    let mut successor = world.successor(job);
    successor.everybody_works();
    assert_eq!(successor.scratch.get(&(NAME.to_string(), 1)), Some(&old));
}

/// Catches a version that is lost because a deferred capture that would have replaced it failed.
#[test]
fn what_does_not_arrive_has_replaced_nothing() {
    let mut world = world(0, 400, true, false);
    assert!(world.capture(1, [0, 10]));
    let old = world.expected[&1].clone();
    assert!(world.capture_from(1, [0, 10], How::Deferred));
    let arrival = world.state.captures().next_arrival().unwrap();
    world.jobs.push(Job::Arrive(arrival));
    world.end_job(0, true);
    world.state.check().unwrap();
    assert_eq!(world.expected.get(&1), Some(&old));
    world.restore(1);
    world.everybody_works();
    assert_eq!(world.scratch.get(&(NAME.to_string(), 1)), Some(&old));
}

/// Catches bytes of an old file that are restored after it was rebuilt, because they were fetched before.
#[test]
fn what_was_found_is_forgotten_with_its_file() {
    let mut world = world(0, 400, true, false);
    let header = Header::new(vec![(0, 8)]).unwrap();
    let header = Header::decode(&header.encode(), header.file_len()).unwrap();
    let content = Content::Regions { header: &header, mark: None };
    let id = world.state.captures().adopt(
        NAME,
        (1, format::identity::Identity::UNKNOWN),
        content,
        |_| Part::Host,
        [true, false],
    );
    world.state.up().begin_restore(id);
    world.state.removal().forget_found(NAME, 1);
    world.state.check().unwrap();
    assert_eq!(world.state.checkpoints().find(NAME, 1), None);
    world.state.up().end_restore(id, false);
    assert!(world.state.checkpoints().entry(id).is_none());
    assert!(world.capture(2, [0, 8]));
    world.state.removal().forget_found(NAME, 2);
    world.restore(2);
}
