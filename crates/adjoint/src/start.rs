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
    /// Whether a state that is restored is as it was.
    pub(super) exact: bool,
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
    let (durable, ranks, rank) = access.with(|client| {
        let processes = client.processes();
        Ok((client.versions().keeps_files(), processes.ranks()?, processes.rank()?))
    })?;
    let protected = protect(settings, problem, access, durable);
    let slots = protected.as_ref().map_or(settings.slots, |room| room.slots);
    // The schedule is the same on all processes.
    let all = access.with(|client| client.processes().exchange(&slots))?;
    let slots = all.into_iter().min().unwrap_or(slots);
    let of = ComputationIdentity {
        tag: settings.tag,
        steps: settings.steps as u64,
        slots: slots as u64,
        ranks,
    };
    let (states, adjoints) =
        (Marker::new(ObjectRole::State, of), Marker::new(ObjectRole::Adjoint, of));
    let hashes = StoredHashes::new(of);
    let exact = protected.as_ref().is_ok_and(|room| room.exact);
    let prepare = || -> Result<ConfiguredSchedule> {
        let room = protected?;
        access.with(|client| {
            client.protecting().manage(&settings.name, states.object())?;
            client.protecting().manage(&name_of_adjoints, adjoints.object())?;
            client.protecting().manage(&name_of_hashes, hashes.object())?;
            for (name, what) in [(&settings.name, "state"), (&name_of_adjoints, "adjoint")] {
                if !client.protecting().has_regions(name) {
                    return Err(Error::invalid(format!(
                        "the callback protect has protected no memory of the {what} (VELOC_Adjoint_protect)"
                    )));
                }
            }
            client.protecting().fix_regions();
            check_room(&settings.with_slots(slots), room.bytes, client)
        })?;
        let course = settings.with_slots(slots).course(durable)?;
        if slots != settings.slots && rank == 0 {
            tell_what_is_saved(settings, room.bytes, slots, &course);
        }
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
    let reports = access.with(|client| client.processes().exchange(&report))?;
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
        all_succeeded(
            access,
            removed,
            "remove its part of a run that other processes do not have",
        )?;
    }
    Ok(StartedRun { course, of, states, adjoints, hashes, found, common, replay, exact })
}

/// What the states take, once they are protected.
struct StateRoom {
    /// The bytes that a stored state has.
    bytes: u64,
    /// As many states as have room where those that were asked for would have it as they are.
    slots: i64,
    /// Whether a state that is restored is as it was.
    exact: bool,
}

/// Has the application protect its memory, if the settings are possible.
fn protect(
    settings: &AdjointSettings,
    problem: &mut dyn Problem,
    access: &impl ClientAccess,
    durable: bool,
) -> Result<StateRoom> {
    settings.course(durable)?;
    let names = names_of(&settings.name);
    access.with(|client| {
        client.marked().check_idle(&settings.name)?;
        for name in &names {
            client.protecting().unprotect_all(Some(name))?;
        }
        client.protecting().hold_names(names.clone());
        Ok(())
    })?;
    problem.protect()?;
    let bytes = access.with(|client| Ok(client.protecting().bytes_of(&settings.name)));
    let (whole, stored) = bytes?;
    let exact = stored == whole;
    if !exact && settings.verify {
        return Err(Error::invalid(
            "VELOC_VERIFY_REPLAY does not go with states that are compressed (VELOC_Adjoint_compress): steps from a \
             compressed state do not give the same bytes again",
        ));
    }
    let slots = slots_in_room(settings, whole, stored);
    Ok(StateRoom { bytes: stored, slots, exact })
}

/// How many states of `stored` bytes have room where the slots' would have `whole` bytes each. No more than can be used.
fn slots_in_room(settings: &AdjointSettings, whole: u64, stored: u64) -> i64 {
    let room = settings.slots as i128 * i128::from(whole);
    let most = settings.steps.min(i64::from(i32::MAX)).max(settings.slots);
    (room / i128::from(stored.max(1))).clamp(i128::from(settings.slots), i128::from(most)) as i64
}

/// Tells how many more states there are, and what that saves.
fn tell_what_is_saved(
    settings: &AdjointSettings,
    bytes: u64,
    have: i64,
    course: &ConfiguredSchedule,
) {
    let AdjointSettings { name, slots, .. } = settings;
    let steps = |course: &ConfiguredSchedule| course.cost().map(|cost| cost.advances);
    let before = settings.course(false).map(|course| steps(&course));
    let saves = match (before, steps(course)) {
        (Ok(Ok(before)), Ok(now)) => {
            format!(": {now} forward steps instead of {before}")
        }
        _ => String::new(),
    };
    log::info!(
        "\"{name}\": a compressed state has {bytes} bytes, so there are {have} slots in the room of {slots}{saves}"
    );
}

/// Whether the states fit into memory, if there are no files.
fn check_room(settings: &AdjointSettings, bytes: u64, client: &mut Client) -> Result<()> {
    let Some(room) = client.versions().room_without_files() else { return Ok(()) };
    // The last state is never stored.
    let states = settings.slots.min(settings.steps - 1).max(1) as u64;
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
