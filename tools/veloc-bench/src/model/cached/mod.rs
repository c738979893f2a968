//! A process with a device cache and a host buffer: this library, and the baselines that differ
//! from it only in how they make memory usable.
//!
//! The library's own code decides: the catalog's state, the pages of the host buffer, the pace of
//! touching, the choice of registrations and of who takes the node lock. This module does with
//! flows and timers what the engine does with threads and copies.

mod application;
mod prepare;
mod transfer;

use anyhow::{ensure, Result};
use catalog::level;
use catalog::pages::{Pages, TOUCH_UNIT};
use catalog::state::{Shape, State};
use catalog::Level;
use policy::bandwidth::BandwidthArbiter;
use policy::idle_window::Forecast;
use policy::order::RestoreOrder;
use policy::register::{self, Pin};
use policy::slice;
use policy::touch::{self, Touch, TouchMode};

use super::machine::{Actor, ProcessNumber, SimulatedNode};
use super::scenario::{ProcessOutcome, Scenario};
use crate::plan::ApproachName;
use application::Application;
use prepare::{Mapper, Registrar, Toucher};
use transfer::{TransferDirection, TransferWorker};

/// The name under which the model keeps its checkpoints.
const NAME: &str = "model";

/// How an approach makes memory usable.
#[derive(Clone, Copy, Debug)]
struct MemorySetup {
    /// The device cache is allocated in one call while the application waits; otherwise mapped in
    /// chunks, in the background.
    direct_device: bool,
    /// The host buffer is allocated and pinned in one call while the application waits.
    direct_host: bool,
    touch: Touch,
    pin: Pin,
    /// Registration keeps to the idle windows between the application's calls.
    idle_windows: bool,
    /// Threads that touch.
    threads: usize,
}

impl MemorySetup {
    fn of(scenario: &Scenario) -> MemorySetup {
        let ours = MemorySetup {
            direct_device: scenario.direct_device,
            direct_host: false,
            touch: scenario.touch,
            pin: match register::is_useful(scenario.pin, scenario.node.coherent) {
                true => scenario.pin,
                false => Pin::Off,
            },
            idle_windows: scenario.idle_windows,
            threads: touch::threads(0, scenario.node.processors_per_process),
        };
        match scenario.approach {
            ApproachName::DirectPin => {
                MemorySetup { direct_device: true, direct_host: true, pin: Pin::Off, ..ours }
            }
            _ => ours,
        }
    }
}

#[derive(Debug)]
pub(super) struct Cached {
    number: ProcessNumber,
    sizes: Vec<u64>,
    interval: f64,
    setup: MemorySetup,
    state: State,
    /// The library's view of its host buffer; `None` without a host buffer.
    pages: Option<Pages>,
    /// Whether each unit of the host buffer really exists: the library hears of pages that a flush
    /// makes only at its end.
    exists: Vec<bool>,
    pace: BandwidthArbiter,
    calls: Forecast,
    application: Application,
    map: Mapper,
    touch: Toucher,
    pin: Registrar,
    flush: TransferWorker,
    fetch: TransferWorker,
    outcome: ProcessOutcome,
}

impl Cached {
    /// A process that has not begun.
    pub(super) fn new(number: ProcessNumber, scenario: &Scenario) -> Cached {
        let setup = MemorySetup::of(scenario);
        let mut state = State::new(Shape {
            memory: level::of_node(0, scenario.host_cache),
            scratch: false,
            persistent: false,
            ephemeral: true,
            order: RestoreOrder::Reverse,
            beside: None,
        });
        state.growth().expect_capacity(Level::DEVICE, scenario.device_cache);
        // Only what is mapped piece by piece grows.
        let grows = scenario.device_cache_most.filter(|_| !setup.direct_device);
        let most = grows.unwrap_or(scenario.device_cache);
        state.growth().may_grow_to(Level::DEVICE, most);
        let host = scenario.host_cache;
        let pin_chunk = if setup.direct_host { host } else { scenario.pin_chunk.min(host) };
        Cached {
            number,
            sizes: scenario.sizes_of(number).to_vec(),
            interval: scenario.interval,
            setup,
            state,
            pages: (host > 0).then(|| Pages::new(host, pin_chunk)),
            exists: vec![false; host.div_ceil(TOUCH_UNIT) as usize],
            pace: BandwidthArbiter::new(setup.touch),
            calls: Forecast::default(),
            application: Application::default(),
            map: Mapper::new(scenario.device_cache, most, scenario.map_chunk),
            touch: Toucher::default(),
            pin: Registrar::default(),
            flush: TransferWorker::new(TransferDirection::Down),
            fetch: TransferWorker::new(TransferDirection::Up),
            outcome: ProcessOutcome::default(),
        }
    }

    /// Starts the process.
    pub(super) fn start(&mut self, machine: &mut SimulatedNode) -> Result<()> {
        self.start_application(machine);
        if !self.setup.direct_device {
            self.map_next(machine);
        }
        self.settle(machine)
    }

    /// Notes that what `actor` was waiting for has happened.
    pub(super) fn told(&mut self, actor: Actor, machine: &mut SimulatedNode) -> Result<()> {
        match actor {
            Actor::Application => self.application_told(machine)?,
            Actor::Map => self.mapped(machine),
            Actor::Touch => self.touched(machine),
            Actor::Pin => self.registered(machine),
            Actor::NodeLock => self.woken(),
            // A registrar that waits for an idle window is asked whenever anything happens.
            Actor::IdleWindow => {}
            Actor::Flush => self.transferred(TransferDirection::Down),
            Actor::Fetch => self.transferred(TransferDirection::Up),
        }
        self.settle(machine)
    }

    /// Whether the last restore has ended.
    pub(super) fn ended(&self) -> bool {
        self.application.ended()
    }

    pub(super) fn outcome(&self) -> ProcessOutcome {
        let mut outcome = self.outcome.clone();
        outcome.mode_changes = self.pace.model().changes();
        outcome.sequential = self.pace.model().mode() == TouchMode::Sequential;
        outcome
    }

    /// Checks the invariants that hold after every step.
    pub(super) fn check(&self) -> Result<()> {
        if let Err(broken) = self.state.check() {
            anyhow::bail!("process {}: {broken}", self.number);
        }
        let pages = self.pages.as_ref();
        ensure!(
            pages.is_none_or(|pages| pages.touched_bytes() <= pages.len()),
            "more was touched than there is"
        );
        Ok(())
    }

    /// Lets the application and all workers go on as far as they can.
    fn settle(&mut self, machine: &mut SimulatedNode) -> Result<()> {
        loop {
            // The order makes no difference to time, only at one moment: the application first, as
            // in the library, where workers are woken after its step.
            let mut went_on = self.application_goes_on(machine)?;
            for direction in [TransferDirection::Down, TransferDirection::Up] {
                went_on |= self.transfer_goes_on(direction, machine);
            }
            went_on |= self.mapper_goes_on(machine);
            went_on |= self.registrar_goes_on(machine);
            went_on |= self.toucher_goes_on(machine);
            if !went_on {
                return Ok(());
            }
        }
    }

    /// Whether the pages that a copy finds in the host buffer, and their registration, will not
    /// change any more.
    fn host_is_settled(&self) -> bool {
        self.pin.ended() && self.pages.as_ref().is_none_or(Pages::all_touched)
    }

    /// The next piece of a copy at `at`, of `left` bytes: as the engine cuts it while pages are
    /// made or registered, coarser where nothing can change within.
    fn piece(&self, pages: &Pages, at: u64, left: u64) -> u64 {
        if self.host_is_settled() {
            return left;
        }
        let to_border = pages.chunks().layout().end(at) - at;
        if pages.all_touched() && self.pin.is_queued() {
            return left.min(to_border);
        }
        let to_unit = (at / TOUCH_UNIT + 1) * TOUCH_UNIT - at;
        slice::next(left, to_border).min(to_unit)
    }
}
