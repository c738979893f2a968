//! A device that is late on purpose: what has work carried out, and what leaves it alone.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::ffi::c_void;
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::*;
use softcuda::abi::{CUdeviceptr, CUevent, CUstream};
use softcuda::api::*;

const BYTES: usize = 4096;
const AN_HOUR: &str = "3600000000";

/// A session on a late device; a sleeping wait that wants nothing lasts until a test is given up.
fn late() -> Session {
    let session = Session::start();
    configure("LATE", AN_HOUR);
    session
}

/// Queues the writing of 1 into `flag`.
fn raise(stream: CUstream, flag: &'static AtomicU32) {
    unsafe extern "C" fn store(flag: *mut c_void) {
        // SAFETY: `raise` took a flag that never ends.
        unsafe { &*flag.cast::<AtomicU32>() }.store(1, Ordering::SeqCst);
    }
    let data = std::ptr::from_ref(flag).cast_mut().cast();
    ok(cu!(cuLaunchHostFunc(stream, Some(store), data)));
}

fn flag() -> &'static AtomicU32 {
    Box::leak(Box::default())
}

fn is_raised(flag: &AtomicU32) -> bool {
    flag.load(Ordering::SeqCst) == 1
}

/// Waits until it is raised, and asks the driver for nothing.
fn wait_for(flag: &AtomicU32) {
    while !is_raised(flag) {
        std::thread::yield_now();
    }
}

/// Lets a stream's thread do work so often that all others could have done theirs.
#[track_caller]
fn meanwhile(check: impl Fn()) {
    let (other, byte) = (stream(NON_BLOCKING), pinned(1));
    let device = allocate(1);
    for _ in 0..100 {
        ok(cu!(cuMemcpyDtoHAsync_v2(byte.as_mut_ptr().cast(), device, 1, other)));
        ok(cuStreamSynchronize(other));
        check();
    }
    ok(cuStreamDestroy_v2(other));
}

/// Asserts that these are not raised, although there was time enough.
#[track_caller]
fn stay_down(flags: &[&AtomicU32]) {
    meanwhile(|| assert!(!flags.iter().any(|flag| is_raised(flag)), "nobody wanted it"));
}

/// Device memory of this value.
fn filled(value: u8) -> CUdeviceptr {
    let device = allocate(BYTES);
    upload(device, &[value; BYTES]);
    device
}

/// What is there now; it asks for no work of a non-blocking stream.
fn seen(device: CUdeviceptr) -> u8 {
    download(device, BYTES)[BYTES - 1]
}

fn copy(to: CUdeviceptr, from: CUdeviceptr, stream: CUstream) {
    ok(cuMemcpyDtoDAsync_v2(to, from, BYTES, stream));
}

fn event_with(flags: u32) -> CUevent {
    let mut event = null_mut();
    ok(cu!(cuEventCreate(&mut event, flags)));
    event
}

/// Catches a device that is not late, a wait that wants nothing (it never ends), and a spinning one that spins first.
#[test]
fn a_copy_is_carried_out_once_it_is_waited_for() {
    let _session = late();
    let mark = event();
    for (spin, by_event) in [("0", false), ("0", true), ("1", false), ("1", true)] {
        configure("SPIN", spin);
        let (from, to, stream) = (filled(7), filled(1), stream(NON_BLOCKING));
        copy(to, from, stream);
        ok(cuEventRecord(mark, stream));
        meanwhile(|| assert_eq!(seen(to), 1));
        ok(if by_event { cuEventSynchronize(mark) } else { cuStreamSynchronize(stream) });
        assert_eq!(seen(to), 7);
    }
}

/// Catches a blocking copy that leaves what comes before it in the stream for later, and one that waits for ever.
#[test]
fn a_blocking_copy_comes_behind_what_was_queued() {
    let _session = late();
    let (from, to, stream) = (filled(7), filled(1), stream(NON_BLOCKING));
    let mut host = [0_u8; BYTES];
    copy(to, from, stream);
    ok(cu!(cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), to, BYTES, stream)));
    assert_eq!(host, [7; BYTES]);
}

/// Catches wanting that ends with a stream (the wait never ends), and that takes a whole stream although only what
/// comes before the event is wanted.
#[test]
fn a_wait_reaches_another_stream_as_far_as_the_event() {
    let _session = late();
    let [first, second] = [(); 2].map(|()| stream(NON_BLOCKING));
    let (from, between, to, behind) = (filled(7), filled(1), filled(1), filled(1));
    let mark = event();
    copy(between, from, first);
    ok(cuEventRecord(mark, first));
    copy(behind, from, first);
    ok(cuStreamWaitEvent(second, mark, 0));
    copy(to, between, second);
    meanwhile(|| assert_eq!([between, to, behind].map(seen), [1; 3]));
    ok(cuStreamSynchronize(second));
    meanwhile(|| assert_eq!([between, to, behind].map(seen), [7, 7, 1]));
    ok(cuStreamSynchronize(first));
    assert_eq!(seen(behind), 7);
}

/// Catches a wait for a sleeping event that wants at once, and one that never does.
#[test]
fn a_sleeping_wait_is_late() {
    let _session = Session::start();
    configure("LATE", "50000");
    let (from, to, stream) = (filled(7), filled(1), stream(NON_BLOCKING));
    let mark = event_with(1);
    copy(to, from, stream);
    ok(cuEventRecord(mark, stream));
    assert_eq!(seen(to), 1);
    let begin = Instant::now();
    ok(cuEventSynchronize(mark));
    assert!(begin.elapsed() >= Duration::from_millis(50), "it wanted the copy too early");
    assert_eq!(seen(to), 7);
}

/// Catches a sleeping wait that does not end with the work, and waits for other events that are late as well: both take
/// an hour.
#[test]
fn a_sleeping_wait_ends_with_the_work() {
    let session = late();
    let (context, stream, flag) = (session.context.expose_provenance(), stream(0), flag());
    let sleeping = event_with(1);
    raise(stream, flag);
    ok(cuEventRecord(sleeping, stream));
    let handle = sleeping.expose_provenance();
    let sleeper = std::thread::spawn(move || {
        ok(cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context)));
        ok(cuEventSynchronize(std::ptr::with_exposed_provenance_mut(handle)));
    });
    while calls("cuEventSynchronize") == 0 {
        std::thread::yield_now();
    }
    stay_down(&[flag]);
    let other = event();
    ok(cuEventRecord(other, stream));
    ok(cuEventSynchronize(other));
    sleeper.join().unwrap();
    assert!(is_raised(flag));
}

/// Catches a thread that holds work back although its stream is closed: nobody could want it any more.
#[test]
fn a_destroyed_stream_is_carried_out() {
    let _session = late();
    let (stream, flags) = (stream(NON_BLOCKING), [flag(), flag()]);
    flags.iter().for_each(|flag| raise(stream, flag));
    stay_down(&flags);
    // A thread that still looks whether the last work was its own would find the stream closed.
    std::thread::sleep(Duration::from_millis(10));
    ok(cuStreamDestroy_v2(stream));
    flags.iter().for_each(|flag| wait_for(flag));
}

/// Catches a context that does not want the work of each of its streams, or of one after the other: the first waits for
/// the last.
#[test]
fn synchronising_the_context_carries_everything_out() {
    let _session = late();
    let gate = Gate::block(stream(NON_BLOCKING));
    let flags = [0, NON_BLOCKING, NON_BLOCKING].map(|kind| {
        let flag = flag();
        raise(stream(kind), flag);
        flag
    });
    let legacy = flag();
    raise(null_mut(), legacy);
    stay_down(&[&flags[..], &[legacy]].concat());
    let opener = std::thread::spawn({
        let gate = gate.clone();
        move || {
            flags.iter().for_each(|flag| wait_for(flag));
            gate.open();
        }
    });
    ok(cuCtxSynchronize());
    assert!(gate.is_open() && is_raised(legacy));
    opener.join().unwrap();
}

/// Catches the legacy stream's work, or that of a blocking one, ahead of what it comes after, and wanting that does not
/// follow this order (the wait never ends). The events are there to want one operation alone.
#[test]
fn the_order_of_the_legacy_stream_holds() {
    let _session = late();
    let (legacy, mark): (CUstream, _) = (without_provenance_mut(1), event());
    for [first, second] in [[stream(0), legacy], [legacy, stream(0)]] {
        let (from, between, to) = (filled(7), filled(1), filled(1));
        let (behind, apart, unordered) = (flag(), flag(), stream(NON_BLOCKING));
        copy(between, from, first);
        raise(unordered, apart);
        copy(to, between, second);
        ok(cuEventRecord(mark, second));
        raise(second, behind);
        stay_down(&[behind, apart]);
        ok(cuEventSynchronize(mark));
        stay_down(&[behind, apart]);
        ok(cuCtxSynchronize());
        assert_eq!([between, to].map(seen), [7; 2]);
    }
}

/// Catches a question that leaves the work where it is: the loop never ends.
#[test]
fn a_program_that_polls_gets_on() {
    let _session = late();
    let (stream, [start, end]) = (stream(NON_BLOCKING), [(); 2].map(|()| event()));
    let elapsed = || cu!(cuEventElapsedTime(&mut 0.0, start, end));
    let questions: [&dyn Fn() -> u32; 3] =
        [&|| cuStreamQuery(stream), &|| cuEventQuery(end), &elapsed];
    for ask in questions {
        let flag = flag();
        ok(cuEventRecord(start, stream));
        raise(stream, flag);
        ok(cuEventRecord(end, stream));
        stay_down(&[flag]);
        assert_eq!(ask(), NOT_READY);
        while ask() == NOT_READY {
            std::thread::yield_now();
        }
        ok(ask());
        assert!(is_raised(flag));
    }
}

/// Catches work that stays where it is when the setting changes, also if that changes back at once, and a setting that
/// cannot be read and changes something.
#[test]
fn switching_it_off_carries_everything_out() {
    let _session = late();
    let stream = stream(NON_BLOCKING);
    for again in [None, Some(AN_HOUR)] {
        let flags = [flag(), flag()];
        flags.iter().for_each(|flag| raise(stream, flag));
        for nonsense in [c"soon", c"-1", c"1.5"] {
            assert_eq!(cu!(softcuda_configure(c"LATE".as_ptr(), nonsense.as_ptr())), -1);
        }
        stay_down(&flags);
        configure("LATE", "0");
        if let Some(again) = again {
            configure("LATE", again);
        }
        flags.iter().for_each(|flag| wait_for(flag));
        if again.is_none() {
            // What is queued now is not late, nor will it be.
            let prompt = flag();
            raise(stream, prompt);
            configure("LATE", AN_HOUR);
            wait_for(prompt);
        }
    }
}

/// Catches a call that waits for ever for memory that held work is going to touch, and one that does not wait.
#[test]
fn freeing_memory_in_use_has_the_work_done_first() {
    let _session = late();
    let stream = stream(NON_BLOCKING);
    let (from, to, mapping) = (filled(7), filled(1), mapped(GRANULE));
    copy(to, from, stream);
    ok(cuMemFree_v2(from));
    assert_eq!((seen(to), softcuda_misuse_count()), (7, 1));
    copy(mapping, to, stream);
    ok(cuMemUnmap(mapping, GRANULE));
    assert_eq!(softcuda_misuse_count(), 2);
    ok(cuMemAddressFree(mapping, GRANULE));
    // Nobody waits any more.
    let flag = flag();
    raise(stream, flag);
    stay_down(&[flag]);
}

/// Catches a context that waits for ever for work that it has dropped, or carries it out.
#[test]
fn a_destroyed_context_drops_what_nobody_wanted() {
    let _session = late();
    let (mut context, flag) = (null_mut(), flag());
    ok(cu!(cuCtxCreate_v2(&mut context, 0, 0)));
    raise(stream(0), flag);
    ok(cuCtxDestroy_v2(context));
    assert!(!is_raised(flag));
}

/// Catches a failure that shows before the work is carried out, or never.
#[test]
fn an_injected_failure_is_late_too() {
    let _session = late();
    let (from, to, stream) = (filled(7), filled(1), stream(NON_BLOCKING));
    softcuda_reset_counts();
    inject("cuMemcpyDtoDAsync_v2:1~700");
    copy(to, from, stream);
    meanwhile(|| assert_eq!(seen(to), 1));
    assert_eq!(cuStreamSynchronize(stream), ILLEGAL_ADDRESS);
}
