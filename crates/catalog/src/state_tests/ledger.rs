//! The ledger, compared after each store with the backlog of writes.

use std::collections::BTreeMap;

use super::world::{GRANULE, NAME};
use crate::entry::{FileCopy, Life};
use crate::ledger::plain::Plain;
use crate::ledger::{self, Ledger};
use crate::level::LevelSpec;
use crate::state::*;
use crate::{Id, Level, Part, Region};
use format::aggregate::AggregatePart;
use policy::order::RestoreOrder;

/// The backlog of a version: the size of its region, whether it goes to persistent, and where.
type Backlog = BTreeMap<i32, (u64, bool, Option<AggregatePart>)>;

/// A job that is killed after `stores` stores to its ledger: the ledger, and the backlog before the first and
/// after each step of the job, with the number of stores by then.
fn killed_after(stores: u64) -> (Plain, Vec<(u64, Backlog)>) {
    let place = |attempt| {
        Some(AggregatePart {
            offset: 9,
            ranks: 4,
            identity: format::identity::Identity { run: 7, generation: 0 },
            attempt,
        })
    };
    let memory = Plain::of(1 << 20);
    let ledger = Ledger::new(memory.words()).unwrap();
    ledger.kill_after(stores);
    let mut state = a_state();
    state.handover().note_to(ledger);
    let take = |state: &mut State, version: i32, size: u64, awaits: bool| {
        let id = state.captures().open(NAME, version);
        if awaits {
            state.captures().await_place(id);
        }
        assert!(matches!(
            state.captures().reserve(id, Part::Host, size, Level::HOST),
            Reserve::Got { .. }
        ));
        state.captures().commit(
            id,
            vec![Region { id: 0, size, part: Part::Host, offset: 0, decoded: None }],
            false,
        );
        id
    };
    let mut ids = Vec::new();
    let mut steps = vec![(0, Backlog::new())];
    for step in 0..9 {
        match step {
            0 => ids.push(take(&mut state, 1, 4, false)),
            1 => drop(state.captures().want_persistent(ids[0], place(1))),
            // Another checkpoint of that version, and one whose place is decided later.
            2 => ids.push(take(&mut state, 1, 8, false)),
            3 => ids.push(take(&mut state, 2, 12, true)),
            4 => drop(state.captures().want_persistent(ids[2], place(2))),
            5 => drop(state.captures().want_persistent(ids[1], None)),
            6 => {
                let job = state.down().next_write().unwrap();
                state.down().write_done(&job, Ok(()));
            }
            7 => drop(state.removal().cleanup(NAME)),
            _ => {
                let job = state.down().next_persist().unwrap();
                state.down().persist_done(&job, Ok(()));
            }
        }
        let backlog = |id: &Id| {
            let entry = state.checkpoints().entry(*id).filter(|entry| entry.life == Life::Live)?;
            let persist = entry.persistent.is_due() || entry.persistent == FileCopy::Undecided;
            let due = entry.scratch.is_due() || persist;
            due.then(|| (entry.version, (entry.bytes(), persist, entry.place.as_deref().copied())))
        };
        steps.push((state.successor().ledger_stores(), ids.iter().filter_map(backlog).collect()));
    }
    (memory, steps)
}

fn a_state() -> State {
    State::new(Shape {
        memory: vec![LevelSpec::device(0, GRANULE), LevelSpec::host(400, GRANULE)],
        scratch: true,
        persistent: true,
        ephemeral: false,
        order: RestoreOrder::Reverse,
        beside: None,
    })
}

/// Wherever the job is killed, the successor finds for each version the backlog before or after a step of the
/// job. Catches two records of one checkpoint, the first of which keeps the other from being executed, and a
/// version without a record while it is replaced.
#[test]
fn the_ledger_of_any_moment_is_that_before_a_step_or_after_it() {
    let (_, steps) = killed_after(u64::MAX);
    let stores = steps.last().unwrap().0;
    assert!(stores > 20, "{stores}");
    for killed in 0..=stores {
        let (memory, _) = killed_after(killed);
        let mut successor = a_state();
        for (record, standing, _) in ledger::read(memory.words()).unwrap() {
            successor.handover().take_over(&record, standing, None).unwrap();
        }
        let found = |version: i32| {
            let entry = successor
                .checkpoints()
                .entry(successor.checkpoints().find(NAME, version)?)
                .unwrap();
            Some((entry.bytes(), entry.persistent.is_due(), entry.place.as_deref().copied()))
        };
        let step = steps.windows(2).find(|pair| pair[1].0 >= killed).unwrap();
        for version in [1, 2] {
            let either = [&step[0].1, &step[1].1].map(|backlog| backlog.get(&version).copied());
            let found = found(version);
            assert!(either.contains(&found), "{killed} stores: {found:?}, not one of {either:?}");
        }
    }
}
