//! Programs in Fortran. MPICH's interfaces for Fortran call MPI's C functions, and so this library.
//! Open MPI's call the library's inner ones, so that nothing of them is seen here: until their symbols
//! are taken, too, parts of such programs are refused rather than replayed wrongly.

use std::ffi::{c_int, c_void, CStr};

use mpi_abi::Abi;

/// The library that Open MPI's interfaces for Fortran are in, however its name goes on.
const OPEN_MPI: &[u8] = b"libmpi_mpifh";

/// Whether the program has calls of MPI that this library does not see.
pub fn passes_by(abi: Abi) -> bool {
    let mut found = false;
    if abi == Abi::OpenMpi {
        // SAFETY: the function gets the address of `found`, which is there during the call.
        unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    }
    found
}

/// # Safety
/// As for `dl_iterate_phdr`; `found` is that of [`passes_by`].
unsafe extern "C" fn look(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    found: *mut c_void,
) -> c_int {
    // SAFETY: the system's promise.
    let name = unsafe { (*info).dlpi_name };
    if name.is_null() {
        return 0;
    }
    // SAFETY: the system's promise: a name that ends with a null byte.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let is_it = name.windows(OPEN_MPI.len()).any(|part| part == OPEN_MPI);
    if is_it {
        // SAFETY: the caller's.
        unsafe { found.cast::<bool>().write(true) };
    }
    c_int::from(is_it)
}
