//! A process that others stop: its states, what it refuses, and who can be stopped.

#![allow(clippy::unwrap_used, clippy::panic)]

#[macro_use]
mod common;

use std::ffi::c_int;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::*;
use softcuda::api::*;

const ILLEGAL_STATE: u32 = 401;
const NOT_SUPPORTED: u32 = 801;

/// A call that gives this process an order.
type GiveOrder = fn() -> u32;

fn own() -> c_int {
    std::process::id().cast_signed()
}

fn state(process: c_int) -> Result<c_int, u32> {
    let mut state = -1;
    match cu!(cuCheckpointProcessGetState(process, &mut state)) {
        0 => Ok(state),
        code => Err(code),
    }
}

fn lock(process: c_int, timeout_ms: u32) -> u32 {
    cu!(cuCheckpointProcessLock(process, &LockArgs { timeout_ms, reserved: [0; 15] }))
}

fn checkpoint() -> u32 {
    cu!(cuCheckpointProcessCheckpoint(own(), null()))
}

fn restore() -> u32 {
    cu!(cuCheckpointProcessRestore(own(), null()))
}

fn unlock() -> u32 {
    cu!(cuCheckpointProcessUnlock(own(), null()))
}

/// Catches an order that is carried out in a state in which the driver refuses it, and memory that changes meanwhile.
#[test]
fn states_follow_each_other() {
    let _session = Session::start();
    let device = allocate(64);
    ok(cuMemsetD8_v2(device, 7, 64));
    let orders: [(&str, GiveOrder); 4] = [
        ("lock", || lock(own(), 0)),
        ("checkpoint", checkpoint),
        ("restore", restore),
        ("unlock", unlock),
    ];
    // In each state, which order is accepted and which state follows.
    let accepted = [(0, "lock", 1), (1, "checkpoint", 2), (2, "restore", 1), (1, "unlock", 0)];
    for (from, name, to) in accepted {
        assert_eq!(state(own()), Ok(from));
        for (order, give) in orders {
            let fits = accepted.iter().any(|(state, name, _)| (*state, *name) == (from, order));
            if !fits {
                assert_eq!(give(), ILLEGAL_STATE, "{order} in state {from}");
            }
        }
        ok(orders.iter().find(|(order, _)| *order == name).unwrap().1());
        assert_eq!(state(own()), Ok(to));
    }
    assert_eq!(download(device, 64), [7; 64]);
}

/// Catches calls that do not wait while their process is locked, and those that wait for ever afterwards.
#[test]
fn calls_of_a_locked_process_wait() {
    let session = Session::start();
    let device = allocate(64);
    let context = session.context.addr();
    let done = AtomicBool::new(false);
    ok(lock(own(), 0));
    thread::scope(|scope| {
        scope.spawn(|| {
            ok(cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context)));
            ok(cuMemsetD8_v2(device, 9, 64));
            done.store(true, Ordering::Release);
        });
        ok(checkpoint());
        thread::sleep(Duration::from_millis(50));
        assert!(!done.load(Ordering::Acquire));
        ok(restore());
        ok(unlock());
    });
    assert_eq!(download(device, 64), [9; 64]);
}

/// Catches a lock that is taken in the middle of a call, and calls that wait after one that was not.
#[test]
fn a_lock_waits_for_calls_under_way() {
    let session = Session::start();
    let busy = stream(NON_BLOCKING);
    let gate = Gate::block(busy);
    let (context, handle) = (session.context.expose_provenance(), busy.expose_provenance());
    thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            ok(cuCtxSetCurrent(std::ptr::with_exposed_provenance_mut(context)));
            ok(cuStreamSynchronize(std::ptr::with_exposed_provenance_mut(handle)));
        });
        // Until the call is inside.
        while lock(own(), 20) == 0 {
            ok(unlock());
        }
        assert_eq!(state(own()), Ok(0));
        let _free = allocate(64);
        assert!(!waiting.is_finished());
        gate.open();
        waiting.join().unwrap();
    });
    ok(lock(own(), 0));
    ok(unlock());
}

/// Catches managed memory that is lost, and a process that is not to be helped afterwards.
#[test]
fn managed_memory_is_refused() {
    let _session = Session::start();
    let mut managed = 0;
    ok(cu!(cuMemAllocManaged(&mut managed, 4096, 1)));
    ok(lock(own(), 0));
    assert_eq!(checkpoint(), NOT_SUPPORTED);
    assert_eq!(state(own()), Ok(1));
    ok(unlock());
    ok(cuMemFree_v2(managed));
    ok(lock(own(), 0));
    ok(checkpoint());
    ok(restore());
    ok(unlock());
}

/// Catches orders to somebody else: no process, one without the driver, and a child that has its parent's page.
#[test]
fn others_are_refused() {
    let _session = Session::start();
    assert_eq!(state(0), Err(INVALID_VALUE));
    assert_eq!(lock(c_int::MAX, 0), INVALID_VALUE);
    let mut sleeping = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
    assert_eq!(state(sleeping.id().cast_signed()), Err(NOT_INITIALIZED));
    sleeping.kill().unwrap();
    sleeping.wait().unwrap();
    // SAFETY: the child only sleeps.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: system calls alone.
        unsafe {
            libc::pause();
            libc::_exit(0);
        }
    }
    assert_eq!(lock(child, 0), NOT_INITIALIZED);
    assert_eq!(state(own()), Ok(0));
    // SAFETY: of this process.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, null_mut(), 0);
    }
    let args = ProcessArgs { reserved: [0, 0, 0, 1, 0, 0, 0, 0] };
    assert_eq!(cu!(cuCheckpointProcessUnlock(own(), &args)), INVALID_VALUE);
}
