//! Making and freeing communicators and types.

#![allow(non_snake_case)] // As MPI names them.

use std::ffi::c_int;

use crate::calls::objects;
use crate::entry;
use crate::freeing::{self, FreeCall};
use crate::pmpi::{HandleWord, Passed, Ptr};

/// Defines functions that make a communicator, their last argument, from the first argument. The others are
/// passed through.
macro_rules! makes_communicators {
    ($($name:ident($($arg:ident)*);)*) => {
        exports! { $(
            fn $name(comm: HandleWord, $($arg: Passed,)* made: Ptr) |at, call, real| {
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

/// Defines functions that make a type, their last argument. The others are passed through.
macro_rules! makes_types {
    ($($($name:ident)+: $args:tt;)*) => {
        $( makes_types! { @each [$($name)+] $args } )*
    };
    (@each [] $args:tt) => {};
    (@each [$name:ident $($more:ident)*] ($($arg:ident)*)) => {
        exports! {
            fn $name($($arg: Passed,)* made: Ptr) |_at, _call, real| objects::make_type(made, real);
        }
        makes_types! { @each [$($more)*] ($($arg)*) }
    };
}

// Types made by other functions count as older than the log.
makes_types! {
    MPI_Type_contiguous MPI_Type_contiguous_c: (count oldtype);
    MPI_Type_vector MPI_Type_vector_c: (count blocklength stride oldtype);
    MPI_Type_create_hvector MPI_Type_create_hvector_c: (count blocklength stride oldtype);
    MPI_Type_indexed MPI_Type_indexed_c: (count blocklengths displacements oldtype);
    MPI_Type_create_hindexed MPI_Type_create_hindexed_c: (count blocklengths displacements oldtype);
    MPI_Type_create_indexed_block MPI_Type_create_indexed_block_c:
        (count blocklength displacements oldtype);
    MPI_Type_create_hindexed_block MPI_Type_create_hindexed_block_c:
        (count blocklength displacements oldtype);
    MPI_Type_create_struct MPI_Type_create_struct_c: (count blocklengths displacements types);
    MPI_Type_create_subarray MPI_Type_create_subarray_c:
        (ndims sizes subsizes starts order oldtype);
    MPI_Type_create_darray MPI_Type_create_darray_c:
        (size rank ndims gsizes distribs dargs psizes order oldtype);
    MPI_Type_create_resized MPI_Type_create_resized_c: (oldtype lb extent);
    MPI_Type_dup: (oldtype);
}

exports! {
    fn MPI_Comm_set_info(comm: HandleWord, info: HandleWord)
        inside |call, real| objects::set(call, comm, real);
}

// Fortran's interfaces set attributes within the MPI library, unseen.
exports! {
    fn MPI_Comm_set_attr(comm: HandleWord, keyval: c_int, value: Ptr)
        |_at, call, real| objects::set_attribute(call, comm, keyval, real);
    fn MPI_Attr_put(comm: HandleWord, keyval: c_int, value: Ptr)
        |_at, call, real| objects::set_attribute(call, comm, keyval, real);
    fn MPI_Comm_free_keyval(keyval: *mut c_int)
        |_at, _call, real| objects::free_keyval(keyval, real);
    fn MPI_Keyval_free(keyval: *mut c_int)
        |_at, _call, real| objects::free_keyval(keyval, real);
}

/// Defines functions that free the object of their argument: outside and inside parts, and from inside an MPI
/// call.
macro_rules! frees {
    ($($name:ident $way:ident |$at:ident, $call:ident, $place:ident, $real:ident| $body:expr;)*) => { $(
        exports! { @one $name(place: Ptr) |$call, $real| {
            let $place = place;
            // SAFETY: the application's own argument, which meets MPI's requirements.
            unsafe {
                match entry::at() {
                    Some($at) => $body,
                    None if entry::is_busy() => freeing::defer(FreeCall::$way, $place, $real),
                    None => $real(),
                }
            }
        } }
    )* };
}

frees! {
    MPI_Comm_free Comm |at, call, comm, real| objects::free_comm(at, call, comm, real);
    MPI_Comm_disconnect Disconnect |at, call, comm, real| objects::free_comm(at, call, comm, real);
    MPI_Type_free Type |_at, _call, datatype, real| objects::free_type(datatype, real);
}
