//! Making and freeing communicators, and freeing types.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::inside::objects;
use crate::pmpi::{Handle, Ptr};

exports! {
    fn MPI_Comm_dup(comm: Handle, made: Ptr)
        outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Comm_dup_with_info(comm: Handle, info: Handle, made: Ptr)
        outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Comm_split(comm: Handle, color: c_int, key: c_int, made: Ptr)
        outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Comm_split_type(comm: Handle, kind: c_int, key: c_int, info: Handle, made: Ptr)
        outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Comm_create(comm: Handle, group: Handle, made: Ptr)
        outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Comm_create_group(comm: Handle, group: Handle, tag: c_int, made: Ptr)
        outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Intercomm_create(
        comm: Handle,
        leader: c_int,
        peer_comm: Handle,
        remote_leader: c_int,
        tag: c_int,
        made: Ptr,
    ) outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Intercomm_merge(comm: Handle, high: c_int, made: Ptr)
        outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Cart_create(
        comm: Handle,
        dims: c_int,
        lengths: Ptr,
        periods: Ptr,
        reorder: c_int,
        made: Ptr,
    ) outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Cart_sub(comm: Handle, remain: Ptr, made: Ptr)
        outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Graph_create(
        comm: Handle,
        nodes: c_int,
        index: Ptr,
        edges: Ptr,
        reorder: c_int,
        made: Ptr,
    ) outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Dist_graph_create(
        comm: Handle,
        count: c_int,
        sources: Ptr,
        degrees: Ptr,
        destinations: Ptr,
        weights: Ptr,
        info: Handle,
        reorder: c_int,
        made: Ptr,
    ) outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Dist_graph_create_adjacent(
        comm: Handle,
        indegree: c_int,
        sources: Ptr,
        source_weights: Ptr,
        outdegree: c_int,
        destinations: Ptr,
        destination_weights: Ptr,
        info: Handle,
        reorder: c_int,
        made: Ptr,
    ) outside |_call, real| objects::make_comm_outside(made, real),
        inside |call, real| objects::make_comm(call, comm, made, real);

    fn MPI_Comm_set_info(comm: Handle, info: Handle)
        inside |call, real| objects::set(call, comm, real);

    fn MPI_Comm_free(comm: Ptr)
        outside |_call, real| objects::free_comm_outside(comm, real),
        inside |call, real| objects::free_comm(call, comm, real);

    fn MPI_Comm_disconnect(comm: Ptr)
        outside |_call, real| objects::free_comm_outside(comm, real),
        inside |call, real| objects::free_comm(call, comm, real);

    fn MPI_Type_free(datatype: Ptr)
        outside |_call, real| objects::free_type(datatype, real),
        inside |_call, real| objects::free_type(datatype, real);
}
