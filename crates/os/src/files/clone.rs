//! Tests whether a file system can make one file of another without copying its bytes.

use std::path::Path;

/// Whether a file in the directory `to` can share the bytes of one in the directory `from` (`FICLONE`; Btrfs and
/// XFS can). Both get a nameless file for that. False if it cannot be found out.
pub fn can_clone(from: &Path, to: &Path) -> bool {
    let made = tempfile::tempfile_in(from).and_then(|from| Ok((from, tempfile::tempfile_in(to)?)));
    made.is_ok_and(|(from, to)| rustix::fs::ioctl_ficlone(to, from).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches an answer that is always yes: memory cannot.
    #[test]
    fn memory_clones_nothing() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        assert!(!can_clone(folder.path(), folder.path()));
        assert!(!can_clone(Path::new("/nonexistent"), folder.path()));
    }
}
