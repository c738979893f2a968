//! The shape of each collective call, which a replay compares, and where this process receives.
//!
//! | file | owns |
//! | --- | --- |
//! | `data` | what such calls send and receive |
//! | `group` | the processes of a communicator |

mod data;
mod group;

use std::ffi::c_int;

use crate::log::{Call, Shape};
use crate::pmpi::{Handle, Ptr};
use crate::state::State;
use crate::target::{Block, Target};

pub(crate) use data::{Blocks, Counts, Elements};
pub(crate) use group::From;
use group::Group;

/// A collective call's shape, and where this process receives.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The shape that a replay compares.
    pub shape: Shape,
    /// Where it receives.
    pub target: Target,
}

/// A target of elements of one count and type.
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

/// A call in which this process receives nothing. If it takes no part at all, its count and type may be
/// anything.
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

/// A call in which this process receives elements.
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

/// A call in which this process receives blocks, one from each of `peers` processes.
///
/// # Safety
/// There are `peers` counts and displacements.
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
            // Adjacent blocks, the usual case, become one.
            Some(last) if end == Some(place) => last.count += count,
            _ => all.push(Block {
                // Displacements may be negative.
                buf: (received.buf as usize)
                    .wrapping_add_signed((place * datatype.extent) as isize),
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
pub(crate) fn barrier(call: Call, comm: Handle, state: &mut State) -> Plan {
    let comm = state.mpi.abi.truncate(comm);
    Plan { shape: Shape { comm, ..Shape::new(call) }, target: Target::Nothing }
}

/// `MPI_Bcast`.
pub(crate) fn bcast(
    call: Call,
    data: &Elements,
    root: c_int,
    comm: Handle,
    state: &mut State,
) -> Plan {
    match Group::of(state, comm).gets_from(root) {
        true => plain(call, comm, Some(root), data, state),
        false => nothing(call, comm, Some(root), data, state),
    }
}

/// `MPI_Gather`.
pub(crate) fn gather(
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
/// The requirements of the MPI call, here and below.
pub(crate) unsafe fn gatherv(
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
    // SAFETY: the root passes a count and a displacement for each process.
    unsafe { blocks(call, comm, Some(root), received, group.peers, state) }
}

/// `MPI_Scatter` and `MPI_Scatterv`.
pub(crate) fn scatter(
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
    // The count and the type are ignored at this process.
    Plan {
        shape: Shape { peer: Some(root), ..barrier(call, comm, state).shape },
        target: Target::Nothing,
    }
}

/// Receives the same number of elements from each process: `MPI_Allgather`, `MPI_Alltoall`, and
/// their neighbourhood variants.
pub(crate) fn each(
    call: Call,
    received: &Elements,
    from: From,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let peers = Group::of(state, comm).number(from) as i64;
    let all = Elements { count: received.count * peers, ..*received };
    plain(call, comm, None, &all, state)
}

/// A block from each process: `MPI_Allgatherv`, `MPI_Alltoallv`, and their neighbourhood variants.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn each_v(
    call: Call,
    received: &Blocks,
    from: From,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let peers = Group::of(state, comm).number(from);
    // SAFETY: by the caller's promise, a count and a displacement for each process.
    unsafe { blocks(call, comm, None, received, peers, state) }
}

/// A block from each process with its own type, and displacements in bytes: `MPI_Alltoallw`, and its
/// neighbourhood variant.
///
/// # Safety
/// The requirements of the MPI call.
#[allow(clippy::too_many_arguments)] // As MPI has it.
pub(crate) unsafe fn each_w(
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
        // SAFETY: by the caller's promise, a count, a displacement and a type for each process.
        let (count, place, handle) = unsafe {
            (counts.get(n), places.get(n), state.mpi.read_handle(state.mpi.nth_handle(types, n)))
        };
        if count == 0 {
            continue;
        }
        total += count;
        let datatype = state.types.get(handle);
        let buf = (buf as usize).wrapping_add_signed(place as isize);
        all.push(Block { buf, count, datatype });
    }
    let comm = state.mpi.abi.truncate(comm);
    let shape = Shape { comm, count: total, ..Shape::new(call) };
    Plan { shape, target: Target::Many(all.into()) }
}

/// `MPI_Reduce`; `data` is the receive buffer.
pub(crate) fn reduce(
    call: Call,
    data: &Elements,
    root: c_int,
    comm: Handle,
    state: &mut State,
) -> Plan {
    match Group::of(state, comm).is_root(root) {
        true => plain(call, comm, Some(root), data, state),
        false => nothing(call, comm, Some(root), data, state),
    }
}

/// `MPI_Allreduce`, `MPI_Scan` and `MPI_Reduce_scatter_block`.
pub(crate) fn result(call: Call, result: &Elements, comm: Handle, state: &mut State) -> Plan {
    plain(call, comm, None, result, state)
}

/// `MPI_Exscan`: the first process receives nothing.
pub(crate) fn exscan(call: Call, result: &Elements, comm: Handle, state: &mut State) -> Plan {
    match Group::of(state, comm).rank {
        0 => nothing(call, comm, None, result, state),
        _ => plain(call, comm, None, result, state),
    }
}

/// `MPI_Reduce_scatter`: a count for each process of the local group.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn reduce_scatter(
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
