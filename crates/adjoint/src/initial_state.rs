//! Checks at a restart whether the application's state 0 is that of the run to go on from. If it is not,
//! for instance because the model has changed, the remaining steps would be computed from the states of
//! one model with another.
//!
//! If the application's hash was stored with state 0, that decides. Otherwise the bytes are compared;
//! they may differ without meaning, so a difference is only a warning.

use super::settings::AdjointSettings;
use super::store_contents::{CommonContents, StoreContents, StoredState, DISCARD_HINT};
use super::{ClientAccess, Problem};
use client::compare::text_of;
use errors::{Error, ErrorKind, Result};

/// A process's result: an error, or how the bytes differ.
type ComparisonResult = std::result::Result<Option<String>, String>;

/// Compares the application's state with the stored state 0, if all processes have one. Collective if
/// there is a run to go on from.
///
/// # Errors
/// The application's hash differs, or cannot be computed; on all processes.
pub(super) fn compare(
    settings: &AdjointSettings,
    problem: &mut dyn Problem,
    access: &impl ClientAccess,
    found: &StoreContents,
    common: &CommonContents,
) -> Result<()> {
    let Some(first) = common.survivors.states.iter().find(|stored| stored.state == 0) else {
        return Ok(());
    };
    let is_first = |kept: &&StoredState| (kept.state, kept.slot) == (0, first.slot);
    let own = match found.states.iter().find(is_first) {
        Some(kept) => compare_with(settings, problem, access, kept),
        None => Ok(None),
    };
    let verdict: ComparisonResult = own.clone().map_err(|error| error.to_string());
    let (all, rank) = access
        .with(|client| Ok((client.processes().exchange(&verdict)?, client.processes().rank()?)))?;
    let own = own?;
    let failed =
        all.iter().zip(0..).find_map(|(verdict, rank)| Some((verdict.as_ref().err()?, rank)));
    if let Some((why, rank)) = failed {
        let error = Error::new(ErrorKind::Internal, format!("process {rank}: {why}"));
        return Err(error.told_by_another());
    }
    let differ: Vec<u64> = all
        .iter()
        .zip(0..)
        .filter(|(verdict, _)| **verdict != Ok(None))
        .map(|(_, rank)| rank)
        .collect();
    // One process warns for all.
    if let (Some(differences), true) = (own, differ.first() == Some(&rank)) {
        log::warn!("{}", warning(settings, &differences, &differ, all.len()));
    }
    Ok(())
}

/// Compares this process's state with the stored one. Returns how the bytes differ if there is no hash
/// to decide.
fn compare_with(
    settings: &AdjointSettings,
    problem: &mut dyn Problem,
    access: &impl ClientAccess,
    kept: &StoredState,
) -> Result<Option<String>> {
    if settings.verify && kept.hash.is_some() {
        // The state was compared before.
        return Ok(None);
    }
    let (name, version) = (&settings.name, kept.slot as i32);
    let now = problem.hash(0)?.map(|hash| hash.max(1));
    if now.is_some() && now == kept.hash {
        return Ok(None);
    }
    let hashes = now.zip(kept.hash);
    let differences = match access.with(|client| client.marked().differences(name, version)) {
        Ok(differences) if differences.is_empty() => return Ok(None),
        Ok(differences) => text_of(&differences),
        Err(error) => return unread(settings, hashes, &error).map(|()| None),
    };
    match hashes {
        Some((now, stored)) => Err(refusal(settings, now, stored).followed_by(differences)),
        None => Ok(Some(differences)),
    }
}

/// State 0 cannot be read from the store: only the hashes can be compared.
fn unread(settings: &AdjointSettings, hashes: Option<(u64, u64)>, error: &Error) -> Result<()> {
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

/// The error for a store of another computation, with both hashes.
pub(super) fn refusal(settings: &AdjointSettings, now: u64, stored: u64) -> Error {
    let AdjointSettings { name, tag, .. } = settings;
    Error::invalid(format!(
        "\"{name}\" (tag {tag}): the state at the call has the hash {now:#018x}, and state 0 in the store \
         {stored:#018x}: the store is of another computation, or it was hashed by another function, and was \
         left as it is; make the call \
         with its state 0, or under another name; {DISCARD_HINT}"
    ))
}

/// The warning that bytes differ: on the processes `differ`, of which this is the first.
fn warning(
    settings: &AdjointSettings,
    differences: &str,
    differ: &[u64],
    processes: usize,
) -> String {
    let AdjointSettings { name, tag, .. } = settings;
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
