//! Files that others may be reading or writing at the same time.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{flock, FlockOperation};

use crate::error::{Error, Result, While};
use crate::project::output;

/// A lock file, which one process at a time holds. It is released when this is dropped.
#[derive(Debug)]
pub struct FileLock(#[allow(dead_code, reason = "held for the lock that goes with it")] File);

impl FileLock {
    /// Waits for the lock on the file at `path`.
    pub fn take(path: &Path) -> Result<FileLock> {
        let what = || format!("locking {}", path.display());
        let file =
            OpenOptions::new().create(true).truncate(false).write(true).open(path).when(what)?;
        rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive)).when(what)?;
        Ok(FileLock(file))
    }
}

/// Makes a folder and those above it.
pub fn folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).when(|| format!("making the folder {}", path.display()))
}

/// Removes a folder that is empty, or has a file of these names as those of its kind have. Any other stays, and is
/// an error.
pub fn clear(folder: &Path, marks: &[&str], kind: &str) -> Result<()> {
    let what = || format!("removing {}", folder.display());
    if !folder.exists() {
        return Ok(());
    }
    let is_empty = fs::read_dir(folder).when(what)?.next().is_none();
    if !is_empty && !marks.iter().any(|file| folder.join(file).is_file()) {
        return Err(Error::new(format!("{} is there, and is no {kind}", folder.display())));
    }
    fs::remove_dir_all(folder).when(what)
}

/// A folder, which is made unless it was before.
pub fn made(folder: PathBuf, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    if folder.is_dir() {
        return Ok(folder);
    }
    // Made under another name first, so that a folder of the final name is complete.
    let mut name = folder.file_name().unwrap_or_default().to_owned();
    name.push(format!("-{}", std::process::id()));
    let unfinished = folder.with_file_name(name);
    make(&unfinished)?;
    match std::fs::rename(&unfinished, &folder) {
        // Another process was faster.
        Err(_) if folder.is_dir() => {}
        renamed => renamed.when(|| format!("renaming {}", unfinished.display()))?,
    }
    Ok(folder)
}

/// Copies `from` to `to` unless it is there already (same size and time). Processes that have the
/// old file open or mapped keep it whole; nobody sees half a file.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    let what = || format!("copying {} to {}", from.display(), to.display());
    let source = fs::metadata(from).when(what)?;
    let modified = source.modified().when(what)?;
    if let Ok(there) = fs::metadata(to) {
        if there.len() == source.len() && there.modified().is_ok_and(|time| time == modified) {
            return Ok(());
        }
    }
    let parent = to.parent().unwrap_or(Path::new("."));
    folder(parent)?;
    let part = tempfile::NamedTempFile::new_in(parent).when(what)?;
    fs::copy(from, part.path()).when(what)?;
    part.as_file().set_modified(modified).when(what)?;
    part.persist(to).when(what)?;
    Ok(())
}

/// Makes `at` a symbolic link to its neighbour `name`.
pub fn link(name: &str, at: &Path) -> Result<()> {
    let what = || format!("linking {} to {name}", at.display());
    if fs::read_link(at).is_ok_and(|there| there == Path::new(name)) {
        return Ok(());
    }
    let part = at.with_extension("link");
    match fs::remove_file(&part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).when(what),
        _ => std::os::unix::fs::symlink(name, &part).when(what)?,
    }
    fs::rename(&part, at).when(what)
}

/// Copies a folder with its content.
pub fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    folder(to)?;
    let what = || format!("reading the folder {}", from.display());
    for entry in fs::read_dir(from).when(what)? {
        let entry = entry.when(what)?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to)?;
        } else {
            copy(&from, &to)?;
        }
    }
    Ok(())
}

/// Reads a file as text.
pub fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).when(|| format!("reading {}", path.display()))
}

/// Writes a file, with the folders above it.
pub fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        folder(parent)?;
    }
    fs::write(path, text).when(|| format!("writing {}", path.display()))
}

/// Writes a program, which can be run at once. A program cannot be run while it is open for writing
/// (`ETXTBSY`), and a file that this process writes is also open in a process that another thread
/// is just starting: so a separate process writes it.
pub fn write_program(path: &Path, text: &str) -> Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"", "sh"]).arg(path).arg(text);
    output(&mut command).map(drop)
}

/// Copies a program, which can be run at once, as [`write_program`] does.
pub fn copy_program(from: &Path, to: &Path) -> Result<()> {
    output(Command::new("cp").arg(from).arg(to)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a folder of the user's that is emptied.
    #[test]
    fn only_a_folder_of_its_kind_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let clear = || clear(&out, &["first", "second"], "bundle");
        clear().unwrap();
        write(&out.join("precious"), "x").unwrap();
        let error = clear().unwrap_err();
        assert!(error.to_string().contains("is no bundle"), "{error}");
        for file in ["first", "second"] {
            write(&out.join("precious"), "x").unwrap();
            write(&out.join(file), "x").unwrap();
            clear().unwrap();
            assert!(!out.exists());
        }
    }

    #[test]
    fn a_copy_is_made_again_only_when_the_source_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("deep/to"));
        write(&from, "first").unwrap();
        copy(&from, &to).unwrap();
        let held = File::open(&to).unwrap();
        copy(&from, &to).unwrap();
        assert!(
            held.metadata().unwrap().modified().unwrap()
                == fs::metadata(&from).unwrap().modified().unwrap()
        );
        write(&from, "second").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(read(&to).unwrap(), "second");
        assert_eq!(std::io::read_to_string(held).unwrap(), "first", "who has the old one keeps it");
    }

    #[test]
    fn errors_name_the_files() {
        let folder = tempfile::tempdir().unwrap();
        let error = copy(&folder.path().join("none"), &folder.path().join("to")).unwrap_err();
        assert!(error.to_string().contains("none to "), "{error}");
        let error = FileLock::take(&folder.path().join("no/lock")).unwrap_err();
        assert!(error.to_string().contains("no/lock"), "{error}");
    }

    #[test]
    fn a_lock_is_held_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let held = FileLock::take(&path).unwrap();
        let other = std::thread::spawn({
            let path = path.clone();
            move || FileLock::take(&path).map(|_| ())
        });
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!other.is_finished());
        drop(held);
        other.join().unwrap().unwrap();
    }
}
