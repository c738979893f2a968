//! The kernels for the software device, which runs no PTX: a program gives it a native function for
//! each kernel, which it calls in the order of the stream.

use std::ffi::{c_void, CStr};
use std::sync::OnceLock;

use anyhow::{ensure, Result};

use super::{extension, software_function, Address, HostAlias, IsSoftware, RegisterKernel};

/// One kernel launch, as the software device describes it.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Launch {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameter_count: u32,
    params: *mut *mut c_void,
}

/// A native kernel.
pub(super) type Native = unsafe extern "C" fn(*const Launch);

/// `softcuda_host_alias`, kept for the kernels, which get nothing but their launch.
static HOST_ALIAS: OnceLock<HostAlias> = OnceLock::new();

/// Whether the loaded driver is the software device; if so, gives it the kernels.
pub(super) fn install() -> Result<bool> {
    // SAFETY: the type is the header's.
    let found = unsafe { extension::<IsSoftware>(c"softcuda_is_software") };
    let Some(is_software) = found else {
        return Ok(false);
    };
    // SAFETY: the function takes no arguments and may be called at any time.
    if unsafe { is_software() } == 0 {
        return Ok(false);
    }
    // SAFETY: the type is the header's.
    let alias = unsafe { software_function::<HostAlias>(c"softcuda_host_alias") }?;
    HOST_ALIAS.get_or_init(|| alias);
    // SAFETY: the type is the header's.
    let register = unsafe { software_function::<RegisterKernel>(c"softcuda_register_kernel") }?;
    const ADDRESS: usize = size_of::<Address>();
    const COUNT: usize = size_of::<u64>();
    const NUMBER: usize = size_of::<u32>();
    let kernels: [(&CStr, &[usize], Native); 3] = [
        (c"bench_fill", &[ADDRESS, COUNT, NUMBER], fill),
        (c"bench_compare", &[ADDRESS, COUNT, NUMBER, ADDRESS], compare),
        (c"bench_burn", &[ADDRESS, COUNT], burn),
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

/// Group `index` of 4 words of `version`, as in kernels/bench.cu.
fn content(index: u64, version: u32) -> [u32; 4] {
    let start = (u64::from(version) + 1).wrapping_mul(0xd134_2543_de82_ef95);
    let mut z = start.wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    let (low, high) = (z as u32, (z >> 32) as u32);
    [low, high, low ^ 0x85eb_ca6b, high ^ 0xc2b2_ae35]
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

/// The words behind argument `n`; none if the device does not reach them all (the device then
/// breaks the context, as a GPU would).
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
    for (index, group) in buffer.chunks_mut(4).enumerate() {
        group.copy_from_slice(&content(index as u64, version)[..group.len()]);
    }
}

unsafe extern "C" fn compare(launch: *const Launch) {
    // SAFETY: as in `fill`; the counter is no part of the buffer.
    let (buffer, version, wrong) = unsafe {
        let count = argument(launch, 1);
        (values::<u32>(launch, 0, count), argument(launch, 2), values::<u32>(launch, 3, 1))
    };
    let found = buffer.chunks(4).enumerate().map(|(index, group)| {
        let right = content(index as u64, version);
        group.iter().zip(right).filter(|(found, right)| *found != right).count() as u32
    });
    if let [wrong] = wrong {
        *wrong = wrong.wrapping_add(found.sum());
    }
}

unsafe extern "C" fn burn(launch: *const Launch) {
    // SAFETY: as in `fill`; a group has 4 words.
    let buffer = unsafe { values::<u32>(launch, 0, 4 * argument::<u64>(launch, 1)) };
    for value in buffer {
        *value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    }
}
