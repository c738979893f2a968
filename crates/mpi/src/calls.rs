//! The functions of an MPI library, generic in the type of its handles. A code other than `MPI_SUCCESS`
//! is an error that names the function; whether MPI returns one or aborts depends on the communicator's
//! error handler.

use std::ffi::{c_int, c_void, CStr};

use super::abi::Handle;
use super::library::Library;
use errors::{Error, ErrorKind, Result};

pub(super) const MPI_SUCCESS: c_int = 0;

/// `int MPI_Initialized(int *flag)` and `int MPI_Finalized(int *flag)`.
pub(super) type Query = unsafe extern "C" fn(*mut c_int) -> c_int;

/// The functions that take handles of type `H`: communicators, types, operations and requests all have
/// the same width.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls<H> {
    pub(super) comm_rank: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    pub(super) comm_size: unsafe extern "C" fn(H, *mut c_int) -> c_int,
    pub(super) comm_dup: unsafe extern "C" fn(H, *mut H) -> c_int,
    pub(super) comm_free: unsafe extern "C" fn(*mut H) -> c_int,
    pub(super) barrier: unsafe extern "C" fn(H) -> c_int,
    pub(super) allreduce: unsafe extern "C" fn(*const c_void, *mut c_void, c_int, H, H, H) -> c_int,
    pub(super) iallreduce:
        unsafe extern "C" fn(*const c_void, *mut c_void, c_int, H, H, H, *mut H) -> c_int,
    #[allow(clippy::type_complexity)] // As MPI has it.
    pub(super) iallgather:
        unsafe extern "C" fn(*const c_void, c_int, H, *mut c_void, c_int, H, H, *mut H) -> c_int,
    pub(super) test: unsafe extern "C" fn(*mut H, *mut c_int, *mut c_void) -> c_int,
    pub(super) wait: unsafe extern "C" fn(*mut H, *mut c_void) -> c_int,
    pub(super) allgather: Allgather<H>,
}

/// `int MPI_Allgather(const void *, int, MPI_Datatype, void *, int, MPI_Datatype, MPI_Comm)`.
type Allgather<H> =
    unsafe extern "C" fn(*const c_void, c_int, H, *mut c_void, c_int, H, H) -> c_int;

impl<H: Handle> Calls<H> {
    /// All functions, or the name of the first that is missing. `H` must be the library's handle type.
    pub(super) fn from_library(library: &Library) -> std::result::Result<Self, &'static CStr> {
        // Uses the profiling interface, so that this library's messages are not logged with those of the
        // application's parts (`message-log/`).
        // SAFETY: MPI declares the functions of these names like this, with handles that are `H`
        // by the library's binary interface.
        unsafe {
            Ok(Calls {
                comm_rank: function(library, c"PMPI_Comm_rank")?,
                comm_size: function(library, c"PMPI_Comm_size")?,
                comm_dup: function(library, c"PMPI_Comm_dup")?,
                comm_free: function(library, c"PMPI_Comm_free")?,
                barrier: function(library, c"PMPI_Barrier")?,
                allreduce: function(library, c"PMPI_Allreduce")?,
                iallreduce: function(library, c"PMPI_Iallreduce")?,
                iallgather: function(library, c"PMPI_Iallgather")?,
                test: function(library, c"PMPI_Test")?,
                wait: function(library, c"PMPI_Wait")?,
                allgather: function(library, c"PMPI_Allgather")?,
            })
        }
    }

    pub(super) fn rank(&self, comm: usize) -> Result<c_int> {
        let mut rank = -1;
        // SAFETY: a communicator by the promise made to `Mpi::comm`, and an integer of ours. The
        // same holds for the calls below.
        let code = unsafe { (self.comm_rank)(H::from_bits(comm), &mut rank) };
        check(code, "MPI_Comm_rank")?;
        Ok(rank)
    }

    pub(super) fn size(&self, comm: usize) -> Result<c_int> {
        let mut size = -1;
        // SAFETY: as for `rank`.
        let code = unsafe { (self.comm_size)(H::from_bits(comm), &mut size) };
        check(code, "MPI_Comm_size")?;
        Ok(size)
    }

    pub(super) fn dup(&self, comm: usize) -> Result<usize> {
        let mut copy = H::from_bits(0);
        // SAFETY: as for `rank`.
        let code = unsafe { (self.comm_dup)(H::from_bits(comm), &mut copy) };
        check(code, "MPI_Comm_dup")?;
        Ok(copy.bits())
    }

    pub(super) fn free(&self, comm: usize) -> Result<()> {
        let mut comm = H::from_bits(comm);
        // SAFETY: as for `rank`; `Comm::free` takes the communicator, so it is used no more.
        let code = unsafe { (self.comm_free)(&mut comm) };
        check(code, "MPI_Comm_free")
    }

    pub(super) fn barrier(&self, comm: usize) -> Result<()> {
        // SAFETY: as for `rank`.
        let code = unsafe { (self.barrier)(H::from_bits(comm)) };
        check(code, "MPI_Barrier")
    }

    pub(super) fn allreduce<const N: usize>(
        &self,
        mine: &[i64; N],
        int64: usize,
        min: usize,
        comm: usize,
    ) -> Result<[i64; N]> {
        let mut least = *mine;
        // SAFETY: as for `rank`; both arrays are ours and have `N` 64-bit integers.
        let code = unsafe {
            (self.allreduce)(
                mine.as_ptr().cast(),
                least.as_mut_ptr().cast(),
                N as c_int,
                H::from_bits(int64),
                H::from_bits(min),
                H::from_bits(comm),
            )
        };
        check(code, "MPI_Allreduce")?;
        Ok(least)
    }

    pub(super) fn iallreduce(
        &self,
        mine: &[i64],
        least: &mut [i64],
        int64: usize,
        min: usize,
        comm: usize,
    ) -> Result<usize> {
        let mut request = H::from_bits(0);
        let count = mine.len().min(least.len()) as c_int;
        // SAFETY: as for `rank`; both arrays have `count` integers, and `PendingCollective` keeps them
        // in place until the request is done, or for ever.
        let code = unsafe {
            (self.iallreduce)(
                mine.as_ptr().cast(),
                least.as_mut_ptr().cast(),
                count,
                H::from_bits(int64),
                H::from_bits(min),
                H::from_bits(comm),
                &mut request,
            )
        };
        check(code, "MPI_Iallreduce")?;
        Ok(request.bits())
    }

    pub(super) fn iallgather(
        &self,
        mine: &[i64],
        all: &mut [i64],
        int64: usize,
        comm: usize,
    ) -> Result<usize> {
        let mut request = H::from_bits(0);
        let count = mine.len() as c_int;
        // SAFETY: as for `iallreduce`; `all` has room for `count` integers of each process.
        let code = unsafe {
            (self.iallgather)(
                mine.as_ptr().cast(),
                count,
                H::from_bits(int64),
                all.as_mut_ptr().cast(),
                count,
                H::from_bits(int64),
                H::from_bits(comm),
                &mut request,
            )
        };
        check(code, "MPI_Iallgather")?;
        Ok(request.bits())
    }

    pub(super) fn test_request(&self, request: &mut usize, status: usize) -> Result<bool> {
        let mut handle = H::from_bits(*request);
        let mut done = 0;
        // SAFETY: a request that this library began and that is not known to be done; the status is the
        // constant for "ignore".
        let code = unsafe { (self.test)(&mut handle, &mut done, status as *mut c_void) };
        *request = handle.bits();
        check(code, "MPI_Test")?;
        Ok(done != 0)
    }

    pub(super) fn wait_request(&self, request: &mut usize, status: usize) -> Result<()> {
        let mut handle = H::from_bits(*request);
        // SAFETY: as for `test_request`.
        let code = unsafe { (self.wait)(&mut handle, status as *mut c_void) };
        *request = handle.bits();
        check(code, "MPI_Wait")
    }

    /// `all` has room for `own.len()` bytes of each process.
    pub(super) fn allgather(
        &self,
        own: &[u8],
        all: &mut [u8],
        byte: usize,
        comm: usize,
    ) -> Result<()> {
        let (count, byte) = (own.len() as c_int, H::from_bits(byte));
        // SAFETY: as for `rank`; all processes pass equally many bytes, and by the caller's promise
        // `all` has room for them.
        let code = unsafe {
            (self.allgather)(
                own.as_ptr().cast(),
                count,
                byte,
                all.as_mut_ptr().cast(),
                count,
                byte,
                H::from_bits(comm),
            )
        };
        check(code, "MPI_Allgather")
    }
}

/// The function `name` of the library, or the name if there is none.
///
/// # Safety
/// `F` is a function pointer of the type that the function has.
pub(super) unsafe fn function<F: Copy>(
    library: &Library,
    name: &'static CStr,
) -> std::result::Result<F, &'static CStr> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let address = library.symbol(name).ok_or(name)?.as_ptr();
    // SAFETY: the size is checked above; by the caller's promise it is a function pointer of type `F`,
    // and it is not null.
    Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) })
}

/// Calls a query function that MPI allows at any time.
pub(super) fn call_query(function: Query, name: &str) -> Result<bool> {
    let mut flag = 0;
    // SAFETY: an integer that is ours to write to.
    check(unsafe { function(&mut flag) }, name)?;
    Ok(flag != 0)
}

/// An error if `code` is one.
pub(super) fn check(code: c_int, name: &str) -> Result<()> {
    match code {
        MPI_SUCCESS => Ok(()),
        code => Err(Error::new(ErrorKind::System, format!("{name} failed with code {code}"))),
    }
}
