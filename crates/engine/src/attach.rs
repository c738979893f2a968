//! The device of a job, once the application uses one: its cache, and the workers for it.

use std::sync::Arc;

use super::buffer::with_device;
use super::device_compression::DeviceCompression;
use super::device_side::Attached;
use super::lifecycle::Engine;
use super::shared::Shared;
use super::workers::Workers;
use super::{map, prepare, transfer};
use catalog::Level;
use config::GrowingSize;
use device::Device;
use errors::{Error, ErrorKind, Result};
use levels::device_cache::DeviceCache;
use once_cell::sync::OnceCell;
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
        let cache = self.device_cache(&device)?;
        let [first, most] =
            cache.as_ref().map_or([0, 0], |cache| [cache.first(), cache.reserved()]);
        let side = Attached {
            device: device.clone(),
            cache,
            own: OnceCell::new(),
            to_files: Mutex::new(None),
            arrivals: Mutex::new(None),
            compression: DeviceCompression::default(),
        };
        if self.shared.device_side.attached.set(side).is_err() {
            return Err(Error::new(ErrorKind::Internal, "there is a device already"));
        }
        log::info!(
            "device {}: {}, device cache of {}",
            device.ordinal(),
            device.name(),
            GrowingSize { first, most }
        );
        let attached = self.serve_device(GrowingSize { first, most });
        if let Err(error) = &attached {
            // Half of the workers cannot serve a capture, and no capture may wait for the missing ones.
            self.shared.catalog.fail(error.clone());
        }
        attached
    }

    /// Starts the workers of a device with a cache of this size.
    fn serve_device(&self, cache: GrowingSize) -> Result<()> {
        if self.shared.config.writes_directly() {
            return Ok(());
        }
        if cache.most > 0 {
            let name = self.shared.catalog.step(|state| {
                let mut growth = state.growth();
                growth.expect_capacity(Level::DEVICE, cache.first);
                if cache.most > cache.first {
                    growth.may_grow_to(Level::DEVICE, cache.most);
                }
                state.levels().name_of(Level::DEVICE)
            });
            self.shared.telemetry.trace.level(Level::DEVICE.index(), name, cache.most, true);
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
        }
        if cache.most == 0 {
            return serve_host_buffer(&self.shared, &self.workers);
        }
        let workers = self.workers.clone();
        self.workers.spawn("map", move |shared| {
            map::map(shared, || {
                if shared.host_side.buffer.is_some() {
                    workers.spawn("flush", |shared| transfer::flush(shared, Level::DEVICE))?;
                    workers.spawn("fetch", |shared| transfer::fetch(shared, Level::DEVICE))?;
                }
                serve_host_buffer(shared, &workers)
            })
        })
    }

    fn device_cache(&self, device: &Arc<Device>) -> Result<Option<DeviceCache>> {
        let total = device.total_memory();
        let GrowingSize { first, most } = match self.shared.config.gpu_cache_size {
            None => {
                let bytes = DEVICE_DEFAULT.min(total / DEVICE_SHARE);
                GrowingSize { first: bytes, most: bytes }
            }
            Some(given) if given.first > total => {
                return Err(Error::invalid(format!(
                    "gpu_cache_size is {given}, but device {} ({}) has only {} of memory",
                    device.ordinal(),
                    device.name(),
                    size::show(total)
                )));
            }
            // One configuration serves machines with more memory and with less.
            Some(given) => GrowingSize { most: given.most.min(total), ..given },
        };
        if most == 0 || self.shared.config.writes_directly() {
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
        match DeviceCache::reserve(device, first, most) {
            Ok(cache) => Ok(Some(cache)),
            Err(error) => {
                self.shared.telemetry.degrade(
                    "cache",
                    format!("no device cache of {} (gpu_cache_size): {error}", size::show(most)),
                );
                Ok(None)
            }
        }
    }
}

/// Starts what the host buffer needs beside a device, if there is one.
fn serve_host_buffer(shared: &Shared, workers: &Workers) -> Result<()> {
    let Some(host) = &shared.host_side.buffer else { return Ok(()) };
    let side = shared.device_side.attached()?;
    let small = memory::shared_huge_pages() == HugePages::Never;
    if small && shared.config.huge_pages && host.mapping().kind() == mapping::MappingKind::Shared {
        shared.telemetry.degrade(
            "shared pages",
            "the host buffer is shared memory, to which this system gives no huge pages: its \
             pages are made and registered more slowly (as root: echo advise > \
             /sys/kernel/mm/transparent_hugepage/shmem_enabled; huge_pages = false to go \
             without)",
        );
    }
    let capabilities = side.device.capabilities();
    if !register::is_useful(shared.config.pin, capabilities.pageable_access) {
        log::info!(
            "the host buffer is not registered: disabled (pin), or not needed by the device"
        );
    } else if !capabilities.host_register {
        shared.telemetry.degrade("pin", "this device's driver does not register host memory");
    } else {
        workers.spawn("pin", prepare::pin)?;
    }
    Ok(())
}
