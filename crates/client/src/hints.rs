//! The application's hints about its next reads.

use super::{check_name, Client};
use errors::{Kind, Result};

impl Client {
    /// Hints that this checkpoint will be read after those hinted before. A checkpoint that is
    /// still to be taken has the hint from its end on.
    ///
    /// # Errors
    /// The name or the version is invalid.
    pub fn prefetch_enqueue(&mut self, name: &str, version: i32) -> Result<()> {
        check_name(name, version)?;
        // A checkpoint that is in a file is prefetched only if the engine knows it.
        let found = self.engine.restores().find(name, version, |id| self.regions.of(name).part(id));
        if let Some(error) = found.err().filter(|error| error.kind() != Kind::NotFound) {
            self.engine.files().warnings().once(format!(
                "what is hinted as \"{name}\" version {version} is of no use until it is taken: {error}"
            ));
        }
        self.engine.order().hint(name, version);
        Ok(())
    }

    /// Lets prefetching begin.
    pub fn prefetch_start(&mut self) {
        self.engine.order().start_fetching();
    }

    /// Whether a region of a checkpoint is wholly in the device cache.
    pub fn is_prefetched(&self, name: &str, version: i32, region: i32) -> Result<bool> {
        check_name(name, version)?;
        Ok(self.engine.checkpoints().is_on_device(name, version, region))
    }

    /// Logs how many hints were of no use, at the end of the job: a name may be misspelt.
    pub(super) fn tell_of_vain_hints(&self) {
        if let Some((name, version, count)) = self.engine.order().hinted_in_vain() {
            log::info!(
                "hinted and never there: {count} checkpoints, one of them \"{name}\" version {version}"
            );
        }
    }
}
