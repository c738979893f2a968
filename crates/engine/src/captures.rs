//! How captures of host memory are made behind their call, and what they have cost: for `host_capture = auto` and
//! `VELOC_Snapshot_stats`.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::deferred::DeferredCaptures;
use super::digests::LastDigests;
use super::frozen::Freezer;
use super::shared::Capturing;
use super::telemetry::Telemetry;
use errors::{Error, Result};
use os::memory;
use os::sync::Mutex;
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

/// What captures of host memory need beside the levels, and what they have cost.
#[derive(Debug)]
pub struct Captures {
    telemetry: Arc<Telemetry>,
    /// Those that are deferred.
    pub(crate) deferred: DeferredCaptures,
    /// Freezes memory, from the first capture on that wants it; dropped behind what is frozen.
    freezer: OnceLock<Result<Freezer>>,
    /// Finds out what incremental checkpoints have in common.
    pub(super) digests: LastDigests,
    snapshots: Mutex<Snapshots>,
}

impl Captures {
    pub(crate) fn new(telemetry: Arc<Telemetry>) -> Captures {
        Captures {
            telemetry,
            deferred: DeferredCaptures::default(),
            freezer: OnceLock::new(),
            digests: LastDigests::default(),
            snapshots: Mutex::default(),
        }
    }

    /// Notes that the capture under way is made by the call after all.
    pub(super) fn captures_in_call(&self, why: &Error) {
        let text = format!("memory is copied in the call: {why}");
        self.telemetry.degrade("host_capture", &text);
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
            self.telemetry.trace.host_capture(way, of, bytes, blocked);
            if snapshots.checkpoints == 0 || snapshots.reason != reason {
                self.telemetry.trace.metadata("host_capture", &reason);
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

    /// Whether memory can be frozen here; the first call finds out.
    ///
    /// # Errors
    /// The system has no such protection, or forbids it.
    pub fn can_freeze(&self) -> Result<()> {
        self.freezer().map(drop)
    }

    pub(super) fn freezer(&self) -> Result<&Freezer> {
        self.freezer.get_or_init(Freezer::start).as_ref().map_err(Clone::clone)
    }

    /// How many carriers have failed.
    pub fn failed_carriers(&self) -> usize {
        self.deferred.failed_carriers.load(Ordering::Relaxed)
    }
}

impl Capturing<'_> {
    /// The way for a checkpoint of `bytes` of host memory, and why. `others_write`: a network card may write to it.
    pub fn choose_capture(&self, bytes: u64, others_write: bool) -> (Capture, &'static str) {
        let device = self.shared.device_side.attached.get().map(|side| side.device.capabilities());
        // The driver's own writes to memory of `malloc` wait like the application's.
        let kernels_write = self.shared.device_side.kernels_reach_host();
        let facts = Facts {
            bytes,
            free: memory::physical().map_or(0, |found| found.available),
            resident: memory::resident(),
            can_protect: !others_write
                && !kernels_write
                && self.shared.captures.can_freeze().is_ok(),
            outlives: self.shared.config.outlives_application(),
            // The call would copy all memory that the application has registered.
            can_fork: device.is_none(),
            forked: self.shared.captures.snapshots.lock().forked,
        };
        choose(&facts)
    }
}
