//! The processes of a communicator, as a collective call sees them.

use std::ffi::c_int;

use crate::mpi::MpiProperties;
use crate::pmpi::{self, HandleWord};
use crate::state::LogState;

/// The processes that a process receives from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// All processes of its group, or of the remote group.
    All,
    /// The neighbours of the process in the communicator's topology.
    Neighbors,
}

/// The processes of a communicator.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommunicatorProcesses {
    mpi: MpiProperties,
    comm: HandleWord,
    pub(super) rank: c_int,
    /// How many processes this one receives from: those of its group, or of the remote group.
    pub(super) peers: usize,
    pub(super) is_inter: bool,
}

impl CommunicatorProcesses {
    pub(super) fn of(state: &LogState, comm: HandleWord) -> CommunicatorProcesses {
        let (mut rank, mut peers, mut inter) = (0, 0, 0);
        // SAFETY: the communicator that the application passed, and integers of ours.
        unsafe {
            pmpi::comm_rank(comm, &mut rank);
            pmpi::comm_test_inter(comm, &mut inter);
            if inter == 0 {
                pmpi::comm_size(comm, &mut peers);
            } else {
                pmpi::comm_remote_size(comm, &mut peers);
            }
        }
        let peers = usize::try_from(peers).unwrap_or(0);
        CommunicatorProcesses { mpi: state.mpi, comm, rank, peers, is_inter: inter != 0 }
    }

    /// Whether this process is the root.
    pub(super) fn is_root(&self, root: c_int) -> bool {
        if self.is_inter {
            root == self.mpi.numbers.root
        } else {
            root == self.rank
        }
    }

    /// Whether this process receives what the root sends.
    pub(super) fn gets_from(&self, root: c_int) -> bool {
        if self.is_inter {
            root != self.mpi.numbers.root && root != self.mpi.numbers.proc_null
        } else {
            root != self.rank
        }
    }

    /// The number of processes that this one receives from.
    pub(super) fn number(&self, from: From) -> usize {
        match from {
            From::All => self.peers,
            From::Neighbors => self.sources(),
        }
    }

    /// The number of neighbours that this process receives from.
    fn sources(&self) -> usize {
        let (mut kind, mut count, mut unused) = (0, 0, (0, 0));
        let numbers = self.mpi.numbers;
        // SAFETY: the communicator that the application passed, and integers of ours.
        unsafe {
            pmpi::topo_test(self.comm, &mut kind);
            if kind == numbers.cart {
                pmpi::cartdim_get(self.comm, &mut count);
                count *= 2;
            } else if kind == numbers.graph {
                pmpi::graph_neighbors_count(self.comm, self.rank, &mut count);
            } else if kind == numbers.dist_graph {
                let (destinations, weighted) = (&mut unused.0, &mut unused.1);
                pmpi::dist_graph_neighbors_count(self.comm, &mut count, destinations, weighted);
            }
        }
        usize::try_from(count).unwrap_or(0)
    }
}
