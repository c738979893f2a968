//! The interface between the checkpoint library (`libveloc-client.so`) and the message log
//! (`libveloc-mpi.so`): two tables of C functions, one per library. The libraries are not linked with
//! each other; each finds the other's table by a function name if both are in a process. Both are
//! compiled with these declarations, and different builds are told apart by the table's version.
//!
//! | file | owns |
//! | --- | --- |
//! | [`log`] | the log as an object in checkpoints, implemented by `libveloc-mpi.so` |
//! | [`scratch`] | scratch files for a log beyond its memory limit, implemented by the checkpoint
//! library |
//! | [`reason`] | how a function of a table reports its error |

use std::ffi::{c_int, CStr};

pub mod log;
pub mod reason;
pub mod scratch;

/// The result of looking up a table.
#[derive(Clone, Copy, Debug)]
pub enum TableLookup<T: 'static> {
    /// The other library is not in this process.
    Nothing,
    /// The table has another version and cannot be used.
    Other,
    /// The table.
    Table(&'static T),
}

/// Looks up the table of a version by the function that returns it.
///
/// # Safety
/// A function of that name takes a version, and returns null or such a table, which stays valid.
unsafe fn find<T>(name: &CStr, interface: c_int) -> TableLookup<T> {
    // SAFETY: the name ends with its only null byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return TableLookup::Nothing;
    }
    // SAFETY: by the caller's promise.
    let function: extern "C" fn(c_int) -> *const T = unsafe { std::mem::transmute(found) };
    // SAFETY: as above.
    unsafe { function(interface).as_ref() }.map_or(TableLookup::Other, TableLookup::Table)
}

/// The table if the version matches, else null.
pub fn give<T>(table: &'static T, asked: c_int, interface: c_int) -> *const T {
    match asked == interface {
        true => table,
        false => std::ptr::null(),
    }
}

/// The size of a table: a change of its functions requires a new version.
const fn functions(count: usize) -> usize {
    count * size_of::<fn()>()
}

const _: () = assert!(log::INTERFACE == 3 && size_of::<log::Log>() == functions(6));
const _: () =
    assert!(scratch::INTERFACE == 1 && size_of::<scratch::ScratchTable>() == functions(1));

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a table out of nothing, and one of another version that is accepted.
    #[test]
    fn a_table_is_there_or_not() {
        assert!(
            matches!(log::find(), TableLookup::Nothing)
                && matches!(scratch::find(), TableLookup::Nothing)
        );
        static SEVEN: u64 = 7;
        assert_eq!(give(&SEVEN, 2, 2), &raw const SEVEN);
        assert!(give(&SEVEN, 1, 2).is_null());
    }
}
