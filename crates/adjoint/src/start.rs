//! The beginning of a run: what is protected, what there is, and what all processes make of it.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use super::consent;
use super::first;
use super::position::{Identity, Marker, Role};
use super::replay::Replay;
use super::settings::{names_of, Settings};
use super::survey::{self, Common, Found, Report};
use super::trail::Trail;
use super::verify;
use super::{refused, Problem, Reach};
use client::Client;
use os::error::{Error, Kind, Result};
use schedule::course::Course;

/// What a run begins with.
pub(super) struct Begun {
    pub(super) course: Course,
    pub(super) of: Identity,
    pub(super) states: Marker,
    pub(super) adjoints: Marker,
    pub(super) hashes: Trail,
    pub(super) found: Found,
    pub(super) common: Common,
    pub(super) replay: Option<Replay>,
}

/// Looks at what there is. All processes come to the same conclusion, or fail together.
pub(super) fn begin(
    settings: &Settings,
    problem: &mut dyn Problem,
    reach: &impl Reach,
) -> Result<Begun> {
    consent::agree(Ok(settings), reach)?;
    let (name_of_adjoints, name_of_hashes) =
        (settings.name_of_adjoints(), settings.name_of_hashes());
    let (lasting, ranks) = reach.with(|client| Ok((client.keeps_files(), client.ranks()?)))?;
    let of = Identity {
        tag: settings.tag,
        steps: settings.steps as u64,
        slots: settings.slots as u64,
        ranks,
    };
    let (states, adjoints) = (Marker::new(Role::State, of), Marker::new(Role::Adjoint, of));
    let hashes = Trail::new(of);
    let mut prepare = || -> Result<Course> {
        let course = settings.course(lasting)?;
        reach.with(|client| {
            client.check_idle(&settings.name)?;
            client.manage(&settings.name, states.object())?;
            client.manage(&name_of_adjoints, adjoints.object())?;
            client.manage(&name_of_hashes, hashes.object())?;
            client.hold_names(names_of(&settings.name));
            Ok(())
        })?;
        problem.protect()?;
        reach.with(|client| {
            for (name, what) in [(&settings.name, "state"), (&name_of_adjoints, "adjoint")] {
                if !client.has_regions(name) {
                    return Err(Error::invalid(format!(
                        "protect has protected no memory of the {what} (VELOC_Adjoint_protect)"
                    )));
                }
            }
            client.fix_regions();
            check_room(settings, client)
        })?;
        Ok(course)
    };
    let prepared = prepare();
    let regained = reach.with(|client| {
        client.regain(&settings.name, false, prepared.is_ok())?;
        client.regain(&name_of_adjoints, true, prepared.is_ok())?;
        client.regain(&name_of_hashes, false, prepared.is_ok())
    });
    let look = || -> Result<(Course, Found, Option<Replay>)> {
        let course = prepared?;
        regained?;
        let found = reach.with(|client| {
            let (states, adjoints) = ((&*settings.name, &states), (&*name_of_adjoints, &adjoints));
            survey::look(client, states, adjoints, (&name_of_hashes, &hashes), &of)
        });
        let found = found?;
        let hash = match settings.verify {
            true => Some(hash_of(settings, problem, reach, 0)?),
            false => None,
        };
        let stored = found.states.iter().find(|kept| kept.state == 0).and_then(|kept| kept.hash);
        if let (Some(now), Some(stored)) = (hash, stored.filter(|stored| Some(*stored) != hash)) {
            let unsteady = verify::unsteady(settings, problem, reach, 0, now)?;
            return Err(unsteady.unwrap_or_else(|| first::refusal(settings, now, stored)));
        }
        let mut replay = settings.verify.then(|| Replay::new(of.steps));
        if let Some(replay) = &mut replay {
            let known = found.states.iter().filter_map(|kept| Some((kept.state, kept.hash?)));
            known.chain(hash.map(|hash| (0, hash))).try_for_each(|(s, h)| replay.meet(s, h))?;
        }
        Ok((course, found, replay))
    };
    let own = look();
    let report = Report {
        found: own.as_ref().map(|(_, found, _)| found.clone()).map_err(ToString::to_string),
        fresh: RandomState::new().build_hasher().finish(),
    };
    let (reports, rank) = reach.with(|client| Ok((client.exchange(&report)?, client.rank()?)))?;
    let (mut course, found, mut replay) = own?;
    let failed = reports.iter().any(|report| report.found.is_err());
    let common = survey::common(&reports).map_err(|error| match rank == 0 && !failed {
        true => error,
        // Who has failed tells the user of it, else the first process.
        false => error.told_by_another(),
    })?;
    if common.resumes {
        first::compare(settings, problem, reach, &found, &common)?;
        course.resume_stopped(&common.survivors).map_err(refused)?;
        reach.with(|client| {
            client.try_again();
            Ok(())
        })?;
        if let Some(replay) = &mut replay {
            found.hashes.iter().for_each(|(first, hashes)| replay.learn(*first, hashes));
            // Those up to the state to go on from stand in the store; once the adjoint was stored, all.
            let highest = common.survivors.states.iter().map(|stored| stored.state).max();
            let adjoint = common.survivors.adjoint.map(|_| of.steps);
            replay.is_stored_to(adjoint.or(highest).unwrap_or(0));
        }
    } else {
        if let Some(why) = survey::why_anew(&reports) {
            log::warn!("\"{}\": the run begins anew: {why}", settings.name);
        }
        // What one has and others do not is of no use. Nobody stores before all have removed theirs.
        let removed = reach.with(|client| {
            client.remove_all(&settings.name)?;
            client.remove_all(&name_of_adjoints)?;
            client.remove_all(&name_of_hashes)
        });
        let removed =
            removed.map_err(|error| error.within("what an earlier run has left cannot be removed"));
        together(reach, removed, "remove what it has of a run that not all have")?;
    }
    Ok(Begun { course, of, states, adjoints, hashes, found, common, replay })
}

/// Whether there is room for the states, where memory is all that has any.
fn check_room(settings: &Settings, client: &Client) -> Result<()> {
    let Some(room) = client.room_without_files() else { return Ok(()) };
    // The last state is never stored.
    let states = settings.slots.min(settings.steps - 1).max(1) as u64;
    let bytes = client.bytes_of(&settings.name);
    if bytes.saturating_mul(states) <= room {
        return Ok(());
    }
    Err(Error::new(
        Kind::NoRoom,
        format!(
            "slots = {}: {states} states of {bytes} bytes are to be stored, and memory has room for {}, with \
             no files beside it (ephemeral = true, and no scratch): ask for fewer slots, or give more memory \
             (host_cache_size, gpu_cache_size; {room} bytes)",
            settings.slots,
            room / bytes.max(1),
        ),
    ))
}

/// Whether something has succeeded everywhere. Collective.
fn together(reach: &impl Reach, own: Result<()>, what: &str) -> Result<()> {
    let all = reach.with(|client| client.exchange(&own.is_ok()))?;
    own?;
    match all.iter().position(|ok| !ok) {
        None => Ok(()),
        Some(rank) => {
            let error = Error::new(Kind::Internal, format!("process {rank} could not {what}"));
            Err(error.told_by_another())
        }
    }
}

/// A hash of the state that the application has, which is this one; never 0.
pub(super) fn hash_of(
    settings: &Settings,
    problem: &mut dyn Problem,
    reach: &impl Reach,
    state: u64,
) -> Result<u64> {
    let hash = match problem.hash(state)? {
        Some(hash) => hash,
        None => reach.with(|client| client.digest_of(&settings.name))?.ok_or_else(|| {
            Error::invalid(
                "some of the state is in device memory, which is not read for a hash: a hash \
                 function of the application's is needed",
            )
        })?,
    };
    Ok(hash.max(1))
}
