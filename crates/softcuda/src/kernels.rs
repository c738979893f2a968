//! Kernels: functions of the program that stand in for GPU kernels, and those
//! that were compiled from PTX ([`crate::ptx`]).
//!
//! A program's own kernels are registered by name and found through any module; all run on the stream's
//! thread. A kernel reaches device memory only through [`alias_for_kernel`] and [`find_window`]. The memory
//! stays in place until the kernel ends; a request for inaccessible memory breaks the context, like an
//! illegal access by a real kernel.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, LazyLock, Mutex};

use crate::memory::{AddressSide, MemoryAccess, Operand};
use crate::notice::notice;
use crate::registry;
use crate::status::{DriverResult, ErrorCode};
use crate::sync::lock;
use crate::thread;

/// The shared memory of a block, in bytes.
pub(crate) const SHARED_MEMORY: usize = 48 << 10;

/// The largest parameter, in bytes.
const LARGEST_PARAMETER: usize = 8;

/// The argument of a native kernel: `struct softcuda_launch`.
#[repr(C)]
#[derive(Debug)]
#[allow(non_camel_case_types)]
pub struct softcuda_launch {
    /// Blocks in each dimension.
    pub grid: [u32; 3],
    /// Threads of a block in each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory asked for.
    pub shared_bytes: u32,
    /// Number of parameters.
    pub parameter_count: u32,
    /// A pointer to each parameter's value as it was at the launch.
    pub params: *mut *mut c_void,
}

/// A native kernel.
pub(crate) type NativeKernel = unsafe extern "C" fn(launch: *const softcuda_launch);

/// What a kernel asks of its launches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LaunchNeeds {
    /// The sizes of its parameters in bytes.
    pub(crate) sizes: Vec<usize>,
    /// The shared memory of its own, beside what a launch asks for.
    pub(crate) shared_bytes: u32,
    /// How many threads its barriers are for, if they say so.
    pub(crate) threads: Option<u64>,
}

/// A kernel.
#[derive(Debug)]
pub(crate) struct Kernel {
    function: NativeKernel,
    needs: LaunchNeeds,
}

/// The grid, the block and the shared memory of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LaunchShape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}

/// The device and the memory of the kernel that runs on this thread.
struct RunningKernel {
    device: usize,
    held: Vec<Operand>,
    failed: bool,
}

thread_local! {
    static SCOPE: RefCell<Option<RunningKernel>> = const { RefCell::new(None) };
}

static KERNELS: LazyLock<Mutex<HashMap<String, Arc<Kernel>>>> = LazyLock::new(Mutex::default);

/// Registers a kernel, replacing the one of the same name.
pub(crate) fn register(name: String, sizes: Vec<usize>, function: NativeKernel) -> DriverResult {
    if sizes.iter().any(|size| *size == 0 || *size > LARGEST_PARAMETER) {
        return Err(ErrorCode::INVALID_VALUE);
    }
    let kernel = Kernel::new(function, LaunchNeeds { sizes, ..LaunchNeeds::default() });
    lock(&KERNELS).insert(name, Arc::new(kernel));
    Ok(())
}

/// The kernel of this name.
pub(crate) fn find(name: &str) -> DriverResult<Arc<Kernel>> {
    lock(&KERNELS).get(name).cloned().ok_or(ErrorCode::NOT_FOUND)
}

impl Kernel {
    pub(crate) fn new(function: NativeKernel, needs: LaunchNeeds) -> Self {
        Self { function, needs }
    }

    /// The shared memory that it has whatever a launch asks for, in bytes.
    pub(crate) fn shared_bytes(&self) -> u32 {
        self.needs.shared_bytes
    }

    /// Whether it can be launched so: checks the limits that every GPU has, and barriers.
    pub(crate) fn check(&self, shape: &LaunchShape) -> DriverResult {
        let threads: u64 = shape.block.iter().map(|side| u64::from(*side)).product();
        let blocks_exist = shape.grid.iter().all(|side| *side > 0);
        let shared = u64::from(self.needs.shared_bytes) + u64::from(shape.shared_bytes);
        if !blocks_exist || !(1..=1024).contains(&threads) || shared > SHARED_MEMORY as u64 {
            return Err(ErrorCode::INVALID_VALUE);
        }
        // The number that a barrier names is one of whole warps.
        match self.needs.threads.filter(|wanted| *wanted != threads.next_multiple_of(32)) {
            None => Ok(()),
            Some(wanted) => {
                notice(&format!("`bar.sync 0, {wanted}`: it is not for all {threads} threads"));
                Err(ErrorCode::INVALID_VALUE)
            }
        }
    }

    /// Copies the values of the parameters, each into as many words as it needs.
    ///
    /// # Safety
    /// `params` must point to as many pointers as the kernel has parameters,
    /// each to a value of the registered size; it may be null for none.
    pub(crate) unsafe fn capture(&self, params: *mut *mut c_void) -> DriverResult<Vec<u64>> {
        if params.is_null() && !self.needs.sizes.is_empty() {
            return Err(ErrorCode::INVALID_VALUE);
        }
        let mut values = Vec::new();
        for (index, size) in self.needs.sizes.iter().enumerate() {
            // SAFETY: the caller vouches for the array of pointers.
            let source = unsafe { *params.add(index) };
            if source.is_null() {
                return Err(ErrorCode::INVALID_VALUE);
            }
            let first = values.len();
            values.resize(first + words(*size), 0_u64);
            let target = values[first..].as_mut_ptr().cast();
            // SAFETY: the caller vouches for the source; the target has room
            // for as many bytes.
            unsafe { source.cast::<u8>().copy_to_nonoverlapping(target, *size) };
        }
        Ok(values)
    }

    /// Runs it on this thread, for `device`.
    pub(crate) fn run(
        &self,
        device: usize,
        shape: LaunchShape,
        mut values: Vec<u64>,
    ) -> DriverResult {
        let mut rest = values.as_mut_slice();
        let mut params: Vec<*mut c_void> = Vec::new();
        for size in &self.needs.sizes {
            let (value, behind) = rest.split_at_mut(words(*size));
            params.push(value.as_mut_ptr().cast());
            rest = behind;
        }
        let launch = softcuda_launch {
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            parameter_count: self.needs.sizes.len() as u32,
            params: params.as_mut_ptr(),
        };
        SCOPE.set(Some(RunningKernel { device, held: Vec::new(), failed: false }));
        // SAFETY: the program that registered the function promised that it may be called with such
        // a launch, which lives until it returns.
        thread::in_callback(|| unsafe { (self.function)(&raw const launch) });
        match SCOPE.take() {
            Some(RunningKernel { failed: true, .. }) => Err(ErrorCode::ILLEGAL_ADDRESS),
            _ => Ok(()),
        }
    }
}

/// How many words of eight bytes hold a parameter.
fn words(size: usize) -> usize {
    size.div_ceil(8)
}

/// A range that a kernel may touch, in the layout of compiled kernels.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Window {
    start: u64,
    size: u64,
    at: *mut u8,
    writable: u64,
}

/// A function that compiled kernels call.
pub(crate) type FindWindow = unsafe extern "C" fn(u64, c_int, *mut Window) -> c_int;

/// The whole range around `address`. Returns 0, and breaks the context, if the kernel's device may not touch
/// it this way.
///
/// # Safety
/// `found` must be writable.
pub(crate) unsafe extern "C" fn find_window(
    address: u64,
    writes: c_int,
    found: *mut Window,
) -> c_int {
    let Ok(driver) = registry::driver() else { return 0 };
    SCOPE.with_borrow_mut(|scope| {
        let Some(scope) = scope else { return 0 };
        let access = MemoryAccess { device: scope.device, writes: writes != 0, by_kernel: true };
        let Ok((range, operand)) = driver.memory.window(address, access) else {
            scope.failed = true;
            return 0;
        };
        let (start, size) = (range.start, range.end - range.start);
        let window = Window { start, size, at: operand.pointer(), writable: writes as u64 };
        scope.held.push(operand);
        // SAFETY: the caller vouches for it.
        unsafe { found.write(window) };
        1
    })
}

/// Where a kernel finds `bytes` at a device address; null if they are not all
/// accessible to its device.
pub(crate) fn alias_for_kernel(address: u64, bytes: u64) -> *mut c_void {
    let Ok(driver) = registry::driver() else {
        return std::ptr::null_mut();
    };
    SCOPE.with_borrow_mut(|scope| {
        let device = scope.as_ref().map_or(0, |scope| scope.device);
        let access = MemoryAccess { device, writes: false, by_kernel: true };
        match driver.memory.operand(address, bytes, AddressSide::Device, access) {
            Ok(operand) => {
                let pointer = operand.pointer().cast();
                if let Some(scope) = scope {
                    scope.held.push(operand);
                }
                pointer
            }
            Err(_) => {
                if let Some(scope) = scope {
                    scope.failed = true;
                }
                std::ptr::null_mut()
            }
        }
    })
}
