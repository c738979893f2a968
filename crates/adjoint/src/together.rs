//! A run among the other processes: what it does until they know that it has failed, its looks at the time, at
//! which they meet, and its end.

use super::adjoints::Files;
use super::meetings::Meetings;
use super::message::{Failure, Message};
use super::run::Sweep;
use super::{Outcome, Reach};
use os::error::{Error, Result};

impl<R: Reach> Sweep<'_, R> {
    /// Ends the run if something of the library's has failed. With other processes, not before the next meeting:
    /// they may need this process for their own steps, as for the halo of a domain. Until then it computes as
    /// before, and stores and restores nothing.
    pub(super) fn endure(&mut self, done: Result<()>) -> Result<()> {
        match (done, &self.meetings) {
            (Err(error), Some(_)) => {
                log::error!("{error}; the run ends as soon as all processes know");
                self.failure.get_or_insert((error, self.computed));
                Ok(())
            }
            (done, _) => done,
        }
    }

    /// So many steps were computed. Whether the run stops.
    pub(super) fn passed(&mut self, steps: u64) -> Result<bool> {
        self.computed += steps;
        let Some(look) = self.clock.passed(steps, self.meetings.is_none()) else {
            return Ok(false);
        };
        let heard = self.hear_of_failures();
        self.endure(heard)?;
        if self.meetings.is_none() {
            self.clock.set(look.interval);
            return Ok(look.stop);
        }
        let adjoints = &mut self.adjoints;
        let name = adjoints.name().to_owned();
        let (newest, has) =
            self.reach.with(|client| Ok(adjoints.tell(&Files { client, name: &name })))?;
        let message =
            Message { stop: look.stop, interval: look.interval, newest, has, ..self.plain()? };
        let all = self.meet(message)?;
        self.clock.set(all.interval);
        let adjoints = &mut self.adjoints;
        let retired = self
            .reach
            .with(|client| adjoints.hear(&Files { client, name: &name }, all.newest, all.has));
        self.endure(retired)?;
        Ok(all.stop)
    }

    /// Waits for the others. An error if one of the processes has failed.
    pub(super) fn meet_plainly(&mut self) -> Result<()> {
        match self.meetings {
            Some(_) => self.meet(self.plain()?).map(drop),
            None => Ok(()),
        }
    }

    fn plain(&self) -> Result<Message> {
        self.reach.with(|client| Ok(Message::plain(client.rounds())))
    }

    fn meet(&mut self, message: Message) -> Result<Message> {
        let Some(meetings) = &mut self.meetings else { return Ok(message) };
        let rank = meetings.rank();
        let failure = self.failure.as_ref().map(|(_, steps)| Failure { steps: *steps, rank });
        let all = meetings.meet(&Message { failure, ..message })?;
        let Some(first) = all.failure else { return Ok(all) };
        self.parting = Some(all);
        Err(first.error())
    }

    /// Ends the run among the others, with what this process has come to: all know by then, or could not be told.
    pub(super) fn part(&mut self, ended: Result<Outcome>) -> Result<Outcome> {
        let Some(mut meetings) = self.meetings.take() else { return ended };
        let (ended, steps) = match self.failure.take() {
            Some((own, steps)) => (Err(own), steps),
            None => (ended, self.computed),
        };
        let own = match ended {
            Ok(outcome) => {
                meetings.end();
                return Ok(outcome);
            }
            Err(own) => own,
        };
        let rank = meetings.rank();
        let parting = match self.parting.take() {
            Some(all) => Some(all),
            None => self.tell(&mut meetings, Failure { steps, rank }, &own),
        };
        let Some(all) = parting else { return Err(own) };
        meetings.end();
        // Some may have begun rounds that others have not.
        self.reach.with(|client| {
            client.even(all.rounds);
            Ok(())
        })?;
        // What has failed here may have followed from what has failed there.
        Err(match all.failure {
            Some(first) if first.rank != rank && first.error() != own => {
                own.followed_by(format_args!("before that, {}", first.error()))
            }
            _ => own,
        })
    }

    /// Tells the others of this process's failure. What all tell, if they have come to hear it.
    fn tell(&self, meetings: &mut Meetings, failure: Failure, own: &Error) -> Option<Message> {
        let patience = meetings.patience();
        let told = self.plain().and_then(|plain| {
            meetings.meet_soon(&Message { failure: Some(failure), ..plain }, patience)
        });
        match told {
            Ok(Some(all)) => return Some(all),
            Ok(None) => log::warn!(
                "the other processes of the adjoint computation have not come to know of a failure within \
                 {:.0} s: if they wait for process {}, end the job (MPI_Abort); the failure: {own}",
                patience.as_secs_f64(),
                failure.rank
            ),
            Err(error) => log::warn!("the others may not know of a failure: {error}"),
        }
        None
    }
}
