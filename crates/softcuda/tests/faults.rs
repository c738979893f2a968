//! Injected failures, misuse and native kernels.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::ffi::{c_void, CStr};
use std::ptr::{from_mut, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use common::*;
use softcuda::abi::{CUfunction, CUstream};
use softcuda::api::*;

#[test]
fn the_nth_call_fails_and_only_that() {
    let _session = Session::start();
    softcuda_reset_counts();
    inject("cuMemAlloc_v2:2=2");
    let mut address = 0;
    let codes = [(); 3].map(|()| cu!(cuMemAlloc_v2(&mut address, 64)));
    assert_eq!(codes, [0, OUT_OF_MEMORY, 0]);
    assert_eq!(calls("cuMemAlloc_v2"), 3);
    assert_eq!(calls("cuMemFree_v2"), 0);
}

#[test]
fn every_call_from_the_nth_fails() {
    let _session = Session::start();
    softcuda_reset_counts();
    inject("cuEventCreate:2+=719, cuStreamCreate:1=2");
    let mut event = null_mut();
    let codes = [(); 3].map(|()| cu!(cuEventCreate(&mut event, 0)));
    assert_eq!(codes, [0, 719, 719]);
    assert_eq!(cu!(cuStreamCreate(&mut null_mut(), 0)), OUT_OF_MEMORY);
    inject("");
    ok(cu!(cuEventCreate(&mut event, 0)));
}

#[test]
fn an_unreadable_specification_changes_nothing() {
    let _session = Session::start();
    softcuda_reset_counts();
    inject("cuCtxSynchronize:1=999");
    assert_eq!(cu!(softcuda_inject(c"cuCtxSynchronize".as_ptr())), -1);
    assert_eq!(cu!(softcuda_inject(std::ptr::null())), -1);
    assert_eq!(cuCtxSynchronize(), 999);
}

#[test]
fn an_asynchronous_failure_shows_at_the_next_wait_and_stays() {
    let _session = Session::start();
    let (stream, device, host) = (stream(NON_BLOCKING), allocate(64), pinned(64));
    softcuda_reset_counts();
    inject("cuMemcpyDtoHAsync_v2:2~719");
    let target: *mut c_void = host.as_mut_ptr().cast();
    let gate = Gate::block(stream);
    for _ in 0..3 {
        ok(cu!(cuMemcpyDtoHAsync_v2(target, device, 64, stream)));
    }
    gate.open();
    assert_eq!(cuStreamSynchronize(stream), 719);
    assert_eq!(cuCtxSynchronize(), 719);
    assert_eq!(cu!(cuMemAlloc_v2(&mut 0, 64)), 719);
}

#[test]
fn an_asynchronous_failure_of_a_call_that_queues_nothing_shows_next() {
    let _session = Session::start();
    softcuda_reset_counts();
    inject("cuMemAlloc_v2:1~700");
    allocate(64);
    assert_eq!(cuCtxSynchronize(), ILLEGAL_ADDRESS);
}

#[test]
fn the_calls_made_can_be_listed() {
    let _session = Session::start();
    softcuda_reset_counts();
    ok(cuCtxSynchronize());
    ok(cuCtxSynchronize());
    allocate(8);
    let room = cu!(softcuda_calls(null_mut(), 0));
    let mut list = vec![1; room];
    assert_eq!(cu!(softcuda_calls(list.as_mut_ptr(), room)), room);
    assert_eq!(text(&list), "cuCtxSynchronize 2\ncuMemAlloc_v2 1");
    let mut short = [1; 4];
    assert_eq!(cu!(softcuda_calls(short.as_mut_ptr(), 4)), room);
    assert_eq!(text(&short), "cuC");
}

/// Calls `act` while a copy between `device` and `host` is queued, and expects it to be reported as misuse.
fn misuse_of(act: impl FnOnce(u64, &Pages) -> u32) {
    let _session = Session::start();
    let (stream, device, pages) = (stream(NON_BLOCKING), mapped(GRANULE), Pages::new(GRANULE));
    ok(cu!(cuMemHostRegister_v2(pages.at(0), GRANULE, 0)));
    let gate = Gate::block(stream);
    ok(cu!(cuMemcpyDtoHAsync_v2(pages.at(0), device, 64, stream)));
    assert_eq!(softcuda_misuse_count(), 0);
    let opener = gate.open_later();
    ok(act(device, &pages));
    assert_eq!(softcuda_misuse_count(), 1);
    assert!(gate.is_open(), "it took effect under the copy");
    opener.join().unwrap();
    ok(cuCtxSynchronize());
    let _ = cuMemHostUnregister(pages.at(0));
    let _ = cuMemUnmap(device, GRANULE);
    ok(cuMemAddressFree(device, GRANULE));
}

#[test]
fn unregistering_under_a_copy_is_misuse() {
    misuse_of(|_, pages| cuMemHostUnregister(pages.at(0)));
}

#[test]
fn unmapping_under_a_copy_is_misuse() {
    misuse_of(|device, _| cuMemUnmap(device, GRANULE));
}

#[test]
fn freeing_under_a_copy_is_misuse() {
    let _session = Session::start();
    let device = allocate(64);
    let gate = Gate::block(null_mut());
    ok(cuMemsetD8_v2(device, 0, 64));
    let opener = gate.open_later();
    ok(cuMemFree_v2(device));
    assert_eq!(softcuda_misuse_count(), 1);
    let mut log = [0; 256];
    cu!(softcuda_misuse_log(log.as_mut_ptr(), log.len()));
    let log = text(&log);
    assert!(log.starts_with("cuMemFree_v2: "), "{log}");
    opener.join().unwrap();
}

#[test]
fn registering_under_a_copy_is_misuse() {
    let session = Session::start();
    let (stream, device, pages) = (stream(NON_BLOCKING), allocate(64), Pages::new(8192));
    let gate = Gate::block(stream);
    let (context, address, handle) =
        (session.context.expose_provenance(), pages.address.expose_provenance(), stream.addr());
    let copier = std::thread::spawn(move || {
        ok(cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context)));
        let stream: CUstream = std::ptr::without_provenance_mut(handle);
        let target = std::ptr::with_exposed_provenance_mut(address);
        // The copy is refused while the other thread has half of its memory registered.
        while cu!(cuMemcpyDtoHAsync_v2(target, device, 64, stream)) == INVALID_VALUE {}
    });
    // The copy cannot end before the misuse was noticed.
    while !gate.is_open() {
        ok(cu!(cuMemHostRegister_v2(pages.at(32), 64, 0)));
        if softcuda_misuse_count() > 0 {
            gate.open();
        }
        ok(cuMemHostUnregister(pages.at(32)));
    }
    copier.join().unwrap();
    ok(cuCtxSynchronize());
}

#[test]
fn the_driver_is_out_of_bounds_for_a_streams_own_work() {
    static CODE: AtomicU32 = AtomicU32::new(0);
    unsafe extern "C" fn calls_back(_: *mut c_void) {
        CODE.store(cuCtxSynchronize(), Ordering::SeqCst);
    }
    let _session = Session::start();
    ok(cu!(cuLaunchHostFunc(null_mut(), Some(calls_back), null_mut())));
    ok(cuCtxSynchronize());
    assert_eq!(CODE.load(Ordering::SeqCst), NOT_PERMITTED);
    assert_eq!(softcuda_misuse_count(), 1);
}

/// `out[index] += by` for each of the launch's threads.
unsafe extern "C" fn add(launch: *const softcuda_launch) {
    // SAFETY: the driver passes a launch that lives until this returns.
    let launch = unsafe { &*launch };
    // SAFETY: the kernel was registered with two parameters.
    let params = unsafe { std::slice::from_raw_parts(launch.params, 2) };
    // SAFETY: they were registered with these sizes.
    let (out, by) = unsafe { (*params[0].cast::<u64>(), *params[1].cast::<u32>()) };
    let threads = (launch.grid[0] * launch.block[0]) as usize;
    let cells = softcuda_host_alias(out, 4 * threads).cast::<u32>();
    if cells.is_null() {
        return;
    }
    for index in 0..threads {
        // SAFETY: `softcuda_host_alias` vouches for so many cells.
        unsafe { *cells.add(index) += by };
    }
}

fn kernel() -> CUfunction {
    let sizes = [8, 4];
    let code = cu!(softcuda_register_kernel(c"add".as_ptr(), 2, sizes.as_ptr(), Some(add)));
    assert_eq!(code, 0);
    let (mut module, mut function) = (null_mut(), null_mut());
    ok(cu!(cuModuleLoadData(&mut module, c".version 8.0".as_ptr().cast())));
    ok(cu!(cuModuleGetFunction(&mut function, module, c"add".as_ptr())));
    let missing = cu!(cuModuleGetFunction(&mut function, module, c"none".as_ptr()));
    assert_eq!(missing, NOT_FOUND);
    function
}

fn launch(function: CUfunction, blocks: u32, threads: u32, mut out: u64, mut by: u32) -> u32 {
    let mut params = [from_mut(&mut out).cast::<c_void>(), from_mut(&mut by).cast()];
    let params = params.as_mut_ptr();
    cu!(cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, null_mut(), params, null_mut(),))
}

#[test]
fn a_kernel_sees_its_parameters_as_they_were_at_the_launch() {
    let _session = Session::start();
    let (function, device) = (kernel(), allocate(16));
    let gate = Gate::block(null_mut());
    ok(cuMemsetD32_v2(device, 1, 4));
    ok(launch(function, 2, 2, device, 10));
    ok(launch(function, 1, 1, device, 100));
    gate.open();
    let cells = download(device, 16);
    let cells: Vec<_> =
        cells.chunks(4).map(|cell| u32::from_le_bytes(cell.try_into().unwrap())).collect();
    assert_eq!(cells, [111, 11, 11, 11]);
}

#[test]
fn a_kernel_that_reaches_too_far_ends_the_context() {
    let _session = Session::start();
    let (function, device) = (kernel(), allocate(16));
    ok(launch(function, 5, 1, device, 1));
    assert_eq!(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    assert_eq!(cuCtxSynchronize(), ILLEGAL_ADDRESS);
}

#[test]
fn launches_are_checked() {
    let _session = Session::start();
    let function = kernel();
    assert_eq!(launch(function, 0, 1, 0, 0), INVALID_VALUE);
    assert_eq!(launch(function, 1, 2048, 0, 0), INVALID_VALUE);
    assert_eq!(launch(null_mut(), 1, 1, 0, 0), INVALID_HANDLE);
    let bare =
        cu!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, null_mut(), null_mut(), null_mut(),));
    assert_eq!(bare, INVALID_VALUE);
    let nine = [9];
    let code = cu!(softcuda_register_kernel(c"x".as_ptr(), 1, nine.as_ptr(), Some(add)));
    assert_eq!(code, -1);
}

/// Adds its second parameter to the words behind its first, one for each thread.
const PTX: &CStr = c"
.version 6.0
.target sm_60
.address_size 64
.visible .entry add(.param .u64 add_0, .param .u32 add_1)
{
    .reg .b32 %r<7>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [add_0];
    ld.param.u32 %r1, [add_1];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd3, %rd2, %rd3;
    ld.global.u32 %r6, [%rd3];
    add.s32 %r6, %r6, %r1;
    st.global.u32 [%rd3], %r6;
    ret;
}";

fn compiled(name: &CStr, ptx: &CStr) -> (u32, CUfunction) {
    let (mut module, mut function) = (null_mut(), null_mut());
    ok(cu!(cuModuleLoadData(&mut module, ptx.as_ptr().cast())));
    (cu!(cuModuleGetFunction(&mut function, module, name.as_ptr())), function)
}

/// Catches a compiled kernel that reads its parameters late, or reaches inaccessible memory.
#[test]
fn a_kernel_is_compiled_from_ptx() {
    let _session = Session::start();
    configure("KERNELS", "ptx");
    let (code, function) = compiled(c"add", PTX);
    ok(code);
    assert_eq!(compiled(c"none", PTX).0, NOT_FOUND);
    assert_eq!(
        compiled(c"add", c".version 6.0\n.entry add() { bar.warp.sync -1; ret; }").0,
        INVALID_PTX
    );
    let device = allocate(16);
    ok(cuMemsetD32_v2(device, 1, 4));
    ok(launch(function, 2, 2, device, 10));
    ok(launch(function, 1, 1, device, 100));
    let cells = download(device, 16);
    let cells: Vec<_> =
        cells.chunks(4).map(|cell| u32::from_le_bytes(cell.try_into().unwrap())).collect();
    assert_eq!(cells, [111, 11, 11, 11]);
    ok(launch(function, 5, 1, device, 1));
    assert_eq!(cuCtxSynchronize(), ILLEGAL_ADDRESS);
}
