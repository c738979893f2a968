//! Two devices in one process.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::ffi::CString;
use std::ptr::{from_mut, null_mut};

use common::*;
use cudarc::driver::sys::CUpointer_attribute_enum as Attribute;
use softcuda::abi::{AccessDesc, AllocationProp, Location, ACCESS_READ_WRITE, LOCATION_DEVICE};
use softcuda::api::*;

#[test]
fn memory_belongs_to_a_device_and_a_context() {
    configure("SOFTCUDA_DEVICES", "2");
    configure("SOFTCUDA_MEMORY", "64M");
    ok(cuInit(0));
    let mut count = 0;
    ok(cu!(cuDeviceGetCount(&mut count)));
    assert_eq!(count, 2);
    let mut ids = [[0; 16]; 2];
    for (device, id) in ids.iter_mut().enumerate() {
        ok(cu!(cuDeviceGetPCIBusId(id.as_mut_ptr(), 16, device as i32)));
    }
    assert_ne!(ids[0], ids[1]);

    let (mut zero, mut one) = (null_mut(), null_mut());
    ok(cu!(cuCtxCreate_v2(&mut zero, 0, 0)));
    let on_zero = allocate(4096);
    let stream_of_zero = stream(0);
    let event_of_zero = event();
    ok(cu!(cuCtxCreate_v2(&mut one, 0, 1)));
    let on_one = allocate(4096);

    // The pointer says whose it is, whichever context is current.
    let (mut ordinal, mut context) = (9_u32, 9_u64);
    let ask = |what: Attribute, value, address| {
        ok(cu!(cuPointerGetAttribute(value, what as i32, address)));
    };
    ask(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, from_mut(&mut ordinal).cast(), on_zero);
    ask(Attribute::CU_POINTER_ATTRIBUTE_CONTEXT, from_mut(&mut context).cast(), on_zero);
    assert_eq!((ordinal, context), (0, zero.addr() as u64));
    ask(Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, from_mut(&mut ordinal).cast(), on_one);
    assert_eq!(ordinal, 1);

    // Each device has memory of its own, and copies go between them.
    let (mut free, mut total) = (0, 0);
    ok(cu!(cuMemGetInfo_v2(&mut free, &mut total)));
    assert_eq!((free, total), ((64 << 20) - 4096, 64 << 20));
    ok(cuMemsetD8_v2(on_one, 6, 4096));
    ok(cuMemcpyDtoD_v2(on_zero, on_one, 4096));
    assert_eq!(download(on_zero, 4), [6; 4]);

    // A stream or an event of another context is refused for work.
    assert_eq!(cuMemsetD8Async(on_one, 0, 1, stream_of_zero), INVALID_HANDLE);
    assert_eq!(cuEventRecord(event_of_zero, null_mut()), INVALID_HANDLE);
    ok(cuStreamSynchronize(stream_of_zero));

    // Mapped memory is open only to the devices it was opened to.
    let mut handle = 0;
    ok(cu!(cuMemCreate(&mut handle, GRANULE, &AllocationProp::on_device(1), 0)));
    let address = reserve(GRANULE);
    ok(cuMemMap(address, GRANULE, 0, handle, 0));
    let location = Location { kind: LOCATION_DEVICE, id: 1 };
    let grant = AccessDesc { location, flags: ACCESS_READ_WRITE };
    ok(cu!(cuMemSetAccess(address, GRANULE, &grant, 1)));
    ok(cuMemsetD8_v2(address, 7, 64));
    ok(cuCtxSynchronize());
    ok(cuCtxSetCurrent(zero));
    assert_eq!(cuMemcpyDtoD_v2(on_zero, address, 64), ILLEGAL_ADDRESS);
    assert_eq!(cuCtxSynchronize(), ILLEGAL_ADDRESS);

    // One broken context leaves the other whole.
    ok(cuCtxSetCurrent(one));
    assert_eq!(download(address, 2), [7, 7]);
    ok(cuMemUnmap(address, GRANULE));
    ok(cuMemAddressFree(address, GRANULE));
    ok(cuMemRelease(handle));
    ok(cuCtxDestroy_v2(zero));
    ok(cuCtxDestroy_v2(one));

    let (key, value) = (c"DEVICES", CString::new("3").unwrap());
    assert_eq!(cu!(softcuda_configure(key.as_ptr(), value.as_ptr())), -1);
}
