//! Collective calls, blocking and non-blocking, with counts of either width.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::inside::collective::{self, Blocks, Elements};
use crate::pmpi::{Aint, Handle, Ptr};

/// The types of counts in the functions that have `int`.
pub mod narrow {
    use super::*;

    /// A count.
    pub type Count = c_int;
    /// A count for each process.
    pub type Counts = *const c_int;
    /// A place for each process.
    pub type Places = *const c_int;
}

/// The types of counts in the functions that have `MPI_Count`.
pub mod wide {
    use super::*;

    /// A count.
    pub type Count = i64;
    /// A count for each process.
    pub type Counts = *const i64;
    /// A place for each process.
    pub type Places = *const Aint;
}

/// Defines a collective call in its four forms. `|call, state| ...` says what is compared and where
/// it receives.
macro_rules! collective {
    (
        $name:ident $begin:ident $wide:ident $begin_wide:ident
        ($($arg:ident: $type:ty),* $(,)?) |$call:ident, $state:ident| $plan:expr
    ) => {
        collective! { @form $name $begin narrow ($($arg: $type),*) |$call, $state| $plan }
        collective! { @form $wide $begin_wide wide ($($arg: $type),*) |$call, $state| $plan }
    };
    (
        @form $name:ident $begin:ident $width:ident
        ($($arg:ident: $type:ty),*) |$call:ident, $state:ident| $plan:expr
    ) => {
        pub use $name::{$name, $begin};
        #[doc = concat!("`", stringify!($name), "` and `", stringify!($begin), "`.")]
        pub mod $name {
            #[allow(unused_imports)] // Not all have all types.
            use super::{$width::{Count, Counts, Places}, *};

            exports! {
                fn $name($($arg: $type),*)
                    // SAFETY: the application's own arguments, here and below.
                    inside |$call, real| collective::run(|$state| unsafe { $plan }, real);

                fn $begin($($arg: $type,)* request: Ptr)
                    outside |$call, real| {
                        // SAFETY: as above.
                        collective::begin_outside(|$state| unsafe { $plan }, request, real)
                    },
                    inside |$call, real| {
                        // SAFETY: as above.
                        collective::begin(|$state| unsafe { $plan }, request, real)
                    };
            }
        }
    };
}

exports! {
    fn MPI_Barrier(comm: Handle)
        inside |call, real| collective::run(|state| collective::barrier(call, comm, state), real);

    fn MPI_Ibarrier(comm: Handle, request: Ptr)
        outside |call, real| collective::begin_outside(
            |state| collective::barrier(call, comm, state),
            request,
            real,
        ),
        inside |call, real| collective::begin(
            |state| collective::barrier(call, comm, state),
            request,
            real,
        );
}

collective! { MPI_Bcast MPI_Ibcast MPI_Bcast_c MPI_Ibcast_c (
    buf: Ptr,
    count: Count,
    datatype: Handle,
    root: c_int,
    comm: Handle,
) |call, state| collective::bcast(
    call,
    &Elements::new(buf, count, datatype),
    root,
    comm,
    state,
) }

collective! { MPI_Gather MPI_Igather MPI_Gather_c MPI_Igather_c (
    sendbuf: Ptr,
    sendcount: Count,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcount: Count,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) |call, state| collective::gather(
    call,
    &Elements::new(sendbuf, sendcount, sendtype),
    &Elements::new(recvbuf, recvcount, recvtype),
    root,
    comm,
    state,
) }

collective! { MPI_Gatherv MPI_Igatherv MPI_Gatherv_c MPI_Igatherv_c (
    sendbuf: Ptr,
    sendcount: Count,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcounts: Counts,
    recvplaces: Places,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) |call, state| collective::gatherv(
    call,
    &Elements::new(sendbuf, sendcount, sendtype),
    &Blocks {
        buf: recvbuf,
        counts: recvcounts.into(),
        places: recvplaces.into(),
        datatype: recvtype,
    },
    root,
    comm,
    state,
) }

collective! { MPI_Scatter MPI_Iscatter MPI_Scatter_c MPI_Iscatter_c (
    sendbuf: Ptr,
    sendcount: Count,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcount: Count,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) |call, state| collective::scatter(
    call,
    &Elements::new(recvbuf, recvcount, recvtype),
    root,
    comm,
    state,
) }

collective! { MPI_Scatterv MPI_Iscatterv MPI_Scatterv_c MPI_Iscatterv_c (
    sendbuf: Ptr,
    sendcounts: Counts,
    sendplaces: Places,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcount: Count,
    recvtype: Handle,
    root: c_int,
    comm: Handle,
) |call, state| collective::scatter(
    call,
    &Elements::new(recvbuf, recvcount, recvtype),
    root,
    comm,
    state,
) }

collective! { MPI_Allgather MPI_Iallgather MPI_Allgather_c MPI_Iallgather_c (
    sendbuf: Ptr,
    sendcount: Count,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcount: Count,
    recvtype: Handle,
    comm: Handle,
) |call, state| collective::of_all(
    call,
    &Elements::new(recvbuf, recvcount, recvtype),
    comm,
    state,
) }

collective! { MPI_Allgatherv MPI_Iallgatherv MPI_Allgatherv_c MPI_Iallgatherv_c (
    sendbuf: Ptr,
    sendcount: Count,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcounts: Counts,
    recvplaces: Places,
    recvtype: Handle,
    comm: Handle,
) |call, state| collective::of_allv(
    call,
    &Blocks {
        buf: recvbuf,
        counts: recvcounts.into(),
        places: recvplaces.into(),
        datatype: recvtype,
    },
    comm,
    state,
) }

collective! { MPI_Alltoall MPI_Ialltoall MPI_Alltoall_c MPI_Ialltoall_c (
    sendbuf: Ptr,
    sendcount: Count,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcount: Count,
    recvtype: Handle,
    comm: Handle,
) |call, state| collective::of_all(
    call,
    &Elements::new(recvbuf, recvcount, recvtype),
    comm,
    state,
) }

collective! { MPI_Alltoallv MPI_Ialltoallv MPI_Alltoallv_c MPI_Ialltoallv_c (
    sendbuf: Ptr,
    sendcounts: Counts,
    sendplaces: Places,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcounts: Counts,
    recvplaces: Places,
    recvtype: Handle,
    comm: Handle,
) |call, state| collective::of_allv(
    call,
    &Blocks {
        buf: recvbuf,
        counts: recvcounts.into(),
        places: recvplaces.into(),
        datatype: recvtype,
    },
    comm,
    state,
) }

collective! { MPI_Alltoallw MPI_Ialltoallw MPI_Alltoallw_c MPI_Ialltoallw_c (
    sendbuf: Ptr,
    sendcounts: Counts,
    sendplaces: Places,
    sendtypes: Ptr,
    recvbuf: Ptr,
    recvcounts: Counts,
    recvplaces: Places,
    recvtypes: Ptr,
    comm: Handle,
) |call, state| collective::of_allw(
    call,
    recvbuf,
    recvcounts.into(),
    recvplaces.into(),
    recvtypes,
    comm,
    state,
) }

collective! { MPI_Reduce MPI_Ireduce MPI_Reduce_c MPI_Ireduce_c (
    sendbuf: Ptr,
    recvbuf: Ptr,
    count: Count,
    datatype: Handle,
    op: Handle,
    root: c_int,
    comm: Handle,
) |call, state| collective::reduce(
    call,
    &Elements::new(recvbuf, count, datatype),
    root,
    comm,
    state,
) }

collective! { MPI_Allreduce MPI_Iallreduce MPI_Allreduce_c MPI_Iallreduce_c (
    sendbuf: Ptr,
    recvbuf: Ptr,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) |call, state| collective::result(
    call,
    &Elements::new(recvbuf, count, datatype),
    comm,
    state,
) }

collective! { MPI_Scan MPI_Iscan MPI_Scan_c MPI_Iscan_c (
    sendbuf: Ptr,
    recvbuf: Ptr,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) |call, state| collective::result(
    call,
    &Elements::new(recvbuf, count, datatype),
    comm,
    state,
) }

collective! { MPI_Exscan MPI_Iexscan MPI_Exscan_c MPI_Iexscan_c (
    sendbuf: Ptr,
    recvbuf: Ptr,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) |call, state| collective::exscan(
    call,
    &Elements::new(recvbuf, count, datatype),
    comm,
    state,
) }

collective! { MPI_Reduce_scatter_block MPI_Ireduce_scatter_block MPI_Reduce_scatter_block_c MPI_Ireduce_scatter_block_c (
    sendbuf: Ptr,
    recvbuf: Ptr,
    count: Count,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) |call, state| collective::result(
    call,
    &Elements::new(recvbuf, count, datatype),
    comm,
    state,
) }

collective! { MPI_Reduce_scatter MPI_Ireduce_scatter MPI_Reduce_scatter_c MPI_Ireduce_scatter_c (
    sendbuf: Ptr,
    recvbuf: Ptr,
    counts: Counts,
    datatype: Handle,
    op: Handle,
    comm: Handle,
) |call, state| collective::reduce_scatter(
    call,
    recvbuf,
    counts.into(),
    datatype,
    comm,
    state,
) }

collective! { MPI_Neighbor_allgather MPI_Ineighbor_allgather MPI_Neighbor_allgather_c MPI_Ineighbor_allgather_c (
    sendbuf: Ptr,
    sendcount: Count,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcount: Count,
    recvtype: Handle,
    comm: Handle,
) |call, state| collective::of_neighbors(
    call,
    &Elements::new(recvbuf, recvcount, recvtype),
    comm,
    state,
) }

collective! { MPI_Neighbor_allgatherv MPI_Ineighbor_allgatherv MPI_Neighbor_allgatherv_c MPI_Ineighbor_allgatherv_c (
    sendbuf: Ptr,
    sendcount: Count,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcounts: Counts,
    recvplaces: Places,
    recvtype: Handle,
    comm: Handle,
) |call, state| collective::of_neighborsv(
    call,
    &Blocks {
        buf: recvbuf,
        counts: recvcounts.into(),
        places: recvplaces.into(),
        datatype: recvtype,
    },
    comm,
    state,
) }

collective! { MPI_Neighbor_alltoall MPI_Ineighbor_alltoall MPI_Neighbor_alltoall_c MPI_Ineighbor_alltoall_c (
    sendbuf: Ptr,
    sendcount: Count,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcount: Count,
    recvtype: Handle,
    comm: Handle,
) |call, state| collective::of_neighbors(
    call,
    &Elements::new(recvbuf, recvcount, recvtype),
    comm,
    state,
) }

collective! { MPI_Neighbor_alltoallv MPI_Ineighbor_alltoallv MPI_Neighbor_alltoallv_c MPI_Ineighbor_alltoallv_c (
    sendbuf: Ptr,
    sendcounts: Counts,
    sendplaces: Places,
    sendtype: Handle,
    recvbuf: Ptr,
    recvcounts: Counts,
    recvplaces: Places,
    recvtype: Handle,
    comm: Handle,
) |call, state| collective::of_neighborsv(
    call,
    &Blocks {
        buf: recvbuf,
        counts: recvcounts.into(),
        places: recvplaces.into(),
        datatype: recvtype,
    },
    comm,
    state,
) }

collective! { MPI_Neighbor_alltoallw MPI_Ineighbor_alltoallw MPI_Neighbor_alltoallw_c MPI_Ineighbor_alltoallw_c (
    sendbuf: Ptr,
    sendcounts: Counts,
    sendplaces: *const Aint,
    sendtypes: Ptr,
    recvbuf: Ptr,
    recvcounts: Counts,
    recvplaces: *const Aint,
    recvtypes: Ptr,
    comm: Handle,
) |call, state| collective::of_neighborsw(
    call,
    recvbuf,
    recvcounts.into(),
    recvplaces.into(),
    recvtypes,
    comm,
    state,
) }
