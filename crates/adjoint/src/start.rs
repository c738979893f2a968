//! The start of a run: protects the memory, reads the store, and agrees with the other processes.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use super::initial_state;
use super::position::{ComputationIdentity, Marker, ObjectRole};
use super::replay::ReplayCheck;
use super::same_settings;
use super::settings::{names_of, AdjointSettings};
use super::state_hash::{hash_of, unstable};
use super::store_contents::{self, CommonContents, StartReport, StoreContents};
use super::stored_hashes::StoredHashes;
use super::{schedule_error, ClientAccess, Problem};
use client::Client;
use errors::{Error, ErrorKind, Result};
use schedule::configured::ConfiguredSchedule;

/// The result of the start.
pub(super) struct StartedRun {
    pub(super) course: ConfiguredSchedule,
    pub(super) of: ComputationIdentity,
    pub(super) states: Marker,
    pub(super) adjoints: Marker,
    pub(super) hashes: StoredHashes,
    pub(super) found: StoreContents,
    pub(super) common: CommonContents,
    pub(super) replay: Option<ReplayCheck>,
}

/// Starts a run. All processes come to the same result, or fail together.
pub(super) fn begin(
    settings: &AdjointSettings,
    problem: &mut dyn Problem,
    access: &impl ClientAccess,
) -> Result<StartedRun> {
    same_settings::check(Ok(settings), access)?;
    let (name_of_adjoints, name_of_hashes) =
        (settings.name_of_adjoints(), settings.name_of_hashes());
    let (durable, ranks) =
        access.with(|client| Ok((client.versions().keeps_files(), client.processes().ranks()?)))?;
    let of = ComputationIdentity {
        tag: settings.tag,
        steps: settings.steps as u64,
        slots: settings.slots as u64,
        ranks,
    };
    let (states, adjoints) =
        (Marker::new(ObjectRole::State, of), Marker::new(ObjectRole::Adjoint, of));
    let hashes = StoredHashes::new(of);
    let mut prepare = || -> Result<ConfiguredSchedule> {
        let course = settings.course(durable)?;
        access.with(|client| {
            client.marked().check_idle(&settings.name)?;
            client.protecting().manage(&settings.name, states.object())?;
            client.protecting().manage(&name_of_adjoints, adjoints.object())?;
            client.protecting().manage(&name_of_hashes, hashes.object())?;
            client.protecting().hold_names(names_of(&settings.name));
            Ok(())
        })?;
        problem.protect()?;
        access.with(|client| {
            for (name, what) in [(&settings.name, "state"), (&name_of_adjoints, "adjoint")] {
                if !client.protecting().has_regions(name) {
                    return Err(Error::invalid(format!(
                        "protect has protected no memory of the {what} (VELOC_Adjoint_protect)"
                    )));
                }
            }
            client.protecting().fix_regions();
            check_room(settings, client)
        })?;
        Ok(course)
    };
    let prepared = prepare();
    let regained = access.with(|client| {
        client.search().regain(&settings.name, false, prepared.is_ok())?;
        client.search().regain(&name_of_adjoints, true, prepared.is_ok())?;
        client.search().regain(&name_of_hashes, false, prepared.is_ok())
    });
    let look = || -> Result<(ConfiguredSchedule, StoreContents, Option<ReplayCheck>)> {
        let course = prepared?;
        regained?;
        let found = access.with(|client| {
            let (states, adjoints) = ((&*settings.name, &states), (&*name_of_adjoints, &adjoints));
            store_contents::read_store(client, states, adjoints, (&name_of_hashes, &hashes), &of)
        });
        let found = found?;
        let hash = match settings.verify {
            true => Some(hash_of(settings, problem, access, 0)?),
            false => None,
        };
        let stored = found.states.iter().find(|kept| kept.state == 0).and_then(|kept| kept.hash);
        if let (Some(now), Some(stored)) = (hash, stored.filter(|stored| Some(*stored) != hash)) {
            let unstable = unstable(settings, problem, access, 0, now)?;
            return Err(unstable.unwrap_or_else(|| initial_state::refusal(settings, now, stored)));
        }
        let mut replay = settings.verify.then(|| ReplayCheck::new(of.steps));
        if let Some(replay) = &mut replay {
            let known = found.states.iter().filter_map(|kept| Some((kept.state, kept.hash?)));
            known
                .chain(hash.map(|hash| (0, hash)))
                .try_for_each(|(s, h)| replay.check_state(s, h))?;
        }
        Ok((course, found, replay))
    };
    let own = look();
    let report = StartReport {
        found: own.as_ref().map(|(_, found, _)| found.clone()).map_err(ToString::to_string),
        fresh: RandomState::new().build_hasher().finish(),
    };
    let (reports, rank) = access
        .with(|client| Ok((client.processes().exchange(&report)?, client.processes().rank()?)))?;
    let (mut course, found, mut replay) = own?;
    let failed = reports.iter().any(|report| report.found.is_err());
    let common = store_contents::common(&reports).map_err(|error| match rank == 0 && !failed {
        true => error,
        // The process that has failed tells the user, or else rank 0.
        false => error.told_by_another(),
    })?;
    if common.resumes {
        initial_state::compare(settings, problem, access, &found, &common)?;
        course.resume_stopped(&common.survivors).map_err(schedule_error)?;
        access.with(|client| {
            client.versions().try_again();
            Ok(())
        })?;
        if let Some(replay) = &mut replay {
            found.hashes.iter().for_each(|(first, hashes)| replay.add_stored(*first, hashes));
            // The hashes up to the last stored state are in the store; all of them, once an adjoint was
            // stored.
            let highest = common.survivors.states.iter().map(|stored| stored.state).max();
            let adjoint = common.survivors.adjoint.map(|_| of.steps);
            replay.mark_stored_to(adjoint.or(highest).unwrap_or(0));
        }
    } else {
        if let Some(why) = store_contents::why_not_resumed(&reports) {
            log::warn!("\"{}\": the run begins anew: {why}", settings.name);
        }
        // Data that only some processes have is useless. All remove it before any store again.
        let removed = access.with(|client| {
            client.versions().remove_all(&settings.name)?;
            client.versions().remove_all(&name_of_adjoints)?;
            client.versions().remove_all(&name_of_hashes)
        });
        let removed =
            removed.map_err(|error| error.within("what an earlier run has left cannot be removed"));
        all_succeeded(access, removed, "remove what it has of a run that not all have")?;
    }
    Ok(StartedRun { course, of, states, adjoints, hashes, found, common, replay })
}

/// Whether the states fit into memory, if there are no files.
fn check_room(settings: &AdjointSettings, client: &mut Client) -> Result<()> {
    let Some(room) = client.versions().room_without_files() else { return Ok(()) };
    // The last state is never stored.
    let states = settings.slots.min(settings.steps - 1).max(1) as u64;
    let bytes = client.protecting().bytes_of(&settings.name);
    if bytes.saturating_mul(states) <= room {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NoRoom,
        format!(
            "slots = {}: {states} states of {bytes} bytes are to be stored, and memory has room for {}, with \
             no files beside it (ephemeral = true, and no scratch): ask for fewer slots, or give more memory \
             (host_cache_size, gpu_cache_size; {room} bytes)",
            settings.slots,
            room / bytes.max(1),
        ),
    ))
}

/// Whether an operation has succeeded on all processes. Collective.
fn all_succeeded(access: &impl ClientAccess, own: Result<()>, what: &str) -> Result<()> {
    let all = access.with(|client| client.processes().exchange(&own.is_ok()))?;
    own?;
    match all.iter().position(|ok| !ok) {
        None => Ok(()),
        Some(rank) => {
            let error = Error::new(ErrorKind::Internal, format!("process {rank} could not {what}"));
            Err(error.told_by_another())
        }
    }
}
