//! The checkpoint side of the protocol: begin, mem, end, wait.

use std::time::Instant;

use super::capture::{Captured, Taking};
use super::way::Ways;
use super::{Client, Phase, Selection};
use errors::{Error, Result};
use format::header::Header;
use format::names;
use trace::Activity;

/// What the application says of a checkpoint that it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is whole.
    Taken,
    /// 0, which is no success in VELOC's documentation, and `VELOC_SUCCESS` in its header.
    Zero,
    /// It is to be given up.
    Failed,
}

impl Client {
    /// Takes a whole checkpoint (`VELOC_Checkpoint`).
    pub fn checkpoint(&mut self, name: &str, version: i32) -> Result<()> {
        let trace = self.engine.trace().clone();
        let _span = trace.span(Activity::Checkpoint).of(name, version);
        let since = Instant::now();
        self.checkpoint_begin(name, version)?;
        self.take_all(false)?;
        self.engine.metrics().checkpoint_calls.add(0, since.elapsed());
        Ok(())
    }

    /// Takes all regions into the checkpoint that was begun, and ends it. A `marked` checkpoint
    /// gets its mark.
    pub(super) fn take_all(&mut self, marked: bool) -> Result<()> {
        let since = Instant::now();
        let agrees = self.processes.agreement().is_some();
        let open = self.phase.checkpoint()?;
        let mut ways = Ways::of(&self.engine, self.protection.regions.of(&open.name), open, agrees);
        let captured = self.capture(&Selection::All, marked, Some(&mut ways));
        if captured.is_err() {
            self.leave_phase();
        }
        self.close(true, captured?, true)?;
        ways.count(&self.engine, since.elapsed());
        Ok(())
    }

    /// Opens a checkpoint, and ends a restart that is open. A background failure that was not
    /// reported yet is reported here, and then nothing is opened.
    ///
    /// # Errors
    /// Among others, the name is that of an adjoint computation under way.
    pub fn checkpoint_begin(&mut self, name: &str, version: i32) -> Result<()> {
        self.protection.under_way.check_not_held(name, format_args!("version {version} of"))?;
        self.begin(name, version)
    }

    /// Opens a checkpoint, also under a name of an adjoint computation under way.
    pub(super) fn begin(&mut self, name: &str, version: i32) -> Result<()> {
        names::validate(name, version)?;
        self.end_open_restart();
        self.phase.must_be_idle()?;
        if let Some(agreement) = self.processes.agreement_mut() {
            // Also if the checkpoint does not begin here: it does on the other processes.
            agreement.begin(&self.engine, name, version);
        }
        let begun = self.engine.files().rights().begin_work(name);
        let mut open = match begun.and_then(|()| self.engine.begin(name, version)) {
            Ok(open) => open,
            Err(failure) => {
                self.engine.checkpoints().pass_over(name, version);
                self.not_taken();
                return Err(failure);
            }
        };
        if let Some(agreement) = self.processes.agreement_mut() {
            open.decide_to_persist(agreement.opened(&self.engine, open.id));
        }
        self.phase = Phase::Checkpoint { open, routed: None, failed: false };
        Ok(())
    }

    /// Captures protected regions into the open checkpoint.
    pub fn checkpoint_mem(&mut self, selection: &Selection) -> Result<()> {
        let trace = self.engine.trace().clone();
        let _span = self.phase.span(&trace, Activity::Checkpoint);
        let captured = self.capture(selection, false, None);
        if let Phase::Checkpoint { failed, .. } = &mut self.phase {
            *failed |= captured.is_err();
        }
        captured.map(|_| ())
    }

    /// Captures regions, in these ways if the same call of the application ends the checkpoint. Returns what was captured
    /// if it stays as it is until the application's call returns.
    fn capture(
        &mut self,
        selection: &Selection,
        marked: bool,
        ways: Option<&mut Ways>,
    ) -> Result<Option<Captured>> {
        let Phase::Checkpoint { open, routed, .. } = &mut self.phase else {
            return self.phase.checkpoint().map(|_| None);
        };
        if let Some(routed) = routed {
            return Err(Error::invalid(format!(
                "checkpoint \"{}\" version {} is the file {}; memory cannot be added to it",
                open.name, open.version, routed.original
            )));
        }
        let Client { engine, protection, deltas, buffers, .. } = self;
        Taking { engine, protection, deltas, buffers }.capture(open, selection, marked, ways)
    }

    /// Closes the open checkpoint: it exists from here on, or, if it is given up, never has.
    /// Returns the name and version of a checkpoint that exists.
    pub fn checkpoint_end(&mut self, verdict: Verdict) -> Result<Option<(String, i32)>> {
        let trace = self.engine.trace().clone();
        let _span = self.phase.span(&trace, Activity::Checkpoint);
        let success = match verdict {
            Verdict::Taken => true,
            Verdict::Zero => self.phase.is_kept_at_zero(&self.engine),
            Verdict::Failed => false,
        };
        let taken = match &self.phase {
            Phase::Checkpoint { open, .. } if success => Some((open.name.clone(), open.version)),
            _ => None,
        };
        self.close(success, None, true).map(|()| taken)
    }

    /// Ends a checkpoint that the application has left open at the end of its job: it is kept, as VELOC keeps it.
    ///
    /// # Errors
    /// There is one.
    pub(super) fn end_forgotten(&mut self) -> Result<()> {
        let Phase::Checkpoint { open, routed, failed } = &self.phase else {
            self.leave_phase();
            return Ok(());
        };
        let is_whole = !failed && (routed.is_some() || !open.regions.is_empty());
        let what = format!("checkpoint \"{}\" version {}", open.name, open.version);
        // The other processes may not have forgotten theirs, and wait for nothing here.
        let closed = self.close(is_whole, None, false);
        let how = if is_whole { "it is kept" } else { "it is given up, as it is not whole" };
        let forgotten = format!("{what} was not ended (VELOC_Checkpoint_end): {how}");
        Err(closed.err().map_or(Error::invalid(forgotten), |error| error.within(what)))
    }

    /// Closes the open checkpoint. `captured`: all that it has captured, if that has not changed. `waits`: for
    /// what a job that writes its files in the call does together with the other processes.
    fn close(&mut self, success: bool, captured: Option<Captured>, waits: bool) -> Result<()> {
        self.phase.checkpoint()?;
        let empty = matches!(
            &self.phase,
            Phase::Checkpoint { open, routed: None, .. } if open.regions.is_empty()
        );
        if !success || empty {
            self.leave_phase();
            return if success {
                Err(Error::invalid(
                    "the checkpoint has no region: nothing was captured (VELOC_Checkpoint_mem)",
                ))
            } else {
                Ok(())
            };
        }
        if let Phase::Checkpoint { open, routed: Some(routed), .. } = &self.phase {
            match routed.check_written() {
                Ok(bytes) => drop(self.routed_bytes.insert(open.name.clone(), bytes)),
                Err(unwritten) => {
                    self.leave_phase();
                    return Err(unwritten);
                }
            }
        }
        let sizes = self.phase.checkpoint()?.regions.iter();
        let header = Header::new(sizes.map(|region| (region.id, region.stored())).collect())?;
        match self.phase.take() {
            Phase::Checkpoint { open, routed: None, .. } => {
                let len = header.file_len();
                let id = open.id;
                let committed = self.engine.capturing().commit(open);
                self.deltas.end(committed.is_ok());
                let taken = committed.is_ok().then_some((id, len));
                if let Some(agreement) = self.processes.agreement_mut() {
                    if self.engine.checkpoints().is_past_scratch(id) {
                        // The checkpoint has a file of its own: it is no part of an aggregated one.
                        agreement.taken_alone(&self.engine, id);
                    } else {
                        agreement.taken(&self.engine, taken);
                    }
                    if waits && self.engine.config().writes_directly() && agreement.aggregates() {
                        // Claimed before it is known where it goes, so that no worker is quicker.
                        let claim = self.engine.capturing().claim(id);
                        agreement.await_all(&self.engine);
                        let places = captured.as_ref().map(|captured| &*captured.places);
                        return committed.and(claim.copy(places));
                    }
                }
                committed
            }
            Phase::Checkpoint { open, routed: Some(routed), .. } => {
                let id = open.id;
                let original = routed.original.clone();
                let committed = self.engine.capturing().commit_routed(
                    open,
                    routed.level,
                    &routed.temporary,
                    original,
                );
                routed.remove_folder();
                if let Some(agreement) = self.processes.agreement_mut() {
                    agreement.taken_alone(&self.engine, id);
                    if waits && self.engine.config().writes_directly() {
                        return committed
                            .and_then(|()| self.engine.capturing().wait_persistent(id));
                    }
                }
                committed
            }
            other => {
                self.phase = other;
                Ok(())
            }
        }
    }

    /// Waits for everything that is being flushed, written or persisted.
    pub fn checkpoint_wait(&mut self) -> Result<()> {
        if matches!(self.phase, Phase::Checkpoint { .. }) {
            return Err(Error::invalid(
                "a checkpoint is open: end it first (VELOC_Checkpoint_end)",
            ));
        }
        if let Some(agreement) = self.processes.agreement_mut() {
            agreement.await_all(&self.engine);
        }
        self.engine.drain()
    }

    /// Whether nothing is being flushed, written or persisted.
    pub fn checkpoint_finished(&mut self) -> Result<bool> {
        if let Some(agreement) = self.processes.agreement_mut() {
            agreement.hear(&self.engine);
        }
        self.engine.checkpoints().is_finished()
    }

    /// Ends a restart that is still open. In upstream `VELOC_Restart_end` does nothing, and an
    /// application that leaves it out must not be left without checkpoints.
    pub(super) fn end_open_restart(&mut self) {
        if let Phase::Restart { restoring, .. } = &self.phase {
            let (name, version) = (&restoring.name, restoring.version);
            self.engine.telemetry().degrade(
                "restart",
                format!(
                    "the restart of \"{name}\" version {version} was not ended (VELOC_Restart_end): the next restart \
                     or checkpoint ends it"
                ),
            );
            self.leave_phase();
        }
    }
}
