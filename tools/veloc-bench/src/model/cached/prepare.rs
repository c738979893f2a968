//! Making memory usable behind the application: mapping, touching, registering.

use std::ops::Range;

use catalog::pages::TOUCH_UNIT;
use catalog::Level;
use policy::map::{may_grow, may_map, CHUNK, IDLE_AFTER, PIECE};
use policy::register::{self, Pin, RegistrarStep};

use super::super::machine::{Actor, SimulatedNode};
use super::super::motion::Motion;
use super::super::node_lock::NOTICED_AFTER;
use super::Cached;

/// Maps the device cache in the background, and lets it grow. Nobody is idle for so long that it would shrink.
#[derive(Debug)]
pub(super) struct Mapper {
    first: u64,
    most: u64,
    mapped: u64,
    given: Option<u64>,
    /// What is mapped at a time at first.
    piece: u64,
    doing: MapperState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MapperState {
    /// Maps what the cache begins with.
    Mapping,
    /// Waits until a capture wants more.
    Waiting,
    /// Maps more.
    Growing,
    /// There was too little memory, and is not asked for yet.
    Refused,
}

/// Touches pages in the background.
#[derive(Debug, Default)]
pub(super) struct Toucher {
    /// The units under way, one for each thread.
    units: Vec<Range<u64>>,
    since: f64,
}

/// Registers chunks in the background.
#[derive(Debug, Default)]
pub(super) struct Registrar {
    doing: RegistrarState,
    has_lock: bool,
    /// Whether it was woken and has not looked since whether the lock is free.
    woken: bool,
    /// When it looks next for an idle window.
    asks_at: f64,
    /// When it gives back the lock, if it holds the lock without an idle window to use it in.
    idle_until: Option<f64>,
    /// For how long the next chunk has been put off, and since when it is put off again.
    put_off: (f64, Option<f64>),
    since: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RegistrarState {
    /// Waits for a chunk to register, and for an idle window.
    #[default]
    Looking,
    /// Waits for the node lock.
    Queued,
    /// May register this chunk.
    Beginning(usize),
    /// The driver registers this chunk.
    Registering(usize),
    /// No chunk is left.
    Ended,
}

impl Mapper {
    pub(super) fn new(first: u64, most: u64, chunk: Option<u64>) -> Mapper {
        let doing = MapperState::Mapping;
        Mapper { first, most, mapped: 0, given: chunk, piece: chunk.unwrap_or(PIECE), doing }
    }

    pub(super) fn left(&self) -> u64 {
        self.first - self.mapped
    }

    pub(super) fn all(&mut self) {
        self.mapped = self.first;
        self.doing = MapperState::Waiting;
    }

    fn next(&self) -> u64 {
        match self.doing {
            MapperState::Mapping => self.piece.min(self.left()),
            _ => self.given.unwrap_or(CHUNK).min(self.most - self.mapped),
        }
    }
}

impl Registrar {
    pub(super) fn is_queued(&self) -> bool {
        self.doing == RegistrarState::Queued
    }

    pub(super) fn ended(&self) -> bool {
        self.doing == RegistrarState::Ended
    }
}

impl Cached {
    // ---- mapping -------------------------------------------------------------------------

    pub(super) fn map_next(&mut self, machine: &mut SimulatedNode) {
        let mut next = self.map.next();
        let (free, total) = self.device_memory(machine);
        if self.map.given.is_none() && !may_map(next, free, total) {
            self.map.piece = CHUNK;
            next = self.map.next();
        }
        if next == 0 || !may_map(next, free, total) {
            self.map.doing = MapperState::Waiting;
            self.state.growth().completed(Level::DEVICE);
            return;
        }
        self.map_for(next, machine);
    }

    fn map_for(&self, bytes: u64, machine: &mut SimulatedNode) {
        let node = machine.node();
        let seconds = node.map_call.value + bytes as f64 / node.map.value;
        machine.timer(self.number, Actor::Map, seconds);
    }

    /// Free and all memory of the GPU. The other processes there are assumed to have mapped all that their caches
    /// begin with.
    fn device_memory(&self, machine: &SimulatedNode) -> (u64, u64) {
        let total = machine.node().device_memory.value as u64;
        let others = (machine.neighbours(self.number) as u64 - 1) * self.map.first;
        let own = self.map.mapped.min(self.map.first);
        (total.saturating_sub(others + own + machine.caches_grown(self.number)), total)
    }

    pub(super) fn mapped(&mut self, machine: &mut SimulatedNode) {
        let bytes = self.map.next();
        match self.map.doing {
            MapperState::Mapping | MapperState::Growing => {
                self.map.mapped += bytes;
                self.state.growth().grown(Level::DEVICE, bytes);
            }
            MapperState::Waiting => {}
            MapperState::Refused => self.state.growth().ask_again(Level::DEVICE),
        }
        match self.map.doing {
            MapperState::Mapping => self.map_next(machine),
            _ => self.map.doing = MapperState::Waiting,
        }
    }

    pub(super) fn mapper_goes_on(&mut self, machine: &mut SimulatedNode) -> bool {
        let wants = self.state.levels().wanted(Level::DEVICE) > 0;
        if !wants || self.map.doing != MapperState::Waiting {
            return false;
        }
        let next = self.map.next();
        let (free, total) = self.device_memory(machine);
        if may_grow(next, free, total) {
            self.map.doing = MapperState::Growing;
            machine.cache_grows(self.number, next);
            self.map_for(next, machine);
            return false;
        }
        self.map.doing = MapperState::Refused;
        self.state.growth().refused(Level::DEVICE);
        machine.timer(self.number, Actor::Map, IDLE_AFTER.as_secs_f64());
        true
    }

    // ---- touching ------------------------------------------------------------------------

    pub(super) fn toucher_goes_on(&mut self, machine: &mut SimulatedNode) -> bool {
        if self.setup.direct_host || !self.touch.units.is_empty() || !self.pace.may_touch() {
            return false;
        }
        let Some(pages) = &mut self.pages else {
            return false;
        };
        let units: Vec<Range<u64>> = (0..self.setup.threads).map_while(|_| pages.claim()).collect();
        if units.is_empty() {
            if !pages.is_being_written() {
                self.pace.all_touched();
            }
            return false;
        }
        // A flush may have made a page that the library does not know of yet: touching such a page
        // takes no time.
        let missing: u64 = units
            .iter()
            .filter(|unit| !self.exists[(unit.start / TOUCH_UNIT) as usize])
            .map(|unit| unit.end - unit.start)
            .sum();
        self.touch.since = machine.now();
        // All threads as one flow: their units end at the same moment.
        self.pace.touch_begins();
        self.touch.units = units;
        if missing > 0 {
            machine.flow(self.number, Actor::Touch, Motion::Touch, missing);
        } else {
            machine.timer(self.number, Actor::Touch, 0.0);
        }
        true
    }

    pub(super) fn touched(&mut self, machine: &mut SimulatedNode) {
        let seconds = machine.now() - self.touch.since;
        let Some(pages) = &mut self.pages else {
            return;
        };
        let mut bytes = 0;
        for unit in std::mem::take(&mut self.touch.units) {
            self.exists[(unit.start / TOUCH_UNIT) as usize] = true;
            bytes += unit.end - unit.start;
            pages.touched(unit);
        }
        self.pace.touch_ends(bytes, seconds);
        self.note_touched(machine);
    }

    pub(super) fn note_touched(&mut self, machine: &SimulatedNode) {
        let all = self.pages.as_ref().is_some_and(|pages| pages.all_touched());
        if all && self.outcome.touched_at == 0.0 {
            self.outcome.touched_at = machine.now();
        }
    }

    /// Marks the whole host buffer as touched and registered.
    pub(super) fn all_usable(&mut self) {
        self.exists.fill(true);
        if let Some(pages) = &mut self.pages {
            while let Some(unit) = pages.claim() {
                pages.touched(unit);
            }
            while let RegistrarStep::Register(chunk) = pages.chunks().next(Pin::Parallel) {
                pages.chunks_mut().begin(chunk);
                pages.chunks_mut().ended(chunk, true);
            }
        }
    }

    // ---- registration --------------------------------------------------------------------

    pub(super) fn registrar_goes_on(&mut self, machine: &mut SimulatedNode) -> bool {
        let pin = self.setup.pin;
        let Some(pages) = &mut self.pages else {
            return false;
        };
        let early = register::BEGIN_AFTER.as_secs_f64() - machine.now();
        if register::takes_node_lock(pin) && early > 0.0 {
            if self.pin.asks_at <= machine.now() {
                self.pin.asks_at = machine.now() + early;
                machine.timer(self.number, Actor::IdleWindow, early);
            }
            return false;
        }
        match self.pin.doing {
            RegistrarState::Looking => match pages.chunks().next(pin) {
                RegistrarStep::Wait => {
                    self.release_lock(machine);
                    false
                }
                RegistrarStep::Done => {
                    self.pin.doing = RegistrarState::Ended;
                    self.release_lock(machine);
                    true
                }
                RegistrarStep::Register(chunk) => {
                    let bytes = pages.chunks().layout().bytes(chunk);
                    let wait = self.until_idle_window(machine.now(), bytes.end - bytes.start);
                    if wait > 0.0 {
                        return self.await_idle_window(machine, wait);
                    }
                    self.pin.idle_until = None;
                    if register::takes_node_lock(pin) && !self.pin.has_lock {
                        machine.node_lock.queue(self.number);
                        self.pin.doing = RegistrarState::Queued;
                        self.pin.woken = true;
                    } else {
                        self.pin.doing = RegistrarState::Beginning(chunk);
                    }
                    true
                }
            },
            RegistrarState::Queued => {
                if !std::mem::take(&mut self.pin.woken) {
                    return false;
                }
                let has_lock = machine.node_lock.attempt(self.number);
                if has_lock {
                    self.pin.has_lock = true;
                    self.pin.doing = RegistrarState::Looking;
                }
                has_lock
            }
            RegistrarState::Beginning(chunk) => {
                if !pages.chunks_mut().begin(chunk) {
                    self.pin.doing = RegistrarState::Looking;
                    return true;
                }
                let bytes = pages.chunks().layout().bytes(chunk);
                self.pin.doing = RegistrarState::Registering(chunk);
                self.pin.since = machine.now();
                machine.stop_copies(self.number, true);
                machine.flow(self.number, Actor::Pin, Motion::Register, bytes.end - bytes.start);
                true
            }
            RegistrarState::Registering(_) | RegistrarState::Ended => false,
        }
    }

    /// How long to put off the registration of `bytes`, as the engine computes it.
    fn until_idle_window(&mut self, now: f64, bytes: u64) -> f64 {
        if !self.setup.idle_windows {
            return 0.0;
        }
        let (waited, since) = &mut self.pin.put_off;
        *waited += since.take().map_or(0.0, |since| now - since);
        let before = self.pages.as_ref().map_or(0, |pages| pages.chunks().registered_bytes());
        let seconds = register::expected_seconds(bytes, (before, self.outcome.stopped));
        let wait = self.calls.delay(now, seconds, self.pin.put_off.0);
        self.pin.put_off.1 = (wait > 0.0).then_some(now);
        wait
    }

    /// Asks again after `wait` seconds, or releases the lock if it was held idle for too long.
    fn await_idle_window(&mut self, machine: &mut SimulatedNode, mut wait: f64) -> bool {
        let now = machine.now();
        if self.pin.has_lock {
            let until = *self.pin.idle_until.get_or_insert(now + register::LONGEST_IDLE_LOCK);
            if now >= until {
                self.pin.idle_until = None;
                self.release_lock(machine);
                return true;
            }
            wait = wait.min(until - now);
        }
        if self.pin.asks_at <= now || self.pin.asks_at > now + wait {
            self.pin.asks_at = now + wait;
            machine.timer(self.number, Actor::IdleWindow, wait);
        }
        false
    }

    /// Looks at the lock again.
    pub(super) fn woken(&mut self) {
        self.pin.woken = true;
    }

    pub(super) fn registered(&mut self, machine: &mut SimulatedNode) {
        let (RegistrarState::Registering(chunk), Some(pages)) = (self.pin.doing, &mut self.pages)
        else {
            return;
        };
        pages.chunks_mut().ended(chunk, true);
        if pages.chunks().registered_bytes() == pages.len() {
            self.outcome.registered_at = machine.now();
        }
        self.outcome.stopped += machine.now() - self.pin.since;
        machine.stop_copies(self.number, false);
        self.calls.blocking_work_ended(machine.now());
        self.pin.doing = RegistrarState::Looking;
        self.pin.put_off = (0.0, None);
    }

    fn release_lock(&mut self, machine: &mut SimulatedNode) {
        if std::mem::take(&mut self.pin.has_lock) {
            if let Some(waiting) = machine.node_lock.leave() {
                machine.timer(waiting, Actor::NodeLock, NOTICED_AFTER);
            }
        }
    }
}
