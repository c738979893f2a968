//! A schedule and its position, as bytes.
//!
//! Four letters, a version, and then numbers: 7 bits to a byte, the lowest first, with the highest bit
//! set in all but the last byte. Last come 8 bytes of a checksum (FNV-1a) of all that. `super::unpack`
//! reads them.

use super::adjoint_interval::Threshold;
use super::configured::{ActiveSchedule, ConfiguredSchedule};
use super::levels::TwoLevel;
use super::mixed::Mixed;
use super::rule::Rule;
use super::schedule::{Done, Plan, Schedule, Stored};

/// The number of the rule of mixed schedules, beside those of [`Rule::ALL`].
pub(super) const MIXED: u64 = Rule::ALL.len() as u64;

/// The first bytes.
pub(super) const MARK: [u8; 4] = *b"VSch";

/// The version that is written and read. Version 1 had no checksum, version 2 one of 32 bytes.
pub(super) const VERSION: u8 = 3;

impl ConfiguredSchedule {
    /// The schedule and its position as bytes.
    pub fn pack(&self) -> Vec<u8> {
        let mut to = ScheduleWriter(MARK.to_vec());
        to.0.push(VERSION);
        to.plan(&self.plan, self.mixed);
        to.option(self.disk, |to, disk| {
            to.all([disk.slots, disk.write, disk.read]);
        });
        to.option(self.threshold, |to, Threshold { work, turn }| {
            to.0.extend([work, turn].map(f64::to_le_bytes).as_flattened());
        });
        to.number(self.ended.into());
        match &self.way {
            ActiveSchedule::Before => to.number(0),
            ActiveSchedule::Known(schedule) => {
                to.number(1);
                to.schedule(schedule);
            }
            ActiveSchedule::Open(online) => {
                to.number(2);
                to.stored(online.stored());
                to.option(online.at, ScheduleWriter::number);
                to.number(online.decided.into());
            }
            ActiveSchedule::Levels(schedule) => {
                to.number(3);
                to.two_level(schedule);
            }
            ActiveSchedule::Mixed(schedule) => {
                to.number(4);
                to.mixed(schedule);
            }
        }
        sealed(to.0)
    }
}

/// Appends the checksum.
pub fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = checksum(&bytes);
    bytes.extend(checksum);
    bytes
}

/// FNV-1a: bytes that differ in one place never have the same.
pub(super) fn checksum(bytes: &[u8]) -> [u8; 8] {
    let add = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, add).to_le_bytes()
}

struct ScheduleWriter(Vec<u8>);

impl ScheduleWriter {
    fn number(&mut self, number: u64) {
        self.wide(number.into());
    }

    fn all(&mut self, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|number| self.number(number));
    }

    fn wide(&mut self, mut number: u128) {
        while number > 0x7f {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut ScheduleWriter, T)) {
        self.number(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn plan(&mut self, plan: &Plan, mixed: bool) {
        let rule = Rule::ALL.iter().zip(0..).find(|((rule, _), _)| *rule == plan.rule);
        let rule = if mixed { MIXED } else { rule.map_or(0, |(_, number)| number) };
        let adjoint = plan.adjoint.unwrap_or(0);
        self.all([plan.steps, plan.slots, plan.resilience, adjoint, rule]);
    }

    fn stored(&mut self, states: &[Stored]) {
        self.number(states.len() as u64);
        for stored in states {
            self.number(stored.state);
            self.number(stored.slot);
        }
    }

    fn pairs(&mut self, pairs: &[(u64, u64)]) {
        let states = pairs.iter().map(|&(state, slot)| Stored { state, slot });
        self.stored(&states.collect::<Vec<_>>());
    }

    fn done(&mut self, done: Done) {
        self.wide(done.advances);
        self.all([done.takeshots, done.turns, done.adjoints]);
    }

    fn schedule(&mut self, schedule: &Schedule) {
        self.stored(&schedule.stored);
        self.stored(&schedule.free);
        self.number(schedule.unused);
        self.option(schedule.at, ScheduleWriter::number);
        self.pairs(&schedule.moves);
        self.option(schedule.target, ScheduleWriter::number);
        self.number(schedule.fine);
        self.option(schedule.interval.since, ScheduleWriter::done);
        self.done(schedule.done);
    }

    fn two_level(&mut self, schedule: &TwoLevel) {
        self.stored(&schedule.on_disk);
        self.numbers(&schedule.in_memory);
        self.numbers(&schedule.free);
        self.number(schedule.unused);
        self.option(schedule.at, ScheduleWriter::number);
        self.number(schedule.fine);
        self.option(schedule.interval.since, ScheduleWriter::done);
        self.done(schedule.done);
        self.all([schedule.transfers.writes, schedule.transfers.reads]);
    }

    fn mixed(&mut self, schedule: &Mixed) {
        self.number(schedule.kept.len() as u64);
        for kept in &schedule.kept {
            self.all([kept.state, kept.slot, kept.is_record.into()]);
        }
        self.numbers(&schedule.free);
        self.number(schedule.unused);
        self.option(schedule.at, ScheduleWriter::number);
        self.number(schedule.fine);
        self.done(schedule.done);
    }

    fn numbers(&mut self, numbers: &[u64]) {
        self.number(numbers.len() as u64);
        self.all(numbers.iter().copied());
    }
}

#[cfg(test)]
#[path = "pack_tests.rs"]
mod tests;
