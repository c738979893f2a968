//! The CUDA driver's functions, looked up in the library that the application has loaded. A status is
//! a number: a newer driver may return one that is not known here.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// A driver's status: 0 is success (`CUresult`).
pub type Status = c_uint;
/// `CUcontext`.
pub type Context = *mut c_void;
/// `CUstream`.
pub type Stream = *mut c_void;
/// `CUdeviceptr`.
pub type Address = u64;

/// `CUDA_ERROR_NOT_INITIALIZED`: the application has no memory of a device yet.
pub const NOT_INITIALIZED: Status = 3;
/// `CUDA_ERROR_DEINITIALIZED`: it has none any more.
pub const DEINITIALIZED: Status = 4;
/// `CUDA_ERROR_INVALID_CONTEXT`: no context knows the memory.
pub const INVALID_CONTEXT: Status = 201;

type NameOf = unsafe extern "C" fn(Status, *mut *const c_char) -> Status;
type ExchangeCaptureMode = unsafe extern "C" fn(*mut c_uint) -> Status;

macro_rules! functions {
    ($($(#[$doc:meta])* $rust:ident = $name:literal ($($arg:ident: $type:ty),*);)*) => {
        /// The driver.
        #[derive(Debug)]
        pub struct Driver {
            $($(#[$doc])* $rust: unsafe extern "C" fn($($type),*) -> Status,)*
            error_name: Option<NameOf>,
            /// A driver without it captures nothing.
            exchange_capture_mode: Option<ExchangeCaptureMode>,
        }

        impl Driver {
            /// Looks every function up.
            ///
            /// # Errors
            /// The name of the first that is missing.
            fn find(library: *mut c_void) -> Result<Driver, &'static CStr> {
                // SAFETY: the driver's header declares the functions of these names like this.
                unsafe {
                    Ok(Driver {
                        $($rust: function(library, $name).ok_or($name)?,)*
                        error_name: function(library, c"cuGetErrorName"),
                        exchange_capture_mode: function(
                            library,
                            c"cuThreadExchangeStreamCaptureMode",
                        ),
                    })
                }
            }

            $(
                $(#[$doc])*
                ///
                /// # Safety
                /// As the driver's reference says of this call; pointers must be valid for it.
                pub unsafe fn $rust(&self, $($arg: $type),*) -> Result<(), Failure> {
                    // SAFETY: the caller's promise.
                    match unsafe { (self.$rust)($($arg),*) } {
                        0 => Ok(()),
                        status => Err(Failure { call: $name, status }),
                    }
                }
            )*
        }
    };
}

functions! {
    /// Several attributes of a pointer at once.
    pointer_attributes = c"cuPointerGetAttributes"
        (count: c_uint, names: *mut c_uint, data: *mut *mut c_void, pointer: Address);
    /// The calling thread's context.
    current_context = c"cuCtxGetCurrent" (context: *mut Context);
    /// Makes a context the calling thread's, to be undone by a pop.
    push_context = c"cuCtxPushCurrent_v2" (context: Context);
    /// Undoes a push.
    pop_context = c"cuCtxPopCurrent_v2" (context: *mut Context);
    /// Keeps a device's primary context alive.
    retain_context = c"cuDevicePrimaryCtxRetain" (context: *mut Context, device: c_int);
    /// Makes a stream.
    make_stream = c"cuStreamCreate" (stream: *mut Stream, flags: c_uint);
    /// Ends a stream.
    end_stream = c"cuStreamDestroy_v2" (stream: Stream);
    /// Waits for a stream.
    synchronize = c"cuStreamSynchronize" (stream: Stream);
    /// Queues a copy from device to host memory.
    copy_to_host = c"cuMemcpyDtoHAsync_v2"
        (to: *mut c_void, from: Address, bytes: usize, stream: Stream);
    /// Queues a copy from host to device memory.
    copy_from_host = c"cuMemcpyHtoDAsync_v2"
        (to: Address, from: *const c_void, bytes: usize, stream: Stream);
}

/// A call of the driver's that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The function.
    pub call: &'static CStr,
    /// What it returned.
    pub status: Status,
}

/// A function of a library that stays loaded.
///
/// # Safety
/// `F` is a pointer to functions as the library declares the one of this name.
unsafe fn function<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: a library, and a name that ends with a null byte.
    let at = unsafe { libc::dlsym(library, name.as_ptr()) };
    // SAFETY: not null, and by the caller's promise.
    (!at.is_null()).then(|| unsafe { std::mem::transmute_copy(&at) })
}

/// The driver that was found; it is kept for the life of the process, as the driver has threads of
/// its own.
static DRIVER: AtomicPtr<Driver> = AtomicPtr::new(std::ptr::null_mut());

/// The driver, if the application had loaded it when [`look`] was last called.
#[inline(always)]
pub fn get() -> Option<&'static Driver> {
    let driver = DRIVER.load(Ordering::Acquire);
    // SAFETY: null, or what `look` has leaked.
    unsafe { driver.as_ref() }
}

/// Looks for the driver, if the application has loaded a library since the last time.
///
/// # Errors
/// It lacks a function that is needed for buffers in device memory.
pub fn look() -> Result<(), String> {
    static LOOKED_AT: AtomicU64 = AtomicU64::new(0);
    if get().is_some() {
        return Ok(());
    }
    let loaded = libraries_loaded();
    if LOOKED_AT.load(Ordering::Relaxed) == loaded {
        return Ok(());
    }
    // Whichever path the application's driver came from, this is its soname.
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NOLOAD;
    // SAFETY: the name ends with a null byte; nothing is loaded.
    let library = unsafe { libc::dlopen(c"libcuda.so.1".as_ptr(), flags) };
    if library.is_null() {
        LOOKED_AT.store(loaded, Ordering::Relaxed);
        return Ok(());
    }
    let driver = Driver::find(library).map_err(|name| {
        let name = name.to_string_lossy();
        format!("libcuda.so.1 has no function {name}: buffers in device memory cannot be logged")
    })?;
    DRIVER.store(Box::into_raw(Box::new(driver)), Ordering::Release);
    Ok(())
}

/// How many libraries this process has loaded since its start.
fn libraries_loaded() -> u64 {
    unsafe extern "C" fn first(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        loaded: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid record, and the pointer is the one given below.
        unsafe { *loaded.cast::<u64>() = (*info).dlpi_adds };
        1 // The counter is the same in every record.
    }
    let mut loaded = 0u64;
    // SAFETY: the callback keeps to its types, and the pointer is to a local.
    unsafe { libc::dl_iterate_phdr(Some(first), std::ptr::from_mut(&mut loaded).cast()) };
    loaded
}

impl Driver {
    /// Sets the calling thread's capture mode (`CUstreamCaptureMode`); the one before.
    pub fn exchange_capture_mode(&self, mut mode: c_uint) -> c_uint {
        if let Some(exchange) = self.exchange_capture_mode {
            // SAFETY: the pointer is to a local. A failure leaves the mode as it is.
            unsafe { exchange(&mut mode) };
        }
        mode
    }

    /// A failure in words.
    pub fn describe(&self, failure: Failure) -> String {
        let Failure { call, status } = failure;
        let mut text: *const c_char = std::ptr::null();
        let name = match self.error_name {
            // SAFETY: the driver writes a pointer to a constant string, or null.
            Some(name_of) if unsafe { name_of(status, &mut text) } == 0 && !text.is_null() => {
                // SAFETY: it is not null; the driver's strings end with a null byte and stay.
                unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
            }
            _ => "unknown error".to_owned(),
        };
        format!("{} failed: {name} ({status})", call.to_string_lossy())
    }
}
