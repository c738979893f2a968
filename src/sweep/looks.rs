//! A run among the others: what it bears until all know, its looks at the time, at which they meet, and its end.

use super::adjoints::Files;
use super::run::{Next, Sweep};
use super::word::Word;
use super::{Outcome, Reach};
use crate::error::Result;

impl<R: Reach> Sweep<'_, R> {
    /// What has failed here and can be done without until the others know: they may need this process
    /// for their own steps, as for the halo of a domain.
    pub(super) fn bear(&mut self, done: Result<()>) -> Result<()> {
        match (done, &self.meetings) {
            (Err(error), Some(_)) => {
                log::error!("{error}; the run ends as soon as all processes know");
                if self.failure.is_none() {
                    (self.failure, self.failed_at) = (Some(error), self.moment);
                }
                Ok(())
            }
            (done, _) => done,
        }
    }

    /// So many steps were computed. How to go on.
    pub(super) fn passed(&mut self, steps: u64) -> Result<Next> {
        let Some(look) = self.clock.passed(steps, self.meetings.is_none()) else {
            return Ok(Next::On);
        };
        self.hear_setbacks()?;
        let Some(meetings) = &mut self.meetings else {
            self.clock.set(Some(look.interval));
            return Ok(if look.stop { Next::Stop } else { Next::On });
        };
        let adjoints = &mut self.adjoints;
        let name = adjoints.name().to_owned();
        let (newest, has) =
            self.reach.with(|client| Ok(adjoints.tell(&Files { client, name: &name })))?;
        let (stop, interval) = (look.stop, look.interval);
        let decided = meetings.hear()?;
        let stops = decided.as_ref().is_some_and(|decided| decided.stop);
        let shortage = decided.as_ref().and_then(|decided| decided.shortage);
        if let Some(shortage) = shortage {
            self.shortages.hear(shortage, &mut self.asides);
        }
        if !stops {
            let shortage = self.shortages.tell(&self.asides);
            let word = Word { stop, interval, newest, has, shortage, ..Word::default() };
            let own = self.failure.as_ref().map(|failure| (failure, self.failed_at));
            meetings.tell(word, own)?;
        }
        self.moment = 0;
        self.clock.set(decided.as_ref().map(|decided| decided.interval));
        let Some(decided) = decided else { return Ok(Next::On) };
        let retired = self.reach.with(|client| {
            adjoints.hear(&Files { client, name: &name }, decided.newest, decided.has)
        });
        self.do_without(retired)?;
        match (stops, shortage) {
            (true, _) => Ok(Next::Stop),
            (false, Some(shortage)) if self.go_on_together(shortage)? => Ok(Next::Anew),
            (false, _) => Ok(Next::On),
        }
    }

    /// Waits until all processes have come here, unless one has failed.
    pub(super) fn meet_at_the_end(&mut self) -> Result<()> {
        match (&self.failure, &mut self.meetings) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(meetings)) => {
                let rounds = self.reach.with(|client| Ok(client.rounds()))?;
                meetings.last(rounds)
            }
            (None, None) => Ok(()),
        }
    }

    /// Parts from the others, with what this process has come to. What all come to.
    pub(super) fn part(&mut self, ended: Result<Outcome>) -> Result<Outcome> {
        // Others have been told of this one's own failure, and so it may hear of it from them.
        let (ended, moment) = match self.failure.take() {
            Some(failure) => (Err(failure), self.failed_at),
            None => (ended, self.moment),
        };
        let Some(meetings) = self.meetings.take() else { return ended };
        let rounds = self.reach.with(|client| Ok(client.rounds())).unwrap_or_default();
        let parted = meetings.end(ended.as_ref().err().map(|error| (error, moment)), rounds);
        if let Some(most) = parted.rounds {
            self.reach.with(|client| {
                client.even(most);
                Ok(())
            })?;
        }
        match (ended, parted.heard) {
            // Another process has failed before this one, which may have followed from that.
            (Err(own), Some(first)) if own.to_string() != first.to_string() => {
                Err(first.followed_by(format_args!("and then this process: {own}")))
            }
            (ended, _) => ended,
        }
    }
}
