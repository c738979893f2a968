//! A set-user-id program: what it does not take from whoever starts it. It is a copy of this one.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{chown, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use config::{Config, Directories};
use os::files::check_writable;
use recovery::program;

/// Whose the program is.
const OWNER: u32 = 65533;
/// A stranger to it.
const CALLER: u32 = 65534;

fn directory_of(folder: &Path, user: u32) -> PathBuf {
    folder.join(user.to_string())
}

#[test]
fn its_callers_environment_is_ignored() {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: its_callers_environment_is_ignored needs root");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    for user in [OWNER, CALLER] {
        let directory = directory_of(folder.path(), user);
        fs::create_dir(&directory).unwrap();
        chown(&directory, Some(user), Some(user)).unwrap();
        fs::set_permissions(&directory, Permissions::from_mode(0o700)).unwrap();
    }
    fs::write(folder.path().join("veloc.cfg"), "mode = sync\nscratch = /s\n").unwrap();
    let copy = folder.path().join("copy");
    fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    for set_user_id in [false, true] {
        if set_user_id {
            chown(&copy, Some(OWNER), Some(OWNER)).unwrap();
            fs::set_permissions(&copy, Permissions::from_mode(0o4755)).unwrap();
        }
        let mut command = Command::new(&copy);
        command
            .args(["--ignored", "--exact", "--nocapture"])
            .arg(if set_user_id { "in_the_copy" } else { "in_a_plain_copy" })
            .current_dir(folder.path())
            .env("VELOC_SCRATCH", "/callers")
            .env("VELOC_BIN", "/callers")
            .uid(CALLER)
            .gid(CALLER);
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stdout).into_owned();
        if said.contains("nosuid") {
            println!("skipped: its_callers_environment_is_ignored needs a file system with suid");
            return;
        }
        let complained = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success() && said.contains("1 passed"), "{said}{complained}");
    }
}

fn scratch() -> (Option<PathBuf>, Option<PathBuf>) {
    let file = Path::new("veloc.cfg");
    (Config::load(file).unwrap().scratch, Directories::load(file).unwrap().scratch)
}

#[test]
#[ignore = "run by its_callers_environment_is_ignored"]
fn in_a_plain_copy() {
    let callers = Some(PathBuf::from("/callers"));
    assert_eq!(scratch(), (callers.clone(), callers));
    assert!(program().unwrap().starts_with("/callers"));
}

#[test]
#[ignore = "run by its_callers_environment_is_ignored"]
fn in_the_copy() {
    // SAFETY: cannot fail.
    if unsafe { libc::geteuid() } == CALLER {
        println!("nosuid");
        return;
    }
    let own = Some(PathBuf::from("/s"));
    assert_eq!(scratch(), (own.clone(), own));
    assert!(!program().is_ok_and(|program| program.starts_with("/callers")));
    // What may be written is a matter of who writes.
    let folder = std::env::current_dir().unwrap();
    check_writable(&directory_of(&folder, OWNER)).unwrap();
    check_writable(&directory_of(&folder, CALLER)).unwrap_err();
}
