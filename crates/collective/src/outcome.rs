//! Whether all processes have succeeded, and what a process hears of the others' failures.

use super::alike;
use super::pass::{agree, gather};
use errors::{Error, ErrorKind, Result};
use mpi::Comm;

/// This process's result, if all processes have succeeded. Collective.
///
/// # Errors
/// MPI's. The inner error is why a process has failed: this process's own reason, or the first
/// rank's that has one. Of reasons that differ in digits alone, the first rank tells the user.
pub(super) fn all_or_none<T>(comm: &Comm, own: Result<T>) -> Result<Result<T>> {
    if agree(comm, own.is_ok())? {
        return Ok(own);
    }
    let why = own.as_ref().err().map(ToString::to_string);
    let whys: Vec<Option<String>> = gather(comm, &why)?;
    let failed: Vec<usize> = (0..whys.len()).filter(|rank| whys[*rank].is_some()).collect();
    let words = |why: &Option<String>| why.as_ref().map(|why| why.replace(char::is_numeric, ""));
    let before = &whys[..(comm.rank()? as usize).min(whys.len())];
    let own = own.map_err(|error| match before.iter().any(|other| words(other) == words(&why)) {
        true => error.told_by_another(),
        false => error,
    });
    Ok(own.and_then(|_| {
        let (first, others) = failed.split_first().unwrap_or((&0, &[]));
        let why = whys.get(*first).and_then(Option::as_deref).unwrap_or("it has failed");
        let more = match others {
            [] => String::new(),
            [_] => format!("; {} has failed as well", alike::processes(others)),
            _ => format!("; {} have failed as well", alike::processes(others)),
        };
        let error = Error::new(ErrorKind::Internal, format!("process {first}: {why}{more}"));
        Err(error.told_by_another())
    }))
}
