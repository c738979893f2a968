//! Keeps the processors from going to sleep.
//!
//! The streams of the software device are threads, and a processor that sleeps, a virtual one above
//! all, takes up to 50 us to wake up for a thread: many times what is to be measured. Threads that
//! run only when nobody else wants to keep them awake, and give way at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use os::affinity;

/// Keeps the processors awake until it is dropped.
#[derive(Debug)]
pub(super) struct Awake {
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    /// Starts one thread for each processor.
    pub(super) fn start() -> Result<Awake> {
        let over = Arc::new(AtomicBool::new(false));
        let mut awake = Awake { over: over.clone(), threads: Vec::new() };
        for _ in 0..affinity::usable_cpus() {
            let over = over.clone();
            let spin = move || {
                if step_back() {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                }
            };
            let thread = thread::Builder::new().name("awake".to_owned()).spawn(spin);
            awake.threads.push(thread.context("starting a thread")?);
        }
        Ok(awake)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread only spins, so it has no result.
            let _ = thread.join();
        }
    }
}

/// Makes the calling thread one that runs only when nobody else wants to.
fn step_back() -> bool {
    // SAFETY: a struct of integers, for which zeros are the one valid priority of this policy.
    let parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    // SAFETY: 0 is the calling thread, and the pointer is to a local.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &parameters) == 0 }
}
