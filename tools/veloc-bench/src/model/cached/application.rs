//! The application: computes and takes a checkpoint, again and again, then computes and restores
//! them in reverse.

use anyhow::{bail, Result};
use catalog::space::Extent;
use catalog::state::{Acquire, Destination, Reserve, WaitFor};
use catalog::{Id, Level, Part, Region};

use super::super::machine::{Actor, SimulatedNode};
use super::super::motion::Motion;
use super::transfer::{CopyStep, MovingCopy};
use super::{Cached, NAME};

/// The application and its state.
#[derive(Debug, Default)]
pub(super) struct Application {
    doing: ApplicationStep,
    /// Checkpoints taken.
    taken: usize,
    restored: usize,
    /// Since when the application is blocked.
    since: f64,
    /// What its checkpoint waits for, and since when.
    waits: Option<(WaitFor, f64)>,
}

#[derive(Debug, Default)]
enum ApplicationStep {
    #[default]
    AllocatingDevice,
    AllocatingHost,
    Computing,
    /// Waits for room in the device cache.
    Reserving(Id),
    /// Copies into the device cache.
    Capturing(Id),
    /// Waits for bytes on their way to the device cache.
    Acquiring(Id),
    /// Copies out of the device cache.
    Restoring(Id),
    /// Copies out of the host buffer, a piece at a time.
    RestoringFromHost(Id, MovingCopy),
    Ended,
}

impl Application {
    pub(super) fn ended(&self) -> bool {
        matches!(self.doing, ApplicationStep::Ended)
    }
}

impl Cached {
    pub(super) fn start_application(&mut self, machine: &mut SimulatedNode) {
        if self.setup.direct_device {
            let bytes = self.map.left();
            machine.flow(self.number, Actor::Application, Motion::AllocateDevice, bytes);
        } else {
            self.compute(machine);
        }
    }

    fn compute(&mut self, machine: &mut SimulatedNode) {
        self.application.doing = ApplicationStep::Computing;
        machine.timer(self.number, Actor::Application, self.interval);
    }

    pub(super) fn application_told(&mut self, machine: &mut SimulatedNode) -> Result<()> {
        let now = machine.now();
        match std::mem::take(&mut self.application.doing) {
            ApplicationStep::AllocatingDevice => {
                let bytes = self.map.left();
                self.map.all();
                self.state.growth().grown(Level::DEVICE, bytes);
                self.state.growth().completed(Level::DEVICE);
                match self.pages.as_ref().filter(|_| self.setup.direct_host) {
                    Some(pages) => {
                        let bytes = pages.len();
                        self.application.doing = ApplicationStep::AllocatingHost;
                        machine.flow(self.number, Actor::Application, Motion::AllocateHost, bytes);
                    }
                    None => {
                        self.outcome.init = now;
                        self.compute(machine);
                    }
                }
            }
            ApplicationStep::AllocatingHost => {
                self.all_usable();
                self.outcome.touched_at = now;
                self.outcome.registered_at = now;
                self.outcome.init = now;
                self.compute(machine);
            }
            ApplicationStep::Computing => {
                self.application.since = now;
                self.calls.call_begins(now);
                if self.application.taken < self.sizes.len() {
                    self.pace.checkpoint_begins(now);
                    let id = self.state.captures().open(NAME, self.application.taken as i32);
                    self.application.doing = ApplicationStep::Reserving(id);
                } else {
                    let version = (self.sizes.len() - 1 - self.application.restored) as i32;
                    let Some(id) = self.state.checkpoints().find(NAME, version) else {
                        bail!("process {}: version {version} is lost", self.number);
                    };
                    self.state.up().begin_restore(id);
                    self.application.doing = ApplicationStep::Acquiring(id);
                }
            }
            ApplicationStep::Capturing(id) => {
                let size = self.sizes[self.application.taken];
                let region = Region { id: 0, size, part: Part::Device, offset: 0, decoded: None };
                self.pace.checkpoint_captured(size, now);
                self.state.captures().commit(id, vec![region], true);
                self.outcome.captured += size;
                self.outcome.checkpoints.push(now - self.application.since);
                self.application.taken += 1;
                self.calls.call_ends(now);
                self.compute(machine);
            }
            ApplicationStep::Restoring(id) => {
                self.state.up().release(id, Part::Device, Level::DEVICE);
                self.end_restore(id, machine);
            }
            ApplicationStep::RestoringFromHost(id, mut transfer) => {
                self.end_piece(&mut transfer);
                self.application.doing = ApplicationStep::RestoringFromHost(id, transfer);
            }
            doing @ (ApplicationStep::Reserving(_)
            | ApplicationStep::Acquiring(_)
            | ApplicationStep::Ended) => {
                self.application.doing = doing;
            }
        }
        Ok(())
    }

    fn end_restore(&mut self, id: Id, machine: &mut SimulatedNode) {
        self.state.up().end_restore(id, true);
        let version = self.sizes.len() - 1 - self.application.restored;
        self.outcome.restored += self.sizes[version];
        self.outcome.restores.push(machine.now() - self.application.since);
        self.application.restored += 1;
        self.calls.call_ends(machine.now());
        if self.application.restored == self.sizes.len() {
            self.application.doing = ApplicationStep::Ended;
            self.outcome.end = machine.now();
        } else {
            self.compute(machine);
        }
    }

    /// From now on a checkpoint waits for this, or for nothing.
    fn count_wait(&mut self, cause: Option<WaitFor>, now: f64) {
        match self.application.waits.take() {
            Some((WaitFor::Growth, since)) => self.outcome.waited_for_memory += now - since,
            Some((WaitFor::Room(_), since)) => self.outcome.waited_for_room += now - since,
            None => {}
        }
        self.application.waits = cause.map(|cause| (cause, now));
    }

    pub(super) fn application_goes_on(&mut self, machine: &mut SimulatedNode) -> Result<bool> {
        match std::mem::take(&mut self.application.doing) {
            ApplicationStep::Reserving(id) => {
                let len = self.sizes[self.application.taken];
                let [destination, _] = self.state.destination([len, 0])?;
                if destination != Destination::Memory(Level::DEVICE) {
                    bail!("process {}: {len} bytes are to go to {destination:?}", self.number);
                }
                let reserved = self.state.captures().reserve(id, Part::Device, len, Level::DEVICE);
                let cause = match reserved {
                    Reserve::Wait(cause) => Some(cause),
                    _ => None,
                };
                self.count_wait(cause, machine.now());
                match reserved {
                    Reserve::Got { .. } => {
                        machine.flow(self.number, Actor::Application, Motion::OnDevice, len);
                        self.application.doing = ApplicationStep::Capturing(id);
                        Ok(true)
                    }
                    Reserve::Wait(_) => {
                        self.application.doing = ApplicationStep::Reserving(id);
                        Ok(false)
                    }
                    Reserve::Never(error) => Err(error.into()),
                }
            }
            ApplicationStep::Acquiring(id) => match self.state.up().acquire(id, Part::Device) {
                Acquire::Memory(source) if source.level == Level::DEVICE => {
                    let bytes = self.sizes[self.sizes.len() - 1 - self.application.restored];
                    machine.flow(self.number, Actor::Application, Motion::OnDevice, bytes);
                    self.application.doing = ApplicationStep::Restoring(id);
                    Ok(true)
                }
                Acquire::Memory(source) => {
                    let bytes = self.sizes[self.sizes.len() - 1 - self.application.restored];
                    // The device side is the application's own buffer, in one piece.
                    let own = [Extent { offset: 0, len: u64::MAX }];
                    let transfer = MovingCopy::new(&own, &source.extents, bytes, machine.now());
                    self.application.doing = ApplicationStep::RestoringFromHost(id, transfer);
                    Ok(true)
                }
                Acquire::Wait => {
                    self.application.doing = ApplicationStep::Acquiring(id);
                    Ok(false)
                }
                Acquire::File | Acquire::Lost => {
                    bail!("process {}: the bytes of {id} are nowhere", self.number)
                }
            },
            ApplicationStep::RestoringFromHost(id, mut transfer) => {
                match self.next_piece(&mut transfer) {
                    CopyStep::Moving => {
                        self.application.doing = ApplicationStep::RestoringFromHost(id, transfer);
                        Ok(false)
                    }
                    CopyStep::Next { bytes, registered, .. } => {
                        let motion = Motion::Up { registered };
                        machine.flow(self.number, Actor::Application, motion, bytes);
                        self.application.doing = ApplicationStep::RestoringFromHost(id, transfer);
                        Ok(false)
                    }
                    CopyStep::Done => {
                        self.state.up().release(id, Part::Device, Level::HOST);
                        self.end_restore(id, machine);
                        Ok(true)
                    }
                }
            }
            doing => {
                self.application.doing = doing;
                Ok(false)
            }
        }
    }
}
