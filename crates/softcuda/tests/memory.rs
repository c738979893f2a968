//! How much memory there is, illegal accesses, and what pointers are.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::ffi::c_void;
use std::ptr::{from_mut, null_mut};

use common::*;
use cudarc::driver::sys::CUpointer_attribute_enum as Attribute;
use softcuda::abi::AllocationProp;
use softcuda::api::*;

fn free_bytes() -> usize {
    let (mut free, mut total) = (0, 0);
    ok(cu!(cuMemGetInfo_v2(&mut free, &mut total)));
    free
}

#[test]
fn memory_runs_out_and_comes_back() {
    let _session = Session::start();
    configure("MEMORY", "16M");
    let before = free_bytes();
    assert_eq!(before, 16 << 20);
    let address = allocate(10 << 20);
    assert_eq!(free_bytes(), 6 << 20);
    let mut more = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut more, 7 << 20)), OUT_OF_MEMORY);
    let properties = AllocationProp::on_device(0);
    assert_eq!(cu!(cuMemCreate(&mut more, 8 << 20, &properties, 0)), OUT_OF_MEMORY);
    assert_eq!(cu!(cuMemAlloc_v2(&mut more, usize::MAX)), OUT_OF_MEMORY);
    let handle = create(6 << 20);
    assert_eq!(free_bytes(), 0);
    ok(cuMemRelease(handle));
    ok(cuMemFree_v2(address));
    assert_eq!(free_bytes(), before);
    assert_eq!(cuMemFree_v2(address), INVALID_VALUE);
}

#[test]
fn a_process_may_have_less_than_the_device_says() {
    let _session = Session::start();
    configure("LIMIT", "4M");
    let before = free_bytes();
    let address = allocate(3 << 20);
    assert_eq!(before - free_bytes(), 3 << 20);
    let mut more = 0;
    assert_eq!(cu!(cuMemAlloc_v2(&mut more, 2 << 20)), OUT_OF_MEMORY);
    ok(cuMemFree_v2(address));
}

#[test]
fn physical_memory_lives_as_long_as_its_last_mapping() {
    let _session = Session::start();
    let before = free_bytes();
    let address = mapped(GRANULE);
    assert_eq!(free_bytes(), before - GRANULE);
    ok(cuMemUnmap(address, GRANULE));
    assert_eq!(free_bytes(), before);
    ok(cuMemAddressFree(address, GRANULE));
}

#[test]
fn touching_unmapped_memory_ends_the_context() {
    let session = Session::start();
    let (address, target) = (reserve(2 * GRANULE), allocate(GRANULE));
    let handle = create(GRANULE);
    ok(cuMemMap(address, GRANULE, 0, handle, 0));

    // Mapped, but nobody was given access.
    assert_eq!(cuMemcpyDtoD_v2(target, address, 1), ILLEGAL_ADDRESS);
    // From here on everything in this context fails.
    assert_eq!(cuMemcpyDtoD_v2(target, target + 64, 8), ILLEGAL_ADDRESS);
    assert_eq!(cuCtxSynchronize(), ILLEGAL_ADDRESS);
    assert_eq!(cuMemFree_v2(target), ILLEGAL_ADDRESS);
    assert_eq!(cuMemUnmap(address, GRANULE), ILLEGAL_ADDRESS);
    assert_eq!(cu!(cuStreamCreate(&mut null_mut(), 0)), ILLEGAL_ADDRESS);

    // Another context does not know the pointer.
    ok(cuCtxDestroy_v2(session.context));
    let mut context = null_mut();
    ok(cu!(cuCtxCreate_v2(&mut context, 0, 0)));
    ok(cuCtxSynchronize());
    ok(cuMemUnmap(address, GRANULE));
    ok(cuMemAddressFree(address, 2 * GRANULE));
    ok(cuMemRelease(handle));
    ok(cuCtxDestroy_v2(context));
}

#[test]
fn overruns_and_freed_memory_are_illegal() {
    for case in 0..4 {
        let _session = Session::start();
        let (address, target) = (allocate(1000), allocate(1000));
        let mut host = [0_u8; 1001];
        let code = match case {
            0 => cu!(cuMemcpyDtoH_v2(host.as_mut_ptr().cast(), address, 1001)),
            1 => cuMemsetD8_v2(address + 999, 0, 2),
            2 => {
                ok(cuMemFree_v2(address));
                cuMemcpyDtoD_v2(target, address, 1)
            }
            _ => cu!(cuMemcpy(address - 1, target, 4)),
        };
        assert_eq!(code, ILLEGAL_ADDRESS, "case {case}");
        assert_eq!(cuCtxSynchronize(), ILLEGAL_ADDRESS, "case {case}");
    }
}

#[test]
fn device_addresses_are_no_host_addresses() {
    let _session = Session::start();
    let (one, other) = (allocate(64), allocate(64));
    let as_host: *mut c_void = std::ptr::with_exposed_provenance_mut(one as usize);
    assert_eq!(cu!(cuMemcpyDtoH_v2(as_host, other, 8)), INVALID_VALUE);
    assert_eq!(cu!(cuMemHostRegister_v2(as_host, 64, 0)), INVALID_VALUE);
    ok(cuCtxSynchronize());
}

fn attribute<T: Default>(attribute: Attribute, address: u64) -> Result<T, u32> {
    let mut value = T::default();
    let code = cu!(cuPointerGetAttribute(from_mut(&mut value).cast(), attribute as i32, address));
    if code == 0 {
        Ok(value)
    } else {
        Err(code)
    }
}

#[test]
fn pointers_are_recognised_while_they_live() {
    let session = Session::start();
    let address = allocate(1000);
    let inside = address + 10;
    use Attribute as A;
    let context = session.context.addr() as u64;
    assert_eq!(attribute::<u64>(A::CU_POINTER_ATTRIBUTE_CONTEXT, inside), Ok(context));
    assert_eq!(attribute::<u32>(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, inside), Ok(2));
    assert_eq!(attribute::<u64>(A::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, inside), Ok(address));
    assert_eq!(attribute::<u64>(A::CU_POINTER_ATTRIBUTE_RANGE_SIZE, inside), Ok(1000));
    assert_eq!(attribute::<u32>(A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, inside), Ok(0));
    assert_eq!(attribute::<u8>(A::CU_POINTER_ATTRIBUTE_IS_MANAGED, inside), Ok(0));
    assert_eq!(attribute::<u64>(A::CU_POINTER_ATTRIBUTE_HOST_POINTER, inside), Err(INVALID_VALUE));
    let id = attribute::<u64>(A::CU_POINTER_ATTRIBUTE_BUFFER_ID, inside);
    ok(cuMemFree_v2(address));
    assert_eq!(attribute::<u64>(A::CU_POINTER_ATTRIBUTE_CONTEXT, inside), Err(INVALID_VALUE));
    let next = allocate(1000);
    assert_ne!(attribute::<u64>(A::CU_POINTER_ATTRIBUTE_BUFFER_ID, next), id);

    let mut managed = 0;
    ok(cu!(cuMemAllocManaged(&mut managed, 64, 1)));
    assert_eq!(attribute::<u8>(A::CU_POINTER_ATTRIBUTE_IS_MANAGED, managed), Ok(1));
    ok(cuMemPrefetchAsync(managed, 64, -1, null_mut()));
    assert_eq!(cuMemPrefetchAsync(next, 64, 0, null_mut()), INVALID_VALUE);
    ok(cuMemFree_v2(managed));

    let host = pinned(64).as_ptr().addr() as u64;
    assert_eq!(attribute::<u32>(A::CU_POINTER_ATTRIBUTE_MEMORY_TYPE, host), Ok(1));
    assert_eq!(attribute::<u64>(A::CU_POINTER_ATTRIBUTE_DEVICE_POINTER, host), Ok(host));

    let reserved = reserve(GRANULE);
    assert_eq!(attribute::<u32>(A::CU_POINTER_ATTRIBUTE_MAPPED, reserved), Ok(0));
    ok(cuMemAddressFree(reserved, GRANULE));
    let vmm = mapped(GRANULE);
    assert_eq!(attribute::<u64>(A::CU_POINTER_ATTRIBUTE_CONTEXT, vmm), Ok(0));
    assert_eq!(attribute::<u32>(A::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, vmm), Ok(0));
    ok(cuMemUnmap(vmm, GRANULE));
    ok(cuMemAddressFree(vmm, GRANULE));
}

#[test]
fn unknown_pointers_have_empty_attributes() {
    let _session = Session::start();
    let host = [0_u8; 8];
    let address = host.as_ptr().addr() as u64;
    let memory_type = Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    assert_eq!(attribute::<u32>(memory_type, address), Err(INVALID_VALUE));

    let (mut kind, mut context) = (7_u32, 7_u64);
    let mut asked = [memory_type as i32, Attribute::CU_POINTER_ATTRIBUTE_CONTEXT as i32];
    let mut values = [from_mut(&mut kind).cast(), from_mut(&mut context).cast()];
    let code = cu!(cuPointerGetAttributes(2, asked.as_mut_ptr(), values.as_mut_ptr(), address));
    ok(code);
    assert_eq!((kind, context), (0, 0));
}

/// A thread without a context learns nothing of any address, be it the host's; with one, everything.
#[test]
fn addresses_are_known_in_a_context() {
    let session = Session::start();
    let (device, context) = (allocate(64), session.context.addr());
    let memory_type = Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    let ask = move |address: u64| {
        let mut kind = 7_u32;
        let mut asked = [memory_type as i32];
        let mut values = [from_mut(&mut kind).cast()];
        let code = cu!(cuPointerGetAttributes(1, asked.as_mut_ptr(), values.as_mut_ptr(), address));
        (code, kind)
    };
    let asked = std::thread::spawn(move || {
        let on_stack = 0_u8;
        let host = std::ptr::from_ref(&on_stack).addr() as u64;
        assert_eq!([ask(device), ask(host)], [(INVALID_CONTEXT, 7); 2]);
        assert_eq!(attribute::<u32>(memory_type, device), Err(INVALID_CONTEXT));
        ok(cuCtxSetCurrent(std::ptr::without_provenance_mut(context)));
        assert_eq!([ask(device), ask(host)], [(0, 2), (0, 0)]);
    });
    asked.join().unwrap();
}

#[test]
fn invented_handles_are_refused() {
    let _session = Session::start();
    let bad = std::ptr::without_provenance_mut(0xdead_beef);
    assert_eq!(cuStreamSynchronize(bad), INVALID_HANDLE);
    assert_eq!(cuStreamDestroy_v2(null_mut()), INVALID_HANDLE);
    assert_eq!(cuEventRecord(std::ptr::without_provenance_mut(8), null_mut()), INVALID_HANDLE);
    let stream = stream(0);
    ok(cuStreamDestroy_v2(stream));
    assert_eq!(cuStreamDestroy_v2(stream), INVALID_HANDLE);
    assert_eq!(cuModuleUnload(stream.cast()), INVALID_HANDLE);
}

/// Catches pages that stay where they were, bytes that are counted twice, a device that takes more than it has, and
/// answers that are not what was asked for.
#[test]
fn managed_memory_moves() {
    const MIB: usize = 1 << 20;
    let _session = Session::start();
    configure("MEMORY", "8M");
    let moved = || {
        let (mut to_device, mut to_host) = (0, 0);
        // SAFETY: both are locals.
        unsafe { softcuda_migrated(&mut to_device, &mut to_host) };
        [to_device as usize / MIB, to_host as usize / MIB]
    };
    let before = moved();
    let since = || [0, 1].map(|way| moved()[way] - before[way]);
    let mut managed = 0;
    ok(cu!(cuMemAllocManaged(&mut managed, 12 * MIB, 1)));
    let on_host: *mut u8 = std::ptr::with_exposed_provenance_mut(managed as usize);
    // SAFETY: managed memory is the host's as well.
    unsafe { on_host.write_bytes(7, 4 * MIB) };
    assert_eq!(since(), [0, 0]);
    ok(cuMemPrefetchAsync(managed, 4 * MIB, 0, null_mut()));
    ok(cuCtxSynchronize());
    assert_eq!((since(), free_bytes()), ([4, 0], 4 * MIB));
    // SAFETY: as above.
    assert_eq!(unsafe { on_host.read() }, 7);
    assert_eq!(since(), [4, 2]);
    // More than the device has: the oldest go to the host.
    ok(cuMemsetD8_v2(managed, 9, 12 * MIB));
    ok(cuCtxSynchronize());
    assert_eq!((since(), free_bytes()), ([6, 6], 0));
    // SAFETY: as above.
    assert_eq!(unsafe { [on_host.read(), on_host.add(12 * MIB - 1).read()] }, [9, 9]);
    let asked = |attribute, bytes| {
        let mut value = -9;
        ok(cu!(cuMemRangeGetAttribute(from_mut(&mut value).cast(), 4, attribute, managed, bytes)));
        value
    };
    assert_eq!([asked(4, 4 * MIB), asked(4, 12 * MIB)], [0, -2], "of all, or of nothing");
    ok(cuMemAdvise(managed, 2 * MIB, 3, -1));
    ok(cuMemAdvise(managed, 2 * MIB, 1, 0));
    ok(cuMemAdvise(managed, 2 * MIB, 5, 0));
    assert_eq!([asked(1, 2 * MIB), asked(2, 2 * MIB), asked(3, 2 * MIB)], [1, -1, 0]);
    assert_eq!([asked(1, 4 * MIB), asked(2, 4 * MIB), asked(3, 4 * MIB)], [0, -2, -2]);
    let mut value = 0;
    let wrong = cu!(cuMemRangeGetAttribute(from_mut(&mut value).cast(), 4, 1, managed, 13 * MIB));
    assert_eq!(wrong, INVALID_VALUE);
    ok(cuMemFree_v2(managed));
    assert_eq!(free_bytes(), 8 * MIB);
}
