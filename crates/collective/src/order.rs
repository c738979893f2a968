//! Whether a communicator numbers its processes as the job does: checkpoints go by its ranks, and another run may give
//! them to other processes.

use errors::Result;
use mpi::{Comm, Mpi};

/// Warns of a communicator whose processes have another order than in `MPI_COMM_WORLD`. Collective.
///
/// # Errors
/// MPI's.
pub(super) fn look_at_order(comm: &Comm) -> Result<()> {
    let Some(mpi) = Mpi::find() else { return Ok(()) };
    let own = i64::from(comm.rank()?);
    // A process that cannot look takes part all the same: the others wait for it.
    let world = mpi.world_rank().map_or(own, i64::from);
    let ahead = world - own;
    let [least, most] = comm.allreduce_min([ahead, -ahead])?;
    if least == -most {
        return Ok(());
    }
    let all = comm.allgather(&world.to_le_bytes())?;
    let all: Vec<i64> =
        all.iter().filter_map(|bytes| Some(i64::from_le_bytes(*bytes.first_chunk()?))).collect();
    if let Some(rank) = first_out_of_order(&all).filter(|_| own == 0) {
        log::warn!(
            "the communicator of VELOC_Init has another order than MPI_COMM_WORLD (its ranks {} and {rank} are {} and {} \
             there): checkpoints go by its ranks, so the next run must number its processes in the same way",
            rank - 1,
            all[rank - 1],
            all[rank]
        );
    }
    Ok(())
}

/// The first process whose number in the job is below that of the one before it. `None` also if processes have one number:
/// they are of several jobs.
fn first_out_of_order(all: &[i64]) -> Option<usize> {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return None;
    }
    all.windows(2).position(|pair| pair[1] < pair[0]).map(|before| before + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_has_no_one_behind_a_higher_number() {
        assert_eq!(first_out_of_order(&[0, 1, 5, 9]), None);
        assert_eq!(first_out_of_order(&[3, 4, 1, 2]), Some(2));
        assert_eq!(first_out_of_order(&[0, 1, 0, 1]), None, "two jobs");
    }
}
