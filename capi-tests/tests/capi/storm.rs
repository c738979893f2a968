//! Storms: job after job goes on where the one before was killed, at any moment, also while it starts or restores. A few
//! kills each time, 500 of each kind before a release, and any number by `VELOC_KILLS`.

use std::collections::BTreeSet;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::thread::sleep;
use std::time::{Duration, Instant};

use capi_tests::backends::{backends, kill_backends, until, wait_for_backends, MARK};
use capi_tests::checkpoint_file::parse;
use capi_tests::depth::times;
use capi_tests::job::{files, Job};
use capi_tests::mpi::Mpi;
use capi_tests::program::{mpi_program, staged};
use capi_tests::random::Random;
use capi_tests::run::{Run, Running};

use crate::mpi::every_mpi;

const BOTH: &str = "scratch = DIR/scratch\npersistent = DIR/persistent\nmax_versions = 3\n";

/// So many kills for each of some kinds.
fn kills(few: u64, kinds: usize) -> u64 {
    times("VELOC_KILLS", few, 500).div_ceil(kinds as u64)
}

/// What is left when all jobs have ended: whole files.
fn nothing_is_half(job: &Job) {
    wait_for_backends(job);
    for directory in [job.scratch(), job.persistent()] {
        for (name, bytes) in files(&directory) {
            assert!(!name.starts_with('.'), "{name} is left in {}", directory.display());
            let _ = parse(&bytes).unwrap_or_else(|why| panic!("{name} is half a file: {why}"));
        }
    }
}

/// Job after job of the program `durable`, each killed by `kill`. Each restores a version that was complete, as a whole,
/// and no older than any for which `promise` was printed. If that `consumes` versions, all that were ever restored may go,
/// by the job or as the version so many numbers below one that it takes. Returns the newest in the end.
fn storm(
    what: &str,
    job: &Job,
    kills: u64,
    (arguments, consumes): (&str, Option<u64>),
    promise: &str,
    mut kill: impl FnMut(&Running, &mut Random),
) -> u64 {
    assert!(["taken", "durable"].contains(&promise), "{promise} is never printed");
    let mut random = Random::seeded(what);
    // The newest version that may not be lost, and the newest that there can be.
    let (mut kept, mut taken) = (0, 0);
    let (mut restores, mut consumed) = (0, BTreeSet::new());
    // Up to this one versions were read to make room, by a job that came further than what it has left.
    let mut spent = 0;
    for round in 0..kills {
        let group = |command: &mut std::process::Command| {
            let _ = command.process_group(0);
        };
        let mut running = job.run("killed_job", &format!("go-on {arguments}")).with(group).start();
        // However slow the machine, every other job gets that far.
        if round % 2 == 0 {
            running.wait_for_line("goes on");
        }
        sleep(Duration::from_micros(random.below(60_000)));
        kill(&running, &mut random);
        let ended = running.end();
        let texts = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.status.signal(), Some(libc::SIGKILL), "{what}, round {round}: {texts}");
        if let Some(&restored) = ended.figures("restored").first() {
            let possible = kept..=taken + 1;
            assert!(possible.contains(&restored), "{what}: {restored}, not {possible:?} ({round})");
            (restores, taken) = (restores + 1, restored);
        }
        // Killed before it says so, it may have restored what it has found.
        if let Some((below, &found)) = consumes.zip(ended.figures("found").first()) {
            consumed.insert(found);
            // They may go to make room for the next one, which was not taken yet.
            spent = spent.min(found);
            let stays = |version: &u64| {
                !consumed.contains(version) && *version > spent && version + below > found + 1
            };
            kept = (1..found).rev().find(stays).unwrap_or(0);
        }
        taken = ended.figures("taken").last().copied().unwrap_or(taken);
        if let Some(below) = consumes {
            spent = spent.max((taken + 1).saturating_sub(below));
        }
        kept = ended.figures(promise).last().copied().unwrap_or(kept);
    }
    // The last backend may still have something to write.
    let last = job.run("killed_job", &format!("read {arguments}")).succeed();
    let newest = last.figures("restored").first().copied().unwrap_or(0);
    assert!((kept..=taken + 1).contains(&newest), "{what}: {newest}, not {kept} to {taken}");
    println!("{what}: killed {kills} times, {restores} restores, {newest} versions");
    newest
}

/// A job is killed together with its backend, in any order.
#[test]
fn jobs_and_their_backends() {
    let kinds = [
        "mode = async\nhost_cache_size = 2M\n",
        "mode = async\nchksum = true\nmeta = DIR/meta\n",
        "mode = async\nhost_capture = fork\nhost_cache_size = 8M\n",
        "mode = async\nhost_capture = protect\nhost_cache_size = 8M\n",
        "mode = async\nincremental = true\nincremental_chain = 3\nhost_cache_size = 8M\n",
        "mode = sync\n",
    ];
    for kind in kinds {
        let what = format!("storm::jobs_and_their_backends {kind:?}");
        let job = Job::new(&format!("{kind}{BOTH}"));
        let both = |running: &Running, random: &mut Random| {
            let pause = Duration::from_micros(random.below(3_000));
            if random.below(2) == 0 {
                kill_backends(&job);
                sleep(pause);
                running.signal(libc::SIGKILL);
            } else {
                running.signal(libc::SIGKILL);
                sleep(pause);
                kill_backends(&job);
            }
        };
        let newest = storm(&what, &job, kills(40, kinds.len()), ("", None), "durable", both);
        wait_for_backends(&job);
        // Killed processes, and what they had just forked, may have had files open until now.
        let after = job.run("killed_job", "read").succeed();
        assert_eq!(after.figures("restored").first().copied().unwrap_or(0), newest);
        nothing_is_half(&job);
    }
}

/// The group of processes is killed, as launchers do it; the backend lives. Catches a version whose bytes are nowhere
/// and that is named, one that goes with a process that copied it, and an older one that goes with the newer.
#[test]
fn handed_over_in_every_way() {
    let ways = [("copy", "taken"), ("fork", "taken"), ("protect", "durable"), ("auto", "taken")];
    for (way, promise) in ways {
        for (kept, keep) in [("ephemeral = true\n", 4), (BOTH, 0)] {
            let what = format!("storm::handed_over_in_every_way {way} {kept:?}");
            let job = Job::new("");
            let name = format!("storm-{}-{}", std::process::id(), job.path("").display());
            let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
            job.configure(&format!(
                "mode = async\n{kept}host_capture = {way}\nhost_cache_size = 80M\nhand_over = {name}\n"
            ));
            let group = |running: &Running, _: &mut Random| running.signal_group(libc::SIGKILL);
            let arguments = format!("bytes=9000000 keep={keep}");
            let consumes = Some(keep).filter(|keep| *keep > 0);
            let _ = storm(&what, &job, kills(24, 8), (&arguments, consumes), promise, group);
            let free = || {
                let backend = Run::new(&staged().bin().join("veloc-backend"));
                backend.env(MARK, job.path("")).args(&format!("drop {name}")).end()
            };
            // It frees nothing while the last job's end is looked at, and ends when nobody has called it for half a second.
            let mut freed: Option<Instant> = None;
            until("the backend ends", || {
                if freed.is_none_or(|freed| freed.elapsed() > Duration::from_secs(2)) {
                    let _ = free();
                    freed = Some(Instant::now());
                }
                backends(&job).is_empty()
            });
            nothing_is_half(&job);
        }
    }
}

/// Two processes of MPI that take two version numbers in turn, killed one after the other. Catches processes that are
/// restored from two steps, and an older version that goes before the one that takes its number is complete.
#[test]
fn ranks_that_reuse_numbers() {
    for mpi in every_mpi() {
        for (mode, numbers) in [("sync", 2), ("async", 2), ("async", 3)] {
            let job = Job::new(&format!(
                "mode = {mode}\nhost_cache_size = 8M\nscratch = DIR/scratch\npersistent = DIR/persistent\n"
            ));
            if !turns(mpi, &job, numbers, kills(12, 3)) {
                return;
            }
        }
    }
}

/// False: this MPI is not here.
fn turns(mpi: &Mpi, job: &Job, numbers: u64, kills: u64) -> bool {
    let what = format!("storm::ranks_that_reuse_numbers {} {numbers}", mpi.compiler);
    let mut random = Random::seeded(&what);
    // The newest step that all have taken, and the newest of them with the highest number.
    let (mut taken, mut highest, mut restores) = (0, 0, 0);
    let run = |more: &str| {
        let run = mpi.start(2)?.arg(mpi_program(mpi.compiler, "../mpi/reused_versions.c"));
        let run = run.arg(job.path("veloc.cfg"));
        Some(run.env(MARK, job.path("")).args(&format!("numbers={numbers} {more}")))
    };
    // At most one step was under way, so of the last numbers all others are complete. The highest number is restored:
    // where its last copies, never complete in persistent, are of different steps, that is an older step from there.
    let mut check = |restored: u64, taken: u64, highest: u64| {
        let least = taken.saturating_sub(numbers - 1);
        let is_highest = restored % numbers == numbers - 1;
        let possible = if is_highest { least.min(highest) } else { least }..=taken + 1;
        assert!(possible.contains(&restored), "{what}: {restored}, not {possible:?}");
        restores += 1;
    };
    for round in 0..kills {
        let Some(run) = run("") else { return false };
        let mut running = run.start();
        let mut ranks = Vec::new();
        until("both processes say their number", || {
            ranks = running.figures("pid");
            ranks.len() == 2 || running.has_ended()
        });
        if round % 2 == 0 {
            let goes_on = |running: &Running| !running.figures("taken").is_empty();
            until("it takes a step", || goes_on(&running) || running.has_ended());
        }
        sleep(Duration::from_micros(random.below(60_000)));
        if random.below(2) == 0 {
            ranks.reverse();
        }
        for rank in ranks {
            // SAFETY: processes of this run, which is not waited for yet.
            unsafe { libc::kill(rank as libc::pid_t, libc::SIGKILL) };
            sleep(Duration::from_micros(random.below(5_000)));
        }
        let ended = running.end();
        assert!(
            !ended.status.success() && !ended.stderr.contains("reused_versions.c"),
            "{}",
            ended.stderr
        );
        if let Some(&restored) = ended.figures("restored").first() {
            check(restored, taken, highest);
            taken = restored;
        }
        for &step in &ended.figures("taken") {
            taken = step;
            if step % numbers == numbers - 1 {
                highest = step;
            }
        }
    }
    let Some(last) = run("last=1") else { return false };
    let last = last.succeed();
    check(last.figure("restored"), taken, highest);
    println!("{what}: killed {kills} times, {restores} restores, {taken} steps");
    nothing_is_half(job);
    true
}
