//! MPI's own functions, by the names of the profiling interface, looked up once each.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::atomic::{AtomicPtr, Ordering};

use ::mpi::{Abi, Library};

/// A pointer argument of any kind.
pub(crate) type Ptr = *mut c_void;
/// A handle argument, as wide as a pointer.
pub(crate) type HandleWord = usize;
/// `MPI_Aint`.
pub(crate) type Aint = isize;
/// An argument of any kind that is only passed on, in a register or a stack slot as wide as a pointer.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Passed(usize);

/// A function of MPI, looked up at its first call.
pub(crate) struct MpiFunction {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl MpiFunction {
    /// The function of this name, with `PMPI_`.
    pub(crate) const fn new(name: &'static CStr) -> MpiFunction {
        MpiFunction { name, at: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The function of a name that ends with its only null byte.
    pub(crate) const fn named(name: &'static str) -> MpiFunction {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => MpiFunction::new(name),
            Err(_) => MpiFunction::new(c""),
        }
    }

    /// Its address; null if the MPI library does not have it.
    #[inline(always)]
    pub(crate) fn get(&self) -> *mut c_void {
        let at = self.at.load(Ordering::Relaxed);
        if at.is_null() {
            self.find()
        } else {
            at
        }
    }

    /// Its address, if it was looked up before; null otherwise.
    #[inline(always)]
    pub(crate) fn found(&self) -> *mut c_void {
        self.at.load(Ordering::Relaxed)
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // The next definition after this library, so that this is MPI's own even if another profiling tool
        // comes first. If MPI is not in the global scope, it is found by its name.
        // SAFETY: the name ends with a null byte.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        let found = match next.is_null() {
            false => next,
            true => Library::find()
                .and_then(|library| library.symbol(self.name))
                .map_or(std::ptr::null_mut(), std::ptr::NonNull::as_ptr),
        };
        self.at.store(found, Ordering::Relaxed);
        found
    }
}

/// Whether there is an MPI library, and the function of this name in it.
pub(crate) fn exists(name: &CStr) -> bool {
    // SAFETY: the name ends with a null byte.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    !next.is_null() || Library::find().is_some_and(|library| library.symbol(name).is_some())
}

/// The result of a function that the MPI library lacks.
#[cold]
fn unavailable() -> c_int {
    err_other(Library::find())
}

/// `MPI_ERR_OTHER` of a library.
pub(crate) fn err_other(library: Option<Library>) -> c_int {
    library.map_or(Abi::Standard, |library| library.abi()).numbers().err_other
}

/// Whether MPI comes before this library in the search order, so that the program's calls go to MPI directly.
pub(crate) fn is_first() -> bool {
    // SAFETY: a name that ends with a null byte.
    let has = |scope| unsafe { !libc::dlsym(scope, c"PMPI_Recv".as_ptr()).is_null() };
    has(libc::RTLD_DEFAULT) && !has(libc::RTLD_NEXT)
}

/// Declares the MPI functions that this library calls by itself.
macro_rules! functions {
    ($($(#[$doc:meta])* $rust:ident = $name:literal ($($arg:ident: $type:ty),*);)*) => {
        /// The name of a function below that the MPI library lacks.
        pub(crate) fn lacking() -> Option<&'static CStr> {
            [$($name),*].into_iter().find(|name| !exists(name))
        }

        $(
            #[cfg(test)]
            crate::signatures::signature! { $name.to_bytes(), $($arg: $type),* }

            $(#[$doc])*
            ///
            /// # Safety
            /// The requirements of the MPI function.
            // The lint expects them where the macro is used.
            #[allow(clippy::undocumented_unsafe_blocks)]
            #[allow(clippy::too_many_arguments)] // As MPI has it.
            pub(crate) unsafe fn $rust($($arg: $type),*) -> c_int {
                static FUNCTION: MpiFunction = MpiFunction::new($name);
                // SAFETY: MPI declares the function of that name like this; handles are in registers or stack
                // slots as wide as a pointer, of which it reads its part.
                let function: Option<unsafe extern "C" fn($($type),*) -> c_int> =
                    unsafe { std::mem::transmute(FUNCTION.get()) };
                let Some(function) = function else { return unavailable() };
                // SAFETY: by the caller's promise.
                unsafe { function($($arg),*) }
            }
        )*
    };
}

functions! {
    /// Whether `MPI_Init` was called.
    initialized = c"PMPI_Initialized" (flag: *mut c_int);
    /// Whether `MPI_Finalize` was called.
    finalized = c"PMPI_Finalized" (flag: *mut c_int);
    /// The level of thread support.
    query_thread = c"PMPI_Query_thread" (provided: *mut c_int);
    /// This process's rank in a communicator.
    comm_rank = c"PMPI_Comm_rank" (comm: HandleWord, rank: *mut c_int);
    /// The number of processes of a communicator.
    comm_size = c"PMPI_Comm_size" (comm: HandleWord, size: *mut c_int);
    /// The number of processes of the remote group.
    comm_remote_size = c"PMPI_Comm_remote_size" (comm: HandleWord, size: *mut c_int);
    /// Whether a communicator is an intercommunicator.
    comm_test_inter = c"PMPI_Comm_test_inter" (comm: HandleWord, flag: *mut c_int);
    /// Duplicates a communicator.
    comm_dup = c"PMPI_Comm_dup" (comm: HandleWord, copy: Ptr);
    /// An attribute of a communicator, if it has it.
    comm_get_attr = c"PMPI_Comm_get_attr" (comm: HandleWord, keyval: c_int, value: Ptr, flag: *mut c_int);
    /// The group of a communicator.
    comm_group = c"PMPI_Comm_group" (comm: HandleWord, group: Ptr);
    /// The remote group.
    comm_remote_group = c"PMPI_Comm_remote_group" (comm: HandleWord, group: Ptr);
    /// Whether two groups have the same processes in the same order.
    group_compare = c"PMPI_Group_compare" (group: HandleWord, other: HandleWord, result: *mut c_int);
    /// Translates ranks of one group to another.
    group_translate_ranks = c"PMPI_Group_translate_ranks"
        (group: HandleWord, count: c_int, ranks: *mut c_int, other: HandleWord, others: *mut c_int);
    /// Frees a group.
    group_free = c"PMPI_Group_free" (group: Ptr);
    /// Gathers the data of all processes on all of them.
    iallgather = c"PMPI_Iallgather"
        (from: Ptr, sent: c_int, sent_type: HandleWord, to: Ptr, received: c_int, received_type: HandleWord,
         comm: HandleWord, request: Ptr);
    /// Reduces the data of all processes; all get the result.
    iallreduce = c"PMPI_Iallreduce"
        (from: Ptr, to: Ptr, count: c_int, datatype: HandleWord, op: HandleWord, comm: HandleWord, request: Ptr);
    /// Begins to send a message.
    isend = c"PMPI_Isend"
        (buf: Ptr, count: c_int, datatype: HandleWord, dest: c_int, tag: c_int, comm: HandleWord, request: Ptr);
    /// Receives a message.
    recv = c"PMPI_Recv"
        (buf: Ptr, count: c_int, datatype: HandleWord, source: c_int, tag: c_int, comm: HandleWord, status: Ptr);
    /// Begins to receive a message.
    irecv = c"PMPI_Irecv"
        (buf: Ptr, count: c_int, datatype: HandleWord, source: c_int, tag: c_int, comm: HandleWord, request: Ptr);
    /// Waits for a request.
    wait = c"PMPI_Wait" (request: Ptr, status: Ptr);
    /// Whether a request has completed.
    test = c"PMPI_Test" (request: Ptr, flag: *mut c_int, status: Ptr);
    /// Whether a message can be received.
    iprobe = c"PMPI_Iprobe"
        (source: c_int, tag: c_int, comm: HandleWord, flag: *mut c_int, status: Ptr);
    /// Cancels a request.
    cancel = c"PMPI_Cancel" (request: Ptr);
    /// Whether a request has completed; does not free it.
    request_get_status = c"PMPI_Request_get_status"
        (request: HandleWord, flag: *mut c_int, status: Ptr);
    /// Calls the communicator's error handler.
    comm_call_errhandler = c"PMPI_Comm_call_errhandler" (comm: HandleWord, code: c_int);
    /// The name of a communicator.
    comm_get_name = c"PMPI_Comm_get_name" (comm: HandleWord, name: *mut c_char, len: *mut c_int);
    /// Frees a communicator.
    comm_free = c"PMPI_Comm_free" (comm: Ptr);
    /// Frees a communicator when its pending operations have completed.
    comm_disconnect = c"PMPI_Comm_disconnect" (comm: Ptr);
    /// The kind of topology of a communicator.
    topo_test = c"PMPI_Topo_test" (comm: HandleWord, kind: *mut c_int);
    /// The number of dimensions of a Cartesian topology.
    cartdim_get = c"PMPI_Cartdim_get" (comm: HandleWord, dims: *mut c_int);
    /// The dimensions, periods and own coordinates of a Cartesian topology.
    cart_get = c"PMPI_Cart_get"
        (comm: HandleWord, dims: c_int, lengths: *mut c_int, periods: *mut c_int, place: *mut c_int);
    /// The number of neighbours of a process in a graph topology.
    graph_neighbors_count = c"PMPI_Graph_neighbors_count"
        (comm: HandleWord, rank: c_int, count: *mut c_int);
    /// The number of neighbours of this process in a distributed graph topology.
    dist_graph_neighbors_count = c"PMPI_Dist_graph_neighbors_count"
        (comm: HandleWord, sources: *mut c_int, destinations: *mut c_int, weighted: *mut c_int);
    /// The size of an element in bytes.
    type_size = c"PMPI_Type_size_x" (datatype: HandleWord, size: *mut i64);
    /// The lower bound and the extent of a type.
    type_get_extent = c"PMPI_Type_get_extent" (datatype: HandleWord, lb: *mut Aint, extent: *mut Aint);
    /// The true lower bound and true extent of a type.
    type_get_true_extent = c"PMPI_Type_get_true_extent"
        (datatype: HandleWord, lb: *mut Aint, extent: *mut Aint);
    /// Duplicates a type.
    type_dup = c"PMPI_Type_dup" (datatype: HandleWord, copy: Ptr);
    /// Blocks of a type at displacements in bytes.
    type_create_hindexed = c"PMPI_Type_create_hindexed"
        (count: c_int, lengths: *const c_int, places: *const Aint, datatype: HandleWord, made: Ptr);
    /// A type with another lower bound and extent.
    type_create_resized = c"PMPI_Type_create_resized"
        (datatype: HandleWord, lb: Aint, extent: Aint, made: Ptr);
    /// Makes a type ready for use.
    type_commit = c"PMPI_Type_commit" (datatype: Ptr);
    /// Frees a type.
    type_free = c"PMPI_Type_free" (datatype: Ptr);
    /// Packs elements.
    pack = c"PMPI_Pack"
        (from: Ptr, count: c_int, datatype: HandleWord, to: Ptr, size: c_int, at: *mut c_int, comm: HandleWord);
    /// Unpacks elements.
    unpack = c"PMPI_Unpack"
        (from: Ptr, size: c_int, at: *mut c_int, to: Ptr, count: c_int, datatype: HandleWord, comm: HandleWord);
    /// The number of received basic elements, by a status.
    get_elements_x = c"PMPI_Get_elements_x" (status: Ptr, datatype: HandleWord, count: *mut i64);
    /// Sets the number of received basic elements of a status.
    status_set_elements_x = c"PMPI_Status_set_elements_x" (status: Ptr, datatype: HandleWord, count: i64);
    /// Sets the cancelled flag of a status.
    status_set_cancelled = c"PMPI_Status_set_cancelled" (status: Ptr, flag: c_int);
    /// The cancelled flag of a status.
    test_cancelled = c"PMPI_Test_cancelled" (status: Ptr, flag: *mut c_int);
    /// Begins a generalized request.
    grequest_start = c"PMPI_Grequest_start"
        (query: Ptr, free: Ptr, cancel: Ptr, extra: Ptr, request: Ptr);
    /// Completes a generalized request.
    grequest_complete = c"PMPI_Grequest_complete" (request: HandleWord);
    /// Frees a request.
    request_free = c"PMPI_Request_free" (request: Ptr);
}
