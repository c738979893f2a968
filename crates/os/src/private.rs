//! A directory that no other user can enter: for sockets, locks and logs.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use crate::environment;
use errors::{Error, Result};

/// The parent of the private directory, unless another is given, or named by [`VARIABLE`]. Not `XDG_RUNTIME_DIR`, which some jobs lack and which is
/// removed at logout, and not `TMPDIR`, which batch systems set per job: a job must find what an
/// earlier one left, such as a running backend.
const PARENT: &str = "/tmp";

/// The variable in the environment that names another parent: that of the key `run_directory`, for programs without a
/// configuration.
const VARIABLE: &str = "VELOC_RUN_DIRECTORY";

/// The directory of this (effective) user on this node, in the `given` one if there is one. It is created if necessary.
///
/// # Errors
/// It cannot be created, or others have access to it; the message names it.
pub fn directory(given: Option<&Path>) -> Result<PathBuf> {
    let named = environment::var_os(VARIABLE).filter(|named| !named.is_empty()).map(PathBuf::from);
    directory_in(given.or(named.as_deref()).unwrap_or(Path::new(PARENT))).map_err(|error| {
        error.followed_by("the key run_directory (VELOC_RUN_DIRECTORY) names another place")
    })
}

fn directory_in(parent: &Path) -> Result<PathBuf> {
    let user = geteuid().as_raw();
    let path = parent.join(format!("veloc-{user}"));
    let failed = |what: &str, e| Error::system(format!("{what} {}", path.display()), &e);
    fs::create_dir_all(parent).map_err(|e| failed("making the directory of", e))?;
    match DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(failed("making", e)),
        _ => {}
    }
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(&path);
    let found = opened.and_then(|directory| directory.metadata());
    let wrong = |why: String| {
        Error::invalid(format!("{}, which is to be of this user alone: {why}", path.display()))
    };
    let found = found.map_err(|e| {
        // The system calls a link "not a directory".
        let is_link = fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
        if is_link {
            wrong("it is a symbolic link".to_owned())
        } else {
            failed("opening", e)
        }
    })?;
    if found.uid() != user {
        return Err(wrong(format!("it belongs to user {}", found.uid())));
    }
    if found.mode() & 0o077 != 0 {
        return Err(wrong(format!("others have rights to it (mode {:o})", found.mode() & 0o7777)));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink, PermissionsExt as _};

    #[test]
    fn it_is_of_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let of = |parent: &str| {
            let parent = folder.path().join(parent);
            let _ = fs::create_dir(&parent);
            directory_in(&parent)
        };
        assert!(directory_in(&folder.path().join("not/there/yet")).is_ok());
        let path = of("good").unwrap();
        assert_eq!(of("good").unwrap(), path);
        assert_eq!(path.metadata().unwrap().mode() & 0o7777, 0o700);
        let name = path.file_name().unwrap();
        let refused = |parent: &str, why: &str| {
            let error = of(parent).unwrap_err().to_string();
            let there = folder.path().join(parent).join(name);
            assert!(error.contains(&*there.to_string_lossy()) && error.contains(why), "{error}");
        };
        fs::create_dir(folder.path().join("link")).unwrap();
        symlink(&path, folder.path().join("link").join(name)).unwrap();
        refused("link", "link");
        fs::create_dir(folder.path().join("file")).unwrap();
        fs::write(folder.path().join("file").join(name), "").unwrap();
        refused("file", "irectory");
        let open = of("open").unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        refused("open", "mode 755");
        let strange = of("strange").unwrap();
        if chown(&strange, Some(65534), None).is_err() {
            println!("skipped: it_is_of_this_user_alone needs root for another user's");
            return;
        }
        refused("strange", "user 65534");
    }
}
