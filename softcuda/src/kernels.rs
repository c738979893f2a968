//! Native kernels: functions of the program that stand in for GPU kernels.
//!
//! They are registered by name, found through any module, and run on the
//! stream's thread. A kernel reaches device memory only through
//! [`alias_for_kernel`]; what it asked for stays in place until it ends, and
//! asking for what is not accessible breaks the context as an illegal access
//! of a real kernel does.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, LazyLock, Mutex};

use crate::memory::{Access, Operand, Side};
use crate::registry;
use crate::status::{Outcome, Status};
use crate::sync::lock;
use crate::thread;

/// The largest parameter, in bytes.
const LARGEST_PARAMETER: usize = 8;

/// What a native kernel is told: `struct softcuda_launch`.
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
pub type NativeKernel = unsafe extern "C" fn(launch: *const softcuda_launch);

/// A registered kernel.
pub(crate) struct Kernel {
    function: NativeKernel,
    sizes: Vec<usize>,
}

/// The grid, the block and the shared memory of a launch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
}

impl Shape {
    /// Checks it against the limits that every GPU has.
    pub(crate) fn check(&self) -> Outcome {
        let threads: u64 = self.block.iter().map(|side| u64::from(*side)).product();
        let blocks_exist = self.grid.iter().all(|side| *side > 0);
        if blocks_exist && (1..=1024).contains(&threads) {
            Ok(())
        } else {
            Err(Status::INVALID_VALUE)
        }
    }
}

/// What the kernel that runs on this thread has been given.
struct Scope {
    device: usize,
    held: Vec<Operand>,
    failed: bool,
}

thread_local! {
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

static KERNELS: LazyLock<Mutex<HashMap<String, Arc<Kernel>>>> = LazyLock::new(Mutex::default);

/// Registers a kernel, replacing the one of the same name.
pub(crate) fn register(name: String, sizes: Vec<usize>, function: NativeKernel) -> Outcome {
    if sizes.iter().any(|size| *size == 0 || *size > LARGEST_PARAMETER) {
        return Err(Status::INVALID_VALUE);
    }
    lock(&KERNELS).insert(name, Arc::new(Kernel { function, sizes }));
    Ok(())
}

/// The kernel of this name.
pub(crate) fn find(name: &str) -> Outcome<Arc<Kernel>> {
    lock(&KERNELS).get(name).cloned().ok_or(Status::NOT_FOUND)
}

impl Kernel {
    /// Copies the values of the parameters.
    ///
    /// # Safety
    /// `params` must point to as many pointers as the kernel has parameters,
    /// each to a value of the registered size; it may be null for none.
    pub(crate) unsafe fn capture(&self, params: *mut *mut c_void) -> Outcome<Vec<u64>> {
        if params.is_null() && !self.sizes.is_empty() {
            return Err(Status::INVALID_VALUE);
        }
        let mut values = vec![0_u64; self.sizes.len()];
        for (index, (value, size)) in values.iter_mut().zip(&self.sizes).enumerate() {
            // SAFETY: the caller vouches for the array of pointers.
            let source = unsafe { *params.add(index) };
            if source.is_null() {
                return Err(Status::INVALID_VALUE);
            }
            let target: *mut u64 = value;
            // SAFETY: the caller vouches for the source; the target has room
            // for the largest parameter, and `register` checked the size.
            unsafe { source.cast::<u8>().copy_to_nonoverlapping(target.cast(), *size) };
        }
        Ok(values)
    }

    /// Runs it on this thread, for `device`.
    pub(crate) fn run(&self, device: usize, shape: Shape, mut values: Vec<u64>) -> Outcome {
        let mut params: Vec<*mut c_void> =
            values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        let launch = softcuda_launch {
            grid: shape.grid,
            block: shape.block,
            shared_bytes: shape.shared_bytes,
            parameter_count: self.sizes.len() as u32,
            params: params.as_mut_ptr(),
        };
        SCOPE.set(Some(Scope { device, held: Vec::new(), failed: false }));
        // SAFETY: whoever registered the function vouched that it may be
        // called with such a launch, which lives until it returns.
        thread::in_callback(|| unsafe { (self.function)(&raw const launch) });
        match SCOPE.take() {
            Some(Scope { failed: true, .. }) => Err(Status::ILLEGAL_ADDRESS),
            _ => Ok(()),
        }
    }
}

/// Where a kernel finds `bytes` at a device address; null if they are not all
/// accessible to its device.
pub(crate) fn alias_for_kernel(address: u64, bytes: u64) -> *mut c_void {
    let Ok(driver) = registry::driver() else {
        return std::ptr::null_mut();
    };
    SCOPE.with_borrow_mut(|scope| {
        let device = scope.as_ref().map_or(0, |scope| scope.device);
        let access = Access { device, writes: false, by_kernel: true };
        match driver.memory.operand(address, bytes, Side::Device, access) {
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
