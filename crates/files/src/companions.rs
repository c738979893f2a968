//! What a checkpoint's file may have beside it in scratch: a note that it is the application's own, and parities.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::places::Places;
use errors::Result;
use os::files;

/// Which companions a checkpoint's file may have in scratch. Those that cannot be there are not
/// looked for: small checkpoints cost what their system calls do.
#[derive(Debug)]
pub(super) struct SeenCompanions {
    notes: AtomicBool,
    parities: AtomicBool,
}

impl SeenCompanions {
    /// Every companion may be there.
    pub(super) fn any() -> SeenCompanions {
        SeenCompanions { notes: AtomicBool::new(true), parities: AtomicBool::new(true) }
    }

    /// No companion is there, as long as none is seen.
    pub(super) fn none() -> SeenCompanions {
        SeenCompanions { notes: AtomicBool::new(false), parities: AtomicBool::new(false) }
    }

    /// From here on there may be parities.
    pub(super) fn expect_parities(&self) {
        self.parities.store(true, Ordering::Relaxed);
    }

    /// So much is there.
    pub(super) fn set(&self, notes: bool, parities: bool) {
        self.notes.store(notes, Ordering::Relaxed);
        self.parities.store(parities, Ordering::Relaxed);
    }
}

/// The companions of files in scratch.
#[derive(Debug)]
pub(super) struct Companions {
    places: Arc<Places>,
    seen: Arc<SeenCompanions>,
}

impl Companions {
    /// The companions in these places, of which so much was `seen`.
    pub(super) fn new(places: Arc<Places>, seen: Arc<SeenCompanions>) -> Companions {
        Companions { places, seen }
    }

    /// Writes the note that a checkpoint is a file of the application's own, which has no header.
    pub(super) fn note_routed(&self, name: &str, version: i32, original: &str) -> Result<()> {
        self.seen.notes.store(true, Ordering::Relaxed);
        let note = self.places.routed_note(name, version)?;
        let temporary = self.places.temporary(&note);
        let file = files::create(&temporary)?;
        files::write_all_at(&file, original.as_bytes(), 0, &temporary)?;
        self.places.seal_file(&file, &temporary)?;
        files::atomic_replace(&temporary, &note, self.places.scratch_durability())
    }

    pub(super) fn remove_note(&self, name: &str, version: i32) -> Result<()> {
        if self.seen.notes.load(Ordering::Relaxed) {
            files::remove(&self.places.routed_note(name, version)?)?;
        }
        Ok(())
    }

    pub(super) fn remove_parity(&self, name: &str, version: i32) -> Result<()> {
        if self.seen.parities.load(Ordering::Relaxed) {
            files::remove(&self.places.parity_path(name, version)?)?;
        }
        Ok(())
    }
}
