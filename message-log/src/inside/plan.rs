//! What is compared of a collective call, and where this process receives.

use std::ffi::c_int;

use crate::log::{Call, Shape};
use crate::mpi::Mpi;
use crate::pmpi::{self, Aint, Handle, Ptr};
use crate::state::State;
use crate::target::{Block, Target};

/// A call, as it is compared, and where it receives.
#[derive(Debug)]
pub struct Plan {
    /// The call.
    pub shape: Shape,
    /// Where it receives.
    pub target: Target,
}

/// Elements that a call sends or receives.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    /// The first one's address.
    pub buf: Ptr,
    /// How many; from or for each process where there are several.
    pub count: i64,
    /// Their type.
    pub datatype: Handle,
}

impl Elements {
    /// With a count of either width.
    pub fn new(buf: Ptr, count: impl Into<i64>, datatype: Handle) -> Elements {
        Elements { buf, count: count.into(), datatype }
    }
}

/// Counts for each process, of either width.
#[derive(Clone, Copy, Debug)]
pub enum Counts {
    /// `const int *`.
    Narrow(*const c_int),
    /// `const MPI_Count *` and `const MPI_Aint *`.
    Wide(*const i64),
}

impl std::convert::From<*const c_int> for Counts {
    fn from(counts: *const c_int) -> Counts {
        Counts::Narrow(counts)
    }
}

impl std::convert::From<*const i64> for Counts {
    fn from(counts: *const i64) -> Counts {
        Counts::Wide(counts)
    }
}

impl std::convert::From<*const Aint> for Counts {
    fn from(counts: *const Aint) -> Counts {
        Counts::Wide(counts.cast())
    }
}

impl Counts {
    /// # Safety
    /// There are more than `n`.
    unsafe fn get(self, n: usize) -> i64 {
        // SAFETY: by the caller's promise.
        unsafe {
            match self {
                Counts::Narrow(counts) => i64::from(counts.add(n).read()),
                Counts::Wide(counts) => counts.add(n).read(),
            }
        }
    }
}

/// Elements in a block for each process.
#[derive(Clone, Copy, Debug)]
pub struct Blocks {
    /// What the places count from.
    pub buf: Ptr,
    /// How many elements each has.
    pub counts: Counts,
    /// Where each begins, in elements.
    pub places: Counts,
    /// The elements' type.
    pub datatype: Handle,
}

impl Blocks {
    /// With counts and places of either width.
    pub fn new(
        buf: Ptr,
        counts: impl Into<Counts>,
        places: impl Into<Counts>,
        datatype: Handle,
    ) -> Blocks {
        Blocks { buf, counts: counts.into(), places: places.into(), datatype }
    }
}

/// Whom a process gets something from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// All processes of its group, or of the other one.
    All,
    /// Its neighbours in the communicator's topology.
    Neighbors,
}

/// The processes of a communicator.
#[derive(Clone, Copy, Debug)]
struct Group {
    mpi: Mpi,
    comm: Handle,
    rank: c_int,
    /// Those that this one gets something from: of its group, or of the other one.
    peers: usize,
    is_inter: bool,
}

impl Group {
    fn of(state: &State, comm: Handle) -> Group {
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
        Group { mpi: state.mpi, comm, rank, peers, is_inter: inter != 0 }
    }

    /// Whether this process is the root.
    fn is_root(&self, root: c_int) -> bool {
        if self.is_inter {
            root == self.mpi.numbers.root
        } else {
            root == self.rank
        }
    }

    /// Whether this process gets what the root sends.
    fn gets_from(&self, root: c_int) -> bool {
        if self.is_inter {
            root != self.mpi.numbers.root && root != self.mpi.numbers.proc_null
        } else {
            root != self.rank
        }
    }

    /// How many processes this one gets something from.
    fn number(&self, from: From) -> usize {
        match from {
            From::All => self.peers,
            From::Neighbors => self.sources(),
        }
    }

    /// How many neighbours this process gets something from.
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

/// Elements of one count and type.
fn elements(
    call: Call,
    comm: Handle,
    peer: Option<c_int>,
    part: &Elements,
    state: &mut State,
) -> Shape {
    let datatype = state.mpi.abi.truncate(part.datatype);
    let comm = state.mpi.abi.truncate(comm);
    let size = state.types.get(datatype).size;
    Shape { comm, peer, count: part.count, size, ..Shape::new(call) }
}

/// A call that this process receives nothing of. One that takes no part in it may pass any count and
/// type.
fn nothing(
    call: Call,
    comm: Handle,
    peer: Option<c_int>,
    sent: &Elements,
    state: &mut State,
) -> Plan {
    let shape = match peer == Some(state.mpi.numbers.proc_null) {
        true => Shape { peer, ..barrier(call, comm, state).shape },
        false => elements(call, comm, peer, sent, state),
    };
    Plan { shape, target: Target::Nothing }
}

/// A call that this process receives elements of.
fn plain(
    call: Call,
    comm: Handle,
    peer: Option<c_int>,
    received: &Elements,
    state: &mut State,
) -> Plan {
    let shape = elements(call, comm, peer, received, state);
    let target = Target::Plain {
        buf: received.buf as usize,
        count: received.count,
        datatype: state.mpi.abi.truncate(received.datatype),
    };
    Plan { shape, target }
}

/// A call that this process receives blocks of, one of each of `peers` processes.
///
/// # Safety
/// There are as many counts and places.
unsafe fn blocks(
    call: Call,
    comm: Handle,
    peer: Option<c_int>,
    received: &Blocks,
    peers: usize,
    state: &mut State,
) -> Plan {
    let handle = state.mpi.abi.truncate(received.datatype);
    let datatype = state.types.get(handle);
    let mut all: Vec<Block> = Vec::new();
    let (mut total, mut end) = (0, None);
    for n in 0..peers {
        // SAFETY: by the caller's promise.
        let (count, place) = unsafe { (received.counts.get(n), received.places.get(n)) };
        if count == 0 {
            continue;
        }
        total += count;
        match all.last_mut() {
            // One behind the other, as they mostly are.
            Some(last) if end == Some(place) => last.count += count,
            _ => all.push(Block {
                buf: received.buf as usize + (place * datatype.extent) as usize,
                count,
                datatype: datatype.clone(),
            }),
        }
        end = Some(place + count);
    }
    let comm = state.mpi.abi.truncate(comm);
    let shape = Shape { comm, peer, count: total, size: datatype.size, ..Shape::new(call) };
    Plan { shape, target: Target::Many(all.into()) }
}

/// `MPI_Barrier`.
pub fn barrier(call: Call, comm: Handle, state: &mut State) -> Plan {
    let comm = state.mpi.abi.truncate(comm);
    Plan { shape: Shape { comm, ..Shape::new(call) }, target: Target::Nothing }
}

/// `MPI_Bcast`.
pub fn bcast(call: Call, data: &Elements, root: c_int, comm: Handle, state: &mut State) -> Plan {
    match Group::of(state, comm).gets_from(root) {
        true => plain(call, comm, Some(root), data, state),
        false => nothing(call, comm, Some(root), data, state),
    }
}

/// `MPI_Gather`.
pub fn gather(
    call: Call,
    sent: &Elements,
    received: &Elements,
    root: c_int,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let group = Group::of(state, comm);
    if !group.is_root(root) {
        return nothing(call, comm, Some(root), sent, state);
    }
    let all = Elements { count: received.count * group.peers as i64, ..*received };
    plain(call, comm, Some(root), &all, state)
}

/// `MPI_Gatherv`.
///
/// # Safety
/// As MPI says of the call; so it is for those below.
pub unsafe fn gatherv(
    call: Call,
    sent: &Elements,
    received: &Blocks,
    root: c_int,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let group = Group::of(state, comm);
    if !group.is_root(root) {
        return nothing(call, comm, Some(root), sent, state);
    }
    // SAFETY: the root has a count and a place for each process.
    unsafe { blocks(call, comm, Some(root), received, group.peers, state) }
}

/// `MPI_Scatter` and `MPI_Scatterv`.
pub fn scatter(
    call: Call,
    received: &Elements,
    root: c_int,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let group = Group::of(state, comm);
    let in_place = received.buf as usize == state.mpi.numbers.in_place;
    let gets = group.gets_from(root) || !group.is_inter && !in_place;
    if gets {
        return plain(call, comm, Some(root), received, state);
    }
    // The count and the type mean nothing here.
    Plan {
        shape: Shape { peer: Some(root), ..barrier(call, comm, state).shape },
        target: Target::Nothing,
    }
}

/// As many elements of each process: `MPI_Allgather`, `MPI_Alltoall`, and those of neighbours.
pub fn each(call: Call, received: &Elements, from: From, comm: Handle, state: &mut State) -> Plan {
    let peers = Group::of(state, comm).number(from) as i64;
    let all = Elements { count: received.count * peers, ..*received };
    plain(call, comm, None, &all, state)
}

/// A block of each process: `MPI_Allgatherv`, `MPI_Alltoallv`, and those of neighbours.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn each_v(
    call: Call,
    received: &Blocks,
    from: From,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let peers = Group::of(state, comm).number(from);
    // SAFETY: by the caller's promise, a count and a place for each process.
    unsafe { blocks(call, comm, None, received, peers, state) }
}

/// A block of each process with a type of its own, and places in bytes: `MPI_Alltoallw`, and that of
/// neighbours.
///
/// # Safety
/// As MPI says of the call.
#[allow(clippy::too_many_arguments)] // As MPI has it.
pub unsafe fn each_w(
    call: Call,
    buf: Ptr,
    counts: Counts,
    places: Counts,
    types: Ptr,
    from: From,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let peers = Group::of(state, comm).number(from);
    let mut all = Vec::new();
    let mut total = 0;
    for n in 0..peers {
        // SAFETY: by the caller's promise, a count, a place and a type for each process.
        let (count, place, handle) = unsafe {
            (counts.get(n), places.get(n), state.mpi.read_handle(state.mpi.nth_handle(types, n)))
        };
        if count == 0 {
            continue;
        }
        total += count;
        let datatype = state.types.get(handle);
        all.push(Block { buf: buf as usize + place as usize, count, datatype });
    }
    let comm = state.mpi.abi.truncate(comm);
    let shape = Shape { comm, count: total, ..Shape::new(call) };
    Plan { shape, target: Target::Many(all.into()) }
}

/// `MPI_Reduce`: `data` has the place of the result.
pub fn reduce(call: Call, data: &Elements, root: c_int, comm: Handle, state: &mut State) -> Plan {
    match Group::of(state, comm).is_root(root) {
        true => plain(call, comm, Some(root), data, state),
        false => nothing(call, comm, Some(root), data, state),
    }
}

/// `MPI_Allreduce`, `MPI_Scan` and `MPI_Reduce_scatter_block`.
pub fn result(call: Call, result: &Elements, comm: Handle, state: &mut State) -> Plan {
    plain(call, comm, None, result, state)
}

/// `MPI_Exscan`: the first process gets nothing.
pub fn exscan(call: Call, result: &Elements, comm: Handle, state: &mut State) -> Plan {
    match Group::of(state, comm).rank {
        0 => nothing(call, comm, None, result, state),
        _ => plain(call, comm, None, result, state),
    }
}

/// `MPI_Reduce_scatter`: a count for each process of the own group.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn reduce_scatter(
    call: Call,
    buf: Ptr,
    counts: Counts,
    datatype: Handle,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let rank = usize::try_from(Group::of(state, comm).rank).unwrap_or(0);
    // SAFETY: by the caller's promise.
    let count = unsafe { counts.get(rank) };
    plain(call, comm, None, &Elements { buf, count, datatype }, state)
}
