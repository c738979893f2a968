//! Adjoint computations that `VELOC_Adjoint_run` drives, killed at many places: the gradient is that
//! of the run that was not, to the last bit.
//!
//! The example (`examples/hager`) is the program: problem 4.1 of Walther and Narayanan.

use std::time::Duration;

use capi_tests::backends::{wait_for_backends, MARK};
use capi_tests::ground::Ground;
use capi_tests::job::{files, names, Job};
use capi_tests::program::mpi_program;
use capi_tests::random::Random;
use capi_tests::run::Ended;

use crate::failing::on_each;
use crate::mpi::{MPICH, OPEN_MPI};

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

/// As the paper has tested its own: 700,000 steps, and breakdowns everywhere.
#[test]
fn breakdowns_everywhere() {
    let (steps, distance) = (700_000, 100_000);
    let plan = format!("{steps} 10 {distance} 10000");
    let mut random = Random::seeded("sweep::breakdowns_everywhere");
    let reference = {
        let job = Job::new("mode = async\nephemeral = true\n");
        job.run("hager", &plan).succeed()
    };
    assert_eq!(result(&reference).len(), 9, "{}", reference.stdout);
    assert!(error(&reference) < 1e-11, "{}", reference.stdout);
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
    // In the reverse sweep, by steps and by time.
    let mut breakdowns = 0;
    for round in 0..12 {
        let ended = if round % 2 == 0 {
            killed_at(&job, &plan, 1 + random.below(whole / 4))
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

/// The program of the guide, as it stands there, killed and started again. Catches a guide that nobody
/// can follow.
#[test]
fn the_adjoint_of_the_guide() {
    let guide = include_str!("../../../docs/guide.md");
    let chapter = guide.split("\n## ").find(|text| text.starts_with("An adjoint that")).unwrap();
    let block = |kind: &str| {
        let text = chapter.split_once(&format!("```{kind}\n")).unwrap().1;
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
/// checks every state that it gets, and its result.
#[test]
fn everywhere() {
    let limits = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                  max_versions = 1\nscratch_versions = 1\nmeta = DIR/meta\nchksum = true\n";
    for configuration in [
        ASYNC,
        limits,
        "mode = sync\nscratch = DIR/scratch\npersistent = DIR/persistent\n",
        "mode = async\nephemeral = true\n",
        // Five states of 100 KB: some are in no memory tier.
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

/// What limits of versions would remove is there after a crash, whoever has written it. Catches an heir
/// that keeps the last states alone.
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

/// A callback that fails ends the run, and the next one goes on. Catches a store that is emptied or
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

/// A hash that the callback does not give: the state is named. Catches a text that leaves open where it was.
#[test]
fn a_hash_that_fails() {
    let job = Job::new("mode = async\nephemeral = true\n");
    let words = "the_callback_hash,_of_state_42,_returned_-1";
    job.run("sweep", &format!("verify=1 hash=1 unhashed=42 expect={words}")).succeed();
}

/// How often a run has said that something stays out of its files.
fn said(ended: &Ended) -> usize {
    ended.stderr.matches("stores nothing there").count()
}

/// The scratch directory is removed while a run is under way: memory has the states, so it comes to its
/// end, wherever that happens, and says once what has become of its files. Catches a run that ends by a
/// failure which some call happens to hear of, one that speaks of each state, and a VELOC_Finalize that
/// fails because of a run that nobody needs any more.
#[test]
fn a_scratch_directory_that_is_removed() {
    for gone in [1, 40, 149, 150, 151, 160, 190, 240, 300] {
        for more in ["", "verify=1", "bytes=300000 slots=9"] {
            let job = Job::new(ASYNC);
            let plan = format!("steps=150 adjoint=3 gone={gone} scratch=DIR/scratch {more}");
            let ended = job.run("sweep", &plan).succeed();
            assert_eq!(said(&ended), 1, "{plan}: {}", ended.stderr);
            let directory = format!("scratch = {}", job.scratch().display());
            assert!(ended.stderr.contains(&directory), "{}", ended.stderr);
            assert!(ended.stderr.contains("No such file"), "{}", ended.stderr);
            // It may have lost a state between two looks, too.
            assert!(ended.stderr.lines().count() <= 3, "{plan}: {}", ended.stderr);
        }
    }
}

/// States that have left memory go with the directory. Those that can be computed again are; if state 0
/// is among them, the run says why it cannot go on, and the next call does.
#[test]
fn states_that_are_lost_are_computed_again() {
    let job = Job::new(&format!("{ASYNC}host_cache_size = 256K\n"));
    let plan = "bytes=100000 slots=5 distance=0 adjoint=5 verify=1 gone=130 scratch=DIR/scratch";
    let words = "No_such_file|cannot_be_computed_again";
    job.run("sweep", &format!("{plan} again=1 expect={words}")).succeed();
    // One state alone, in the first sweep and after it.
    for gone in [70, 120, 180, 240] {
        let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
        let plan = format!("verify=1 gone={gone} scratch=DIR/scratch/sweep-0-2.dat");
        let ended = job.run("sweep", &plan).succeed();
        let lost = ended.stderr.matches("is lost").count();
        assert!(lost == 1 || lost == 0 && gone > 200, "{gone}: {}", ended.stderr);
        assert_eq!(names(&job.scratch()), [""; 0]);
    }
}

/// A call after one that has failed, which has left states in memory alone, and not state 0, whose file is
/// gone: memory that is full of them takes state 0 all the same. Catches a run that can never begin, as
/// what is in its way would only go at its end.
#[test]
fn state_0_takes_the_room_of_what_is_of_no_use_without_it() {
    // Memory for two states. Four are written; the next two stay in memory, and displace the others.
    let job = Job::new(&format!("{ASYNC}host_cache_size = 256K\n"));
    let plan = "bytes=100000 steps=20 slots=20 distance=0 adjoint=0 wait=5 gone=5 full=5 fail=12";
    let more = "scratch=DIR/scratch/sweep-0-0.dat expect=returned_-1 again=1";
    let ended = job.run("sweep", &format!("{plan} {more}")).env("VELOC_LOG", "info").succeed();
    assert!(ended.stderr.contains("state 0 takes the room"), "{}", ended.stderr);
}

/// Memory for two of nineteen states, which are in files: each is fetched while the adjoint takes its step
/// from the one before, in the order of the states, which is not that of the versions here. Catches a run
/// that asks for nothing ahead, or for something else than it restores next.
#[test]
fn states_are_fetched_in_the_order_of_the_schedule() {
    let job = Job::new(&format!("{ASYNC}host_cache_size = 256K\n"));
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

/// Scratch becomes read-only with the last step: the application has its adjoint, and is told what remains.
/// Catches a run that fails at its end, and one that goes on from what an ended one has left, whose states
/// may be others.
#[test]
fn what_cannot_be_removed_at_the_end_is_said() {
    for configuration in [ASYNC, SYNC] {
        let whole = Job::new(configuration).run("sweep", "").succeed().figure("computed");
        on_each(configuration, "scratch", |job, ground| {
            let plan = format!("wait={whole} at={whole} runs=2 expect=cannot_be_removed|Read-only");
            let run = job.run("sweep", &plan).arg(format!("shell={}", ground.to_read_only()));
            let ended = ground.under(run).succeed();
            let said = ended.stderr.matches("checkpoints of the run remain").count();
            assert!(said == 1 && ended.stderr.contains("sweep-0-0.dat"), "{}", ended.stderr);
        });
    }
}

/// Memory that does not hold as many states as there are slots, while no file takes any: the run goes on
/// with fewer. Where it has no memory for them at all, it fails with the cause, and goes on later.
#[test]
fn files_that_cannot_be_written() {
    let mut went_on = 0;
    for full in [1, 60, 99, 103, 140, 200] {
        let plan = format!("bytes=100000 slots=8 adjoint=5 verify=1 full={full}");
        for more in ["", "persistent = DIR/persistent\n"] {
            let job = Job::new(&format!("{ASYNC}host_cache_size = 400K\n{more}"));
            let ended = job.run("sweep", &plan).succeed();
            assert!(said(&ended) <= 1, "{plan}: {}", ended.stderr);
            // What cannot be written, and 7, 3 and 1 slots.
            assert!(ended.stderr.matches("the run goes on with").count() <= 4, "{}", ended.stderr);
            println!("{plan}: {} steps", ended.figure("computed"));
        }
        let job = Job::new(SYNC);
        let ended = job.run("sweep", &plan).end();
        println!("{plan}, sync: {}{}", ended.stdout, ended.stderr);
        went_on += u32::from(ended.status.success());
        if !ended.status.success() {
            assert!(ended.stdout.contains("File too large"), "{}", ended.stdout);
            assert!(ended.stdout.contains("steps would remain instead of"), "{}", ended.stdout);
        }
        assert!(said(&ended) <= 1, "{plan}: {}", ended.stderr);
        assert!(ended.stderr.matches("the run goes on with").count() <= 4, "{}", ended.stderr);
        job.run("sweep", "bytes=100000 slots=8 adjoint=5 verify=1").succeed();
    }
    assert!(went_on > 2, "{went_on}");
    // Nothing but memory, and too little of it.
    let job = Job::new("mode = async\nephemeral = true\nhost_cache_size = 256K\n");
    let ended = job.run("sweep", "bytes=100000 slots=8").succeed();
    assert!(ended.stderr.contains("instead of 8"), "{}", ended.stderr);
}

/// With `mode = sync` a run whose scratch directory has room for four states only goes on with these, each
/// of which makes room for the next one when the adjoint has passed it. Catches a run that ends there, and
/// one that has a slot less with each state.
#[test]
fn a_full_directory_without_memory() {
    let job = Job::new(SYNC);
    let grounds = [
        Some(Ground::injected(&job, "scratch", 450_000)),
        Ground::mounted(&job, "scratch", 450_000),
    ];
    for ground in grounds.iter().flatten() {
        let run = job.run("sweep", "bytes=100000 slots=8 adjoint=5 verify=1");
        let ended = ground.under(run.env("VELOC_LOG", "info")).succeed();
        let said = ended.stderr.matches("the run goes on with 4 slots instead of 8").count();
        assert!(said == 1 && ended.stderr.matches("instead of").count() == 1, "{}", ended.stderr);
    }
}

/// With `mode = sync` a run whose scratch directory becomes read-only goes on with the states that are there,
/// and computes the others again; but not if that were nearly all of it, again and again. Catches a run
/// that ends with the first state that cannot be stored, and one that never ends.
#[test]
fn a_read_only_directory_without_memory() {
    for (at, goes_on) in [(20, false), (60, true), (99, true), (140, true), (200, true)] {
        let job = Job::new(SYNC);
        let ground = Ground::injected(&job, "scratch", 4 << 20);
        let plan = format!("bytes=100000 slots=8 adjoint=5 verify=1 at={at}");
        let run = job.run("sweep", &plan).arg(format!("shell={}", ground.to_read_only()));
        if !goes_on {
            let words = "expect=Read-only|with_the_1_states|4950_steps_would_remain_instead_of_215";
            ground.under(run.arg(words)).succeed();
            continue;
        }
        let ended = ground.under(run).succeed();
        let said = ended.stderr.matches("the run goes on with").count();
        assert!((1..=4).contains(&said), "{plan}: {}", ended.stderr);
    }
}

/// With `mode = sync`, states that come to scratch and not to persistent are not lost: no step is computed
/// more than without that. Catches a run that takes them for states that were not stored.
#[test]
fn a_persistent_directory_that_becomes_read_only() {
    let configuration = format!("{SYNC}persistent = DIR/persistent\n");
    let whole = Job::new(&configuration).run("sweep", "").succeed().figure("computed");
    on_each(&configuration, "persistent", |job, ground| {
        let run = job.run("sweep", "at=40").arg(format!("shell={}", ground.to_read_only()));
        let ended = ground.under(run).succeed();
        assert_eq!(ended.figure("computed"), whole);
        assert_eq!(said(&ended), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains("persistent = "), "{}", ended.stderr);
    });
}

/// A checkpoint of the application's own that cannot be written is the application's to hear of. Catches
/// a run that takes the failure for one of its own.
#[test]
fn failures_of_the_application_are_its_own() {
    for own in [50, 120, 200] {
        let job = Job::new(ASYNC);
        let plan = format!("steps=150 full=45 own={own}");
        job.run("sweep", &plan).succeed();
    }
}

/// Forward steps that are not the same each time. Catches a comparison with the wrong state, and one
/// that comes too late: the first state that differs is named.
#[test]
fn replays_are_verified() {
    let job = Job::new(ASYNC);
    for hash in 0..2 {
        let plan = format!("verify=1 hash={hash} drift=77");
        job.run("sweep", &format!("{plan} expect=state_77_is_not_what_it_was")).succeed();
        // The first one of the next run is compared with what is in the store.
        job.run("sweep", &format!("verify=1 hash={hash}")).succeed();
    }
}

/// A step that gives another state in a later job than in the first, between two states that were stored.
/// Catches hashes that end with the job: it would have nothing to compare with, and a wrong adjoint.
#[test]
fn replays_are_compared_with_what_earlier_jobs_have_met() {
    for mode in ["sync", "async"] {
        for fail in [80, 130, 190] {
            let job = Job::new(&ASYNC.replace("async", mode));
            let run = |more: &str| job.run("sweep", &format!("verify=1 {more}"));
            run(&format!("fail={fail} expect=returned_-1")).succeed();
            let hashes =
                names(&job.scratch()).into_iter().filter(|n| n.starts_with("sweep.hashes-"));
            let hashes: Vec<String> = hashes.collect();
            assert!(hashes.len() > 1, "{hashes:?}");
            run("drift=47 drifted=1 expect=state_47_is_not_what_it_was").succeed();
            // What is lost is not compared, and no reason to stop.
            std::fs::write(job.scratch().join(&hashes[0]), b"x").unwrap();
            let ended = run("").succeed();
            assert!(ended.stderr.contains("going on without"), "{}", ended.stderr);
            wait_for_backends(&job);
            assert_eq!(names(&job.scratch()), [""; 0]);
        }
    }
}

/// Programs that were compiled with an older header, or a newer one. Catches members that are read and
/// are not there, and ones that mean something and are passed over.
#[test]
fn structures_of_other_versions() {
    for configuration in [ASYNC, "mode = async\nephemeral = true\n"] {
        Job::new(configuration).run("sweep", "versions=1").succeed();
    }
}

/// Adjoints are stored where a failure would cost more than the write: where a schedule of the same
/// settings says. Catches settings that do not reach the schedule, and writes of ephemeral jobs.
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
        // What cannot be at all.
        ("distance=19", "95_of_the_100_steps"),
        ("slots=0", "slots_=_0"),
        ("adjoint=-1", "=_-1:_it_is_0"),
        ("rule=9", "rule_9"),
        // Less or more memory than the store has, whose rest nobody would have restored.
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
    // What is not of a run at all.
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    job.run("script", "take=sweep:3").succeed();
    job.run("sweep", "expect=version_3|application's_own").succeed();
    job.run("script", "restore=sweep:3").succeed();
}

/// A damaged file is passed over: what is left is enough.
#[test]
fn damaged_states() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    for damaged in ["sweep-0-0.dat", "sweep-0-2.dat", "sweep.adjoint-0-ADJOINT.dat"] {
        job.run("sweep", "fail=170 expect=returned_-1").succeed();
        let newest =
            names(&job.scratch()).into_iter().filter(|n| n.starts_with("sweep.adjoint")).max();
        let damaged = damaged.replace("sweep.adjoint-0-ADJOINT.dat", &newest.unwrap());
        std::fs::write(job.scratch().join(&damaged), b"x").unwrap();
        let ended = job.run("sweep", "").succeed();
        assert!(ended.stderr.contains("going on without"), "{damaged}: {}", ended.stderr);
    }
    // Of many it is said once, with their number.
    job.run("sweep", "fail=170 expect=returned_-1").succeed();
    let states = names(&job.scratch()).into_iter().filter(|name| name.starts_with("sweep-0-"));
    let states: Vec<String> = states.collect();
    states.iter().for_each(|name| std::fs::write(job.scratch().join(name), b"x").unwrap());
    let ended = job.run("sweep", "").succeed();
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(states.len() == 5 && lines.len() == 1, "{states:?}: {}", ended.stderr);
    let words =
        ["without 5 versions: \"sweep\" version 0: ", "\"sweep\" version 2: ", "and 2 more"];
    assert!(words.iter().all(|word| lines[0].contains(word)), "{}", ended.stderr);
}

/// A bit of a stored state or adjoint that changes where nobody has a checksum: a verified run, also of a
/// later job, names it, and computes it again, at once or when it is called once more. Catches hashes that
/// do not stand with what they are of. What is of no use any more is not read, and does no harm.
#[test]
fn bits_that_change_in_files() {
    let configuration = "mode = sync\nscratch = DIR/scratch\n";
    let run = |job: &Job, more: &str| job.run("sweep", &format!("verify=1 {more}"));
    let stored = {
        let job = Job::new(configuration);
        run(&job, "fail=170 expect=returned_-1").succeed();
        names(&job.scratch())
    };
    let mut found = Vec::new();
    for name in &stored {
        let job = Job::new(configuration);
        run(&job, "fail=170 expect=returned_-1").succeed();
        let path = job.scratch().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 4;
        std::fs::write(&path, &bytes).unwrap();
        let ended = run(&job, "").end();
        let number = i64::from_le_bytes(bytes[last - 15..last - 7].try_into().unwrap());
        let text = match name.starts_with("sweep.adjoint") {
            true => "the adjoint at state ".to_owned(),
            false => format!("state {number} has the hash "),
        };
        if !ended.status.success() {
            assert!(ended.stdout.contains(&text), "{name}: {}", ended.stdout);
            // It is not come to again.
            run(&job, "").succeed();
        } else if !ended.stderr.contains(&text) {
            continue;
        }
        found.push(text);
    }
    println!("{found:#?}");
    assert!(found.len() > 2 && found.iter().any(|text| text.starts_with("the adjoint")));
}

/// Files of a run without hashes, damaged, and a run that verifies: state 0 is as it is at the call.
#[test]
fn what_was_damaged_before_is_not_what_the_program_computes() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    job.run("sweep", "bytes=8 fail=170 expect=returned_-1").succeed();
    let path = job.scratch().join("sweep-0-0.dat");
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 4;
    std::fs::write(&path, &bytes).unwrap();
    job.run("sweep", "bytes=8 verify=1 expect=restored_from_slot_0|damaged_there").succeed();
    job.run("sweep", "bytes=8 verify=1").succeed();
}

/// Where nothing outlives the job a run cannot stop, but the next one is not asked to.
#[test]
fn a_stop_that_cannot_be_is_asked_for_once() {
    let job = Job::new("mode = async\nephemeral = true\n");
    job.run("sweep", "stop=30 again=1 expect=nothing_outlives_the_job").succeed();
}

/// Stops, by a call and by the clock, go on where they were. Catches a stop that keeps nothing of a
/// sweep between two stored states.
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
    // What was under way between two states is all that is computed twice.
    assert!(computed < whole + whole / 4, "{computed}, without stops {whole}");
    let ended = job.run("sweep", &format!("{plan} limit=1")).succeed();
    assert!(ended.stdout.contains("stopped\n"));
    job.run("sweep", plan).succeed();
}

/// Processes of a job that nothing keeps in step, killed together at many places: all go on from what
/// all have. Catches a restart from another state, or from another adjoint, than the others'.
#[test]
fn ranks_are_killed() {
    let plan = "20000 12 4000 500";
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new(&format!("{ASYNC}persistent = DIR/persistent\n"));
        let run = |job: &Job| {
            let program = mpi_program(mpi.compiler, "hager.c");
            let run = mpi.start(2)?.env(MARK, job.path("")).arg(program);
            Some(run.arg(job.path("veloc.cfg")).args(plan))
        };
        let mut random = Random::seeded("sweep::ranks_are_killed");
        let free = Job::new("mode = async\nephemeral = true\n");
        let Some(reference) = run(&free) else { return };
        let reference = reference.succeed();
        let steps = reference.figure("computed");
        for round in 0..6 {
            let at = 1 + if round < 2 { random.below(20_000) } else { random.below(steps / 4) };
            let run = run(&job).unwrap().env("DIE_AT", at.to_string());
            let ended = run.env("DIE_ON", (round % 2).to_string()).end();
            println!("dies at {at}: {:?}", ended.stdout.lines().collect::<Vec<_>>());
            if ended.stdout.lines().any(|line| line == "done") {
                break;
            }
            // The last of the killed processes' backends may be behind the next job's start.
            if round % 3 == 2 {
                wait_for_backends(&job);
            }
            if round == 4 {
                // One process has lost its node's disk.
                for name in names(&job.scratch()).iter().filter(|name| name.contains("-1-")) {
                    std::fs::remove_file(job.scratch().join(name)).unwrap();
                }
            }
        }
        let last = run(&job).unwrap().succeed();
        assert_eq!(result(&last), result(&reference));
        wait_for_backends(&job);
        for directory in [job.scratch(), job.persistent()] {
            assert_eq!(names(&directory), [""; 0]);
        }
    }
}

/// The time is over for one process first: all stop at the same step, and go on from there.
#[test]
fn ranks_stop_together() {
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new(ASYNC);
        let program = mpi_program(mpi.compiler, "hager.c");
        let run = |seconds: &str| {
            let run = mpi.start(2)?.env(MARK, job.path("")).arg(&program);
            Some(run.env("SECONDS", seconds).arg(job.path("veloc.cfg")).args("30000 12 4000 500"))
        };
        let Some(first) = run("0.2") else { return };
        let stopped = first.succeed();
        assert!(stopped.stdout.contains("stopped; "), "{}", stopped.stdout);
        let ended = run("0").unwrap().succeed();
        assert_eq!(result(&ended).len(), 9);
        // What was done before is not done again: all in all 212,868 steps are needed.
        let computed = stopped.figure("computed") + ended.figure("computed");
        assert!(computed < 240_000, "{}{}", stopped.stdout, ended.stdout);
    }
}
