//! Ending a job: what it waits for, and which threads must stop.

use std::time::Instant;

use super::lifecycle::Engine;
use super::prepare;
use super::shared::Shared;
use catalog::state::State;
use errors::{Error, Kind, Result};
use trace::metrics::Cause;
use trace::Activity;

impl Shared {
    /// The process ends without VELOC_Finalize: stops the workers without waiting for them, removes what an ephemeral
    /// job has written, and says so if others lose checkpoints.
    pub fn leave(&self) {
        if self.would_lose() {
            log::warn!(
                "the process ends without VELOC_Finalize: checkpoints that have not reached their \
                 files are lost"
            );
        }
        self.stop();
        if self.config.ephemeral {
            if let Err(error) = self.files.remove_unnamed() {
                log::warn!("{error}");
            }
        }
        self.remove_spilled();
        self.trace.finish();
    }

    fn remove_spilled(&self) {
        for (name, version) in self.catalog.read(State::spilled) {
            if let Err(error) = self.files.remove_scratch(&name, version, None) {
                log::warn!("{error}");
            }
        }
    }
}

impl Engine {
    /// Waits until nothing is being flushed, written or persisted. Failed steps are retried first. Reports
    /// the oldest unreported background failure.
    pub fn drain(&self) -> Result<()> {
        let _span = self.trace.span(Activity::Drain);
        let since = Instant::now();
        self.catalog.step(State::retry);
        let waited = self.catalog.wait_drained();
        self.prune_all();
        self.metrics.waited(Cause::Drain, since);
        match self.catalog.step(State::take_failure) {
            Some(error) => Err(error),
            None => waited,
        }
    }

    /// Waits until nothing is on its way to files. Failures stay to be reported.
    ///
    /// # Errors
    /// The engine has stopped.
    pub fn settle(&self) -> Result<()> {
        let since = Instant::now();
        let waited = self.catalog.wait_drained();
        self.metrics.waited(Cause::Drain, since);
        waited
    }

    /// Waits until the remaining writes do not need this process: until veloc-backend has them or, without
    /// one, until they are done.
    ///
    /// # Errors
    /// The errors of [`Engine::drain`].
    pub fn hand_over(&self) -> Result<()> {
        if self.hands_over() {
            return self.hand_memory_over();
        }
        let nothing_left = |state: &State| state.drained() && state.unwritten().is_none();
        if self.config.ephemeral || self.catalog.read(nothing_left) {
            return Ok(());
        }
        if self.has_successor() {
            let _span = self.trace.span(Activity::Drain);
            let since = Instant::now();
            let waited = self.catalog.wait(|state| {
                (state.successor().is_handed_over() || state.drained()).then_some(())
            });
            self.metrics.waited(Cause::Drain, since);
            waited?;
            // Failed steps are retried here, so that they can be reported.
            let handed_over =
                |state: &State| state.successor().is_handed_over() && !state.drained();
            if self.catalog.read(handed_over) && self.successor_answers() {
                return Ok(());
            }
        }
        self.drain()
    }

    /// Hands the host buffer to the next job (`hand_over`): waits until that has everything.
    ///
    /// # Errors
    /// A checkpoint could not be written, or (in an ephemeral job) not handed over; it is named.
    fn hand_memory_over(&self) -> Result<()> {
        let _span = self.trace.span(Activity::Drain);
        let since = Instant::now();
        let can_end = |state: &mut State| {
            !state.arriving() && (state.successor().is_handed_over() || state.drained())
        };
        let waited = self.catalog.wait(|state| can_end(state).then_some(()));
        self.metrics.waited(Cause::Drain, since);
        waited?;
        let (left, unwritten) = self.catalog.read(|state| {
            (state.not_handed_over(), state.drained() && state.unwritten().is_some())
        });
        let nothing = self.catalog.read(|state| state.checkpoints().live() == 0);
        if nothing || left.is_empty() && !unwritten && self.successor_answers() {
            return Ok(());
        }
        if !self.config.ephemeral {
            // To files, with an error if that fails.
            return self.drain();
        }
        let name = self.config.hand_over.as_deref().unwrap_or_default();
        let Some((first, version)) = left.first() else {
            return Err(Error::new(
                Kind::System,
                format!(
                    "hand_over = {name}: there is no veloc-backend that could keep the memory, so the \
                     checkpoints of this ephemeral job end with it"
                ),
            ));
        };
        let more =
            if left.len() > 1 { format!(" and {} more", left.len() - 1) } else { String::new() };
        Err(Error::new(
            Kind::NoRoom,
            format!(
                "hand_over = {name}: the host buffer (host_cache_size) has no room for \"{first}\" version \
                 {version}{more}, which are lost with the device cache; the rest is handed over"
            ),
        ))
    }

    /// Stops the workers and waits for their end. False: one has not ended, and may use the memory.
    pub fn stop_workers(&self) -> bool {
        self.shared.stop();
        let said = os::threads::join(self.workers.lock().drain(..), os::threads::JOIN_TIMEOUT);
        for what in &said {
            log::error!("{what}");
        }
        said.is_empty()
    }

    /// Ends the job when the application may free its memory, that is, when its deferred captures are
    /// complete. Reports the oldest unreported background failure, as no later call can.
    ///
    /// # Errors
    /// The background failure, or a failed worker. The job has ended, and hand-overs stay valid.
    pub fn finish(self) -> Result<()> {
        let mut fetched = Ok(());
        if self.catalog.read(State::arriving) {
            let _span = self.trace.span(Activity::Drain);
            let since = Instant::now();
            fetched = self.catalog.wait(|state| (!state.arriving()).then_some(()));
            self.metrics.waited(Cause::Drain, since);
        }
        match self.catalog.step(State::take_failure) {
            Some(error) => Err(error),
            None => fetched,
        }
    }

    /// Waits until all members of the group have made their parities, or cannot.
    pub fn await_parities(&self) {
        if let Some(node) = self.erasure.get() {
            let _span = self.trace.span(Activity::Drain);
            let since = Instant::now();
            node.finish();
            self.metrics.waited(Cause::Drain, since);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop_workers();
        prepare::unpin(&self.shared);
        // The files of an ephemeral job are useless after it.
        self.remove_spilled();
        self.shared.trace.finish();
    }
}
