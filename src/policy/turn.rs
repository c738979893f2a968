//! Whose turn it is, among processes that know nothing of each other.
//!
//! Each process that wants a turn draws a ticket and is served in the order of the tickets. There
//! is one word that says who has the turn; whoever is told to go replaces what it read there by
//! its own ticket in one atomic step, and has the turn if that succeeds. So two can never take the
//! same turn, however old what they decided upon was.
//!
//! A turn makes work faster, it does not make it right. Hence nobody waits for a process that
//! cannot use it:
//! - one that died is passed over at once;
//! - one that gave no sign of life for [`TURN_STALL_MS`] (stopped, hung, swapped out) is passed
//!   over, in the queue as well as in its turn;
//! - one that is alive but has had the turn for longer than its lease ([`lease_ms`]) is passed
//!   over;
//! - and whoever has waited for as long as all of that could take for everyone it found
//!   ([`Waiter::give_up_ms`]) goes in any case, so that not even a damaged page can hold it up.
//!
//! The holder judges itself by the same rules ([`Holder::keeps`]): as long as it finds that it has
//! the turn, nobody who reads the same clock finds that it may be passed over.
//!
//! Times are in ms of a clock that all processes of the node share. There is no clock, thread or
//! file in here.

/// How long a process may give no sign of life before it is passed over, in ms.
pub const TURN_STALL_MS: u64 = 1000;

/// The longest lease, in ms, however many bytes a process says it has.
pub const LONGEST_LEASE_MS: u64 = 10 * 60 * 1000;

/// The ticket that nobody draws: on the word for the holder it says that the turn is free.
pub const NOBODY: u64 = 0;

/// What every lease has, in ms, before the bytes are counted.
const LEASE_BASE_MS: u64 = 2000;

/// The slowest rate at which a holder is expected to work, in bytes per ms (256 MiB/s).
const LEASE_BYTES_PER_MS: u64 = (256 << 20) / 1000;

/// How long, in ms, a process may keep the turn for work on `bytes`: 2 s, and 1 s for each
/// 256 MiB, up to [`LONGEST_LEASE_MS`].
pub fn lease_ms(bytes: u64) -> u64 {
    (LEASE_BASE_MS + bytes / LEASE_BYTES_PER_MS).min(LONGEST_LEASE_MS)
}

/// What is known of one other process that waits or has the turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Its ticket.
    pub ticket: u64,
    /// Whether it exists.
    pub alive: bool,
    /// When it last gave a sign of life.
    pub beat_ms: u64,
    /// When it got the turn, once it has.
    pub started_ms: Option<u64>,
    /// For how long it may keep it.
    pub lease_ms: u64,
}

/// All that one process sees at a moment, itself left out. The time has to be read before the
/// slots and `next` after them; what happens in between then only delays a decision.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The other processes, in any order.
    pub others: &'a [Slot],
    /// The ticket of whoever has the turn, or [`NOBODY`].
    pub owner: u64,
    /// The ticket that is drawn next. It is what "earlier" refers to: tickets may wrap around.
    pub next: u64,
    /// The time.
    pub now_ms: u64,
}

/// What a waiting process should do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Take the free turn: replace [`NOBODY`] by the own ticket (or keep that, if it is there).
    Go,
    /// Take the turn from a holder that does not count any more: replace `ticket` by the own one.
    PassOver {
        /// The ticket of that holder.
        ticket: u64,
    },
    /// Wait. Without any change on the page the decision stays the same until then.
    Wait {
        /// The earliest time at which the passing of time alone decides otherwise.
        until_ms: u64,
    },
}

/// A process that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    ticket: u64,
    give_up_ms: u64,
    stall_ms: u64,
}

/// A process that has the turn, as it sees itself.
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    /// Its ticket.
    pub ticket: u64,
    /// When it last gave a sign of life.
    pub beat_ms: u64,
    /// When it got the turn.
    pub started_ms: u64,
    /// For how long it may keep it.
    pub lease_ms: u64,
    /// How long it may give no sign of life; [`TURN_STALL_MS`] outside tests.
    pub stall_ms: u64,
}

impl Waiter {
    /// A process that has just drawn `ticket` and sees `snapshot`. `stall_ms` is
    /// [`TURN_STALL_MS`] outside tests.
    pub fn new(ticket: u64, snapshot: &Snapshot<'_>, stall_ms: u64) -> Waiter {
        // Everyone who is there may have the turn once before this one: later arrivals have later
        // tickets. A stall is added for each, because a process may get the turn and stop.
        let patience =
            snapshot.others.iter().filter(|slot| slot.alive).fold(stall_ms, |sum, slot| {
                sum.saturating_add(slot.lease_ms.min(LONGEST_LEASE_MS)).saturating_add(stall_ms)
            });
        Waiter { ticket, give_up_ms: snapshot.now_ms.saturating_add(patience), stall_ms }
    }

    /// When this process stops waiting whatever it sees, in ms.
    pub fn give_up_ms(&self) -> u64 {
        self.give_up_ms
    }

    /// What to do.
    pub fn decide(&self, snapshot: &Snapshot<'_>) -> Decision {
        let take = match snapshot.owner {
            NOBODY => Decision::Go,
            owner if owner == self.ticket => return Decision::Go,
            ticket => Decision::PassOver { ticket },
        };
        if snapshot.now_ms >= self.give_up_ms {
            return take;
        }
        // The holder comes first whatever its ticket: it may have passed over this process, which
        // gives signs of life again.
        let holds = |slot: &&Slot| snapshot.owner != NOBODY && slot.ticket == snapshot.owner;
        let blocked_until = self.latest(snapshot, holds, Slot::loses_turn_ms).or_else(|| {
            let age = |ticket| snapshot.next.wrapping_sub(ticket);
            let ahead = |slot: &&Slot| {
                // Who had the turn and lost it is not in the queue, even if it has yet to notice.
                let had_it = slot.started_ms.is_some() || slot.ticket == snapshot.owner;
                !had_it && age(slot.ticket) > age(self.ticket)
            };
            self.latest(snapshot, ahead, Slot::stalls_ms)
        });
        match blocked_until {
            Some(until_ms) => Decision::Wait { until_ms: until_ms.min(self.give_up_ms) },
            None => take,
        }
    }

    /// Until when the last of those slots blocks that `which` selects and that do block.
    fn latest(
        &self,
        snapshot: &Snapshot<'_>,
        which: impl Fn(&&Slot) -> bool,
        until: impl Fn(&Slot, u64) -> u64,
    ) -> Option<u64> {
        snapshot
            .others
            .iter()
            .filter(|slot| slot.alive && slot.ticket != NOBODY)
            // A sign of life from the future is a damaged one, or one by another clock.
            .filter(|slot| slot.beat_ms <= snapshot.now_ms.saturating_add(self.stall_ms))
            .filter(which)
            .map(|slot| until(slot, self.stall_ms))
            .filter(|until_ms| *until_ms > snapshot.now_ms)
            .max()
    }
}

impl Slot {
    /// From when on the process counts as stalled.
    fn stalls_ms(&self, stall_ms: u64) -> u64 {
        stalls_ms(self.beat_ms, stall_ms)
    }

    /// From when on the process, having the turn, may be passed over.
    fn loses_turn_ms(&self, stall_ms: u64) -> u64 {
        let lease_ms = self.lease_ms.min(LONGEST_LEASE_MS);
        let lease_ends = self.started_ms.map(|started_ms| lease_ends_ms(started_ms, lease_ms));
        // It took the turn and is about to note when: signs of life have to do until then.
        lease_ends.unwrap_or(u64::MAX).min(self.stalls_ms(stall_ms))
    }
}

impl Holder {
    /// Whether this process still has the turn, seeing `owner` in the word for the holder at
    /// `now_ms`. Once it is false it stays false.
    pub fn keeps(&self, owner: u64, now_ms: u64) -> bool {
        owner == self.ticket
            && now_ms < stalls_ms(self.beat_ms, self.stall_ms)
            && now_ms < lease_ends_ms(self.started_ms, self.lease_ms)
    }
}

/// The first moment at which a process with that sign of life counts as stalled.
fn stalls_ms(beat_ms: u64, stall_ms: u64) -> u64 {
    beat_ms.saturating_add(stall_ms).saturating_add(1)
}

/// The first moment at which a turn has lasted too long.
fn lease_ends_ms(started_ms: u64, lease_ms: u64) -> u64 {
    started_ms.saturating_add(lease_ms).saturating_add(1)
}

#[cfg(test)]
mod tests;
