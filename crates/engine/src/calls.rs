//! Calls whose work goes on behind them, in the order in which they were made: a worker waits for the end of each.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use os::sync::{Condvar, Mutex};

/// Calls that the worker waits for, by what it waits for (`E`), with what is to be done then (`T`). Also those that are given
/// up are waited for, as what they have queued may still be going on.
#[derive(Debug)]
pub(crate) struct Calls<E, T> {
    queue: Mutex<Queue<E, T>>,
    /// A call was added, the end of one was seen, or the job ends.
    changed: Condvar,
}

#[derive(Debug)]
struct Queue<E, T> {
    calls: VecDeque<(E, Option<T>)>,
    ending: bool,
}

impl<E, T> Default for Calls<E, T> {
    fn default() -> Self {
        let queue = Queue { calls: VecDeque::new(), ending: false };
        Calls { queue: Mutex::new(queue), changed: Condvar::new() }
    }
}

impl<E: Clone, T> Calls<E, T> {
    /// Has the worker wait for a call.
    pub(crate) fn add(&self, event: E, end: T) {
        self.queue.lock().calls.push_back((event, Some(end)));
        self.changed.notify_all();
    }

    /// Whether no call is waited for.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.lock().calls.is_empty()
    }

    /// Whether this holds for what is to be done for one of the calls.
    pub(crate) fn any(&self, holds: impl Fn(&T) -> bool) -> bool {
        self.queue.lock().calls.iter().any(|(_, end)| end.as_ref().is_some_and(&holds))
    }

    /// The first call. `None`: the job ends, and there is none.
    pub(crate) fn first(&self) -> Option<E> {
        let mut queue = self.queue.lock();
        loop {
            if let Some((event, _)) = queue.calls.front() {
                return Some(event.clone());
            }
            if queue.ending {
                return None;
            }
            queue = self.changed.wait(queue);
        }
    }

    /// Ends the first call. `None`: it was given up.
    pub(crate) fn end(&self) -> Option<T> {
        let first = self.queue.lock().calls.pop_front();
        self.changed.notify_all();
        first.and_then(|(_, end)| end)
    }

    /// Waits until there is no call, at most so long. Gives up those that are left, and returns them.
    pub(crate) fn give_up_after(&self, longest: Duration) -> Vec<T> {
        let since = Instant::now();
        let mut queue = self.queue.lock();
        while queue.calls.iter().any(|(_, end)| end.is_some()) {
            let left = longest.saturating_sub(since.elapsed());
            if left.is_zero() {
                break;
            }
            queue = self.changed.wait_for(queue, left);
        }
        queue.calls.iter_mut().filter_map(|(_, end)| end.take()).collect()
    }

    /// The job ends: the worker sees the end of the calls that there are.
    pub(crate) fn stop(&self) {
        self.queue.lock().ending = true;
        self.changed.notify_all();
    }
}
