//! Limits of versions on a file system with little room, and too little room for all processes.

use capi_tests::job::names;

use super::{on_each, script, shell, ASYNC, ROOM, SYNC};
use crate::mpi::every_mpi;

/// Scratch has room for a few versions and is to keep fewer, and persistent is slower than the
/// application: checkpoints without room go to persistent at once. Catches a checkpoint that is
/// refused or lost, and versions beyond the limits.
#[test]
fn what_scratch_has_no_room_for_yet_is_not_refused() {
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
                shell(format!(
                    "test $(ls -A -I '.veloc-live-*' {} | wc -l) -le 1",
                    job.scratch().display()
                )),
                "drain newest=x:24 restore=x:24".into(),
            ];
            script(ground, job.run("script", ""), &commands);
            assert_eq!(names(&job.persistent()), ["x-0-23.dat", "x-0-24.dat"]);
        });
    }
}

/// A file system that is too small for one version more than are to stay. Catches an older version
/// that is removed before the new one is there, and an error that does not name the key concerned.
#[test]
fn a_limit_that_there_is_no_room_for_is_named() {
    for (configuration, fails) in [
        (SYNC, "fail=x:4:No_space_left|scratch|versions_=_3_needs_room_for_4"),
        (ASYNC, "take=x:4 late=No_space_left|scratch|versions_=_3_needs_room_for_4"),
    ] {
        on_each(&format!("{configuration}scratch_versions = 3\n"), "scratch", |job, ground| {
            let commands = [
                shell(ground.to_fill(700_000)),
                "size=1000000 take=x:1 wait take=x:2 wait take=x:3 wait".into(),
                format!("{fails} restore=x:3 restore=x:2 restore=x:1"),
                shell(ground.to_empty()),
                "wait take=x:5 drain newest=x:5 restore=x:5 restore=x:3".into(),
            ];
            script(ground, job.run("script", ""), &commands);
        });
    }
}

/// The file system of an aggregated file fills up, for all processes.
#[test]
fn aggregated_files_fill_up() {
    for mpi in every_mpi() {
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
                    // There is no room for any process's part.
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

/// There is room for the checkpoints, but not for their parities: no call fails, the log names the
/// unprotected versions, and later ones are protected again.
#[test]
fn parities_find_no_room() {
    for mpi in every_mpi() {
        on_each(&format!("{ASYNC}ec_interval = 0\n"), "scratch", |job, ground| {
            let Some(run) = mpi.script(job, "") else { return };
            let parity = |version| {
                let file =
                    |rank| format!("{}/.x-{rank}-{version}.dat.parity", job.scratch().display());
                [0, 1, 2].map(|rank| format!("test -s {}", file(rank))).join(" && ")
            };
            let commands = [
                // Room for three files, and 100000 bytes for three parities of 250000.
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
