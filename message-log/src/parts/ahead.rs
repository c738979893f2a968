//! What replays will read next: which chunks of the log, in which order.

use std::collections::HashSet;

use super::Parts;
use crate::log::{Log, Position};

/// How many events are looked at.
const EVENTS: usize = 1 << 16;

/// The chunks so far.
#[derive(Debug, Default)]
struct Ahead {
    numbers: Vec<u32>,
    seen: HashSet<u32>,
    bytes: usize,
    events: usize,
}

impl Ahead {
    /// Adds those of a range, up to so many bytes.
    fn add(&mut self, log: &Log, begin: Position, end: Position, reach: usize) {
        let mut last = None;
        for event in log.range(begin, end) {
            if self.bytes >= reach || self.events >= EVENTS {
                return;
            }
            self.events += 1;
            for item in event.outcome.items.as_slice() {
                let Some((number, len)) = item.payload.chunk() else { continue };
                if last.replace(number) != Some(number) && self.seen.insert(number) {
                    self.numbers.push(number);
                    self.bytes += len;
                }
            }
        }
    }
}

impl Parts {
    /// The chunks of the log that are read next, in order, as far as so many bytes: the rest of what
    /// is replayed, then the other runs, from the newest on, each from its beginning.
    pub fn ahead(&self, reach: usize) -> Vec<u32> {
        let mut ahead = Ahead::default();
        if let Some(replay) = self.replay() {
            let end = self.instance(replay.instance).and_then(|instance| instance.end);
            ahead.add(&self.log, replay.cursor, end.unwrap_or(replay.cursor), reach);
        }
        for instance in self.instances.iter().rev() {
            if ahead.bytes >= reach || ahead.events >= EVENTS {
                break;
            }
            ahead.events += 1;
            let Some(end) = instance.end.filter(|_| !self.is_replayed(instance.number)) else {
                continue;
            };
            ahead.add(&self.log, instance.begin, end, reach);
        }
        ahead.numbers
    }
}
