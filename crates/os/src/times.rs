//! Modification times of files.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::files::c_path;
use errors::{Error, Result};

/// When the file at `path` was modified; of a link, the link itself.
///
/// # Errors
/// The system's, with the path.
pub fn modified(path: &Path) -> Result<SystemTime> {
    fs::symlink_metadata(path)
        .and_then(|metadata| metadata.modified())
        .map_err(|e| Error::system(format!("stat {}", path.display()), &e))
}

/// Sets when the file or link at `path` was modified, as precisely as the file system can store it.
///
/// # Errors
/// The system's, with the path.
pub fn set_modified(path: &Path, time: SystemTime) -> Result<()> {
    let name = c_path(path)?;
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let unchanged = libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT };
    let modified = libc::timespec {
        tv_sec: since.as_secs() as libc::time_t,
        tv_nsec: since.subsec_nanos() as libc::c_long,
    };
    let times = [unchanged, modified];
    let follow = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: a string that ends with a null byte, and the two times that the call reads.
    let set = unsafe { libc::utimensat(libc::AT_FDCWD, name.as_ptr(), times.as_ptr(), follow) };
    match set {
        0 => Ok(()),
        _ => Err(Error::errno(format!("set the time of {}", path.display()))),
    }
}

/// Whether a file modified at `changed` is older than `time`, allowing for a file system that truncates
/// to a second, a millisecond, a microsecond or 100 ns.
pub fn is_older(changed: SystemTime, time: SystemTime) -> bool {
    let Ok(after) = time.duration_since(changed) else { return false };
    let nanos =
        changed.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
    let ticks = [1_000_000_000, 1_000_000, 1_000, 100];
    let tick = ticks.into_iter().find(|tick| nanos.is_multiple_of(*tick)).unwrap_or(1);
    after >= Duration::from_nanos(tick.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches the time of a link's target, and one that is not stored to the nanosecond.
    #[test]
    fn links_have_times_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
        set_modified(&link, time).unwrap();
        assert_eq!(modified(&link).unwrap(), time);
        assert!(modified(&file).unwrap() > time);
        let gone = folder.path().join("gone");
        for error in [modified(&gone).unwrap_err(), set_modified(&gone, time).unwrap_err()] {
            assert!(error.to_string().contains("gone"), "{error}");
        }
    }

    /// Catches a copy that looks older because its file system truncates times, and an older file that
    /// passes for a copy.
    #[test]
    fn times_are_compared_as_finely_as_they_are_kept() {
        let at = |nanos| SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, nanos);
        let own = at(123_456_789);
        for kept in [0, 123_000_000, 123_456_000, 123_456_700, 123_456_789] {
            assert!(!is_older(at(kept), own), "{kept}");
            assert!(is_older(at(kept), own + Duration::from_secs(1)), "{kept}");
            assert!(!is_older(own, at(kept)), "{kept}");
        }
        assert!(is_older(own, at(123_456_790)));
    }
}
