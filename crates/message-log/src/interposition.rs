//! Whether the program's calls of MPI come to this library.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{fortran, pmpi};

/// How many objects the process had ever loaded when nothing was wrong.
static CHECKED: AtomicU64 = AtomicU64::new(0);

/// Whether they all do, from C and from Fortran.
///
/// # Errors
/// Otherwise, and says why.
pub fn check() -> Result<(), String> {
    let loaded = driver::loaded_count();
    if loaded == CHECKED.load(Ordering::Relaxed) {
        return Ok(());
    }
    if pmpi::is_first() {
        return Err(
            "this library is linked behind MPI, and does not see the program's calls: link \
                    it ahead, or preload it"
                .into(),
        );
    }
    fortran::check()?;
    CHECKED.store(loaded, Ordering::Relaxed);
    Ok(())
}
