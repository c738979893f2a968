//! Buffers in device memory, as passed to a CUDA-aware MPI: recognises them, and copies between them and
//! the log.
//!
//! Without a loaded driver there are none, which is checked by one load. A CUDA-aware MPI loads the
//! driver when it is initialised, so the driver is searched for when a part or a replay begins
//! ([`get_or_find`]), not for each message. With a driver, each buffer is queried: an address may have
//! been freed and reused by memory of another kind.

mod driver;
mod streams;

use std::ffi::{c_int, c_uint, c_void};

use ::driver::cuda::{
    CaptureMode, Failure, CONTEXT_IS_DESTROYED, DEINITIALIZED, INVALID_CONTEXT, NOT_INITIALIZED,
};

pub(crate) use driver::get_or_find;
use driver::{Address, Context, MemoryDriver, Stream};
use streams::with_stream;

/// `CU_MEMORYTYPE_DEVICE`.
const MEMORY_TYPE_DEVICE: c_uint = 2;
/// `CU_POINTER_ATTRIBUTE_CONTEXT`.
const CONTEXT: c_uint = 1;
/// `CU_POINTER_ATTRIBUTE_MEMORY_TYPE`.
const MEMORY_TYPE: c_uint = 2;
/// `CU_POINTER_ATTRIBUTE_IS_MANAGED`.
const IS_MANAGED: c_uint = 8;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const ORDINAL: c_uint = 9;

/// A buffer in device memory that the host cannot access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Buffer {
    driver: &'static MemoryDriver,
    address: Address,
    /// Null for memory without a context.
    context: Context,
    ordinal: c_int,
}

/// Whether a buffer may be in device memory.
#[inline(always)]
pub(crate) fn is_there() -> bool {
    driver::get().is_some()
}

/// The buffer of `len` bytes at an address, if the host cannot access it; the host can access managed
/// memory.
///
/// # Errors
/// The driver's error.
#[inline(always)]
pub(crate) fn buffer(address: *const c_void, len: usize) -> Result<Option<Buffer>, String> {
    match driver::get() {
        Some(driver) if len > 0 => Buffer::at(driver, address as Address),
        _ => Ok(None),
    }
}

impl Buffer {
    #[cold]
    fn at(driver: &'static MemoryDriver, address: Address) -> Result<Option<Buffer>, String> {
        match Buffer::ask(driver, address) {
            // Without a context there is no device memory.
            Err(Failure { status: NOT_INITIALIZED | DEINITIALIZED, .. }) => Ok(None),
            Err(Failure { status: INVALID_CONTEXT | CONTEXT_IS_DESTROYED, .. }) => {
                Buffer::without_context(driver, address)
            }
            asked => asked.map_err(|failure| failure.to_string()),
        }
    }

    /// Queries the driver in the calling thread's context, which works for memory of all contexts.
    fn ask(driver: &'static MemoryDriver, address: Address) -> Result<Option<Buffer>, Failure> {
        let (mut context, mut memory_type, mut managed, mut ordinal) =
            (std::ptr::null_mut(), 0, 0, -1);
        let (kind, is_managed, device): (&mut c_uint, &mut c_uint, &mut c_int) =
            (&mut memory_type, &mut managed, &mut ordinal);
        let mut names = [CONTEXT, MEMORY_TYPE, IS_MANAGED, ORDINAL];
        let mut data: [*mut c_void; 4] = [
            std::ptr::from_mut::<Context>(&mut context).cast(),
            std::ptr::from_mut(kind).cast(),
            std::ptr::from_mut(is_managed).cast(),
            std::ptr::from_mut(device).cast(),
        ];
        // SAFETY: both arrays have four elements, each value has the size of its attribute, and the
        // driver does not use the address it is asked about.
        unsafe {
            driver.cuPointerGetAttributes(4, names.as_mut_ptr(), data.as_mut_ptr(), address)
        }?;
        let is_device = memory_type == MEMORY_TYPE_DEVICE && managed == 0;
        Ok(is_device.then_some(Buffer { driver, address, context, ordinal }))
    }

    /// The buffer at an address, on a thread without a context, where the driver recognises no
    /// address. Memory that the host can read is host memory; for other addresses the existing
    /// primary contexts are tried.
    fn without_context(
        driver: &'static MemoryDriver,
        address: Address,
    ) -> Result<Option<Buffer>, String> {
        let readable = is_readable(address);
        if readable == Some(true) {
            return Ok(None);
        }
        let found =
            Buffer::ask_primaries(driver, address).map_err(|failure| failure.to_string())?;
        if found.is_none() && readable == Some(false) {
            return Err(format!(
                "the buffer at {address:#x} is not the host's, and the thread has no CUDA context \
                 in which the driver could be asked about it"
            ));
        }
        Ok(found)
    }

    fn ask_primaries(
        driver: &'static MemoryDriver,
        address: Address,
    ) -> Result<Option<Buffer>, Failure> {
        let mut count = 0;
        // SAFETY: the pointer is to a local.
        unsafe { driver.cuDeviceGetCount(&mut count) }?;
        for device in 0..count {
            let (mut flags, mut active) = (0, 0);
            // SAFETY: the pointers are to locals.
            unsafe { driver.cuDevicePrimaryCtxGetState(device, &mut flags, &mut active) }?;
            if active == 0 {
                continue;
            }
            let mut context = std::ptr::null_mut();
            // SAFETY: the pointer is to a local; the context is released below.
            unsafe { driver.cuDevicePrimaryCtxRetain(&mut context, device) }?;
            // SAFETY: retained above.
            let asked = unsafe { within(driver, context, || Buffer::ask(driver, address)) };
            // SAFETY: retained above.
            unsafe { driver.cuDevicePrimaryCtxRelease_v2(device) }?;
            if let Some(found) = asked? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Copies `len` bytes from the buffer.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// `to` has room for `len` bytes.
    pub(crate) unsafe fn read(&self, to: *mut c_void, len: usize) -> Result<(), String> {
        self.copy(|stream| {
            // SAFETY: by the caller's promise; the driver checks the buffer's end.
            unsafe { self.driver.cuMemcpyDtoHAsync_v2(to, self.address, len, stream) }
        })
    }

    /// Copies `len` bytes into the buffer.
    ///
    /// # Errors
    /// The driver's error.
    ///
    /// # Safety
    /// `from` has `len` bytes.
    pub(crate) unsafe fn write(&self, from: *const c_void, len: usize) -> Result<(), String> {
        self.copy(|stream| {
            // SAFETY: by the caller's promise; the driver checks the buffer's end.
            unsafe { self.driver.cuMemcpyHtoDAsync_v2(self.address, from, len, stream) }
        })
    }

    /// Makes a copy in a stream of this library, and waits for it.
    fn copy(&self, queue: impl FnOnce(Stream) -> Result<(), Failure>) -> Result<(), String> {
        let before = self.driver.exchange_capture_mode(CaptureMode::RELAXED);
        let copied = self.copy_in_context(queue);
        self.driver.exchange_capture_mode(before);
        copied.map_err(|failure| failure.to_string())
    }

    fn copy_in_context(
        &self,
        queue: impl FnOnce(Stream) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (driver, context) = (self.driver, self.context()?);
        let copy = |stream| {
            // SAFETY: a stream of the current context.
            queue(stream).and_then(|()| unsafe { driver.cuStreamSynchronize(stream) })
        };
        // SAFETY: the buffer's own context, or the thread's, or one that is never released.
        unsafe { within(driver, context, || with_stream(driver, context, copy)) }
    }

    /// The context of the copy. Memory that is mapped piecewise or from a pool has none; its addresses
    /// are valid in all contexts.
    fn context(&self) -> Result<Context, Failure> {
        let mut context = self.context;
        if context.is_null() {
            // SAFETY: the pointer is to a local.
            unsafe { self.driver.cuCtxGetCurrent(&mut context) }?;
        }
        if context.is_null() {
            // SAFETY: as above. It is not released: the device is in use.
            unsafe { self.driver.cuDevicePrimaryCtxRetain(&mut context, self.ordinal) }?;
        }
        Ok(context)
    }
}

/// Runs `body` in a context.
///
/// # Safety
/// The context exists.
unsafe fn within<T>(
    driver: &MemoryDriver,
    context: Context,
    body: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { driver.cuCtxPushCurrent_v2(context) }?;
    let done = body();
    let mut own = std::ptr::null_mut();
    // SAFETY: the pointer is to a local; the context was pushed above.
    unsafe { driver.cuCtxPopCurrent_v2(&mut own) }?;
    done
}

/// Whether the host can read the byte at an address; `None` if a sandbox forbids the test.
fn is_readable(address: Address) -> Option<bool> {
    let mut byte = 0u8;
    let own = libc::iovec { iov_base: std::ptr::from_mut(&mut byte).cast(), iov_len: 1 };
    let asked = libc::iovec { iov_base: address as *mut c_void, iov_len: 1 };
    // SAFETY: one byte is written, to a local; the system checks the other address.
    match unsafe { libc::process_vm_readv(libc::getpid(), &own, 1, &asked, 1, 0) } {
        1 => Some(true),
        _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => Some(false),
        _ => None,
    }
}
