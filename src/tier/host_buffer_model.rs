//! Leases and registrations of the host buffer, model-checked.
//!
//! Run with `cargo test --features model-check --lib model`.
#![allow(clippy::unwrap_used, clippy::panic)] // A test stops at the first fault.

use std::sync::Arc;

use shuttle::sync::Mutex;
use shuttle::thread;

use super::host_buffer::{HostBuffer, TouchMethod, TOUCH_UNIT};
use crate::policy::register::Pin;
use crate::tier::space::Extent;

const ITERATIONS: usize = 3_000;

/// Copies that take leases as a flush does (try, give up what is held, wait) beside touching and
/// registration, then a stop at any moment. Catches a registration while a copy runs, a copy that
/// waits for a registration that waits for it, and a wait that the stop does not end.
fn copies_beside_registration(pin: Pin) {
    let buffer = Arc::new(HostBuffer::reserve(2 * TOUCH_UNIT, TOUCH_UNIT, false).unwrap());
    let copying = Arc::new(Mutex::new([0i32; 2]));
    let copier = |first: usize| {
        let (buffer, copying) = (buffer.clone(), copying.clone());
        thread::spawn(move || {
            let mut held = Vec::new();
            for chunk in [first, 1 - first, first] {
                let at = chunk as u64 * TOUCH_UNIT;
                let lease = match buffer.try_lease(at) {
                    Some(lease) => lease,
                    None => {
                        for (chunk, _) in held.drain(..) {
                            copying.lock().unwrap()[chunk] -= 1;
                        }
                        buffer.lease(at)
                    }
                };
                copying.lock().unwrap()[chunk] += 1;
                held.push((chunk, lease));
            }
            for (chunk, _) in held.drain(..) {
                copying.lock().unwrap()[chunk] -= 1;
            }
        })
    };
    let copiers = [copier(0), copier(1)];
    let toucher = {
        let buffer = buffer.clone();
        thread::spawn(move || {
            buffer.written(&[Extent { offset: 0, len: TOUCH_UNIT }]);
            while let Some(unit) = buffer.claim() {
                buffer.touch(&unit, TouchMethod::Write(4096)).unwrap();
            }
        })
    };
    let registrar = {
        let (buffer, copying) = (buffer.clone(), copying.clone());
        thread::spawn(move || {
            while let Some(chunk) = buffer.next_registration(pin) {
                if !buffer.close(chunk) {
                    return;
                }
                assert_eq!(copying.lock().unwrap()[chunk], 0, "registered under a copy");
                thread::yield_now();
                assert_eq!(copying.lock().unwrap()[chunk], 0, "registered under a copy");
                buffer.settle(chunk, true);
            }
        })
    };
    let stopper = {
        let buffer = buffer.clone();
        thread::spawn(move || {
            thread::yield_now();
            buffer.stop();
        })
    };
    for thread in copiers {
        thread.join().unwrap();
    }
    for thread in [toucher, registrar, stopper] {
        thread.join().unwrap();
    }
}

#[test]
fn chunked_registration_and_copies_keep_apart() {
    shuttle::check_random(|| copies_beside_registration(Pin::Chunked), ITERATIONS);
}

#[test]
fn serial_registration_and_copies_keep_apart() {
    shuttle::check_random(|| copies_beside_registration(Pin::Serial), ITERATIONS);
}
