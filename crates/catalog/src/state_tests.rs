//! The catalog, tested in a world of small levels that hold real bytes.
//!
//! `World` does what the engine does, one step at a time, with plain vectors as memory. The random histories
//! here show that no step breaks an invariant, that a restore returns what was captured, and that every wait
//! ends. The modules have single cases by subject.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // A test stops at the first fault.

mod compressed;
mod deferred;
mod drive;
mod files;
mod hints;
mod ledger;
mod levels;
mod marked;
mod taken_again;
mod workers;
mod world;

use proptest::prelude::*;

use crate::{FileLevel, Level};
use policy::order::RestoreOrder;
use world::{How, Job0, Third, World, GRANULE, NAME, THIRD_GRANULE};

#[derive(Clone, Debug)]
enum Step {
    Map,
    Grow,
    /// Another job takes what the device has left, or gives it back.
    Crowd(bool),
    Shrink(u64),
    Capture(i32, u64, u64, How),
    Begin,
    End(usize, bool),
    Restore(i32),
    /// Restores a version; the device reads it later.
    RestoreInOrder(i32),
    /// Restores a version, with the position of its next read.
    RestoreExpecting(i32, Option<u64>),
    Hint(i32),
    Expect(i32, Option<u64>, bool),
    Start,
    Retry,
    Cleanup,
    Prune(i32, FileLevel),
    Limit(u64),
    Lift,
    /// Drops a version wherever it is.
    GiveUp(i32),
    /// A store that compresses goes on.
    Pack(usize),
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![2 => Just(How::Now), 1 => Just(How::Deferred), 2 => Just(How::Ordered)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Map),
        4 => Just(Step::Grow),
        1 => any::<bool>().prop_map(Step::Crowd),
        1 => (1..80u64).prop_map(Step::Shrink),
        6 => (0..12i32, 0..40u64, 0..16u64, how()).prop_map(|(v, d, h, how)| Step::Capture(v, d, h, how)),
        6 => Just(Step::Begin),
        6 => (0..8usize, prop::bool::weighted(0.1)).prop_map(|(j, f)| Step::End(j, f)),
        3 => (0..12i32).prop_map(Step::Restore),
        3 => (0..12i32).prop_map(Step::RestoreInOrder),
        2 => (0..12i32, prop::option::of(0..20u64))
            .prop_map(|(v, next)| Step::RestoreExpecting(v, next)),
        2 => (0..12i32).prop_map(Step::Hint),
        2 => (0..12i32, prop::option::of(0..20u64), any::<bool>())
            .prop_map(|(v, place, reads)| Step::Expect(v, place, reads)),
        1 => Just(Step::Start),
        1 => Just(Step::Retry),
        1 => (0..200u64).prop_map(|l| match l {
            0..40 => Step::Limit(l),
            40..80 => Step::Lift,
            _ => Step::Begin,
        }),
        1 => (0..12i32, any::<bool>()).prop_map(|(v, scratch)| {
            Step::Prune(v, if scratch { FileLevel::Scratch } else { FileLevel::Persistent })
        }),
        1 => (0..12i32).prop_map(Step::GiveUp),
        6 => (0..4usize).prop_map(Step::Pack),
        1 => prop::bool::weighted(0.2).prop_map(|c| if c { Step::Cleanup } else { Step::Begin }),
    ]
}

fn job() -> impl Strategy<Value = Job0> {
    let order = prop_oneof![
        Just(RestoreOrder::Reverse),
        Just(RestoreOrder::Same),
        Just(RestoreOrder::Random)
    ];
    let third = (0..6u8, 0..20u64).prop_map(|(which, size)| match which {
        0 => None,
        1 => Some(Third::Between(size * THIRD_GRANULE)),
        2 => Some(Third::Below(size * THIRD_GRANULE)),
        3 => Some(Third::Drive(size * THIRD_GRANULE)),
        4 => Some(Third::CompressedBetween(size * THIRD_GRANULE)),
        _ => Some(Third::Compressed(size * THIRD_GRANULE)),
    });
    let beside = prop::option::weighted(0.7, 0..30u64);
    let places = (any::<bool>(), any::<bool>(), any::<bool>());
    let device = (0..20u64, prop_oneof![Just(0), 0..20u64]);
    (device, 0..30u64, third, places, order, beside).prop_map(
        |((device, growth), host, third, (scratch, persistent, ephemeral), order, beside)| Job0 {
            device: device * GRANULE,
            growth: growth * GRANULE,
            host: host * GRANULE,
            third,
            // A job that is not ephemeral must have scratch, as the configuration checks.
            scratch: scratch || !ephemeral,
            persistent,
            ephemeral,
            order,
            beside,
        },
    )
}

/// Makes a step of a history.
fn make(world: &mut World, job: Job0, step: Step) {
    match step {
        Step::Map => world.map(),
        Step::Grow => world.grow(),
        Step::Crowd(full) => {
            world.card_is_full = full;
            world.state.growth().ask_again(Level::DEVICE);
        }
        Step::Shrink(bytes) => drop(world.shrink(bytes)),
        Step::Capture(version, device, host, how) => {
            let device = if job.device + job.growth == 0 { 0 } else { device };
            if device + host > 0 {
                world.capture_from(version, [device, host], how);
            }
        }
        Step::Begin => drop(world.begin_jobs()),
        Step::End(which, fails) => world.end_job(which, fails),
        Step::Restore(version) => world.restore(version),
        Step::RestoreInOrder(version) => world.restore_in_order(version),
        Step::RestoreExpecting(version, next) => {
            world.restore_and(version, false, |state, id| {
                state.up().end_restore_expecting(id, true, next);
            });
        }
        Step::Hint(version) => {
            world.hint(version);
        }
        Step::Expect(version, place, reads) => {
            if let Some(id) = world.state.checkpoints().find(NAME, version) {
                world.state.up().expect(id, place, reads);
            }
        }
        Step::Start => world.state.up().start_fetching(),
        Step::Retry => drop(world.state.retry()),
        Step::Cleanup => world.cleanup(),
        Step::Prune(version, level) => world.prune(version, level),
        Step::Limit(bytes) => {
            let staging = world.state.levels().staging();
            world.state.growth().limit(staging, bytes);
        }
        Step::Lift => {
            let staging = world.state.levels().staging();
            world.state.growth().lift_limit(staging);
        }
        Step::Pack(which) => world.pack_some(which),
        Step::GiveUp(version) => {
            world.state.removal().withdraw(NAME, version);
            world.expected.remove(&version);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn no_history_loses_a_byte_or_waits_for_ever(
        job in job(),
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut world = World::new(job);
        for step in steps {
            make(&mut world, job, step);
            if let Err(broken) = world.state.check() {
                return Err(TestCaseError::fail(broken));
            }
        }
        if !job.ephemeral {
            // If the process is killed now, its successor writes all that has left the device.
            let mut successor = world.successor(job);
            if let Err(broken) = successor.state.check() {
                return Err(TestCaseError::fail(broken));
            }
            for _ in 0..400 {
                successor.everybody_works();
            }
            prop_assert!(successor.state.drained(), "the successor leaves work undone");
            for (&version, content) in &world.expected {
                let removed = world.cleaned.contains(&version) || world.pruned.contains(&version);
                if !world.left_the_device(version) || removed {
                    continue;
                }
                let file = (NAME.to_string(), version);
                let nearest = successor.scratch.get(&file).or_else(|| successor.persistent.get(&file));
                prop_assert_eq!(nearest, Some(content), "version {}", version);
                if job.persistent {
                    prop_assert_eq!(successor.persistent.get(&file), Some(content), "{}", version);
                }
            }
        }
        // All work is finished, and nothing is lost.
        world.state.retry();
        for _ in 0..400 {
            world.everybody_works();
        }
        prop_assert!(world.state.drained(), "work is left that nobody can do: {:#?}", world.state);
        let versions: Vec<i32> = world.expected.keys().copied().collect();
        for version in versions {
            world.restore(version);
        }
    }

    /// Catches a record that is missing, untrue or wrongly gone on with: whenever a job ends, the
    /// next job finds in the host buffer what was there, and so does the one after it.
    #[test]
    fn the_next_job_has_all_that_is_in_the_host_buffer(
        job in job(),
        steps in prop::collection::vec(step(), 1..120),
        more in prop::collection::vec(step(), 0..40),
    ) {
        let job = Job0 { scratch: !job.ephemeral, ..job };
        let mut world = World::new(job).handing_over();
        let agree = |one: &World, heir: &World| {
            if let Err(broken) = heir.state.check() {
                return Err(TestCaseError::fail(broken));
            }
            for version in 0..12 {
                let kept = one.kept(version);
                prop_assert!(kept.is_none() || heir.kept(version) == kept, "version {}", version);
            }
            Ok(())
        };
        for step in steps {
            make(&mut world, job, step);
            if let Err(broken) = world.state.check() {
                return Err(TestCaseError::fail(broken));
            }
        }
        let mut heir = world.heir(job);
        agree(&world, &heir)?;
        heir.expected = world.expected.clone();
        // Ids stay: a version that is taken again and fails may leave the inherited one.
        heir.captured = world.captured.clone();
        // Others may have been in device memory alone, and older versions stand in for them.
        heir.expected.retain(|version, _| world.kept(*version).is_some());
        (heir.cleaned, heir.pruned) = (world.cleaned.clone(), world.pruned.clone());
        for step in more {
            if let Step::Restore(version)
            | Step::RestoreInOrder(version)
            | Step::RestoreExpecting(version, _) = step
            {
                if !heir.expected.contains_key(&version) {
                    continue;
                }
            }
            make(&mut heir, job, step);
            if let Err(broken) = heir.state.check() {
                return Err(TestCaseError::fail(broken));
            }
        }
        agree(&heir, &heir.heir(job))?;
    }
}
