//! Where each version of a two-level store is, and which copy comes next. No copy is made here.

use std::collections::VecDeque;

use anyhow::{bail, ensure, Context, Result};

use super::room::{CachePiece, CacheRoom};

/// A version that was kept.
#[derive(Debug)]
struct KeptVersion {
    bytes: u64,
    /// The offset of the version in the host buffer: behind the version before.
    host: u64,
    /// The place of the version in the device cache, if it is there.
    device: Option<Vec<CachePiece>>,
    /// The version is complete in the device cache.
    arrived: bool,
    /// The version is complete in the host buffer.
    flushed: bool,
    /// The version was restored: its place in the device cache is of no more use.
    restored: bool,
    /// Copies that read or write the version in the device cache.
    busy: u32,
}

/// A copy to make between the levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Move {
    pub version: u32,
    /// Its place in the device cache.
    pub device: Vec<CachePiece>,
    /// Its place in the host buffer.
    pub host: u64,
    pub bytes: u64,
}

/// Where a restore finds the bytes of a version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RestoreSource {
    /// In the device cache.
    Device(Vec<CachePiece>),
    /// In the host buffer, at this offset.
    Host(u64),
    /// On the way to the device cache: wait.
    Coming,
}

/// Where each version is.
#[derive(Debug)]
pub(crate) struct StoreLedger {
    room: CacheRoom,
    versions: Vec<KeptVersion>,
    has_host: bool,
    host_end: u64,
    /// Captured and not yet flushed, the oldest first.
    to_flush: VecDeque<u32>,
    /// Expected to be restored, the next first.
    expected: VecDeque<u32>,
    /// Evicted from the device cache, and not told yet.
    evicted: Vec<u32>,
    /// Bytes of the host buffer that flushes have written to, or are about to.
    host_used: u64,
}

/// Copies in the host buffer begin at multiples of this many bytes.
const ALIGNMENT: u64 = 128;

/// So many of the restores ahead may displace from the device cache what is needed after them: one
/// copy that runs and one behind it keep the bus busy. More would only bring bytes up twice.
const DISPLACING: usize = 2;

/// Bytes of a host buffer that holds checkpoints of these sizes.
pub(crate) fn host_bytes(sizes: &[u64]) -> u64 {
    sizes.iter().map(|bytes| bytes.next_multiple_of(ALIGNMENT)).sum()
}

impl StoreLedger {
    /// Nothing kept, no room yet. Without a host buffer nothing is flushed.
    pub(crate) fn new(has_host: bool) -> StoreLedger {
        StoreLedger {
            room: CacheRoom::default(),
            versions: Vec::new(),
            has_host,
            host_end: 0,
            to_flush: VecDeque::new(),
            expected: VecDeque::new(),
            evicted: Vec::new(),
            host_used: 0,
        }
    }

    /// Notes that the device cache has `bytes` more.
    pub(crate) fn grow(&mut self, bytes: u64) {
        self.room.grow(bytes);
    }

    /// Room in the device cache for the next version, if there is any.
    pub(crate) fn place(&mut self, bytes: u64) -> Option<Vec<CachePiece>> {
        self.room.take(bytes)
    }

    /// Makes room in the device cache: evicts the oldest restored version, else the oldest flushed
    /// one. Returns whether there was a version to evict.
    pub(crate) fn evict_oldest(&mut self) -> bool {
        let free = |version: &&KeptVersion| {
            version.device.is_some() && version.arrived && version.flushed && version.busy == 0
        };
        let found = self.versions.iter().position(|v| free(&v) && v.restored);
        let Some(oldest) = found.or_else(|| self.versions.iter().position(|v| free(&v))) else {
            return false;
        };
        self.evict(oldest);
        true
    }

    /// Notes that the next version is in the device cache.
    pub(crate) fn captured(&mut self, bytes: u64, device: Vec<CachePiece>) {
        let number = self.versions.len() as u32;
        self.versions.push(KeptVersion {
            bytes,
            host: self.host_end,
            device: Some(device),
            arrived: true,
            flushed: false,
            restored: false,
            busy: 0,
        });
        if self.has_host {
            self.host_end += bytes.next_multiple_of(ALIGNMENT);
            self.to_flush.push_back(number);
        }
    }

    /// The flush of the oldest version that was not flushed; the flush counts as begun.
    pub(crate) fn next_flush(&mut self) -> Option<Move> {
        let number = self.to_flush.pop_front()?;
        let version = &mut self.versions[number as usize];
        version.busy += 1;
        self.host_used += version.bytes.next_multiple_of(ALIGNMENT);
        version.device.clone().map(|device| Move {
            version: number,
            device,
            host: version.host,
            bytes: version.bytes,
        })
    }

    /// Notes that a version is in the host buffer.
    pub(crate) fn flush_done(&mut self, number: u32) {
        let version = &mut self.versions[number as usize];
        version.busy -= 1;
        version.flushed = true;
        self.give_up_restored(number);
    }

    /// Notes that these versions will be restored next, after those expected already.
    pub(crate) fn expect(&mut self, versions: &[u32]) {
        for version in versions {
            if !self.expected.contains(version) {
                self.expected.push_back(*version);
            }
        }
    }

    /// The fetch of the next expected version that is not in the device cache, if room can be made
    /// for it: by evicting a version that nobody expects or, for the next few, the version that is
    /// needed last.
    pub(crate) fn next_fetch(&mut self) -> Option<Move> {
        let absent = |number: &u32| {
            let version = self.versions.get(*number as usize);
            version.is_some_and(|version| version.device.is_none() && version.flushed)
        };
        let at = self.expected.iter().position(absent)?;
        let number = self.expected[at];
        let (bytes, host) = {
            let version = &self.versions[number as usize];
            (version.bytes, version.host)
        };
        let device = loop {
            if let Some(device) = self.room.take(bytes) {
                break device;
            }
            self.evict(self.displaced_by(at)?);
        };
        let version = &mut self.versions[number as usize];
        (version.arrived, version.busy) = (false, version.busy + 1);
        version.device = Some(device.clone());
        Some(Move { version: number, device, host, bytes })
    }

    /// The version to evict from the device cache for the version at position `at` of the expected
    /// ones. It is in the host buffer as well.
    fn displaced_by(&self, at: usize) -> Option<usize> {
        let mut use_of = vec![usize::MAX; self.versions.len()];
        for (position, number) in self.expected.iter().enumerate() {
            if let Some(use_of) = use_of.get_mut(*number as usize) {
                *use_of = position;
            }
        }
        let resident = |number: &usize| {
            let version = &self.versions[*number];
            version.device.is_some() && version.arrived && version.flushed && version.busy == 0
        };
        let latest =
            (0..self.versions.len()).filter(resident).max_by_key(|number| use_of[*number])?;
        let unexpected = use_of[latest] == usize::MAX;
        (unexpected || (at < DISPLACING && use_of[latest] > at)).then_some(latest)
    }

    /// Notes that a version is in the device cache again.
    pub(crate) fn fetch_done(&mut self, number: u32) {
        let version = &mut self.versions[number as usize];
        version.arrived = true;
        version.busy -= 1;
    }

    /// Where to restore a version from; keeps the version there until [`StoreLedger::restored`], and
    /// expects it no more.
    ///
    /// # Errors
    /// The version was never kept, has another size, or was restored before it was flushed and
    /// given up.
    pub(crate) fn source(&mut self, number: u32, bytes: u64) -> Result<RestoreSource> {
        let version = self.versions.get_mut(number as usize);
        let version = version.with_context(|| format!("version {number} was never kept"))?;
        let kept = version.bytes;
        ensure!(kept == bytes, "version {number} has {kept} bytes, not {bytes}");
        let source = match &version.device {
            Some(device) if version.arrived => {
                version.busy += 1;
                RestoreSource::Device(device.clone())
            }
            Some(_) => return Ok(RestoreSource::Coming),
            None if version.flushed => RestoreSource::Host(version.host),
            None => bail!("version {number} was restored already, and given up"),
        };
        self.expected.retain(|other| *other != number);
        Ok(source)
    }

    /// A restore has ended. With a host buffer the version gives up its room in the device cache;
    /// if it was not flushed yet, it never will be: an adjoint run reads each version once.
    pub(crate) fn restored(&mut self, number: u32, from: &RestoreSource) {
        let version = &mut self.versions[number as usize];
        version.restored = true;
        if matches!(from, RestoreSource::Device(_)) {
            version.busy -= 1;
        }
        self.give_up_restored(number);
    }

    fn give_up_restored(&mut self, number: u32) {
        let version = &self.versions[number as usize];
        if self.has_host && version.restored && version.arrived && version.busy == 0 {
            if !version.flushed {
                self.to_flush.retain(|other| *other != number);
            }
            self.evict(number as usize);
        }
    }

    /// Whether waiting for room is of any use: something is still to be flushed, or in a copy.
    pub(crate) fn room_may_come(&self) -> bool {
        !self.to_flush.is_empty() || self.versions.iter().any(|version| version.busy > 0)
    }

    /// Bytes of the device cache.
    pub(crate) fn device_bytes(&self) -> u64 {
        self.room.capacity()
    }

    /// Bytes that versions take in the device cache, and in the host buffer.
    pub(crate) fn used(&self) -> [u64; 2] {
        [self.room.taken(), self.host_used]
    }

    /// The versions evicted since this was last asked, each with its bytes.
    pub(crate) fn take_evicted(&mut self) -> Vec<(u32, u64)> {
        let evicted = std::mem::take(&mut self.evicted);
        evicted.into_iter().map(|number| (number, self.versions[number as usize].bytes)).collect()
    }

    fn evict(&mut self, number: usize) {
        let version = &mut self.versions[number];
        if let Some(device) = version.device.take() {
            version.arrived = false;
            self.room.release(&device);
            self.evicted.push(number as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evicts until there is room, as a capture does.
    fn place(ledger: &mut StoreLedger, bytes: u64) -> Option<Vec<CachePiece>> {
        loop {
            match ledger.place(bytes) {
                None if ledger.evict_oldest() => {}
                found => return found,
            }
        }
    }

    fn capture(ledger: &mut StoreLedger) {
        let at = place(ledger, 256).unwrap();
        ledger.captured(256, at);
    }

    fn with_versions(room: u64, count: u32) -> StoreLedger {
        let mut ledger = StoreLedger::new(true);
        ledger.grow(room * 256);
        for _ in 0..count {
            capture(&mut ledger);
            let flush = ledger.next_flush().unwrap();
            ledger.flush_done(flush.version);
        }
        ledger
    }

    fn restore(ledger: &mut StoreLedger, number: u32) -> RestoreSource {
        let source = ledger.source(number, 256).unwrap();
        ledger.restored(number, &source);
        source
    }

    #[test]
    fn nothing_leaves_before_it_was_flushed() {
        let mut ledger = StoreLedger::new(true);
        ledger.grow(256);
        capture(&mut ledger);
        assert_eq!(place(&mut ledger, 256), None);
        assert!(ledger.room_may_come());
        let flush = ledger.next_flush().unwrap();
        assert_eq!(place(&mut ledger, 256), None, "its flush is under way");
        ledger.flush_done(flush.version);
        assert!(place(&mut ledger, 256).is_some());
        assert_eq!(ledger.source(0, 256).unwrap(), RestoreSource::Host(0));
    }

    #[test]
    fn what_was_evicted_is_told_once_and_what_is_taken_follows() {
        let mut ledger = with_versions(3, 5);
        assert_eq!(ledger.take_evicted(), [(0, 256), (1, 256)]);
        assert_eq!(ledger.take_evicted(), []);
        assert_eq!(ledger.used(), [3 * 256, 5 * 256]);
        restore(&mut ledger, 4);
        assert_eq!(ledger.take_evicted(), [(4, 256)]);
        assert_eq!(ledger.used(), [2 * 256, 5 * 256], "the copy on the host stays");
        capture(&mut ledger);
        assert_eq!(ledger.used(), [3 * 256, 5 * 256], "not flushed yet");
    }

    #[test]
    fn the_oldest_leave_first() {
        let mut ledger = with_versions(3, 5);
        assert_eq!(
            [0, 1, 2, 3, 4]
                .map(|n| matches!(ledger.source(n, 256).unwrap(), RestoreSource::Device(_))),
            [false, false, true, true, true]
        );
    }

    #[test]
    fn fetches_follow_the_order_expected_into_room_that_restores_leave() {
        let mut ledger = with_versions(2, 4);
        ledger.expect(&[3, 2, 1, 0]);
        assert_eq!(ledger.next_fetch(), None, "the next two are there, and nothing needed later");
        restore(&mut ledger, 3);
        let fetch = ledger.next_fetch().unwrap();
        assert_eq!(fetch.version, 1);
        assert_eq!(ledger.source(1, 256).unwrap(), RestoreSource::Coming);
        ledger.fetch_done(1);
        assert!(matches!(ledger.source(1, 256).unwrap(), RestoreSource::Device(_)));
    }

    #[test]
    fn the_next_two_displace_what_is_needed_last_and_no_more_do() {
        let mut ledger = with_versions(4, 8);
        ledger.expect(&[0, 1, 2, 3, 4, 5, 6, 7]);
        for wanted in [0, 1] {
            assert_eq!(ledger.next_fetch().map(|fetch| fetch.version), Some(wanted));
            ledger.fetch_done(wanted);
        }
        assert_eq!(ledger.next_fetch(), None);
        assert!(
            matches!(ledger.source(4, 256).unwrap(), RestoreSource::Device(_)),
            "7 and 6 have left"
        );
        // The room of a restored version is filled before any other version is evicted.
        restore(&mut ledger, 0);
        assert_eq!(ledger.next_fetch().map(|fetch| fetch.version), Some(2));
        ledger.fetch_done(2);
        assert!(matches!(ledger.source(5, 256).unwrap(), RestoreSource::Device(_)));
    }

    #[test]
    fn a_hint_of_what_is_expected_already_changes_nothing() {
        let mut ledger = with_versions(1, 3);
        ledger.expect(&[1, 0]);
        ledger.expect(&[0]);
        assert_eq!(ledger.expected, [1, 0]);
        // A version that does not exist is never fetched.
        ledger.expect(&[9]);
        assert_eq!(ledger.next_fetch().map(|fetch| fetch.version), Some(1));
    }

    #[test]
    fn what_was_restored_is_not_flushed_any_more_and_its_room_is_free_at_once() {
        let mut ledger = StoreLedger::new(true);
        ledger.grow(2 * 256);
        capture(&mut ledger);
        capture(&mut ledger);
        restore(&mut ledger, 1);
        assert!(ledger.place(256).is_some());
        assert_eq!(ledger.next_flush().map(|flush| flush.version), Some(0));
        assert_eq!(ledger.next_flush(), None);
        let error = ledger.source(1, 256).unwrap_err().to_string();
        assert!(error.contains("version 1 was restored already"), "{error}");
        let error = ledger.source(0, 128).unwrap_err().to_string();
        assert!(error.contains("256 bytes, not 128"), "{error}");
        assert!(ledger.source(2, 256).unwrap_err().to_string().contains("never kept"));
    }

    #[test]
    fn room_under_a_flush_comes_free_when_that_ends() {
        let mut ledger = StoreLedger::new(true);
        ledger.grow(256);
        capture(&mut ledger);
        let flush = ledger.next_flush().unwrap();
        restore(&mut ledger, 0);
        assert_eq!(ledger.place(256), None, "the flush still reads it");
        ledger.flush_done(flush.version);
        assert!(ledger.place(256).is_some());
        assert_eq!(
            ledger.source(0, 256).unwrap(),
            RestoreSource::Host(0),
            "it can be restored again"
        );
    }

    #[test]
    fn without_a_host_buffer_nothing_is_flushed_and_nothing_makes_room() {
        let mut ledger = StoreLedger::new(false);
        ledger.grow(256);
        capture(&mut ledger);
        assert_eq!(ledger.next_flush(), None);
        assert_eq!(place(&mut ledger, 100), None);
        assert!(!ledger.room_may_come());
        let first = restore(&mut ledger, 0);
        assert_eq!(restore(&mut ledger, 0), first);
    }
}
