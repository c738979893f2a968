//! Making and freeing communicators, and freeing types.

#![allow(non_snake_case)] // As MPI names them.

use crate::inside::objects;
use crate::pmpi::{Handle, Ptr};

/// Defines functions that make a communicator, the last argument, out of the first. The others are
/// passed on as they are, in registers or slots as wide as a pointer.
macro_rules! makes_communicators {
    ($($name:ident($($arg:ident)*);)*) => {
        exports! { $(
            fn $name(comm: Handle, $($arg: usize,)* made: Ptr) |at, call, real| {
                objects::make_comm(at, call, comm, made, real)
            };
        )* }
    };
}

makes_communicators! {
    MPI_Comm_dup();
    MPI_Comm_dup_with_info(info);
    MPI_Comm_split(color key);
    MPI_Comm_split_type(split_type key info);
    MPI_Comm_create(group);
    MPI_Comm_create_group(group tag);
    MPI_Intercomm_create(local_leader peer_comm remote_leader tag);
    MPI_Intercomm_merge(high);
    MPI_Cart_create(ndims dims periods reorder);
    MPI_Cart_sub(remain_dims);
    MPI_Graph_create(nnodes index edges reorder);
    MPI_Dist_graph_create(n sources degrees destinations weights info reorder);
    MPI_Dist_graph_create_adjacent(
        indegree sources sourceweights outdegree destinations destweights info reorder
    );
}

exports! {
    fn MPI_Comm_set_info(comm: Handle, info: Handle)
        inside |call, real| objects::set(call, comm, real);
    fn MPI_Comm_free(comm: Ptr) |at, call, real| objects::free_comm(at, call, comm, real);
    fn MPI_Comm_disconnect(comm: Ptr) |at, call, real| objects::free_comm(at, call, comm, real);
    fn MPI_Type_free(datatype: Ptr) |_at, _call, real| objects::free_type(datatype, real);
}
