//! The application's hints about its next reads.

use super::regions::Regions;
use engine::Engine;
use errors::{ErrorKind, Result};
use format::names;

/// The order of the next reads.
#[derive(Clone, Copy, Debug)]
pub struct Hints<'a> {
    pub(super) engine: &'a Engine,
    pub(super) regions: &'a Regions,
}

impl Hints<'_> {
    /// Hints that this checkpoint will be read after those hinted before. A checkpoint that is
    /// still to be taken has the hint from its end on.
    ///
    /// # Errors
    /// The name or the version is invalid.
    pub fn enqueue(&self, name: &str, version: i32) -> Result<()> {
        names::validate(name, version)?;
        // A checkpoint that is in a file is prefetched only if the engine knows it.
        let found = self.engine.restores().find(name, version, |id| self.regions.of(name).part(id));
        if let Some(error) = found.err().filter(|error| error.kind() != ErrorKind::NotFound) {
            self.engine.files().warnings().once(format!(
                "the hint \"{name}\" version {version} has no effect until that checkpoint is taken: {error}"
            ));
        }
        self.engine.order().hint(name, version);
        Ok(())
    }

    /// Lets prefetching begin.
    pub fn start(&self) {
        self.engine.order().start_fetching();
    }

    /// Whether a region of a checkpoint is wholly in the device cache.
    pub fn is_prefetched(&self, name: &str, version: i32, region: i32) -> Result<bool> {
        names::validate(name, version)?;
        Ok(self.engine.checkpoints().is_on_device(name, version, region))
    }

    /// Reserves so many places in the order of the next reads, and returns the first.
    pub fn reserve(&self, places: u64) -> u64 {
        self.engine.order().reserve_hints(places)
    }

    /// Says at which place in that order a version will be read. With `reads`, versions with a
    /// place are prefetched from now on.
    pub fn expect(&self, name: &str, version: i32, place: Option<u64>, reads: bool) {
        self.engine.order().expect_reads(name, &[(version, place)], reads);
    }

    /// Says at which place each of several versions of a name will be read. Said at once, so that
    /// none is prefetched before it is known which is the first.
    pub fn expect_all(&self, name: &str, places: &[(i32, u64)]) {
        let places: Vec<_> =
            places.iter().map(|(version, place)| (*version, Some(*place))).collect();
        self.engine.order().expect_reads(name, &places, true);
    }

    /// Logs how many hints were of no use, at the end of the job: a name may be misspelt.
    pub(super) fn tell_of_vain(&self) {
        if let Some((name, version, count)) = self.engine.order().hinted_in_vain() {
            log::info!(
                "hints of checkpoints that never existed: {count}, one of them \"{name}\" version {version}"
            );
        }
    }
}
