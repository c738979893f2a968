//! A device and the context in which the library uses it.
//!
//! The library creates no context: it uses the one that is current on the calling thread, else a
//! device's primary context if that exists.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use super::api::{Capabilities, DeviceApi, DeviceInfo, Entered};
use errors::Result;

/// A device with its context.
#[derive(Debug)]
pub struct Device {
    api: Arc<dyn DeviceApi>,
    info: DeviceInfo,
    /// Whether managed memory was seen, which other contexts' work may use.
    shares: AtomicBool,
}

impl Device {
    /// A device of any kind.
    pub fn new(info: DeviceInfo, api: Arc<dyn DeviceApi>) -> Device {
        Device { api, info, shares: AtomicBool::new(false) }
    }

    /// The operations of the device's kind.
    pub(crate) fn api(&self) -> &dyn DeviceApi {
        &*self.api
    }

    /// Makes the context current on the calling thread for good, for worker threads. Their calls do not
    /// disturb a graph capture on another thread.
    pub fn bind(&self) -> Result<()> {
        self.api.bind()
    }

    /// Makes the context current until the value is dropped, for the application's threads. Within that, entering
    /// again costs nothing: a call of the library enters once.
    ///
    /// # Errors
    /// Also if the application has destroyed the context or reset the device: its objects are gone then.
    pub fn enter(&self) -> Result<Current> {
        let own = Arc::as_ptr(&self.api).cast::<()>() as usize;
        let before = inside();
        let entered = match before == own {
            true => None,
            false => Some(self.api.enter()?),
        };
        set_inside(own);
        Ok(Current { api: self.api.clone(), entered, before, _not_send: PhantomData })
    }

    /// Destroys an object of the context. If the context is gone, so is the object.
    pub(crate) fn destroy_in_context(&self, end: impl FnOnce(&dyn DeviceApi) -> Result<()>) {
        let ended = self.enter().and_then(|_current| end(self.api()));
        if let Err(error) = ended {
            log::debug!("{error}");
        }
    }

    /// Free device memory in bytes.
    pub fn free_memory(&self) -> Result<u64> {
        let _current = self.enter()?;
        self.api.free_memory()
    }

    /// Has [`synchronize`](Self::synchronize) wait for other devices, too, from here on, and waits for the context
    /// that owns the managed memory at `address`.
    pub(crate) fn shares(&self, address: u64, owned_by_another: bool) -> Result<()> {
        self.shares.store(true, Ordering::Relaxed);
        if !owned_by_another {
            return Ok(());
        }
        let _current = self.enter()?;
        self.api.synchronize_owner(address)
    }

    /// Waits for all work that is queued in the context, on every stream; in a process that has managed memory
    /// also for what is queued in the other devices' primary contexts, as it may use that memory.
    ///
    /// # Errors
    /// A stream is being captured into a graph, which waiting would invalidate. For streams that
    /// synchronize with the default stream the driver tells in advance, for others by the call's
    /// failure.
    pub fn synchronize(&self) -> Result<()> {
        let _current = self.enter()?;
        self.api.synchronize()?;
        match self.shares.load(Ordering::Relaxed) {
            true => self.api.synchronize_other_devices(),
            false => Ok(()),
        }
    }

    /// The device's ordinal.
    pub fn ordinal(&self) -> i32 {
        self.info.ordinal
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// The device's PCI bus id, spelled as in sysfs; empty if the driver does not tell.
    pub fn bus_id(&self) -> &str {
        &self.info.bus_id
    }

    /// Total device memory in bytes.
    pub fn total_memory(&self) -> u64 {
        self.info.total
    }

    /// The capabilities of the device and its driver.
    pub fn capabilities(&self) -> Capabilities {
        self.info.capabilities
    }

    /// Whether this is a software device, which is no GPU.
    pub fn is_software(&self) -> bool {
        self.info.software
    }
}

/// A context that is current on this thread until the value is dropped.
#[derive(Debug)]
pub struct Current {
    api: Arc<dyn DeviceApi>,
    /// `None` within another one of the same device.
    entered: Option<Entered>,
    /// The device that the thread was in before.
    before: usize,
    /// The context stack belongs to the thread.
    _not_send: PhantomData<*const ()>,
}

impl Drop for Current {
    fn drop(&mut self) {
        set_inside(self.before);
        if let Some(entered) = self.entered.take() {
            self.api.leave(entered);
        }
    }
}

thread_local! {
    /// The device that the thread is in, by the address of its operations, or 0.
    static INSIDE: Cell<usize> = const { Cell::new(0) };
}

/// A thread that is exiting is in no device.
fn inside() -> usize {
    INSIDE.try_with(Cell::get).unwrap_or_default()
}

fn set_inside(device: usize) {
    let _ = INSIDE.try_with(|inside| inside.set(device));
}
