//! What captures of host memory have cost the application, for `VELOC_Snapshot_stats` and `host_capture = auto`.

use std::borrow::Cow;
use std::time::Duration;

use super::shared::Shared;
use errors::Error;
use os::memory;
use policy::capture::{choose, Capture, Facts};

/// Captures of host memory since the start of the job.
#[derive(Clone, Debug, Default)]
pub struct Snapshots {
    /// How most of the last one's bytes were captured.
    pub way: Capture,
    /// Why.
    pub reason: Cow<'static, str>,
    /// How many there were.
    pub checkpoints: u64,
    /// Their bytes.
    pub bytes: u64,
    /// How long the calls have taken.
    pub blocked: Duration,
    /// Bytes that were copied because the application was about to write to them.
    pub ahead: u64,
    /// How many failed after the call: their versions do not exist.
    pub failed: u64,
    /// Why the capture under way is made by the call, though another way was chosen.
    instead: Option<String>,
    /// What the last capture by a forked process has cost, and its bytes.
    forked: Option<(Duration, u64)>,
}

/// What a page fault takes that copies a page of 4 KiB: measured, see docs/results.
const PAGE_FAULT: Duration = Duration::from_nanos(3500);

impl Shared {
    /// The way for a checkpoint of `bytes` of host memory, and why. `others_write`: a network card may write to it.
    pub fn choose_capture(&self, bytes: u64, others_write: bool) -> (Capture, &'static str) {
        let device = self.device.get().map(|side| side.device.capabilities());
        // The driver's own writes to memory of `malloc` wait like the application's.
        let kernels_write = self.kernels_reach_host();
        let facts = Facts {
            bytes,
            free: memory::physical().map_or(0, |found| found.available),
            resident: memory::resident(),
            can_protect: !others_write && !kernels_write && self.can_freeze().is_ok(),
            outlives: self.config.outlives_application(),
            // The call would copy all memory that the application has registered.
            can_fork: device.is_none(),
            forked: self.snapshots.lock().forked,
        };
        choose(&facts)
    }

    /// Whether kernels on the device can write to memory of `malloc`.
    pub fn kernels_reach_host(&self) -> bool {
        self.device.get().is_some_and(|side| side.device.capabilities().reaches_host)
    }

    /// Notes that the capture under way is made by the call after all.
    pub(super) fn captures_in_call(&self, why: &Error) {
        let text = format!("host memory is copied in the call: {why}");
        self.degrade("host_capture", &text);
        self.snapshots.lock().instead = Some(text);
    }

    /// Counts a capture whose call has ended; of this name and version, if there is a timeline.
    pub fn count_snapshot(
        &self,
        of: Option<(&str, i32)>,
        way: Capture,
        reason: Cow<'static, str>,
        bytes: u64,
        blocked: Duration,
    ) {
        let mut snapshots = self.snapshots.lock();
        let (way, reason) = match snapshots.instead.take() {
            Some(why) => (Capture::Copy, why.into()),
            None => (way, reason),
        };
        if let Some(of) = of {
            self.trace.host_capture(way, of, bytes, blocked);
            if snapshots.checkpoints == 0 || snapshots.reason != reason {
                self.trace.metadata("host_capture", &reason);
            }
        }
        (snapshots.way, snapshots.reason) = (way, reason);
        snapshots.checkpoints += 1;
        snapshots.bytes += bytes;
        snapshots.blocked += blocked;
    }

    /// Counts the end of a deferred capture: bytes that were copied ahead of a write, if it has succeeded.
    pub(super) fn count_arrival(&self, ahead: Option<u64>) {
        let mut snapshots = self.snapshots.lock();
        match ahead {
            Some(bytes) => snapshots.ahead += bytes,
            None => snapshots.failed += 1,
        }
    }

    /// Notes what a forked process has cost: its call, and the page faults until it has ended.
    pub(super) fn count_forked(&self, call: Duration, faults: u64, bytes: u64) {
        let faults = PAGE_FAULT.saturating_mul(u32::try_from(faults).unwrap_or(u32::MAX));
        self.snapshots.lock().forked = Some((call + faults, bytes));
    }

    /// What captures of host memory have cost since the start of the job.
    pub fn snapshots(&self) -> Snapshots {
        self.snapshots.lock().clone()
    }
}
