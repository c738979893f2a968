//! The rules of virtual memory management.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::ffi::c_void;

use common::*;
use softcuda::abi::{AllocationProp, ACCESS_NONE, ACCESS_READ, ACCESS_READ_WRITE};
use softcuda::api::*;

#[test]
fn mapped_memory_holds_what_is_copied_into_it() {
    let _session = Session::start();
    let address = mapped(2 * GRANULE);
    upload(address + 100, b"across");
    assert_eq!(download(address + 100, 6), b"across");
    ok(cuMemUnmap(address, 2 * GRANULE));
    ok(cuMemAddressFree(address, 2 * GRANULE));
}

#[test]
fn one_copy_may_cross_mappings_side_by_side() {
    let _session = Session::start();
    let address = reserve(2 * GRANULE);
    for piece in [address, address + GRANULE as u64] {
        let handle = create(GRANULE);
        ok(cuMemMap(piece, GRANULE, 0, handle, 0));
        ok(cuMemRelease(handle));
    }
    ok(set_access(address, 2 * GRANULE, ACCESS_READ_WRITE));
    let border = address + GRANULE as u64 - 3;
    upload(border, b"border");
    assert_eq!(download(border, 6), b"border");
    ok(cuMemUnmap(address, 2 * GRANULE));
    ok(cuMemAddressFree(address, 2 * GRANULE));
}

#[test]
fn one_handle_may_be_mapped_twice() {
    let _session = Session::start();
    let (first, second, handle) = (reserve(GRANULE), reserve(GRANULE), create(GRANULE));
    for address in [first, second] {
        ok(cuMemMap(address, GRANULE, 0, handle, 0));
        ok(set_access(address, GRANULE, ACCESS_READ_WRITE));
    }
    upload(first, b"same");
    assert_eq!(download(second, 4), b"same");
    for address in [first, second] {
        ok(cuMemUnmap(address, GRANULE));
        ok(cuMemAddressFree(address, GRANULE));
    }
    ok(cuMemRelease(handle));
    assert_eq!(cuMemRelease(handle), INVALID_VALUE);
}

#[test]
fn sizes_offsets_and_flags_are_checked() {
    let _session = Session::start();
    let (mut address, mut handle) = (0, 0);
    let properties = AllocationProp::on_device(0);
    let refused = |code| assert_eq!(code, INVALID_VALUE);
    let mut granularity = 0;
    ok(cu!(cuMemGetAllocationGranularity(&mut granularity, &properties, 0)));
    assert_eq!(granularity, GRANULE);
    refused(cu!(cuMemAddressReserve(&mut address, GRANULE + 1, 0, 0, 0)));
    refused(cu!(cuMemAddressReserve(&mut address, 0, 0, 0, 0)));
    refused(cu!(cuMemAddressReserve(&mut address, GRANULE, 3, 0, 0)));
    refused(cu!(cuMemAddressReserve(std::ptr::null_mut(), GRANULE, 0, 0, 0)));
    refused(cu!(cuMemCreate(&mut handle, GRANULE - 1, &properties, 0)));
    refused(cu!(cuMemCreate(&mut handle, GRANULE, std::ptr::null(), 0)));
    let elsewhere = AllocationProp::on_device(7);
    assert_eq!(cu!(cuMemCreate(&mut handle, GRANULE, &elsewhere, 0)), 101);
    let (address, handle) = (reserve(2 * GRANULE), create(GRANULE));
    refused(cuMemMap(address, GRANULE, 4096, handle, 0));
    refused(cuMemMap(address, GRANULE / 2, 0, handle, 0));
    refused(cuMemMap(address, 2 * GRANULE, 0, handle, 0));
    refused(cuMemMap(address + 4096, GRANULE, 0, handle, 0));
    refused(cuMemMap(address, GRANULE, 0, handle + 1, 0));
    refused(cuMemMap(address + 2 * GRANULE as u64, GRANULE, 0, handle, 0));
    ok(cuMemMap(address, GRANULE, 0, handle, 0));
    refused(cuMemMap(address, GRANULE, 0, handle, 0));
    refused(set_access(address, 2 * GRANULE, ACCESS_READ_WRITE));
    refused(set_access(address + GRANULE as u64, GRANULE, ACCESS_READ_WRITE));
    refused(set_access(address, GRANULE, 2));
    refused(cuMemAddressFree(address, 2 * GRANULE));
    refused(cuMemFree_v2(address));
    ok(cuMemUnmap(address, GRANULE));
    refused(cuMemUnmap(address, GRANULE));
    refused(cuMemAddressFree(address, GRANULE));
    ok(cuMemAddressFree(address, 2 * GRANULE));
    ok(cuMemRelease(handle));
}

#[test]
fn unmapping_takes_whole_mappings_only() {
    let _session = Session::start();
    let address = mapped(4 * GRANULE);
    assert_eq!(cuMemUnmap(address, GRANULE), INVALID_VALUE);
    assert_eq!(cuMemUnmap(address + GRANULE as u64, 3 * GRANULE), INVALID_VALUE);
    ok(cuMemUnmap(address, 4 * GRANULE));
    ok(cuMemAddressFree(address, 4 * GRANULE));
}

#[test]
fn a_wished_address_is_given_if_it_is_free() {
    let _session = Session::start();
    let first = reserve(GRANULE);
    let wish = first + GRANULE as u64;
    let mut second = 0;
    ok(cu!(cuMemAddressReserve(&mut second, GRANULE, 0, wish, 0)));
    assert_eq!(second, wish);
    let mut third = 0;
    ok(cu!(cuMemAddressReserve(&mut third, GRANULE, 0, wish, 0)));
    assert_ne!(third, wish);
    for address in [first, second, third] {
        ok(cuMemAddressFree(address, GRANULE));
    }
}

#[test]
fn access_is_what_was_granted() {
    let session = Session::start();
    let address = mapped(GRANULE);
    ok(set_access(address, GRANULE, ACCESS_READ));
    assert_eq!(download(address, 1), [0]);
    let mut granted = 9;
    let here = softcuda::abi::Location { kind: 1, id: 0 };
    ok(cu!(cuMemGetAccess(&mut granted, &here, address)));
    assert_eq!(granted, u64::from(ACCESS_READ));
    ok(set_access(address, GRANULE, ACCESS_NONE));
    ok(set_access(address, GRANULE, ACCESS_READ));
    assert_eq!(cuMemsetD8_v2(address, 1, 1), ILLEGAL_ADDRESS);
    ok(cuCtxDestroy_v2(session.context));
    ok(cuMemUnmap(address, GRANULE));
    ok(cuMemAddressFree(address, GRANULE));
}

#[test]
fn device_memory_is_out_of_the_hosts_reach() {
    let _session = Session::start();
    let (plain, vmm) = (allocate(4096), mapped(GRANULE));
    let mut pipe = [0; 2];
    // SAFETY: the array has room for two descriptors.
    assert_eq!(unsafe { libc::pipe(pipe.as_mut_ptr()) }, 0);
    // The system reads one byte, and returns an error if it cannot.
    // SAFETY: it does not follow the address where it must not.
    let readable = |address: u64| unsafe {
        libc::write(pipe[1], std::ptr::with_exposed_provenance(address as usize), 1) == 1
    };
    assert!(!readable(plain));
    assert!(!readable(vmm));
    let mut managed = 0;
    ok(cu!(cuMemAllocManaged(&mut managed, 4096, 1)));
    assert!(readable(managed));
    assert!(readable(pinned(4096).as_ptr().addr() as u64));
    ok(cuMemUnmap(vmm, GRANULE));
    ok(cuMemAddressFree(vmm, GRANULE));
}

#[test]
fn a_pointer_lies_in_its_mapping_or_in_its_reservation() {
    let _session = Session::start();
    let address = reserve(3 * GRANULE);
    for piece in [address, address + GRANULE as u64] {
        let handle = create(GRANULE);
        ok(cuMemMap(piece, GRANULE, 0, handle, 0));
        ok(cuMemRelease(handle));
    }
    let second = address + GRANULE as u64;
    for (ranges, expected) in
        [("handle", (second, GRANULE)), ("reservation", (address, 3 * GRANULE))]
    {
        configure("RANGES", ranges);
        let (mut start, mut size, mut mapped) = (0u64, 0usize, 0u32);
        let ask = |attribute: i32, value: *mut c_void, at| {
            ok(cu!(cuPointerGetAttribute(value, attribute, at)));
        };
        ask(11, (&raw mut start).cast(), second + 5);
        ask(12, (&raw mut size).cast(), second + 5);
        ask(13, (&raw mut mapped).cast(), second + 5);
        assert_eq!(((start, size), mapped), (expected, 1), "{ranges}");
        ask(13, (&raw mut mapped).cast(), second + GRANULE as u64);
        assert_eq!(mapped, 0, "{ranges}");
    }
    ok(cuMemUnmap(address, 2 * GRANULE));
    ok(cuMemAddressFree(address, 3 * GRANULE));
}
