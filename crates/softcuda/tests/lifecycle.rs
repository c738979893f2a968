//! Before initialisation, without a context, and contexts that come and go.
//!
//! One test, since initialisation happens once in a process.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::ffi::CStr;
use std::ptr::{null_mut, without_provenance_mut};

use common::*;
use softcuda::api::*;

#[test]
fn from_nothing_to_a_context_and_back() {
    let (mut count, mut address, mut context) = (0, 0, null_mut());

    // Nothing works before cuInit, which takes no flags.
    assert_eq!(cu!(cuDeviceGetCount(&mut count)), NOT_INITIALIZED);
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 1)), NOT_INITIALIZED);
    assert_eq!(cuCtxSynchronize(), NOT_INITIALIZED);
    assert_eq!(cuInit(1), INVALID_VALUE);
    ok(cuInit(0));
    ok(cuInit(0));

    // There is a device, with a name and properties.
    ok(cu!(cuDeviceGetCount(&mut count)));
    assert_eq!(count, 1);
    let mut name = [0; 64];
    ok(cu!(cuDeviceGetName(name.as_mut_ptr(), 64, 0)));
    assert_eq!(text(&name), "softcuda (software stand-in, not a GPU)");
    assert_eq!(softcuda_is_software(), 1);
    assert_eq!(cu!(cuDeviceGetCount(null_mut())), INVALID_VALUE);
    let mut device = 0;
    assert_eq!(cu!(cuDeviceGet(&mut device, 1)), 101);
    let refused = cu!(softcuda_configure(c"DEVICES".as_ptr(), c"2".as_ptr()));
    assert_eq!(refused, -1);

    // Without a context there is no memory.
    assert_eq!(cu!(cuMemAlloc_v2(&mut address, 1)), INVALID_CONTEXT);
    ok(cu!(cuCtxGetCurrent(&mut context)));
    assert!(context.is_null());
    assert_eq!(cuCtxSetCurrent(without_provenance_mut(0x1234)), INVALID_CONTEXT);

    // The primary context is counted, and its end frees its memory.
    ok(cu!(cuDevicePrimaryCtxRetain(&mut context, 0)));
    let mut again = null_mut();
    ok(cu!(cuDevicePrimaryCtxRetain(&mut again, 0)));
    assert_eq!(context, again);
    ok(cuCtxSetCurrent(context));
    allocate(1 << 20);
    let (mut free, mut total) = (0, 0);
    ok(cu!(cuMemGetInfo_v2(&mut free, &mut total)));
    assert_eq!(total - free, 1 << 20);
    assert_eq!(cuCtxDestroy_v2(context), INVALID_CONTEXT);
    ok(cuDevicePrimaryCtxRelease_v2(0));
    ok(cuCtxSynchronize());
    ok(cuDevicePrimaryCtxRelease_v2(0));
    assert_eq!(cuCtxSynchronize(), CONTEXT_IS_DESTROYED);
    assert_eq!(cuDevicePrimaryCtxRelease_v2(0), INVALID_CONTEXT);
    let (mut flags, mut active) = (0, 1);
    ok(cu!(cuDevicePrimaryCtxGetState(0, &mut flags, &mut active)));
    assert_eq!(active, 0);
    ok(cuCtxSetCurrent(null_mut()));

    // Contexts of one's own make a stack.
    let (mut lower, mut upper) = (null_mut(), null_mut());
    ok(cu!(cuCtxCreate_v2(&mut lower, 0, 0)));
    ok(cu!(cuMemGetInfo_v2(&mut free, &mut total)));
    assert_eq!(total, free, "the primary context's memory came back");
    ok(cu!(cuCtxCreate_v4(&mut upper, null_mut(), 0, 0)));
    ok(cu!(cuCtxPopCurrent_v2(&mut context)));
    assert_eq!(context, upper);
    ok(cu!(cuCtxGetCurrent(&mut context)));
    assert_eq!(context, lower);
    ok(cuCtxPushCurrent_v2(upper));
    ok(cuCtxDestroy_v2(upper));
    ok(cu!(cuCtxGetCurrent(&mut context)));
    assert_eq!(context, lower);
    assert_eq!(cuCtxDestroy_v2(upper), CONTEXT_IS_DESTROYED);

    // The current context is a thread's own.
    std::thread::spawn(|| assert_eq!(cuCtxSynchronize(), INVALID_CONTEXT)).join().unwrap();
    ok(cuCtxDestroy_v2(lower));
}

#[test]
fn error_codes_have_names_before_initialisation() {
    let mut text = std::ptr::null();
    ok(cu!(cuGetErrorName(700, &mut text)));
    // SAFETY: it is a constant of the driver.
    assert_eq!(unsafe { CStr::from_ptr(text) }, c"CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_eq!(cu!(cuGetErrorString(31_337, &mut text)), INVALID_VALUE);
    assert!(text.is_null());
}
