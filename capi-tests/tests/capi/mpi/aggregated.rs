//! Aggregated files: whole or absent, upstream's files, and parts without the rest.

use std::collections::BTreeSet;
use std::os::fd::AsRawFd as _;

use capi_tests::backends::wait_for_backends;
use capi_tests::checkpoint_file::{content, encode};
use capi_tests::job::{files, names, Job};
use capi_tests::program::dying;

use super::{every_mpi, AGGREGATED, MPICH};

/// Each process has another length.
const LENGTHS: &str = "@0:size=1000 @1:size=3000000 @2:size=5";

/// Upstream's form: the processes' files one behind the other, a table of where they begin, and
/// nothing else. Catches a part in the wrong place, a file that stays incomplete, and a restart
/// that does not look there.
#[test]
fn aggregated_files() {
    for mpi in every_mpi() {
        for mode in ["sync", "async"] {
            let job = Job::new(&AGGREGATED.replace("MODE", mode));
            let commands = format!("{LENGTHS} take=x:1 take=x:2 take=y:1 take=x:1:9");
            let Some(run) = mpi.script(&job, &commands) else { return };
            run.succeed();
            assert_eq!(names(&job.persistent()), ["x-agg-1.dat", "x-agg-2.dat", "y-agg-1.dat"]);
            assert_eq!(names(&job.path("meta")), names(&job.persistent()));
            let scratch = files(&job.scratch());
            for (name, bytes) in files(&job.persistent()) {
                let parts = |rank: usize| &scratch[&name.replace("agg", &rank.to_string())];
                assert!(bytes == [&parts(0)[..], parts(1), parts(2)].concat(), "{name}");
                let table: Vec<u8> = [3, 0, parts(0).len(), parts(0).len() + parts(1).len()]
                    .iter()
                    .flat_map(|&number| (number as i64).to_le_bytes())
                    .collect();
                // Upstream reads no further than this.
                assert!(files(&job.path("meta"))[&name].starts_with(&table));
            }
            std::fs::remove_dir_all(job.scratch()).unwrap();
            let commands = format!("{LENGTHS} newest=x:2 restore=x:2 restore=x:1:9 restore=y:1");
            mpi.script(&job, &commands).unwrap().succeed();
        }
    }
}

/// An aggregated file that was made by hand, as upstream would.
#[test]
fn aggregated_files_of_others() {
    let job = Job::new(&AGGREGATED.replace("MODE", "async"));
    let parts: Vec<Vec<u8>> =
        [1000, 3_000_000, 5].map(|len| encode(&[(1, content(1, 4, len))])).into();
    for folder in [job.persistent(), job.path("meta")] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(job.persistent().join("x-agg-4.dat"), parts.concat()).unwrap();
    let second = parts[0].len();
    let table: Vec<u8> = [3, 0, second, second + parts[1].len()]
        .iter()
        .flat_map(|&number| (number as i64).to_le_bytes())
        .collect();
    std::fs::write(job.path("meta/x-agg-4.dat"), table).unwrap();
    for mpi in every_mpi() {
        let Some(run) = mpi.script(&job, &format!("{LENGTHS} newest=x:4 restore=x:4")) else {
            return;
        };
        run.succeed();
    }
}

/// Without its table, or with a damaged one, an aggregated file restores all the same, by the
/// headers of its parts; a file that is none is reported. Catches a version that is silently passed
/// over.
#[test]
fn aggregated_files_without_tables() {
    for mpi in every_mpi() {
        let job = Job::new(&AGGREGATED.replace("MODE", "async"));
        let Some(run) = mpi.script(&job, &format!("{LENGTHS} take=x:1 take=x:2")) else { return };
        run.succeed();
        std::fs::remove_dir_all(job.scratch()).unwrap();
        std::fs::write(job.path("meta/x-agg-2.dat"), b"").unwrap();
        let ended = mpi.script(&job, &format!("{LENGTHS} newest=x:2 restore=x:2")).unwrap();
        let ended = ended.succeed();
        assert!(ended.stderr.contains("x-agg-2.dat: its table is of no use"), "{}", ended.stderr);
        for folder in [job.scratch(), job.path("meta")] {
            std::fs::remove_dir_all(folder).unwrap();
        }
        let ended = mpi.script(&job, &format!("{LENGTHS} newest=x:2 restore=x:2")).unwrap();
        let ended = ended.succeed();
        assert!(ended.stderr.contains("x-agg-2.dat: its table "), "{}", ended.stderr);
        let data = job.persistent().join("x-agg-2.dat");
        let len = std::fs::metadata(&data).unwrap().len();
        std::fs::OpenOptions::new().write(true).open(&data).unwrap().set_len(len - 1).unwrap();
        let ended = mpi.script(&job, &format!("{LENGTHS} newest=x:1 restore=x:1")).unwrap();
        let ended = ended.succeed();
        for words in ["x-agg-2.dat", "is missing"] {
            assert!(ended.stderr.contains(words), "{}", ended.stderr);
        }
    }
}

/// Limits, intervals and checksums with aggregated files.
#[test]
fn aggregated_files_with_the_rest() {
    for mpi in every_mpi() {
        let limits = "max_versions = 2\nscratch_versions = 1\nchksum = true\n";
        let job = Job::new(&(AGGREGATED.replace("MODE", "async") + limits));
        let takes: String = (1..=9).map(|v| format!(" take=x:{v}")).collect();
        let Some(run) = mpi.script(&job, &takes) else { return };
        run.succeed();
        assert_eq!(names(&job.persistent()), ["x-agg-8.dat", "x-agg-9.dat"]);
        let meta = names(&job.path("meta"));
        assert_eq!(meta.len(), 2 + 2 * 3, "{meta:?}");
        std::fs::remove_dir_all(job.scratch()).unwrap();
        // The last byte is the last process's.
        let path = job.persistent().join("x-agg-9.dat");
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
        let ended = mpi.script(&job, "newest=x:8 restore=x:8").unwrap().succeed();
        assert!(ended.stderr.contains("x-agg-9.dat: its bytes have SHA-256"), "{}", ended.stderr);

        let interval = "persistent_interval = 100000\n";
        let job = Job::new(&(AGGREGATED.replace("MODE", "async") + interval));
        mpi.script(&job, "take=x:1 wait take=x:2").unwrap().succeed();
        assert_eq!(names(&job.persistent()), [""; 0]);
    }
}

/// Files of killed jobs for an aggregated file are removed once the aggregated file exists, unless
/// a process has them open and may still write them.
#[test]
fn incomplete_aggregated_files_go() {
    for mpi in every_mpi() {
        let job = Job::new(&AGGREGATED.replace("MODE", "async"));
        std::fs::create_dir_all(job.persistent()).unwrap();
        for version in [1, 7] {
            for end in ["", ".roll2"] {
                let name = format!(".x-agg-{version}.dat{end}.tmp-4294967295-3");
                std::fs::write(job.persistent().join(name), "half").unwrap();
            }
        }
        std::fs::write(job.persistent().join(".x-agg-6.dat.tmp-4294967295-3"), "half").unwrap();
        // Locked, as by a process that writes.
        let held = std::fs::File::open(job.persistent().join(".x-agg-7.dat.tmp-4294967295-3"));
        let held = held.unwrap();
        // SAFETY: an open file.
        assert_eq!(unsafe { libc::flock(held.as_raw_fd(), libc::LOCK_SH) }, 0);
        let Some(run) = mpi.script(&job, "take=x:1 take=x:2") else { return };
        run.succeed();
        let left = [".x-agg-7.dat.roll2.tmp-4294967295-3", ".x-agg-7.dat.tmp-4294967295-3"];
        assert_eq!(names(&job.persistent()), [&left[..], &["x-agg-1.dat", "x-agg-2.dat"]].concat());
    }
}

/// Killed between any two steps of completing an aggregated file: there is never one without its
/// table, which nobody would find again; and what is left goes when the version is taken again.
#[test]
fn an_aggregated_file_is_whole_or_absent() {
    for end in ["persistent/x-agg-2.dat", "meta/x-agg-2.dat"] {
        let job = Job::new(&AGGREGATED.replace("MODE", "sync"));
        let Some(run) = MPICH.script(&job, "take=x:1 take=x:2 take=x:3") else { return };
        run.env("LD_PRELOAD", dying(&job.path(""))).env("DIES_AT", end).end();
        let complete = |folder: &std::path::Path| -> Vec<String> {
            names(folder).into_iter().filter(|name| name.starts_with("x-agg")).collect()
        };
        let (data, tables) = (complete(&job.persistent()), complete(&job.path("meta")));
        assert!(data.iter().all(|name| tables.contains(name)), "{end}: {data:?}, {tables:?}");
        MPICH.script(&job, "newest=x:2 take=x:2 take=x:3").unwrap().succeed();
        let all = ["x-agg-1.dat", "x-agg-2.dat", "x-agg-3.dat"];
        assert_eq!(names(&job.persistent()), all, "{end}");
        std::fs::remove_dir_all(job.scratch()).unwrap();
        MPICH.script(&job, "newest=x:3 restore=x:2 restore=x:1").unwrap().succeed();
    }
}

/// Killed when all parts and the old file exist, and the old file, but not yet the new one, has
/// been removed; then scratch is lost. Catches parts that nobody finds because their list had been
/// removed for completion, and rests that stay for ever.
#[test]
fn the_parts_of_a_file_that_is_about_to_be_complete_are_found() {
    let job = Job::new(&AGGREGATED.replace("MODE", "sync"));
    let Some(run) = MPICH.script(&job, "take=x:1 take=x:2") else { return };
    run.env("LD_PRELOAD", dying(&job.path(""))).env("DIES_AT", "meta/x-agg-2.dat").end();
    std::fs::remove_dir_all(job.scratch()).unwrap();
    MPICH.script(&job, "newest=x:2 restore=x:2 restore=x:1").unwrap().succeed();
    let left = names(&job.persistent());
    assert_eq!(left, ["x-0-2.dat", "x-1-2.dat", "x-2-2.dat", "x-agg-1.dat"]);
    MPICH.script(&job, "newest=x:2 take=x:2").unwrap().succeed();
    assert_eq!(names(&job.persistent()), ["x-agg-1.dat", "x-agg-2.dat"]);
}

/// Checkpoints that not all processes have taken are in files of their own, and reported.
#[test]
fn what_cannot_be_aggregated() {
    for mpi in every_mpi() {
        let job = Job::new(&AGGREGATED.replace("MODE", "async"));
        let commands = "@0:take=x:1 @1:take=x:2 @2:take=x:3 take=y:1 @0:take=z:1";
        let Some(run) = mpi.script(&job, commands) else { return };
        let ended = run.succeed();
        assert!(ended.stderr.contains("not aggregated"), "{}", ended.stderr);
        assert_eq!(
            names(&job.persistent()),
            ["x-0-1.dat", "x-1-2.dat", "x-2-3.dat", "y-agg-1.dat", "z-0-1.dat"]
        );
    }
    let job = Job::new(&AGGREGATED.replace("MODE", "async"));
    let ended = job.run("script", "take=x:1").succeed();
    assert!(ended.stderr.contains("aggregated"), "{}", ended.stderr);
    assert_eq!(names(&job.persistent()), ["x-0-1.dat"]);
}

/// A checkpoint that is given up, on all processes or on one, is not waited for: the limits go on.
#[test]
fn given_up_where_files_are_aggregated() {
    for mpi in every_mpi() {
        let limits = "max_versions = 1\nscratch_versions = 1\n";
        let job = Job::new(&(AGGREGATED.replace("MODE", "async") + limits));
        let commands = "take=x:1 giveup=x:2 take=x:3 @0:giveup=x:4 @1:take=x:4 @2:take=x:4 \
                        take=x:5 take=x:6 wait";
        let Some(run) = mpi.script(&job, commands) else { return };
        run.succeed();
        assert_eq!(names(&job.persistent()), ["x-agg-6.dat"]);
    }
}

/// A version that one process lacks replaces no version that all have: neither a checkpoint that
/// the process has given up, nor one that it was killed before it had written.
#[test]
fn what_one_lacks_replaces_nothing() {
    for mpi in every_mpi() {
        let job = Job::new(
            "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
             max_versions = 1\nscratch_versions = 1\n",
        );
        // The results of a round arrive with the next ones.
        let heard =
            "wait barrier take=y:1 wait barrier take=y:2 wait barrier take=y:3 wait barrier";
        let commands = format!(
            "take=x:1 wait barrier @0:take=x:2 @1:giveup=x:2 @2:take=x:2 {heard} \
             newest=x:1 @2:giveup=x:3 @0:take=x:3 @1:take=x:3 {heard} newest=x:1 restore=x:1"
        );
        let Some(run) = mpi.script(&job, &commands) else { return };
        run.succeed();

        // A job before this one has left a version that not all have.
        for folder in [job.scratch(), job.persistent()] {
            for (rank, version) in [(0, 4), (1, 4), (0, 5)] {
                std::fs::copy(
                    folder.join(format!("x-{rank}-1.dat")),
                    folder.join(format!("x-{rank}-{version}.dat")),
                )
                .unwrap();
            }
        }
        let commands = "newest=x:1 @0:take=x:6 @0:wait barrier @0:kill sleep=100000";
        mpi.script(&job, commands).unwrap().end();
        mpi.script(&job, "newest=x:1 restore=x:1").unwrap().succeed();

        // They are removed once there are enough versions that all have.
        mpi.script(&job, "take=x:7 take=x:8").unwrap().succeed();
        let left = ["x-0-8.dat", "x-1-8.dat", "x-2-8.dat"];
        let of_x = |folder: &std::path::Path| -> Vec<String> {
            names(folder).into_iter().filter(|name| name.starts_with('x')).collect()
        };
        assert_eq!(of_x(&job.scratch()), left);
        assert_eq!(of_x(&job.persistent()), left);
    }
}

/// A process that waits for its files copies a checkpoint that the others then do not copy: no
/// version that all have is removed for that copy.
#[test]
fn a_copy_of_one_process_replaces_none_of_all() {
    for mpi in every_mpi() {
        let both = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n";
        let job = Job::new(both);
        let Some(run) = mpi.script(&job, "take=x:1") else { return };
        run.succeed();
        job.configure(&format!("{both}persistent_interval = 100000\nmax_versions = 1\n"));
        let others = "@0:take=x:2 @2:take=x:2";
        let commands = format!("@1:take=x:2 @1:wait barrier {others} take=y:1 take=y:2 take=y:3");
        mpi.script(&job, &commands).unwrap().succeed();
        let persistent = names(&job.persistent());
        assert!(persistent.contains(&"x-1-2.dat".to_owned()), "{persistent:?}");
        std::fs::remove_dir_all(job.scratch()).unwrap();
        mpi.script(&job, "newest=x:1 restore=x:1").unwrap().succeed();
    }
}

/// Catches checkpoints of a killed job that never reach persistent because the processes did not
/// know of each other's, or because one had not copied its part: without scratch they were lost.
#[test]
fn what_a_killed_job_has_not_aggregated_is_not_lost() {
    for mpi in every_mpi() {
        let job = Job::new(&AGGREGATED.replace("MODE", "async"));
        let commands = "size=3000000 take=x:1 take=x:2 barrier kill";
        let Some(run) = mpi.script(&job, commands) else { return };
        run.end();
        wait_for_backends(&job);
        mpi.script(&job, "size=3000000 newest=x:2").unwrap().succeed();
        std::fs::remove_dir_all(job.scratch()).unwrap();
        mpi.script(&job, "size=3000000 newest=x:2 restore=x:2 restore=x:1").unwrap().succeed();
    }
}

/// The backend completes files of older versions after those of the last version exist, and the
/// next job makes files of their own of parts. Catches versions whose order is that in which their
/// files were completed: the version from which the job goes on was removed in place of an older
/// one.
#[test]
fn after_a_kill_the_last_versions_stay() {
    for mpi in every_mpi() {
        let limit = "max_versions = 2\n";
        let job = Job::new(&(AGGREGATED.replace("MODE", "async") + limit));
        let commands = "size=3000000 take=x:1 take=x:2 take=x:3 take=x:4 take=x:5 barrier kill";
        let Some(run) = mpi.script(&job, commands) else { return };
        run.end();
        wait_for_backends(&job);
        mpi.script(&job, "size=3000000 newest=x:5 take=x:6 wait").unwrap().succeed();
        let left = names(&job.persistent());
        let left: BTreeSet<&str> = left.iter().filter_map(|name| name.rsplit('-').next()).collect();
        assert_eq!(Vec::from_iter(left), ["5.dat", "6.dat"], "{:?}", names(&job.persistent()));
        std::fs::remove_dir_all(job.scratch()).unwrap();
        mpi.script(&job, "size=3000000 newest=x:6 restore=x:6 restore=x:5").unwrap().succeed();
    }
}
