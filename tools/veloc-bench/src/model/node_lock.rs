//! The node lock (`os::node_lock`), which lets one process register at a time, in virtual time.
//! Here processes get it in the order in which they came, which the system does not promise, and
//! nobody waits so long that it would go on without the lock.

use std::collections::VecDeque;

use super::machine::ProcessNumber;

/// How long it takes until a waiting process notices that the lock is free, in seconds: it looks
/// every half a millisecond, and wakes up a little later.
pub(super) const NOTICED_AFTER: f64 = 3e-4;

#[derive(Clone, Debug, Default)]
pub(super) struct SimulatedLock {
    /// The process that holds the lock, then those that wait for it, in the order in which they
    /// came.
    queue: VecDeque<ProcessNumber>,
}

impl SimulatedLock {
    /// Asks for the lock.
    pub(super) fn queue(&mut self, process: ProcessNumber) {
        self.queue.push_back(process);
    }

    /// Whether a process that has asked holds the lock.
    pub(super) fn attempt(&self, process: ProcessNumber) -> bool {
        self.queue.front() == Some(&process)
    }

    /// Releases the lock. Returns the process that holds it next.
    pub(super) fn leave(&mut self) -> Option<ProcessNumber> {
        self.queue.pop_front();
        self.queue.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches two processes that register at once, and a process that the queue forgets.
    #[test]
    fn one_after_the_other_in_the_order_of_arrival() {
        let mut node_lock = SimulatedLock::default();
        for process in [1, 0, 2] {
            node_lock.queue(process);
        }
        assert!(node_lock.attempt(1) && !node_lock.attempt(0) && !node_lock.attempt(2));
        assert_eq!(node_lock.leave(), Some(0));
        assert!(node_lock.attempt(0) && !node_lock.attempt(2));
        assert_eq!((node_lock.leave(), node_lock.leave()), (Some(2), None));
    }
}
