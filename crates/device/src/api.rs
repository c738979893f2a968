//! The operations that the library needs of a kind of device, with its driver behind them.
//!
//! Everything else about devices is the library's own and there once: one mapped range that grows, what is
//! undone after a failure, what is given back when it is dropped, and errors that name the thing and the
//! value. `docs/design/devices.md` says how a kind is added.
//!
//! For all operations:
//! - They are called from any thread, several at once. One that waits for the device's work must not keep
//!   the others from being called: the library calls them from the thread that could end the wait.
//! - They do not unwind. An error is the driver's own: the operation and what the driver calls the failure
//!   ([`ErrorKind::Driver`](errors::ErrorKind::Driver)). The library adds what it was doing. After an error nothing
//!   has changed, if an operation does not say otherwise.
//! - The calling thread is within the context: between [`enter`](DeviceApi::enter) and
//!   [`leave`](DeviceApi::leave), or behind [`bind`](DeviceApi::bind). Outside of it come only these and
//!   [`has_stream`](DeviceApi::has_stream), and, where the context is gone, waits for streams and events and what gives an address range back. A kind without contexts has
//!   nothing to do for it.
//! - Addresses are those by which copies find memory, also memory of the host.

use std::ffi::CStr;
use std::ops::Range;

use errors::{Error, Result};

/// A stream: work that is queued in it is done in that order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHandle(pub usize);

/// An event: a point in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHandle(pub usize);

/// Device memory that has no address of its own, to be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryHandle(pub u64);

/// A kernel, a function that the device runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelHandle(pub usize);

/// The information by which [`leave`](DeviceApi::leave) undoes an [`enter`](DeviceApi::enter).
#[derive(Debug, PartialEq, Eq)]
pub struct Entered(pub u64);

/// How a thread waits for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitMode {
    /// As the context is configured, by default by polling: it takes a processor, with the least
    /// latency. For the application's threads, which have nothing else to do.
    Spin,
    /// Sleeps until the driver wakes the thread, leaving the processor to the application. For workers.
    Block,
}

/// Between which kinds of memory a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyKind {
    /// From device to device; managed memory counts as such.
    OnDevice,
    /// From device to host memory.
    ToHost,
    /// From host to device memory.
    FromHost,
    /// Between any two addresses, of which the driver finds out what they are.
    Any,
}

/// The capabilities of a device and its driver, queried once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Address ranges can be reserved and mapped piecewise.
    pub virtual_memory: bool,
    /// Host memory can be registered.
    pub host_register: bool,
    /// The device accesses unregistered memory through the host's page tables, at nearly full speed;
    /// applications then let kernels write to it. Access by HMM does not count: on x86 the driver
    /// reports it for all memory, and hardly any program uses it.
    pub pageable_access: bool,
    /// Kernels can write to memory of `malloc`, by whichever page tables.
    pub reaches_host: bool,
    /// The host may touch managed memory while the device works.
    pub managed_beside_work: bool,
    /// The driver's version in its own numbers: 12080 for CUDA 12.8.
    pub driver_version: i32,
}

/// The properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its number among the devices of its kind.
    pub ordinal: i32,
    /// Its name.
    pub name: String,
    /// Its PCI bus id, spelled as in sysfs; empty if the driver does not tell.
    pub bus_id: String,
    /// Its total memory in bytes.
    pub total: u64,
    /// The device's capabilities.
    pub capabilities: Capabilities,
    /// The device is a stand-in without hardware, whose times say nothing about a device.
    pub software: bool,
}

/// The kind of memory at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryKind {
    /// The driver does not know it: memory of `malloc`, or none.
    Unknown,
    /// Host memory that the driver knows, as it is registered.
    Host,
    /// Device memory.
    Device,
    /// Another kind that the driver has.
    Other,
}

/// The owner of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryOwner {
    /// No context: the memory was mapped piecewise or comes from a pool.
    Nobody,
    /// The context that the library uses.
    ThisContext,
    /// Another context.
    AnotherContext,
}

/// The driver's answer about an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// The memory's owner.
    pub owner: MemoryOwner,
    /// The memory's kind.
    pub kind: MemoryKind,
    /// Host and device share the memory, and its pages move.
    pub managed: bool,
    /// The device that the memory belongs to.
    pub ordinal: i32,
    /// The first byte of the allocation, or of the memory that one handle is mapped to.
    pub start: u64,
    /// Bytes from there; 0: the driver does not tell.
    pub len: u64,
    /// The memory was mapped piecewise.
    pub mapped: bool,
}

impl MemoryInfo {
    /// The address behind the memory.
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.len)
    }

    /// Whether memory at another address belongs to the same allocation, as far as the driver tells.
    pub(crate) fn belongs_with(&self, other: &MemoryInfo) -> bool {
        let of =
            |info: &MemoryInfo| (info.owner, info.kind, info.managed, info.ordinal, info.mapped);
        of(self) == of(other)
    }
}

/// The advice that the application has given about a range of managed memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advice {
    /// Host and device may both have a copy of a page.
    pub read_mostly: bool,
    /// The pages are to be on the host.
    pub prefers_host: bool,
}

/// One device with the context that the library uses on it. Dropped, it gives back what it has taken of the
/// application's context; the context itself is the application's.
///
/// # Safety
/// For all `unsafe` operations, in addition to their own text: handles are this device's own, given
/// back by its operations and not ended since, or of the application, which keeps them.
pub trait DeviceApi: std::fmt::Debug + Send + Sync {
    /// Puts the calling thread, a worker of the library's, within the context until it ends. Its calls must
    /// not disturb a graph capture of another thread.
    fn bind(&self) -> Result<()>;

    /// Puts the calling thread, one of the application's, within the context, until
    /// [`leave`](Self::leave). May be nested. The application's calls on other threads notice nothing. Does not wait
    /// for the device, and is a part of every call of the library: it is to be cheap.
    ///
    /// # Errors
    /// The context is not the one it was any more: destroyed, or that of a device that was reset. Then its handles
    /// are void, and a driver may crash on them.
    fn enter(&self) -> Result<Entered>;

    /// Puts the calling thread back to where it was before `entered`, the innermost that is not undone yet.
    /// Cannot fail: there is nobody to be told.
    fn leave(&self, entered: Entered);

    /// Free device memory in bytes.
    fn free_memory(&self) -> Result<u64>;

    /// Waits until everything that any thread has queued in the context before this call is done, on every
    /// stream.
    ///
    /// # Errors
    /// Also, before anything is broken by it: a stream is being captured into a graph, which waiting would
    /// invalidate.
    fn synchronize(&self) -> Result<()>;

    /// The same in every device's primary context but this one: programs of the CUDA runtime use no other. A kind
    /// with one context waits for nothing.
    fn synchronize_other_devices(&self) -> Result<()> {
        Ok(())
    }

    /// The same in the context that owns the memory at `address`, if it is another one.
    fn synchronize_owner(&self, _address: u64) -> Result<()> {
        Ok(())
    }

    /// The driver's answer about an address, which is not accessed. Asked with each checkpoint for
    /// each region, so it must not wait for the device. Memory that was freed is unknown.
    fn memory_at(&self, address: u64) -> Result<MemoryInfo>;

    /// What was advised about a range of managed memory.
    ///
    /// # Errors
    /// It is not within one allocation of managed memory.
    fn advice(&self, range: &Range<u64>) -> Result<Advice>;

    /// The unit, in bytes, in which memory is mapped: lengths and addresses of the next operations are
    /// multiples of it.
    fn granularity(&self) -> Result<u64>;

    /// Reserves `len` bytes of addresses, which takes no memory.
    fn reserve(&self, len: u64) -> Result<u64>;

    /// Gives the addresses of a [`reserve`](Self::reserve) back.
    ///
    /// # Safety
    /// Nothing is mapped there.
    unsafe fn free_addresses(&self, base: u64, len: u64) -> Result<()>;

    /// Takes `len` bytes of device memory, without waiting for work that is queued.
    ///
    /// # Errors
    /// There is not as much memory: the library goes on with what it has.
    fn create(&self, len: u64) -> Result<MemoryHandle>;

    /// Gives the memory back as soon as it is mapped nowhere.
    ///
    /// # Safety
    /// The memory is released once.
    unsafe fn release(&self, memory: MemoryHandle) -> Result<()>;

    /// Maps the whole of `memory`, of `len` bytes, at an address. Work that is queued on other addresses of
    /// the same range goes on.
    ///
    /// # Safety
    /// The addresses are reserved, and were not mapped before.
    unsafe fn map(&self, at: u64, len: u64, memory: MemoryHandle) -> Result<()>;

    /// Lets this device, and no other, access mapped memory: copies may use it from here on.
    ///
    /// # Safety
    /// The memory is mapped.
    unsafe fn allow_access(&self, at: u64, len: u64) -> Result<()>;

    /// Undoes a [`map`](Self::map).
    ///
    /// # Safety
    /// No work that is queued uses the memory.
    unsafe fn unmap(&self, at: u64, len: u64) -> Result<()>;

    /// Takes `len` bytes of device memory with an address. May wait for the device.
    ///
    /// # Errors
    /// There is not as much memory; or the kind has no kernels, for which alone the library asks.
    fn allocate(&self, _len: u64) -> Result<u64> {
        Err(no_kernels())
    }

    /// Gives the memory of an [`allocate`](Self::allocate) back. May wait for the device.
    ///
    /// # Safety
    /// No work that is queued uses the memory.
    unsafe fn free(&self, _address: u64) -> Result<()> {
        Err(no_kernels())
    }

    /// Loads kernels, in the form that the kind has them in (PTX), for as long as the context lives. Returns those of
    /// these names. May wait for the device, and compile.
    ///
    /// # Errors
    /// The driver does not understand them, or there is none of a name; or the kind has no kernels.
    fn load_kernels(&self, _code: &CStr, _names: &[&CStr]) -> Result<Vec<KernelHandle>> {
        Err(no_kernels())
    }

    /// Queues a kernel in a stream: so many blocks of so many threads. Each argument has 8 bytes. Does not wait.
    ///
    /// # Errors
    /// Nothing is queued. Failures of the kernel itself come with the next wait for it.
    ///
    /// # Safety
    /// The kernel takes these arguments; the memory that they name stays valid until it is done, and nothing else uses
    /// what it writes.
    unsafe fn launch(
        &self,
        _stream: StreamHandle,
        _kernel: KernelHandle,
        _blocks: u32,
        _threads: u32,
        _arguments: &[u64],
    ) -> Result<()> {
        Err(no_kernels())
    }

    /// Registers (pins) host memory for all contexts of the process: its pages stay where they are, and
    /// copies to and from it are asynchronous. May block all copies of the process meanwhile.
    ///
    /// # Safety
    /// The memory stays mapped until [`unregister`](Self::unregister), and no copy is using it now.
    unsafe fn register(&self, start: *mut u8, len: u64) -> Result<()>;

    /// Undoes a [`register`](Self::register) of this start.
    ///
    /// # Safety
    /// No copy is using the memory.
    unsafe fn unregister(&self, start: *mut u8) -> Result<()>;

    /// Makes a stream that is in order with no other, also not with one that stands for all.
    fn create_stream(&self) -> Result<StreamHandle>;

    /// Ends a stream, at once or when its work is done; does not wait.
    ///
    /// # Safety
    /// The stream is not used any more.
    unsafe fn destroy_stream(&self, stream: StreamHandle) -> Result<()>;

    /// Waits until all that is queued in the stream is done, and its bytes are seen by the calling thread.
    ///
    /// # Errors
    /// Also of work that was queued before. If it cannot be known that none is under way any more, every
    /// later call fails, too.
    ///
    /// # Safety
    /// The stream is alive.
    unsafe fn synchronize_stream(&self, stream: StreamHandle) -> Result<()>;

    /// Has what is queued in the stream from here on begin after the event, as it was last recorded. Does
    /// not wait.
    ///
    /// # Safety
    /// The stream and the event are alive.
    unsafe fn wait_for_event(&self, stream: StreamHandle, event: EventHandle) -> Result<()>;

    /// Queues a copy of `len` bytes in a stream. Does not wait if the host's memory is registered; else it
    /// may, until the copy is done.
    ///
    /// # Errors
    /// Nothing is queued. Failures of the copy itself come with the next wait for it.
    ///
    /// # Safety
    /// Both ranges stay valid until the copy is done, and nothing else uses `to`. A host's range lies within
    /// one registration or has none.
    unsafe fn copy(
        &self,
        stream: StreamHandle,
        kind: CopyKind,
        to: u64,
        from: u64,
        len: u64,
    ) -> Result<()>;

    /// Whether an application's stream is one of this context, so that its work and the library's can be put
    /// in order.
    ///
    /// # Errors
    /// The stream is none, or stands for different ones on different threads; the error names it.
    ///
    /// # Safety
    /// `stream` is one of this kind's streams.
    unsafe fn has_stream(&self, stream: StreamHandle) -> Result<bool>;

    /// Whether a stream is being captured into a graph. The question must not break the capture. A kind
    /// without graphs says no.
    ///
    /// # Safety
    /// The stream is alive.
    unsafe fn is_capturing(&self, stream: StreamHandle) -> bool;

    /// Makes an event for which threads wait in this way. It counts as reached until it is recorded.
    fn create_event(&self, waiting: WaitMode) -> Result<EventHandle>;

    /// Ends an event; does not wait.
    ///
    /// # Safety
    /// The event is not used any more.
    unsafe fn destroy_event(&self, event: EventHandle) -> Result<()>;

    /// Moves the event behind all work that is queued in the stream now. Does not wait.
    ///
    /// # Safety
    /// The event and the stream are alive.
    unsafe fn record_event(&self, event: EventHandle, stream: StreamHandle) -> Result<()>;

    /// Waits until the event as it was last recorded is reached, and bytes that were copied before it are seen
    /// by the calling thread.
    ///
    /// # Errors
    /// The errors of the work before the event, too.
    ///
    /// # Safety
    /// The event is alive.
    unsafe fn synchronize_event(&self, event: EventHandle) -> Result<()>;
}

#[cold]
fn no_kernels() -> Error {
    Error::invalid("this kind of device has no kernels of the library's")
}
