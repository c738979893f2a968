//! Values that pass between the processes. All of it collective.

use serde::de::DeserializeOwned;
use serde::Serialize;

use errors::{Error, ErrorKind, Result};
use mpi::Comm;

/// Whether `mine` is true on every process of the communicator. Collective.
pub(super) fn agree(comm: &Comm, mine: bool) -> Result<bool> {
    Ok(comm.allreduce_min_i64(i64::from(mine))? == 1)
}

/// The values of all processes, by rank. A value that cannot be read counts as nothing. Collective.
pub(super) fn gather<T: Serialize + DeserializeOwned + Default>(
    comm: &Comm,
    own: &T,
) -> Result<Vec<T>> {
    let all = comm.allgather(&encode(own)?)?;
    Ok(all.iter().map(|bytes| decode(bytes).unwrap_or_default()).collect())
}

pub(super) fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(message).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("what another process passed over MPI: {error}"))
    })
}
