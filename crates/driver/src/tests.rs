//! Libraries that the test's own process has, and has not, loaded.

use std::cell::Cell;

use super::*;
use crate::cuda::{Failure, Status};

const NONE: &CStr = c"libno-such-library.so.1";
const C: &CStr = c"libc.so.6";

#[test]
fn a_loaded_library_is_found_with_its_functions() {
    assert!(LoadedLibrary::find(NONE).is_none());
    let library = LoadedLibrary::find(C);
    // SAFETY: the C library's declaration.
    let pid = library.and_then(|c| unsafe { c.function::<extern "C" fn() -> c_int>(c"getpid") });
    assert_eq!(pid.map(|pid| pid() as u32), Some(std::process::id()));
    // SAFETY: there is none to be declared otherwise.
    let none = library.and_then(|c| unsafe { c.function::<extern "C" fn()>(c"no_such_function") });
    assert!(none.is_none());
}

/// Catches a look for each call, and one that is not repeated when a library has come.
#[test]
fn a_library_is_looked_for_when_one_was_loaded() {
    let lazy = LazyLibrary::<u32, String>::new();
    let made = Cell::new(0);
    let look = |soname| {
        lazy.get_or_find(soname, |_| {
            made.set(made.get() + 1);
            Ok(Some(7))
        })
    };
    assert_eq!(look(NONE), Ok(None));
    // Nothing was loaded since, and so nothing is looked for.
    let before = loaded_count();
    let again = look(C);
    assert!(again == Ok(None) || loaded_count() != before);
    lazy.searched_at.store(0, Ordering::Relaxed);
    assert_eq!((look(C), lazy.get()), (Ok(Some(&7)), Some(&7)));
    assert_eq!((look(C), made.get()), (Ok(Some(&7)), 1));
}

#[test]
fn a_library_that_does_not_serve_never_does() {
    let lazy = LazyLibrary::<u32, String>::new();
    let look = |made: Result<_, &str>| lazy.get_or_find(C, |_| made.map_err(str::to_owned));
    assert_eq!(look(Err("why")), Err("why".to_owned()));
    lazy.searched_at.store(0, Ordering::Relaxed);
    assert_eq!((look(Ok(Some(7))), lazy.get()), (Err("why".to_owned()), None));
    // One that is of no use may be later.
    let other = LazyLibrary::<u32, String>::new();
    assert_eq!(other.get_or_find(C, |_| Ok(None)), Ok(None));
    other.searched_at.store(0, Ordering::Relaxed);
    assert_eq!(other.get_or_find(C, |_| Ok(Some(7))), Ok(Some(&7)));
}

crate::driver_of_functions! {
    /// A driver of one function, which the C library has.
    struct Labs;
    calls fail with Failure;
    /// Returns what it gets.
    labs(status: i64);
}

crate::driver_of_functions! {
    /// A driver that the C library is not.
    struct Cuda;
    calls fail with Failure;
    /// Returns what it gets.
    labs(status: i64);
    /// Initialises the driver.
    cuInit(flags: u32);
}

#[test]
fn a_driver_is_found_by_its_functions_and_says_what_failed() {
    let Some(library) = LoadedLibrary::find(C) else {
        unreachable!("every program has the C library")
    };
    let call = |cuda: Cuda| {
        // SAFETY: functions of numbers.
        unsafe { cuda.labs(0).and(cuda.cuInit(0)).is_ok() }
    };
    assert_eq!(Cuda::find(library).map(call), Err("cuInit"));
    let driver = Labs::find(library).map_err(str::to_owned);
    // SAFETY: a function of a number.
    let call = |status: Status| unsafe {
        driver.as_ref().map(|driver| driver.labs(i64::from(status)).map_err(|f| f.to_string()))
    };
    assert_eq!(call(0), Ok(Ok(())));
    assert_eq!(call(700), Ok(Err("labs failed: unknown error (700)".to_owned())));
    assert!(driver.is_ok_and(|driver| !driver.extras.is_software()));
}
