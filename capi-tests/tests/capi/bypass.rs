//! A scratch that takes nothing: checkpoints go to persistent alone, although no copy, or no file
//! of their own, was planned there.

use capi_tests::backends::wait_for_backends;
use capi_tests::depth::cases;
use capi_tests::ground::Ground;
use capi_tests::job::{names, Job};

use crate::failing::{on_each, script, shell, with_commands, ASYNC, ROOM, SYNC};
use crate::mpi::{every_mpi, MPICH, OPEN_MPI};

/// No host buffer: the application writes each file itself.
const UNBUFFERED: &str = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 0\n";

/// Catches a process without others whose checkpoint is refused although persistent has room.
#[test]
fn what_need_not_be_in_persistent_goes_there() {
    for configuration in [SYNC, ASYNC, UNBUFFERED] {
        for interval in ["-1", "3600"] {
            let more = format!("persistent = DIR/persistent\npersistent_interval = {interval}\n");
            on_each(&format!("{configuration}{more}"), "scratch", |job, ground| {
                let commands = [
                    "size=1000000 take=x:1 wait".into(),
                    shell(ground.to_fill(2_900_000)),
                    "take=x:2 wait finished=1 restore=x:2".into(),
                    "drain newest=x:2 restore=x:2 restore=x:1".into(),
                ];
                script(ground, job.run("script", ""), &commands);
                assert_eq!(names(&job.persistent()), ["x-0-2.dat"]);
            });
        }
    }
}

/// In a job of several processes some find room in scratch and others do not, also with limits of
/// versions. A restart finds the version that all have, and notes that stand for files in scratch
/// go when scratch is to keep only newer versions. Catches a version that counts in persistent
/// although other processes lack it there, and pushes out versions that all have; and files that
/// become more with each checkpoint.
#[test]
fn what_scratch_cannot_take_of_some_processes() {
    for (mpi, interval) in cases(1, [(&OPEN_MPI, "-1"), (&MPICH, "-1"), (&MPICH, "3600")]) {
        // A checkpoint that is undecided when it is waited for is copied by all processes.
        let limits = ["", "set=VELOC_MAX_VERSIONS:1 set=VELOC_SCRATCH_VERSIONS:1"];
        for limits in limits.into_iter().take(if interval == "-1" { 2 } else { 1 }) {
            for mode in [SYNC, ASYNC] {
                let configuration = format!("{mode}persistent = DIR/persistent\n");
                // The next job would take the file for an older version in persistent.
                let end = if limits.is_empty() { "drain" } else { "" };
                on_each(&configuration, "scratch", |job, ground| {
                    let Some(run) = mpi.script(job, "") else { return };
                    let commands = [
                        // All processes have this version in persistent.
                        "size=450000 take=x:1 wait barrier".into(),
                        format!("set=VELOC_PERSISTENT_INTERVAL:{interval} {limits} drain"),
                        // Leaves room for one more of the three files.
                        format!("@0:{}", shell(ground.to_fill(2_100_000))),
                        "barrier take=x:2 wait barrier restore=x:2 barrier".into(),
                        format!("{end} newest=x:2 restore=x:2 restore=x:1 barrier"),
                        format!("@0:{}", shell(ground.to_empty())),
                        "barrier take=x:3 wait barrier take=x:4 wait drain".into(),
                        "newest=x:4 restore=x:4".into(),
                    ];
                    script(ground, run, &commands);
                    let there = names(&job.persistent());
                    for rank in 0..3 {
                        assert!(there.contains(&format!("x-{rank}-1.dat")), "{there:?}");
                    }
                    let second = there.iter().any(|name| name.ends_with("-2.dat"));
                    assert_eq!(second, limits.is_empty(), "{there:?}");
                });
            }
        }
    }
}

/// A process that writes its file itself knows no place in an aggregated file. Catches a checkpoint
/// that is refused for that, and an aggregated file that waits for a part which never comes.
#[test]
fn what_cannot_be_a_part_has_a_file_of_its_own() {
    let more = "persistent = DIR/persistent\nmeta = DIR/meta\nchksum = true\naggregated = true\n";
    for mpi in every_mpi() {
        for configuration in [SYNC, UNBUFFERED] {
            on_each(
                &format!("{configuration}{more}max_versions = 3\n"),
                "scratch",
                |job, ground| {
                    let Some(run) = mpi.script(job, "") else { return };
                    let commands = [
                        "size=450000 take=x:1 wait barrier".into(),
                        // Two of the three processes find no room.
                        format!("@0:{}", shell(ground.to_fill(2_100_000))),
                        "barrier take=x:2 wait restore=x:2 barrier".into(),
                        format!("@0:{}", shell(ground.to_empty())),
                        "barrier take=x:3 wait barrier".into(),
                        format!("@0:{}", shell(format!("rm {}/*", job.scratch().display()))),
                        "barrier drain newest=x:3 restore=x:3 restore=x:2 restore=x:1".into(),
                    ];
                    script(ground, run, &commands);
                    let own = ["x-0-2.dat", "x-1-2.dat", "x-2-2.dat"];
                    let there = [&own[..], &["x-agg-1.dat", "x-agg-3.dat"]].concat();
                    assert_eq!(names(&job.persistent()), there);
                },
            );
        }
    }
}

/// A file of the application's own is written beside the file that it replaces. Catches a new file
/// in the place of the old one where no copy was to be, and an old one that only a scratch with
/// room gives back.
#[test]
fn files_of_the_application_are_written_where_they_belong() {
    for configuration in [SYNC, ASYNC] {
        let more = "persistent = DIR/persistent\nmeta = DIR/meta\nchksum = true\n";
        on_each(&format!("{configuration}{more}"), "scratch", |job, ground| {
            let own = |version: i32| job.path(&format!("own.{version}")).display().to_string();
            let [one, two, three] = [1, 2, 3].map(own);
            let commands = [
                format!("route=x:1:{one} wait"),
                shell(ground.to_read_only()),
                format!("giveup=x:2 route=x:2:{two} wait newest=x:2 reroute=x:2:{two}"),
                shell(format!("test -f {two}")),
                shell(ground.to_writable()),
                format!("route=x:3:{three} drain newest=x:3"),
                format!("reroute=x:3:{three} reroute=x:2:{two} reroute=x:1:{one}"),
            ];
            let ended = script(ground, job.run("script", ""), &commands);
            assert!(ended.stderr.contains("written to persistent alone"), "{}", ended.stderr);
            assert!(!names(&job.path("")).iter().any(|name| name.contains(".tmp-")));
            assert_eq!(names(&job.persistent()), ["x-0-1.dat", "x-0-2.dat", "x-0-3.dat"]);
        });
        let more = format!("{more}persistent_interval = -1\n");
        on_each(&format!("{configuration}{more}"), "scratch", |job, ground| {
            let commands = [
                shell(ground.to_read_only()),
                "noroute=x:1:Read-only|interval_=_0 newest=x:-1".into(),
            ];
            script(ground, job.run("script", ""), &commands);
        });
    }
}

/// Checkpoints that scratch cannot take when the backend writes what a job has left go to
/// persistent there as well. Catches a checkpoint that is lost although persistent has room.
#[test]
fn the_backend_goes_past_scratch() {
    let more = "persistent = DIR/persistent\nmeta = DIR/meta\npersistent_interval = -1\n\
                watchdog_interval = 1\n";
    for (mpi, limit) in
        cases(1, [(&OPEN_MPI, "aggregated = true\n"), (&MPICH, "max_versions = 3\n")])
    {
        let job = Job::new(&format!("{ASYNC}{more}{limit}"));
        // The backend does not run under the stand-in for a file system, so a real one is needed.
        let Some(ground) = Ground::mounted(&job, "scratch", ROOM) else { return };
        let Some(run) = mpi.script(&job, "") else { return };
        let commands = [
            "size=450000 take=x:1 wait barrier".into(),
            // None of the three processes finds room: half files of any could keep the others out.
            format!("@0:{}", shell(ground.to_fill(2_700_000))),
            "barrier take=x:2 barrier kill".into(),
        ];
        let _ = ground.under(with_commands(run, &commands)).end();
        wait_for_backends(&job);
        assert_eq!(names(&job.persistent()), ["x-0-2.dat", "x-1-2.dat", "x-2-2.dat"]);
    }
}

/// A job begins on a scratch that can only be read: it restores what is there, and its checkpoints
/// go to persistent. Catches a job that cannot go on from its checkpoints, and a message for each
/// of them.
#[test]
fn a_job_begins_with_a_scratch_that_can_only_be_read() {
    let more = "persistent = DIR/persistent\nmeta = DIR/meta\nchksum = true\n";
    for configuration in [SYNC, ASYNC, UNBUFFERED] {
        for interval in ["0", "-1"] {
            let more = format!("{more}persistent_interval = {interval}\n");
            on_each(&format!("{configuration}{more}"), "scratch", |job, ground| {
                let commands = [
                    "size=1000000 take=x:1 take=x:2 wait".into(),
                    shell(ground.to_read_only()),
                    "drain newest=x:2 restore=x:2 restore=x:1 take=x:3 take=x:4 wait".into(),
                    "restore=x:3 drain newest=x:4 restore=x:4 restore=x:1".into(),
                    shell(ground.to_writable()),
                    "drain newest=x:4 restore=x:4 take=x:5 drain newest=x:5 restore=x:5".into(),
                ];
                let ended = script(ground, job.run("script", ""), &commands);
                let said = &ended.stderr;
                // Once by each of the two jobs that have begun so.
                assert_eq!(said.matches("persistent alone").count(), 2, "{said}");
                let scratch = job.scratch().display().to_string();
                assert!(said.contains(&scratch) && said.contains("Read-only"), "{said}");
                let there = names(&job.persistent());
                let own = match interval {
                    "0" => &[1, 2, 3, 4, 5][..],
                    _ => &[3, 4],
                };
                assert_eq!(there, own.iter().map(|v| format!("x-0-{v}.dat")).collect::<Vec<_>>());
            });
        }
    }
}

/// Nothing could be written anywhere: `VELOC_Init` fails, and says why and what to do.
#[test]
fn no_job_begins_that_could_write_nothing() {
    for (more, why) in [
        ("", "Read-only|persistent"),
        ("ephemeral = true\npersistent = DIR/persistent\n", "Read-only|ephemeral"),
    ] {
        for configuration in [SYNC, ASYNC] {
            on_each(&format!("{configuration}{more}"), "scratch", |job, ground| {
                let commands = [
                    shell(ground.to_read_only()),
                    format!("noinit=/scratch|{why}"),
                    shell(ground.to_writable()),
                    "init take=x:1 wait restore=x:1".into(),
                ];
                script(ground, job.run("script", ""), &commands);
            });
        }
    }
    for mpi in every_mpi() {
        // With a copy of each file in persistent, the job goes on.
        let more = "persistent = DIR/persistent\nmax_versions = 2\n";
        on_each(&format!("{ASYNC}{more}"), "scratch", |job, ground| {
            let Some(run) = mpi.script(job, "") else { return };
            let commands = [
                "size=100000 take=x:1 wait barrier".into(),
                format!("@0:{}", shell(ground.to_read_only())),
                "barrier drain newest=x:1 restore=x:1 take=x:2 take=x:3 drain".into(),
                "newest=x:3 restore=x:3 restore=x:2 barrier".into(),
                format!("@0:{}", shell(ground.to_writable())),
                "barrier drain newest=x:3 restore=x:3".into(),
            ];
            script(ground, run, &commands);
            let there = names(&job.persistent());
            assert_eq!(there.len(), 6, "{there:?}");
        });
    }
}
