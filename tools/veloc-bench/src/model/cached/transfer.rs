//! Copies between the device cache and the host buffer, piece by piece.

use std::collections::VecDeque;

use catalog::pages::TOUCH_UNIT;
use catalog::space::{side_by_side, Extent};
use catalog::state::{MoveEnd, MoveJob};
use catalog::Level;
use policy::bandwidth::Flush;

use super::super::machine::{Actor, SimulatedNode};
use super::super::motion::Motion;
use super::Cached;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransferDirection {
    Down,
    Up,
}

/// A copy on its way.
#[derive(Debug)]
pub(super) struct MovingCopy {
    /// Runs of the copy that are left: places in the host buffer, and bytes.
    runs: VecDeque<(u64, u64)>,
    /// The piece that is being moved: place and bytes.
    moving: Option<(u64, u64)>,
    since: f64,
}

/// The next step of a copy.
pub(super) enum CopyStep {
    /// A piece is on its way.
    Moving,
    /// This piece is to be moved now.
    Next { bytes: u64, registered: bool, touched: bool },
    /// All bytes have arrived.
    Done,
}

/// The worker that flushes, or the one that fetches.
#[derive(Debug)]
pub(super) struct TransferWorker {
    direction: TransferDirection,
    job: Option<TransferJob>,
}

#[derive(Debug)]
struct TransferJob {
    moved: MoveJob,
    untouched: u64,
    transfer: MovingCopy,
    flush: Option<Flush>,
}

impl MovingCopy {
    pub(super) fn new(device: &[Extent], host: &[Extent], len: u64, since: f64) -> MovingCopy {
        let runs = side_by_side(device, host, len).map(|(_, at, len)| (at, len)).collect();
        MovingCopy { runs, moving: None, since }
    }
}

impl TransferWorker {
    pub(super) fn new(direction: TransferDirection) -> TransferWorker {
        TransferWorker { direction, job: None }
    }

    fn actor(&self) -> Actor {
        match self.direction {
            TransferDirection::Down => Actor::Flush,
            TransferDirection::Up => Actor::Fetch,
        }
    }
}

impl Cached {
    /// The next piece of a copy.
    pub(super) fn next_piece(&mut self, transfer: &mut MovingCopy) -> CopyStep {
        if transfer.moving.is_some() {
            return CopyStep::Moving;
        }
        let Some(&(at, left)) = transfer.runs.front() else {
            return CopyStep::Done;
        };
        let Some(pages) = &self.pages else {
            return CopyStep::Done;
        };
        let bytes = self.piece(pages, at, left);
        let units = (at / TOUCH_UNIT) as usize..(at + bytes).div_ceil(TOUCH_UNIT) as usize;
        let touched = pages.all_touched() || self.exists[units].iter().all(|&exists| exists);
        let registered = pages.chunks().is_registered(at);
        transfer.moving = Some((at, bytes));
        CopyStep::Next { bytes, registered, touched }
    }

    /// The piece under way has arrived.
    pub(super) fn end_piece(&mut self, transfer: &mut MovingCopy) {
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

    fn worker(&mut self, direction: TransferDirection) -> &mut TransferWorker {
        match direction {
            TransferDirection::Down => &mut self.flush,
            TransferDirection::Up => &mut self.fetch,
        }
    }

    pub(super) fn transferred(&mut self, direction: TransferDirection) {
        if let Some(mut job) = self.worker(direction).job.take() {
            self.end_piece(&mut job.transfer);
            self.worker(direction).job = Some(job);
        }
    }

    pub(super) fn transfer_goes_on(
        &mut self,
        direction: TransferDirection,
        machine: &mut SimulatedNode,
    ) -> bool {
        let Some(mut job) = self.worker(direction).job.take() else {
            return self.begin_job(direction, machine);
        };
        match self.next_piece(&mut job.transfer) {
            CopyStep::Moving => {}
            CopyStep::Next { bytes, registered, touched } => {
                let motion = match direction {
                    TransferDirection::Down => Motion::Down { registered, touched },
                    TransferDirection::Up => Motion::Up { registered },
                };
                machine.flow(self.number, self.worker(direction).actor(), motion, bytes);
            }
            CopyStep::Done => {
                self.end_job(direction, job, machine);
                return true;
            }
        }
        self.worker(direction).job = Some(job);
        false
    }

    fn begin_job(&mut self, direction: TransferDirection, machine: &mut SimulatedNode) -> bool {
        if self.pages.is_none() {
            return false;
        }
        let next = match direction {
            TransferDirection::Down => self.state.down().next_flush(Level::DEVICE),
            TransferDirection::Up => self.state.up().next_fetch(Level::DEVICE),
        };
        let Some(next) = next else {
            return false;
        };
        let (device, host) = match direction {
            TransferDirection::Down => (&next.from.extents, &next.to.extents),
            TransferDirection::Up => (&next.to.extents, &next.from.extents),
        };
        let untouched = self.pages.as_mut().map_or(0, |pages| {
            let untouched = pages.untouched(host);
            if direction == TransferDirection::Down {
                pages.writing(host);
            }
            untouched
        });
        let job = TransferJob {
            untouched,
            transfer: MovingCopy::new(device, host, next.len, machine.now()),
            moved: next,
            flush: (direction == TransferDirection::Down).then(|| self.pace.flush_begins()),
        };
        self.worker(direction).job = Some(job);
        true
    }

    fn end_job(
        &mut self,
        direction: TransferDirection,
        job: TransferJob,
        machine: &mut SimulatedNode,
    ) {
        let seconds = machine.now() - job.transfer.since;
        match direction {
            TransferDirection::Down => {
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
            TransferDirection::Up => {
                self.outcome.fetched += job.moved.len;
                self.state.up().fetch_done(&job.moved, MoveEnd::Done);
            }
        }
    }
}
