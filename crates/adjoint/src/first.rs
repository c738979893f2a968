//! Whether the state 0 that the application has at a restart is that of the job that the run goes on from.
//! If it is another one, as of a model that was changed, the steps that are left would be computed from the
//! states of one model and by the program of another.
//!
//! A hash of the application's decides, if state 0 was stored with one. Otherwise bytes are compared, which may
//! differ without a meaning: so that is no reason to fail.

use super::settings::Settings;
use super::survey::{Common, Found, Kept, WAY_OUT};
use super::{Problem, Reach};
use client::compare::text_of;
use os::error::{Error, Kind, Result};

/// What a process says to the others: why it cannot go on, or how the bytes of its state differ.
type Verdict = std::result::Result<Option<String>, String>;

/// Compares the state that the application has with state 0 of the store, if all processes have that.
/// Collective, where there is anything to go on from.
///
/// # Errors
/// It is another state by the application's hash, or this cannot be computed; on all processes.
pub(super) fn compare(
    settings: &Settings,
    problem: &mut dyn Problem,
    reach: &impl Reach,
    found: &Found,
    common: &Common,
) -> Result<()> {
    let Some(first) = common.survivors.states.iter().find(|stored| stored.state == 0) else {
        return Ok(());
    };
    let is_first = |kept: &&Kept| (kept.state, kept.slot) == (0, first.slot);
    let own = match found.states.iter().find(is_first) {
        Some(kept) => compare_with(settings, problem, reach, kept),
        None => Ok(None),
    };
    let verdict: Verdict = own.clone().map_err(|error| error.to_string());
    let (all, rank) = reach.with(|client| Ok((client.exchange(&verdict)?, client.rank()?)))?;
    let own = own?;
    let failed =
        all.iter().zip(0..).find_map(|(verdict, rank)| Some((verdict.as_ref().err()?, rank)));
    if let Some((why, rank)) = failed {
        let error = Error::new(Kind::Internal, format!("process {rank}: {why}"));
        return Err(error.told_by_another());
    }
    let differ: Vec<u64> = all
        .iter()
        .zip(0..)
        .filter(|(verdict, _)| **verdict != Ok(None))
        .map(|(_, rank)| rank)
        .collect();
    // One speaks for all.
    if let (Some(differences), true) = (own, differ.first() == Some(&rank)) {
        log::warn!("{}", warning(settings, &differences, &differ, all.len()));
    }
    Ok(())
}

/// Compares this process's state with what the store has. How the bytes differ, where nothing says whether
/// that has a meaning.
fn compare_with(
    settings: &Settings,
    problem: &mut dyn Problem,
    reach: &impl Reach,
    kept: &Kept,
) -> Result<Option<String>> {
    if settings.verify && kept.hash.is_some() {
        // It was compared before.
        return Ok(None);
    }
    let (name, version) = (&settings.name, kept.slot as i32);
    let now = problem.hash(0)?.map(|hash| hash.max(1));
    if now.is_some() && now == kept.hash {
        return Ok(None);
    }
    let hashes = now.zip(kept.hash);
    let differences = match reach.with(|client| client.differences(name, version)) {
        Ok(differences) if differences.is_empty() => return Ok(None),
        Ok(differences) => text_of(&differences),
        Err(error) => return unread(settings, hashes, &error).map(|()| None),
    };
    match hashes {
        Some((now, stored)) => Err(refusal(settings, now, stored).followed_by(differences)),
        None => Ok(Some(differences)),
    }
}

/// State 0 of the store cannot be read, so that there is nothing to compare with but its hash, if these
/// differ.
fn unread(settings: &Settings, hashes: Option<(u64, u64)>, error: &Error) -> Result<()> {
    match hashes {
        Some((now, stored)) => Err(refusal(settings, now, stored)),
        None => {
            log::warn!(
                "\"{}\": state 0 of the store cannot be compared with the state at the call: {error}",
                settings.name
            );
            Ok(())
        }
    }
}

/// That the store is of another computation, by the hashes of the state at the call and of state 0 there.
pub(super) fn refusal(settings: &Settings, now: u64, stored: u64) -> Error {
    let Settings { name, tag, .. } = settings;
    Error::invalid(format!(
        "\"{name}\" (tag {tag}): the state at the call has the hash {now:#018x}, and state 0 in the store \
         {stored:#018x}: the store is of another computation, or it was hashed by another function, and was \
         left as it is; make the call \
         with its state 0, or under another name; {WAY_OUT}"
    ))
}

/// That bytes differ: on these processes, of which this one is the first, of so many.
fn warning(settings: &Settings, differences: &str, differ: &[u64], processes: usize) -> String {
    let Settings { name, tag, .. } = settings;
    let place = match (differ, processes) {
        (_, 1) | ([], _) => String::new(),
        ([rank], _) => format!("process {rank}: "),
        ([rank, more @ ..], _) => format!("process {rank}, and {} more: ", more.len()),
    };
    format!(
        "{place}\"{name}\" (tag {tag}): the state at the call is not state 0 of the store, from which the \
         run goes on: {differences}; if it is of another model, the gradient is wrong, and \
         VELOC_Adjoint_discard begins anew; if these bytes have no meaning, set them, or have the callback \
         hash leave them out"
    )
}
