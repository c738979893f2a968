//! Collective calls, blocking and non-blocking, with counts of either width.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::calls::collective;
use crate::calls::plan::{self, Elements, From, ProcessBlocks};
use crate::pmpi::{Aint, HandleWord, Ptr};

/// The types of counts in the functions that have `int`.
pub mod narrow {
    use super::*;

    /// A count.
    pub type ElementCount = c_int;
    /// A count for each process.
    pub type CountList = *const c_int;
    /// A displacement for each process.
    pub type PlaceList = *const c_int;
}

/// The types of counts in the functions that have `MPI_Count`.
pub mod wide {
    use super::*;

    /// A count.
    pub type ElementCount = i64;
    /// A count for each process.
    pub type CountList = *const i64;
    /// A displacement for each process.
    pub type PlaceList = *const Aint;
}

/// Defines collective calls, each in its four forms, by the kinds of its arguments before the communicator
/// and the function of `plan`, which gets those arguments that determine what is compared and where the call
/// receives.
macro_rules! collectives {
    ($($name:ident $begin:ident $wide:ident $begin_wide:ident: $plan:ident($($kind:ident)*);)*) => {
        $(
            collectives! { @width narrow $name $begin $plan $($kind)* }
            collectives! { @width wide $wide $begin_wide $plan $($kind)* }
        )*
    };
    (@width $width:ident $name:ident $begin:ident $plan:ident $($kind:ident)*) => {
        pub use $name::{$name, $begin};
        #[doc = concat!("`", stringify!($name), "` and `", stringify!($begin), "`.")]
        pub mod $name {
            #[allow(unused_imports)] // Not all have all types.
            use super::{$width::{ElementCount, CountList, PlaceList}, *};

            arguments! { [$name $begin $plan] [] [] $($kind)* }
        }
    };
}

/// Collects the arguments of a collective call, and those that its plan gets. Some plans are safe functions,
/// which the macro `exports` allows for.
macro_rules! arguments {
    // One count and type.
    ($of:tt [$($args:tt)*] [$($plan:tt)*] data $($kind:ident)*) => { arguments! {
        $of [$($args)* buf: Ptr, count: ElementCount, datatype: HandleWord,]
        [$($plan)* &Elements::new(buf, count, datatype),] $($kind)*
    } };
    ($of:tt [$($args:tt)*] [$($plan:tt)*] sent $($kind:ident)*) => { arguments! {
        $of [$($args)* sendbuf: Ptr, sendcount: ElementCount, sendtype: HandleWord,]
        [$($plan)* &Elements::new(sendbuf, sendcount, sendtype),] $($kind)*
    } };
    ($of:tt [$($args:tt)*] [$($plan:tt)*] received $($kind:ident)*) => { arguments! {
        $of [$($args)* recvbuf: Ptr, recvcount: ElementCount, recvtype: HandleWord,]
        [$($plan)* &Elements::new(recvbuf, recvcount, recvtype),] $($kind)*
    } };
    // A count and a displacement for each process.
    ($of:tt [$($args:tt)*] [$($plan:tt)*] received_v $($kind:ident)*) => { arguments! {
        $of [
            $($args)* recvbuf: Ptr, recvcounts: CountList, recvplaces: PlaceList, recvtype: HandleWord,
        ]
        [$($plan)* &ProcessBlocks::new(recvbuf, recvcounts, recvplaces, recvtype),] $($kind)*
    } };
    // A count, a displacement in bytes and a type for each process.
    ($of:tt [$($args:tt)*] [$($plan:tt)*] received_w($places:ty) $($kind:ident)*) => { arguments! {
        $of [$($args)* recvbuf: Ptr, recvcounts: CountList, recvplaces: $places, recvtypes: Ptr,]
        [$($plan)* recvbuf, recvcounts.into(), recvplaces.into(), recvtypes,] $($kind)*
    } };
    ($of:tt $args:tt $plan:tt received_w $($kind:ident)*) => {
        arguments! { $of $args $plan received_w(PlaceList) $($kind)* }
    };
    ($of:tt $args:tt $plan:tt received_w_far $($kind:ident)*) => {
        arguments! { $of $args $plan received_w(*const Aint) $($kind)* }
    };
    // Send arguments that do not matter for what is received, and are not compared.
    ($of:tt [$($args:tt)*] $plan:tt unseen $($kind:ident)*) => { arguments! {
        $of [$($args)* sendbuf: Ptr, sendcount: ElementCount, sendtype: HandleWord,] $plan $($kind)*
    } };
    ($of:tt [$($args:tt)*] $plan:tt unseen_v $($kind:ident)*) => { arguments! {
        $of [
            $($args)* sendbuf: Ptr, sendcounts: CountList, sendplaces: PlaceList, sendtype: HandleWord,
        ]
        $plan $($kind)*
    } };
    ($of:tt [$($args:tt)*] $plan:tt unseen_w $($kind:ident)*) => { arguments! {
        $of [$($args)* sendbuf: Ptr, sendcounts: CountList, sendplaces: Ptr, sendtypes: Ptr,]
        $plan $($kind)*
    } };
    // The elements of a reduction.
    ($of:tt [$($args:tt)*] [$($plan:tt)*] reduced $($kind:ident)*) => { arguments! {
        $of [
            $($args)* sendbuf: Ptr, recvbuf: Ptr, count: ElementCount, datatype: HandleWord,
            op: HandleWord,
        ]
        [$($plan)* &Elements::new(sendbuf, count, datatype), &Elements::new(recvbuf, count, datatype),]
        $($kind)*
    } };
    ($of:tt [$($args:tt)*] [$($plan:tt)*] reduced_v $($kind:ident)*) => { arguments! {
        $of [
            $($args)* sendbuf: Ptr, recvbuf: Ptr, counts: CountList, datatype: HandleWord, op: HandleWord,
        ]
        [$($plan)* recvbuf, counts.into(), datatype,] $($kind)*
    } };
    ($of:tt [$($args:tt)*] [$($plan:tt)*] root $($kind:ident)*) => { arguments! {
        $of [$($args)* root: c_int,] [$($plan)* root,] $($kind)*
    } };
    // No argument: the processes that something is received from.
    ($of:tt $args:tt [$($plan:tt)*] all $($kind:ident)*) => {
        arguments! { $of $args [$($plan)* From::All,] $($kind)* }
    };
    ($of:tt $args:tt [$($plan:tt)*] neighbors $($kind:ident)*) => {
        arguments! { $of $args [$($plan)* From::Neighbors,] $($kind)* }
    };
    ([$name:ident $begin:ident $plan:ident] [$($arg:ident: $type:ty,)*] [$($planned:expr,)*]) => {
        exports! {
            fn $name($($arg: $type,)* comm: HandleWord) |at, call, real| {
                // SAFETY: the application's own arguments, read before this call returns. MPI requires arrays
                // with a count, a displacement and a type for each process that the plan reads.
                let plan = |state: &mut _| unsafe {
                    plan::$plan(call, $($planned,)* comm, state)
                };
                collective::run(at, comm, plan, real)
            };
            fn $begin($($arg: $type,)* comm: HandleWord, request: Ptr) |at, call, real| {
                // SAFETY: the application's own arguments, read before this call returns. MPI requires arrays
                // with a count, a displacement and a type for each process that the plan reads.
                let plan = |state: &mut _| unsafe {
                    plan::$plan(call, $($planned,)* comm, state)
                };
                collective::begin(at, plan, request, real)
            };
        }
    };
}

arguments! { [MPI_Barrier MPI_Ibarrier barrier] [] [] }

collectives! {
    MPI_Bcast MPI_Ibcast MPI_Bcast_c MPI_Ibcast_c: bcast(data root);
    MPI_Gather MPI_Igather MPI_Gather_c MPI_Igather_c: gather(sent received root);
    MPI_Gatherv MPI_Igatherv MPI_Gatherv_c MPI_Igatherv_c: gatherv(sent received_v root);
    MPI_Scatter MPI_Iscatter MPI_Scatter_c MPI_Iscatter_c: scatter(sent received root);
    MPI_Scatterv MPI_Iscatterv MPI_Scatterv_c MPI_Iscatterv_c: scatterv(unseen_v received root);

    MPI_Allgather MPI_Iallgather MPI_Allgather_c MPI_Iallgather_c: allgather(sent received all);
    MPI_Allgatherv MPI_Iallgatherv MPI_Allgatherv_c MPI_Iallgatherv_c:
        allgatherv(sent received_v all);
    MPI_Alltoall MPI_Ialltoall MPI_Alltoall_c MPI_Ialltoall_c: alltoall(sent received all);
    MPI_Alltoallv MPI_Ialltoallv MPI_Alltoallv_c MPI_Ialltoallv_c: each_v(unseen_v received_v all);
    MPI_Alltoallw MPI_Ialltoallw MPI_Alltoallw_c MPI_Ialltoallw_c: each_w(unseen_w received_w all);

    MPI_Reduce MPI_Ireduce MPI_Reduce_c MPI_Ireduce_c: reduce(reduced root);
    MPI_Allreduce MPI_Iallreduce MPI_Allreduce_c MPI_Iallreduce_c: result(reduced);
    MPI_Scan MPI_Iscan MPI_Scan_c MPI_Iscan_c: result(reduced);
    MPI_Exscan MPI_Iexscan MPI_Exscan_c MPI_Iexscan_c: exscan(reduced);
    MPI_Reduce_scatter_block MPI_Ireduce_scatter_block
        MPI_Reduce_scatter_block_c MPI_Ireduce_scatter_block_c: result_block(reduced);
    MPI_Reduce_scatter MPI_Ireduce_scatter MPI_Reduce_scatter_c MPI_Ireduce_scatter_c:
        reduce_scatter(reduced_v);

    MPI_Neighbor_allgather MPI_Ineighbor_allgather
        MPI_Neighbor_allgather_c MPI_Ineighbor_allgather_c: allgather(sent received neighbors);
    MPI_Neighbor_allgatherv MPI_Ineighbor_allgatherv
        MPI_Neighbor_allgatherv_c MPI_Ineighbor_allgatherv_c: allgatherv(sent received_v neighbors);
    MPI_Neighbor_alltoall MPI_Ineighbor_alltoall
        MPI_Neighbor_alltoall_c MPI_Ineighbor_alltoall_c: each(unseen received neighbors);
    MPI_Neighbor_alltoallv MPI_Ineighbor_alltoallv
        MPI_Neighbor_alltoallv_c MPI_Ineighbor_alltoallv_c: each_v(unseen_v received_v neighbors);
    MPI_Neighbor_alltoallw MPI_Ineighbor_alltoallw
        MPI_Neighbor_alltoallw_c MPI_Ineighbor_alltoallw_c:
        each_w(unseen_w received_w_far neighbors);
}
