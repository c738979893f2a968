//! Calls that panic, and a restart of what another job has left.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::callbacks::{Object, WrittenBytes};
use super::regions::ProtectedMemory;
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
    fn write(&self) -> Result<WrittenBytes> {
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

/// Catches a file of an earlier job that its restore has proven and that is read again for its checksum, and a restore that
/// counts twice.
#[test]
fn what_a_restart_has_proven_is_known() {
    let directory = tempfile::tempdir().unwrap();
    let text = format!(
        "mode = sync\nscratch = {0}/s\nmeta = {0}/m\nchksum = true\n",
        directory.path().display()
    );
    let start = |state: &mut [u8]| {
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let mut client = Client::start_single(config, 0).unwrap();
        let memory = ProtectedMemory::new(4, state.as_mut_ptr() as u64, state.len(), 1).unwrap();
        client.protecting().protect(None, 4, memory).unwrap();
        client
    };
    let mut state = vec![7_u8; 1000];
    let mut first = start(&mut state);
    first.checkpoint("x", 1).unwrap();
    first.finish(true).unwrap();
    state.fill(0);
    let mut second = start(&mut state);
    let known = |client: &Client| client.engine().checkpoints().known("x", 1).is_some();
    assert!(!known(&second));
    second.restart("x", 1, None).unwrap();
    assert!(known(&second) && state.iter().all(|byte| *byte == 7));
    assert_eq!(second.engine().checkpoints().counts().0.restores, 1);
}
