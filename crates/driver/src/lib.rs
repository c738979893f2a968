//! Finds libraries that the process has loaded, without loading any: the library adapts to what the
//! application uses.
//!
//! [`cuda`] is the part that all users of the CUDA driver share.

pub mod cuda;
mod functions;

use std::ffi::{c_int, c_void, CStr};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::OnceLock;

/// How many libraries this process has loaded since its start.
pub fn loaded_count() -> u64 {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        count: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid record, and the pointer is the one given below.
        unsafe { count.cast::<u64>().write((*info).dlpi_adds) };
        1 // The counter is the same in every record.
    }
    let mut count = 0u64;
    // SAFETY: the callback keeps to its types and does not unwind, and the pointer is to a local.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut count).cast()) };
    count
}

/// A library that the process has loaded and that stays loaded.
#[derive(Clone, Copy, Debug)]
pub struct LoadedLibrary(NonNull<c_void>);

impl LoadedLibrary {
    /// The loaded library with this soname, from any path.
    pub fn find(soname: &CStr) -> Option<LoadedLibrary> {
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NOLOAD;
        // SAFETY: the name ends with a null byte; nothing is loaded, so no initialiser runs. The
        // handle is never closed.
        NonNull::new(unsafe { libc::dlopen(soname.as_ptr(), flags) }).map(LoadedLibrary)
    }

    /// The function `name`.
    ///
    /// # Safety
    /// `F` is the type of a pointer to the function of that name.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is never closed, and the name ends with a null byte.
        let at = NonNull::new(unsafe { libc::dlsym(self.0.as_ptr(), name.as_ptr()) })?;
        // SAFETY: of the same size, not null, and of that type by the caller's promise.
        Some(unsafe { std::mem::transmute_copy(&at) })
    }
}

/// A value that is made from a library as soon as the process has loaded it.
#[derive(Debug)]
pub struct LazyLibrary<T, E> {
    found: OnceLock<Result<T, E>>,
    searched_at: AtomicU64,
}

impl<T, E: Clone> Default for LazyLibrary<T, E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, E: Clone> LazyLibrary<T, E> {
    /// Not searched for yet.
    pub const fn new() -> LazyLibrary<T, E> {
        let searched_at = AtomicU64::new(u64::MAX);
        LazyLibrary { found: OnceLock::new(), searched_at }
    }

    /// The value, if it was made.
    #[inline(always)]
    pub fn get(&self) -> Option<&T> {
        self.found.get()?.as_ref().ok()
    }

    /// Searches for the library, if any library was loaded since the last search, and makes the value.
    /// `Ok(None)`: it is not loaded, or unusable.
    ///
    /// # Errors
    /// The error of `make`, in all later calls, too.
    pub fn get_or_find(
        &self,
        soname: &CStr,
        make: impl FnOnce(LoadedLibrary) -> Result<Option<T>, E>,
    ) -> Result<Option<&T>, E> {
        if let Some(found) = self.found.get() {
            return found.as_ref().map(Some).map_err(E::clone);
        }
        // A search walks through the library path.
        let count = loaded_count();
        if self.searched_at.swap(count, Ordering::Relaxed) == count {
            return Ok(None);
        }
        let Some(library) = LoadedLibrary::find(soname) else { return Ok(None) };
        let Some(made) = make(library).transpose() else { return Ok(None) };
        self.found.get_or_init(|| made).as_ref().map(Some).map_err(E::clone)
    }
}

#[cfg(test)]
mod tests;
