//! The shape of each collective call, which a replay compares, and where this process receives.
//!
//! | file | owns |
//! | --- | --- |
//! | `data` | what such calls send and receive |
//! | `group` | the processes of a communicator |

mod data;
mod group;

use std::ffi::c_int;

use message_log_core::log::{Call, CallShape};
use message_log_core::target::{CallTarget, ElementBlock};

use crate::pmpi::{HandleWord, Ptr};
use crate::state::LogState;

pub(crate) use data::{Elements, ProcessBlocks, ProcessCounts};
use group::CommunicatorProcesses;
pub(crate) use group::From;

/// A collective call's shape, and where this process receives.
#[derive(Debug)]
pub(crate) struct CollectivePlan {
    /// The shape that a replay compares.
    pub shape: CallShape,
    /// Where it receives.
    pub target: CallTarget,
}

impl CollectivePlan {
    /// The same, with the hash of what this process sends beside, if that is compared.
    ///
    /// # Safety
    /// The elements are those that the application passed to be sent, or in place of which others are.
    unsafe fn sending(mut self, sent: &Elements, state: &mut LogState) -> CollectivePlan {
        let Elements { buf, count, datatype } = *sent;
        if buf as usize != state.mpi.numbers.in_place {
            let datatype = state.mpi.abi.truncate(datatype);
            let sent = CallTarget::Plain { buf: buf as usize, count, datatype };
            // SAFETY: by the caller's promise.
            self.shape.sum = unsafe { state.sum_of_sent(self.shape.peer, &sent) };
        }
        self
    }
}

/// A target of elements of one count and type.
fn elements(
    call: Call,
    comm: HandleWord,
    peer: Option<c_int>,
    part: &Elements,
    state: &mut LogState,
) -> CallShape {
    let datatype = state.mpi.abi.truncate(part.datatype);
    let comm = state.mpi.abi.truncate(comm);
    let size = state.objects.types.get(datatype).size;
    CallShape { comm, peer, count: part.count, size, ..CallShape::new(call) }
}

/// A call in which this process receives nothing. If it takes no part at all, its count and type may be
/// anything.
fn nothing(
    call: Call,
    comm: HandleWord,
    peer: Option<c_int>,
    sent: &Elements,
    state: &mut LogState,
) -> CollectivePlan {
    let shape = match peer == Some(state.mpi.numbers.proc_null) {
        true => CallShape { peer, ..barrier(call, comm, state).shape },
        false => elements(call, comm, peer, sent, state),
    };
    CollectivePlan { shape, target: CallTarget::Nothing }
}

/// A call in which this process receives elements.
fn plain(
    call: Call,
    comm: HandleWord,
    peer: Option<c_int>,
    received: &Elements,
    state: &mut LogState,
) -> CollectivePlan {
    let shape = elements(call, comm, peer, received, state);
    let target = CallTarget::Plain {
        buf: received.buf as usize,
        count: received.count,
        datatype: state.mpi.abi.truncate(received.datatype),
    };
    CollectivePlan { shape, target }
}

/// A call in which this process receives blocks, one from each of `peers` processes.
///
/// # Safety
/// There are `peers` counts and displacements.
unsafe fn blocks(
    call: Call,
    comm: HandleWord,
    peer: Option<c_int>,
    received: &ProcessBlocks,
    peers: usize,
    state: &mut LogState,
) -> CollectivePlan {
    let handle = state.mpi.abi.truncate(received.datatype);
    let datatype = state.objects.types.get(handle);
    let mut all: Vec<ElementBlock> = Vec::new();
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
            _ => all.push(ElementBlock {
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
    let shape = CallShape { comm, peer, count: total, size: datatype.size, ..CallShape::new(call) };
    CollectivePlan { shape, target: CallTarget::Many(all.into()) }
}

/// `MPI_Barrier`.
pub(crate) fn barrier(call: Call, comm: HandleWord, state: &mut LogState) -> CollectivePlan {
    let comm = state.mpi.abi.truncate(comm);
    CollectivePlan {
        shape: CallShape { comm, ..CallShape::new(call) },
        target: CallTarget::Nothing,
    }
}

/// `MPI_Bcast`.
///
/// # Safety
/// The requirements of the MPI call, here and below.
pub(crate) unsafe fn bcast(
    call: Call,
    data: &Elements,
    root: c_int,
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    match CommunicatorProcesses::of(state, comm).gets_from(root) {
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
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    let group = CommunicatorProcesses::of(state, comm);
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
/// As for [`CollectivePlan::sending`].
unsafe fn gathered(
    plan: CollectivePlan,
    sent: &Elements,
    root: c_int,
    group: &CommunicatorProcesses,
    state: &mut LogState,
) -> CollectivePlan {
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
    received: &ProcessBlocks,
    root: c_int,
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    let group = CommunicatorProcesses::of(state, comm);
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
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    let group = CommunicatorProcesses::of(state, comm);
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
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    let group = CommunicatorProcesses::of(state, comm);
    let in_place = received.buf as usize == state.mpi.numbers.in_place;
    let gets = group.gets_from(root) || !group.is_inter && !in_place;
    if gets {
        return plain(call, comm, Some(root), received, state);
    }
    // The count and the type are ignored at this process.
    CollectivePlan {
        shape: CallShape { peer: Some(root), ..barrier(call, comm, state).shape },
        target: CallTarget::Nothing,
    }
}

/// `MPI_Allgather`, and its neighbourhood variant.
pub(crate) unsafe fn allgather(
    call: Call,
    sent: &Elements,
    received: &Elements,
    from: From,
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    // SAFETY: by the caller's promise.
    unsafe { each(call, received, from, comm, state).sending(sent, state) }
}

/// `MPI_Alltoall`: elements for each process.
pub(crate) unsafe fn alltoall(
    call: Call,
    sent: &Elements,
    received: &Elements,
    from: From,
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    let peers = CommunicatorProcesses::of(state, comm).peers as i64;
    let all = Elements { count: sent.count * peers, ..*sent };
    // SAFETY: by the caller's promise.
    unsafe { each(call, received, from, comm, state).sending(&all, state) }
}

/// `MPI_Allgatherv`, and its neighbourhood variant.
pub(crate) unsafe fn allgatherv(
    call: Call,
    sent: &Elements,
    received: &ProcessBlocks,
    from: From,
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    // SAFETY: by the caller's promise.
    unsafe { each_v(call, received, from, comm, state).sending(sent, state) }
}

/// Receives the same number of elements from each process: `MPI_Allgather`, `MPI_Alltoall`, and
/// their neighbourhood variants.
pub(crate) fn each(
    call: Call,
    received: &Elements,
    from: From,
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    let peers = CommunicatorProcesses::of(state, comm).number(from) as i64;
    let all = Elements { count: received.count * peers, ..*received };
    plain(call, comm, None, &all, state)
}

/// A block from each process: `MPI_Allgatherv`, `MPI_Alltoallv`, and their neighbourhood variants.
///
/// # Safety
/// The requirements of the MPI call.
pub(crate) unsafe fn each_v(
    call: Call,
    received: &ProcessBlocks,
    from: From,
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    let peers = CommunicatorProcesses::of(state, comm).number(from);
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
    counts: ProcessCounts,
    places: ProcessCounts,
    types: Ptr,
    from: From,
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    let peers = CommunicatorProcesses::of(state, comm).number(from);
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
        all.push(ElementBlock { buf, count, datatype });
    }
    let comm = state.mpi.abi.truncate(comm);
    let shape = CallShape { comm, count: total, ..CallShape::new(call) };
    CollectivePlan { shape, target: CallTarget::Many(all.into()) }
}

/// What this process adds to a reduction: in place, it is where the result comes.
fn added<'a>(sent: &'a Elements, result: &'a Elements, state: &LogState) -> &'a Elements {
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
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    let group = CommunicatorProcesses::of(state, comm);
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
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    // SAFETY: by the caller's promise.
    unsafe { plain(call, comm, None, result, state).sending(added(sent, result, state), state) }
}

/// `MPI_Reduce_scatter_block`.
pub(crate) fn result_block(
    call: Call,
    _: &Elements,
    result: &Elements,
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    plain(call, comm, None, result, state)
}

/// `MPI_Exscan`: the first process receives nothing.
pub(crate) unsafe fn exscan(
    call: Call,
    sent: &Elements,
    result: &Elements,
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    let plan = match CommunicatorProcesses::of(state, comm).rank {
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
    counts: ProcessCounts,
    datatype: HandleWord,
    comm: HandleWord,
    state: &mut LogState,
) -> CollectivePlan {
    let rank = usize::try_from(CommunicatorProcesses::of(state, comm).rank).unwrap_or(0);
    // SAFETY: by the caller's promise.
    let count = unsafe { counts.get(rank) };
    plain(call, comm, None, &Elements { buf, count, datatype }, state)
}
