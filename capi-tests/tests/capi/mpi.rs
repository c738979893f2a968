//! The library over MPI: one and the same binary of ours under Open MPI and under MPICH, neither of
//! which it is linked to. What is checked stands in `mpi/together.c`.

use std::collections::BTreeSet;

use capi_tests::backends::{wait_for_backends, MARK};
use capi_tests::checkpoint_file::{content, encode};
use capi_tests::job::{files, names, Job};
use capi_tests::program::{dying, mpi_faults, mpi_program};
use capi_tests::run::Run;

const CONFIGURATION: &str = "mode = async\nscratch = DIR/scratch\n";

pub(crate) use capi_tests::mpi::{Mpi, MPICH, OPEN_MPI};

fn under(mpi: &Mpi) {
    if mpi.start(1).is_none() {
        return;
    }
    let program = mpi_program(mpi.compiler, "../mpi/together.c");
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

/// A process that has no name for what it restarts fails together with the others. Catches one that
/// returns before they meet: they would wait for it for ever.
#[test]
fn a_name_that_one_process_lacks() {
    for mpi in [&OPEN_MPI, &MPICH] {
        let job = Job::new(CONFIGURATION);
        let commands = "take=x:1 wait @1:nameless @0:newest=x:-1 @0:refuse=x:1:another_process \
                        @2:newest=x:-1 @2:refuse=x:1:another_process newest=x:1 restore=x:1";
        let Some(run) = mpi.script(&job, commands) else { return };
        run.succeed();
    }
}

/// The program of the guide, by the guide's own lines: a second job goes on where the first has ended,
/// and where one rank lacks a version, from the one before. Catches a guide that nobody can follow.
#[test]
fn the_job_of_the_guide() {
    let guide = include_str!("../../../docs/guide.md");
    let chapter = guide.split("\n## ").find(|text| text.starts_with("A job over MPI")).unwrap();
    let block = |kind: &str| {
        let text = chapter.split_once(&format!("```{kind}\n")).unwrap().1;
        text.split_once("```").unwrap().0
    };
    for mpi in [&OPEN_MPI, &MPICH] {
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

/// A job that removes old versions and is killed in the middle of its checkpoints, each process
/// somewhere else, has a version that all can restore. Catches a process that removes what is its
/// own alone to decide on.
#[test]
fn limits_leave_a_version_that_all_have() {
    for mpi in [OPEN_MPI, MPICH] {
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

/// In the end each process has as many versions as the limits say, also one that was slower.
#[test]
fn limits_are_kept_in_the_end() {
    for mpi in [OPEN_MPI, MPICH] {
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

/// All processes copy the same checkpoints to persistent, or none. Catches processes that ask their
/// own clocks.
#[test]
fn intervals_are_agreed_on() {
    for mpi in [OPEN_MPI, MPICH] {
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

/// Processes that take different checkpoints keep them all, and are told.
#[test]
fn different_checkpoints_are_kept() {
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new("mode = async\nscratch = DIR/scratch\nscratch_versions = 1\n");
        let commands = "@0:take=x:1 @1:take=x:2 @2:take=x:3 take=y:1 take=y:2 @0:take=z:9";
        let Some(run) = mpi.script(&job, commands) else { return };
        let ended = run.succeed();
        assert!(ended.stderr.contains("different checkpoints"), "{}", ended.stderr);
        assert_eq!(names(&job.scratch()).len(), 3 + 6 + 1);
    }
}

const AGGREGATED: &str = "mode = MODE\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                          meta = DIR/meta\naggregated = true\n";

/// Each process another length.
const LENGTHS: &str = "@0:size=1000 @1:size=3000000 @2:size=5";

/// Upstream's form: the processes' files one behind the other, a table of where they begin, and
/// nothing else. Catches a part in the wrong place, a file that is never completed, and a restart
/// that does not look there.
#[test]
fn aggregated_files() {
    for mpi in [OPEN_MPI, MPICH] {
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
                assert_eq!(files(&job.path("meta"))[&name], table);
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
    for mpi in [OPEN_MPI, MPICH] {
        let Some(run) = mpi.script(&job, &format!("{LENGTHS} newest=x:4 restore=x:4")) else {
            return;
        };
        run.succeed();
    }
}

/// Without its table, or with a damaged one, an aggregated file restores all the same, by the headers of its parts; what is
/// none is named. Catches a version that is passed over without a word.
#[test]
fn aggregated_files_without_tables() {
    for mpi in [OPEN_MPI, MPICH] {
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
    for mpi in [OPEN_MPI, MPICH] {
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
        assert!(ended.stderr.contains("x-agg-9.dat has the SHA-256"), "{}", ended.stderr);

        let interval = "persistent_interval = 100000\n";
        let job = Job::new(&(AGGREGATED.replace("MODE", "async") + interval));
        mpi.script(&job, "take=x:1 wait take=x:2").unwrap().succeed();
        assert_eq!(names(&job.persistent()), [""; 0]);
    }
}

/// What jobs that were killed have left of an aggregated file goes once there is one; of other
/// versions, somebody may still write it.
#[test]
fn incomplete_aggregated_files_go() {
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new(&AGGREGATED.replace("MODE", "async"));
        std::fs::create_dir_all(job.persistent()).unwrap();
        for version in [1, 7] {
            for end in ["", ".roll"] {
                let name = format!(".x-agg-{version}.dat{end}.tmp-4294967295-3");
                std::fs::write(job.persistent().join(name), "half").unwrap();
            }
        }
        let Some(run) = mpi.script(&job, "take=x:1 take=x:2") else { return };
        run.succeed();
        let left = [".x-agg-7.dat.roll.tmp-4294967295-3", ".x-agg-7.dat.tmp-4294967295-3"];
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

/// What is not everybody's is in files of its own, and said to be.
#[test]
fn what_cannot_be_aggregated() {
    for mpi in [OPEN_MPI, MPICH] {
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
    for mpi in [OPEN_MPI, MPICH] {
        let limits = "max_versions = 1\nscratch_versions = 1\n";
        let job = Job::new(&(AGGREGATED.replace("MODE", "async") + limits));
        let commands = "take=x:1 giveup=x:2 take=x:3 @0:giveup=x:4 @1:take=x:4 @2:take=x:4 \
                        take=x:5 take=x:6 wait";
        let Some(run) = mpi.script(&job, commands) else { return };
        run.succeed();
        assert_eq!(names(&job.persistent()), ["x-agg-6.dat"]);
    }
}

/// What one process lacks is no reason to remove what all have: neither a checkpoint that it has
/// given up, nor one that it was killed before it had written.
#[test]
fn what_one_lacks_replaces_nothing() {
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new(
            "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
             max_versions = 1\nscratch_versions = 1\n",
        );
        // The results of a round are heard with the next ones.
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

        // They go once there are enough that all have.
        mpi.script(&job, "take=x:7 take=x:8").unwrap().succeed();
        let left = ["x-0-8.dat", "x-1-8.dat", "x-2-8.dat"];
        let of_x = |folder: &std::path::Path| -> Vec<String> {
            names(folder).into_iter().filter(|name| name.starts_with('x')).collect()
        };
        assert_eq!(of_x(&job.scratch()), left);
        assert_eq!(of_x(&job.persistent()), left);
    }
}

/// A process that waits for its files copies a checkpoint that the others then do not copy: its copy
/// is no reason to remove one that all have.
#[test]
fn a_copy_of_one_process_replaces_none_of_all() {
    for mpi in [OPEN_MPI, MPICH] {
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

/// Catches checkpoints of a killed job that never reach persistent because the processes had not
/// heard of each other's, or because one of them had not copied its part: without scratch they were
/// lost.
#[test]
fn what_a_killed_job_has_not_aggregated_is_not_lost() {
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new(&AGGREGATED.replace("MODE", "async"));
        let commands = "size=3000000 take=x:1 take=x:2 barrier kill";
        let Some(run) = mpi.script(&job, commands) else { return };
        run.env(MARK, job.path("")).end();
        wait_for_backends(&job);
        mpi.script(&job, "size=3000000 newest=x:2").unwrap().succeed();
        std::fs::remove_dir_all(job.scratch()).unwrap();
        mpi.script(&job, "size=3000000 newest=x:2 restore=x:2 restore=x:1").unwrap().succeed();
    }
}

/// A call of MPI that fails on one process alone, at each moment at which one can: no call waits for
/// ever, each process says what has come of it, and nothing is removed or lost. Catches a process that
/// is not there for the reductions that the others wait for any more.
#[test]
fn an_error_of_one_process_keeps_nobody() {
    let limits = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                  max_versions = 2\nscratch_versions = 2\n";
    let aggregated = AGGREGATED.replace("MODE", "async");
    // The call that fails, and whether the agreement ends by it: the last reductions are held again.
    let faults = [
        (limits, "MPI_Test:0:2:1", true),
        (limits, "MPI_Iallreduce:1:3:1", true),
        // Also what is to make up for it fails.
        (limits, "MPI_Iallreduce:1:3:3", true),
        // In the round of the last checkpoint, and in each reduction of VELOC_Finalize.
        (limits, "MPI_Iallreduce:2:6:1", true),
        (limits, "MPI_Iallreduce:2:7:1", false),
        (limits, "MPI_Iallreduce:2:8:1", false),
        (limits, "MPI_Wait:1:1:1", true),
        (limits, "MPI_Iallreduce:2:9:1", false),
        (limits, "Tidings:1:2:1", true),
        (limits, "Tidings:0:1:3", true),
        (&aggregated, "MPI_Iallgather:1:2:1", true),
        (&aggregated, "MPI_Iallgather:1:6:1", true),
        (&aggregated, "MPI_Iallreduce:0:1:2", true),
        (&aggregated, "MPI_Wait:2:1:1", true),
    ];
    // Open MPI takes a second to start: each kind of call once there.
    for (mpi, every) in [(MPICH, 1), (OPEN_MPI, 3)] {
        for (configuration, fault, ends) in faults.into_iter().step_by(every) {
            println!("{} {fault}", mpi.compiler);
            let job = Job::new(configuration);
            let commands = "take=x:1 take=x:2 take=x:3 wait take=x:4 take=x:5 take=x:6";
            let Some(run) = mpi.script(&job, commands) else { return };
            let run = run.env("LD_PRELOAD", mpi_faults(mpi.compiler, &job.path("")));
            let ended = run.env("MPI_FAULT", fault).succeed();
            let said = ended.stderr.contains("agree on nothing any more");
            assert!(said == ends, "{fault}: {}", ended.stderr);
            std::fs::remove_dir_all(job.scratch()).unwrap();
            mpi.script(&job, "newest=x:6 restore=x:6 restore=x:5").unwrap().succeed();
        }
    }
}

/// Catches checkpoints that wait for an agreement that cannot come any more, and never reach
/// persistent.
#[test]
fn what_is_undecided_is_copied_after_mpi_has_ended() {
    let interval = "mode = async\nthreaded = true\nscratch = DIR/scratch\n\
                    persistent = DIR/persistent\npersistent_interval = 100000\n";
    for mpi in [OPEN_MPI, MPICH] {
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

/// A restart of an earlier job's checkpoint reads each file once, and compares it meanwhile. Catches a
/// file that is read before, to know that it is good; and one that is not, and restored on some
/// processes.
#[test]
fn restarts_with_checksums_read_once() {
    for mpi in [OPEN_MPI, MPICH] {
        let job = Job::new(
            "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\nmeta = DIR/meta\n\
             chksum = true\n",
        );
        let script = |commands: &str| mpi.script(&job, &format!("size=8000000 {commands}"));
        let Some(run) = script("take=x:1 take=x:2") else { return };
        run.succeed();
        script("reads=0 restore=x:2 reads=150").unwrap().succeed();
        let flip = |folder: std::path::PathBuf| {
            let path = folder.join("x-1-2.dat");
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[1000] ^= 4;
            std::fs::write(path, bytes).unwrap();
        };
        // On one process, the next copy is read in place of the bad one.
        flip(job.scratch());
        let ended = script("reads=0 restore=x:2 @0:reads=150 @2:reads=150 restore=x:1").unwrap();
        let ended = ended.succeed();
        assert!(ended.stderr.contains("looking for another copy"), "{}", ended.stderr);
        flip(job.persistent());
        let commands = "@0:refuse=x:2:another_process @1:refuse=x:2:x-1-2.dat|SHA-256 \
                        @2:refuse=x:2:another_process newest=x:1 restore=x:1";
        script(commands).unwrap().succeed();
    }
}
