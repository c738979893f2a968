//! The library over MPI: the same binary under Open MPI and under MPICH, neither of which it is
//! linked to. The checks are in `mpi/agreement.c`.

mod aggregated;

use std::collections::BTreeSet;

use capi_tests::job::{names, Job};
use capi_tests::program::{mpi_faults, mpi_program};
use capi_tests::run::Run;

const CONFIGURATION: &str = "mode = async\nscratch = DIR/scratch\n";

const AGGREGATED: &str = "mode = MODE\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                          meta = DIR/meta\naggregated = true\n";

pub(crate) use capi_tests::mpi::{Mpi, MPICH, OPEN_MPI};

/// The installations for a test that is the same under each.
pub(crate) fn every_mpi() -> impl Iterator<Item = &'static Mpi> {
    capi_tests::mpi::every_mpi(&MPICH)
}

fn under(mpi: &Mpi) {
    if mpi.start(1).is_none() {
        return;
    }
    let program = mpi_program(mpi.compiler, "../mpi/agreement.c");
    for case in ["together", "misfit"] {
        let job = Job::new(CONFIGURATION);
        let Some(run) = mpi.start(3) else { return };
        run.arg(&program)
            .arg(job.path("veloc.cfg"))
            .arg(format!("case={case}"))
            .arg(format!("scratch={}", job.scratch().display()))
            .succeed();
    }
    let job = Job::new(CONFIGURATION);
    Run::new(&program).arg(job.path("veloc.cfg")).arg("case=single").succeed();
}

/// Catches handles read at the wrong width or from the wrong copy of `ompi_mpi_comm_world`.
#[test]
fn open_mpi() {
    under(&OPEN_MPI);
}

/// Catches handles that are not cut to 32 bits.
#[test]
fn mpich() {
    under(&MPICH);
}

/// A process without a name for its restart fails together with the others. Catches a process that
/// returns before they meet: they would wait for it for ever.
#[test]
fn a_name_that_one_process_lacks() {
    for mpi in every_mpi() {
        let job = Job::new(CONFIGURATION);
        let commands = "take=x:1 wait @1:nameless @0:newest=x:-1 @0:refuse=x:1:process_1:_|name \
                        @2:newest=x:-1 @2:refuse=x:1:process_1:_|name newest=x:1 restore=x:1";
        let Some(run) = mpi.script(&job, commands) else { return };
        run.succeed();
    }
}

/// Processes whose configurations differ in keys that must agree: all are told which key, and who
/// has which value. Catches calls that only some processes make, and that those would wait in for
/// ever; and a process whose configuration cannot be read, while the others are told nothing.
#[test]
fn configurations_that_differ() {
    let keys = [
        ("mode", "async", "sync"),
        ("ephemeral", "false", "true"),
        ("max_versions", "0", "2"),
        ("scratch_versions", "0", "1"),
        ("newest_by", "number", "time"),
        ("persistent_interval", "0", "5"),
        ("persistent_interval", "0", "-1"),
        ("aggregated", "false", "true"),
        ("chksum", "false", "true"),
        ("ec_interval", "-1", "0"),
        ("ec_group", "8", "2"),
        ("ec_parity", "1", "2"),
        ("max_versions", "", "many"),
    ];
    for mpi in every_mpi() {
        let job = Job::new(
            "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\nmeta = DIR/meta\n",
        );
        let one = |&(key, given, value): &(&str, &str, &str)| {
            let variable = format!("VELOC_{}", key.to_uppercase());
            // "_" stands for a blank there.
            let words = key.replace('_', "|");
            let (own, others) = match given {
                "" => (format!("{words}|{value}"), format!("process_1:_|{words}|{value}")),
                _ => {
                    let words = format!("{words}_=_{given}_(processes_0,_2),_{value}_(process_1)");
                    (words.clone(), words)
                }
            };
            format!(
                "@1:set={variable}:{value} @0:noinit={others} @1:noinit={own} @2:noinit={others} \
                 @1:set={variable}: init "
            )
        };
        let commands: String = keys.iter().map(one).collect();
        // Paths, sizes and failure domains may differ.
        let differs = "@1:set=VELOC_SCRATCH:DIR/other @1:set=VELOC_HOST_CACHE_SIZE:2M \
                       @1:set=VELOC_FAILURE_DOMAIN:a @1:set=VELOC_SYNC_FILES:none drain take=x:1 \
                       newest=x:1 restore=x:1";
        let differs = differs.replace("DIR", &job.path("").display().to_string());
        let Some(run) = mpi.script(&job, &format!("{commands}{differs}")) else { return };
        run.succeed();
    }
}

/// What is cleaned up goes from scratch, and its copies in persistent count towards the limit there. Catches an
/// agreement that takes them for missing, so that none is ever removed.
#[test]
fn what_was_cleaned_up_is_limited_in_persistent() {
    for mpi in every_mpi() {
        for mode in ["sync", "async"] {
            let job = Job::new(&format!(
                "mode = {mode}\nscratch = DIR/scratch\npersistent = DIR/persistent\nmax_versions = 2\n"
            ));
            let commands = "take=x:1 take=x:2 take=x:3 take=x:4 take=x:5 wait cleanup=x";
            let Some(run) = mpi.script(&job, commands) else { return };
            run.succeed();
            let of = |versions: [i32; 2]| -> Vec<String> {
                (0..3).flat_map(|rank| versions.map(|v| format!("x-{rank}-{v}.dat"))).collect()
            };
            assert_eq!(names(&job.persistent()), of([4, 5]), "{mode}");
            let commands = "take=x:6 cleanup=x take=x:7 wait take=x:8 cleanup=x take=x:9";
            mpi.script(&job, commands).unwrap().succeed();
            assert_eq!(names(&job.persistent()), of([8, 9]), "{mode}");
        }
    }
}

/// A version that one process cannot restore any more is restored by none, and nothing is
/// overwritten: its files are removed in mid-job, are cut or have changed, or the process has too
/// little memory. Catches a process that counts on a file because it has written it, and an answer
/// based on that.
#[test]
fn a_restart_that_one_process_cannot_make() {
    for mpi in every_mpi() {
        for (mode, checksums) in [("sync", false), ("sync", true), ("async", true)] {
            let job = Job::new(&format!(
                "mode = {mode}\nscratch = DIR/scratch\npersistent = DIR/persistent\nmeta = DIR/meta\n\
                 host_cache_size = 0\nchksum = {checksums}\n"
            ));
            let on_files = |command: &str, version: i32| {
                let files = [job.scratch(), job.persistent()].map(|directory| {
                    let file = directory.join(format!("x-1-{version}.dat"));
                    format!(
                        "@1:run={}",
                        command.replace(' ', "${IFS}").replace("FILE", file.to_str().unwrap())
                    )
                });
                files.join(" ")
            };
            let refused = |version: i32, why: &str| {
                format!(
                    "barrier @0:leave=x:{version}:process_1|{why} @1:leave=x:{version}:{why} \
                     @2:leave=x:{version}:process_1|{why} "
                )
            };
            let mut commands = String::from("take=x:1 take=x:2 take=x:3 take=x:4 wait barrier ");
            if checksums {
                commands +=
                    &on_files("printf abc | dd of=FILE bs=1 seek=5000 conv=notrunc status=none", 4);
                commands += " barrier newest=x:3 ";
                commands += &refused(4, "SHA-256");
            }
            commands += &on_files("truncate -s 5000 FILE", 3);
            commands += " barrier newest=x:2:3 ";
            commands += &refused(3, "x-1-3.dat");
            commands += &on_files("rm FILE", 2);
            commands += " barrier newest=x:1:2 ";
            commands += &refused(2, "version_2");
            commands += "@1:size=50 ";
            commands += &refused(1, "only_50_are_protected");
            commands += "@1:size=100000 restore=x:1 take=x:5 wait newest=x:5";
            let Some(run) = mpi.script(&job, &commands) else { return };
            run.succeed();
        }
    }
}

/// The program of the guide, started with the guide's own lines: a second job goes on where the
/// first has ended or, if a rank lacks a version, from the one before. Catches a guide that nobody
/// can follow.
#[test]
fn the_job_of_the_guide() {
    let page = include_str!("../../../docs/guide/restart.md");
    let block = |kind: &str| {
        let text = page.split_once(&format!("```{kind}\n")).unwrap().1;
        text.split_once("```").unwrap().0
    };
    for mpi in every_mpi() {
        let configuration = block("ini")
            .replace("/local/scratch/heat", "DIR/scratch")
            .replace("/parallel/fs/heat", "DIR/persistent");
        let job = Job::new(&configuration);
        let run = |wanted: &str| {
            let Some(run) = mpi.start(3) else { return false };
            let source = job.path("heat.c");
            std::fs::write(&source, block("c")).unwrap();
            let program = mpi_program(mpi.compiler, source.to_str().unwrap());
            let ended = run.arg(program).arg(job.path("veloc.cfg")).end();
            let (stdout, stderr) = (&ended.stdout, &ended.stderr);
            assert!(ended.status.success() && stdout.contains(wanted), "{stdout}{stderr}");
            true
        };
        if !run("step 1 is next") {
            continue;
        }
        assert_eq!(names(&job.persistent()).len(), 6, "two versions of three ranks");
        for directory in [job.scratch(), job.persistent()] {
            std::fs::remove_file(directory.join("heat-1-1000.dat")).unwrap();
        }
        run("step 901 is next");
        run("step 1001 is next");
    }
}

/// A job that removes old versions is killed in the middle of its checkpoints, with each process
/// somewhere else, and still has a version that all can restore. Catches a process that removes
/// versions by its own decision alone.
#[test]
fn limits_leave_a_version_that_all_have() {
    for mpi in every_mpi() {
        for mode in ["sync", "async"] {
            let job = Job::new(&format!(
                "mode = {mode}\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                 max_versions = 1\nscratch_versions = 1\nthreaded = true\n"
            ));
            let takes: String = (1..=60).map(|v| format!(" take=x:{v}")).collect();
            let commands = format!(
                "size=1000 take=x:0 wait barrier{takes} @1:kill{}",
                takes.replace("=x", "=y")
            );
            let Some(run) = mpi.script(&job, &commands) else { return };
            run.end();
            let versions = |rank: usize| -> BTreeSet<i32> {
                let of_rank = |name: &String| {
                    name.strip_prefix(&format!("x-{rank}-"))?.strip_suffix(".dat")?.parse().ok()
                };
                let all = [names(&job.scratch()), names(&job.persistent())].concat();
                all.iter().filter_map(of_rank).collect()
            };
            let common = (0..3).map(versions).reduce(|all, one| &all & &one).unwrap();
            let newest = common.last().unwrap_or_else(|| panic!("{mode}: none is common"));
            let commands = format!("size=1000 newest=x:{newest} restore=x:{newest}");
            mpi.script(&job, &commands).unwrap().succeed();
        }
    }
}

/// A job that is killed before it has taken as many versions as are to stay has removed older ones
/// of earlier jobs beyond that. Catches files that become more with each killed job.
#[test]
fn limits_are_kept_by_jobs_that_are_killed() {
    for mpi in every_mpi() {
        let unlimited = "mode = async\nthreaded = true\nscratch = DIR/scratch\n\
                         persistent = DIR/persistent\n";
        let job = Job::new(unlimited);
        let takes = |versions: std::ops::RangeInclusive<i32>| -> String {
            versions.map(|v| format!(" take=x:{v} wait barrier")).collect()
        };
        let Some(run) = mpi.script(&job, &takes(1..=30)) else { return };
        run.succeed();
        job.configure(&format!("{unlimited}max_versions = 10\nscratch_versions = 10\n"));
        mpi.script(&job, &format!("{} kill", takes(31..=39))).unwrap().end();
        for directory in [job.scratch(), job.persistent()] {
            let left = names(&directory);
            let left = left.iter().filter(|name| !name.starts_with('.')).count();
            // It is not known yet whether all processes have the last versions.
            assert!((3 * 10..=3 * 13).contains(&left), "{:?}", names(&directory));
        }
        mpi.script(&job, "newest=x:39 restore=x:39").unwrap().succeed();
    }
}

/// In the end each process has as many versions as the limits say, also a slower one.
#[test]
fn limits_are_kept_in_the_end() {
    for mpi in every_mpi() {
        let job = Job::new(
            "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
             max_versions = 2\nscratch_versions = 1\n",
        );
        let takes: String = (1..=20).map(|v| format!(" take=x:{v}")).collect();
        let Some(run) = mpi.script(&job, &takes) else { return };
        run.succeed();
        let of = |versions: &[i32]| -> Vec<String> {
            (0..3).flat_map(|r| versions.iter().map(move |v| format!("x-{r}-{v}.dat"))).collect()
        };
        assert_eq!(names(&job.scratch()), of(&[20]));
        assert_eq!(names(&job.persistent()), of(&[19, 20]));
    }
}

/// All processes copy the same checkpoints to persistent. Catches processes that ask their clocks.
#[test]
fn intervals_are_agreed_on() {
    for mpi in every_mpi() {
        let with = |interval: i32| {
            Job::new(&format!(
                "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                 persistent_interval = {interval}\n"
            ))
        };
        for interval in [-1, 100_000] {
            let job = with(interval);
            let Some(run) = mpi.script(&job, "take=x:1 take=x:2 take=x:3") else { return };
            run.succeed();
            assert_eq!(names(&job.persistent()), [""; 0], "{interval}");
        }
        let job = with(1);
        let takes: String = (1..=24).map(|v| format!(" take=x:{v} sleep=100")).collect();
        mpi.script(&job, &takes).unwrap().succeed();
        let persistent = names(&job.persistent());
        assert!(!persistent.is_empty() && persistent.len() < 24 * 3, "{persistent:?}");
        for name in &persistent {
            let version = name.rsplit_once('-').unwrap().1;
            for rank in 0..3 {
                assert!(persistent.contains(&format!("x-{rank}-{version}")), "{persistent:?}");
            }
        }
    }
}

/// Processes that take different checkpoints keep them all, and get a warning.
#[test]
fn different_checkpoints_are_kept() {
    for mpi in every_mpi() {
        let job = Job::new("mode = async\nscratch = DIR/scratch\nscratch_versions = 1\n");
        let commands = "@0:take=x:1 @1:take=x:2 @2:take=x:3 take=y:1 take=y:2 @0:take=z:9";
        let Some(run) = mpi.script(&job, commands) else { return };
        let ended = run.succeed();
        assert!(ended.stderr.contains("different checkpoints"), "{}", ended.stderr);
        assert_eq!(names(&job.scratch()).len(), 3 + 6 + 1);
    }
}

/// A call of MPI that fails on one process ends the agreement: the processes report it and its
/// consequences, no call waits for ever, and nothing is removed or lost. Catches a process that
/// goes on to wait for results that cannot come, also in `mode = sync`, where it waits for each
/// aggregated file; a process that removes versions by older results; and parts of aggregated files
/// that stay where nobody looks.
#[test]
fn an_error_of_mpi_ends_the_agreement() {
    let limits = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                  max_versions = 2\nscratch_versions = 2\n";
    let [aggregated, direct] = ["async", "sync"].map(|mode| AGGREGATED.replace("MODE", mode));
    let faults = [
        (limits, "MPI_Iallreduce:1:3:1"),
        (limits, "MPI_Test:0:2:1"),
        (&direct, "MPI_Iallgather:1:2:1"),
        (&aggregated, "MPI_Wait:2:1:1"),
    ];
    // Open MPI takes a second to start.
    for (mpi, every) in [(MPICH, 1), (OPEN_MPI, 2)] {
        for (configuration, fault) in faults.into_iter().step_by(every) {
            println!("{} {fault}", mpi.compiler);
            let job = Job::new(configuration);
            let commands = "take=x:1 take=x:2 take=x:3 wait take=x:4 take=x:5 take=x:6";
            let Some(run) = mpi.script(&job, commands) else { return };
            let run = run.env("LD_PRELOAD", mpi_faults(mpi.compiler, &job.path("")));
            let ended = run.env("MPI_FAULT", fault).succeed();
            for words in
                ["no longer agree on versions", "max_versions", "a persistent file of its own"]
            {
                assert!(ended.stderr.contains(words), "{fault}: {}", ended.stderr);
            }
            std::fs::remove_dir_all(job.scratch()).unwrap();
            mpi.script(&job, "newest=x:6 restore=x:6 restore=x:5").unwrap().succeed();
        }
    }
}

/// Catches checkpoints that wait for an impossible agreement, and never reach persistent.
#[test]
fn what_is_undecided_is_copied_after_mpi_has_ended() {
    let interval = "mode = async\nthreaded = true\nscratch = DIR/scratch\n\
                    persistent = DIR/persistent\npersistent_interval = 100000\n";
    for mpi in every_mpi() {
        let aggregated = AGGREGATED.replace("MODE", "async") + "threaded = true\n";
        for configuration in [&aggregated, interval] {
            let job = Job::new(configuration);
            let commands = "size=8000000 take=x:1 barrier take=x:2 end_mpi";
            let Some(run) = mpi.script(&job, commands) else { return };
            run.succeed();
            for rank in 0..3 {
                let version = job.persistent().join(format!("x-{rank}-2.dat"));
                assert!(version.exists(), "{:?}", names(&job.persistent()));
            }
        }
    }
}

/// A restart of an earlier job's checkpoint compares each file before it reads it, once, unless
/// `VELOC_Restart_test` has. Catches a file that is compared twice, and a file that is not
/// compared, and restored on some processes.
#[test]
fn restarts_with_checksums_compare_once() {
    for mpi in every_mpi() {
        let job = Job::new(
            "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\nmeta = DIR/meta\n\
             chksum = true\n",
        );
        let script = |commands: &str| mpi.script(&job, &format!("size=8000000 {commands}"));
        let Some(run) = script("take=x:1 take=x:2") else { return };
        run.succeed();
        script("reads=0 restore=x:2 reads=250").unwrap().succeed();
        script("reads=0 newest=x:2 reads=150 restore=x:2 reads=150").unwrap().succeed();
        let flip = |folder: std::path::PathBuf| {
            let path = folder.join("x-1-2.dat");
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[1000] ^= 4;
            std::fs::write(path, bytes).unwrap();
        };
        // On one process, the next copy is read in place of the bad copy.
        flip(job.scratch());
        let ended = script("reads=0 restore=x:2 @0:reads=250 @2:reads=250 restore=x:1").unwrap();
        let ended = ended.succeed();
        assert!(ended.stderr.contains("looking for another copy"), "{}", ended.stderr);
        flip(job.persistent());
        let commands = "@0:leave=x:2:process_1|SHA-256 @1:leave=x:2:x-1-2.dat|SHA-256 \
                        @2:leave=x:2:process_1|SHA-256 newest=x:1 restore=x:1";
        script(commands).unwrap().succeed();
    }
}
