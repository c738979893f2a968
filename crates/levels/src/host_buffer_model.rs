//! Touching, flushing and registering the host buffer, model-checked: every order of steps is tried at
//! random. A wait that nobody ends is a deadlock, which shuttle reports.
//!
//! Run with `cargo test --features model-check --lib model`.
#![allow(clippy::unwrap_used, clippy::panic)] // A test stops at the first fault.

use std::sync::Arc;
use std::time::Duration;

use shuttle::rand::{thread_rng, Rng};
use shuttle::sync::Mutex;
use shuttle::thread;

use super::host_buffer::{Claim, HostBuffer, TouchMethod, TOUCH_UNIT};
use catalog::space::{Extent, Space};
use policy::register::Pin;

const ITERATIONS: usize = 3_000;

/// What goes wrong while the caches are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Nothing but a flush here and there.
    Flushes,
    /// The touching threads find that memory is short, or get none.
    Touching,
    /// Memory is short for a while.
    Resting,
    /// The driver refuses a registration, or the registrar dies in one.
    Registering,
    /// The engine stops at any moment.
    Stop,
}

/// Bytes that are flushed, one after the other: units by halves, across chunks, the short one at the
/// end.
fn flushes() -> [Extent; 4] {
    let half = TOUCH_UNIT / 2;
    [(1, 4), (5, 1), (0, 2), (6, 1)]
        .map(|(first, halves)| Extent { offset: first * half, len: halves * half })
}

/// All that happens to the buffer while it is being prepared, to its end: two threads that touch, a
/// flush worker, whose flushes may fail, and the registrar, each as the engine has it.
fn prepared(pin: Pin, trouble: Trouble) {
    let len = 3 * TOUCH_UNIT + TOUCH_UNIT / 2;
    let buffer = Arc::new(HostBuffer::reserve(len, 2 * TOUCH_UNIT, false).unwrap());
    let touch = || {
        let buffer = buffer.clone();
        move || {
            let short = || trouble == Trouble::Touching && thread_rng().gen_bool(0.2);
            while !short() {
                if trouble == Trouble::Resting && thread_rng().gen_bool(0.3) {
                    buffer.rest(true);
                    thread::yield_now();
                    buffer.rest(false);
                }
                let Claim::Unit(unit) = buffer.claim() else { return };
                if short() {
                    break;
                }
                buffer.touch(&unit, TouchMethod::Write(TOUCH_UNIT as usize)).unwrap();
            }
            buffer.give_up();
        }
    };
    let flush = {
        let buffer = buffer.clone();
        move || {
            for extent in flushes().into_iter().take(thread_rng().gen_range(0..=4)) {
                buffer.writing(&[extent]);
                thread::yield_now();
                if thread_rng().gen_bool(0.5) {
                    buffer.written(&[extent]);
                } else {
                    buffer.not_written(&[extent]);
                }
            }
        }
    };
    let register = {
        let buffer = buffer.clone();
        move || {
            while let Some(chunk) = buffer.registrations().await_next(pin) {
                let Some(registration) = buffer.registrations().begin(chunk) else { continue };
                thread::yield_now();
                assert!(!buffer.registrations().has(buffer.chunks().bytes(chunk).start));
                if trouble == Trouble::Registering && thread_rng().gen_bool(0.5) {
                    if thread_rng().gen_bool(0.5) {
                        registration.end(false);
                    }
                    return;
                }
                registration.end(true);
            }
        }
    };
    let mut threads = vec![
        thread::spawn(touch()),
        thread::spawn(touch()),
        thread::spawn(flush),
        thread::spawn(register),
    ];
    if trouble == Trouble::Stop {
        let buffer = buffer.clone();
        threads.push(thread::spawn(move || buffer.stop()));
    }
    for thread in threads {
        thread.join().unwrap();
    }
    if matches!(trouble, Trouble::Flushes | Trouble::Resting) {
        assert_eq!(buffer.touched_bytes(), len, "pages that nobody makes");
        assert_eq!(buffer.registrations().bytes(), len, "chunks that nobody registers");
    }
}

/// Catches pages that nobody makes after a flush that failed, and a registrar or a touching thread
/// that waits although all is done: nobody stops them here.
#[test]
fn preparation_comes_to_its_end_beside_flushes_that_fail() {
    for pin in [Pin::Chunked, Pin::Serial] {
        shuttle::check_random(move || prepared(pin, Trouble::Flushes), ITERATIONS);
    }
}

/// Catches a registrar that waits for pages which the touching threads have given up, at whatever
/// moment they do.
#[test]
fn pages_given_up_keep_nobody_waiting() {
    for pin in [Pin::Chunked, Pin::Serial] {
        shuttle::check_random(move || prepared(pin, Trouble::Touching), ITERATIONS);
    }
}

/// Catches a registrar that is done while the touching threads only rest, or that waits for them
/// when they go on.
#[test]
fn a_rest_of_those_who_touch_comes_to_its_end() {
    for pin in [Pin::Chunked, Pin::Serial] {
        shuttle::check_random(move || prepared(pin, Trouble::Resting), ITERATIONS);
    }
}

/// Catches a touching thread that waits for ever after a registration or its thread has failed.
#[test]
fn a_registration_that_fails_keeps_nobody_waiting() {
    for pin in [Pin::Chunked, Pin::Serial] {
        shuttle::check_random(move || prepared(pin, Trouble::Registering), ITERATIONS);
    }
}

/// Catches a wait that the stop does not end.
#[test]
fn a_stop_ends_all_preparation() {
    for pin in [Pin::Chunked, Pin::Serial] {
        shuttle::check_random(move || prepared(pin, Trouble::Stop), ITERATIONS);
    }
}

/// Two threads touch by need, as the engine has it, beside flushes that may fail and regions that
/// are protected meanwhile; a stop ends them when what is needed has its pages. Catches a thread
/// that sleeps through a need that has grown, and one that the stop does not wake up.
#[test]
fn touching_by_need_comes_to_what_is_needed() {
    shuttle::check_random(touched_by_need, ITERATIONS);
}

fn touched_by_need() {
    let buffer = HostBuffer::reserve(4 * TOUCH_UNIT, TOUCH_UNIT, false).unwrap();
    let buffer = Arc::new(buffer.by_need());
    let touch = |buffer: Arc<HostBuffer>| {
        move || loop {
            match buffer.claim() {
                Claim::Unit(unit) => {
                    buffer.touch(&unit, TouchMethod::Write(TOUCH_UNIT as usize)).unwrap();
                }
                Claim::Enough => {
                    buffer.await_need(Duration::ZERO);
                }
                Claim::Nothing => return,
            }
        }
    };
    let flush = |buffer: Arc<HostBuffer>| {
        move || {
            for first in 0..2 {
                let extent = Extent { offset: first * TOUCH_UNIT / 2, len: TOUCH_UNIT };
                buffer.writing(&[extent]);
                thread::yield_now();
                if thread_rng().gen_bool(0.5) {
                    buffer.written(&[extent]);
                } else {
                    buffer.not_written(&[extent]);
                }
            }
        }
    };
    let protect = |buffer: Arc<HostBuffer>| move || buffer.expect(TOUCH_UNIT / 8);
    let work = [thread::spawn(flush(buffer.clone())), thread::spawn(protect(buffer.clone()))];
    let touching = [thread::spawn(touch(buffer.clone())), thread::spawn(touch(buffer.clone()))];
    for thread in work {
        thread.join().unwrap();
    }
    // Eight checkpoints, and as much as is held again: all four units.
    while buffer.touched_bytes() < 4 * TOUCH_UNIT {
        thread::yield_now();
    }
    buffer.stop();
    for thread in touching {
        thread.join().unwrap();
    }
}

/// Pages are given back while flushes write, others touch by need and, with a device that has
/// turned up, chunks are registered: each as the engine has it, with the room of the catalog under
/// a lock of its own. Catches pages that go under a checkpoint, whose bytes are lost, or under a
/// registration, whose device would write to nobody's memory; and a wait for pages that are going.
#[test]
fn pages_go_back_beside_flushes() {
    for device in [false, true] {
        shuttle::check_random(move || given_back(device), ITERATIONS);
    }
}

fn given_back(device: bool) {
    let units = 4;
    let buffer = HostBuffer::reserve(units * TOUCH_UNIT, TOUCH_UNIT, false).unwrap();
    let buffer = Arc::new(buffer.by_need());
    let mut space = Space::new(TOUCH_UNIT);
    space.grow(buffer.len());
    space.pack(true);
    let space = Arc::new(Mutex::new(space));
    let touch = {
        let (buffer, space) = (buffer.clone(), space.clone());
        move || loop {
            let held = {
                let space = space.lock().unwrap();
                space.capacity() - space.free()
            };
            buffer.hold(held);
            match buffer.claim() {
                Claim::Unit(unit) => {
                    buffer.touch(&unit, TouchMethod::Write(TOUCH_UNIT as usize)).unwrap();
                }
                Claim::Enough => {
                    buffer.await_need(Duration::ZERO);
                }
                Claim::Nothing => return,
            }
        }
    };
    let flush = |value: u8| {
        let (buffer, space) = (buffer.clone(), space.clone());
        move || {
            for round in 0..2 {
                let Some(extents) = space.lock().unwrap().allocate(TOUCH_UNIT) else { return };
                let at = buffer.address(extents[0].offset);
                buffer.writing(&extents);
                // SAFETY: the room is this thread's.
                unsafe { at.write(value + round) };
                thread::yield_now();
                buffer.written(&extents);
                thread::yield_now();
                // SAFETY: as above.
                assert_eq!(unsafe { at.read() }, value + round, "the pages of a checkpoint went");
                space.lock().unwrap().release(&extents);
            }
        }
    };
    let give_back = {
        let (buffer, space) = (buffer.clone(), space.clone());
        move || {
            for _ in 0..3 {
                let unit = {
                    let mut space = space.lock().unwrap();
                    let found = space.holes().find_map(|free| buffer.last_idle(free));
                    found.filter(|unit| {
                        space.take(&[Extent { offset: unit.start, len: unit.end - unit.start }])
                    })
                };
                let Some(unit) = unit else { continue };
                // The steps of `HostBuffer::give_back`, between which others may come.
                if buffer.giving_back(&unit) {
                    thread::yield_now();
                    let bytes = unit.start as usize..unit.end as usize;
                    buffer.mapping().discard(bytes).unwrap();
                    buffer.given_back(&unit);
                }
                let len = unit.end - unit.start;
                space.lock().unwrap().release(&[Extent { offset: unit.start, len }]);
            }
        }
    };
    let register = {
        let buffer = buffer.clone();
        move || {
            if !device {
                return;
            }
            buffer.want_all();
            while let Some(chunk) = buffer.registrations().await_next(Pin::Chunked) {
                let Some(registration) = buffer.registrations().begin(chunk) else { continue };
                let touched = buffer.untouched(&[Extent {
                    offset: buffer.chunks().bytes(chunk).start,
                    len: TOUCH_UNIT,
                }]);
                assert_eq!(touched, 0, "a chunk without all of its pages");
                // A byte that no checkpoint has stands for the pages that the driver knows.
                let last = buffer.address(buffer.chunks().bytes(chunk).end - 1);
                // SAFETY: within the buffer; only this thread uses that byte.
                unsafe { last.write(7) };
                thread::yield_now();
                registration.end(true);
                thread::yield_now();
                // SAFETY: as above.
                assert_eq!(unsafe { last.read() }, 7, "pages went that are registered");
            }
            for chunk in buffer.registrations().all() {
                // SAFETY: as above.
                let byte = unsafe { buffer.address(buffer.chunks().bytes(chunk).end - 1).read() };
                assert_eq!(byte, 7, "pages went that are registered");
            }
        }
    };
    let work = [
        thread::spawn(flush(1)),
        thread::spawn(flush(11)),
        thread::spawn(give_back),
        thread::spawn(register),
    ];
    let touching = thread::spawn(touch);
    for thread in work {
        thread.join().unwrap();
    }
    buffer.stop();
    touching.join().unwrap();
    if device {
        assert_eq!(buffer.registrations().bytes(), buffer.len(), "chunks that nobody registers");
    }
}
