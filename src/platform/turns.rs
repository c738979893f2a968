//! Turns between the processes of a node, whoever started them: at any time one of them has the
//! turn, and the others wait in the order in which they came.
//!
//! The rules are those of [`policy::turn`](crate::policy::turn); here is what carries them out: a
//! file that all processes map, locks that tell who exists, a clock, and short sleeps. Whoever
//! gives its turn up or leaves the queue wakes those who wait. Whoever dies or stops does not, and
//! nothing else tells of it, so that nobody sleeps for longer than 5 ms between two looks.
//! Nothing here can hold a process up for longer than those rules allow: when there is no turn to
//! be had (no slot, no locks, a page that went away) the process goes on without one and says so.

mod page;

#[cfg(test)]
mod tests;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::policy::turn::{
    lease_ms, Decision, Holder, Slot, Snapshot, Waiter, NOBODY, TURN_STALL_MS,
};
use page::{now_ms, Page, SlotLock, SLOTS};

/// The longest sleep between two looks at the page, in ms. It bounds how long a death or the end of
/// the engine goes unnoticed, and has to be much shorter than [`TURN_STALL_MS`]: each look is a
/// sign of life.
const LONGEST_SLEEP_MS: u64 = 5;

/// The sleep after somebody else was faster, or that ends at once by the clock, in ms.
const SHORTEST_SLEEP_MS: u64 = 1;

/// How often a slot is read again because its owner changed meanwhile.
const REREADS: usize = 3;

/// The turns of this node.
#[derive(Clone, Debug)]
pub struct Turns {
    page: Arc<Page>,
    path: PathBuf,
    /// [`TURN_STALL_MS`] outside tests.
    stall_ms: u64,
    /// [`LONGEST_SLEEP_MS`] outside tests.
    sleep_ms: u64,
}

/// What a process that has to wait waits for.
#[derive(Clone, Copy, Debug)]
struct Rest {
    /// Any other number of departures from the page than before the look at it.
    departures: u32,
    /// The time in ms until which the rules say to wait.
    until_ms: u64,
}

/// How a process stands that asked for a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has the turn.
    Held,
    /// It had the turn, but gave no sign of life for too long, or kept it for too long.
    Lost,
    /// It stopped waiting because it was told to.
    Cancelled,
    /// There was no turn to be had: all slots are taken, or the page cannot be used.
    Unavailable,
}

/// A turn. Dropping it lets the next one go.
#[derive(Debug)]
pub struct Turn {
    held: Option<(Place, Holder)>,
    standing: Standing,
}

/// A place in the queue: a slot with a ticket. Dropping it leaves the queue, or ends the turn.
#[derive(Debug)]
struct Place {
    page: Arc<Page>,
    lock: SlotLock,
    ticket: u64,
    lease_ms: u64,
    stall_ms: u64,
    /// The process that made it. A forked child has a copy, which must not end the turn.
    process: u32,
}

impl Turns {
    /// Opens the page of this node: in `/dev/shm`, or else in the directory for temporary files;
    /// one for all users, or else (when another user's cannot be opened) one for this user.
    ///
    /// # Errors
    /// Neither place has room for a file; the message has the reason for the last attempt.
    pub fn open() -> Result<Turns> {
        // SAFETY: geteuid cannot fail.
        let user = unsafe { libc::geteuid() };
        let shared = format!("veloc-turns-{}", page::VERSION);
        let own = format!("{shared}-{user}");
        let mut failure = Error::invalid("there is no directory for the page of turns");
        for directory in [PathBuf::from("/dev/shm"), env::temp_dir()] {
            for name in [&shared, &own] {
                let path = directory.join(name);
                if *name == own && !page::is_own(&path) {
                    continue;
                }
                match Self::open_at(&path) {
                    Ok(turns) => return Ok(turns),
                    Err(e) => failure = e,
                }
            }
        }
        Err(failure)
    }

    /// Opens the page at `path`, or makes it. Processes take turns if they open the same one.
    ///
    /// # Errors
    /// The file cannot be opened, made, given room (20 KiB) or mapped, or is no regular file.
    /// What is in it does not matter.
    pub fn open_at(path: &Path) -> Result<Turns> {
        let page = Arc::new(Page::open(path)?);
        let (stall_ms, sleep_ms) = (TURN_STALL_MS, LONGEST_SLEEP_MS);
        Ok(Turns { page, path: path.to_path_buf(), stall_ms, sleep_ms })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the turn, for work on `bytes` bytes. Sleeps between looks at the page; before
    /// each, `cancel` is asked, and true ends the waiting without a turn. Never fails: the turn
    /// that comes back says how it stands, and the work is right in any case.
    pub fn enter(&self, bytes: u64, cancel: &dyn Fn() -> bool) -> Turn {
        let place = match self.queue(bytes) {
            Ok(place) => place,
            Err(e) => {
                log::warn!("going on without a turn: {e}");
                return Turn::without(Standing::Unavailable);
            }
        };
        let waiter = place.waiter();
        loop {
            if cancel() {
                return Turn::without(Standing::Cancelled);
            }
            if !self.page.is_whole() {
                log::warn!("going on without a turn: {} became shorter", self.path.display());
                return Turn::without(Standing::Unavailable);
            }
            match place.attempt(&waiter) {
                Ok(holder) => return Turn::with(place, holder),
                Err(rest) => self.sleep(rest),
            }
        }
    }

    /// The turn, if it can be had without waiting. If there is no turn to be had at all, one that
    /// says so ([`Standing::Unavailable`]).
    pub fn try_enter(&self, bytes: u64) -> Option<Turn> {
        match self.queue(bytes) {
            Err(e) => {
                log::warn!("going on without a turn: {e}");
                Some(Turn::without(Standing::Unavailable))
            }
            Ok(place) => {
                let waiter = place.waiter();
                let holder = place.attempt(&waiter).ok()?;
                Some(Turn::with(place, holder))
            }
        }
    }

    fn sleep(&self, rest: Rest) {
        let left_ms = rest.until_ms.saturating_sub(now_ms());
        let sleep_ms = left_ms.min(self.sleep_ms).max(SHORTEST_SLEEP_MS);
        self.page.await_departure(rest.departures, Duration::from_millis(sleep_ms));
    }

    /// Takes a slot and a ticket.
    fn queue(&self, bytes: u64) -> Result<Place> {
        if !self.page.is_whole() {
            return Err(Error::invalid(format!("{} became shorter", self.path.display())));
        }
        let Some(lock) = self.page.lock_a_slot()? else {
            return Err(Error::invalid(format!(
                "all {SLOTS} places on {} are taken",
                self.path.display()
            )));
        };
        let slot = self.page.slot(lock.index());
        // What the last owner left must not pass for this one's.
        slot.ticket.store(NOBODY, Ordering::SeqCst);
        slot.started_ms.store(0, Ordering::SeqCst);
        let lease_ms = lease_ms(bytes);
        slot.lease_ms.store(lease_ms, Ordering::SeqCst);
        slot.beat_ms.store(now_ms(), Ordering::SeqCst);
        let ticket = loop {
            let drawn = self.page.next().fetch_add(1, Ordering::SeqCst);
            if drawn != NOBODY {
                break drawn;
            }
        };
        // From here on the others see it.
        slot.ticket.store(ticket, Ordering::SeqCst);
        Ok(Place {
            page: Arc::clone(&self.page),
            lock,
            ticket,
            lease_ms,
            stall_ms: self.stall_ms,
            process: std::process::id(),
        })
    }
}

impl Turn {
    fn without(standing: Standing) -> Turn {
        Turn { held: None, standing }
    }

    fn with(place: Place, holder: Holder) -> Turn {
        Turn { held: Some((place, holder)), standing: Standing::Held }
    }

    /// How this process stood at the last [`beat`](Self::beat).
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// Gives a sign of life, and tells whether the turn is still this process's. To be called at
    /// least a few times in each [`TURN_STALL_MS`], as between two calls of the driver. Once it is
    /// false it stays false, and the next one may be at work already.
    pub fn beat(&mut self) -> bool {
        let Some((place, holder)) = &mut self.held else {
            return false;
        };
        let now = now_ms();
        let mut keeps = place.page.is_whole();
        if keeps {
            let owner = place.page.owner();
            keeps = holder.keeps(owner.load(Ordering::SeqCst), now);
            if keeps {
                holder.beat_ms = now;
                place.publish(now, Some(holder.started_ms));
                // Somebody may have passed over it between the first look and the sign of life.
                keeps = holder.keeps(owner.load(Ordering::SeqCst), now);
            }
        }
        if !keeps {
            // Leaves the slot, so that nobody waits for it.
            self.held = None;
            self.standing = Standing::Lost;
        }
        keeps
    }
}

impl Place {
    /// The state machine for a place just taken.
    fn waiter(&self) -> Waiter {
        self.look(|seen| Waiter::new(self.ticket, seen, self.stall_ms))
    }

    /// Looks at the page and takes the turn if that is what the rules say. Otherwise tells what
    /// they say to wait for.
    fn attempt(&self, waiter: &Waiter) -> std::result::Result<Holder, Rest> {
        // Before the look, so that whoever leaves during or after it is not slept over.
        let departures = self.page.departures();
        let beat_ms = now_ms();
        self.publish(beat_ms, None);
        let expected = match self.look(|seen| waiter.decide(seen)) {
            Decision::Wait { until_ms } => return Err(Rest { departures, until_ms }),
            Decision::Go => NOBODY,
            Decision::PassOver { ticket } => ticket,
        };
        let owner = self.page.owner();
        match owner.compare_exchange(expected, self.ticket, Ordering::SeqCst, Ordering::SeqCst) {
            Err(other) if other != self.ticket => {
                return Err(Rest { departures, until_ms: beat_ms });
            }
            _ => {}
        }
        if expected != NOBODY {
            log::debug!("ticket {} passed over ticket {expected}", self.ticket);
        }
        let started_ms = now_ms();
        self.publish(started_ms, Some(started_ms));
        Ok(Holder {
            ticket: self.ticket,
            beat_ms: started_ms,
            started_ms,
            lease_ms: self.lease_ms,
            stall_ms: self.stall_ms,
        })
    }

    /// Writes all of the own slot, in case something was written over it.
    fn publish(&self, beat_ms: u64, started_ms: Option<u64>) {
        let slot = self.page.slot(self.lock.index());
        slot.lease_ms.store(self.lease_ms, Ordering::SeqCst);
        slot.started_ms.store(started_ms.unwrap_or(0), Ordering::SeqCst);
        slot.beat_ms.store(beat_ms, Ordering::SeqCst);
        slot.ticket.store(self.ticket, Ordering::SeqCst);
    }

    /// Reads the page, in the order that [`Snapshot`] asks for.
    fn look<T>(&self, with: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        let now_ms = now_ms();
        let owner = self.page.owner().load(Ordering::SeqCst);
        let others: Vec<Slot> = (0..SLOTS)
            .filter(|index| *index != self.lock.index())
            .filter_map(|index| self.read(index))
            .collect();
        let next = self.page.next().load(Ordering::SeqCst);
        with(&Snapshot { others: &others, owner, next, now_ms })
    }

    /// What slot `index` says, if it is in use.
    fn read(&self, index: usize) -> Option<Slot> {
        let words = self.page.slot(index);
        let mut ticket = words.ticket.load(Ordering::SeqCst);
        for _ in 0..REREADS {
            if ticket == NOBODY {
                return None;
            }
            let started_ms = words.started_ms.load(Ordering::SeqCst);
            let slot = Slot {
                ticket,
                beat_ms: words.beat_ms.load(Ordering::SeqCst),
                started_ms: (started_ms != 0).then_some(started_ms),
                lease_ms: words.lease_ms.load(Ordering::SeqCst),
                alive: self.lock.is_locked_by_another(index),
            };
            // The same ticket before and after: all of it is of one owner.
            let after = words.ticket.load(Ordering::SeqCst);
            if after == ticket {
                return Some(slot);
            }
            ticket = after;
        }
        // Owners come and go faster than one can look. They are later in the queue than this one.
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.process != std::process::id() || !self.page.is_whole() {
            return;
        }
        self.page.slot(self.lock.index()).ticket.store(NOBODY, Ordering::SeqCst);
        // If the word has another ticket, the turn was lost.
        let owner = self.page.owner();
        let _ = owner.compare_exchange(self.ticket, NOBODY, Ordering::SeqCst, Ordering::SeqCst);
        self.page.note_departure();
    }
}
