//! What will be read next: hints, and the order of the reads before.

use super::checkpoints::NameVersions;
use super::State;
use crate::entry::Entry;
use crate::{Id, Level};
use policy::order::{self, NextUse, RestoreOrder};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What will be read next.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) order: RestoreOrder,
    /// Hinted checkpoints that could be read from a file.
    pub(super) hinted: BTreeSet<(u64, Id)>,
    /// The name and version last read, from which the next reads are predicted.
    pub(super) reading: Option<(Arc<str>, i64)>,
    /// Whether to fetch ahead: the application reads, or has asked for it.
    pub(super) fetching: bool,
    pub(super) next_hint: u64,
    pub(super) next_consumed: u64,
}

impl Ahead {
    pub(super) fn new(order: RestoreOrder) -> Self {
        Ahead {
            order,
            hinted: BTreeSet::new(),
            reading: None,
            fetching: false,
            next_hint: 1,
            next_consumed: 1,
        }
    }

    pub(super) fn next_use(&self, entry: &Entry) -> NextUse {
        if let Some(&position) = entry.hints.first() {
            return NextUse::Hinted(position);
        }
        match &self.reading {
            Some((name, current)) if *name == entry.name => {
                order::distance(self.order, *current, i64::from(entry.version))
                    .map_or(NextUse::Never, NextUse::Expected)
            }
            _ => NextUse::Never,
        }
    }
}

/// The next checkpoint to fetch to a level, and when it will be used.
pub(super) fn next_to_fetch(state: &State, level: Level) -> Option<(Id, NextUse)> {
    next_ahead(state, &state.levels.level(level).hinted, |of| &of.fetch[level.index()])
}

/// The next checkpoint to read from a file, and when it will be used.
pub(super) fn next_to_read(state: &State) -> Option<(Id, NextUse)> {
    next_ahead(state, &state.ahead.hinted, |of| &of.read)
}

/// The next of the checkpoints that could be fetched: hinted ones first, then those expected next of the
/// name that the application reads.
pub(super) fn next_ahead(
    state: &State,
    hinted: &BTreeSet<(u64, Id)>,
    versions: impl Fn(&NameVersions) -> &BTreeSet<i32>,
) -> Option<(Id, NextUse)> {
    if !state.ahead.fetching {
        return None;
    }
    if let Some(&(position, id)) = hinted.first() {
        return Some((id, NextUse::Hinted(position)));
    }
    let (name, current) = state.ahead.reading.as_ref()?;
    let of = state.checkpoints.names.get(name)?;
    let set = versions(of);
    let bound = |v: i64| v.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    let version = match state.ahead.order {
        RestoreOrder::Reverse if *current > i64::from(i32::MAX) => set.last(),
        RestoreOrder::Reverse => set.range(..bound(*current)).next_back(),
        RestoreOrder::Same => set.range(bound(*current + 1)..).next(),
        RestoreOrder::Random => None,
    }?;
    let id = *of.live.get(version)?;
    let distance = order::distance(state.ahead.order, *current, i64::from(*version))?;
    Some((id, NextUse::Expected(distance)))
}
