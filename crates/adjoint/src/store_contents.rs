//! The contents of the store when a run starts: each process reads its own, and all processes come
//! to the same result.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::position::{ComputationIdentity, Marker, ObjectRole, Position};
use super::stored_hashes::StoredHashes;
use client::versions::is_lost;
use client::Client;
use errors::{Error, ErrorKind, Result};
use schedule::resume::Survivors;
use schedule::schedule::Stored;

/// A stored state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredState {
    /// Its number.
    pub state: u64,
    /// Its slot.
    pub slot: u64,
    /// Its hash, if known.
    pub hash: Option<u64>,
}

/// A stored adjoint: its version, and the state that it has come to.
pub(crate) type StoredAdjoint = (i32, u64);

/// The contents of one process's store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoreContents {
    /// The run's number. `None`: nothing is stored.
    pub run: Option<u64>,
    /// States.
    pub states: Vec<StoredState>,
    /// Adjoints.
    pub adjoints: Vec<StoredAdjoint>,
    /// The highest version of an adjoint, readable or not.
    pub highest: Option<i32>,
    /// The highest version of hashes, readable or not.
    pub highest_hashes: Option<i32>,
    /// Hashes, with the first state of each series.
    #[serde(skip)]
    pub hashes: Vec<(u64, Vec<u64>)>,
}

/// A process's message to the others when a run starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StartReport {
    /// The contents of its store, or why it cannot take part.
    pub found: std::result::Result<StoreContents, String>,
    /// A random number for a new run.
    pub fresh: u64,
}

/// The contents that all processes have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommonContents {
    /// The run's number.
    pub run: u64,
    /// Whether there is a run to go on from.
    pub resumes: bool,
    /// The states and the adjoint to go on from, the same on all processes.
    pub survivors: Survivors,
    /// The adjoint to go on from.
    pub adjoint: Option<StoredAdjoint>,
    /// The next version of a stored adjoint.
    pub next_version: i32,
    /// The next version of stored hashes.
    pub next_hashes: i32,
}

/// A name, and the region that its positions are read with.
pub(crate) type Named<'a, T> = (&'a str, &'a T);

/// Reads what this process has stored of a run: states, adjoints and hashes. Changes nothing.
///
/// # Errors
/// Something in the store is of another computation.
pub(crate) fn read_store(
    client: &mut Client,
    states: Named<'_, Marker>,
    adjoints: Named<'_, Marker>,
    hashes: Named<'_, StoredHashes>,
    of: &ComputationIdentity,
) -> Result<StoreContents> {
    let mut found = StoreContents::default();
    let mut lost = Vec::new();
    for (name, role) in [
        (states.0, ObjectRole::State),
        (adjoints.0, ObjectRole::Adjoint),
        (hashes.0, ObjectRole::Hashes),
    ] {
        for version in client.versions().of(name)? {
            match role {
                ObjectRole::State => {}
                ObjectRole::Adjoint => found.highest = Some(version),
                ObjectRole::Hashes => found.highest_hashes = Some(version),
            }
            // Drops the hints of an earlier run in this job.
            client.hints().expect(name, version, None, false);
            match client.marked().read(name, version) {
                Ok(true) => {}
                Ok(false) => return Err(of_the_application(name, version)),
                Err(error) if is_lost(&error) => {
                    lost.push(format!("\"{name}\" version {version}: {error}"));
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Invalid => {
                    return Err(error.within(LEFT_UNTOUCHED).followed_by(DISCARD_HINT));
                }
                Err(error) => return Err(error.within(LEFT_UNTOUCHED)),
            }
            let (position, read) = match role {
                ObjectRole::State => (states.1.get(), Vec::new()),
                ObjectRole::Adjoint => (adjoints.1.get(), Vec::new()),
                ObjectRole::Hashes => hashes.1.take(),
            };
            let about = |error: Error| {
                error.within(format!("\"{name}\" version {version}")).followed_by(DISCARD_HINT)
            };
            add_checked(&mut found, version, &position, role, of).map_err(about)?;
            if role == ObjectRole::Hashes {
                found.hashes.push((position.number, read));
            }
        }
    }
    if let Some(text) = lost_warning(&lost) {
        log::warn!("{text}");
    }
    Ok(found)
}

/// The most lost versions that a warning names.
const MOST_NAMED: usize = 3;

/// The warning for lost versions: how many, and the first of them.
fn lost_warning(lost: &[String]) -> Option<String> {
    let named = lost.iter().take(MOST_NAMED).cloned().collect::<Vec<_>>().join("; ");
    match lost.len() {
        0 => None,
        1 => Some(format!("going on without {named}")),
        all if all <= MOST_NAMED => Some(format!("going on without {all} versions: {named}")),
        all => {
            let more = all - MOST_NAMED;
            Some(format!("going on without {all} versions: {named}; and {more} more"))
        }
    }
}

/// Advice for a store of another computation.
pub(crate) const DISCARD_HINT: &str = "VELOC_Adjoint_discard removes a run that need not go on";

/// The error for a checkpoint of the application's own, which [`DISCARD_HINT`] does not remove.
fn of_the_application(name: &str, version: i32) -> Error {
    Error::invalid(format!(
        "checkpoint \"{name}\" version {version} is one of the application's own, and was left as it is: \
         VELOC_Adjoint_discard does not remove it either; give the run another name"
    ))
}

const LEFT_UNTOUCHED: &str = "the store has something else under this name; it was left as it is";

fn add_checked(
    found: &mut StoreContents,
    version: i32,
    position: &Position,
    role: ObjectRole,
    of: &ComputationIdentity,
) -> Result<()> {
    let Position { run, number, hash, .. } = *position;
    if position.of != *of {
        let by_bits = match (ComputationIdentity { slots: of.slots, ..position.of }) == *of {
            true => " (if states are compressed, their bits decide how many slots there are)",
            false => "",
        };
        return Err(Error::invalid(format!(
            "it is of another computation ({}; this one has {of}){by_bits}; {LEFT_UNTOUCHED}",
            position.of
        )));
    }
    // The slot after the last is that of a state at which a run has stopped.
    let slot =
        u64::try_from(version).ok().filter(|slot| *slot <= of.slots || role != ObjectRole::State);
    let (Some(slot), true) = (slot, position.role == role && number < of.steps) else {
        return Err(Error::invalid(format!(
            "it says that it is {:?} number {number}, which cannot be; {LEFT_UNTOUCHED}",
            position.role
        )));
    };
    if let Some(before) = found.run.replace(run).filter(|before| *before != run) {
        return Err(Error::invalid(format!(
            "it is of run {run:#018x}, and others of run {before:#018x}; {LEFT_UNTOUCHED}"
        )));
    }
    match role {
        ObjectRole::State => found.states.push(StoredState { state: number, slot, hash }),
        ObjectRole::Adjoint => found.adjoints.push((version, number)),
        // Hashes are returned with their positions.
        ObjectRole::Hashes => {}
    }
    Ok(())
}

/// Why a run starts anew although a process has stored something.
pub(crate) fn why_not_resumed(reports: &[StartReport]) -> Option<String> {
    let found = reports.iter().filter_map(|report| report.found.as_ref().ok());
    let has_nothing: Vec<bool> =
        found.map(|found| found.states.is_empty() && found.adjoints.is_empty()).collect();
    match (has_nothing.iter().position(|nothing| *nothing), has_nothing.contains(&false)) {
        (_, false) => None,
        (Some(rank), true) => Some(format!("process {rank} has nothing stored, but others have")),
        (None, true) => Some("no state and no adjoint is there on all processes".into()),
    }
}

/// Finds what all processes have in common.
///
/// # Errors
/// A process cannot take part, or the processes have states of different runs.
pub(crate) fn common(reports: &[StartReport]) -> Result<CommonContents> {
    let Some(first) = reports.first() else {
        return Err(Error::invalid("there is no process"));
    };
    let mut all = Vec::with_capacity(reports.len());
    for (rank, report) in reports.iter().enumerate() {
        match &report.found {
            Ok(found) => all.push(found),
            Err(why) if reports.len() == 1 => return Err(Error::invalid(why.clone())),
            Err(why) => return Err(Error::invalid(format!("process {rank}: {why}"))),
        }
    }
    let runs: BTreeSet<u64> = all.iter().filter_map(|found| found.run).collect();
    if runs.len() > 1 {
        return Err(Error::invalid(format!(
            "the processes have states of different runs: {runs:#018x?}; {LEFT_UNTOUCHED}: \
             VELOC_Adjoint_discard removes them, or take another name"
        )));
    }
    let (mine, others) = (all[0], &all[1..]);
    let of_others: Vec<BTreeSet<(u64, u64)>> = others
        .iter()
        .map(|found| found.states.iter().map(|kept| (kept.state, kept.slot)).collect())
        .collect();
    let everybody_has =
        |kept: &&StoredState| of_others.iter().all(|has| has.contains(&(kept.state, kept.slot)));
    let states: Vec<Stored> = mine
        .states
        .iter()
        .filter(everybody_has)
        .map(|kept| Stored { state: kept.state, slot: kept.slot })
        .collect();
    let adjoints = mine
        .adjoints
        .iter()
        .filter(|kept| others.iter().all(|found| found.adjoints.contains(kept)));
    let adjoint = adjoints.copied().min_by_key(|(_, fine)| *fine);
    let next = |highest: fn(&StoreContents) -> Option<i32>| {
        let highest = all.iter().filter_map(|found| highest(found)).max();
        highest.map_or(Some(0), |highest| highest.checked_add(1))
    };
    let (next_version, next_hashes) =
        (next(|found| found.highest), next(|found| found.highest_hashes));
    let resumes = !states.is_empty() || adjoint.is_some();
    Ok(CommonContents {
        run: runs.first().copied().filter(|_| resumes).unwrap_or(first.fresh),
        resumes,
        survivors: Survivors { states, adjoint: adjoint.map(|(_, fine)| fine), at_start: true },
        adjoint,
        next_version: next_version.filter(|_| resumes).unwrap_or(0),
        next_hashes: next_hashes.filter(|_| resumes).unwrap_or(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(found: StoreContents) -> StartReport {
        StartReport { found: Ok(found), fresh: 9 }
    }

    fn found(states: &[(u64, u64)], adjoints: &[StoredAdjoint]) -> StoreContents {
        StoreContents {
            run: Some(7),
            states: states
                .iter()
                .map(|&(state, slot)| StoredState { state, slot, hash: None })
                .collect(),
            adjoints: adjoints.to_vec(),
            highest: adjoints.iter().map(|(version, _)| *version).max(),
            ..StoreContents::default()
        }
    }

    /// Catches a restart from data that not all processes have.
    #[test]
    fn only_what_all_have_counts() {
        let mut one = found(&[(0, 0), (30, 1), (44, 2)], &[(3, 80), (4, 60)]);
        one.highest_hashes = Some(6);
        let two = found(&[(0, 0), (44, 1), (30, 2)], &[(2, 90), (3, 80)]);
        let both = common(&[report(one.clone()), report(two)]).unwrap();
        assert_eq!(both.survivors.states, [Stored { state: 0, slot: 0 }]);
        assert_eq!((both.adjoint, both.survivors.adjoint), (Some((3, 80)), Some(80)));
        assert_eq!((both.run, both.next_version, both.next_hashes), (7, 5, 7));
        assert!(both.resumes);
        let none = common(&[report(one), report(StoreContents::default())]).unwrap();
        assert_eq!((none.run, none.resumes, none.next_version, none.next_hashes), (9, false, 0, 0));
        assert!(none.survivors.states.is_empty() && none.adjoint.is_none());
        let nothing = || report(StoreContents::default());
        let one = || report(found(&[(0, 0)], &[]));
        assert_eq!(why_not_resumed(&[nothing(), nothing()]), None);
        assert!(why_not_resumed(&[one(), nothing()]).unwrap().starts_with("process 1 has nothing"));
        assert!(why_not_resumed(&[one(), report(found(&[(7, 1)], &[]))])
            .unwrap()
            .starts_with("no state"));
    }

    /// Catches a text that grows with the number of versions.
    #[test]
    fn of_many_that_are_lost_the_first_are_named() {
        let lost: Vec<String> = (0..9).map(|version| format!("\"x\" version {version}")).collect();
        let text = |count: usize| lost_warning(&lost[..count]).unwrap();
        assert_eq!(lost_warning(&[]), None);
        assert_eq!(text(1), "going on without \"x\" version 0");
        let three = "\"x\" version 0; \"x\" version 1; \"x\" version 2";
        assert_eq!(text(3), format!("going on without 3 versions: {three}"));
        assert_eq!(text(9), format!("going on without 9 versions: {three}; and 6 more"));
    }

    #[test]
    fn who_differs_is_named() {
        let good = report(found(&[(0, 0)], &[]));
        let failed = StartReport { found: Err("its disk is gone".into()), ..good.clone() };
        let text = common(&[good.clone(), failed]).unwrap_err().to_string();
        assert_eq!(text, "process 1: its disk is gone");
        let other_run = report(StoreContents { run: Some(8), ..found(&[(0, 0)], &[]) });
        assert!(common(&[good, other_run]).unwrap_err().to_string().contains("different runs"));
    }

    #[test]
    fn what_is_of_another_computation_is_not_taken() {
        let of = ComputationIdentity { tag: 1, steps: 100, slots: 5, ranks: 1 };
        let position = Position { role: ObjectRole::State, run: 7, of, number: 44, hash: None };
        let admitted = |version, position: &Position, role| {
            let mut found = found(&[(0, 0)], &[]);
            add_checked(&mut found, version, position, role, &of).map(|()| found)
        };
        let kept = admitted(2, &position, ObjectRole::State).unwrap().states[1];
        assert_eq!((kept.state, kept.slot), (44, 2));
        for other in [
            ComputationIdentity { tag: 2, ..of },
            ComputationIdentity { steps: 120, ..of },
            ComputationIdentity { slots: 6, ..of },
            ComputationIdentity { ranks: 2, ..of },
        ] {
            let text =
                admitted(2, &Position { of: other, ..position }, ObjectRole::State).unwrap_err();
            assert!(text.to_string().contains(&other.to_string()), "{text}");
        }
        assert!(admitted(2, &Position { run: 8, ..position }, ObjectRole::State).is_err());
        assert!(admitted(5, &position, ObjectRole::State).is_ok());
        assert!(admitted(6, &position, ObjectRole::State).is_err());
        assert!(admitted(2, &position, ObjectRole::Adjoint).is_err());
        assert!(admitted(2, &Position { number: 100, ..position }, ObjectRole::State).is_err());
    }
}
