//! Copies between the device cache and the host buffer, piece by piece.

use std::collections::VecDeque;

use catalog::space::{side_by_side, Extent};
use catalog::state::{MoveEnd, MoveJob};
use catalog::Level;
use levels::pages::TOUCH_UNIT;
use policy::bandwidth::Flush;

use super::super::machine::{Actor, Machine};
use super::super::motion::Motion;
use super::Cached;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Down,
    Up,
}

/// A copy on its way.
#[derive(Debug)]
pub(super) struct Transfer {
    /// Runs of the copy that are left: places in the host buffer, and bytes.
    runs: VecDeque<(u64, u64)>,
    /// The piece that is being moved: place and bytes.
    moving: Option<(u64, u64)>,
    since: f64,
}

/// The next step of a copy.
pub(super) enum Piece {
    /// A piece is on its way.
    Moving,
    /// This piece is to be moved now.
    Next { bytes: u64, registered: bool, touched: bool },
    /// All bytes have arrived.
    Done,
}

/// The worker that flushes, or the one that fetches.
#[derive(Debug)]
pub(super) struct Worker {
    direction: Direction,
    job: Option<Job>,
}

#[derive(Debug)]
struct Job {
    moved: MoveJob,
    untouched: u64,
    transfer: Transfer,
    flush: Option<Flush>,
}

impl Transfer {
    pub(super) fn new(device: &[Extent], host: &[Extent], len: u64, since: f64) -> Transfer {
        let runs = side_by_side(device, host, len).map(|(_, at, len)| (at, len)).collect();
        Transfer { runs, moving: None, since }
    }
}

impl Worker {
    pub(super) fn new(direction: Direction) -> Worker {
        Worker { direction, job: None }
    }

    fn actor(&self) -> Actor {
        match self.direction {
            Direction::Down => Actor::Flush,
            Direction::Up => Actor::Fetch,
        }
    }
}

impl Cached {
    /// The next piece of a copy.
    pub(super) fn next_piece(&mut self, transfer: &mut Transfer) -> Piece {
        if transfer.moving.is_some() {
            return Piece::Moving;
        }
        let Some(&(at, left)) = transfer.runs.front() else {
            return Piece::Done;
        };
        let Some(pages) = &self.pages else {
            return Piece::Done;
        };
        let bytes = self.piece(pages, at, left);
        let units = (at / TOUCH_UNIT) as usize..(at + bytes).div_ceil(TOUCH_UNIT) as usize;
        let touched = pages.all_touched() || self.exists[units].iter().all(|&exists| exists);
        let registered = pages.chunks().is_registered(at);
        transfer.moving = Some((at, bytes));
        Piece::Next { bytes, registered, touched }
    }

    /// The piece under way has arrived.
    pub(super) fn end_piece(&mut self, transfer: &mut Transfer) {
        let Some((at, bytes)) = transfer.moving.take() else {
            return;
        };
        // A piece is no longer than a unit as long as any page is missing.
        if let Some(exists) = self.exists.get_mut((at / TOUCH_UNIT) as usize) {
            *exists = true;
        }
        if let Some((run_at, run_left)) = transfer.runs.front_mut() {
            *run_at += bytes;
            *run_left -= bytes;
            if *run_left == 0 {
                transfer.runs.pop_front();
            }
        }
    }

    fn worker(&mut self, direction: Direction) -> &mut Worker {
        match direction {
            Direction::Down => &mut self.flush,
            Direction::Up => &mut self.fetch,
        }
    }

    pub(super) fn transferred(&mut self, direction: Direction) {
        if let Some(mut job) = self.worker(direction).job.take() {
            self.end_piece(&mut job.transfer);
            self.worker(direction).job = Some(job);
        }
    }

    pub(super) fn transfer_goes_on(&mut self, direction: Direction, machine: &mut Machine) -> bool {
        let Some(mut job) = self.worker(direction).job.take() else {
            return self.begin_job(direction, machine);
        };
        match self.next_piece(&mut job.transfer) {
            Piece::Moving => {}
            Piece::Next { bytes, registered, touched } => {
                let motion = match direction {
                    Direction::Down => Motion::Down { registered, touched },
                    Direction::Up => Motion::Up { registered },
                };
                machine.flow(self.number, self.worker(direction).actor(), motion, bytes);
            }
            Piece::Done => {
                self.end_job(direction, job, machine);
                return true;
            }
        }
        self.worker(direction).job = Some(job);
        false
    }

    fn begin_job(&mut self, direction: Direction, machine: &mut Machine) -> bool {
        if self.pages.is_none() {
            return false;
        }
        let next = match direction {
            Direction::Down => self.state.down().next_flush(Level::DEVICE),
            Direction::Up => self.state.up().next_fetch(Level::DEVICE),
        };
        let Some(next) = next else {
            return false;
        };
        let (device, host) = match direction {
            Direction::Down => (&next.from.extents, &next.to.extents),
            Direction::Up => (&next.to.extents, &next.from.extents),
        };
        let untouched = self.pages.as_mut().map_or(0, |pages| {
            let untouched = pages.untouched(host);
            if direction == Direction::Down {
                pages.writing(host);
            }
            untouched
        });
        let job = Job {
            untouched,
            transfer: Transfer::new(device, host, next.len, machine.now()),
            moved: next,
            flush: (direction == Direction::Down).then(|| self.pace.flush_begins()),
        };
        self.worker(direction).job = Some(job);
        true
    }

    fn end_job(&mut self, direction: Direction, job: Job, machine: &mut Machine) {
        let seconds = machine.now() - job.transfer.since;
        match direction {
            Direction::Down => {
                if let Some(pages) = &mut self.pages {
                    pages.written(&job.moved.to.extents);
                }
                if let Some(flush) = job.flush {
                    self.pace.flush_ends(flush, job.moved.len, job.untouched, seconds);
                }
                self.outcome.flushed += job.moved.len;
                self.state.down().flush_done(&job.moved, MoveEnd::Done);
                self.note_touched(machine);
            }
            Direction::Up => {
                self.outcome.fetched += job.moved.len;
                self.state.up().fetch_done(&job.moved, MoveEnd::Done);
            }
        }
    }
}
