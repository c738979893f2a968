//! What MPI tells of a communicator, by which another process finds it again.

use message_log_core::store::comms::{CommTraits, Communicators, Predefined, Topologies};

use crate::mpi::MpiProperties;
use crate::pmpi;

/// Adds a new communicator, unless it is `MPI_COMM_NULL`.
pub(crate) fn made(comms: &mut Communicators, mpi: &MpiProperties, handle: usize) {
    if handle != mpi.comm_null {
        comms.insert(handle, traits(handle));
    }
}

fn traits(handle: usize) -> CommTraits {
    let (mut traits, mut inter) = (CommTraits::default(), 0);
    // SAFETY: a communicator that MPI returned, and integers of ours.
    unsafe {
        pmpi::comm_size(handle, &mut traits.size);
        pmpi::comm_rank(handle, &mut traits.rank);
        pmpi::topo_test(handle, &mut traits.topology);
        pmpi::comm_test_inter(handle, &mut inter);
    }
    traits.is_inter = inter != 0;
    traits
}

/// The predefined handles of an MPI library.
pub(crate) fn predefined(mpi: &MpiProperties) -> Predefined {
    Predefined {
        world: mpi.comm_world,
        own: mpi.comm_self,
        null: mpi.comm_null,
        no_proc: mpi.message_no_proc,
        topologies: Topologies {
            none: mpi.numbers.undefined,
            cart: mpi.numbers.cart,
            graph: mpi.numbers.graph,
            dist_graph: mpi.numbers.dist_graph,
        },
    }
}
