//! The name of a process's trace file.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use errors::{Error, Result};
use os::files;

/// The files that this process has written, which its later jobs must not overwrite.
static WRITTEN: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

/// Replaces `%r` by the rank and `%p` by the process id. Also returns whether there was any.
fn expand(given: &Path, rank: u32, process: u32) -> Result<(String, bool)> {
    let given = given
        .to_str()
        .ok_or_else(|| Error::invalid(format!("trace: {} is not UTF-8", given.display())))?;
    let expanded = given.replace("%r", &rank.to_string()).replace("%p", &process.to_string());
    let own = expanded != given;
    Ok((expanded, own))
}

/// Creates this process's trace file. Rank 0 gets the given name, and so does any process if the name
/// has `%r` or `%p`. Others append `.<rank>`. If that file is being written, or was written by this
/// process, `.<rank>.<process>` is appended, then `.<rank>.<process>.2` and so on.
pub(crate) fn create(given: &Path, rank: u32) -> Result<(PathBuf, File)> {
    let process = std::process::id();
    let (name, own) = expand(given, rank, process)?;
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    let plain = (rank == 0 || own).then(|| name.clone());
    let with_rank = [format!("{name}.{rank}"), format!("{name}.{rank}.{process}")];
    let numbered = (2..).map(|number: u64| format!("{name}.{rank}.{process}.{number}"));
    for candidate in plain.into_iter().chain(with_rank).chain(numbered) {
        let path = std::path::absolute(&candidate)
            .map_err(|error| Error::system(format!("the path {candidate}"), &error))?;
        if written.contains(&path) {
            continue;
        }
        if let Some(file) = files::create_exclusive(&path)? {
            written.insert(path.clone());
            return Ok((path, file));
        }
    }
    Err(Error::invalid(format!("{}: every name is taken", given.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_process_and_each_job_has_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let given = folder.path().join("t");
        let process = std::process::id();
        let made = |rank| {
            let (path, file) = create(&given, rank).unwrap();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), file)
        };
        assert_eq!(made(0).0, "t");
        assert_eq!(made(3).0, "t.3");
        assert_eq!(made(0).0, "t.0", "the second job of this process");
        assert_eq!(made(0).0, format!("t.0.{process}"));
        assert_eq!(made(0).0, format!("t.0.{process}.2"));

        // Another open file holds the lock on `u`.
        let other = files::create_exclusive(&folder.path().join("u")).unwrap().unwrap();
        let (path, _file) = create(&folder.path().join("u"), 0).unwrap();
        assert!(path.ends_with("u.0"));
        drop(other);

        let (path, _file) = create(&folder.path().join("v-%r-%p"), 5).unwrap();
        assert!(path.ends_with(format!("v-5-{process}")));
    }

    #[test]
    fn what_is_there_is_replaced_only_if_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        std::fs::write(&path, "old").unwrap();
        let held = files::create_exclusive(&path).unwrap().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"");
        std::fs::write(&path, "new").unwrap();
        assert!(files::create_exclusive(&path).unwrap().is_none());
        assert_eq!(std::fs::read(&path).unwrap(), b"new");
        drop(held);
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let error = create(Path::new("/nonexistent/t"), 0).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/t"), "{error}");
    }
}
