//! Hints, also for checkpoints that do not exist yet.

use proptest::prelude::*;

use super::how;
use super::world::{world, How, Job, Job0, World, GRANULE, NAME};
use crate::state::Content;
use crate::{FileLevel, Part};
use format::header::Header;
use policy::order::RestoreOrder;

#[derive(Clone, Debug)]
enum Step {
    Capture(i32, u64, u64, How),
    Begin,
    End(usize, bool),
    Restore(i32),
    Hint(i32),
    Start,
    Retry,
    Cleanup,
    Prune(i32, FileLevel),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..5i32, 0..20u64, 0..16u64, how()).prop_map(|(v, d, h, how)| Step::Capture(v, d, h, how)),
        4 => Just(Step::Begin),
        4 => (0..8usize, prop::bool::weighted(0.2)).prop_map(|(j, f)| Step::End(j, f)),
        3 => (0..5i32).prop_map(Step::Restore),
        5 => (0..5i32).prop_map(Step::Hint),
        1 => Just(Step::Start),
        1 => Just(Step::Retry),
        1 => Just(Step::Cleanup),
        1 => (0..5i32, any::<bool>()).prop_map(|(v, scratch)| {
            Step::Prune(v, if scratch { FileLevel::Scratch } else { FileLevel::Persistent })
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Catches a hint that is lost because its version did not exist yet, was taken again, failed in a
    /// deferred capture, was pruned, or waited for its persistent copy to be cleaned up; and one that
    /// outlives its restore or the cleanup.
    #[test]
    fn hints_last_until_they_are_used_or_cleaned_up(
        memory in (0..12u64, 0..20u64),
        files in (any::<bool>(), any::<bool>(), any::<bool>()),
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let (scratch, persistent, ephemeral) = files;
        let mut world = World::new(Job0 {
            device: memory.0 * GRANULE,
            growth: 0,
            host: memory.1 * GRANULE,
            third: None,
            scratch: scratch || !ephemeral,
            persistent,
            ephemeral,
            order: RestoreOrder::Random,
            beside: None,
        });
        while world.to_map > 0 {
            world.map();
        }
        for step in steps {
            match step {
                Step::Capture(version, device, host, how) => {
                    let device = if memory.0 == 0 { 0 } else { device };
                    if device + host > 0 {
                        world.capture_from(version, [device, host], how);
                    }
                }
                Step::Begin => drop(world.begin_jobs()),
                Step::End(which, fails) => world.end_job(which, fails),
                Step::Restore(version) => world.restore(version),
                Step::Hint(version) => world.hint(version),
                Step::Start => world.state.up().start_fetching(),
                Step::Retry => drop(world.state.retry()),
                Step::Cleanup => world.cleanup(),
                Step::Prune(version, level) => world.prune(version, level),
            }
            if let Err(broken) = world.state.check() {
                return Err(TestCaseError::fail(broken));
            }
            for version in 0..5 {
                let given = world.hinted.get(&version).cloned().unwrap_or_default();
                prop_assert_eq!(world.state.checkpoints().hints_of(NAME, version), given, "version {}", version);
            }
        }
    }
}

/// Catches hints that have no effect because they were given before the checkpoints were taken, as the
/// programs of the GPU prototype do.
#[test]
fn hints_that_come_first_decide_in_which_order_is_fetched() {
    let mut world = world(24, 4000, false, true);
    for version in [5, 1, 8, 0] {
        world.hint(version);
    }
    for version in 0..10 {
        assert!(world.capture(version, [12, 0]));
        world.everybody_works();
    }
    assert_eq!(world.state.checkpoints().hinted_in_vain(), None);
    world.state.up().start_fetching();
    for version in [5, 1, 8, 0] {
        world.everybody_works();
        world.everybody_works();
        let id = world.state.checkpoints().find(NAME, version).unwrap();
        assert!(world.state.on_device(id, 0), "version {version}");
        world.restore(version);
        world.state.check().unwrap();
    }
}

/// Catches a hint that stays with the file of an earlier job when its version is taken again, or is lost when
/// that file is replaced; and one for a name without checkpoints.
#[test]
fn a_hint_is_about_a_version_and_no_file() {
    let mut world = world(24, 400, true, false);
    let header = Header::new(vec![(0, 8)]).unwrap();
    let header = Header::decode(&header.encode(), header.file_len()).unwrap();
    let content = Content::Regions { header: &header, mark: None };
    let found = world.state.captures().adopt(
        NAME,
        (1, format::identity::Identity::UNKNOWN),
        content,
        |_| Part::Host,
        [true, false],
    );
    world.hint(1);
    assert!(world.capture(1, [0, 8]));
    assert!(world.state.checkpoints().entry(found).is_none());
    assert_eq!(world.state.checkpoints().hints_of(NAME, 1), [1]);
    world.restore(1);
    assert!(world.state.checkpoints().hints_of(NAME, 1).is_empty());
    let again = world.state.captures().adopt(
        NAME,
        (2, format::identity::Identity::UNKNOWN),
        content,
        |_| Part::Host,
        [true, false],
    );
    world.hint(2);
    world.state.removal().forget_found(NAME, 2);
    assert!(world.state.checkpoints().entry(again).is_none());
    let again = world.state.captures().adopt(
        NAME,
        (2, format::identity::Identity::UNKNOWN),
        content,
        |_| Part::Host,
        [true, false],
    );
    assert_eq!(world.state.checkpoints().entry(again).unwrap().hints, [2]);
    world.state.up().hint("other", 7);
    let (name, version, count) = world.state.checkpoints().hinted_in_vain().unwrap();
    assert_eq!((&*name, version, count), ("other", 7, 1));
    assert!(world.state.removal().cleanup("other").is_empty());
    assert_eq!(world.state.checkpoints().hinted_in_vain(), None);
    world.state.check().unwrap();
}

/// Catches hints that are lost, or refer to nothing, when a deferred capture that would have replaced a
/// version fails, so that the old checkpoint is back.
#[test]
fn what_does_not_arrive_gives_its_hints_back() {
    let mut world = world(0, 400, true, false);
    assert!(world.capture(1, [0, 10]));
    let old = world.state.checkpoints().find(NAME, 1).unwrap();
    world.hint(1);
    assert!(world.capture_from(1, [0, 10], How::Deferred));
    world.hint(1);
    let arrival = world.state.captures().next_arrival().unwrap();
    world.jobs.push(Job::Arrive(arrival));
    world.end_job(0, true);
    world.state.check().unwrap();
    assert_eq!(world.state.checkpoints().find(NAME, 1), Some(old));
    assert_eq!(world.state.checkpoints().entry(old).unwrap().hints, [1, 2]);
}
