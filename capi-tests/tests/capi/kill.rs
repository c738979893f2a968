//! Jobs that are killed at any moment, and the jobs after them.

use std::os::unix::process::ExitStatusExt as _;
use std::thread;
use std::time::Duration;

use capi_tests::backends::{kill_backends, wait_for_backends};
use capi_tests::checkpoint_file::parse;
use capi_tests::depth::{is_all, times};
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
        let mut writer = on(job.run("durable", &format!("write first={first}"))).start();
        if round % 2 == 0 {
            writer.wait_for_line(&format!("durable {}", first.next_multiple_of(3)));
        }
        thread::sleep(Duration::from_micros(random.below(120_000)));
        if both {
            kill_backends(job);
        }
        writer.signal(libc::SIGKILL);
        let ended = writer.end();
        let durable = ended.figures(kept).last().copied().unwrap_or(first - 1);

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
        let reader = job.run("durable", "read").succeed();
        let restored = reader.figures("restored");
        for version in 1..=durable {
            assert!(restored.contains(&version), "version {version} was {kept} and is lost");
        }
        if both {
            wait_for_backends(job);
            // Killed backends, and what they had just forked, may have had files open until now.
            job.run("durable", "read").succeed();
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

/// Job after job goes on where the one before was killed, together with its backend, in any order
/// and at any moment, also while it starts or restores. It restores a version that was complete, as
/// a whole, and no older than any version that was waited for.
fn storm(what: &str, configuration: &str, kills: u64) {
    let job = Job::new(configuration);
    let mut random = Random::seeded(what);
    // The newest version that may not be lost, and the newest that there can be.
    let (mut kept, mut taken) = (0, 0);
    let mut restores = 0;
    for round in 0..kills {
        let mut running = job.run("durable", "go-on").start();
        // However slow the machine, every other job gets that far.
        if round % 2 == 0 {
            running.wait_for_line("goes on");
        }
        thread::sleep(Duration::from_micros(random.below(60_000)));
        let pause = Duration::from_micros(random.below(3_000));
        if random.below(2) == 0 {
            kill_backends(&job);
            thread::sleep(pause);
            running.signal(libc::SIGKILL);
        } else {
            running.signal(libc::SIGKILL);
            thread::sleep(pause);
            kill_backends(&job);
        }
        let ended = running.end();
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{}{}", ended.stdout, ended.stderr);
        if let Some(&restored) = ended.figures("restored").first() {
            let possible = kept..=taken + 1;
            assert!(possible.contains(&restored), "{what}: {restored}, not {possible:?} ({round})");
            (restores, taken) = (restores + 1, restored);
        }
        taken = ended.figures("taken").last().copied().unwrap_or(taken);
        kept = ended.figures("durable").last().copied().unwrap_or(kept);
    }
    // The last backend may still have something to write.
    let last = job.run("durable", "read").succeed();
    let newest = last.figures("restored").first().copied().unwrap_or(0);
    assert!((kept..=taken + 1).contains(&newest), "{what}: {newest}, not {kept} to {taken}");
    wait_for_backends(&job);
    // Killed processes, and what they had just forked, may have had files open until now.
    let after = job.run("durable", "read").succeed();
    assert_eq!(after.figures("restored").first().copied().unwrap_or(0), newest);
    wait_for_backends(&job);
    for directory in [job.scratch(), job.persistent()] {
        for (name, bytes) in files(&directory) {
            assert!(!name.starts_with('.'), "{name} is left in {}", directory.display());
            let _ = parse(&bytes).unwrap_or_else(|why| panic!("{name} is half a file: {why}"));
        }
    }
    println!("{what}: killed {kills} times, {restores} restores, {newest} versions");
}

#[test]
fn a_storm() {
    let both = "scratch = DIR/scratch\npersistent = DIR/persistent\nmax_versions = 3\n";
    let kinds = [
        "mode = async\nhost_cache_size = 2M\n",
        "mode = async\nchksum = true\nmeta = DIR/meta\n",
        "mode = async\nhost_capture = fork\nhost_cache_size = 8M\n",
        "mode = async\nhost_capture = protect\nhost_cache_size = 8M\n",
        "mode = async\nincremental = true\nincremental_chain = 3\nhost_cache_size = 8M\n",
        "mode = sync\n",
    ];
    let each = times("VELOC_KILLS", 40, 200).div_ceil(kinds.len() as u64);
    for kind in kinds {
        storm(&format!("kill::a_storm {kind:?}"), &format!("{kind}{both}"), each);
    }
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
