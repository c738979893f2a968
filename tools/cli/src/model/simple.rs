//! The baselines that keep nothing in the background: managed memory, and the pinned ring.
//!
//! Models of motion alone. They decide nothing that the library decides.

use std::collections::VecDeque;

use super::machine::{Actor, Machine, Process};
use super::motion::Motion;
use super::scenario::{Outcome, Scenario};
use crate::bench::plan::ApproachName;

/// Bytes of the pinned ring (VELOC's GPU branch of 2026).
const RING: u64 = 64 << 20;

/// The process.
#[derive(Debug)]
pub(super) struct Simple {
    number: Process,
    sizes: Vec<u64>,
    interval: f64,
    ring: bool,
    /// Managed memory that may be on the device, in bytes.
    room: u64,
    /// The checkpoints on the device, the one that was used last at the end.
    resident: VecDeque<usize>,
    /// Flows that are still to come before the checkpoint or the restore is done.
    steps: VecDeque<(Motion, u64)>,
    doing: Doing,
    taken: usize,
    restored: usize,
    since: f64,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Starting,
    Computing,
    Moving,
    Ended,
}

impl Simple {
    /// A process that has not begun.
    pub(super) fn new(number: Process, scenario: &Scenario) -> Simple {
        Simple {
            number,
            sizes: scenario.sizes_of(number).to_vec(),
            interval: scenario.interval,
            ring: scenario.approach == ApproachName::Ring,
            room: scenario.device_cache,
            resident: VecDeque::new(),
            steps: VecDeque::new(),
            doing: Doing::Starting,
            taken: 0,
            restored: 0,
            since: 0.0,
            outcome: Outcome::default(),
        }
    }

    /// Begins.
    pub(super) fn start(&mut self, machine: &mut Machine) {
        if self.ring {
            machine.flow(self.number, Actor::Application, Motion::AllocateHost, RING);
        } else {
            // Managed memory is reserved; nothing is made before it is used.
            machine.timer(self.number, Actor::Application, 0.0);
        }
    }

    /// Whether the last restore has ended.
    pub(super) fn ended(&self) -> bool {
        self.doing == Doing::Ended
    }

    /// What it went through.
    pub(super) fn outcome(&self) -> Outcome {
        self.outcome.clone()
    }

    /// A flow has arrived, or the computing is done.
    pub(super) fn told(&mut self, machine: &mut Machine) {
        match self.doing {
            Doing::Starting => self.outcome.init = machine.now(),
            Doing::Computing => {
                self.since = machine.now();
                if self.taken < self.sizes.len() {
                    self.take();
                } else {
                    self.restore();
                }
                self.doing = Doing::Moving;
            }
            Doing::Moving | Doing::Ended => {}
        }
        if let Some((motion, bytes)) = self.steps.pop_front() {
            match motion {
                Motion::Down { .. } | Motion::RingDown => self.outcome.flushed += bytes,
                Motion::FaultUp | Motion::RingUp => self.outcome.fetched += bytes,
                _ => {}
            }
            machine.flow(self.number, Actor::Application, motion, bytes);
            return;
        }
        if self.doing == Doing::Moving {
            self.moved(machine.now());
        }
        if self.restored == self.sizes.len() {
            self.doing = Doing::Ended;
            self.outcome.end = machine.now();
        } else {
            self.doing = Doing::Computing;
            machine.timer(self.number, Actor::Application, self.interval);
        }
    }

    fn moved(&mut self, now: f64) {
        let blocked = now - self.since;
        if self.taken < self.sizes.len() {
            self.outcome.captured += self.sizes[self.taken];
            self.taken += 1;
            self.outcome.checkpoints.push(blocked);
        } else {
            self.outcome.restored += self.sizes[self.version()];
            self.restored += 1;
            self.outcome.restores.push(blocked);
        }
    }

    /// The version that is restored next.
    fn version(&self) -> usize {
        self.sizes.len() - 1 - self.restored
    }

    fn take(&mut self) {
        let bytes = self.sizes[self.taken];
        if self.ring {
            self.steps.push_back((Motion::RingDown, bytes));
        } else {
            self.bring(self.taken, Motion::FaultOnDevice);
        }
    }

    fn restore(&mut self) {
        let version = self.version();
        let bytes = self.sizes[version];
        if self.ring {
            self.steps.push_back((Motion::RingUp, bytes));
        } else if let Some(at) = self.resident.iter().position(|&other| other == version) {
            self.resident.remove(at);
            self.resident.push_back(version);
            self.steps.push_back((Motion::OnDevice, bytes));
        } else {
            self.bring(version, Motion::FaultUp);
        }
    }

    /// Makes room by moving what was used longest ago to the host, whose pages are made for it
    /// (the driver gives them back when memory moves up), then brings the checkpoint in.
    fn bring(&mut self, version: usize, motion: Motion) {
        let bytes = self.sizes[version];
        let mut held: u64 = self.resident.iter().map(|&other| self.sizes[other]).sum();
        while held + bytes > self.room {
            let Some(oldest) = self.resident.pop_front() else {
                break;
            };
            held -= self.sizes[oldest];
            let motion = Motion::Down { registered: false, touched: false };
            self.steps.push_back((motion, self.sizes[oldest]));
        }
        self.resident.push_back(version);
        self.steps.push_back((motion, bytes));
    }
}
