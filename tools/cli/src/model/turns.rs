//! The lock by which the processes of the node take turns (`platform::turns`), in virtual time. Here
//! they get it in the order in which they came, which the system does not promise, and nobody waits so
//! long that it would go on without.

use std::collections::VecDeque;

use super::machine::Process;

/// How long it takes until a waiting process notices that the turn is free, in seconds: it looks every
/// half a millisecond, and wakes up a little later.
pub(super) const NOTICED_AFTER: f64 = 3e-4;

/// The lock.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// Who has it or waits for it, in the order in which they came.
    queue: VecDeque<Process>,
}

impl Turns {
    /// Asks for the turn.
    pub(super) fn queue(&mut self, process: Process) {
        self.queue.push_back(process);
    }

    /// Whether a process that has asked has the turn.
    pub(super) fn attempt(&self, process: Process) -> bool {
        self.queue.front() == Some(&process)
    }

    /// Gives the turn back. Who has it next.
    pub(super) fn leave(&mut self) -> Option<Process> {
        self.queue.pop_front();
        self.queue.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches two processes that register at once, and a queue that forgets somebody.
    #[test]
    fn one_after_the_other_in_the_order_of_arrival() {
        let mut turns = Turns::default();
        for process in [1, 0, 2] {
            turns.queue(process);
        }
        assert!(turns.attempt(1) && !turns.attempt(0) && !turns.attempt(2));
        assert_eq!(turns.leave(), Some(0));
        assert!(turns.attempt(0) && !turns.attempt(2));
        assert_eq!((turns.leave(), turns.leave()), (Some(2), None));
    }
}
