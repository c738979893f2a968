//! Temporary files that do not outlive those who use them, however they end.
//!
//! A file that is only read once has no name: [`NamelessFile`]. A folder has a process of its own,
//! the keeper, which makes it, holds the other end of a pipe, and removes it when the pipe closes;
//! the system closes the pipe of a process that was killed, too. The keeper is in a process group
//! of its own, so that Ctrl-C on a terminal does not end it with the others.

use std::fs::{self, File};
use std::io::{stdin, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{ensure, Context, Result};
use clap::Args;

use super::child::print;

/// How long a keeper tries to remove its folder: those who use it may be ending themselves.
const PATIENCE: Duration = Duration::from_secs(10);

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// A file without a name, for a reader that wants a path.
#[derive(Debug)]
pub(super) struct NamelessFile(File);

impl NamelessFile {
    /// A file with this content.
    pub(super) fn new(content: &str) -> Result<NamelessFile> {
        let mut file = tempfile::tempfile().context("a temporary file")?;
        file.write_all(content.as_bytes()).context("writing a temporary file")?;
        Ok(NamelessFile(file))
    }

    /// A path for readers in this process, as long as this lives.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// A folder that is gone once this process has ended, or dropped it.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    keeper: Child,
    /// Closed to have the folder removed.
    pipe: Option<ChildStdin>,
}

/// What a keeper is told.
#[derive(Debug, Args)]
pub(crate) struct Keeper {
    /// Where to make the folder
    parent: PathBuf,
    /// What its name begins with
    prefix: String,
}

impl Folder {
    /// A new one in `parent`. Its name has the number of this process.
    pub(super) fn new(parent: &Path) -> Result<Folder> {
        let program = std::env::current_exe().context("finding this program's own file")?;
        let mut keeper = Command::new(program)
            .args(["bench", "keeper"])
            .arg(parent)
            .arg(format!("veloc-bench-{}-", std::process::id()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("starting the keeper of a temporary folder")?;
        let (pipe, output) = (keeper.stdin.take(), keeper.stdout.take());
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line).context("a temporary folder")?;
        }
        // On every path the pipe closes, and the keeper ends.
        let folder = Folder { path: PathBuf::from(line.trim_end()), keeper, pipe };
        ensure!(folder.path.is_dir(), "there is no temporary folder in {}", parent.display());
        Ok(folder)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(self.pipe.take());
        // It has said itself what went wrong.
        let _ = self.keeper.wait();
    }
}

/// Keeps a folder as long as the standard input is open.
pub(super) fn keep(keeper: &Keeper) -> Result<()> {
    let folder = tempfile::Builder::new()
        .prefix(&keeper.prefix)
        .tempdir_in(&keeper.parent)
        .with_context(|| format!("making a folder in {}", keeper.parent.display()))?;
    // An error: the owner is gone already.
    if let Some(path) = folder.path().to_str().filter(|path| !path.contains('\n')) {
        if print(path).is_ok() {
            // An error ends the waiting as well.
            let _ = stdin().read_to_end(&mut Vec::new());
        }
    }
    remove(folder.path())
}

/// Removes a folder in which others may still make files for a moment.
fn remove(folder: &Path) -> Result<()> {
    let since = Instant::now();
    loop {
        match fs::remove_dir_all(folder) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) if since.elapsed() > PATIENCE => {
                return Err(error).with_context(|| format!("removing {}", folder.display()));
            }
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nameless_file_can_be_read_by_its_path_and_stands_in_no_folder() {
        let file = NamelessFile::new("mode = async\n").unwrap();
        assert_eq!(fs::read_to_string(file.path()).unwrap(), "mode = async\n");
        let target = fs::read_link(file.path()).unwrap();
        assert!(!target.exists(), "{}", target.display());
    }
}
