//! The shape of each collective call, which a replay compares, and where this process receives.
//!
//! | file | owns |
//! | --- | --- |
//! | `data` | what such calls send and receive |
//! | `group` | the processes of a communicator |

mod data;
mod group;

use std::ffi::c_int;

use message_log_core::log::{Call, Shape};
use message_log_core::target::{Block, Target};

use crate::pmpi::{Handle, Ptr};
use crate::state::State;

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

impl Plan {
    /// The same, with the hash of what this process sends beside, if that is compared.
    ///
    /// # Safety
    /// The elements are those that the application passed to be sent, or in place of which others are.
    unsafe fn sending(mut self, sent: &Elements, state: &mut State) -> Plan {
        let Elements { buf, count, datatype } = *sent;
        if buf as usize != state.mpi.numbers.in_place {
            let datatype = state.mpi.abi.truncate(datatype);
            let sent = Target::Plain { buf: buf as usize, count, datatype };
            // SAFETY: by the caller's promise.
            self.shape.sum = unsafe { state.sum_of_sent(self.shape.peer, &sent) };
        }
        self
    }
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
    let size = state.objects.types.get(datatype).size;
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
    let datatype = state.objects.types.get(handle);
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
///
/// # Safety
/// The requirements of the MPI call, here and below.
pub(crate) unsafe fn bcast(
    call: Call,
    data: &Elements,
    root: c_int,
    comm: Handle,
    state: &mut State,
) -> Plan {
    match Group::of(state, comm).gets_from(root) {
        true => plain(call, comm, Some(root), data, state),
        // SAFETY: the root sends it, or this process takes no part.
        false => unsafe { nothing(call, comm, Some(root), data, state).sending(data, state) },
    }
}

/// `MPI_Gather`.
pub(crate) unsafe fn gather(
    call: Call,
    sent: &Elements,
    received: &Elements,
    root: c_int,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let group = Group::of(state, comm);
    let plan = match group.is_root(root) {
        false => nothing(call, comm, Some(root), sent, state),
        true => {
            let all = Elements { count: received.count * group.peers as i64, ..*received };
            plain(call, comm, Some(root), &all, state)
        }
    };
    // SAFETY: by the caller's promise.
    unsafe { gathered(plan, sent, root, &group, state) }
}

/// What is gathered, with what this process sends to that: the root of another group sends nothing.
///
/// # Safety
/// As for [`Plan::sending`].
unsafe fn gathered(
    plan: Plan,
    sent: &Elements,
    root: c_int,
    group: &Group,
    state: &mut State,
) -> Plan {
    match group.is_inter && group.is_root(root) {
        true => plan,
        // SAFETY: by the caller's promise.
        false => unsafe { plan.sending(sent, state) },
    }
}

/// `MPI_Gatherv`.
pub(crate) unsafe fn gatherv(
    call: Call,
    sent: &Elements,
    received: &Blocks,
    root: c_int,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let group = Group::of(state, comm);
    let plan = match group.is_root(root) {
        false => nothing(call, comm, Some(root), sent, state),
        // SAFETY: the root passes a count and a displacement for each process.
        true => unsafe { blocks(call, comm, Some(root), received, group.peers, state) },
    };
    // SAFETY: by the caller's promise.
    unsafe { gathered(plan, sent, root, &group, state) }
}

/// `MPI_Scatter`.
pub(crate) unsafe fn scatter(
    call: Call,
    sent: &Elements,
    received: &Elements,
    root: c_int,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let group = Group::of(state, comm);
    let plan = scatterv(call, received, root, comm, state);
    match group.is_root(root) {
        false => plan,
        true => {
            let all = Elements { count: sent.count * group.peers as i64, ..*sent };
            // SAFETY: by the caller's promise.
            unsafe { plan.sending(&all, state) }
        }
    }
}

/// `MPI_Scatterv`.
pub(crate) fn scatterv(
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

/// `MPI_Allgather`, and its neighbourhood variant.
pub(crate) unsafe fn allgather(
    call: Call,
    sent: &Elements,
    received: &Elements,
    from: From,
    comm: Handle,
    state: &mut State,
) -> Plan {
    // SAFETY: by the caller's promise.
    unsafe { each(call, received, from, comm, state).sending(sent, state) }
}

/// `MPI_Alltoall`: elements for each process.
pub(crate) unsafe fn alltoall(
    call: Call,
    sent: &Elements,
    received: &Elements,
    from: From,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let peers = Group::of(state, comm).peers as i64;
    let all = Elements { count: sent.count * peers, ..*sent };
    // SAFETY: by the caller's promise.
    unsafe { each(call, received, from, comm, state).sending(&all, state) }
}

/// `MPI_Allgatherv`, and its neighbourhood variant.
pub(crate) unsafe fn allgatherv(
    call: Call,
    sent: &Elements,
    received: &Blocks,
    from: From,
    comm: Handle,
    state: &mut State,
) -> Plan {
    // SAFETY: by the caller's promise.
    unsafe { each_v(call, received, from, comm, state).sending(sent, state) }
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
        let datatype = state.objects.types.get(handle);
        let buf = (buf as usize).wrapping_add_signed(place as isize);
        all.push(Block { buf, count, datatype });
    }
    let comm = state.mpi.abi.truncate(comm);
    let shape = Shape { comm, count: total, ..Shape::new(call) };
    Plan { shape, target: Target::Many(all.into()) }
}

/// What this process adds to a reduction: in place, it is where the result comes.
fn added<'a>(sent: &'a Elements, result: &'a Elements, state: &State) -> &'a Elements {
    match sent.buf as usize == state.mpi.numbers.in_place {
        true => result,
        false => sent,
    }
}

/// `MPI_Reduce`; `data` is the receive buffer.
pub(crate) unsafe fn reduce(
    call: Call,
    sent: &Elements,
    data: &Elements,
    root: c_int,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let group = Group::of(state, comm);
    let plan = match group.is_root(root) {
        true => plain(call, comm, Some(root), data, state),
        false => nothing(call, comm, Some(root), data, state),
    };
    // SAFETY: by the caller's promise.
    unsafe { gathered(plan, added(sent, data, state), root, &group, state) }
}

/// `MPI_Allreduce` and `MPI_Scan`.
pub(crate) unsafe fn result(
    call: Call,
    sent: &Elements,
    result: &Elements,
    comm: Handle,
    state: &mut State,
) -> Plan {
    // SAFETY: by the caller's promise.
    unsafe { plain(call, comm, None, result, state).sending(added(sent, result, state), state) }
}

/// `MPI_Reduce_scatter_block`.
pub(crate) fn result_block(
    call: Call,
    _: &Elements,
    result: &Elements,
    comm: Handle,
    state: &mut State,
) -> Plan {
    plain(call, comm, None, result, state)
}

/// `MPI_Exscan`: the first process receives nothing.
pub(crate) unsafe fn exscan(
    call: Call,
    sent: &Elements,
    result: &Elements,
    comm: Handle,
    state: &mut State,
) -> Plan {
    let plan = match Group::of(state, comm).rank {
        0 => nothing(call, comm, None, result, state),
        _ => plain(call, comm, None, result, state),
    };
    // SAFETY: by the caller's promise.
    unsafe { plan.sending(added(sent, result, state), state) }
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
