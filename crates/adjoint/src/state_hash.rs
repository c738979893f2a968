//! Hashes of the application's state.

use super::replay::unstable_hash;
use super::settings::AdjointSettings;
use super::{ClientAccess, Problem};
use errors::{Error, Result};

/// A hash of the application's current state; never 0.
pub(super) fn hash_of(
    settings: &AdjointSettings,
    problem: &mut dyn Problem,
    access: &impl ClientAccess,
    state: u64,
) -> Result<u64> {
    let hash = match problem.hash(state)? {
        Some(hash) => hash,
        None => access.with(|client| client.protecting().digest_of(&settings.name))?.ok_or_else(
            || {
                Error::invalid(
                    "some of the state is in device memory, which the library does not hash: give the callback hash",
                )
            },
        )?,
    };
    Ok(hash.max(1))
}

/// The error if hashing the application's current state again gives another hash.
pub(super) fn unstable(
    settings: &AdjointSettings,
    problem: &mut dyn Problem,
    access: &impl ClientAccess,
    state: u64,
    hash: u64,
) -> Result<Option<Error>> {
    let given = problem.hash(state)?.map(|hash| hash.max(1));
    let again = match given {
        Some(again) => again,
        None => hash_of(settings, problem, access, state)?,
    };
    Ok((again != hash).then(|| unstable_hash(state, hash, again, given.is_some())))
}
