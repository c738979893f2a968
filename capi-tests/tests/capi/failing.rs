//! File systems that become full or read-only in the middle of a job: the call concerned returns -1
//! and names the file and the reason, older files are still there, and the job goes on once the
//! file system does. On real file systems where they can be had, and always on stand-ins.

mod read_only;
mod room;
mod unmounted;

use std::fs;

use capi_tests::backends::wait_for_backends;
use capi_tests::ground::Ground;
use capi_tests::job::{names, Job};
use capi_tests::run::{Ended, Run};

use crate::mpi::every_mpi;

pub(crate) const SYNC: &str = "mode = sync\nscratch = DIR/scratch\n";

pub(crate) const ASYNC: &str = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 16M\n";

/// Room of the file systems here: enough for a checkpoint of [`SMALL`], and part of a large one.
pub(crate) const ROOM: usize = 4 << 20;

/// Runs a test once on each ground for the directory `below` of a job of its own.
pub(crate) fn on_each(configuration: &str, below: &str, test: impl Fn(&Job, &Ground)) {
    let job = Job::new(configuration);
    test(&job, &Ground::injected(&job, below, ROOM));
    let job = Job::new(configuration);
    if let Some(ground) = Ground::mounted(&job, below, ROOM) {
        test(&job, &ground);
    }
}

/// Has the script program run these commands. A text that begins with `run=` is one command of a
/// shell; in the others, blanks separate the commands.
pub(crate) fn script(ground: &Ground, run: Run, commands: &[String]) -> Ended {
    ground.under(with_commands(run, commands)).succeed()
}

/// A run of the script program with these commands.
pub(crate) fn with_commands(run: Run, commands: &[String]) -> Run {
    commands.iter().fold(run, |run, command| {
        if command.contains("run=") {
            run.arg(command)
        } else {
            run.args(command)
        }
    })
}

pub(crate) fn shell(command: String) -> String {
    format!("run={command}")
}

/// Scratch fills up while a checkpoint is written from device memory, of which pieces are on their
/// way. Catches pieces that the next checkpoint takes for its own.
#[test]
fn scratch_fills_up_below_a_device() {
    on_each(SYNC, "scratch", |job, ground| {
        let _ = ground.under(job.run_device("unregistered_buffer", "full=1")).succeed();
    });
}

/// Scratch fills up while a checkpoint is written to it, by the application or by a worker. Catches
/// a failure that is not reported, a half file with the name of a whole one, a temporary file that
/// keeps the room, and an older version that is lost.
#[test]
fn scratch_fills_up() {
    on_each(SYNC, "scratch", |job, ground| {
        let commands = [
            "size=1000000 take=x:1 size=3500000 fail=x:2:x-0-2.dat|No_space_left".into(),
            "size=1000000 newest=x:1 restore=x:1 take=x:3 restore=x:3".into(),
            // A version that could not be written again stays what it was.
            shell(ground.to_fill(1_500_000)),
            "fail=x:3:x-0-3.dat|No_space_left restore=x:3".into(),
            shell(ground.to_empty()),
            "take=x:3:8 restore=x:3:8".into(),
            shell(format!(
                "test $(ls -A -I '.veloc-live-*' {} | wc -l) = 2",
                job.scratch().display()
            )),
        ];
        script(ground, job.run("script", ""), &commands);
    });
    on_each(ASYNC, "scratch", |job, ground| {
        let commands = [
            "size=1000000 take=x:1 wait".into(),
            shell(ground.to_fill(2_500_000)),
            "take=x:2 late=x-0-2.dat|No_space_left newest=x:2 restore=x:2 restore=x:1".into(),
            shell(ground.to_empty()),
            // Restored from its file: a new job has nothing in memory.
            "wait drain newest=x:2 restore=x:2 restore=x:1".into(),
        ];
        script(ground, job.run("script", ""), &commands);
    });
}

/// Checkpoints that scratch cannot take go straight to persistent, from the host buffer or from the
/// application's memory: no call fails, one message says so, a restart finds them. Catches a
/// version that was taken again and whose old file in scratch is taken for the nearest copy, and
/// its old checksum.
#[test]
fn what_scratch_cannot_take_goes_to_persistent() {
    let more = "persistent = DIR/persistent\nmeta = DIR/meta\nchksum = true\n";
    for configuration in [SYNC, ASYNC, "mode = async\nscratch = DIR/scratch\nhost_cache_size = 0\n"]
    {
        on_each(&format!("{configuration}{more}"), "scratch", |job, ground| {
            let in_scratch = |text: &str| {
                shell(format!("test \"$(echo $(ls {}))\" = '{text}'", job.scratch().display()))
            };
            let commands = [
                "size=1000000 take=x:0 take=x:1 wait".into(),
                shell(ground.to_fill(1_900_000)),
                "take=x:2 wait finished=1 restore=x:2 restore=x:1".into(),
                in_scratch("filler x-0-0.dat x-0-1.dat"),
                // The version's old file makes room for the next one.
                "take=x:1:9 wait".into(),
                in_scratch("filler x-0-0.dat"),
                "take=x:3 wait".into(),
                in_scratch("filler x-0-0.dat x-0-3.dat"),
                "drain newest=x:3 restore=x:3 restore=x:2 restore=x:1:9 restore=x:0".into(),
                shell(ground.to_empty()),
                shell(ground.to_read_only()),
                "take=x:4 wait restore=x:4".into(),
                shell(ground.to_writable()),
                "take=x:5 wait".into(),
                in_scratch("x-0-0.dat x-0-3.dat x-0-5.dat"),
                "drain newest=x:5 restore=x:5 restore=x:4".into(),
            ];
            let ended = script(ground, job.run("script", ""), &commands);
            // Once by each of the two jobs concerned.
            assert_eq!(ended.stderr.matches("written to persistent alone").count(), 2);
        });
    }
}

/// The written part of a checkpoint whose regions are added call by call goes to persistent as
/// well.
#[test]
fn what_scratch_has_in_part_goes_to_persistent() {
    let more = "persistent = DIR/persistent\n";
    on_each(&format!("{SYNC}{more}"), "scratch", |job, ground| {
        let commands = [
            shell(ground.to_fill(2_400_000)),
            // One region of 1000000 bytes fits, two do not.
            "size=1000000 alias=1 pieces=x:1 restore=x:1 alias=0 take=x:2".into(),
            shell(format!("test -e {}/x-0-2.dat", job.scratch().display())),
            shell(format!("! test -e {}/x-0-1.dat", job.scratch().display())),
            "alias=1 drain alias=1 newest=x:2 restore=x:1".into(),
        ];
        script(ground, job.run("script", ""), &commands);
    });
}

/// If neither directory has room, the call concerned fails, and both are tried again.
#[test]
fn neither_scratch_nor_persistent_takes_it() {
    for (configuration, fails) in [
        (SYNC, "fail=x:2:x-0-2.dat|No_space_left|failed_as_well"),
        (ASYNC, "take=x:2 late=persistent"),
    ] {
        let configuration = format!("{configuration}persistent = DIR/persistent\n");
        on_each(&configuration, "scratch", |job, ground| {
            let persistent = job.persistent().display().to_string();
            let commands = [
                "size=1000000 take=x:1 wait".into(),
                shell(ground.to_fill(2_900_000)),
                shell(format!("mv {persistent} {persistent}.away; touch {persistent}")),
                fails.into(),
                "restore=x:1".into(),
                shell(format!("rm {persistent}; mv {persistent}.away {persistent}")),
                "wait take=x:3 wait drain newest=x:3 restore=x:3 restore=x:1".into(),
            ];
            script(ground, job.run("script", ""), &commands);
            // A checkpoint that a call has refused is nowhere.
            let refused = configuration.starts_with(SYNC);
            assert_eq!(names(&job.persistent()).contains(&"x-0-2.dat".to_owned()), !refused);
        });
    }
}

/// A part of an aggregated file comes from the host buffer as well.
#[test]
fn parts_that_scratch_cannot_take_are_aggregated() {
    for mpi in every_mpi() {
        let more = "persistent = DIR/persistent\nmeta = DIR/meta\naggregated = true\n";
        on_each(&format!("{ASYNC}{more}"), "scratch", |job, ground| {
            let Some(run) = mpi.script(job, "") else { return };
            let commands = [
                "size=450000 take=x:1 wait barrier".into(),
                // Two of the three processes find no room.
                format!("@0:{}", shell(ground.to_fill(2_100_000))),
                "barrier take=x:2 wait barrier".into(),
                format!("@0:{}", shell(format!("rm {}/*", job.scratch().display()))),
                "barrier drain newest=x:2 restore=x:2 restore=x:1".into(),
            ];
            script(ground, run, &commands);
            assert_eq!(names(&job.persistent()), ["x-agg-1.dat", "x-agg-2.dat"]);
        });
    }
}

/// Persistent fills up while a file is copied there.
#[test]
fn persistent_fills_up() {
    for configuration in [SYNC, ASYNC] {
        let configuration = format!("{configuration}persistent = DIR/persistent\n");
        on_each(&configuration, "persistent", |job, ground| {
            let fails = if configuration.starts_with(SYNC) {
                "fail=x:2:x-0-2.dat|No_space_left"
            } else {
                "take=x:2 late=x-0-2.dat|No_space_left"
            };
            let commands = [
                "size=1000000 take=x:1 wait".into(),
                shell(ground.to_fill(2_500_000)),
                fails.into(),
                "restore=x:1".into(),
                shell(ground.to_empty()),
                "wait take=x:3 wait".into(),
                shell(format!("rm {}/*", job.scratch().display())),
                "drain newest=x:3 restore=x:3 restore=x:2 restore=x:1".into(),
            ];
            script(ground, job.run("script", ""), &commands);
        });
    }
}

/// Catches a `VELOC_Checkpoint_finished` that forgets a failure once it has reported it, and a
/// `VELOC_Finalize(0)` that drops unwritten checkpoints without a message.
#[test]
fn what_could_not_be_written_is_not_finished() {
    for (mode, take) in [
        ("mode = sync", "fail=x:2:persistent"),
        ("mode = async", "take=x:2"),
        ("mode = async\nthreaded = true", "take=x:2"),
    ] {
        let both = "scratch = DIR/scratch\npersistent = DIR/persistent\nhost_cache_size = 16M\n";
        let job = Job::new(&format!("{mode}\n{both}"));
        let away = job.path("away").display().to_string();
        let persistent = job.persistent().display().to_string();
        let run = job
            .run("script", "take=x:1 wait finished=1")
            .arg(format!("run=mv {persistent} {away}; touch {persistent}"))
            .args(&format!("{take} finished=-1 finished=-1 late=persistent finished=-1"))
            .arg(format!("run=rm {persistent}; mv {away} {persistent}"))
            .args("finished=-1 wait finished=1 restore=x:2");
        run.succeed();
    }
}

/// A scratch file is removed by another program before it is copied, while memory still has it.
/// Catches a checkpoint that is lost with it, a loss that is not reported, and a file that is not
/// written again.
#[test]
fn a_scratch_file_that_is_gone_is_written_again() {
    let both = "scratch = DIR/scratch\npersistent = DIR/persistent\nhost_cache_size = 16M\n";
    let job = Job::new(&format!("mode = async\n{both}"));
    let persistent = job.persistent().display().to_string();
    let scratch = job.scratch().join("x-0-1.dat").display().to_string();
    let run = job
        .run("script", "size=1000000")
        .arg(format!("run=mv {persistent} {persistent}.away; touch {persistent}"))
        .args("take=x:1 late=persistent")
        .arg(format!("run=rm {scratch} {persistent}; mv {persistent}.away {persistent}"))
        // Persistent gets its file from memory; then scratch gets it again.
        .args("wait finished=1 restore=x:1");
    let run = run.succeed();
    assert!(run.stderr.contains("has removed its file from scratch"), "{}", run.stderr);
    assert_eq!(capi_tests::job::names(&job.persistent()), ["x-0-1.dat"]);
    fs::remove_file(scratch).unwrap();
    let _ = job.run("script", "size=1000000 newest=x:1 restore=x:1").succeed();
}

/// Without a backend, `VELOC_Finalize(0)` writes all checkpoints, or says that it cannot.
#[test]
fn without_a_backend_nothing_is_dropped() {
    let job = Job::new("mode = async\nthreaded = true\nscratch = DIR/scratch\n");
    let takes: String = (1..=20).map(|v| format!(" take=x:{v}")).collect();
    job.run("script", &format!("size=1000000{takes} finalize=0")).succeed();
    assert_eq!(capi_tests::job::names(&job.scratch()).len(), 20);
    job.configure("mode = async\nscratch = DIR/scratch\n");
    let run = job.run("script", "size=1000000 take=y:1 take=y:2 finalize=0");
    run.env("VELOC_BIN", "/nowhere").succeed();
    assert_eq!(capi_tests::job::names(&job.scratch()).len(), 22);
    let scratch = job.scratch().display().to_string();
    job.configure("mode = async\nthreaded = true\nscratch = DIR/scratch\n");
    job.run("script", "")
        .arg(format!("run=rm -r {scratch}; touch {scratch}"))
        .args("take=z:1 finalize=0:fails")
        .succeed();
}

/// Failures up to then are reported by `VELOC_Finalize(0)`, even if other checkpoints are still
/// being written and left to the backend, which gets them nevertheless. Catches a failure that only
/// the backend's log knows of.
#[test]
fn a_failure_is_said_when_others_are_handed_over() {
    let job = Job::new(ASYNC);
    let (scratch, held) = (job.scratch().display().to_string(), job.path("held"));
    let hold = held.display().to_string();
    let run = Ground::injected(&job, "scratch", 64 << 20).under(job.run("script", ""));
    let ended = run
        .env("FAULTS_HOLD", &held)
        .arg(format!("run=mkdir {scratch}/x-0-1.dat; echo 0 > {hold}"))
        .args("take=x:1 size=4000000 take=x:2")
        .arg(format!("run=echo 1000000 > {hold}.new; mv {hold}.new {hold}"))
        // By then the first one has failed.
        .arg(format!("run=until ls -A {scratch} | grep -q x-0-2; do sleep 0.01; done"))
        // A worker ends between two writes.
        .arg(format!("run=(sleep 1; rm {hold}) &"))
        .args("finalize=0:fails")
        .succeed();
    assert!(ended.stderr.contains("version 1") && ended.stderr.contains("x-0-1.dat"));
    wait_for_backends(&job);
    job.run("script", "size=4000000 newest=x:2 restore=x:2").succeed();
}

/// Network file systems report for some bytes only when the file is closed that they could not be
/// written. Catches a file that gets its name nevertheless, and the loss of the bytes that exist.
#[test]
fn what_is_said_when_a_file_is_closed() {
    let lasting = "persistent = DIR/persistent\nsync_files = none\n";
    for (configuration, below, fails) in [
        (SYNC.to_owned(), "scratch", "fail=x:1:x-0-1.dat|quota"),
        (ASYNC.to_owned(), "scratch", "take=x:1 late=x-0-1.dat|quota restore=x:1"),
        (format!("{ASYNC}{lasting}"), "persistent", "take=x:1 late=x-0-1.dat|quota restore=x:1"),
    ] {
        let job = Job::new(&configuration);
        let control = job.path("close").display().to_string();
        let directory = job.path(below).display().to_string();
        let ended = Ground::injected(&job, below, 64 << 20)
            .under(job.run("script", ""))
            .env("FAULTS_CLOSE", &control)
            .args("size=3000000")
            .arg(format!("run=touch {control}"))
            .args(fails)
            .arg(format!("run=test -z \"$(ls -A -I '.veloc-live-*' {directory})\"; rm {control}"));
        let again = if configuration == SYNC { "take=x:1" } else { "wait" };
        ended.args(again).args("drain newest=x:1 restore=x:1").succeed();
    }
}

/// A checkpoint for which scratch reports a failure at the close goes to persistent, like one for
/// which it reports the failure at once.
#[test]
fn what_is_said_when_a_file_is_closed_sends_it_to_persistent() {
    for mode in [SYNC, ASYNC] {
        let job = Job::new(&format!("{mode}persistent = DIR/persistent\n"));
        let control = job.path("close").display().to_string();
        let scratch = job.scratch().display().to_string();
        Ground::injected(&job, "scratch", 64 << 20)
            .under(job.run("script", ""))
            .env("FAULTS_CLOSE", &control)
            .arg(format!("run=touch {control}"))
            .args("size=3000000 take=x:1 wait")
            .arg(format!("run=test -z \"$(ls -A -I '.veloc-live-*' {scratch})\""))
            .args("drain newest=x:1 restore=x:1")
            .succeed();
    }
}
