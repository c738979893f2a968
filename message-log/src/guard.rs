//! Panics of this library: none crosses to C, where it would end the process.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Runs `body`. An error text if it panics; what it was working on must not be used then.
#[inline]
pub fn caught<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(body)).map_err(text_of)
}

#[cold]
fn text_of(panic: Box<dyn Any + Send>) -> String {
    let said = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let said = said.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    format!("the library panicked, and nothing can be logged or replayed any more: {said}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        assert_eq!(caught(|| 7), Ok(7));
        let error = caught(|| -> i32 { panic!("place {} of none", 3) }).unwrap_err();
        assert!(error.contains("panicked") && error.contains("place 3 of none"), "{error}");
        let error = caught(|| -> i32 { panic!("plainly") }).unwrap_err();
        assert!(error.contains("plainly"), "{error}");
    }
}
