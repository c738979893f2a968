//! Adjoint computations that `VELOC_Adjoint_run` drives, killed at many places: the gradient is
//! that of an undisturbed run, to the last bit.
//!
//! The example (`examples/hager`) is the program: problem 4.1 of Walther and Narayanan.

use std::time::Duration;

use capi_tests::backends::wait_for_backends;
use capi_tests::depth::is_all;
use capi_tests::job::{files, names, Job};
use capi_tests::random::Random;
use capi_tests::run::Ended;

mod lost;
mod ranks;
mod verified;

const ASYNC: &str = "mode = async\nscratch = DIR/scratch\n";
const SYNC: &str = "mode = sync\nscratch = DIR/scratch\n";

/// The lines with the adjoint and the derivatives.
fn result(ended: &Ended) -> Vec<String> {
    let is_one = |line: &&str| line.starts_with("lambda ") || line.starts_with("slope ");
    ended.stdout.lines().filter(is_one).map(Into::into).collect()
}

/// How far the adjoint of the first state is from the analytic one.
fn error(ended: &Ended) -> f64 {
    let line = result(ended).remove(0);
    line.rsplit(' ').next().unwrap().parse::<f64>().unwrap().abs()
}

fn killed_at(job: &Job, plan: &str, steps: u64) -> Ended {
    job.run("hager", plan).env("DIE_AT", steps.to_string()).end()
}

/// The paper's own test: 700,000 steps (a fifth of them each time), and breakdowns everywhere.
#[test]
fn breakdowns_everywhere() {
    let part = if is_all() { 1 } else { 5 };
    let (steps, distance) = (700_000 / part, 100_000 / part);
    let plan = format!("{steps} 10 {distance} {}", 10_000 / part);
    let mut random = Random::seeded("sweep::breakdowns_everywhere");
    let reference = {
        let job = Job::new("mode = async\nephemeral = true\n");
        job.run("hager", &plan).succeed()
    };
    assert_eq!(result(&reference).len(), 9, "{}", reference.stdout);
    // The method is of the second order.
    let bound = 1e-11 * (part * part) as f64;
    assert!(error(&reference) < bound, "{}", reference.stdout);
    let whole = reference.figure("computed");

    let job = Job::new(ASYNC);
    // Each time in the first sweep a little farther on: no crash costs more than the distance.
    let mut reached = 0;
    while reached < steps {
        let more = 1 + random.below(2 * distance);
        let ended = killed_at(&job, &plan, more);
        let began = ended.figures("began").first().copied().unwrap_or(reached);
        assert!(began + distance >= reached, "{began} after {reached}");
        reached = began + more;
    }
    // In the reverse sweep, by steps and by time: first by so few steps that however fast the machine is, much is left.
    let mut breakdowns = 0;
    for round in 0..12 {
        let ended = if round < 5 || round % 2 == 0 {
            killed_at(&job, &plan, 1 + random.below(whole / 12))
        } else {
            let running = job.run("hager", &plan).start();
            std::thread::sleep(Duration::from_micros(random.below(300_000)));
            running.signal(libc::SIGKILL);
            running.end()
        };
        if ended.status.success() {
            break;
        }
        breakdowns += 1;
    }
    println!("{breakdowns} breakdowns in the reverse sweep");
    assert!(breakdowns > 4);
    let last = job.run("hager", &plan).succeed();
    assert_eq!(result(&last), result(&reference));
    wait_for_backends(&job);
    assert!(names(&job.scratch()).is_empty(), "{:?}", names(&job.scratch()));
}

/// The guide's program, exactly as printed, killed and started again. Catches a useless guide.
#[test]
fn the_adjoint_of_the_guide() {
    let page = include_str!("../../../docs/guide/adjoint-runs.md");
    let block = |kind: &str| {
        let text = page.split_once(&format!("```{kind}\n")).unwrap().1;
        text.split_once("```").unwrap().0
    };
    let configuration = block("ini").replace("/local/scratch/growth", "DIR/scratch");
    let run = |job: &Job| {
        std::fs::write(job.path("growth.c"), block("c")).unwrap();
        job.run(job.path("growth").to_str().unwrap(), "")
    };
    let undisturbed = run(&Job::new(&configuration)).end();
    assert!(undisturbed.status.success() && undisturbed.stdout.starts_with("0 0x"));
    let job = Job::new(&configuration);
    let mut random = Random::seeded("sweep::the_adjoint_of_the_guide");
    for _ in 0..3 {
        let killed = run(&job).start();
        std::thread::sleep(Duration::from_micros(random.below(400_000)));
        killed.signal(libc::SIGKILL);
        let _ = killed.end();
    }
    assert_eq!(run(&job).end().stdout, undisturbed.stdout);
}

/// Wherever states are kept, and whatever the limits of versions are; several runs in one job. Each
/// run checks every state that it gets, and its result.
#[test]
fn everywhere() {
    let limits = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                  max_versions = 1\nscratch_versions = 1\nmeta = DIR/meta\nchksum = true\n";
    for configuration in [
        ASYNC,
        limits,
        "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n",
        "mode = async\nephemeral = true\n",
        // Five states of 100 KB: some are in no level of memory.
        "mode = async\nscratch = DIR/scratch\nhost_cache_size = 256K\n",
        "mode = async\nephemeral = true\nscratch = DIR/scratch\nhost_cache_size = 256K\n",
    ] {
        let job = Job::new(configuration);
        let ended = job.run("sweep", "runs=3 bytes=100000 verify=1").succeed();
        println!("{configuration}: {} steps", ended.figure("computed"));
        for plan in
            ["steps=1 slots=1 distance=0", "steps=57 slots=1 distance=0 rule=1", "slots=200"]
        {
            job.run("sweep", plan).succeed();
        }
        wait_for_backends(&job);
        for directory in [job.scratch(), job.persistent()] {
            assert_eq!(names(&directory), [""; 0], "{configuration}");
        }
    }
}

#[test]
fn wrong_arguments_change_nothing() {
    for configuration in [ASYNC, "mode = async\nephemeral = true\n"] {
        Job::new(configuration).run("sweep", "misuse=1").succeed();
    }
    let text = "expect=nothing_outlives_the_job";
    Job::new("mode = async\nephemeral = true\n").run("sweep", &format!("stop=50 {text}")).succeed();
}

/// Versions that the limits would remove are there after a crash, whichever process has written
/// them. Catches a backend that keeps the last states alone.
#[test]
fn limits_do_not_reach_what_a_killed_job_has_left() {
    let job = Job::new(&format!(
        "{ASYNC}persistent = DIR/persistent\nmax_versions = 1\nscratch_versions = 1\n"
    ));
    let plan = "20000 12 4000 500";
    let _ = killed_at(&job, plan, 19_999);
    wait_for_backends(&job);
    for directory in [job.scratch(), job.persistent()] {
        assert!(names(&directory).len() >= 5, "{:?}", names(&directory));
    }
    std::fs::remove_dir_all(job.scratch()).unwrap();
    let ended = job.run("hager", plan).succeed();
    assert!(ended.figure("began") >= 16_000, "{}", ended.stdout);
    assert!(names(&job.persistent()).is_empty());
}

/// A callback that fails ends the run, and the next run goes on. Catches a store that is emptied or
/// spoilt by a failure, and a restart that begins at the beginning.
#[test]
fn callbacks_that_fail() {
    for mode in ["async", "sync"] {
        let job = Job::new(&ASYNC.replace("async", mode));
        job.run("sweep", "fail=70 expect=the_callback_forward|to_state|returned_-1").succeed();
        let ended = job.run("sweep", "fail=150 expect=the_callback_|returned_-1").succeed();
        assert_eq!(ended.figure("began"), 60);
        let ended = job.run("sweep", "").succeed();
        let whole = Job::new(ASYNC).run("sweep", "").succeed().figure("computed");
        assert!(ended.figure("computed") < whole);
    }
}

/// Memory for two of nineteen states, which are in files: each is fetched while the adjoint takes
/// its step from the one before, in the order of the states, which is not that of the versions
/// here. Catches a run that prefetches nothing, or another state than it restores next.
#[test]
fn states_are_fetched_in_the_order_of_the_schedule() {
    // Files are exchanged, which proofs would reveal.
    let job = Job::new(&format!("{ASYNC}host_cache_size = 256K\nproof = off\n"));
    let plan = "bytes=100000 steps=20 slots=20 distance=0 adjoint=0";
    job.run("sweep", &format!("{plan} fail=20 expect=the_callback_adjoint|returned_-1")).succeed();
    wait_for_backends(&job);
    let file =
        |version: usize, ending: &str| job.scratch().join(format!("sweep-0-{version}.{ending}"));
    let moves = |from: &str, to: &str, place: fn(usize) -> usize| {
        for version in 0..19 {
            std::fs::rename(file(version, from), file(place(version), to)).unwrap();
        }
    };
    moves("dat", "moved", |version| (7 * version + 3) % 19);
    moves("moved", "dat", |version| version);
    let ended = job.run("sweep", &format!("{plan} ahead=1")).succeed();
    assert_eq!(ended.figure("computed"), 21);
}

/// Programs that were compiled with an older header, or a newer one. Catches members that are read
/// although they do not exist, and members with a meaning that are ignored.
#[test]
fn structures_of_other_versions() {
    for configuration in [ASYNC, "mode = async\nephemeral = true\n"] {
        Job::new(configuration).run("sweep", "versions=1").succeed();
    }
}

/// Adjoints are stored where a failure would cost more than the write: where a schedule of the same
/// settings stores them. Catches settings that do not reach the schedule, and writes of ephemeral
/// jobs.
#[test]
fn adjoints_are_stored_by_what_a_failure_would_cost() {
    let mut numbers = std::collections::BTreeSet::new();
    for (mtbf, write) in [(60, 1), (300, 2), (3000, 4), (1_000_000_000, 1_000_000)] {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
        let plan = format!("distance=0 adjoint=0 mtbf={mtbf} write={write} turn=3");
        let ended = job.run("sweep", &format!("{plan} fail=350 expect=returned_-1")).succeed();
        let version = |name: String| -> Option<u64> {
            name.strip_prefix("sweep.adjoint-0-")?.strip_suffix(".dat")?.parse().ok()
        };
        let newest = names(&job.scratch()).into_iter().filter_map(version).max();
        assert_eq!(newest.map_or(0, |newest| newest + 1), ended.figure("adjoints"), "{plan}");
        numbers.insert(newest);
        job.run("sweep", &plan).succeed();
    }
    assert_eq!(numbers.len(), 4, "{numbers:?}");
}

/// A store of another computation is refused, and left as it is.
#[test]
fn stores_of_others() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n");
    job.run("sweep", "fail=150 expect=returned_-1").succeed();
    let before = [files(&job.scratch()), files(&job.persistent())];
    let names = names(&job.scratch());
    assert!(names.iter().any(|name| name.starts_with("sweep.adjoint-0-")), "{names:?}");
    for (other, text) in [
        ("steps=120", "100_steps|120_steps"),
        ("slots=6", "5_slots|6_slots"),
        ("tag=7", "tag_0|tag_7"),
        ("steps=101 slots=8 tag=1", "of_another_computation|left_as_it_is"),
        // Impossible arguments.
        ("distance=19", "95_of_the_100_steps"),
        ("slots=0", "slots_=_0"),
        ("adjoint=-1", "=_-1:_it_must_be_0"),
        ("rule=9", "rule_9"),
        // Less or more memory than the store has, whose rest would not be restored.
        ("bytes=8", "16_bytes_of_region_5|24_bytes_are_protected|left_as_it_is"),
        ("second=1", "no_region_6|9_bytes_are_protected|left_as_it_is"),
    ] {
        job.run("sweep", &format!("{other} expect={text}")).succeed();
        assert!(before == [files(&job.scratch()), files(&job.persistent())], "{other}");
    }
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    job.run("sweep", "second=1 bytes=8 fail=150 expect=returned_-1").succeed();
    let before = files(&job.scratch());
    for (other, text) in [
        ("second=1", "24_bytes_of_region_5|16_bytes_are_protected"),
        ("bytes=8", "9_bytes_of_region_6|no_memory_is_protected"),
    ] {
        job.run("sweep", &format!("{other} expect={text}|left_as_it_is")).succeed();
        assert!(before == files(&job.scratch()), "{other}");
    }
    job.run("sweep", "second=1 bytes=8").succeed();
    // A checkpoint that belongs to no run.
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    job.run("script", "take=sweep:3").succeed();
    job.run("sweep", "expect=version_3|application's_own").succeed();
    job.run("script", "restore=sweep:3").succeed();
}

/// Where nothing outlives the job a run cannot stop, but the next run is not asked to.
#[test]
fn a_stop_that_cannot_be_is_asked_for_once() {
    let job = Job::new("mode = async\nephemeral = true\n");
    job.run("sweep", "stop=30 again=1 expect=nothing_outlives_the_job").succeed();
}

/// Stopped runs, by a call and by the clock, go on where they were. Catches a stop that keeps
/// nothing of a sweep between two stored states.
#[test]
fn planned_stops() {
    let job = Job::new("mode = async\nthreaded = true\nscratch = DIR/scratch\n");
    let plan = "steps=2000 slots=20 distance=1000 adjoint=500";
    let whole = Job::new(ASYNC).run("sweep", plan).succeed().figure("computed");
    let (mut computed, mut stops) = (0, 0);
    loop {
        let ended = job.run("sweep", &format!("{plan} stop=700")).succeed();
        computed += ended.figure("computed");
        if !ended.stdout.contains("stopped\n") {
            break;
        }
        stops += 1;
    }
    assert!(stops >= whole / 2000, "{stops} stops, {whole} steps");
    // Only the steps between two states that were under way are computed twice.
    assert!(computed < whole + whole / 4, "{computed}, without stops {whole}");
    let ended = job.run("sweep", &format!("{plan} limit=1")).succeed();
    assert!(ended.stdout.contains("stopped\n"));
    job.run("sweep", plan).succeed();
}
