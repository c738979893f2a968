//! Files: written, replaced, cleaned up, limited, and failures.

use super::world::{failure, world, Job0, World, NAME};
use crate::state::*;
use crate::{FileLevel, Id, Level, Part, Region};
use policy::order::RestoreOrder;
use policy::rounds::FileState;

/// A job with both levels of files, which writes one after the other.
fn both(host: u64) -> World {
    World::new(Job0 {
        device: 0,
        growth: 0,
        host,
        third: None,
        scratch: true,
        persistent: true,
        ephemeral: false,
        order: RestoreOrder::Reverse,
        beside: None,
    })
}

/// Catches a file that gets its name after its checkpoint was dropped.
#[test]
fn what_was_withdrawn_is_waited_for_and_never_comes() {
    let mut world = world(0, 100, true, false);
    assert!(world.capture(3, [0, 20]));
    world.begin_jobs();
    world.state.removal().withdraw(NAME, 3);
    assert_eq!(world.state.checkpoints().find(NAME, 3), None);
    assert!(
        !world.state.checkpoints().is_withdrawn(NAME)
            && world.state.checkpoints().is_withdrawn("other")
    );
    world.end_job(0, false);
    assert!(world.state.checkpoints().is_withdrawn(NAME));
    assert!(!world.scratch.contains_key(&(NAME.to_string(), 3)));
    world.state.check().unwrap();
}

#[test]
fn a_replaced_version_is_the_new_one_even_while_the_old_one_is_being_written() {
    let mut world = world(0, 100, true, false);
    assert!(world.capture(7, [0, 20]));
    world.begin_jobs();
    assert!(world.capture(7, [0, 8]));
    while !world.jobs.is_empty() || world.begin_jobs() {
        world.end_job(0, false);
    }
    assert_eq!(world.scratch[&(NAME.to_string(), 7)], world.expected[&7]);
    world.restore(7);
    world.state.check().unwrap();
}

#[test]
fn a_failed_write_keeps_the_bytes_and_is_reported_once() {
    let mut world = world(0, 40, true, false);
    assert!(world.capture(1, [0, 20]));
    world.begin_jobs();
    let id = world.state.checkpoints().find(NAME, 1).unwrap();
    assert_eq!((world.state.checkpoints().file_settled(id), world.state.failed_steps()), (None, 0));
    world.end_job(0, true);
    assert_eq!(
        (world.state.checkpoints().file_settled(id), world.state.failed_steps()),
        (Some(false), 1)
    );
    assert_eq!(world.state.take_failure(), Some(failure()));
    assert_eq!(world.state.take_failure(), None);
    world.restore(1);
    assert!(world.state.retry());
    assert_eq!(world.state.checkpoints().file_settled(id), None);
    world.everybody_works();
    assert_eq!(world.state.checkpoints().file_settled(id), Some(true));
    assert!(world.scratch.contains_key(&(NAME.to_string(), 1)));
}

#[test]
fn cleaning_up_waits_for_the_persistent_copy() {
    let job = Job0 {
        device: 0,
        growth: 0,
        host: 100,
        third: None,
        scratch: true,
        persistent: true,
        ephemeral: false,
        order: RestoreOrder::Reverse,
        beside: None,
    };
    let mut world = World::new(job);
    assert!(world.capture(1, [0, 20]));
    assert!(world.state.removal().cleanup(NAME).is_empty(), "it is not persistent yet");
    for _ in 0..4 {
        world.everybody_works();
    }
    let file = (NAME.to_string(), 1);
    assert!(world.persistent.contains_key(&file) && !world.scratch.contains_key(&file));
    assert_eq!(world.state.checkpoints().find(NAME, 1), None);
}

#[test]
fn a_late_write_does_not_remove_the_file_of_a_newer_checkpoint() {
    let mut world = world(24, 0, true, false);
    assert!(world.capture(5, [1, 0]));
    world.begin_jobs();
    world.cleanup();
    assert!(world.capture(5, [0, 1]), "straight to its file");
    world.end_job(0, false);
    world.restore(5);
}

#[test]
fn an_ephemeral_job_removes_the_file_of_a_version_that_was_replaced() {
    let mut world = world(0, 24, true, true);
    for version in [5, 6, 7] {
        assert!(world.capture(version, [0, 12]));
    }
    world.everybody_works();
    let spilled = world.state.spilled();
    assert!(!spilled.is_empty());
    for (_, version) in &spilled {
        assert!(world.capture(*version, [0, 12]));
    }
    assert!(spilled.iter().all(|file| world.state.spilled().contains(file)));
}

/// Catches limits that keep everything once a file could not be written: then there is even less room.
#[test]
fn what_other_processes_are_told_of_a_file() {
    let mut world = world(0, 40, true, false);
    assert!(world.capture(1, [0, 4]));
    let first = world.state.checkpoints().find(NAME, 1).unwrap();
    assert_eq!(world.state.checkpoints().file_state(first, FileLevel::Scratch), FileState::Pending);
    assert_eq!(world.state.checkpoints().key_in_scratch(first), None);
    world.begin_jobs();
    world.end_job(0, true);
    assert_eq!(
        world.state.checkpoints().file_state(first, FileLevel::Scratch),
        FileState::Missing,
        "it has failed"
    );
    world.state.retry();
    world.everybody_works();
    assert_eq!(world.state.checkpoints().file_state(first, FileLevel::Scratch), FileState::Present);
    assert_eq!(
        world.state.checkpoints().file_state(first, FileLevel::Persistent),
        FileState::Present
    );
    assert_eq!(world.state.checkpoints().key_in_scratch(first), Some((NAME.into(), 1)));
    assert!(world.capture(1, [0, 4]));
    assert_eq!(
        world.state.checkpoints().file_state(first, FileLevel::Scratch),
        FileState::Missing,
        "it was replaced"
    );
    let unknown = world.state.captures().open(NAME, 2);
    assert_eq!(
        world.state.checkpoints().file_state(unknown, FileLevel::Scratch),
        FileState::Pending
    );
    world.state.captures().abort(unknown);
    assert_eq!(
        world.state.checkpoints().file_state(unknown, FileLevel::Scratch),
        FileState::Missing,
        "it was given up"
    );
}

/// Catches a limit that removes the file of a version that was taken again, while the new file gets its name.
#[test]
fn a_file_that_is_being_made_persistent_is_not_removed() {
    let mut world = both(100);
    for _ in 0..2 {
        assert!(world.capture(1, [0, 4]));
        while world.state.down().next_write().is_some_and(|job| {
            world.state.down().write_done(&job, Ok(()));
            true
        }) {}
        let job = world.state.down().next_persist().unwrap();
        assert!(!world.state.removal().forget_file(NAME, 1, FileLevel::Persistent));
        world.state.down().persist_done(&job, Ok(()));
    }
    assert!(world.state.removal().forget_file(NAME, 1, FileLevel::Persistent));
}

/// Catches memory that is full of versions which `max_versions` has removed, and one that is read again from a
/// file although it was about to be restored.
#[test]
fn what_is_beyond_the_limit_is_not_kept_in_memory_but_in_scratch() {
    let mut world = both(100);
    for version in 1..=3 {
        assert!(world.capture(version, [0, 20]));
        world.everybody_works();
    }
    world.state.up().hint(NAME, 2);
    let held = |world: &World| world.state.levels().used(Level::HOST);
    assert_eq!(held(&world), 60);
    world.prune(1, FileLevel::Persistent);
    assert_eq!(held(&world), 40);
    world.prune(2, FileLevel::Persistent);
    assert_eq!(held(&world), 40, "it is to be read next");
    world.prune(3, FileLevel::Scratch);
    assert_eq!(held(&world), 40);
    world.state.check().unwrap();
    world.restore(1);
}

/// The scratch file disappears before it is copied. Catches memory that is freed as if the file existed, and
/// a copy that is not retried on request.
#[test]
fn what_is_gone_before_it_is_copied_is_written_again() {
    let mut world = both(40);
    let write = |world: &mut World| {
        let job = world.state.down().next_write().unwrap();
        world.state.down().write_done(&job, Ok(()));
        world.state.check().unwrap();
    };
    let lose = |world: &mut World| {
        let job = world.state.down().next_persist().unwrap();
        world.state.down().scratch_is_gone(job.id);
        world.state.down().persist_done(&job, Err(failure()));
        world.state.check().unwrap();
        assert_eq!(world.state.take_failure(), Some(failure()));
    };
    assert!(world.capture(1, [0, 20]));
    write(&mut world);
    lose(&mut world);
    assert!(
        !world.state.checkpoints().has_file(NAME, 1, FileLevel::Scratch),
        "memory has the only copy"
    );
    write(&mut world);
    assert!(world.state.down().next_persist().is_none(), "nobody has asked for it");
    assert!(world.state.retry());
    // A file whose bytes are not in memory any more may reappear with its directory.
    assert!(world.capture(2, [0, 36]));
    lose(&mut world);
    assert!(world.state.retry());
    assert_eq!(world.state.down().next_persist().unwrap().version, 1);
}

/// A checkpoint that bypasses scratch goes to persistent whatever the interval, and counts there as
/// the scratch file. Catches one beyond scratch's limit, one that goes to a file of its own before
/// its part is known, and one that stays special after all were to have it.
#[test]
fn what_scratch_cannot_take_goes_to_persistent() {
    let mut world = both(100);
    let mut taken = |version: i32, awaits: bool| {
        let state = &mut world.state;
        let id = state.captures().open(NAME, version);
        if awaits {
            state.captures().await_place(id);
        }
        assert!(matches!(
            state.captures().reserve(id, Part::Host, 4, Level::HOST),
            Reserve::Got { .. }
        ));
        state.captures().commit(
            id,
            vec![Region { id: 0, size: 4, part: Part::Host, offset: 0, decoded: None }],
            false,
        );
        let job = state.down().next_write().unwrap();
        assert_eq!(state.down().write_done(&job, Err(failure())), After::Warn);
        id
    };
    let [alone, undecided, decided] = [(1, false), (2, true), (3, true)].map(|(v, a)| taken(v, a));
    let state = &mut world.state;
    let persist = |state: &mut State, wanted: Id, result| {
        let job = state.down().next_persist().unwrap();
        assert!(job.id == wanted && job.straight.is_some());
        state.down().persist_done(&job, result);
        state.check().unwrap();
    };
    assert!(state.checkpoints().is_extra(alone) && !state.checkpoints().is_extra(undecided));
    // Who waits for what all decide could not take part in that.
    assert_eq!(
        [alone, undecided].map(|id| state.checkpoints().file_settled(id)),
        [None, Some(false)]
    );
    assert_eq!(state.checkpoints().file_state(alone, FileLevel::Scratch), FileState::Pending);
    persist(state, alone, Ok(()));
    assert_eq!(state.checkpoints().file_state(alone, FileLevel::Scratch), FileState::Present);
    assert!(state.down().next_persist().is_none(), "it is not known yet where the others go");
    state.captures().want_no_persistent(undecided);
    assert!(state.checkpoints().is_extra(undecided));
    // Neither level takes the file: both are retried, persistent only if scratch fails again.
    persist(state, undecided, Err(failure()));
    assert!(state.take_failure().is_some() && !state.checkpoints().is_extra(undecided));
    assert!(state.retry() && state.down().next_persist().is_none());
    assert_eq!(state.captures().want_persistent(decided, None), None);
    assert!(!state.checkpoints().is_extra(decided));
    persist(state, decided, Ok(()));
    // All are to have this one after all, and scratch needs the room of the other one.
    assert_eq!(state.captures().want_persistent(alone, None), Some((NAME.into(), 1)));
    assert!(!state.checkpoints().is_extra(alone));
    let job = state.down().next_write().unwrap();
    assert_eq!(state.down().write_done(&job, Err(failure())), After::Warn);
    persist(state, undecided, Ok(()));
    assert!(state.removal().forget_file(NAME, 2, FileLevel::Scratch));
    assert_eq!(state.checkpoints().find(NAME, 2), None);
}

#[test]
fn many_failures_are_one_report() {
    let mut world = world(0, 400, true, false);
    for version in 0..5 {
        assert!(world.capture(version, [0, 12]));
        world.begin_jobs();
        world.end_job(0, true);
    }
    let report = world.state.take_failure().unwrap().to_string();
    assert!(report.contains("4 more"), "{report}");
    assert_eq!(world.state.take_failure(), None);
}

/// A job whose persistent files are written from memory, of 8 bytes and more at the same time as scratch.
fn beside(host: u64) -> World {
    World::new(Job0 {
        device: 0,
        growth: 0,
        host,
        third: None,
        scratch: true,
        persistent: true,
        ephemeral: false,
        order: RestoreOrder::Reverse,
        beside: Some(8),
    })
}

/// Catches a persistent file that waits for the one in scratch to be written, or that gets its name before it.
#[test]
fn both_files_are_written_from_memory_and_scratch_is_named_first() {
    let mut world = beside(100);
    assert!(world.capture(1, [0, 20]) && world.capture(2, [0, 4]));
    let state = &mut world.state;
    let write = state.down().next_write().unwrap();
    let mut persist = state.down().next_persist().unwrap();
    assert!(write.id == persist.id && persist.straight.is_some());
    assert_eq!(state.checkpoints().is_alone(persist.id), None, "scratch is not there yet");
    state.down().leave_memory(&mut persist);
    state.check().unwrap();
    state.down().write_done(&write, Ok(()));
    assert_eq!(state.checkpoints().is_alone(persist.id), Some(false));
    state.down().persist_done(&persist, Ok(()));
    // For a small one no second thread is woken; it is read from memory all the same.
    let write = state.down().next_write().unwrap();
    assert!(state.down().next_persist().is_none());
    state.down().write_done(&write, Ok(()));
    assert!(state.down().next_persist().unwrap().straight.is_some());
    state.check().unwrap();
}

/// Catches a slow persistent that keeps the application waiting for memory that scratch has the bytes of.
#[test]
fn a_persistent_file_keeps_no_memory_that_others_wait_for() {
    let mut world = beside(24);
    assert!(world.capture(1, [0, 20]));
    let state = &mut world.state;
    let write = state.down().next_write().unwrap();
    let mut persist = state.down().next_persist().unwrap();
    let id = state.captures().open(NAME, 2);
    let reserve = |state: &mut State| state.captures().reserve(id, Part::Host, 20, Level::HOST);
    assert!(matches!(reserve(state), Reserve::Wait(_)));
    assert!(!state.is_to_leave_memory(persist.id), "no file has its bytes");
    state.down().write_done(&write, Ok(()));
    assert!(matches!(reserve(state), Reserve::Wait(_)) && state.is_to_leave_memory(persist.id));
    let changes = state.changes();
    state.down().leave_memory(&mut persist);
    assert!(state.changes() > changes, "nobody is told");
    assert!(matches!(reserve(state), Reserve::Got { .. }));
    state.captures().abort(id);
    state.down().persist_done(&persist, Ok(()));
    state.check().unwrap();
}

/// Catches a checkpoint that is written to persistent once more, or counts as one that others lack there,
/// because scratch refused it while it was being written there.
#[test]
fn what_scratch_refuses_meanwhile_is_in_persistent_alone() {
    let mut world = beside(100);
    assert!(world.capture(1, [0, 20]));
    let state = &mut world.state;
    let (write, persist) =
        (state.down().next_write().unwrap(), state.down().next_persist().unwrap());
    assert_eq!(state.down().write_done(&write, Err(failure())), After::Warn);
    assert_eq!(state.checkpoints().is_alone(persist.id), Some(true));
    assert!(!state.checkpoints().is_extra(persist.id));
    state.down().persist_done(&persist, Ok(()));
    assert!(state.checkpoints().is_past_scratch(persist.id) && state.drained());
    state.check().unwrap();
}
