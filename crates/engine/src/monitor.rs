//! The lock around the catalog, on which application and workers wait for each other.
//!
//! Every step is made under the lock and followed by `wake`, which wakes all that can continue. So no step
//! has to know who waits. A worker that fails calls [`Catalog::fail`], which ends every wait with an error.

use catalog::state::State;
pub(crate) use catalog::state::Worker;
use catalog::{Level, MOST};
use errors::{Error, ErrorKind, Result};
use os::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// The most workers there can be: two for each level of memory, and five.
const WORKERS: usize = 2 * MOST + 5;

/// All workers, with their numbers.
fn workers() -> impl Iterator<Item = (usize, Worker)> {
    let levels = || (0..MOST).map(Level::new);
    let others = [Worker::Write, Worker::Persist, Worker::Read, Worker::Arrive, Worker::Grow];
    levels().map(Worker::Flush).chain(levels().map(Worker::Fetch)).chain(others).enumerate()
}

/// The number of a worker.
fn number(worker: Worker) -> usize {
    match worker {
        Worker::Flush(level) => level.index(),
        Worker::Fetch(level) => MOST + level.index(),
        Worker::Write => 2 * MOST,
        Worker::Persist => 2 * MOST + 1,
        Worker::Read => 2 * MOST + 2,
        Worker::Arrive => 2 * MOST + 3,
        Worker::Grow => 2 * MOST + 4,
    }
}

#[derive(Debug)]
struct GuardedCatalog {
    state: State,
    asleep: [bool; WORKERS],
    app_waits: usize,
    drain_waits: usize,
    woken_at: u64,
    stopping: bool,
    broken: Option<Error>,
}

impl GuardedCatalog {
    /// Fails if the condition of a wait may never come true.
    fn check_running(&self) -> Result<()> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        if self.stopping {
            return Err(Error::new(ErrorKind::Internal, "the engine was stopped meanwhile"));
        }
        Ok(())
    }
}

/// What a worker's wait for work has brought.
#[derive(Debug)]
pub(crate) enum Next<J> {
    /// Work.
    Job(J),
    /// None within the time.
    Late,
    /// The engine stops.
    Stop,
}

/// The catalog, shared by the application's thread and the workers.
#[derive(Debug)]
pub(crate) struct Catalog {
    guarded: Mutex<GuardedCatalog>,
    work: [Condvar; WORKERS],
    app: Condvar,
    drained: Condvar,
}

impl Catalog {
    /// A catalog with this state.
    pub(crate) fn new(state: State) -> Self {
        Catalog {
            guarded: Mutex::new(GuardedCatalog {
                state,
                asleep: Default::default(),
                app_waits: 0,
                drain_waits: 0,
                woken_at: 0,
                stopping: false,
                broken: None,
            }),
            work: Default::default(),
            app: Condvar::new(),
            drained: Condvar::new(),
        }
    }

    /// Makes one step.
    pub(crate) fn step<R>(&self, step: impl FnOnce(&mut State) -> R) -> R {
        let mut guarded = self.guarded.lock();
        let result = step(&mut guarded.state);
        self.wake(&mut guarded);
        result
    }

    /// Makes one step that begins something, unless a worker has failed.
    pub(crate) fn begin<R>(&self, step: impl FnOnce(&mut State) -> Result<R>) -> Result<R> {
        let mut guarded = self.guarded.lock();
        if let Some(error) = &guarded.broken {
            return Err(error.clone());
        }
        let result = step(&mut guarded.state);
        self.wake(&mut guarded);
        result
    }

    /// Reads the state without changing it.
    pub(crate) fn read<R>(&self, read: impl FnOnce(&State) -> R) -> R {
        read(&self.guarded.lock().state)
    }

    /// Waits, for the application, until `step` returns a value. An error if a worker has failed, because
    /// then the value may never come.
    pub(crate) fn wait<R>(&self, mut step: impl FnMut(&mut State) -> Option<R>) -> Result<R> {
        let mut guarded = self.guarded.lock();
        loop {
            if let Some(result) = step(&mut guarded.state) {
                self.wake(&mut guarded);
                return Ok(result);
            }
            guarded.check_running()?;
            self.wake(&mut guarded);
            guarded.app_waits += 1;
            guarded = self.app.wait(guarded);
            guarded.app_waits -= 1;
        }
    }

    /// Waits, for a worker, until `end` returns a value, which a transfer of another worker brings. An error if a worker
    /// has failed, or the engine stops: then that may never come.
    pub(crate) fn wait_for_transfer<R>(&self, end: impl Fn(&State) -> Option<R>) -> Result<R> {
        let mut guarded = self.guarded.lock();
        loop {
            if let Some(result) = end(&guarded.state) {
                return Ok(result);
            }
            guarded.check_running()?;
            self.wake(&mut guarded);
            guarded.app_waits += 1;
            guarded = self.app.wait(guarded);
            guarded.app_waits -= 1;
        }
    }

    /// Waits, for the application, until nothing is being flushed, written or persisted. The many
    /// steps in between do not wake it. Errors as for [`Catalog::wait`].
    pub(crate) fn wait_drained(&self) -> Result<()> {
        let mut guarded = self.guarded.lock();
        while !guarded.state.drained() {
            guarded.check_running()?;
            self.wake(&mut guarded);
            guarded.drain_waits += 1;
            guarded = self.drained.wait(guarded);
            guarded.drain_waits -= 1;
        }
        Ok(())
    }

    /// Waits, for a worker, for work that `pick` finds. `None`: the engine stops.
    pub(crate) fn next<J>(
        &self,
        worker: Worker,
        pick: impl FnMut(&mut State) -> Option<J>,
    ) -> Option<J> {
        match self.next_within(worker, None, pick) {
            Next::Job(job) => Some(job),
            Next::Late | Next::Stop => None,
        }
    }

    /// Waits, for a worker, for work that `pick` finds, for no longer than `within`.
    pub(crate) fn next_within<J>(
        &self,
        worker: Worker,
        within: Option<Duration>,
        mut pick: impl FnMut(&mut State) -> Option<J>,
    ) -> Next<J> {
        let until = within.map(|time| Instant::now() + time);
        let mut guarded = self.guarded.lock();
        loop {
            if guarded.stopping {
                return Next::Stop;
            }
            let job = pick(&mut guarded.state);
            self.wake(&mut guarded);
            if let Some(job) = job {
                return Next::Job(job);
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Next::Late;
            }
            let condition = &self.work[number(worker)];
            guarded.asleep[number(worker)] = true;
            guarded = match left {
                Some(left) => condition.wait_for(guarded, left),
                None => condition.wait(guarded),
            };
            guarded.asleep[number(worker)] = false;
        }
    }

    /// A worker has failed: every wait, now and later, ends with this error.
    pub(crate) fn fail(&self, error: Error) {
        let mut guarded = self.guarded.lock();
        guarded.broken.get_or_insert(error);
        self.app.notify_all();
        self.drained.notify_all();
    }

    /// The error of a failed worker, if any.
    pub(crate) fn broken(&self) -> Option<Error> {
        self.guarded.lock().broken.clone()
    }

    /// Lets every worker end after its current transfer, or give it up.
    pub(crate) fn stop(&self) {
        let mut guarded = self.guarded.lock();
        guarded.stopping = true;
        for condition in &self.work {
            condition.notify_all();
        }
        self.app.notify_all();
        self.drained.notify_all();
    }

    /// Wakes all that can continue now. Does nothing if nothing has changed since the last time: two workers
    /// without work must not keep waking each other.
    fn wake(&self, guarded: &mut GuardedCatalog) {
        if guarded.state.changes() == guarded.woken_at {
            return;
        }
        guarded.woken_at = guarded.state.changes();
        if guarded.asleep.contains(&true) {
            for (number, worker) in workers() {
                if guarded.asleep[number] && guarded.state.has_work(worker) {
                    guarded.asleep[number] = false;
                    self.work[number].notify_one();
                }
            }
        }
        if guarded.app_waits > 0 {
            self.app.notify_all();
        }
        if guarded.drain_waits > 0 && guarded.state.drained() {
            self.drained.notify_all();
        }
    }
}
