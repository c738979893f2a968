//! File systems that become full or read-only in the middle of a job: the call that meets it returns
//! -1 and names the file and the reason, what there was before is still there, and the job goes on
//! once the file system does. On real file systems where they can be had, and always on stand-ins.

use capi_tests::ground::Ground;
use capi_tests::job::{names, Job};
use capi_tests::run::{Ended, Run};

use crate::mpi::{MPICH, OPEN_MPI};

pub const SYNC: &str = "mode = sync\nscratch = DIR/scratch\n";
pub const ASYNC: &str = "mode = async\nscratch = DIR/scratch\nhost_cache_size = 16M\n";

/// Room of the file systems here: for a checkpoint of [`SMALL`], and a large one in part.
const ROOM: usize = 4 << 20;

/// Does this once on each ground for the directory `below` of a job of its own.
pub fn on_each(configuration: &str, below: &str, test: impl Fn(&Job, &Ground)) {
    let job = Job::new(configuration);
    test(&job, &Ground::injected(&job, below, ROOM));
    let job = Job::new(configuration);
    if let Some(ground) = Ground::mounted(&job, below, ROOM) {
        test(&job, &ground);
    }
}

/// Has the script program do all of this. What begins with `run=` is one command of a shell; in the
/// others, blanks separate the commands.
pub fn script(ground: &Ground, run: Run, commands: &[String]) -> Ended {
    let run = commands.iter().fold(run, |run, command| {
        if command.contains("run=") {
            run.arg(command)
        } else {
            run.args(command)
        }
    });
    ground.under(run).succeed()
}

pub fn shell(command: String) -> String {
    format!("run={command}")
}

/// Scratch fills up while a checkpoint is written to it, by the application or by a worker. Catches a
/// failure that is not said, a half file with the name of a whole one, a temporary file that keeps
/// the room, and an older version that goes with it.
#[test]
fn scratch_fills_up() {
    on_each(SYNC, "scratch", |job, ground| {
        let commands = [
            "size=1000000 take=x:1 size=3500000 fail=x:2:x-0-2.dat|No_space_left".into(),
            "size=1000000 newest=x:1 restore=x:1 take=x:3 restore=x:3".into(),
            // A version that is written again stays what it was.
            shell(ground.to_fill(1_500_000)),
            "fail=x:3:x-0-3.dat|No_space_left restore=x:3".into(),
            shell(ground.to_empty()),
            "take=x:3:8 restore=x:3:8".into(),
            shell(format!("test $(ls -A {} | wc -l) = 2", job.scratch().display())),
        ];
        script(ground, job.run("script", ""), &commands);
    });
    on_each(ASYNC, "scratch", |job, ground| {
        let commands = [
            "size=1000000 take=x:1 wait".into(),
            shell(ground.to_fill(2_500_000)),
            "take=x:2 late=x-0-2.dat|No_space_left newest=x:2 restore=x:2 restore=x:1".into(),
            shell(ground.to_empty()),
            // From its file: a new job knows nothing else.
            "wait drain newest=x:2 restore=x:2 restore=x:1".into(),
        ];
        script(ground, job.run("script", ""), &commands);
    });
}

/// What scratch cannot take goes straight to persistent, from the host buffer or from the application's
/// memory: nobody's call fails, it is said once, and a restart finds it. Catches a version that was
/// taken again and whose old file in scratch is taken for the nearest copy, and its old checksum.
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
                // Its old file makes room for the next one.
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
            // By each of the two jobs that met it.
            assert_eq!(ended.stderr.matches("written to persistent alone").count(), 2);
        });
    }
}

/// Regions that are added call by call take what was written of the checkpoint along to persistent.
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

/// With neither of them, the call that meets it fails, and both are tried again.
#[test]
fn neither_scratch_nor_persistent_takes_it() {
    for (configuration, fails) in [
        (SYNC, "fail=x:2:x-0-2.dat|No_space_left|nor_can_persistent"),
        (ASYNC, "take=x:2 late=persistent"),
    ] {
        let configuration = format!("{configuration}persistent = DIR/persistent\n");
        on_each(&configuration, "scratch", |job, ground| {
            let persistent = job.persistent().display().to_string();
            let commands = [
                "size=1000000 take=x:1 wait".into(),
                shell(ground.to_fill(2_900_000)),
                shell(format!("rm -r {persistent}; touch {persistent}")),
                fails.into(),
                "restore=x:1".into(),
                shell(format!("rm {persistent}; mkdir {persistent}")),
                "wait take=x:3 wait drain newest=x:3 restore=x:3 restore=x:1".into(),
            ];
            script(ground, job.run("script", ""), &commands);
            // What the call has refused is nowhere.
            let refused = configuration.starts_with(SYNC);
            assert_eq!(names(&job.persistent()).contains(&"x-0-2.dat".to_owned()), !refused);
        });
    }
}

/// A part of an aggregated file comes from the host buffer as well.
#[test]
fn parts_that_scratch_cannot_take_are_aggregated() {
    for mpi in [&OPEN_MPI, &MPICH] {
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

/// Scratch has room for a few versions and is to keep fewer, and persistent is slower than the
/// application: what finds no room waits until older versions have gone. Catches a checkpoint that is
/// refused or lost although room was about to come.
#[test]
fn what_is_about_to_leave_scratch_is_waited_for() {
    let limits = "persistent = DIR/persistent\nscratch_versions = 1\nmax_versions = 2\n";
    for host in ["64M", "0"] {
        let configuration =
            format!("mode = async\nscratch = DIR/scratch\nhost_cache_size = {host}\n{limits}");
        on_each(&configuration, "scratch", |job, ground| {
            let takes: Vec<String> = (1..=24).map(|v| format!("take=x:{v}")).collect();
            let commands = [
                "size=1000000".into(),
                takes.join(" "),
                "wait".into(),
                shell(format!("test \"$(ls -A {})\" = x-0-24.dat", job.scratch().display())),
                "drain newest=x:24 restore=x:24".into(),
            ];
            script(ground, job.run("script", ""), &commands);
            assert_eq!(names(&job.persistent()), ["x-0-23.dat", "x-0-24.dat"]);
        });
    }
}

/// The same for the processes of a job, which have room for what is to be kept and one more of each.
/// One is slower than the others, which take the next checkpoints meanwhile. Catches a process that
/// takes the room that slower ones need, or writes before it may remove an old version: from then on
/// all checkpoints failed; and one that hears nothing of the others while it waits for them.
#[test]
fn who_is_ahead_leaves_room() {
    let limits = "persistent = DIR/persistent\nscratch_versions = 1\nmax_versions = 1\n";
    let buffer =
        |bytes: &str| format!("mode = async\nscratch = DIR/scratch\nhost_cache_size = {bytes}\n");
    for mpi in [&OPEN_MPI, &MPICH] {
        for configuration in [buffer("64M"), buffer("2M"), SYNC.to_owned()] {
            for full in ["scratch", "persistent"] {
                on_each(&format!("{configuration}{limits}"), full, |job, ground| {
                    let Some(run) = mpi.script(job, "") else { return };
                    let takes = (1..=9).map(|v| format!("@1:sleep=30 take=x:{v}"));
                    let with_waits = (10..=15).map(|v| format!("take=x:{v} wait finished=1"));
                    let takes: Vec<String> = takes.chain(with_waits).collect();
                    let commands = [
                        // Two files of each of three processes, and no third one of any.
                        "size=680000".into(),
                        takes.join(" "),
                        "drain newest=x:15 restore=x:15 take=x:16 drain restore=x:16".into(),
                    ];
                    let ended = script(ground, run, &commands);
                    assert!(!ended.stderr.contains("alone"), "{}", ended.stderr);
                });
            }
        }
    }
}

/// The file system of an aggregated file fills up, for all processes.
#[test]
fn aggregated_files_fill_up() {
    for mpi in [&OPEN_MPI, &MPICH] {
        for configuration in [SYNC, ASYNC] {
            let configuration = format!(
                "{configuration}persistent = DIR/persistent\nmeta = DIR/meta\naggregated = true\n"
            );
            on_each(&configuration, "persistent", |job, ground| {
                let Some(run) = mpi.script(job, "") else { return };
                let fails = if configuration.starts_with(SYNC) {
                    "fail=x:2:x-agg-2.dat|No_space_left"
                } else {
                    "take=x:2 late=x-agg-2.dat|No_space_left"
                };
                let commands = [
                    "size=450000 take=x:1 wait barrier".into(),
                    // No process's part has room, nor has one alone.
                    format!("@0:{}", shell(ground.to_fill(2_450_000))),
                    "barrier".into(),
                    fails.into(),
                    "barrier restore=x:1 barrier".into(),
                    format!("@0:{}", shell(ground.to_empty())),
                    "barrier wait take=x:3 wait barrier".into(),
                    format!("@0:{}", shell(format!("rm {}/*", job.scratch().display()))),
                    "barrier drain newest=x:3 restore=x:3 restore=x:2 restore=x:1".into(),
                ];
                script(ground, run, &commands);
            });
        }
    }
}

/// There is room for the checkpoints, but not for their parities: nobody's call fails, the log says
/// what is unprotected, and later ones are protected again.
#[test]
fn parities_find_no_room() {
    for mpi in [&OPEN_MPI, &MPICH] {
        on_each(&format!("{ASYNC}ec_interval = 0\n"), "scratch", |job, ground| {
            let Some(run) = mpi.script(job, "") else { return };
            let parity = |version| {
                let file =
                    |rank| format!("{}/.x-{rank}-{version}.dat.parity", job.scratch().display());
                [0, 1, 2].map(|rank| format!("test -s {}", file(rank))).join(" && ")
            };
            let commands = [
                // Three files, and 100000 bytes of room for three parities of 250000.
                format!("@0:{}", shell(ground.to_fill(ROOM - 1_600_000))),
                "barrier size=500000 take=x:1 wait drain restore=x:1 barrier".into(),
                format!("@0:{}", shell(format!("! ({})", parity(1)))),
                format!("@0:{}", shell(ground.to_empty())),
                "barrier take=x:2 wait drain restore=x:2 restore=x:1".into(),
                format!("@0:{}", shell(parity(2))),
            ];
            let ended = script(ground, run, &commands);
            for part in ["parit", "x-", "No space left"] {
                assert!(ended.stderr.contains(part), "{}", ended.stderr);
            }
        });
    }
}

/// The file system becomes read-only between two checkpoints, as with `mount -o remount,ro` or after
/// an error of the disk.
#[test]
fn read_only_between_checkpoints() {
    on_each(SYNC, "scratch", |job, ground| {
        let commands = [
            "size=1000000 take=x:1".into(),
            shell(ground.to_read_only()),
            "fail=x:2:x-0-2.dat|Read-only newest=x:1 restore=x:1".into(),
            "fail=x:1:x-0-1.dat|Read-only restore=x:1".into(),
            shell(ground.to_writable()),
            "take=x:2 restore=x:2 restore=x:1 newest=x:2".into(),
        ];
        script(ground, job.run("script", ""), &commands);
    });
    for (below, configuration) in [
        ("scratch", ASYNC.to_owned()),
        ("persistent", format!("{ASYNC}persistent = DIR/persistent\n")),
    ] {
        on_each(&configuration, below, |job, ground| {
            let commands = [
                "size=1000000 take=x:1 wait".into(),
                shell(ground.to_read_only()),
                "take=x:2 late=x-0-2.dat|Read-only restore=x:2 restore=x:1".into(),
                shell(ground.to_writable()),
                "wait drain newest=x:2 restore=x:2 restore=x:1".into(),
            ];
            script(ground, job.run("script", ""), &commands);
        });
    }
}

/// It becomes read-only in the middle of a file, which a system does by itself after an error and
/// nobody can do on purpose: files that are open for writing keep a remount out.
#[test]
fn read_only_in_the_middle_of_a_file() {
    for (below, configuration) in [
        ("scratch", SYNC.to_owned()),
        ("scratch", ASYNC.to_owned()),
        ("persistent", format!("{ASYNC}persistent = DIR/persistent\n")),
    ] {
        let job = Job::new(&configuration);
        let ground = Ground::injected(&job, below, ROOM);
        let fails = if configuration == SYNC {
            "fail=x:2:x-0-2.dat|Read-only"
        } else {
            "take=x:2 late=x-0-2.dat|Read-only"
        };
        let commands = [
            "size=1000000 take=x:1 wait".into(),
            shell(ground.to_read_only().replace("echo 0", "echo 400000")),
            fails.into(),
            "restore=x:1".into(),
            shell(ground.to_writable()),
            "wait take=x:3 wait drain newest=x:3 restore=x:3 restore=x:1".into(),
        ];
        script(&ground, job.run("script", ""), &commands);
    }
}

/// Catches a `VELOC_Checkpoint_finished` that forgets a failure once it has told of it, and a
/// `VELOC_Finalize(0)` that gives up what it could not write, without a word.
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

/// Without a backend, `VELOC_Finalize(0)` writes what was taken, or says that it cannot.
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
