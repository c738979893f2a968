//! File systems that become read-only.

use capi_tests::ground::Ground;
use capi_tests::job::Job;

use super::{on_each, script, shell, ASYNC, ROOM, SYNC};

/// The file system becomes read-only between two checkpoints, as after an error of the disk.
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

/// A job begins with a persistent that can only be read, such as another user's. Checkpoints there
/// are restored, and writing there is an error. Catches a job that does not start, one that does
/// not report the error, and checkpoints that count as written.
#[test]
fn a_read_only_persistent_serves_restarts() {
    for (configuration, fails) in [
        (ASYNC, "take=x:2 late=x-0-2.dat|Read-only restore=x:2"),
        (SYNC, "fail=x:2:x-0-2.dat|Read-only"),
    ] {
        let configuration = format!("{configuration}persistent = DIR/persistent\n");
        on_each(&configuration, "persistent", |job, ground| {
            let commands = [
                "size=1000000 take=x:1 wait".into(),
                shell(format!("rm {}/x-0-1.dat", job.scratch().display())),
                shell(ground.to_read_only()),
                "drain newest=x:1 restore=x:1".into(),
                fails.into(),
                "restore=x:1".into(),
                shell(ground.to_writable()),
                "wait take=x:3 drain newest=x:3 restore=x:3".into(),
            ];
            let ended = script(ground, job.run("script", ""), &commands);
            let said = format!("writing to {}", job.persistent().display());
            let lines: Vec<_> = ended.stderr.lines().filter(|line| line.contains(&said)).collect();
            assert!(
                matches!(lines[..], [line] if line.contains("warning: persistent: ")),
                "{lines:?}"
            );
        });
    }
}

/// The file system becomes read-only in the middle of a file, which a system does by itself after
/// an error and nobody can do on purpose: files that are open for writing prevent a remount.
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
