//! What the checkpoint library (`libveloc-client.so`) and the log of messages (`libveloc-mpi.so`)
//! have of each other: two tables of C functions, one of either library. They are not linked with
//! each other; each finds the other's table by the name of the function that gives it, in whichever
//! process both are. What is declared here, both are compiled with, so neither can take the other for
//! something else than it is; two of different builds are told apart by the version of the table.
//!
//! | file | owns |
//! | --- | --- |
//! | [`log`] | the log as an object of checkpoints: `libveloc-mpi.so` has it |
//! | [`scratch`] | files for what the log has no memory for: the checkpoint library makes them |
//! | [`reason`] | how a function of a table says why it has failed |

use std::ffi::{c_int, CStr};

pub mod log;
pub mod reason;
pub mod scratch;

/// What is found under a table's name.
#[derive(Clone, Copy, Debug)]
pub enum Found<T: 'static> {
    /// Nothing: the other library is not in this process.
    Nothing,
    /// One of another version, which is of no use.
    Other,
    /// The table.
    Table(&'static T),
}

/// The table that the function of this name gives for a version.
///
/// # Safety
/// A function of that name takes a version and returns null or such a table, which stays.
unsafe fn find<T>(name: &CStr, interface: c_int) -> Found<T> {
    // SAFETY: the name ends with its only null byte.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        return Found::Nothing;
    }
    // SAFETY: by the caller's promise.
    let function: extern "C" fn(c_int) -> *const T = unsafe { std::mem::transmute(found) };
    // SAFETY: as above.
    unsafe { function(interface).as_ref() }.map_or(Found::Other, Found::Table)
}

/// The table, for who asks for this version: null for another one.
pub fn give<T>(table: &'static T, asked: c_int, interface: c_int) -> *const T {
    match asked == interface {
        true => table,
        false => std::ptr::null(),
    }
}

/// A table's size, which changes with its functions: whoever changes it changes the version.
const fn functions(count: usize) -> usize {
    count * size_of::<fn()>()
}

const _: () = assert!(log::INTERFACE == 3 && size_of::<log::Log>() == functions(6));
const _: () = assert!(scratch::INTERFACE == 1 && size_of::<scratch::Scratch>() == functions(1));

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a table that is found where there is none, and one of another version that is believed.
    #[test]
    fn a_table_is_there_or_not() {
        assert!(matches!(log::find(), Found::Nothing) && matches!(scratch::find(), Found::Nothing));
        static SEVEN: u64 = 7;
        assert_eq!(give(&SEVEN, 2, 2), &raw const SEVEN);
        assert!(give(&SEVEN, 1, 2).is_null());
    }
}
