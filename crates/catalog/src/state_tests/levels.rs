//! Which checkpoints leave a memory level, which return to it, and when.

use super::world::{mapped, world, Job0, World, GRANULE, NAME};
use crate::state::*;
use crate::{Level, Part, Region};
use policy::order::RestoreOrder;

#[test]
fn eviction_is_first_in_first_out() {
    let mut world = world(40, 400, false, true);
    for version in 0..3 {
        assert!(world.capture(version, [10, 0]));
        world.everybody_works();
    }
    let on_device = |world: &World| -> Vec<i32> {
        (0..6)
            .filter(|&v| {
                world
                    .state
                    .checkpoints()
                    .find(NAME, v)
                    .is_some_and(|id| world.state.on_device(id, 0))
            })
            .collect()
    };
    assert_eq!(on_device(&world), [0, 1, 2], "10 bytes take 12");
    assert!(world.capture(4, [10, 0]));
    assert_eq!(on_device(&world), [1, 2, 4]);
}

/// Catches a flush that thinks itself alone though another waits, and one that takes itself for another.
#[test]
fn flushes_that_wait_are_counted() {
    let mut world = world(40, 400, false, true);
    for (version, waiting) in [(0, 0), (1, 1), (2, 2)] {
        assert!(world.capture(version, [10, 0]));
        if version == 0 {
            world.begin_jobs();
        }
        assert_eq!(world.state.levels().flushes_waiting(Level::DEVICE), waiting);
    }
    for waiting in [1, 0] {
        world.end_job(0, false);
        world.begin_jobs();
        assert_eq!(world.state.levels().flushes_waiting(Level::DEVICE), waiting);
    }
}

#[test]
fn nothing_is_evicted_before_the_device_cache_is_wholly_mapped() {
    let job = Job0 {
        device: 48,
        growth: 0,
        host: 400,
        third: None,
        scratch: false,
        persistent: false,
        ephemeral: true,
        order: RestoreOrder::Reverse,
        beside: None,
    };
    let mut world = World::new(job);
    world.map();
    assert!(world.capture(0, [12, 0]));
    world.begin_jobs();
    world.end_job(0, false);
    let id = world.state.captures().open(NAME, 1);
    assert!(matches!(
        world.state.captures().reserve(id, Part::Device, 12, Level::DEVICE),
        Reserve::Wait(WaitFor::Growth)
    ));
    assert_eq!(world.state.counts().evictions[0], 0);
}

fn growing(host: u64, ephemeral: bool) -> World {
    mapped(Job0 {
        device: 24,
        growth: 24,
        host,
        third: None,
        scratch: !ephemeral,
        persistent: false,
        ephemeral,
        order: RestoreOrder::Reverse,
        beside: None,
    })
}

fn reserve(world: &mut World, version: i32, len: u64) -> Reserve {
    let id = world.state.captures().open(NAME, version);
    world.state.captures().reserve(id, Part::Device, len, Level::DEVICE)
}

/// Takes checkpoints for which the level grows, and nobody else does anything.
fn fill_by_growth(world: &mut World) {
    for version in 0..4 {
        let id = world.state.captures().open(NAME, version);
        while !matches!(
            world.state.captures().reserve(id, Part::Device, 12, Level::DEVICE),
            Reserve::Got { .. }
        ) {
            assert!(world.state.has_work(Worker::Grow), "{version}");
            world.grow();
        }
        world.state.captures().abort(id);
        assert!(world.capture(version, [12, 0]));
    }
}

/// Catches a capture that waits for flushes although the level may grow, growth that nobody is told of, and a
/// level that grows beyond its end.
#[test]
fn a_level_grows_where_a_capture_would_wait() {
    let mut world = growing(400, true);
    fill_by_growth(&mut world);
    assert_eq!(world.state.levels().room(Level::DEVICE), (48, 0));
    let answer = reserve(&mut world, 4, 12);
    assert!(matches!(answer, Reserve::Wait(WaitFor::Room(Level::DEVICE))), "{answer:?}");
    assert!(!world.state.has_work(Worker::Grow));
    assert_eq!(world.state.counts().evictions[0], 0);
    assert_eq!(world.state.check(), Ok(()));
}

/// Catches a level that grows although a copy there may go, or for something that is only fetched.
#[test]
fn a_level_does_not_grow_where_nobody_would_wait() {
    let mut world = growing(400, true);
    for version in 0..8 {
        assert!(world.capture(version, [12, 0]));
        world.everybody_works();
    }
    for version in (0..8).rev() {
        world.restore(version);
        world.everybody_works();
    }
    assert!(world.state.counts().fetches > 0);
    assert_eq!(world.state.levels().room(Level::DEVICE).0, 24);
}

/// Catches a request that is made again and again of a device that has nothing, a capture that waits for it, and a
/// level that is never asked again.
#[test]
fn what_was_refused_is_asked_for_again_later() {
    let mut world = growing(400, true);
    for version in 0..2 {
        assert!(world.capture(version, [12, 0]));
    }
    let answer = reserve(&mut world, 2, 12);
    assert!(matches!(answer, Reserve::Wait(WaitFor::Growth)), "{answer:?}");
    assert!(world.state.has_work(Worker::Grow));
    assert_eq!(world.state.levels().wanted(Level::DEVICE), 12);
    let before = world.state.changes();
    world.state.growth().refused(Level::DEVICE);
    assert_ne!(world.state.changes(), before, "who waits is woken up");
    let answer = reserve(&mut world, 3, 12);
    assert!(matches!(answer, Reserve::Wait(WaitFor::Room(Level::DEVICE))), "{answer:?}");
    assert!(!world.state.has_work(Worker::Grow));
    world.state.growth().ask_again(Level::DEVICE);
    let answer = reserve(&mut world, 4, 12);
    assert!(matches!(answer, Reserve::Wait(WaitFor::Growth)), "{answer:?}");
    assert!(world.state.has_work(Worker::Grow));
}

/// Catches a checkpoint that is refused although the level could grow for it, and one that waits for a level that
/// cannot.
#[test]
fn what_is_larger_than_the_level_waits_until_it_has_grown() {
    let mut world = growing(400, true);
    let to = |world: &World, len| world.state.destination([len, 0]).unwrap()[0];
    assert_eq!(to(&world, 40), Destination::Memory(Level::DEVICE));
    assert_eq!(to(&world, 52), Destination::Memory(Level::HOST));
    assert!(world.capture(0, [40, 0]));
    assert_eq!(world.state.levels().room(Level::DEVICE).0, 40);
    world.state.growth().refused(Level::DEVICE);
    assert_eq!(to(&world, 40), Destination::Memory(Level::DEVICE), "what there is counts");
    assert_eq!(to(&world, 44), Destination::Memory(Level::HOST));
    // Once it has shrunk, it is read from where it is.
    world.everybody_works();
    assert!(world.shrink(24));
    world.restore(0);
    world.everybody_works();
    assert_eq!(world.state.check(), Ok(()));
}

/// Catches bytes that are lost with their memory, and memory that is kept for bytes that are elsewhere, too.
#[test]
fn a_level_gives_back_what_it_holds_for_nobody_alone() {
    let mut world = growing(48, false);
    fill_by_growth(&mut world);
    assert!(!world.shrink(12), "3 is there alone");
    let there = |world: &World| {
        let on_device = |v: &i32| {
            let id = world.state.checkpoints().find(NAME, *v).unwrap();
            world.state.on_device(id, 0)
        };
        (0..4).filter(on_device).collect::<Vec<_>>()
    };
    for _ in 0..8 {
        world.everybody_works();
    }
    assert_eq!(there(&world), [0, 1, 2, 3]);
    assert!(world.shrink(12));
    assert_eq!(there(&world), [0, 1, 2]);
    let restored = world.state.checkpoints().find(NAME, 2).unwrap();
    world.state.up().begin_restore(restored);
    assert!(!world.shrink(12), "2 is being restored");
    world.state.up().end_restore(restored, true);
    assert!(world.shrink(12) && !world.shrink(12), "it does not become smaller than it was");
    assert_eq!(world.state.levels().room(Level::DEVICE).0, 24);
    for version in 0..4 {
        world.restore(version);
    }
    assert_eq!(world.state.check(), Ok(()));
}

/// Catches the only copy of a consumed checkpoint that is discarded for the sake of others' memory.
#[test]
fn what_may_be_discarded_is_not_given_back() {
    let mut world = growing(0, true);
    fill_by_growth(&mut world);
    world.restore(3);
    assert!(!world.shrink(12));
    world.restore(3);
}

#[test]
fn an_ephemeral_job_without_files_is_told_when_nothing_was_consumed() {
    let mut world = world(24, 24, false, true);
    let taken = (0..8).filter(|&v| world.capture(v, [12, 0])).count();
    assert_eq!(taken, 4, "two on the device, two in the host buffer");
    world.restore(0);
    assert!(world.capture(9, [12, 0]), "what was consumed makes room");
    assert_eq!(world.state.counts().discards, 1);
}

/// Catches consumed checkpoints that keep their room while new ones get more of it, and one that is discarded
/// although a reverse order may read it again.
#[test]
fn what_a_reverse_order_has_passed_is_used_again_first() {
    let mut world = world(0, 400, false, true);
    world.state.growth().pack(Level::HOST, true);
    for version in 0..5 {
        assert!(world.capture(version, [0, 12]));
    }
    for version in [4, 4, 3, 3] {
        world.restore(version);
    }
    let used = world.state.levels().used(Level::HOST);
    assert_eq!(world.state.counts().discards, 0, "no room is needed");
    for (version, discarded) in [(10, 1), (11, 1), (12, 1)] {
        assert!(world.capture(version, [0, 12]));
        assert_eq!(world.state.counts().discards, discarded);
        assert_eq!(world.state.check(), Ok(()));
    }
    assert!(
        world.state.checkpoints().find(NAME, 4).is_none()
            && world.state.checkpoints().find(NAME, 3).is_some()
    );
    assert_eq!(world.state.levels().used(Level::HOST), used + 24);
    // Over the same states once more.
    for version in [12, 3, 2, 1, 0, 3, 2] {
        world.restore(version);
    }
    assert!(world.capture(20, [0, 24]));
    assert!(world.state.checkpoints().find(NAME, 12).is_none(), "the newest first");
    assert!(world.state.checkpoints().find(NAME, 3).is_none());
    assert!([0, 1, 2, 10, 11].iter().all(|v| world.state.checkpoints().find(NAME, *v).is_some()));
}

/// Versions are numbers of slots, as of a schedule that gives slots out again. Catches a state that is discarded
/// although the adjoint has not come to it, as another one has a lower number.
#[test]
fn what_was_passed_goes_by_the_order_of_taking() {
    let mut world = world(0, 400, false, true);
    world.state.growth().pack(Level::HOST, true);
    for slot in [7, 5] {
        assert!(world.capture(slot, [0, 12]));
    }
    for slot in [7, 5] {
        world.restore(slot);
    }
    for slot in [8, 9] {
        assert!(world.capture(slot, [0, 12]));
    }
    assert_eq!(world.state.counts().discards, 0);
    world.restore(7);
    assert!(world.capture(10, [0, 12]));
    assert!(
        world.state.checkpoints().find(NAME, 5).is_none()
            && world.state.checkpoints().find(NAME, 7).is_some()
    );
}

/// Catches a capture that is refused, or never woken up, while the pages of free room are given back.
#[test]
fn room_that_is_set_aside_is_waited_for() {
    let mut world = world(0, 40, false, true);
    assert!(world.capture(0, [0, 12]));
    let state = &mut world.state;
    assert_eq!(state.growth().set_aside(Level::HOST, |free| (free.end < 40).then_some(free)), None);
    let unit = state.growth().set_aside(Level::HOST, |free| Some(free.end - 8..free.end)).unwrap();
    assert_eq!(unit, 32..40);
    assert_eq!(state.check(), Ok(()));
    let id = state.captures().open(NAME, 1);
    let reserved = state.captures().reserve(id, Part::Host, 28, Level::HOST);
    assert!(matches!(reserved, Reserve::Wait(WaitFor::Room(Level::HOST))));
    let before = state.changes();
    state.growth().put_back(Level::HOST, &unit);
    assert_ne!(state.changes(), before);
    assert!(matches!(
        state.captures().reserve(id, Part::Host, 28, Level::HOST),
        Reserve::Got { .. }
    ));
    assert_eq!(state.check(), Ok(()));
}

/// Catches files that are written because the application waits for flushes, although the host buffer has room.
#[test]
fn an_ephemeral_job_does_not_spill_while_flushes_have_room() {
    let mut world = world(24, 48, true, true);
    for version in 0..2 {
        assert!(world.capture(version, [12, 0]));
    }
    world.everybody_works();
    for version in 2..4 {
        assert!(world.capture(version, [12, 0]));
    }
    let state = &mut world.state;
    let id = state.captures().open(NAME, 4);
    let reserved = state.captures().reserve(id, Part::Device, 12, Level::DEVICE);
    assert!(matches!(reserved, Reserve::Wait(WaitFor::Room(Level::DEVICE))));
    assert!(state.down().next_write().is_none(), "what can be flushed is not flushed yet");
    let job = state.down().next_flush(Level::DEVICE).unwrap();
    assert!(state.down().next_write().is_none(), "a flush is under way");
    state.down().flush_done(&job, MoveEnd::Done);
    assert!(matches!(
        state.captures().reserve(id, Part::Device, 12, Level::DEVICE),
        Reserve::Got { .. }
    ));
}

#[test]
fn an_ephemeral_job_overflows_to_scratch() {
    let mut world = world(24, 24, true, true);
    for version in 0..8 {
        assert!(world.capture(version, [12, 0]));
    }
    assert!(world.state.counts().spills > 0);
    for version in (0..8).rev() {
        world.restore(version);
    }
}

#[test]
fn a_reverse_pass_finds_its_checkpoints_fetched() {
    let mut world = world(48, 4000, false, true);
    for version in 0..40 {
        assert!(world.capture(version, [12, 0]));
        world.everybody_works();
    }
    for version in (0..40).rev() {
        world.restore(version);
        world.everybody_works();
    }
    let counts = world.state.counts();
    assert_eq!(counts.device_misses, 0, "{counts:?}");
    assert!(counts.fetches >= 36, "{counts:?}");
}

#[test]
fn hints_decide_in_which_order_is_fetched() {
    let mut world = world(24, 4000, false, true);
    for version in 0..10 {
        assert!(world.capture(version, [12, 0]));
        world.everybody_works();
    }
    for version in [5, 1] {
        world.state.up().hint(NAME, version);
    }
    world.state.up().start_fetching();
    world.everybody_works();
    world.everybody_works();
    for version in [5, 1] {
        let id = world.state.checkpoints().find(NAME, version).unwrap();
        assert!(world.state.on_device(id, 0), "version {version}");
    }
}

/// Catches a state that is evicted later than one that is read later, and one that is kept although it will
/// not be read again.
#[test]
fn what_has_a_place_is_fetched_when_its_turn_comes() {
    let mut world = world(24, 4000, false, true);
    for version in 0..10 {
        assert!(world.capture(version, [12, 0]));
        world.everybody_works();
    }
    let first = world.state.up().reserve_hints(100);
    let find = |world: &World, version| world.state.checkpoints().find(NAME, version).unwrap();
    let on_device = |world: &World| -> Vec<i32> {
        (0..10).filter(|&version| world.state.on_device(find(world, version), 0)).collect()
    };
    // The order in which they were taken does not matter.
    for version in [2, 7, 5, 3] {
        let id = find(&world, version);
        world.state.up().expect(id, Some(first + 99 - version as u64), true);
    }
    for _ in 0..4 {
        world.everybody_works();
    }
    assert_eq!(on_device(&world), [5, 7]);
    world.restore_and(7, false, |state, id| state.up().end_restore_expecting(id, true, None));
    for _ in 0..4 {
        world.everybody_works();
    }
    assert_eq!(on_device(&world), [3, 5]);
    world.state.check().unwrap();
}

#[test]
fn what_is_being_restored_is_not_evicted_for_the_next_fetch() {
    let mut world = world(24, 4000, false, true);
    for version in 0..10 {
        assert!(world.capture(version, [12, 0]));
        world.everybody_works();
    }
    world.restore(9);
    world.restore(8);
    world.everybody_works();
    world.everybody_works();
    let id = world.state.checkpoints().find(NAME, 7).unwrap();
    assert!(world.state.on_device(id, 0), "it was fetched");
    world.state.up().begin_restore(id);
    world.everybody_works();
    assert!(world.state.on_device(id, 0), "it was evicted before it could be read");
    world.state.up().end_restore(id, true);
}

#[test]
fn a_restored_checkpoint_stays_while_it_is_restored_again() {
    let mut world = world(12, 12, false, true);
    assert!(world.capture(0, [12, 0]));
    world.everybody_works();
    world.restore(0);
    assert!(world.capture(1, [12, 0]));
    let id = world.state.checkpoints().find(NAME, 0).unwrap();
    world.state.up().begin_restore(id);
    world.everybody_works();
    assert!(!matches!(world.state.up().acquire(id, Part::Device), Acquire::Lost));
}

/// Catches memory for the regions of each checkpoint although they never change, and regions of another
/// checkpoint if they do.
#[test]
fn regions_that_stay_the_same_are_kept_once() {
    let mut state = World::new(Job0 {
        device: 0,
        growth: 0,
        host: 400,
        third: None,
        scratch: false,
        persistent: false,
        ephemeral: true,
        order: RestoreOrder::Reverse,
        beside: None,
    })
    .state;
    let mut take = |version: i32, size: u64| {
        let id = state.captures().open(NAME, version);
        assert!(matches!(
            state.captures().reserve(id, Part::Host, 2 * size, Level::HOST),
            Reserve::Got { .. }
        ));
        let region = |id: i32| Region {
            id,
            size,
            part: Part::Host,
            offset: size * id as u64,
            decoded: None,
        };
        state.captures().commit(id, vec![region(1), region(0)], false);
        state.checkpoints().regions(id).unwrap()
    };
    let (first, second, other, third) = (take(0, 4), take(1, 4), take(2, 8), take(3, 4));
    assert!(std::sync::Arc::ptr_eq(&first, &second));
    assert_eq!((other[0].size, third[0].size, third[1].id), (8, 4, 1));
    state.check().unwrap();
}

#[test]
fn a_hundred_thousand_versions_cost_no_more_each_than_a_few() {
    // Counts steps of the tree structures by evictions and fetches, not by a clock: the lists must agree with
    // the entries at this size, too.
    let mut world = world(0, 100_000 * GRANULE, false, true);
    for version in 0..100_000 {
        assert!(world.capture(version, [0, 4]));
    }
    assert_eq!(world.state.checkpoints().live(), 100_000);
    for version in (99_990..100_000).rev() {
        world.restore(version);
    }
    world.state.check().unwrap();
}

/// Catches an ephemeral job that writes everything to files because a flush once waited for room that is not
/// needed any more.
#[test]
fn what_was_to_be_flushed_and_has_gone_needs_no_room() {
    let mut world = world(24, 12, true, true);
    assert!(world.capture(0, [0, 12]));
    assert!(world.capture(1, [12, 0]));
    assert!(world.state.down().next_flush(Level::DEVICE).is_none(), "the host buffer is full");
    assert!(world.state.has_work(Worker::Write), "room is made by writing");
    let id = world.state.checkpoints().find(NAME, 1).unwrap();
    world.state.captures().abort(id);
    assert!(!world.state.has_work(Worker::Write));
}
