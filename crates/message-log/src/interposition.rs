//! Checks that the program's MPI calls reach this library.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{fortran, pmpi};

/// The number of loaded objects at the last successful check.
static CHECKED: AtomicU64 = AtomicU64::new(0);

/// Checks that all MPI calls, from C and from Fortran, reach this library.
///
/// # Errors
/// Why they do not.
pub(crate) fn check() -> Result<(), String> {
    let loaded = driver::loaded_count();
    if loaded == CHECKED.load(Ordering::Relaxed) {
        return Ok(());
    }
    if pmpi::is_first() {
        return Err(
            "libveloc-mpi.so is linked after MPI, and does not see the program's calls: link it before MPI, or \
             preload it"
                .into(),
        );
    }
    fortran::check()?;
    CHECKED.store(loaded, Ordering::Relaxed);
    Ok(())
}
