//! A second kind of device, for tests: the host's own memory, without a driver. One thread does
//! what is queued, of all streams in one order, a moment later: who does not wait finds old bytes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::api::*;
use errors::{Error, ErrorKind, Result};
use os::mapping::Mapping;
use os::sync::{Condvar, Mutex, MutexGuard};

/// The unit in which memory is mapped.
const GRANULARITY: u64 = 64 << 10;

/// Bytes of the device's memory.
const TOTAL: u64 = 4 << 30;

/// How much later than it is queued a copy is done.
const MOMENT: Duration = Duration::from_micros(100);

/// All that was made and not given back.
#[derive(Debug, Default)]
struct HostDeviceState {
    handles: usize,
    reserved: HashMap<u64, Mapping>,
    /// By address: the length of mapped memory, and whether copies may use it.
    mapped: BTreeMap<u64, (u64, bool)>,
    registered: BTreeMap<u64, u64>,
    /// By handle: the length of memory; for an event, how many copies were queued when it was
    /// recorded; for a stream, nothing.
    things: HashMap<usize, u64>,
    queue: Option<Sender<[u64; 3]>>,
    queued: u64,
    failing: Option<(&'static str, u32)>,
}

impl HostDeviceState {
    fn make(&mut self, value: u64) -> Option<usize> {
        self.handles += 1;
        self.things.insert(self.handles, value);
        Some(self.handles)
    }

    fn end(&mut self, handle: usize) -> Option<()> {
        self.things.remove(&handle).map(drop)
    }

    /// How many copies are queued, if the stream exists.
    fn queued(&self, stream: StreamHandle) -> Option<u64> {
        self.things.contains_key(&stream.0).then_some(self.queued)
    }

    /// The piece of device memory at an address: start and length.
    fn find(&self, at: u64) -> Option<(u64, u64)> {
        let (&start, &(len, usable)) = self.mapped.range(..=at).next_back()?;
        (usable && at < start + len).then_some((start, len))
    }

    fn is_device(&self, mut at: u64, len: u64) -> bool {
        let end = at + len;
        while let Some((start, len)) = self.find(at).filter(|_| at < end) {
            at = start + len;
        }
        at >= end
    }
}

/// A device in the host's memory.
#[derive(Debug, Default)]
pub struct HostDevice {
    state: Mutex<HostDeviceState>,
    /// How many copies were done.
    done: Arc<(Mutex<u64>, Condvar)>,
    /// Held while no copy is to be made, and no registration is to end.
    held: Arc<Mutex<()>>,
}

impl HostDevice {
    /// The properties of the device.
    pub fn info() -> DeviceInfo {
        let capabilities = Capabilities {
            virtual_memory: true,
            host_register: true,
            pageable_access: false,
            reaches_host: false,
            managed_beside_work: true,
            driver_version: 0,
        };
        let (name, bus_id) = ("host memory".to_owned(), String::new());
        DeviceInfo { ordinal: 0, name, bus_id, total: TOTAL, capabilities, software: true }
    }

    /// Lets the operation of this name fail once, after so many calls that do not.
    pub fn fail(&self, operation: &'static str, after: u32) {
        self.state.lock().failing = Some((operation, after));
    }

    /// Makes no copy, and ends no registration, until the guard is dropped.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.held.lock()
    }

    /// How many address ranges, mappings, registrations and handles were made and not given back.
    pub fn in_use(&self) -> [usize; 4] {
        let s = self.state.lock();
        [s.reserved.len(), s.mapped.len(), s.registered.len(), s.things.len()]
    }

    /// Runs an operation: fails if it was told to, or if something that it uses does not exist.
    fn call<T>(
        &self,
        name: &str,
        body: impl FnOnce(&mut HostDeviceState) -> Option<T>,
    ) -> Result<T> {
        let failed = |why| Error::new(ErrorKind::Driver(1), format!("{name} failed: {why}"));
        let mut state = self.state.lock();
        match &mut state.failing {
            Some((failing, 0)) if *failing == name => {
                state.failing = None;
                return Err(failed("as the test wants it"));
            }
            Some((failing, after)) if *failing == name => *after -= 1,
            _ => {}
        }
        body(&mut state).ok_or_else(|| failed("no such thing"))
    }

    fn wait(&self, until: u64) {
        let (done, changed) = &*self.done;
        let mut now = done.lock();
        while *now < until {
            now = changed.wait(now);
        }
    }

    /// The queue, whose thread ends with the device.
    fn start(&self) -> Sender<[u64; 3]> {
        let (queue, copies) = channel::<[u64; 3]>();
        let (shared, held) = (self.done.clone(), self.held.clone());
        thread::spawn(move || {
            for [to, from, len] in copies {
                thread::sleep(MOMENT);
                let _held = held.lock();
                // SAFETY: the promise of who queued it; device memory was found to be there.
                unsafe {
                    std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, len as usize);
                }
                let (done, changed) = &*shared;
                *done.lock() += 1;
                changed.notify_all();
            }
        });
        queue
    }
}

// Unknown handles and addresses are refused: promises matter only where bytes are copied.
impl DeviceApi for HostDevice {
    fn bind(&self) -> Result<()> {
        self.call("bind", |_| Some(()))
    }
    fn enter(&self) -> Result<Entered> {
        self.call("enter", |_| Some(Entered(0)))
    }
    fn leave(&self, _: Entered) {}
    fn free_memory(&self) -> Result<u64> {
        let taken = |s: &HostDeviceState| s.mapped.values().map(|piece| piece.0).sum();
        self.call("free_memory", |s| TOTAL.checked_sub(taken(s)))
    }
    fn synchronize(&self) -> Result<()> {
        self.call("synchronize", |s| Some(s.queued)).map(|until| self.wait(until))
    }
    fn memory_at(&self, address: u64) -> Result<MemoryInfo> {
        self.call("memory_at", |s| {
            let registered = s.registered.range(..=address).next_back();
            let kind = match (s.find(address), registered) {
                (Some(_), _) => MemoryKind::Device,
                (None, Some((start, len))) if address < start + len => MemoryKind::Host,
                _ => MemoryKind::Unknown,
            };
            let (start, len) = s.find(address).unwrap_or_default();
            let (owner, managed, mapped) = (MemoryOwner::Nobody, false, kind == MemoryKind::Device);
            Some(MemoryInfo { owner, kind, managed, ordinal: 0, start, len, mapped })
        })
    }
    fn advice(&self, _: &Range<u64>) -> Result<Advice> {
        self.call("advice", |_| None)
    }
    fn granularity(&self) -> Result<u64> {
        self.call("granularity", |_| Some(GRANULARITY))
    }
    fn reserve(&self, len: u64) -> Result<u64> {
        let mapping = Mapping::reserve(len as usize)?;
        let base = mapping.base().as_ptr() as u64;
        self.call("reserve", |s| Some(s.reserved.insert(base, mapping)).map(|_| base))
    }
    unsafe fn free_addresses(&self, base: u64, len: u64) -> Result<()> {
        let unused = |s: &HostDeviceState| s.mapped.range(base..base + len).next().is_none();
        self.call("free_addresses", |s| unused(s).then(|| s.reserved.remove(&base))?.map(drop))
    }
    fn create(&self, len: u64) -> Result<MemoryHandle> {
        self.call("create", |s| s.make(len)).map(|handle| MemoryHandle(handle as u64))
    }
    unsafe fn release(&self, memory: MemoryHandle) -> Result<()> {
        self.call("release", |s| s.end(memory.0 as usize))
    }
    unsafe fn map(&self, at: u64, len: u64, memory: MemoryHandle) -> Result<()> {
        let fits = |s: &HostDeviceState| s.things.get(&(memory.0 as usize)) == Some(&len);
        let map = |s: &mut HostDeviceState| s.mapped.insert(at, (len, false)).is_none();
        self.call("map", |s| (fits(s) && map(s)).then_some(()))
    }
    unsafe fn allow_access(&self, at: u64, _: u64) -> Result<()> {
        self.call("allow_access", |s| s.mapped.get_mut(&at).map(|piece| piece.1 = true))
    }
    unsafe fn unmap(&self, at: u64, _: u64) -> Result<()> {
        self.call("unmap", |s| s.mapped.remove(&at).map(drop))
    }
    unsafe fn register(&self, start: *mut u8, len: u64) -> Result<()> {
        let register = |s: &mut HostDeviceState| s.registered.insert(start as u64, len).is_none();
        self.call("register", |s| register(s).then_some(()))?;
        drop(self.held.lock());
        Ok(())
    }
    unsafe fn unregister(&self, start: *mut u8) -> Result<()> {
        self.call("unregister", |s| s.registered.remove(&(start as u64)).map(drop))
    }
    fn create_stream(&self) -> Result<StreamHandle> {
        self.call("create_stream", |s| s.make(0)).map(StreamHandle)
    }
    unsafe fn destroy_stream(&self, stream: StreamHandle) -> Result<()> {
        self.call("destroy_stream", |s| s.end(stream.0))
    }
    unsafe fn synchronize_stream(&self, stream: StreamHandle) -> Result<()> {
        self.call("synchronize_stream", |s| s.queued(stream)).map(|until| self.wait(until))
    }
    unsafe fn wait_for_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()> {
        let both = |s: &HostDeviceState| s.queued(stream).and(s.things.get(&event.0)).is_some();
        self.call("wait_for_event", |s| both(s).then_some(()))
    }
    unsafe fn copy(
        &self,
        stream: StreamHandle,
        kind: CopyKind,
        to: u64,
        from: u64,
        len: u64,
    ) -> Result<()> {
        self.call("copy", |s| {
            let devices = [to, from].map(|at| s.is_device(at, len));
            let fits = match kind {
                CopyKind::OnDevice => devices == [true, true],
                CopyKind::ToHost => devices == [false, true],
                CopyKind::FromHost => devices == [true, false],
                CopyKind::Any => true,
            };
            s.queued(stream).filter(|_| fits)?;
            s.queue.get_or_insert_with(|| self.start()).send([to, from, len]).ok()?;
            s.queued += 1;
            Some(())
        })
    }
    unsafe fn has_stream(&self, stream: StreamHandle) -> Result<bool> {
        self.call("has_stream", |s| Some(s.queued(stream).is_some()))
    }
    unsafe fn is_capturing(&self, _: StreamHandle) -> bool {
        false
    }
    fn create_event(&self, _: WaitMode) -> Result<EventHandle> {
        self.call("create_event", |s| s.make(0)).map(EventHandle)
    }
    unsafe fn destroy_event(&self, event: EventHandle) -> Result<()> {
        self.call("destroy_event", |s| s.end(event.0))
    }
    unsafe fn record_event(&self, event: EventHandle, stream: StreamHandle) -> Result<()> {
        let record = |s: &mut HostDeviceState| {
            s.queued(stream).and_then(|now| s.things.insert(event.0, now))
        };
        self.call("record_event", record).map(drop)
    }
    unsafe fn synchronize_event(&self, event: EventHandle) -> Result<()> {
        let until = self.call("synchronize_event", |s| s.things.get(&event.0).copied())?;
        self.wait(until);
        Ok(())
    }
}
