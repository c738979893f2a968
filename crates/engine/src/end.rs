//! Ending a job: what it waits for, and which threads must stop.

use super::lifecycle::{Engine, EngineHandle};
use super::prepare;
use catalog::state::State;
use errors::{Error, ErrorKind, Result};
use trace::metrics::Cause;
use trace::Activity;

impl EngineHandle {
    /// Stops the workers without waiting for them.
    pub fn stop(&self) {
        self.0.stop();
    }

    /// The process ends without VELOC_Finalize: stops the workers without waiting for them, removes what an ephemeral
    /// job has written, and says so if others lose checkpoints.
    pub fn leave(&self) {
        if self.0.would_lose() {
            log::warn!(
                "the process ends without VELOC_Finalize: checkpoints that have not reached their \
                 files are lost"
            );
        }
        self.0.stop();
        if self.0.config.ephemeral {
            if let Err(error) = self.0.file_side.files.removal().remove_unnamed() {
                log::warn!("{error}");
            }
        }
        self.0.file_side.remove_spilled();
        self.0.telemetry.trace.finish();
    }
}

impl Engine {
    /// Waits until nothing is being flushed, written or persisted. Failed steps are retried first. Reports
    /// the oldest unreported background failure.
    pub fn drain(&self) -> Result<()> {
        let _span = self.shared.telemetry.trace.span(Activity::Drain);
        let waiting = self.shared.telemetry.metrics.wait(Cause::Drain);
        self.shared.catalog.step(State::retry);
        let waited = self.shared.catalog.wait_drained();
        self.shared.file_side.prune_all();
        drop(waiting);
        match self.shared.catalog.step(State::take_failure) {
            Some(error) => Err(error),
            None => waited,
        }
    }

    /// Waits until nothing is on its way to files. Failures stay to be reported.
    ///
    /// # Errors
    /// The engine has stopped.
    pub fn settle(&self) -> Result<()> {
        let waiting = self.shared.telemetry.metrics.wait(Cause::Drain);
        let waited = self.shared.catalog.wait_drained();
        drop(waiting);
        waited
    }

    /// Waits until the remaining writes do not need this process: until veloc-backend has them or, without
    /// one, until they are done.
    ///
    /// # Errors
    /// The errors of [`Engine::drain`].
    pub fn hand_over(&self) -> Result<()> {
        if self.shared.config.hands_over() {
            return self.hand_memory_over();
        }
        let nothing_left = |state: &State| state.drained() && state.unwritten().is_none();
        if self.shared.config.ephemeral || self.shared.catalog.read(nothing_left) {
            return Ok(());
        }
        if self.shared.succession.has_successor() {
            let _span = self.shared.telemetry.trace.span(Activity::Drain);
            let waiting = self.shared.telemetry.metrics.wait(Cause::Drain);
            let waited = self.shared.catalog.wait(|state| {
                (state.successor().is_handed_over() || state.drained()).then_some(())
            });
            drop(waiting);
            waited?;
            // Failed steps are retried here, so that they can be reported.
            let handed_over =
                |state: &State| state.successor().is_handed_over() && !state.drained();
            if self.shared.catalog.read(handed_over) && self.shared.succession.successor_answers() {
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
        let _span = self.shared.telemetry.trace.span(Activity::Drain);
        let waiting = self.shared.telemetry.metrics.wait(Cause::Drain);
        let can_end = |state: &mut State| {
            !state.arriving() && (state.successor().is_handed_over() || state.drained())
        };
        let waited = self.shared.catalog.wait(|state| can_end(state).then_some(()));
        drop(waiting);
        waited?;
        let (left, unwritten) = self.shared.catalog.read(|state| {
            (state.not_handed_over(), state.drained() && state.unwritten().is_some())
        });
        let nothing = self.shared.catalog.read(|state| state.checkpoints().live() == 0);
        if nothing || left.is_empty() && !unwritten && self.shared.succession.successor_answers() {
            return Ok(());
        }
        if !self.shared.config.ephemeral {
            // To files, with an error if that fails.
            return self.drain();
        }
        let name = self.shared.config.hand_over.as_deref().unwrap_or_default();
        let Some((first, version)) = left.first() else {
            return Err(Error::new(
                ErrorKind::System,
                format!(
                    "hand_over = {name}: there is no veloc-backend that could keep the memory, so the \
                     checkpoints of this ephemeral job end with it"
                ),
            ));
        };
        let more =
            if left.len() > 1 { format!(" and {} more", left.len() - 1) } else { String::new() };
        Err(Error::new(
            ErrorKind::NoRoom,
            format!(
                "hand_over = {name}: the host buffer (host_cache_size) has no room for \"{first}\" version \
                 {version}{more}, which are lost with the device cache; the rest is handed over"
            ),
        ))
    }

    /// Stops the workers and waits for their end. False: one has not ended, and may use the memory.
    pub fn stop_workers(&self) -> bool {
        self.shared.stop();
        let said = self.workers.join();
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
        if self.shared.catalog.read(State::arriving) {
            let _span = self.shared.telemetry.trace.span(Activity::Drain);
            let waiting = self.shared.telemetry.metrics.wait(Cause::Drain);
            fetched = self.shared.catalog.wait(|state| (!state.arriving()).then_some(()));
            drop(waiting);
        }
        match self.shared.catalog.step(State::take_failure) {
            Some(error) => Err(error),
            None => fetched,
        }
    }

    /// Waits until all members of the group have made their parities, or cannot.
    pub fn await_parities(&self) {
        if let Some(node) = self.shared.file_side.erasure.get() {
            let _span = self.shared.telemetry.trace.span(Activity::Drain);
            let waiting = self.shared.telemetry.metrics.wait(Cause::Drain);
            node.finish();
            drop(waiting);
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop_workers();
        prepare::unpin(&self.shared);
        // The files of an ephemeral job are useless after it.
        self.shared.file_side.remove_spilled();
        self.shared.telemetry.trace.finish();
    }
}
