//! Checkpoints whose versions a caller manages one by one: the states of an adjoint computation, of
//! which each is a version. They carry a region of their manager's ([`format::mark`]), no limit of
//! versions applies to them, and each is restored and removed by this process alone: no call here
//! is collective. Lost versions are rebuilt by [`collective::Search::regain`].

use super::regions::ProtectedMemory;
use super::{Client, Phase, Selection};
use errors::{Error, Result};
use format::names;
use trace::Activity;

/// Takes and restores such checkpoints.
#[derive(Debug)]
pub struct Marked<'a> {
    pub(super) client: &'a mut Client,
}

impl Marked<'_> {
    /// Checks that nothing is open, and that the name is valid.
    pub fn check_idle(&self, name: &str) -> Result<()> {
        names::validate_name(name).and_then(|()| self.client.phase.must_be_idle())
    }

    /// Takes a marked checkpoint that will be read at `place`, or never.
    pub fn take(
        &mut self,
        name: &str,
        version: i32,
        place: Option<u64>,
        reads: bool,
    ) -> Result<()> {
        let trace = self.client.engine.trace().clone();
        let _span = trace.span(Activity::Checkpoint).of(name, version);
        self.client.begin(name, version)?;
        self.client.take_all(true)?;
        self.client.hints().expect(name, version, place, reads);
        Ok(())
    }

    /// Begins as many rounds and gatherings as the process that has begun `most`, which took
    /// checkpoints that this one does not take.
    pub fn even(&mut self, most: [u64; 2]) {
        if let Some(agreement) = self.client.processes.agreement_mut() {
            agreement.even(&self.client.engine, most);
        }
    }

    /// Reads the manager's region of a version, and nothing else. Returns whether there is one: a
    /// version without it is the application's own.
    ///
    /// # Errors
    /// [`errors::ErrorKind::Invalid`] if the version's other regions are not those that are protected for the
    /// name, with the same sizes. Others if there is no good copy.
    pub fn read(&mut self, name: &str, version: i32) -> Result<bool> {
        self.open_own(name, version)?;
        let (is_marked, read) = match &self.client.phase {
            Phase::Restart { restoring, .. } => match restoring.mark {
                None => (false, Ok(())),
                Some(mark) => {
                    let protected = self.client.protection.regions.of(name);
                    let checked = protected.check_stored(&restoring.regions, mark);
                    let about = |error: Error| {
                        error.within(format!("checkpoint \"{name}\" version {version}"))
                    };
                    let read = checked
                        .map_err(about)
                        .and_then(|()| self.client.recover(&Selection::Some(vec![mark])));
                    (true, read)
                }
            },
            _ => (true, Ok(())),
        };
        let ended = self.client.restart_end(false);
        read.and(ended).map(|()| is_marked)
    }

    /// Restores a version. `next` is the place at which it will be read again. `in_order`: copies of device memory may
    /// stand in the order of the application's stream, as nobody looks at them before.
    pub fn restore(
        &mut self,
        name: &str,
        version: i32,
        next: Option<u64>,
        in_order: bool,
    ) -> Result<()> {
        let trace = self.client.engine.trace().clone();
        let _span = trace.span(Activity::Restore).of(name, version);
        self.open_own(name, version)?;
        // Memory that is restored again and again is checked once.
        let recovered =
            self.client.recover_checked(&Selection::All, in_order, ProtectedMemory::was_writable);
        let Phase::Restart { restoring, .. } = self.client.phase.take() else {
            return recovered;
        };
        self.client.engine.restores().end_restore_expecting(restoring, recovered.is_ok(), next);
        recovered
    }

    pub(super) fn open_own(&mut self, name: &str, version: i32) -> Result<()> {
        names::validate(name, version).and_then(|()| self.client.phase.must_be_idle())?;
        let part_of = |id| self.client.protection.regions.of(name).part(id);
        let restoring = self.client.engine.restores().begin_restore(name, version, part_of)?;
        self.client.phase = Phase::Restart { restoring, pieces: None };
        Ok(())
    }
}
