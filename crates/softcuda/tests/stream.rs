//! The order of work in and between streams, and events.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use common::*;
use softcuda::abi::CUstream;
use softcuda::api::*;

/// Queues the writing of 1 into `flag`.
fn raise(stream: CUstream, flag: &AtomicU32) {
    unsafe extern "C" fn store(flag: *mut c_void) {
        // SAFETY: every test waits for its streams before the flag ends.
        unsafe { &*flag.cast::<AtomicU32>() }.store(1, Ordering::SeqCst);
    }
    let data = std::ptr::from_ref(flag).cast_mut().cast();
    ok(cu!(cuLaunchHostFunc(stream, Some(store), data)));
}

fn is_raised(flag: &AtomicU32) -> bool {
    flag.load(Ordering::SeqCst) == 1
}

#[test]
fn the_legacy_stream_waits_for_blocking_streams() {
    let _session = Session::start();
    let (blocking, flag) = (stream(0), AtomicU32::new(0));
    let gate = Gate::block(blocking);
    raise(null_mut(), &flag);
    assert_eq!(cuStreamQuery(null_mut()), NOT_READY);
    assert!(!is_raised(&flag));
    let opener = gate.open_later();
    ok(cuStreamSynchronize(null_mut()));
    assert!(gate.is_open() && is_raised(&flag));
    opener.join().unwrap();
}

#[test]
fn blocking_streams_wait_for_the_legacy_stream() {
    let _session = Session::start();
    let per_thread: CUstream = without_provenance_mut(2);
    for waiting in [stream(0), per_thread] {
        let flag = AtomicU32::new(0);
        let gate = Gate::block(without_provenance_mut(1));
        raise(waiting, &flag);
        assert_eq!(cuStreamQuery(waiting), NOT_READY);
        let opener = gate.open_later();
        ok(cuStreamSynchronize(waiting));
        assert!(gate.is_open() && is_raised(&flag));
        opener.join().unwrap();
    }
}

#[test]
fn non_blocking_streams_stand_apart_from_the_legacy_stream() {
    let _session = Session::start();
    let (apart, flag, other) = (stream(NON_BLOCKING), AtomicU32::new(0), AtomicU32::new(0));
    let gate = Gate::block(null_mut());
    raise(apart, &flag);
    ok(cuStreamSynchronize(apart));
    assert!(is_raised(&flag), "it went ahead of the legacy stream");
    gate.open();

    let gate = Gate::block(apart);
    raise(null_mut(), &other);
    ok(cuStreamSynchronize(null_mut()));
    assert!(is_raised(&other), "the legacy stream went ahead of it");
    gate.open();
}

#[test]
fn synchronising_the_context_covers_every_stream() {
    let _session = Session::start();
    let destroyed = stream(NON_BLOCKING);
    for (apart, destroy) in [(stream(NON_BLOCKING), false), (destroyed, true)] {
        let flag = AtomicU32::new(0);
        let gate = Gate::block(apart);
        raise(apart, &flag);
        if destroy {
            ok(cuStreamDestroy_v2(apart));
        }
        let opener = gate.open_later();
        ok(cuCtxSynchronize());
        assert!(gate.is_open() && is_raised(&flag));
        opener.join().unwrap();
    }
}

#[test]
fn streams_are_independent_and_each_is_in_order() {
    let _session = Session::start();
    let (held, free) = (stream(0), stream(0));
    let device = allocate(4);
    let gate = Gate::block(held);
    ok(cuMemsetD8Async(device, 1, 4, free));
    ok(cuMemsetD8Async(device, 2, 3, free));
    ok(cuMemsetD8Async(device, 3, 2, free));
    ok(cuStreamSynchronize(free));
    gate.open();
    assert_eq!(download(device, 4), [3, 3, 2, 1]);
}

#[test]
fn a_stream_waits_for_an_event_as_it_was_recorded() {
    let _session = Session::start();
    let (first, second) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let (event, flag) = (event(), AtomicU32::new(0));

    // An event that was never recorded is done and holds nothing up.
    ok(cuEventQuery(event));
    ok(cuEventSynchronize(event));
    ok(cuStreamWaitEvent(second, event, 0));

    let gate = Gate::block(first);
    ok(cuEventRecord(event, first));
    assert_eq!(cuEventQuery(event), NOT_READY);
    ok(cuStreamWaitEvent(second, event, 0));
    raise(second, &flag);
    assert_eq!(cuStreamQuery(second), NOT_READY);
    // Destroying it changes nothing for those that wait already.
    ok(cuEventDestroy_v2(event));
    assert_eq!(cuEventQuery(event), INVALID_HANDLE);
    let opener = gate.open_later();
    ok(cuStreamSynchronize(second));
    assert!(gate.is_open() && is_raised(&flag));
    opener.join().unwrap();
}

#[test]
fn an_event_recorded_again_stands_for_the_later_mark() {
    let _session = Session::start();
    let (first, event) = (stream(NON_BLOCKING), event());
    ok(cuEventRecord(event, first));
    ok(cuEventSynchronize(event));
    let gate = Gate::block(first);
    ok(cuEventRecord(event, first));
    assert_eq!(cuEventQuery(event), NOT_READY);
    gate.open();
    ok(cuEventSynchronize(event));
    ok(cuEventQuery(event));
}

#[test]
fn events_keep_the_time_unless_told_not_to() {
    let _session = Session::start();
    let (start, end) = (event(), event());
    let mut elapsed = -1.0;
    assert_eq!(cu!(cuEventElapsedTime(&mut elapsed, start, end)), INVALID_HANDLE);
    ok(cuEventRecord(start, null_mut()));
    let gate = Gate::block(null_mut());
    ok(cuEventRecord(end, null_mut()));
    ok(cuEventSynchronize(start));
    assert_eq!(cu!(cuEventElapsedTime(&mut elapsed, start, end)), NOT_READY);
    gate.open();
    ok(cuEventSynchronize(end));
    ok(cu!(cuEventElapsedTime(&mut elapsed, start, end)));
    assert!(elapsed >= 0.0);

    let mut untimed = null_mut();
    ok(cu!(cuEventCreate(&mut untimed, 2)));
    ok(cuEventRecord(untimed, null_mut()));
    assert_eq!(cu!(cuEventElapsedTime(&mut elapsed, start, untimed)), INVALID_HANDLE);
    assert_eq!(cu!(cuEventCreate(&mut untimed, 4)), INVALID_VALUE);
}

#[test]
fn a_stream_knows_its_context_and_flags() {
    let session = Session::start();
    let apart = stream(NON_BLOCKING);
    let (mut context, mut flags) = (null_mut(), 9);
    ok(cu!(cuStreamGetCtx(apart, &mut context)));
    ok(cu!(cuStreamGetFlags(apart, &mut flags)));
    assert_eq!((context, flags), (session.context, NON_BLOCKING));
    assert_eq!(cu!(cuStreamCreate(&mut null_mut(), 8)), INVALID_VALUE);
    assert_eq!(cu!(cuStreamCreate(null_mut(), 0)), INVALID_VALUE);
}

#[test]
fn a_destroyed_context_drops_what_it_had_queued() {
    let _session = Session::start();
    let mut context = null_mut();
    ok(cu!(cuCtxCreate_v2(&mut context, 0, 0)));
    let (stream, flag) = (stream(0), AtomicU32::new(0));
    let gate = Gate::block(stream);
    raise(stream, &flag);
    gate.wait_until_reached();
    let opener = gate.open_later();
    ok(cuCtxDestroy_v2(context));
    assert!(gate.is_open(), "what runs is waited for");
    assert!(!is_raised(&flag), "what has not begun is dropped");
    assert_eq!(cuStreamQuery(stream), INVALID_HANDLE);
    opener.join().unwrap();
}

#[test]
fn only_events_that_say_so_let_who_waits_sleep() {
    const BLOCKING_SYNC: u32 = 1;
    let _session = Session::start();
    for spin in ["0", "1"] {
        configure("SPIN", spin);
        softcuda_reset_counts();
        for (flags, spun) in [(BLOCKING_SYNC, 0), (0, 1)] {
            let (stream, mut mark) = (stream(0), null_mut());
            ok(cu!(cuEventCreate(&mut mark, flags)));
            let gate = Gate::block(stream);
            ok(cuEventRecord(mark, stream));
            let opener = match spun {
                0 => gate.open_later(),
                // The waiter spins and never sleeps, so the gate opens once it has spun.
                _ => std::thread::spawn({
                    let gate = gate.clone();
                    move || {
                        while softcuda_spun_count() == 0 {
                            std::thread::yield_now();
                        }
                        gate.open();
                    }
                }),
            };
            ok(cuEventSynchronize(mark));
            opener.join().unwrap();
            assert!(gate.is_open());
            assert_eq!(softcuda_spun_count(), spun);
            // Waiting for completed work does not spin.
            ok(cuStreamSynchronize(stream));
            assert_eq!(softcuda_spun_count(), spun);
        }
    }
}
