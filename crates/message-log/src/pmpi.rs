//! MPI's own functions, by the names of the profiling interface, looked up once each.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::sync::atomic::{AtomicPtr, Ordering};

use mpi_abi::{Abi, Library};

/// A pointer argument of whatever kind.
pub(crate) type Ptr = *mut c_void;
/// A handle, in an argument as wide as a pointer.
pub(crate) type Handle = usize;
/// `MPI_Aint`.
pub(crate) type Aint = isize;
/// An argument of whatever kind that is passed on as it is, in a register or a slot as wide as a pointer, and
/// never looked at.
#[repr(transparent)]
#[derive(Clone, Copy, Debug)]
pub struct Passed(usize);

/// A function of MPI's, found when it is first called.
pub(crate) struct Function {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl Function {
    /// The function of this name, with `PMPI_`.
    pub(crate) const fn new(name: &'static CStr) -> Function {
        Function { name, at: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The same with a name that ends with its only null byte.
    pub(crate) const fn named(name: &'static str) -> Function {
        match CStr::from_bytes_with_nul(name.as_bytes()) {
            Ok(name) => Function::new(name),
            Err(_) => Function::new(c""),
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

    /// Its address, if it was looked for before; null otherwise.
    #[inline(always)]
    pub(crate) fn found(&self) -> *mut c_void {
        self.at.load(Ordering::Relaxed)
    }

    #[cold]
    fn find(&self) -> *mut c_void {
        // What comes behind this library in the search order, so that this is MPI's, even if another
        // tool under the profiling interface comes first. Where MPI is not in the global scope, it
        // is found by its name.
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

/// What a function returns that the MPI library does not have.
#[cold]
fn unavailable() -> c_int {
    err_other(Library::find())
}

/// `MPI_ERR_OTHER` of a library.
pub(crate) fn err_other(library: Option<Library>) -> c_int {
    library.map_or(Abi::Standard, |library| library.abi()).numbers().err_other
}

/// Whether MPI comes before this library in the order of search, so that what the program calls is
/// MPI's own.
pub(crate) fn is_first() -> bool {
    // SAFETY: a name that ends with a null byte.
    let has = |scope| unsafe { !libc::dlsym(scope, c"PMPI_Recv".as_ptr()).is_null() };
    has(libc::RTLD_DEFAULT) && !has(libc::RTLD_NEXT)
}

/// Declares functions of MPI's that this library calls of its own accord.
macro_rules! functions {
    ($($(#[$doc:meta])* $rust:ident = $name:literal ($($arg:ident: $type:ty),*);)*) => {
        /// One of the functions below that the MPI library does not have.
        pub(crate) fn lacking() -> Option<&'static CStr> {
            [$($name),*].into_iter().find(|name| !exists(name))
        }

        $(
            #[cfg(test)]
            crate::signatures::signature! { $name.to_bytes(), $($arg: $type),* }

            $(#[$doc])*
            ///
            /// # Safety
            /// As MPI says of the function.
            // They are said below, and the lint looks for them where the macro is used.
            #[allow(clippy::undocumented_unsafe_blocks)]
            #[allow(clippy::too_many_arguments)] // As MPI has it.
            pub(crate) unsafe fn $rust($($arg: $type),*) -> c_int {
                static FUNCTION: Function = Function::new($name);
                // SAFETY: MPI declares the function of that name like this; handles are in
                // registers or slots as wide as a pointer, of which it reads what it needs.
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
    /// This process in a communicator.
    comm_rank = c"PMPI_Comm_rank" (comm: Handle, rank: *mut c_int);
    /// How many processes a communicator has.
    comm_size = c"PMPI_Comm_size" (comm: Handle, size: *mut c_int);
    /// How many processes the other group has.
    comm_remote_size = c"PMPI_Comm_remote_size" (comm: Handle, size: *mut c_int);
    /// Whether a communicator is between two groups.
    comm_test_inter = c"PMPI_Comm_test_inter" (comm: Handle, flag: *mut c_int);
    /// A copy of a communicator.
    comm_dup = c"PMPI_Comm_dup" (comm: Handle, copy: Ptr);
    /// The processes of a communicator.
    comm_group = c"PMPI_Comm_group" (comm: Handle, group: Ptr);
    /// The processes of the other group.
    comm_remote_group = c"PMPI_Comm_remote_group" (comm: Handle, group: Ptr);
    /// Whether two groups have the same processes in the same order.
    group_compare = c"PMPI_Group_compare" (group: Handle, other: Handle, result: *mut c_int);
    /// The numbers in another group of processes of this one.
    group_translate_ranks = c"PMPI_Group_translate_ranks"
        (group: Handle, count: c_int, ranks: *mut c_int, other: Handle, others: *mut c_int);
    /// Frees a group.
    group_free = c"PMPI_Group_free" (group: Ptr);
    /// Everybody's bytes for everybody.
    iallgather = c"PMPI_Iallgather"
        (from: Ptr, sent: c_int, sent_type: Handle, to: Ptr, received: c_int, received_type: Handle,
         comm: Handle, request: Ptr);
    /// The same for everybody, of what everybody has.
    iallreduce = c"PMPI_Iallreduce"
        (from: Ptr, to: Ptr, count: c_int, datatype: Handle, op: Handle, comm: Handle, request: Ptr);
    /// Begins to send.
    isend = c"PMPI_Isend"
        (buf: Ptr, count: c_int, datatype: Handle, dest: c_int, tag: c_int, comm: Handle, request: Ptr);
    /// Receives.
    recv = c"PMPI_Recv"
        (buf: Ptr, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle, status: Ptr);
    /// Begins to receive.
    irecv = c"PMPI_Irecv"
        (buf: Ptr, count: c_int, datatype: Handle, source: c_int, tag: c_int, comm: Handle, request: Ptr);
    /// Waits for a request.
    wait = c"PMPI_Wait" (request: Ptr, status: Ptr);
    /// Whether a request is done.
    test = c"PMPI_Test" (request: Ptr, flag: *mut c_int, status: Ptr);
    /// Whether there is a message.
    iprobe = c"PMPI_Iprobe"
        (source: c_int, tag: c_int, comm: Handle, flag: *mut c_int, status: Ptr);
    /// Asks for the end of a request.
    cancel = c"PMPI_Cancel" (request: Ptr);
    /// Whether a request is done, which stays.
    request_get_status = c"PMPI_Request_get_status"
        (request: Handle, flag: *mut c_int, status: Ptr);
    /// Calls the communicator's error handler.
    comm_call_errhandler = c"PMPI_Comm_call_errhandler" (comm: Handle, code: c_int);
    /// What a communicator is called.
    comm_get_name = c"PMPI_Comm_get_name" (comm: Handle, name: *mut c_char, len: *mut c_int);
    /// Frees a communicator.
    comm_free = c"PMPI_Comm_free" (comm: Ptr);
    /// The same when all that is under way on it is done.
    comm_disconnect = c"PMPI_Comm_disconnect" (comm: Ptr);
    /// Which topology a communicator has.
    topo_test = c"PMPI_Topo_test" (comm: Handle, kind: *mut c_int);
    /// How many dimensions its grid has.
    cartdim_get = c"PMPI_Cartdim_get" (comm: Handle, dims: *mut c_int);
    /// The lengths, periods and own place of its grid.
    cart_get = c"PMPI_Cart_get"
        (comm: Handle, dims: c_int, lengths: *mut c_int, periods: *mut c_int, place: *mut c_int);
    /// How many neighbours a process has in a graph.
    graph_neighbors_count = c"PMPI_Graph_neighbors_count"
        (comm: Handle, rank: c_int, count: *mut c_int);
    /// How many neighbours this process has in a distributed graph.
    dist_graph_neighbors_count = c"PMPI_Dist_graph_neighbors_count"
        (comm: Handle, sources: *mut c_int, destinations: *mut c_int, weighted: *mut c_int);
    /// Bytes of an element.
    type_size = c"PMPI_Type_size_x" (datatype: Handle, size: *mut i64);
    /// From element to element.
    type_get_extent = c"PMPI_Type_get_extent" (datatype: Handle, lb: *mut Aint, extent: *mut Aint);
    /// From the first byte that an element has to the last.
    type_get_true_extent = c"PMPI_Type_get_true_extent"
        (datatype: Handle, lb: *mut Aint, extent: *mut Aint);
    /// A copy of a type.
    type_dup = c"PMPI_Type_dup" (datatype: Handle, copy: Ptr);
    /// Blocks of a type at displacements in bytes.
    type_create_hindexed = c"PMPI_Type_create_hindexed"
        (count: c_int, lengths: *const c_int, places: *const Aint, datatype: Handle, made: Ptr);
    /// A type with other distances between its elements.
    type_create_resized = c"PMPI_Type_create_resized"
        (datatype: Handle, lb: Aint, extent: Aint, made: Ptr);
    /// Makes a type ready for use.
    type_commit = c"PMPI_Type_commit" (datatype: Ptr);
    /// Frees a type.
    type_free = c"PMPI_Type_free" (datatype: Ptr);
    /// Packs elements.
    pack = c"PMPI_Pack"
        (from: Ptr, count: c_int, datatype: Handle, to: Ptr, size: c_int, at: *mut c_int, comm: Handle);
    /// Unpacks elements.
    unpack = c"PMPI_Unpack"
        (from: Ptr, size: c_int, at: *mut c_int, to: Ptr, count: c_int, datatype: Handle, comm: Handle);
    /// How many basic elements a status says were received.
    get_elements_x = c"PMPI_Get_elements_x" (status: Ptr, datatype: Handle, count: *mut i64);
    /// Has a status say how many basic elements were received.
    status_set_elements_x = c"PMPI_Status_set_elements_x" (status: Ptr, datatype: Handle, count: i64);
    /// Has a status say whether the request was cancelled.
    status_set_cancelled = c"PMPI_Status_set_cancelled" (status: Ptr, flag: c_int);
    /// Whether a status says that the request was cancelled.
    test_cancelled = c"PMPI_Test_cancelled" (status: Ptr, flag: *mut c_int);
    /// Begins a generalized request.
    grequest_start = c"PMPI_Grequest_start"
        (query: Ptr, free: Ptr, cancel: Ptr, extra: Ptr, request: Ptr);
    /// Ends a generalized request.
    grequest_complete = c"PMPI_Grequest_complete" (request: Handle);
    /// Frees a request.
    request_free = c"PMPI_Request_free" (request: Ptr);
}
