//! Directories that are replaced in mid-job: their file system is unmounted, or a link is changed.

use std::fs;
use std::os::unix::fs::{symlink, MetadataExt as _};

use capi_tests::ground::Ground;
use capi_tests::job::{names, Job};

use super::{script, shell, ASYNC, ROOM, SYNC};

/// Catches checkpoints that go to the directory below with success, where nobody looks for them.
#[test]
fn what_is_unmounted_is_not_written_to() {
    for (configuration, fails) in [
        (SYNC, "fail=x:2:persistent|is_not_what_it_was|another_file_system"),
        (ASYNC, "take=x:2 late=persistent|is_not_what_it_was|another_file_system"),
    ] {
        let keys = "persistent = DIR/persistent\nthreaded = true\n";
        let job = Job::new(&format!("{configuration}{keys}"));
        let Some(ground) = Ground::mounted(&job, "persistent", ROOM) else { return };
        let commands = [
            "size=100000 take=x:1 wait".into(),
            shell(format!("umount -l {}", job.persistent().display())),
            fails.into(),
            "newest=x:2 restore=x:2 restore=x:1 finalize=1:fails".into(),
        ];
        script(&ground, job.run("script", ""), &commands);
        assert_eq!(names(&job.persistent()), [""; 0]);
        assert_eq!(names(&job.scratch()), ["x-0-1.dat", "x-0-2.dat"]);
    }
    // A worker finds another way past scratch; the application's own thread gets an error.
    for (configuration, meets, kept) in [
        (SYNC, "fail=x:2:scratch|is_not_what_it_was", &["x-0-1.dat"][..]),
        (ASYNC, "take=x:2 wait restore=x:2", &["x-0-1.dat", "x-0-2.dat"]),
    ] {
        let keys = "persistent = DIR/persistent\nthreaded = true\n";
        let job = Job::new(&format!("{configuration}{keys}"));
        let Some(ground) = Ground::mounted(&job, "scratch", ROOM) else { return };
        let commands = [
            "size=100000 take=x:1 wait restore=x:1".into(),
            shell(format!("umount -l {}", job.scratch().display())),
            meets.into(),
        ];
        script(&ground, job.run("script", ""), &commands);
        assert_eq!(names(&job.scratch()), [""; 0]);
        assert_eq!(names(&job.persistent()), kept);
    }
}

/// A link that is changed to lead to another file system.
#[test]
fn a_changed_link_is_not_followed() {
    let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
    let job = Job::new(&format!("{ASYNC}persistent = DIR/persistent\n"));
    let ([link, there], other) =
        (["persistent", "there"].map(|name| job.path(name)), elsewhere.path());
    fs::create_dir(&there).unwrap();
    if fs::metadata(other).unwrap().dev() == fs::metadata(&there).unwrap().dev() {
        println!("skipped: /dev/shm and the folder for temporary files are one file system");
        return;
    }
    symlink(&there, &link).unwrap();
    let change = |to: &std::path::Path| format!("run=ln -sfn {} {}", to.display(), link.display());
    job.run("script", "take=x:1 wait")
        .arg(change(other))
        .args("take=x:2 late=persistent|is_not_what_it_was|another_file_system")
        .arg(change(&there))
        .args("wait take=x:3 wait")
        .succeed();
    assert_eq!(names(other), [""; 0]);
    assert_eq!(names(&there), ["x-0-1.dat", "x-0-2.dat", "x-0-3.dat"]);
}
