//! Jobs that are killed at any moment, and the jobs after them.

use std::thread;
use std::time::Duration;

use capi_tests::backends::{kill_backends, wait_for_backends};
use capi_tests::checkpoint_file::parse;
use capi_tests::depth::is_all;
use capi_tests::ground::Ground;
use capi_tests::job::{files, names, Job};
use capi_tests::random::Random;
use capi_tests::run::Run;

fn killed_at_any_moment(what: &str, configuration: &str, kept: &str, persistent_alone: bool) {
    let job = Job::new(configuration);
    killed(what, &job, kept, persistent_alone, &|run| run, false);
}

/// No version for which `kept` was printed is lost or damaged; no half written file is offered; the
/// next job of the rank removes the rest of the dead one. The runs are made `on` something; `both`:
/// backends are killed as well, right before.
fn killed(
    what: &str,
    job: &Job,
    kept: &str,
    persistent_alone: bool,
    on: &dyn Fn(Run) -> Run,
    both: bool,
) {
    let mut random = Random::seeded(what);
    let mut first: u64 = 1;
    let kills = if is_all() { 8 } else { 4 };
    for round in 0..kills {
        let mut writer = on(job.run("killed_job", &format!("write first={first}"))).start();
        if round % 2 == 0 {
            writer.wait_for_line(&format!("durable {}", first.next_multiple_of(3)));
        }
        thread::sleep(Duration::from_micros(random.below(120_000)));
        if both {
            kill_backends(job);
        }
        writer.signal(libc::SIGKILL);
        let ended = writer.end();
        let promised = ended.figures(kept).last().copied();
        assert!(promised.is_some() || round % 2 == 1, "no line \"{kept}\"");
        let durable = promised.unwrap_or(first - 1);

        let directories = [job.scratch(), job.persistent()];
        for (name, bytes) in directories.iter().flat_map(|directory| files(directory)) {
            if !name.starts_with('.') {
                let _ = parse(&bytes).unwrap_or_else(|why| panic!("{name} is half a file: {why}"));
            }
        }
        if persistent_alone {
            // A node that has lost its scratch has lost its backend as well.
            wait_for_backends(job);
            let _ = std::fs::remove_dir_all(job.scratch());
        }
        let reader = job.run("killed_job", "read").succeed();
        let restored = reader.figures("restored");
        for version in 1..=durable {
            assert!(restored.contains(&version), "version {version} was {kept} and is lost");
        }
        if both {
            wait_for_backends(job);
            // Killed backends, and what they had just forked, may have had files open until now.
            job.run("killed_job", "read").succeed();
        }
        for directory in &directories {
            let left: Vec<_> =
                names(directory).into_iter().filter(|n| n.starts_with('.')).collect();
            assert!(left.is_empty(), "leftovers in {}: {left:?}", directory.display());
        }
        first = restored.first().copied().unwrap_or(0) + 1;
    }
    println!("{what}: killed {kills} times, {} versions", first - 1);
}

/// The backend keeps all checkpoints: none need have been waited for.
#[test]
fn async_jobs() {
    killed_at_any_moment(
        "kill::async_jobs",
        "mode = async\nscratch = DIR/scratch\nhost_cache_size = 2M\n",
        "taken",
        false,
    );
}

/// The backend waits for the process that copies.
#[test]
fn async_jobs_whose_memory_a_forked_process_copies() {
    killed_at_any_moment(
        "kill::async_jobs_whose_memory_a_forked_process_copies",
        "mode = async\nhost_capture = fork\nscratch = DIR/scratch\nhost_cache_size = 8M\n",
        "taken",
        false,
    );
}

#[test]
fn async_jobs_whose_memory_is_protected() {
    killed_at_any_moment(
        "kill::async_jobs_whose_memory_is_protected",
        "mode = async\nhost_capture = protect\nscratch = DIR/scratch\nhost_cache_size = 8M\n",
        "durable",
        false,
    );
}

#[test]
fn async_jobs_without_a_backend() {
    killed_at_any_moment(
        "kill::async_jobs_without_a_backend",
        "mode = async\nthreaded = true\nscratch = DIR/scratch\nhost_cache_size = 2M\n",
        "durable",
        false,
    );
}

#[test]
fn async_jobs_with_persistent() {
    killed_at_any_moment(
        "kill::async_jobs_with_persistent",
        "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\nhost_cache_size = 2M\n",
        "taken",
        true,
    );
}

#[test]
fn sync_jobs() {
    let sync = "mode = sync\nscratch = DIR/scratch\n";
    killed_at_any_moment("kill::sync_jobs", sync, "taken", false);
}

/// Scratch has room for a few checkpoints and is lost with the job: the others go to persistent
/// alone, by the job or by its backend, and if that is killed too, no checkpoint that was waited
/// for is lost.
#[test]
fn jobs_on_a_full_scratch() {
    let both = "scratch = DIR/scratch\npersistent = DIR/persistent\n";
    for (mode, kept, kills_both) in [
        ("mode = async\nhost_cache_size = 2M\n", "taken", false),
        ("mode = async\nhost_cache_size = 2M\n", "durable", true),
        ("mode = sync\n", "taken", false),
    ] {
        let job = Job::new(&format!("{mode}{both}"));
        let Some(ground) = Ground::mounted(&job, "scratch", 1 << 20) else { return };
        let what = format!("kill::jobs_on_a_full_scratch {kept}");
        killed(&what, &job, kept, true, &|run| ground.under(run), kills_both);
    }
}
