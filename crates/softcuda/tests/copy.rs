//! Which copies wait, which do not, and registered host memory.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use common::*;
use softcuda::api::*;

const BYTES: usize = 64 << 10;

#[test]
fn a_pageable_copy_blocks_behind_all_that_is_queued() {
    let _session = Session::start();
    let (stream, device) = (stream(NON_BLOCKING), allocate(BYTES));
    let mut host = vec![0_u8; BYTES];
    let gate = Gate::block(stream);
    ok(cuMemsetD8Async(device, 5, BYTES, stream));
    let opener = gate.open_later();
    let target: *mut c_void = host.as_mut_ptr().cast();
    ok(cu!(cuMemcpyDtoHAsync_v2(target, device, BYTES, stream)));
    assert!(gate.is_open(), "the copy did not wait for the work before it");
    assert_eq!(softcuda_staged_count(), 1);
    assert!(host.iter().all(|byte| *byte == 5));
    opener.join().unwrap();
}

/// Catches a lock that the copy itself would wait for, and one that is not held.
#[test]
fn a_pageable_copy_can_keep_others_from_queueing() {
    let session = Session::start();
    configure("CONTEXT_LOCK", "1");
    let context = session.context.expose_provenance();
    let streams = [(); 2].map(|()| stream(NON_BLOCKING).expose_provenance());
    let enter = || ok(cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context)));
    let of = |which: usize| std::ptr::with_exposed_provenance_mut(streams[which]);
    let device = allocate(BYTES);
    let mut host = vec![0_u8; BYTES];
    let gate = Gate::block(of(0));
    let queued = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let copier = scope.spawn(|| {
            enter();
            let target: *mut c_void = host.as_mut_ptr().cast();
            ok(cu!(cuMemcpyDtoHAsync_v2(target, device, BYTES, of(0))));
        });
        while softcuda_staged_count() == 0 {
            std::thread::yield_now();
        }
        let other = scope.spawn(|| {
            enter();
            ok(cuMemsetD8Async(device, 5, BYTES, of(1)));
            queued.store(true, Ordering::SeqCst);
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!queued.load(Ordering::SeqCst), "queued beside the copy");
        gate.open();
        copier.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn a_copy_with_locked_memory_returns_at_once() {
    let _session = Session::start();
    let (stream, device) = (stream(NON_BLOCKING), allocate(BYTES));
    let pages = Pages::new(BYTES);
    ok(cu!(cuMemHostRegister_v2(pages.at(0), BYTES, 0)));
    let (upload, download) = (pages.at(0), pinned(BYTES));
    // SAFETY: the pages are this test's own, and so many.
    unsafe { upload.cast::<u8>().write_bytes(9, BYTES) };

    let gate = Gate::block(stream);
    ok(cu!(cuMemcpyHtoDAsync_v2(device, upload, BYTES, stream)));
    ok(cu!(cuMemcpyDtoHAsync_v2(download.as_mut_ptr().cast(), device, BYTES, stream)));
    assert_eq!(cuStreamQuery(stream), NOT_READY);
    assert_eq!(download[0], 0, "nothing can have arrived");
    gate.open();
    ok(cuStreamSynchronize(stream));
    assert!(download.iter().all(|byte| *byte == 9));
    ok(cuMemHostUnregister(pages.at(0)));
    assert_eq!((softcuda_misuse_count(), softcuda_staged_count()), (0, 0));
}

#[test]
fn no_copy_crosses_the_border_of_a_registration() {
    let _session = Session::start();
    let (pages, device) = (Pages::new(4 * BYTES), allocate(4 * BYTES));
    ok(cu!(cuMemHostRegister_v2(pages.at(BYTES), BYTES, 0)));
    ok(cu!(cuMemHostRegister_v2(pages.at(2 * BYTES), BYTES, 0)));
    let copy = |from: usize, to: usize| {
        cu!(cuMemcpyDtoHAsync_v2(pages.at(from), device, to - from, null_mut()))
    };
    let unregistered_first = copy(BYTES - 1, 2 * BYTES);
    let both_registered = copy(BYTES, 3 * BYTES);
    let unregistered_last = copy(2 * BYTES, 3 * BYTES + 1);
    let all = copy(0, 4 * BYTES);
    for code in [unregistered_first, both_registered, unregistered_last, all] {
        assert_eq!(code, INVALID_VALUE);
    }
    // Each side of the border by itself is fine, and so is the context.
    for (from, to) in
        [(0, BYTES), (BYTES, 2 * BYTES), (2 * BYTES, 3 * BYTES), (3 * BYTES, 4 * BYTES)]
    {
        ok(copy(from, to));
    }
    ok(cuCtxSynchronize());
    ok(cuMemHostUnregister(pages.at(BYTES)));
    ok(cuMemHostUnregister(pages.at(2 * BYTES)));
}

#[test]
fn registrations_are_exact() {
    let _session = Session::start();
    let pages = Pages::new(4 * BYTES);
    let register = |from: usize, bytes| cu!(cuMemHostRegister_v2(pages.at(from), bytes, 0));
    ok(register(BYTES, BYTES));
    assert_eq!(register(BYTES, BYTES), ALREADY_REGISTERED);
    assert_eq!(register(0, 4 * BYTES), ALREADY_REGISTERED);
    assert_eq!(register(2 * BYTES - 1, 2), ALREADY_REGISTERED);
    assert_eq!(register(0, 0), INVALID_VALUE);
    assert_eq!(cuMemHostUnregister(pages.at(0)), NOT_REGISTERED);
    assert_eq!(cuMemHostUnregister(pages.at(BYTES + 1)), NOT_REGISTERED);

    let mut device = 0;
    ok(cu!(cuMemHostGetDevicePointer_v2(&mut device, pages.at(BYTES + 5), 0)));
    assert_eq!(device, pages.at(BYTES + 5).addr() as u64);
    let outside = cu!(cuMemHostGetDevicePointer_v2(&mut device, pages.at(0), 0));
    assert_eq!(outside, INVALID_VALUE);

    ok(cuMemHostUnregister(pages.at(BYTES)));
    assert_eq!(cuMemHostUnregister(pages.at(BYTES)), NOT_REGISTERED);
    assert_eq!(cuMemFreeHost(pages.at(BYTES)), INVALID_VALUE);

    // Memory that is not there cannot be registered.
    let gone = pages.at(3 * BYTES);
    // SAFETY: these pages are this test's own and nothing refers to them.
    assert_eq!(unsafe { libc::munmap(gone, BYTES) }, 0);
    assert_eq!(cu!(cuMemHostRegister_v2(gone, BYTES, 0)), INVALID_VALUE);
}

#[test]
fn the_direction_is_found_from_the_addresses() {
    let _session = Session::start();
    let (one, other) = (allocate(8), allocate(8));
    let mut host = *b"original";
    let address = host.as_mut_ptr().expose_provenance() as u64;
    ok(cu!(cuMemcpy(one, address, 8)));
    ok(cu!(cuMemcpyAsync(other, one, 8, null_mut())));
    host = [0; 8];
    ok(cu!(cuMemcpy(address, other, 8)));
    assert_eq!(&std::hint::black_box(host), b"original");

    let mut managed = 0;
    ok(cu!(cuMemAllocManaged(&mut managed, 8, 1)));
    ok(cuMemcpyDtoD_v2(managed, one, 8));
    ok(cuCtxSynchronize());
    let seen: *const [u8; 8] = std::ptr::with_exposed_provenance(managed as usize);
    // SAFETY: managed memory is the host's as well, and the copy is done.
    assert_eq!(&unsafe { seen.read() }, b"original");
}

#[test]
fn overlapping_copies_and_fills_are_right() {
    let _session = Session::start();
    let device = allocate(64);
    ok(cuMemsetD32_v2(device, 0x0403_0201, 2));
    ok(cuMemcpyDtoD_v2(device + 1, device, 8));
    assert_eq!(download(device, 9), [1, 1, 2, 3, 4, 1, 2, 3, 4]);
    assert_eq!(cuMemsetD32_v2(device + 2, 0, 1), INVALID_VALUE);
    assert_eq!(cuMemsetD32_v2(device, 0, usize::MAX), INVALID_VALUE);
    ok(cuMemsetD32_v2(device, 0, 0));
}

#[test]
fn copies_within_the_device_do_not_wait() {
    let _session = Session::start();
    let device = allocate(BYTES);
    let gate = Gate::block(null_mut());
    ok(cuMemcpyDtoD_v2(device, device + 8, 8));
    ok(cuMemsetD8_v2(device, 1, BYTES));
    assert_eq!(cuStreamQuery(null_mut()), NOT_READY);
    gate.open();
    ok(cuCtxSynchronize());
}

#[test]
fn throttled_copies_and_registrations_take_their_time() {
    let _session = Session::start();
    let device = allocate(1 << 20);
    let host = pinned(1 << 20);
    let pages = Pages::new(1 << 20);
    configure("BANDWIDTH", "dtoh=0.05,register=0.05");
    configure("DELAY", "cuMemHostRegister_v2=10000");
    let begin = std::time::Instant::now();
    ok(cu!(cuMemcpyDtoH_v2(host.as_mut_ptr().cast(), device, 1 << 20)));
    let copied = begin.elapsed();
    assert!(copied.as_secs_f64() >= 0.0209, "1 MiB at 50 MB/s in {copied:?}");
    ok(cu!(cuMemHostRegister_v2(pages.at(0), 1 << 20, 0)));
    let registered = begin.elapsed() - copied;
    assert!(registered.as_secs_f64() >= 0.0309, "registered in {registered:?}");
    ok(cuMemHostUnregister(pages.at(0)));
}

#[test]
fn copies_may_be_made_to_move_nothing() {
    let _session = Session::start();
    let device = allocate(4);
    upload(device, b"old!");
    configure("COPY", "none");
    upload(device, b"new!");
    configure("COPY", "real");
    assert_eq!(download(device, 4), b"old!");
}
