//! Several processes register their host buffers one after the other, and one of them dies or stops
//! while it holds the node lock. The others must come to their end.
//!
//! They wait for the lock for a bounded time; a wait without end would show here.

use capi_tests::job::Job;
use capi_tests::run::Running;

const CHUNKED: &str =
    "mode = async\nephemeral = true\ngpu_cache_size = 8M\nhost_cache_size = 32M\n\
                       pin = chunked\npin_chunk_size = 4M\n";
const SERIAL: &str = "mode = async\nephemeral = true\ngpu_cache_size = 8M\nhost_cache_size = 32M\n\
                      pin = serial\n";

/// A process whose registration, during which it holds the node lock, takes longer than any test.
/// It takes no checkpoints: its own copies would wait for the registration.
fn stuck(job: &Job) -> Running {
    let mut stuck = job
        .run_device("registration", "rank=0 versions=0")
        .env("SOFTCUDA_DELAY", "cuMemHostRegister_v2=1000000000")
        .start();
    stuck.wait_for_line("touched");
    stuck
}

fn others(job: &Job) -> Vec<Running> {
    (1..4)
        .map(|rank| {
            job.run_device("registration", &format!("rank={rank}"))
                .env("SOFTCUDA_DELAY", "cuMemHostRegister_v2=20000")
                .start()
        })
        .collect()
}

fn others_finish(after: impl Fn(&Running)) {
    for configuration in [SERIAL, CHUNKED] {
        let job = Job::new(configuration);
        let stuck = stuck(&job);
        let others = others(&job);
        after(&stuck);
        for other in others {
            let _ = other.end().succeeded();
        }
    }
}

#[test]
fn one_is_killed_in_its_turn() {
    others_finish(|stuck| stuck.signal(libc::SIGKILL));
}

#[test]
fn one_is_stopped_in_its_turn() {
    others_finish(|stuck| stuck.signal(libc::SIGSTOP));
}

/// The process lives, but its driver call does not return.
#[test]
fn one_is_stuck_in_its_turn() {
    others_finish(|_| {});
}

#[test]
fn all_take_their_turns() {
    for configuration in [SERIAL, CHUNKED] {
        let job = Job::new(configuration);
        for other in others(&job) {
            let _ = other.end().succeeded();
        }
    }
}
