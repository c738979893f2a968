//! Calls that cannot be replayed: inside parts they fail with an error that names them.

#![allow(non_snake_case)] // As MPI names them.

use crate::calls::{nonblocking, refuse};
use crate::entry::At;
use crate::pmpi::{HandleWord, Passed, Ptr};

/// The type of an argument by its name: only communicators are used.
macro_rules! argument {
    (comm) => {
        HandleWord
    };
    ($other:ident) => {
        Passed
    };
}

/// Defines the functions. Their arguments are passed through. An argument after `;` is a new request, which
/// must not be completed inside parts either.
macro_rules! refused {
    ($($($name:ident)+: $args:tt $(on $comm:ident)?;)*) => {
        $( refused! { @each [$($name)+] $args $($comm)? } )*
    };
    (@each [] $args:tt $($comm:ident)?) => {};
    (@each [$name:ident $($more:ident)*] $args:tt $($comm:ident)?) => {
        refused! { @one $name $args $($comm)? }
        refused! { @each [$($more)*] $args $($comm)? }
    };
    (@one $name:ident($($arg:ident)*) $($comm:ident)?) => {
        exports! {
            fn $name($($arg: argument!($arg)),*) inside |call, _real| refuse(call, 0 $(| $comm)?);
        }
    };
    (@one $name:ident($($arg:ident)*; $request:ident) $($comm:ident)?) => {
        exports! {
            fn $name($($arg: argument!($arg),)* $request: Ptr) |at, call, real| match at {
                At::Outside => nonblocking::foreign(call, $request, real),
                At::Inside => refuse(call, 0 $(| $comm)?),
            };
        }
    };
}

// One-sided communication.
refused! {
    MPI_Win_allocate MPI_Win_allocate_c: (size disp_unit info comm baseptr win) on comm;
    MPI_Win_allocate_shared MPI_Win_allocate_shared_c:
        (size disp_unit info comm baseptr win) on comm;
    MPI_Win_attach: (win base size);
    MPI_Win_complete: (win);
    MPI_Win_create MPI_Win_create_c: (base size disp_unit info comm win) on comm;
    MPI_Win_create_dynamic: (info comm win) on comm;
    MPI_Win_detach: (win base);
    MPI_Win_fence: (assert win);
    MPI_Win_flush: (rank win);
    MPI_Win_flush_all: (win);
    MPI_Win_flush_local: (rank win);
    MPI_Win_flush_local_all: (win);
    MPI_Win_free: (win);
    MPI_Win_lock: (lock_type rank assert win);
    MPI_Win_lock_all: (assert win);
    MPI_Win_post: (group assert win);
    MPI_Win_set_info: (win info);
    MPI_Win_shared_query MPI_Win_shared_query_c: (win rank size disp_unit baseptr);
    MPI_Win_start: (group assert win);
    MPI_Win_sync: (win);
    MPI_Win_test: (win flag);
    MPI_Win_unlock: (rank win);
    MPI_Win_unlock_all: (win);
    MPI_Win_wait: (win);
    MPI_Put MPI_Put_c: (a0 a1 a2 a3 a4 a5 a6 a7);
    MPI_Get MPI_Get_c: (a0 a1 a2 a3 a4 a5 a6 a7);
    MPI_Accumulate MPI_Accumulate_c: (a0 a1 a2 a3 a4 a5 a6 a7 a8);
    MPI_Get_accumulate MPI_Get_accumulate_c: (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11);
    MPI_Fetch_and_op: (origin_addr result_addr datatype target_rank target_disp op win);
    MPI_Compare_and_swap:
        (origin_addr compare_addr result_addr datatype target_rank target_disp win);
    MPI_Rput MPI_Rput_c: (a0 a1 a2 a3 a4 a5 a6 a7; request);
    MPI_Rget MPI_Rget_c: (a0 a1 a2 a3 a4 a5 a6 a7; request);
    MPI_Raccumulate MPI_Raccumulate_c: (a0 a1 a2 a3 a4 a5 a6 a7 a8; request);
    MPI_Rget_accumulate MPI_Rget_accumulate_c: (a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11; request);
}

// Files.
refused! {
    MPI_File_close: (fh);
    MPI_File_delete: (filename info);
    MPI_File_get_amode: (fh amode);
    MPI_File_get_atomicity: (fh flag);
    MPI_File_get_byte_offset: (fh offset disp);
    MPI_File_get_position: (fh offset);
    MPI_File_get_position_shared: (fh offset);
    MPI_File_get_size: (fh size);
    MPI_File_get_type_extent MPI_File_get_type_extent_c: (fh datatype extent);
    MPI_File_get_view: (fh disp etype filetype datarep);
    MPI_File_preallocate: (fh size);
    MPI_File_read MPI_File_read_c: (fh buf count datatype status);
    MPI_File_read_all MPI_File_read_all_c: (fh buf count datatype status);
    MPI_File_read_all_begin MPI_File_read_all_begin_c: (fh buf count datatype);
    MPI_File_read_all_end: (fh buf status);
    MPI_File_read_at MPI_File_read_at_c: (fh offset buf count datatype status);
    MPI_File_read_at_all MPI_File_read_at_all_c: (fh offset buf count datatype status);
    MPI_File_read_at_all_begin MPI_File_read_at_all_begin_c: (fh offset buf count datatype);
    MPI_File_read_at_all_end: (fh buf status);
    MPI_File_read_ordered MPI_File_read_ordered_c: (fh buf count datatype status);
    MPI_File_read_ordered_begin MPI_File_read_ordered_begin_c: (fh buf count datatype);
    MPI_File_read_ordered_end: (fh buf status);
    MPI_File_read_shared MPI_File_read_shared_c: (fh buf count datatype status);
    MPI_File_seek: (fh offset whence);
    MPI_File_seek_shared: (fh offset whence);
    MPI_File_set_atomicity: (fh flag);
    MPI_File_set_info: (fh info);
    MPI_File_set_size: (fh size);
    MPI_File_set_view: (fh disp etype filetype datarep info);
    MPI_File_sync: (fh);
    MPI_File_write MPI_File_write_c: (fh buf count datatype status);
    MPI_File_write_all MPI_File_write_all_c: (fh buf count datatype status);
    MPI_File_write_all_begin MPI_File_write_all_begin_c: (fh buf count datatype);
    MPI_File_write_all_end: (fh buf status);
    MPI_File_write_at MPI_File_write_at_c: (fh offset buf count datatype status);
    MPI_File_write_at_all MPI_File_write_at_all_c: (fh offset buf count datatype status);
    MPI_File_write_at_all_begin MPI_File_write_at_all_begin_c: (fh offset buf count datatype);
    MPI_File_write_at_all_end: (fh buf status);
    MPI_File_write_ordered MPI_File_write_ordered_c: (fh buf count datatype status);
    MPI_File_write_ordered_begin MPI_File_write_ordered_begin_c: (fh buf count datatype);
    MPI_File_write_ordered_end: (fh buf status);
    MPI_File_write_shared MPI_File_write_shared_c: (fh buf count datatype status);
    MPI_File_iread MPI_File_iread_c: (fh buf count datatype; request);
    MPI_File_iread_all MPI_File_iread_all_c: (fh buf count datatype; request);
    MPI_File_iread_at MPI_File_iread_at_c: (fh offset buf count datatype; request);
    MPI_File_iread_at_all MPI_File_iread_at_all_c: (fh offset buf count datatype; request);
    MPI_File_iread_shared MPI_File_iread_shared_c: (fh buf count datatype; request);
    MPI_File_iwrite MPI_File_iwrite_c: (fh buf count datatype; request);
    MPI_File_iwrite_all MPI_File_iwrite_all_c: (fh buf count datatype; request);
    MPI_File_iwrite_at MPI_File_iwrite_at_c: (fh offset buf count datatype; request);
    MPI_File_iwrite_at_all MPI_File_iwrite_at_all_c: (fh offset buf count datatype; request);
    MPI_File_iwrite_shared MPI_File_iwrite_shared_c: (fh buf count datatype; request);
}

// Other jobs, and process creation.
refused! {
    MPI_Comm_spawn: (command argv maxprocs info root comm intercomm array_of_errcodes) on comm;
    MPI_Comm_spawn_multiple: (a0 a1 a2 a3 a4 a5 comm a7 a8) on comm;
    MPI_Comm_accept: (port_name info root comm newcomm) on comm;
    MPI_Comm_connect: (port_name info root comm newcomm) on comm;
    MPI_Comm_join: (fd intercomm);
    MPI_Open_port: (info port_name);
    MPI_Close_port: (port_name);
    MPI_Publish_name: (service_name info port_name);
    MPI_Unpublish_name: (service_name info port_name);
    MPI_Lookup_name: (service_name info port_name);
}

// Partitioned communication.
refused! {
    MPI_Parrived: (request partition flag);
    MPI_Psend_init: (buf partitions count datatype dest tag comm info; request) on comm;
    MPI_Precv_init: (buf partitions count datatype dest tag comm info; request) on comm;
    MPI_Pready: (partition request);
    MPI_Pready_range: (partition_low partition_high request);
    MPI_Pready_list: (length array_of_partitions request);
}

// Sessions.
refused! {
    MPI_Session_init: (info errhandler session);
    MPI_Session_finalize: (session);
    MPI_Comm_create_from_group: (group stringtag info errhandler newcomm);
    MPI_Intercomm_create_from_groups: (a0 a1 a2 a3 a4 a5 a6 a7);
}

// Persistent collective calls, also as Open MPI had them before the standard (`mpi-ext.h`).
refused! {
    MPI_Allgather_init MPI_Allgather_init_c MPIX_Allgather_init:
        (a0 a1 a2 a3 a4 a5 comm a7; request) on comm;
    MPI_Allgatherv_init MPI_Allgatherv_init_c MPIX_Allgatherv_init:
        (a0 a1 a2 a3 a4 a5 a6 comm a8; request) on comm;
    MPI_Allreduce_init MPI_Allreduce_init_c MPIX_Allreduce_init:
        (sendbuf recvbuf count datatype op comm info; request) on comm;
    MPI_Alltoall_init MPI_Alltoall_init_c MPIX_Alltoall_init:
        (a0 a1 a2 a3 a4 a5 comm a7; request) on comm;
    MPI_Alltoallv_init MPI_Alltoallv_init_c MPIX_Alltoallv_init:
        (a0 a1 a2 a3 a4 a5 a6 a7 comm a9; request) on comm;
    MPI_Alltoallw_init MPI_Alltoallw_init_c MPIX_Alltoallw_init:
        (a0 a1 a2 a3 a4 a5 a6 a7 comm a9; request) on comm;
    MPI_Barrier_init MPIX_Barrier_init: (comm info; request) on comm;
    MPI_Bcast_init MPI_Bcast_init_c MPIX_Bcast_init:
        (buffer count datatype root comm info; request) on comm;
    MPI_Exscan_init MPI_Exscan_init_c MPIX_Exscan_init:
        (sendbuf recvbuf count datatype op comm info; request) on comm;
    MPI_Gather_init MPI_Gather_init_c MPIX_Gather_init: (a0 a1 a2 a3 a4 a5 a6 comm a8; request) on comm;
    MPI_Gatherv_init MPI_Gatherv_init_c MPIX_Gatherv_init:
        (a0 a1 a2 a3 a4 a5 a6 a7 comm a9; request) on comm;
    MPI_Neighbor_allgather_init MPI_Neighbor_allgather_init_c MPIX_Neighbor_allgather_init:
        (a0 a1 a2 a3 a4 a5 comm a7; request) on comm;
    MPI_Neighbor_allgatherv_init MPI_Neighbor_allgatherv_init_c MPIX_Neighbor_allgatherv_init:
        (a0 a1 a2 a3 a4 a5 a6 comm a8; request) on comm;
    MPI_Neighbor_alltoall_init MPI_Neighbor_alltoall_init_c MPIX_Neighbor_alltoall_init:
        (a0 a1 a2 a3 a4 a5 comm a7; request) on comm;
    MPI_Neighbor_alltoallv_init MPI_Neighbor_alltoallv_init_c MPIX_Neighbor_alltoallv_init:
        (a0 a1 a2 a3 a4 a5 a6 a7 comm a9; request) on comm;
    MPI_Neighbor_alltoallw_init MPI_Neighbor_alltoallw_init_c MPIX_Neighbor_alltoallw_init:
        (a0 a1 a2 a3 a4 a5 a6 a7 comm a9; request) on comm;
    MPI_Reduce_init MPI_Reduce_init_c MPIX_Reduce_init:
        (sendbuf recvbuf count datatype op root comm info; request) on comm;
    MPI_Reduce_scatter_block_init MPI_Reduce_scatter_block_init_c MPIX_Reduce_scatter_block_init:
        (sendbuf recvbuf recvcount datatype op comm info; request) on comm;
    MPI_Reduce_scatter_init MPI_Reduce_scatter_init_c MPIX_Reduce_scatter_init:
        (sendbuf recvbuf recvcounts datatype op comm info; request) on comm;
    MPI_Scan_init MPI_Scan_init_c MPIX_Scan_init:
        (sendbuf recvbuf count datatype op comm info; request) on comm;
    MPI_Scatter_init MPI_Scatter_init_c MPIX_Scatter_init:
        (a0 a1 a2 a3 a4 a5 a6 comm a8; request) on comm;
    MPI_Scatterv_init MPI_Scatterv_init_c MPIX_Scatterv_init:
        (a0 a1 a2 a3 a4 a5 a6 a7 comm a9; request) on comm;
}

// Calls on requests and buffers that are new in MPI 4.1.
refused! {
    MPI_Request_get_status_all: (count requests flag statuses);
    MPI_Request_get_status_any: (count requests index flag status);
    MPI_Request_get_status_some: (count requests outcount indices statuses);
    MPI_Buffer_iflush: (; request);
    MPI_Comm_iflush_buffer: (comm; request) on comm;
    MPI_Session_iflush_buffer: (session; request);
}

// Agreement after process failures (ULFM).
refused! {
    MPIX_Comm_agree: (comm flag) on comm;
    MPIX_Comm_iagree: (comm flag; request) on comm;
    MPIX_Comm_shrink: (comm newcomm) on comm;
    MPIX_Comm_ishrink: (comm newcomm; request) on comm;
}

// Calls that complete after they return.
refused! {
    MPI_Comm_idup: (comm newcomm; request) on comm;
    MPI_Comm_idup_with_info: (comm info newcomm; request) on comm;
}
