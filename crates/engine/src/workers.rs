//! The threads of a job that work in the background.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use super::shared::Shared;
use device::kinds;
use errors::{Error, ErrorKind, Result};
use os::logging;
use os::sync::Mutex;
use os::threads::{self, JOIN_TIMEOUT};

/// Workers that the others do not depend on, if they end between two transfers.
const OPTIONAL: [&str; 5] = ["fetch", "read", "touch", "pin", "encode"];

/// The workers of a job. They may start others, so that the application need not.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
}

impl Workers {
    /// No worker yet.
    pub(crate) fn of(shared: Arc<Shared>) -> Workers {
        Workers { shared, threads: Arc::default() }
    }

    /// Starts a worker.
    pub(crate) fn spawn(
        &self,
        name: &str,
        work: impl FnOnce(&Shared) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        self.spawn_as(name, name.to_owned(), work)
    }

    /// Starts a worker, with another name in the timeline.
    pub(crate) fn spawn_as(
        &self,
        name: &str,
        in_trace: String,
        work: impl FnOnce(&Shared) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let shared = self.shared.clone();
        let owned = name.to_owned();
        let topic = logging::topic();
        let work = move || {
            logging::set_topic(topic);
            shared.telemetry.trace.name_thread(&in_trace);
            let ended = catch_unwind(AssertUnwindSafe(|| work(&shared)));
            let failure = match ended {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error.within(format!("the {owned} worker ended")),
                Err(_) => Error::new(ErrorKind::Internal, format!("the {owned} worker panicked")),
            };
            if kinds::has_ended() {
                log::debug!("{failure}");
                shared.catalog.fail(failure);
                return;
            }
            if OPTIONAL.contains(&owned.as_str()) && failure.kind() != ErrorKind::Internal {
                // The job is slower without that worker, but nothing waits for it.
                log::warn!("{failure}");
                return;
            }
            log::error!("{failure}");
            shared.catalog.fail(failure);
        };
        let builder = Builder::new().name(format!("veloc-{name}"));
        let thread = threads::unsignalled(|| builder.spawn(work))
            .map_err(|error| Error::system(format!("starting the {name} worker"), &error))?;
        let mut threads = self.threads.lock();
        // The stack of an ended thread is freed when its handle is joined or dropped.
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
        Ok(())
    }

    /// Waits for the end of all workers, which were told to stop. Says what has gone wrong with any.
    pub(crate) fn join(&self) -> Vec<String> {
        let mut said = Vec::new();
        loop {
            // Those that end may have started others.
            let threads = std::mem::take(&mut *self.threads.lock());
            if threads.is_empty() {
                return said;
            }
            said.extend(threads::join(threads, JOIN_TIMEOUT));
        }
    }
}
