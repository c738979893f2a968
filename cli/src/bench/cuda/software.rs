//! The kernels for the software device, which runs no PTX: a program gives it a native function for
//! each kernel, and it calls that in the order of the stream.

use std::ffi::{c_void, CStr};
use std::sync::OnceLock;

use anyhow::{ensure, Result};

use super::{extension, software_function, Address, HostAlias, IsSoftware, RegisterKernel};

/// One kernel launch, as the software device describes it.
#[repr(C)]
#[derive(Debug)]
pub struct Launch {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameter_count: u32,
    params: *mut *mut c_void,
}

/// A native kernel.
pub type Native = unsafe extern "C" fn(*const Launch);

/// `softcuda_host_alias`, kept for the kernels, which get nothing but their launch.
static HOST_ALIAS: OnceLock<HostAlias> = OnceLock::new();

/// Whether the loaded driver is the software device; if so, gives it the kernels.
pub fn install() -> Result<bool> {
    let Some(is_software) = extension::<IsSoftware>(c"softcuda_is_software") else {
        return Ok(false);
    };
    // SAFETY: it takes no argument and may be called at any time.
    if unsafe { is_software() } == 0 {
        return Ok(false);
    }
    let alias = software_function::<HostAlias>(c"softcuda_host_alias")?;
    HOST_ALIAS.get_or_init(|| alias);
    let register = software_function::<RegisterKernel>(c"softcuda_register_kernel")?;
    const ADDRESS: usize = size_of::<Address>();
    const COUNT: usize = size_of::<u64>();
    const NUMBER: usize = size_of::<u32>();
    let kernels: [(&CStr, &[usize], Native); 3] = [
        (c"bench_fill", &[ADDRESS, COUNT, NUMBER], fill),
        (c"bench_compare", &[ADDRESS, COUNT, NUMBER, ADDRESS], compare),
        (c"bench_burn", &[ADDRESS, COUNT, NUMBER], burn),
    ];
    for (name, sizes, native) in kernels {
        // SAFETY: name and sizes outlive the call, and the number of sizes is theirs; the
        // function lives as long as the program.
        let code = unsafe { register(name.as_ptr(), sizes.len() as u32, sizes.as_ptr(), native) };
        let name = name.to_string_lossy();
        ensure!(code == 0, "the software device refused the kernel {name} (code {code})");
    }
    Ok(true)
}

/// The word at `index` of `version`, as in kernels/bench.cu.
fn word(index: u64, version: u32) -> u32 {
    let x = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ (u64::from(version) + 1).wrapping_mul(0xd134_2543_de82_ef95);
    ((x ^ (x >> 32)).wrapping_mul(0xda94_2042_e4dd_58b5) >> 32) as u32
}

/// # Safety
/// Argument `n` of the launch must exist and be a `T`.
unsafe fn argument<T: Copy>(launch: *const Launch, n: usize) -> T {
    // SAFETY: the device passes a launch, which lives as long as the kernel runs.
    let params = unsafe { (*launch).params };
    // SAFETY: the caller's promise.
    let param = unsafe { *params.add(n) };
    // SAFETY: it points to a `T`, which may lie anywhere among the copied bytes.
    unsafe { param.cast::<T>().read_unaligned() }
}

/// The words behind argument `n`; none if the device does not reach them all (it then breaks the
/// context, as a GPU would).
///
/// # Safety
/// Argument `n` must be the address of `count` values that nothing else uses meanwhile.
unsafe fn values<'a, T>(launch: *const Launch, n: usize, count: u64) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    let address = unsafe { argument::<Address>(launch, n) };
    let bytes = count as usize * size_of::<T>();
    // SAFETY: the function takes any address and answers null for what is no device memory.
    let memory =
        HOST_ALIAS.get().map_or(std::ptr::null_mut(), |alias| unsafe { alias(address, bytes) });
    if memory.is_null() {
        return &mut [];
    }
    // SAFETY: the alias covers `count` values, and the caller promises that they are its own.
    unsafe { std::slice::from_raw_parts_mut(memory.cast(), count as usize) }
}

unsafe extern "C" fn fill(launch: *const Launch) {
    // SAFETY: the kernel was registered with these arguments; its buffer is its own in the order
    // of the stream.
    let (buffer, version) = unsafe {
        let count = argument(launch, 1);
        (values::<u32>(launch, 0, count), argument(launch, 2))
    };
    for (index, value) in buffer.iter_mut().enumerate() {
        *value = word(index as u64, version);
    }
}

unsafe extern "C" fn compare(launch: *const Launch) {
    // SAFETY: as in `fill`; the counter is no part of the buffer.
    let (buffer, version, wrong) = unsafe {
        let count = argument(launch, 1);
        (values::<u32>(launch, 0, count), argument(launch, 2), values::<u32>(launch, 3, 1))
    };
    let differs = |(index, value): &(usize, &mut u32)| **value != word(*index as u64, version);
    let found = buffer.iter_mut().enumerate().filter(differs).count() as u32;
    if let [wrong] = wrong {
        *wrong = wrong.saturating_add(found);
    }
}

unsafe extern "C" fn burn(launch: *const Launch) {
    // SAFETY: as in `fill`.
    let (buffer, rounds) = unsafe {
        let count = argument(launch, 1);
        (values::<f32>(launch, 0, count), argument::<u32>(launch, 2))
    };
    for _ in 0..rounds {
        for value in &mut *buffer {
            *value = *value * 0.999 + 0.001;
        }
    }
}
