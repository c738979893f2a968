//! Catches panics of this library, which must not reach C, where they would abort the process.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// A panic that was caught.
pub(crate) struct Caught(Box<dyn Any + Send>);

impl Caught {
    /// The panic's message.
    #[cold]
    pub(crate) fn text(&self) -> String {
        let said = self.0.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let said = said.or_else(|| self.0.downcast_ref::<String>().cloned()).unwrap_or_default();
        format!("the library panicked, and nothing can be logged or replayed any more: {said}")
    }
}

/// Runs `body`. After a panic, the data it was changing must not be used any more.
///
/// # Errors
/// The panic.
#[inline(always)]
pub(crate) fn caught<T>(body: impl FnOnce() -> T) -> Result<T, Caught> {
    catch_unwind(AssertUnwindSafe(body)).map_err(Caught)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_with_its_text() {
        let text = |body: fn() -> i32| caught(body).map_err(|panic| panic.text());
        assert_eq!(text(|| 7), Ok(7));
        let error = text(|| panic!("place {} of none", 3)).unwrap_err();
        assert!(error.contains("panicked") && error.contains("place 3 of none"), "{error}");
        let error = text(|| panic!("plainly")).unwrap_err();
        assert!(error.contains("plainly"), "{error}");
    }
}
