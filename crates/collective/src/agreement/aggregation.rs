//! Where each process's part of an aggregated file begins: the processes tell each other how long theirs
//! are.

use std::collections::VecDeque;

use super::{Agreement, Deferred, OTHER_HAS_FAILED};
use catalog::Id;
use engine::Engine;
use errors::Result;
use format::aggregate::AggregatePart;
use mpi::{CollectiveQueue, Comm};
use policy::rounds::WITHDRAWN;

/// Stands for the length of a checkpoint that a process could not take.
const NOT_TAKEN: i64 = -1;

/// The last key and length of a process that has given up.
pub(super) const LAST_LENGTH: [i64; 2] = [WITHDRAWN[0], NOT_TAKEN];

/// The exchange of the lengths of the parts.
#[derive(Debug)]
pub(super) struct Aggregation {
    pub(super) calls: CollectiveQueue,
    /// The gatherings under way: the number of each, and its checkpoint.
    pub(super) awaited: VecDeque<(u64, Option<Id>)>,
    /// The checkpoint that was begun and whose length is due to the others.
    pub(super) due: Option<i64>,
}

impl Aggregation {
    pub(super) fn start(comm: &Comm) -> Result<Aggregation> {
        let calls = CollectiveQueue::over(comm.dup()?);
        Ok(Aggregation { calls, awaited: VecDeque::new(), due: None })
    }
}

impl Agreement {
    /// The checkpoint was taken, with so many bytes; `None`: not taken, or not to be aggregated.
    pub fn taken(&mut self, engine: &Engine, taken: Option<(Id, u64)>) {
        if let Some(id) = self.open.take().filter(|_| taken.is_none()) {
            // Given up: there is nothing to copy, and nothing that others wait for.
            self.learn(engine, id, |deferred| {
                *deferred = Deferred { persist: Some(false), place: Some(None) };
            });
        }
        let Some(aggregation) = self.aggregation.as_mut().filter(|_| !self.failed) else {
            return;
        };
        let Some(key) = aggregation.due.take() else {
            return;
        };
        let len = taken.map_or(NOT_TAKEN, |(_, len)| i64::try_from(len).unwrap_or(NOT_TAKEN));
        let begun = aggregation.calls.begin(|comm| comm.start_allgather(&[key, len]));
        let awaited = (aggregation.calls.begun(), taken.map(|(id, _)| id));
        match begun {
            Ok(()) => aggregation.awaited.push_back(awaited),
            Err(error) => self.fail(engine, &error),
        }
    }

    /// Begins gatherings for checkpoints that this process does not take, until there are so many.
    pub(super) fn gather_up_to(&mut self, engine: &Engine, most: u64) {
        while let Some(aggregation) = self.aggregation.as_mut().filter(|_| !self.failed) {
            if aggregation.calls.begun() >= most {
                break;
            }
            aggregation.due = Some(0);
            self.taken(engine, None);
        }
    }

    /// The checkpoint has a file of its own, and is no part of an aggregated one.
    pub fn taken_alone(&mut self, engine: &Engine, id: Id) {
        self.open = None;
        self.taken(engine, None);
        self.learn(engine, id, |deferred| deferred.place = Some(None));
    }

    /// Takes the lengths of the oldest gathering: each process's key and length.
    pub(super) fn apply_gathered(&mut self, engine: &Engine, all: &[i64]) {
        if all.chunks_exact(2).any(|line| *line == LAST_LENGTH) {
            return self.fail(engine, OTHER_HAS_FAILED);
        }
        let first = self.aggregation.as_mut().and_then(|aggregation| {
            let (attempt, id) = aggregation.awaited.pop_front()?;
            Some((attempt, id?))
        });
        let Some((attempt, id)) = first else {
            return;
        };
        let lines: Vec<(i64, u64)> = all
            .chunks_exact(2)
            .filter_map(|line| Some((line[0], u64::try_from(line[1]).ok()?)))
            .collect();
        let same = lines.iter().all(|line| line.0 == lines[0].0);
        let place = (same && lines.len() == self.ranks as usize).then(|| {
            let offset = lines[..self.rank as usize].iter().map(|line| line.1).sum();
            let identity = engine.checkpoints().identity(id);
            AggregatePart { offset, ranks: self.ranks, identity, attempt }
        });
        if place.is_none() {
            engine.telemetry().degrade(
                "aggregation",
                "a checkpoint that not all processes have taken is not aggregated: each of them \
                 copies it to a file of its own",
            );
        }
        self.learn(engine, id, |deferred| deferred.place = Some(place));
    }
}
