//! Which version of a two-tier store is where, and what is to move next. No copy is made here.

use std::collections::VecDeque;

use super::room::Room;

/// A version that was kept.
#[derive(Debug)]
struct Version {
    bytes: u64,
    /// Where it goes in the host buffer: behind the one before.
    host: u64,
    /// Where it is in the device cache, if it is.
    device: Option<u64>,
    /// It is complete in the device cache.
    arrived: bool,
    /// It is complete in the host buffer.
    flushed: bool,
    /// A copy reads or writes it in the device cache.
    busy: u32,
}

/// A copy to make: `bytes` between `device` and `host`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The version.
    pub version: u32,
    /// Its place in the device cache.
    pub device: u64,
    /// Its place in the host buffer.
    pub host: u64,
    /// Its size.
    pub bytes: u64,
}

/// Where a restore finds its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the device cache, at this offset.
    Device(u64),
    /// In the host buffer, at this offset.
    Host(u64),
    /// On its way up: wait.
    Coming,
}

/// What is where.
#[derive(Debug)]
pub struct Ledger {
    room: Room,
    versions: Vec<Version>,
    has_host: bool,
    host_end: u64,
    /// Captured and not yet flushed, the oldest first.
    to_flush: VecDeque<u32>,
    /// Expected to be restored, the next first.
    expected: VecDeque<u32>,
}

/// Copies in the host buffer begin at multiples of this many bytes.
const ALIGNMENT: u64 = 128;

/// Bytes of a host buffer that holds checkpoints of these sizes.
pub fn host_bytes(sizes: &[u64]) -> u64 {
    sizes.iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum()
}

impl Ledger {
    /// Nothing kept, no room yet. Without a host buffer nothing is flushed.
    pub fn new(has_host: bool) -> Ledger {
        Ledger {
            room: Room::default(),
            versions: Vec::new(),
            has_host,
            host_end: 0,
            to_flush: VecDeque::new(),
            expected: VecDeque::new(),
        }
    }

    /// The device cache has got so many bytes more.
    pub fn grow(&mut self, bytes: u64) {
        self.room.grow(bytes);
    }

    /// Room in the device cache for the next version; evicts the oldest that have been flushed.
    /// None: wait, unless nothing is left that could make room.
    pub fn place(&mut self, bytes: u64) -> Option<u64> {
        loop {
            if let Some(at) = self.room.take(bytes) {
                return Some(at);
            }
            let oldest = self
                .versions
                .iter()
                .position(|v| v.device.is_some() && v.busy == 0 && v.flushed)?;
            self.evict(oldest);
        }
    }

    /// The next version stands at `device` now.
    pub fn captured(&mut self, bytes: u64, device: u64) {
        let number = self.versions.len() as u32;
        self.versions.push(Version {
            bytes,
            host: self.host_end,
            device: Some(device),
            arrived: true,
            flushed: false,
            busy: 0,
        });
        if self.has_host {
            self.host_end += bytes.next_multiple_of(ALIGNMENT);
            self.to_flush.push_back(number);
        }
    }

    /// The oldest version that was not flushed, and begins with it.
    pub fn next_flush(&mut self) -> Option<Move> {
        let number = self.to_flush.pop_front()?;
        let version = &mut self.versions[number as usize];
        version.busy += 1;
        version.device.map(|device| Move {
            version: number,
            device,
            host: version.host,
            bytes: version.bytes,
        })
    }

    /// It is in the host buffer.
    pub fn flush_done(&mut self, number: u32) {
        let version = &mut self.versions[number as usize];
        version.busy -= 1;
        version.flushed = true;
    }

    /// These will be restored next, after those expected already.
    pub fn expect(&mut self, versions: &[u32]) {
        self.expected.extend(versions);
    }

    /// The next expected version that is not in the device cache, if room can be made for it:
    /// by what is needed later, or not at all.
    pub fn next_fetch(&mut self) -> Option<Move> {
        let at = self.expected.iter().position(|number| {
            self.versions.get(*number as usize).is_some_and(|version| version.device.is_none())
        })?;
        let number = self.expected[at];
        let (bytes, host) = {
            let version = &self.versions[number as usize];
            if !version.flushed {
                return None;
            }
            (version.bytes, version.host)
        };
        let device = loop {
            if let Some(device) = self.room.take(bytes) {
                break device;
            }
            self.evict(self.latest_needed(at)?);
        };
        let version = &mut self.versions[number as usize];
        (version.device, version.arrived, version.busy) = (Some(device), false, version.busy + 1);
        Some(Move { version: number, device, host, bytes })
    }

    /// The version in the device cache, and elsewhere, that is needed last, if that is after
    /// position `at` of those expected.
    fn latest_needed(&self, at: usize) -> Option<usize> {
        let mut use_of = vec![usize::MAX; self.versions.len()];
        for (position, number) in self.expected.iter().enumerate().rev() {
            use_of[*number as usize] = position;
        }
        let resident = |number: &usize| {
            let version = &self.versions[*number];
            version.device.is_some() && version.arrived && version.flushed && version.busy == 0
        };
        let latest =
            (0..self.versions.len()).filter(resident).max_by_key(|number| use_of[*number])?;
        (use_of[latest] > at).then_some(latest)
    }

    /// It is in the device cache.
    pub fn fetch_done(&mut self, number: u32) {
        let version = &mut self.versions[number as usize];
        version.arrived = true;
        version.busy -= 1;
    }

    /// Where to restore a version from; keeps it there until [`Ledger::restored`].
    pub fn source(&mut self, number: u32) -> Source {
        let version = &mut self.versions[number as usize];
        match version.device {
            Some(device) if version.arrived => {
                version.busy += 1;
                Source::Device(device)
            }
            Some(_) => Source::Coming,
            None => Source::Host(version.host),
        }
    }

    /// A restore has ended. The version is not expected any more, and gives up its room.
    pub fn restored(&mut self, number: u32, from: Source) {
        if let Some(at) = self.expected.iter().position(|other| *other == number) {
            self.expected.remove(at);
        }
        if matches!(from, Source::Device(_)) {
            self.versions[number as usize].busy -= 1;
        }
        let version = &self.versions[number as usize];
        if version.busy == 0 && version.flushed && version.device.is_some() {
            self.evict(number as usize);
        }
    }

    /// Whether a version was kept.
    pub fn has(&self, number: u32) -> bool {
        (number as usize) < self.versions.len()
    }

    /// Whether waiting for room is of any use: something is still to be flushed, or in a copy.
    pub fn room_may_come(&self) -> bool {
        !self.to_flush.is_empty() || self.versions.iter().any(|version| version.busy > 0)
    }

    /// Bytes of the device cache.
    pub fn device_bytes(&self) -> u64 {
        self.room.bytes()
    }

    fn evict(&mut self, number: usize) {
        let version = &mut self.versions[number];
        if let Some(device) = version.device.take() {
            version.arrived = false;
            self.room.give_back(device, version.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_versions(room: u64, count: u32) -> Ledger {
        let mut ledger = Ledger::new(true);
        ledger.grow(room * 256);
        for _ in 0..count {
            let at = ledger.place(256).unwrap();
            ledger.captured(256, at);
            let flush = ledger.next_flush().unwrap();
            ledger.flush_done(flush.version);
        }
        ledger
    }

    #[test]
    fn nothing_leaves_before_it_was_flushed() {
        let mut ledger = Ledger::new(true);
        ledger.grow(256);
        let at = ledger.place(256).unwrap();
        ledger.captured(256, at);
        assert_eq!(ledger.place(256), None);
        assert!(ledger.room_may_come());
        let flush = ledger.next_flush().unwrap();
        assert_eq!(ledger.place(256), None, "its flush is under way");
        ledger.flush_done(flush.version);
        assert_eq!(ledger.place(256), Some(0));
        assert_eq!(ledger.source(0), Source::Host(0));
    }

    #[test]
    fn the_oldest_leave_first() {
        let mut ledger = with_versions(3, 5);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|n| matches!(ledger.source(n), Source::Device(_))),
            [false, false, true, true, true]
        );
    }

    #[test]
    fn fetches_follow_the_order_expected_into_room_that_restores_leave() {
        let mut ledger = with_versions(2, 4);
        ledger.expect(&[3, 2, 1, 0]);
        assert_eq!(ledger.next_fetch(), None, "the next two are there, and nothing needed later");
        let from = ledger.source(3);
        ledger.restored(3, from);
        let fetch = ledger.next_fetch().unwrap();
        assert_eq!(fetch.version, 1);
        assert_eq!(ledger.source(1), Source::Coming);
        ledger.fetch_done(1);
        assert!(matches!(ledger.source(1), Source::Device(_)));
    }

    #[test]
    fn what_is_needed_last_makes_room_in_any_order() {
        let mut ledger = with_versions(2, 4);
        ledger.expect(&[0, 1, 2, 3]);
        assert_eq!(ledger.next_fetch().map(|fetch| fetch.version), Some(0));
        ledger.fetch_done(0);
        assert_eq!(ledger.next_fetch().map(|fetch| fetch.version), Some(1));
        ledger.fetch_done(1);
        assert_eq!(ledger.next_fetch(), None);
    }

    #[test]
    fn without_a_host_buffer_nothing_is_flushed_and_nothing_makes_room() {
        let mut ledger = Ledger::new(false);
        ledger.grow(256);
        let at = ledger.place(100).unwrap();
        ledger.captured(100, at);
        assert_eq!(ledger.next_flush(), None);
        assert_eq!(ledger.place(100), None);
        assert!(!ledger.room_may_come());
    }
}
