//! Calls from Fortran.
//!
//! The Fortran interfaces of an MPI library are separate objects (`libmpi_mpifh`, `libmpichfort`). They
//! translate the arguments and call C functions, but many of them under the profiling names: all of Open
//! MPI's, and in MPICH those of `use mpi_f08` without a buffer, which includes all waits and tests. Such
//! calls would bypass this library. So the table of imported functions of such an object is changed:
//! instead of `PMPI_Wait` it gets this library's `MPI_Wait`. Other callers of the profiling interface
//! still reach MPI: tools, the checkpoint library, and this one.
//!
//! This is done when this library is loaded, for the objects that the program is linked with, and again
//! by `MPI_Init`. An interface that is loaded later may have made unseen calls: then parts are refused.

mod module;
mod object;

use std::ffi::{c_void, CStr};
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use object::{ImportSlot, LoadedObject};

pub use module::VELOC_Fortran_refuse_part;

/// A function that every interface calls, under one of its names.
const RECEIVE: [&CStr; 2] = [c"MPI_Recv", c"PMPI_Recv"];

/// Runs [`redirect`] when this library is loaded.
#[cfg(not(test))]
#[used]
#[link_section = ".init_array"]
static AT_LOAD: extern "C" fn() = redirect;

/// Redirects the loaded Fortran interfaces to this library.
pub extern "C" fn redirect() {
    let interfaces = LoadedObject::loaded(is_interface);
    if interfaces.is_empty() {
        return;
    }
    let own = OwnLibrary::find();
    for interface in interfaces {
        let wrong = own.missed(&interface);
        // Failures are found by `check`.
        let _ = interface.change(&wrong);
    }
}

/// Checks that the calls of all Fortran interfaces reach this library, and names one whose calls do not.
///
/// # Errors
/// The calls of an interface do not; its name.
pub fn check() -> Result<(), String> {
    let interfaces = LoadedObject::loaded(is_interface);
    let Some(first) = interfaces.first() else { return Ok(()) };
    let own = OwnLibrary::find();
    if let Some(late) = interfaces.iter().find(|interface| !own.missed(interface).is_empty()) {
        return Err(format!(
            "{}, an interface of MPI for Fortran, has made calls that were not seen: it has to be \
             linked with the program, or loaded before MPI_Init is called from C",
            late.name()
        ));
    }
    let receives = |slot: &ImportSlot| RECEIVE.contains(&slot.name);
    if !interfaces.iter().any(|interface| interface.slots().iter().any(receives)) {
        let name = first.name();
        return Err(format!(
            "the calls of {name}, an interface of MPI for Fortran, cannot be seen"
        ));
    }
    Ok(())
}

/// Whether `path` has the name of a Fortran interface: `libmpi_mpifh.so.40`, `libmpi_usempif08.so.40`,
/// `libmpichfort.so.12`, `libmpifort.so.12`.
fn is_interface(path: &[u8]) -> bool {
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let has = |part: &[u8]| file.windows(part.len()).any(|bytes| bytes == part);
    file.starts_with(b"libmpi") && (has(b"fort") || has(b"mpifh") || has(b"usempi"))
}

/// This library's base address.
struct OwnLibrary {
    handle: *mut c_void,
}

impl OwnLibrary {
    fn find() -> OwnLibrary {
        // SAFETY: numbers and null pointers only.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: an address in this library, and a struct of ours.
        let known = unsafe { libc::dladdr(redirect as *const c_void, &mut info) };
        if known == 0 || info.dli_fname.is_null() {
            return OwnLibrary { handle: std::ptr::null_mut() };
        }
        // SAFETY: a string of the loader. This library is loaded already, and stays.
        let handle = unsafe { libc::dlopen(info.dli_fname, libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        OwnLibrary { handle }
    }

    /// The slots in which an interface imports a profiling function that this library defines, with that
    /// function.
    fn missed(&self, interface: &LoadedObject) -> Vec<(ImportSlot, NonNull<c_void>)> {
        let of = |slot: ImportSlot| {
            let own = self.function(slot.name)?;
            (slot.at.load(Ordering::Relaxed) != own.as_ptr()).then_some((slot, own))
        };
        interface.slots().into_iter().filter_map(of).collect()
    }

    /// This library's function for one of the profiling interface.
    fn function(&self, name: &CStr) -> Option<NonNull<c_void>> {
        let name = name.to_bytes_with_nul().strip_prefix(b"P")?;
        if self.handle.is_null() || !name.starts_with(b"MPI") {
            return None;
        }
        // SAFETY: a handle that is not closed. The only library that this one depends on, the C library,
        // defines no MPI.
        NonNull::new(unsafe { libc::dlsym(self.handle, name.as_ptr().cast()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interfaces() {
        for (path, is_one) in [
            ("/usr/lib/libmpi_mpifh.so.40", true),
            ("/usr/lib/libmpi_usempif08.so.40", true),
            ("/usr/lib/libmpi_usempi_ignore_tkr.so.40", true),
            ("libmpi_ibm_mpifh.so.3", true),
            ("/usr/lib/libmpichfort.so.12", true),
            ("/opt/libmpifort_gnu_91.so.12", true),
            ("/usr/lib/libmpi.so.40", false),
            ("/usr/lib/libmpich.so.12", false),
            ("/opt/libmpi_mpifh/libc.so.6", false),
            ("", false),
        ] {
            assert_eq!(is_interface(path.as_bytes()), is_one, "{path}");
        }
    }

    #[test]
    fn without_an_interface_there_is_nothing_to_miss() {
        assert_eq!(check(), Ok(()));
    }
}
