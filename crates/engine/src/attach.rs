//! The device of a job, once the application uses one: its cache, and the workers for it.

use std::sync::Arc;

use super::buffer::with_device;
use super::device_side::{ApplicationLane, Attached};
use super::lane::Lane;
use super::lifecycle::Engine;
use super::{prepare, transfer};
use catalog::Level;
use device::{Device, Event, WaitMode};
use errors::{Error, ErrorKind, Result};
use levels::device_cache::DeviceCache;
use os::mapping;
use os::memory::{self, HugePages};
use os::size;
use os::sync::Mutex;
use policy::register;

/// Without `gpu_cache_size`, the device cache gets at most this share of the device's memory.
const DEVICE_SHARE: u64 = 16;
/// Without `gpu_cache_size`, the largest device cache in bytes.
const DEVICE_DEFAULT: u64 = 4 << 30;

impl Engine {
    /// Uses this device from now on; called once the application uses one.
    pub fn attach(&self, device: Device) -> Result<()> {
        let device = Arc::new(device);
        self.shared.telemetry.trace.metadata("device", device.name());
        if device.is_software() {
            let warning =
                format!("{}: no figure of this run says anything about a GPU", device.name());
            log::warn!("{warning}");
            self.shared.telemetry.trace.metadata("warning", warning);
        }
        let own = ApplicationLane {
            lane: Lane::new(&device, &self.shared.telemetry, WaitMode::Spin)?,
            after: Event::new(&device, WaitMode::Spin)?,
        };
        let cache = self.device_cache(&device)?;
        let reserved = cache.as_ref().map_or(0, DeviceCache::reserved);
        let (own, to_files) = (Mutex::new(own), Mutex::new(None));
        let side =
            Attached { device: device.clone(), cache, own, to_files, arrivals: Mutex::new(None) };
        if self.shared.device_side.attached.set(side).is_err() {
            return Err(Error::new(ErrorKind::Internal, "there is a device already"));
        }
        log::info!(
            "device {}: {}, device cache of {}",
            device.ordinal(),
            device.name(),
            size::show(reserved)
        );
        let attached = self.serve_device(&device, reserved);
        if let Err(error) = &attached {
            // Half of the workers cannot serve a capture, and no capture may wait for the missing ones.
            self.shared.catalog.fail(error.clone());
        }
        attached
    }

    /// Starts the workers of a device with a cache of `reserved` bytes.
    fn serve_device(&self, device: &Device, reserved: u64) -> Result<()> {
        if self.shared.config.writes_directly() {
            return Ok(());
        }
        if reserved > 0 {
            self.shared
                .catalog
                .step(|state| state.growth().expect_capacity(Level::DEVICE, reserved));
            self.spawn("map", prepare::map)?;
            if self.shared.host_side.buffer.is_some() {
                self.spawn("flush", |shared| transfer::flush(shared, Level::DEVICE))?;
                self.spawn("fetch", |shared| transfer::fetch(shared, Level::DEVICE))?;
            }
        }
        if let Some(host) = &self.shared.host_side.buffer {
            // A device fills the buffer faster than pages can be touched.
            let most = match self.shared.config.host_cache_size {
                None if self.shared.config.ephemeral => with_device(&memory::physical()?),
                _ => host.len(),
            };
            let whole = host.want_first(most);
            self.shared.catalog.step(|state| {
                state.growth().pack(Level::HOST, false);
                if whole < host.len() {
                    state.growth().shorten(Level::HOST, whole);
                }
            });
            prepare::place(&self.shared);
            let small = memory::shared_huge_pages() == HugePages::Never;
            if small
                && self.shared.config.huge_pages
                && host.mapping().kind() == mapping::MappingKind::Shared
            {
                self.shared.telemetry.degrade(
                    "shared pages",
                    "the host buffer is shared memory, to which this system gives no huge pages: its \
                     pages are made and registered more slowly (as root: echo advise > \
                     /sys/kernel/mm/transparent_hugepage/shmem_enabled; huge_pages = false to go \
                     without)",
                );
            }
            let capabilities = device.capabilities();
            if !register::is_useful(self.shared.config.pin, capabilities.pageable_access) {
                log::info!("the host buffer is not registered: disabled (pin), or not needed by the device");
            } else if !capabilities.host_register {
                self.shared
                    .telemetry
                    .degrade("pin", "this device's driver does not register host memory");
            } else {
                self.spawn("pin", prepare::pin)?;
            }
        }
        Ok(())
    }

    fn device_cache(&self, device: &Arc<Device>) -> Result<Option<DeviceCache>> {
        let total = device.total_memory();
        let bytes = match self.shared.config.gpu_cache_size {
            None => DEVICE_DEFAULT.min(total / DEVICE_SHARE),
            Some(given) if given > total => {
                return Err(Error::invalid(format!(
                    "gpu_cache_size is {}, but device {} ({}) has {}",
                    size::show(given),
                    device.ordinal(),
                    device.name(),
                    size::show(total)
                )));
            }
            Some(given) => given,
        };
        if bytes == 0 || self.shared.config.writes_directly() {
            return Ok(None);
        }
        if !device.capabilities().virtual_memory {
            self.shared.telemetry.degrade(
                "cache",
                format!(
                    "no device cache: device {} ({}) cannot map memory piecewise",
                    device.ordinal(),
                    device.name()
                ),
            );
            return Ok(None);
        }
        match DeviceCache::reserve(device, bytes) {
            Ok(cache) => Ok(Some(cache)),
            Err(error) => {
                self.shared.telemetry.degrade(
                    "cache",
                    format!("no device cache of {} (gpu_cache_size): {error}", size::show(bytes)),
                );
                Ok(None)
            }
        }
    }
}
