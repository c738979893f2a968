//! Calls that panic.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::callbacks::{Object, Written};
use super::{Client, Selection, Verdict};
use config::Config;
use errors::Result;

/// An object whose bytes nobody gets as long as it is `broken`.
#[derive(Debug, Default)]
struct Fragile {
    broken: AtomicBool,
}

impl Fragile {
    fn check(&self) {
        assert!(!self.broken.load(Ordering::Relaxed), "as a fault of the library would");
    }
}

impl Object for Fragile {
    fn write(&self) -> Result<Written> {
        self.check();
        Ok(Box::new([1u8, 2, 3]))
    }

    fn read(&self, _: &[u8]) -> Result<Option<String>> {
        self.check();
        Ok(None)
    }
}

/// Catches a checkpoint or restart that the application has never opened and that stays open after a
/// call has panicked, so that every later call is refused; and one that the application has opened, and
/// that is closed for it.
#[test]
fn a_call_that_panics_leaves_open_what_was_open() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!("mode = sync\nscratch = {}\n", directory.path().display());
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let mut client = Client::start_single(config, 0).unwrap();
    let object = Arc::new(Fragile::default());
    client.protecting().protect_object(None, 1, object.clone()).unwrap();
    let mut call = |breaks: bool, body: &dyn Fn(&mut Client) -> Result<()>| {
        object.broken.store(breaks, Ordering::Relaxed);
        let done = catch_unwind(AssertUnwindSafe(|| client.call(body)));
        assert_eq!(done.is_err(), breaks);
        done.map_or(Ok(()), |done| done)
    };
    call(true, &|client| client.checkpoint("x", 1)).unwrap();
    call(false, &|client| client.checkpoint("x", 1)).unwrap();
    call(true, &|client| client.restart("x", 1, None)).unwrap();
    call(false, &|client| client.cleanup("x")).unwrap();
    call(false, &|client| client.checkpoint_begin("x", 2)).unwrap();
    call(true, &|client| client.checkpoint_mem(&Selection::All)).unwrap();
    call(false, &|client| client.checkpoint_mem(&Selection::All)).unwrap();
    call(false, &|client| client.checkpoint_end(Verdict::Taken).map(drop)).unwrap();
    call(false, &|client| client.restart("x", 2, None)).unwrap();
}
