//! The host buffer, the levels below it, and what decides how fast their pages come and go.

use std::sync::Arc;
use std::time::Instant;

use super::guard::Guard;
use super::pace::{Flushing, Pace};
use super::telemetry::Telemetry;
use crate::monitor::Catalog;
use catalog::Level;
use config::Config;
use errors::{Error, ErrorKind, Result};
use levels::host_buffer::HostBuffer;
use levels::store::Store;
use os::mapping;
use os::memory::{self, Physical};
use os::size;
use os::sync::Mutex;
use policy::touch::{TouchMode, TouchModel};

/// The levels of host memory.
#[derive(Debug)]
pub struct HostSide {
    catalog: Arc<Catalog>,
    telemetry: Arc<Telemetry>,
    pub(crate) buffer: Option<HostBuffer>,
    /// The levels of memory below the host buffer, in the order of their rows.
    pub(crate) lower: Vec<Box<dyn Store>>,
    /// Touching and flushing.
    pub(crate) pace: Pace,
    /// The machine's memory.
    pub(crate) guard: Guard,
    /// When pages were last given back. Held while that is done.
    pub(crate) gave_back: Mutex<Instant>,
    /// How many threads share a large flush, in place of what policy says.
    #[cfg(test)]
    pub(crate) flush_lanes: std::sync::OnceLock<usize>,
}

impl HostSide {
    pub(crate) fn new(
        config: &Config,
        catalog: Arc<Catalog>,
        telemetry: Arc<Telemetry>,
        buffer: Option<HostBuffer>,
        lower: Vec<Box<dyn Store>>,
    ) -> HostSide {
        let follows = config.ephemeral && config.host_cache_size.is_none();
        HostSide {
            catalog,
            telemetry,
            buffer,
            lower,
            pace: Pace::new(config.touch),
            guard: Guard::new(follows),
            gave_back: Mutex::new(Instant::now()),
            #[cfg(test)]
            flush_lanes: std::sync::OnceLock::new(),
        }
    }

    /// The host buffer, if the job has one.
    pub fn buffer(&self) -> Option<&HostBuffer> {
        self.buffer.as_ref()
    }

    /// The job ends: nobody waits for pages any more.
    pub(crate) fn stop(&self) {
        self.pace.finish();
        if let Some(host) = &self.buffer {
            host.stop();
        }
    }

    /// The host buffer, if the catalog says that it has bytes.
    pub fn host(&self) -> Result<&HostBuffer> {
        self.buffer
            .as_ref()
            .ok_or_else(|| Error::new(ErrorKind::Internal, "there is no host buffer"))
    }

    /// A checkpoint may have this many bytes: pages for them should be touched.
    pub fn expect(&self, bytes: u64) {
        if let Some(host) = &self.buffer {
            host.expect(bytes);
        }
    }

    /// Counts `bytes` of new pages of the host buffer. True: memory is short, and the buffer is limited to
    /// its pages until that changes.
    pub(crate) fn memory_is_short(&self, bytes: u64) -> bool {
        // Pages that were set aside cannot be used by others.
        let host = self
            .buffer
            .as_ref()
            .filter(|host| host.mapping().kind() != mapping::MappingKind::SharedHuge);
        if let (true, Some(host)) = (self.guard.is_due(bytes), host) {
            if let Ok(physical) = memory::physical() {
                self.follow_memory_pressure(host, physical);
            }
        }
        self.guard.is_short()
    }

    /// Keeps the host buffer limited to its pages after some have gone, while memory is short.
    pub(super) fn limit_again(&self, host: &HostBuffer) {
        self.catalog.step(|state| {
            if self.guard.is_short() {
                state.growth().limit(Level::HOST, host.front());
            }
        });
    }

    /// Limits the host buffer if memory has become short, and removes the limit when it is not any more.
    fn follow_memory_pressure(&self, host: &HostBuffer, physical: Physical) {
        // Judged within the step, so that concurrent checks do not undo each other's result.
        let changed = self.catalog.step(|state| {
            let short = self.guard.judge(physical, host.touched_bytes())?;
            host.rest(short);
            match short {
                true => state.growth().limit(Level::HOST, host.front()),
                false => state.growth().lift_limit(Level::HOST),
            }
            Some((short, state.levels().room(Level::HOST).0))
        });
        let Some((short, room)) = changed else { return };
        let [room, available, total] = [room, physical.available, physical.total].map(size::show);
        if short {
            self.telemetry.degrade(
                "memory",
                format!(
                    "the host buffer is limited to {room} (host_cache_size) until more memory is \
                     available: {available} of {total} are"
                ),
            );
        } else {
            log::info!("the host buffer has its {room} again: {available} are available");
        }
    }

    /// Ends a flush of `bytes`, `untouched` of them to new pages.
    pub fn flushed(&self, flushing: Flushing<'_>, bytes: u64, untouched: u64) {
        if let Some((mode, prediction)) = flushing.finish(bytes, untouched) {
            let predicted = [prediction.sequential, prediction.concurrent];
            self.telemetry.trace.touch_mode(mode == TouchMode::Concurrent, predicted);
        }
    }

    /// The model of touching and flushing, with its measurements.
    pub fn touch_model(&self) -> TouchModel {
        self.pace.model()
    }
}
