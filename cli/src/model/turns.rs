//! The page on which the processes of the node take turns, in virtual time. The rules are the
//! library's own (`policy::turn`); this stands in for its shared file.

use veloc_client::policy::turn::{
    lease_ms, Decision, Holder, Slot, Snapshot, Waiter, NOBODY, TURN_STALL_MS,
};

use super::machine::Process;

/// How long it takes until a waiting process notices that the turn is free, in seconds: it is woken,
/// and looks (`veloc bench turns`, eight processes: 0.05 ms).
pub const NOTICED_AFTER: f64 = 5e-5;

#[derive(Clone, Copy, Debug)]
struct Place {
    waiter: Waiter,
    slot: Slot,
}

/// The page.
#[derive(Clone, Debug)]
pub struct Turns {
    places: Vec<Option<Place>>,
    owner: u64,
    next: u64,
}

impl Turns {
    /// An empty page.
    pub fn new(processes: usize) -> Turns {
        Turns { places: vec![None; processes], owner: NOBODY, next: NOBODY + 1 }
    }

    /// Asks for the turn, for work on `bytes`.
    pub fn queue(&mut self, process: Process, bytes: u64, now_ms: u64) {
        let ticket = self.next;
        self.next += 1;
        let slot = Slot {
            ticket,
            alive: true,
            beat_ms: now_ms,
            started_ms: None,
            lease_ms: lease_ms(bytes),
        };
        let waiter = self.look(process, now_ms, |seen| Waiter::new(ticket, seen, TURN_STALL_MS));
        self.places[process] = Some(Place { waiter, slot });
    }

    /// Takes the turn if the rules give it. Otherwise the time until which to wait, in ms.
    pub fn attempt(&mut self, process: Process, now_ms: u64) -> Result<(), u64> {
        let Some(Place { waiter, slot }) = self.places[process] else {
            return Err(now_ms);
        };
        if let Decision::Wait { until_ms } = self.look(process, now_ms, |seen| waiter.decide(seen))
        {
            return Err(until_ms);
        }
        self.owner = slot.ticket;
        let slot = Slot { started_ms: Some(now_ms), beat_ms: now_ms, ..slot };
        self.places[process] = Some(Place { waiter, slot });
        Ok(())
    }

    /// A sign of life of whoever has the turn; false once it has lost it.
    pub fn beat(&mut self, process: Process, now_ms: u64) -> bool {
        let owner = self.owner;
        let Some(Place { slot, .. }) = &mut self.places[process] else {
            return false;
        };
        let (ticket, lease_ms) = (slot.ticket, slot.lease_ms);
        let keeps = slot.started_ms.is_some_and(|started_ms| {
            let stall_ms = TURN_STALL_MS;
            Holder { ticket, beat_ms: slot.beat_ms, started_ms, lease_ms, stall_ms }
                .keeps(owner, now_ms)
        });
        slot.beat_ms = now_ms;
        if !keeps {
            self.places[process] = None;
        }
        keeps
    }

    /// Gives the turn, or the place in the queue, back. Those who wait are the answer.
    pub fn leave(&mut self, process: Process) -> Vec<Process> {
        if let Some(Place { slot, .. }) = self.places[process].take() {
            if self.owner == slot.ticket {
                self.owner = NOBODY;
            }
        }
        let waits = |&process: &Process| {
            self.places[process].is_some_and(|place| place.slot.started_ms.is_none())
        };
        (0..self.places.len()).filter(waits).collect()
    }

    fn look<T>(&self, process: Process, now_ms: u64, with: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        let others: Vec<Slot> = self
            .places
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != process)
            .filter_map(|(_, place)| Some(place.as_ref()?.slot))
            // Who waits gives a sign of life at each look, which is every few milliseconds.
            .map(|slot| match slot.started_ms {
                None => Slot { beat_ms: now_ms, ..slot },
                Some(_) => slot,
            })
            .collect();
        with(&Snapshot { others: &others, owner: self.owner, next: self.next, now_ms })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches two processes that register at once, and a queue that forgets somebody.
    #[test]
    fn one_after_the_other_in_the_order_of_arrival() {
        let mut turns = Turns::new(3);
        for process in [1, 0, 2] {
            turns.queue(process, 1 << 30, 0);
        }
        assert!(turns.attempt(0, 1).is_err(), "1 came first");
        assert!(turns.attempt(1, 1).is_ok());
        assert!(turns.attempt(0, 2).is_err() && turns.attempt(2, 2).is_err());
        assert!(turns.beat(1, 500));
        assert_eq!(turns.leave(1), [0, 2]);
        assert!(turns.attempt(2, 501).is_err());
        assert!(turns.attempt(0, 501).is_ok());
        turns.leave(0);
        assert!(turns.attempt(2, 502).is_ok());
    }

    /// Catches a holder that keeps everybody waiting although it shows no sign of life.
    #[test]
    fn a_stalled_holder_is_passed_over() {
        let mut turns = Turns::new(2);
        turns.queue(0, 1 << 30, 0);
        assert!(turns.attempt(0, 0).is_ok());
        turns.queue(1, 1 << 30, 0);
        let until_ms = turns.attempt(1, 0).unwrap_err();
        assert!(turns.attempt(1, until_ms).is_ok());
        assert!(!turns.beat(0, until_ms), "it has lost the turn");
    }
}
