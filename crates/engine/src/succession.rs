//! The processes before this one and behind it: the backend that may still write for an earlier job of this rank, and
//! that goes on where this one is killed.

use std::sync::Arc;

use super::telemetry::Telemetry;
use config::Config;
use errors::Result;
use recovery::link::Link;

/// This process's place between its predecessor and its successor.
#[derive(Debug)]
pub struct Succession {
    config: Arc<Config>,
    telemetry: Arc<Telemetry>,
    /// The backend, if there is one.
    link: Option<Link>,
    /// Why there is no memory of the job before (`hand_over`), if there was to be.
    missing: Option<String>,
}

impl Succession {
    pub(crate) fn new(
        config: Arc<Config>,
        telemetry: Arc<Telemetry>,
        link: Option<Link>,
        missing: Option<String>,
    ) -> Succession {
        Succession { config, telemetry, link, missing }
    }

    /// The job ends: nobody waits for the backend any more.
    pub(crate) fn stop(&self) {
        if let Some(link) = &self.link {
            link.stop_waiting();
        }
    }

    /// Waits until the backend has finished writing for an earlier job of this rank, before files get their
    /// names. False: the job ends, or nothing [may be written](Self::may_write).
    pub(crate) fn await_predecessor(&self) -> bool {
        self.link.as_ref().is_none_or(Link::wait_for_predecessors)
    }

    /// # Errors
    /// A backend that does not answer may still be writing for an earlier job of this rank.
    pub fn may_write(&self) -> Result<()> {
        self.link.as_ref().map_or(Ok(()), Link::may_write)
    }

    /// Whether a successor writes the content of the host buffer when this process ends.
    pub fn has_successor(&self) -> bool {
        self.link.as_ref().is_some_and(Link::is_connected)
    }

    /// Whether a successor has just answered: it will write what it gets now.
    pub(crate) fn successor_answers(&self) -> bool {
        self.link.as_ref().is_some_and(Link::answers_in_time)
    }

    /// Why this job has nothing of the job before it, though it should; for messages.
    pub(crate) fn nothing_inherited(&self) -> Option<String> {
        let (name, why) = (self.config.hand_over.as_ref()?, self.missing.as_ref()?);
        Some(format!("hand_over = {name}: {why}"))
    }

    /// Warns, once, that files are looked at and not the memory of an earlier job, and why.
    pub fn warn_of_nothing_inherited(&self) {
        if let Some(why) = self.nothing_inherited() {
            let then =
                if self.config.ephemeral { "there are no checkpoints" } else { "files are used" };
            self.telemetry.degrade("hand_over", format!("{why}; {then}"));
        }
    }
}
