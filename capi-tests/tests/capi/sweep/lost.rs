//! Adjoint computations whose store fails: the run ends with the state, the slot and the reason,
//! durable states stay, and the same call goes on from them once the store works.

use capi_tests::depth::cases;
use capi_tests::ground::Ground;
use capi_tests::job::{names, Job};

use super::{ASYNC, SYNC};
use crate::failing::on_each;

/// States of 100,016 bytes, of which at most six fit in the tests here.
const LARGE: &str = "bytes=100000 slots=8 adjoint=5 verify=1";

/// Makes the call again in a new job whose store takes everything, after a run that has computed so
/// many steps. Both together take few more steps than one run.
fn goes_on(job: &Job, plan: &str, before: u64) {
    let whole = Job::new(ASYNC).run("sweep", plan).succeed().figure("computed");
    let ended = job.run("sweep", plan).succeed();
    let computed = ended.figure("computed");
    println!("{before} steps, then {computed}; {whole} without failures");
    assert!(computed < whole, "{computed} after {before}, and {whole} do from the beginning");
    assert_eq!(names(&job.scratch()), [""; 0]);
}

/// A write fails while the run computes, of a state or of a checkpoint of the application's own:
/// the run ends at a step, long before it would have ended, with the version and the reason.
/// Catches a run that does not notice, and a run that notices and computes on.
#[test]
fn a_write_that_fails_in_the_background_ends_the_run() {
    let plan = "steps=20000 adjoint=0";
    let states = "slots=200 distance=100";
    let in_background = "failed_in_the_background:_checkpoint";
    let all = [
        (format!("{states} gone=1 scratch=DIR/scratch"), "\"sweep\"_version|No_such_file", "sweep"),
        (format!("{states} full=150"), "\"sweep\"_version|File_too_large", "sweep"),
        ("slots=5 distance=0 full=45 own=50".into(), "\"own\"_version_1|File_too_large", "own"),
    ];
    for (fault, words, unwritten) in cases(2, all) {
        let job = Job::new(ASYNC);
        let expected =
            format!("expect={in_background}|{words}|the_same_call unwritten={unwritten}");
        let ended = job.run("sweep", &format!("{plan} {fault} slow=1 {expected}")).succeed();
        assert!(ended.figure("computed") < 20_000, "{}", ended.stdout);
        let slots = fault.split(' ').next().unwrap();
        job.run("sweep", &format!("{plan} distance=0 {slots}")).succeed();
    }
}

/// Files, or files and a little memory, have room for fewer states than there are slots. Catches an
/// error that does not say which state, where, why, and what helps, and the loss of a stored state.
#[test]
fn files_without_room_end_the_run() {
    let few = format!("{ASYNC}host_cache_size = 220K\n");
    for (configuration, words, unwritten) in [
        (SYNC, "state_75_cannot_be_stored_in_slot_4|\"sweep\"_version_4", ""),
        (&few, "checkpoint_\"sweep\"_version", "unwritten=space"),
    ] {
        let job = Job::new(configuration);
        let help = "No_space_left|room_for_8_states|fewer_slots|what_is_stored_stays";
        let run = || job.run("sweep", &format!("{LARGE} expect={words}|{help} {unwritten}"));
        if let Some(ground) = Ground::mounted(&job, "scratch", 450_000) {
            ground.under(run()).succeed();
        }
        let ended = Ground::injected(&job, "scratch", 450_000).under(run()).succeed();
        assert!(names(&job.scratch()).contains(&"sweep-0-0.dat".to_owned()));
        goes_on(&job, LARGE, ended.figure("computed"));
    }
    // The file levels of an ephemeral job are room as well.
    let job =
        Job::new("mode = async\nephemeral = true\nscratch = DIR/scratch\nhost_cache_size = 220K\n");
    let words = "No_space_left|room_for_8_states|fewer_slots";
    let run = job.run("sweep", &format!("{LARGE} expect={words} unwritten=space"));
    Ground::injected(&job, "scratch", 250_000).under(run).succeed();
}

/// A directory becomes read-only in mid-run: that of the files that the run reads, or of their
/// copies. Catches a run that counts on states in one of two directories where both were asked for.
#[test]
fn a_directory_that_becomes_read_only_ends_the_run() {
    for (at, fewest) in [(60, 2), (99, 2), (140, 3)] {
        let job = Job::new(SYNC);
        let ground = Ground::injected(&job, "scratch", 4 << 20);
        let words = "expect=cannot_be_stored|Read-only|the_same_call";
        let run = job.run("sweep", &format!("{LARGE} at={at} {words}"));
        let run = run.arg(format!("shell={}", ground.to_read_only()));
        let before = ground.under(run).succeed().figure("computed");
        assert!(names(&job.scratch()).len() >= fewest, "{:?}", names(&job.scratch()));
        goes_on(&job, LARGE, before);
    }
    on_each(&format!("{SYNC}persistent = DIR/persistent\n"), "persistent", |job, ground| {
        let words = "expect=cannot_be_stored|/persistent/|Read-only unwritten=persistent";
        let run = job.run("sweep", &format!("at=40 {words}"));
        let run = run.arg(format!("shell={}", ground.to_read_only()));
        ground.under(run).succeed();
    });
}

/// The file of one state is removed in mid-run: the run ends with that state, and the same call in
/// the same job computes it again. Catches a run that takes memory as it is for the state, and a
/// restart that counts on the file.
#[test]
fn a_state_that_is_lost_ends_the_run() {
    for gone in [70, 120, 180] {
        let job = Job::new(SYNC);
        let words = "cannot_be_read_back_from_slot_2|\"sweep\"_version_2|the_same_call";
        let plan = format!("verify=1 gone={gone} scratch=DIR/scratch/sweep-0-2.dat");
        job.run("sweep", &format!("{plan} again=1 expect={words}")).succeed();
        assert_eq!(names(&job.scratch()), [""; 0]);
    }
}

/// Scratch becomes read-only with the last step: the application has its adjoint, and is told that
/// files remain. Catches a run that does not report those files, from which a later call would go
/// on.
#[test]
fn what_cannot_be_removed_at_the_end_is_an_error() {
    for configuration in [ASYNC, SYNC] {
        let whole = Job::new(configuration).run("sweep", "").succeed().figure("computed");
        on_each(configuration, "scratch", |job, ground| {
            let words = "the_adjoint_is_computed|cannot_be_removed|sweep-0-0.dat|Read-only";
            let run = job.run("sweep", &format!("wait={whole} at={whole} expect={words}"));
            let run = run.arg(format!("shell={}", ground.to_read_only()));
            ground.under(run).succeed();
        });
    }
}
