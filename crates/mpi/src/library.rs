//! Finds the MPI library that the process has loaded, and its symbols.

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::ptr::NonNull;

use super::abi::{Abi, Constant};

/// `int MPI_Abi_get_version(int *major, int *minor)`.
type AbiGetVersion = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;

/// `int MPI_Get_library_version(char *version, int *len)`.
type GetLibraryVersion = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;

/// The sonames of MPI libraries: Open MPI, MPICH and the standard ABI.
const NAMES: [&CStr; 6] = [
    c"libmpi.so.40",
    c"libmpi.so.12",
    c"libmpich.so.12",
    c"libmpi_abi.so.1",
    c"libmpi_abi.so.0",
    c"libmpi.so",
];

/// The loaded MPI library. It stays loaded until the process ends.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// `RTLD_DEFAULT`, or the library's handle if it is not in the global scope.
    scope: *mut c_void,
}

impl Library {
    /// The MPI library of this process, if it has one. A statically linked MPI whose symbols are not
    /// exported cannot be found.
    pub fn find() -> Option<Library> {
        // The global scope comes first: a position-dependent executable has its own copies of Open MPI's
        // variables, and only that lookup gives their addresses.
        let global = Library { scope: libc::RTLD_DEFAULT };
        if global.is_mpi() {
            return Some(global);
        }
        loaded_objects().iter().find_map(|path| {
            // Python may load MPI with local scope. This loads nothing: the object is loaded already, or
            // not found.
            // SAFETY: a string that ends with a null byte; no initializer runs for an object that
            // is loaded already.
            let scope = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
            // The handle is never closed, so that the symbols stay valid.
            let local = Library { scope };
            (!scope.is_null() && local.is_mpi()).then_some(local)
        })
    }

    /// Loads the MPI libraries that the loader finds under their usual names, for tools that show what a
    /// program would use. Each is listed once, under the first name.
    pub fn load_all() -> Vec<(&'static CStr, Library)> {
        let mut found: Vec<(&CStr, Library)> = Vec::new();
        for name in NAMES {
            // SAFETY: a string that ends with a null byte. What MPI libraries do when they are
            // loaded, they do in every program that is linked with them.
            let scope = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL) };
            let library = Library { scope };
            if scope.is_null() || !library.is_mpi() {
                continue;
            }
            let place = |library: &Library| library.symbol(c"MPI_Initialized");
            if found.iter().all(|(_, other)| place(other) != place(&library)) {
                found.push((name, library));
            }
        }
        found
    }

    /// The library's description of itself in one line, if it has one.
    pub fn version(&self) -> Option<String> {
        let get_version = self.symbol(c"MPI_Get_library_version")?;
        // SAFETY: this is how the standard declares the function of that name.
        let get_version: GetLibraryVersion = unsafe { std::mem::transmute(get_version.as_ptr()) };
        // More than any library's MPI_MAX_LIBRARY_VERSION_STRING.
        let mut text = vec![0u8; 16 << 10];
        let mut len = 0;
        // SAFETY: the buffer has room for the longest text. The function may be called at any time,
        // also before MPI_Init.
        if unsafe { get_version(text.as_mut_ptr().cast(), &mut len) } != 0 {
            return None;
        }
        let text = CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy();
        text.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
    }

    /// The address of the function or variable `name`.
    pub fn symbol(&self, name: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: `scope` is RTLD_DEFAULT or a handle that is never closed, `name` ends with a
        // null byte.
        NonNull::new(unsafe { libc::dlsym(self.scope, name.as_ptr()) })
    }

    /// The value of a predefined handle.
    pub fn constant(&self, constant: Constant) -> Option<usize> {
        match constant {
            Constant::Value(bits) => Some(bits),
            Constant::Address(name) => self.symbol(name).map(|at| at.as_ptr() as usize),
        }
    }

    /// The library's binary interface.
    pub fn abi(&self) -> Abi {
        if self.abi_major().is_some_and(|major| major > 0) {
            Abi::Standard
        } else if self.symbol(c"ompi_mpi_comm_self").is_some() {
            Abi::OpenMpi
        } else {
            Abi::Mpich
        }
    }

    /// The version of the standard ABI, if the library has it. Libraries that also exist with the
    /// standard ABI (MPICH 5) return -1 in their own form.
    fn abi_major(&self) -> Option<c_int> {
        let get_version = self.symbol(c"MPI_Abi_get_version")?;
        // SAFETY: this is how the standard declares the function of that name.
        let get_version: AbiGetVersion = unsafe { std::mem::transmute(get_version.as_ptr()) };
        let (mut major, mut minor) = (-1, -1);
        // SAFETY: two integers that are ours to write to. The function may be called at any time,
        // also before MPI_Init.
        let code = unsafe { get_version(&mut major, &mut minor) };
        (code == 0).then_some(major)
    }

    fn is_mpi(&self) -> bool {
        self.symbol(c"MPI_Initialized").is_some()
    }
}

/// The paths of loaded objects with names of MPI libraries.
fn loaded_objects() -> Vec<CString> {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        paths: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader hands in a valid description, and back the pointer that it was given,
        // which is to the vector below, used by nobody else meanwhile.
        let (info, paths) = unsafe { (&*info, &mut *paths.cast::<Vec<CString>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: the loader's names end with a null byte.
            let path = unsafe { CStr::from_ptr(info.dlpi_name) };
            if is_mpi_path(path) {
                paths.push(path.to_owned());
            }
        }
        0
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: `visit` fits the declaration and gets the vector, which outlives the call. It loads
    // nothing and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(visit), std::ptr::from_mut(&mut paths).cast()) };
    paths
}

/// Whether `path` has the name of an MPI library: `libmpi.so.40`, `libmpich.so.12`, `libmpi_abi.so.1`,
/// `libmpi_gnu_91.so.12`.
fn is_mpi_path(path: &CStr) -> bool {
    let path = path.to_bytes();
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    file.starts_with(b"libmpi") && file.windows(3).any(|part| part == b".so")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_none_in_this_process() {
        assert!(Library::find().is_none());
    }

    #[test]
    fn names_of_libraries() {
        for (path, is_mpi) in [
            (c"/usr/lib/libmpi.so.40", true),
            (c"/opt/mpich/lib/libmpich.so.12", true),
            (c"libmpi_abi.so.1", true),
            (c"/opt/cray/lib/libmpi_gnu_91.so.12", true),
            (c"/usr/lib/libc.so.6", false),
            (c"/opt/libmpi/lib/libc.so.6", false),
            (c"/usr/bin/libmpi-tool", false),
            (c"", false),
        ] {
            assert_eq!(is_mpi_path(path), is_mpi, "{path:?}");
        }
    }

    #[test]
    fn symbols_are_found_or_not() {
        let global = Library { scope: libc::RTLD_DEFAULT };
        assert!(global.symbol(c"malloc").is_some());
        assert!(global.symbol(c"MPI_no_such_function").is_none());
        assert_eq!(global.constant(Constant::Value(7)), Some(7));
        assert_eq!(global.constant(Constant::Address(c"ompi_no_such_variable")), None);
        // Only the C library is loaded: no object is MPI.
        assert!(loaded_objects().is_empty());
    }
}
