//! Collective calls: what this process receives of each is logged, and only where the call says so.

use std::ffi::c_int;

use super::again::Counted;
use super::{with, SUCCESS};
use crate::log::{Call, Shape};
use crate::mpi::Mpi;
use crate::parts::Source;
use crate::pmpi::{self, Aint, Handle, Ptr};
use crate::state::State;
use crate::target::{Block, Target};

/// A call, as it is compared, and where it receives.
#[derive(Debug)]
pub struct Plan {
    shape: Shape,
    target: Target,
}

/// A blocking call.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn run(plan: impl FnOnce(&mut State) -> Plan, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let Plan { shape, target } = plan(state);
        let group = match state.source() {
            Source::Mpi => state.collects(shape.comm),
            Source::Log => None,
        };
        // SAFETY: by the caller's promise.
        let code = unsafe { state.receiving(shape, &target, None, None, |_| real()) };
        state.has_collected(group);
        code
    })
}

/// A blocking call outside parts: it is counted.
pub fn run_outside(comm: Handle, real: impl FnOnce() -> c_int) -> c_int {
    with(|state| {
        let group = state.collects(comm);
        let code = real();
        state.has_collected(group);
        code
    })
}

/// A non-blocking call.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn begin(
    plan: impl FnOnce(&mut State) -> Plan,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let Plan { shape, target } = plan(state);
        let group = match state.source() {
            Source::Mpi => state.collects(shape.comm),
            Source::Log => None,
        };
        let counted = group.map_or(Counted::Nothing, Counted::Collective);
        // SAFETY: by the caller's promise.
        unsafe { state.starting(shape, target, false, counted, request, real) }
    })
}

/// A non-blocking call outside parts: it may be waited for inside one.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn begin_outside(
    plan: impl FnOnce(&mut State) -> Plan,
    request: Ptr,
    real: impl FnOnce() -> c_int,
) -> c_int {
    with(|state| {
        let Plan { shape, target } = plan(state);
        let group = state.collects(shape.comm);
        let code = real();
        if code == SUCCESS {
            let counted = group.map_or(Counted::Nothing, Counted::Collective);
            // SAFETY: by the caller's promise, MPI has written a handle there.
            unsafe { state.begun(shape, target, false, counted, 0, request) };
        }
        code
    })
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

impl From<*const c_int> for Counts {
    fn from(counts: *const c_int) -> Counts {
        Counts::Narrow(counts)
    }
}

impl From<*const i64> for Counts {
    fn from(counts: *const i64) -> Counts {
        Counts::Wide(counts)
    }
}

impl From<*const Aint> for Counts {
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

/// `MPI_Allgather` and `MPI_Alltoall`: as many elements of each process.
pub fn of_all(call: Call, received: &Elements, comm: Handle, state: &mut State) -> Plan {
    let peers = Group::of(state, comm).peers as i64;
    let all = Elements { count: received.count * peers, ..*received };
    plain(call, comm, None, &all, state)
}

/// `MPI_Allgatherv` and `MPI_Alltoallv`.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn of_allv(call: Call, received: &Blocks, comm: Handle, state: &mut State) -> Plan {
    let peers = Group::of(state, comm).peers;
    // SAFETY: by the caller's promise, a count and a place for each process.
    unsafe { blocks(call, comm, None, received, peers, state) }
}

/// `MPI_Alltoallw`: each block has a type of its own, and places are in bytes.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn of_allw(
    call: Call,
    buf: Ptr,
    counts: Counts,
    places: Counts,
    types: Ptr,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let peers = Group::of(state, comm).peers;
    // SAFETY: by the caller's promise, a count, a place and a type for each process.
    unsafe { blocksw(call, buf, counts, places, types, comm, peers, state) }
}

/// # Safety
/// There are as many counts, places and types.
#[allow(clippy::too_many_arguments)] // As MPI has it.
unsafe fn blocksw(
    call: Call,
    buf: Ptr,
    counts: Counts,
    places: Counts,
    types: Ptr,
    comm: Handle,
    peers: usize,
    state: &mut State,
) -> Plan {
    let mut all = Vec::new();
    let mut total = 0;
    for n in 0..peers {
        // SAFETY: by the caller's promise.
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

/// `MPI_Neighbor_allgather` and `MPI_Neighbor_alltoall`.
pub fn of_neighbors(call: Call, received: &Elements, comm: Handle, state: &mut State) -> Plan {
    let sources = Group::of(state, comm).sources() as i64;
    let all = Elements { count: received.count * sources, ..*received };
    plain(call, comm, None, &all, state)
}

/// `MPI_Neighbor_allgatherv` and `MPI_Neighbor_alltoallv`.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn of_neighborsv(
    call: Call,
    received: &Blocks,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let sources = Group::of(state, comm).sources();
    // SAFETY: by the caller's promise, a count and a place for each neighbour.
    unsafe { blocks(call, comm, None, received, sources, state) }
}

/// `MPI_Neighbor_alltoallw`.
///
/// # Safety
/// As MPI says of the call.
pub unsafe fn of_neighborsw(
    call: Call,
    buf: Ptr,
    counts: Counts,
    places: Counts,
    types: Ptr,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let sources = Group::of(state, comm).sources();
    // SAFETY: by the caller's promise, a count, a place and a type for each neighbour.
    unsafe { blocksw(call, buf, counts, places, types, comm, sources, state) }
}
