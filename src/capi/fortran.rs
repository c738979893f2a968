//! Functions for the modules in `fortran/` beyond the C interface. Not in the header: the modules
//! are the only callers.

use std::ffi::{c_char, c_int, c_void};

use super::adjoint::protect_part;
use super::boundary::{status, string, with_client};
use super::job::{by_file, by_options, start_over, VELOC_Option};
use super::regions::entries;
use client::regions::ProtectedMemory;
use errors::{Error, Result};
use mpi::Mpi;

/// `VELOC_Init` with a communicator as `use mpi` has it, an integer.
///
/// # Safety
/// `comm` is a communicator of the process's MPI; `cfg_file` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Init_fortran(comm: c_int, cfg_file: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let comm = |mpi: &Mpi| unsafe { mpi.comm(mpi.comm_of_fortran(comm)?) };
    // SAFETY: as above.
    start_over("VELOC_Init", comm, || unsafe { by_file(cfg_file) })
}

/// `VELOC_Init_options` with a communicator of Fortran.
///
/// # Safety
/// `comm` is a communicator of the process's MPI; `options` as for `VELOC_Init_single_options`.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Init_options_fortran(
    comm: c_int,
    options: *const VELOC_Option,
    n: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let comm = |mpi: &Mpi| unsafe { mpi.comm(mpi.comm_of_fortran(comm)?) };
    // SAFETY: as above.
    start_over("VELOC_Init_options", comm, || unsafe { by_options(options, n) })
}

/// `VELOC_Mem_protect`, or `VELOC_Region_protect` if the name has characters. The module passes a blank for
/// a name of blanks.
///
/// # Safety
/// `name` is a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Fortran_protect(
    id: c_int,
    address: *mut c_void,
    count: i64,
    base_size: i64,
    name: *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { string("name", name) };
    let call = match name {
        Ok("") => "VELOC_Mem_protect",
        _ => "VELOC_Region_protect",
    };
    status(call, || {
        let name = name?;
        let (count, base_size) = (size(id, "count", count)?, size(id, "base_size", base_size)?);
        // A name of blanks has none left behind it, and is no name.
        let group = (!name.is_empty()).then(|| name.trim_end_matches(' '));
        with_client(|client| {
            client.protecting().protect(
                group,
                id,
                ProtectedMemory::new(id, address as u64, count, base_size)?,
            )
        })
    })
}

/// The module's `VELOC_Region`. Its integers have 64 bits, so that none is cut on the way here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FortranRegion {
    id: i64,
    ptr: *mut c_void,
    count: i64,
    base_size: i64,
}

/// `VELOC_Mem_protect_list`.
///
/// # Safety
/// `list` points to `n` regions.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Fortran_protect_list(list: *const FortranRegion, n: usize) -> c_int {
    status("VELOC_Mem_protect_list", || {
        // SAFETY: the caller's promise.
        let list = unsafe { entries(list, n) }?;
        let called = |place| format!("list({})", place + 1);
        let memory = |region: &FortranRegion| -> Result<(c_int, ProtectedMemory)> {
            let id = c_int::try_from(region.id).map_err(|_| beyond("id", region.id))?;
            let count = size(id, "count", region.count)?;
            let base_size = size(id, "base_size", region.base_size)?;
            Ok((id, ProtectedMemory::new(id, region.ptr as u64, count, base_size)?))
        };
        let memory = |(place, region)| memory(region).map_err(|error| error.within(called(place)));
        let regions = list.iter().enumerate().map(memory).collect::<Result<_>>()?;
        with_client(|client| client.protecting().protect_list(regions, called))
    })
}

/// `VELOC_Adjoint_protect`.
#[no_mangle]
pub extern "C" fn VELOC_Fortran_adjoint_protect(
    what: c_int,
    id: c_int,
    address: *mut c_void,
    count: i64,
    base_size: i64,
) -> c_int {
    status("VELOC_Adjoint_protect", || {
        let (count, base_size) = (size(id, "count", count)?, size(id, "base_size", base_size)?);
        protect_part(what, id, address, count, base_size)
    })
}

/// Fails a call of the module's for a reason that the module has found.
///
/// # Safety
/// Both are strings that end with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Fortran_refuse(call: *const c_char, reason: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let call = unsafe { string("call", call) }.unwrap_or("the Fortran interface");
    status(call, || {
        // SAFETY: the caller's promise.
        Err(Error::invalid(unsafe { string("reason", reason) }?))
    })
}

/// Refuses a number of a program whose integers have 64 bits, which C's `int` cannot hold.
///
/// # Safety
/// `what` is a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Fortran_refuse_number(what: *const c_char, number: i64) -> c_int {
    status("the Fortran interface", || {
        // SAFETY: the caller's promise.
        let what = unsafe { string("what", what) }?;
        Err(beyond(what, number))
    })
}

/// A number that C's `int` cannot hold.
fn beyond(what: &str, number: i64) -> Error {
    let (least, most) = (c_int::MIN, c_int::MAX);
    Error::invalid(format!("{what} is {number}; it must be from {least} to {most}"))
}

fn size(id: c_int, what: &str, given: i64) -> Result<usize> {
    usize::try_from(given).map_err(|_| {
        Error::invalid(format!("region {id}: {what} is {given}; it must be 0 or more"))
    })
}
