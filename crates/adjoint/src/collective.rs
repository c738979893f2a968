//! A run with several processes: deferring a failure until all know of it, the periodic exchange, and
//! the end.

use super::adjoints::ClientFiles;
use super::message::{ProcessFailure, RunMessage};
use super::progress_exchange::ProgressExchange;
use super::run::RunInProgress;
use super::{ClientAccess, RunOutcome};
use errors::{Error, Result};

impl<R: ClientAccess> RunInProgress<'_, R> {
    /// Ends the run if an operation of the library has failed. With other processes, it only notes the
    /// failure until the next exchange: the others may need this process for their own steps (for
    /// instance a halo exchange). Until then this process goes on computing, but stores and restores
    /// nothing.
    pub(super) fn defer_failure(&mut self, done: Result<()>) -> Result<()> {
        match (done, &self.others.exchange) {
            (Err(error), Some(_)) => {
                log::error!("{error}; the run ends as soon as all processes know of it");
                self.others.failure.get_or_insert((error, self.reached.computed));
                Ok(())
            }
            (done, _) => done,
        }
    }

    /// Counts computed steps, and returns whether the run stops.
    pub(super) fn after_steps(&mut self, steps: u64) -> Result<bool> {
        self.reached.computed += steps;
        let Some(check) = self.clock.after_steps(steps, self.others.exchange.is_none()) else {
            return Ok(false);
        };
        let heard = self.check_background();
        self.defer_failure(heard)?;
        if self.others.exchange.is_none() {
            self.clock.set_interval(check.interval);
            return Ok(check.stop);
        }
        let adjoints = &mut self.adjoints;
        let name = adjoints.name().to_owned();
        let (newest, has) =
            self.access.with(|client| Ok(adjoints.report(&ClientFiles { client, name: &name })))?;
        let message = RunMessage {
            stop: check.stop,
            interval: check.interval,
            newest,
            has,
            ..empty_message(self.access)?
        };
        let all = self.exchange_messages(message)?;
        self.clock.set_interval(all.interval);
        let adjoints = &mut self.adjoints;
        let retired = self.access.with(|client| {
            adjoints.apply(&ClientFiles { client, name: &name }, all.newest, all.has)
        });
        self.defer_failure(retired)?;
        Ok(all.stop)
    }

    /// Synchronizes the processes. Fails if one of them has failed.
    pub(super) fn synchronize(&mut self) -> Result<()> {
        match self.others.exchange {
            Some(_) => self.exchange_messages(empty_message(self.access)?).map(drop),
            None => Ok(()),
        }
    }

    fn exchange_messages(&mut self, message: RunMessage) -> Result<RunMessage> {
        let Some(exchange) = &mut self.others.exchange else { return Ok(message) };
        let rank = exchange.rank();
        let failure =
            self.others.failure.as_ref().map(|(_, steps)| ProcessFailure { steps: *steps, rank });
        let all = exchange.exchange(&RunMessage { failure, ..message })?;
        let Some(first) = all.failure else { return Ok(all) };
        self.others.final_message = Some(all);
        Err(first.error())
    }

    /// Ends this process's part of the run: the others know its result by then, or could not be told.
    pub(super) fn finish(&mut self, ended: Result<RunOutcome>) -> Result<RunOutcome> {
        let Some(mut exchange) = self.others.exchange.take() else { return ended };
        let (ended, steps) = match self.others.failure.take() {
            Some((own, steps)) => (Err(own), steps),
            None => (ended, self.reached.computed),
        };
        let own = match ended {
            Ok(outcome) => {
                exchange.end();
                return Ok(outcome);
            }
            Err(own) => own,
        };
        let rank = exchange.rank();
        let final_message = match self.others.final_message.take() {
            Some(all) => Some(all),
            None => self.announce_failure(&mut exchange, ProcessFailure { steps, rank }, &own),
        };
        let Some(all) = final_message else { return Err(own) };
        exchange.end();
        // Evens out the rounds that some processes have begun and others have not.
        self.access.with(|client| {
            client.marked().even(all.rounds);
            Ok(())
        })?;
        // The failure here may be a consequence of the first one.
        Err(match all.failure {
            Some(first) if first.rank != rank && first.error() != own => {
                own.followed_by(format_args!("before that, {}", first.error()))
            }
            _ => own,
        })
    }

    /// Tells the others of this process's failure. Returns the exchanged message if all took part.
    fn announce_failure(
        &self,
        exchange: &mut ProgressExchange,
        failure: ProcessFailure,
        own: &Error,
    ) -> Option<RunMessage> {
        let patience = exchange.wait_time();
        let announced = empty_message(self.access).and_then(|empty| {
            exchange.exchange_within(&RunMessage { failure: Some(failure), ..empty }, patience)
        });
        match announced {
            Ok(Some(all)) => return Some(all),
            Ok(None) => log::warn!(
                "the other processes of the adjoint computation have not come to know of a failure within \
                 {:.0} s: if they wait for process {}, end the job (MPI_Abort); the failure: {own}",
                patience.as_secs_f64(),
                failure.rank
            ),
            Err(error) => log::warn!("the other processes may not know that the adjoint computation has failed: \
                                      {error}"),
        }
        None
    }
}

/// A message that says how far this process is, and nothing else.
fn empty_message(access: &impl ClientAccess) -> Result<RunMessage> {
    access.with(|client| Ok(RunMessage::empty(client.processes().rounds())))
}
