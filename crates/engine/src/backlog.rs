//! The persist backlog: checkpoints of earlier jobs that are only in scratch and should have a copy in
//! persistent, because persistent was unavailable, or the process was killed before it copied them. A job
//! warns of them and leaves them where they are; `veloc sync` copies them.

use std::collections::BTreeSet;
use std::path::Path;

use super::file_side::FileSide;
use catalog::FileLevel;
use erasure::parity::ParityFile;
use errors::{Error, ErrorKind, Result};
use files::Files;

impl FileSide {
    /// The versions of a name that earlier jobs have left in scratch and that persistent lacks. They stay in
    /// scratch until they have been copied.
    pub fn backlog(&self, name: &str) -> BTreeSet<i32> {
        let (interval, limit) = (self.config.persistent_interval, self.config.max_versions);
        if self.config.ephemeral {
            return BTreeSet::new();
        }
        match self.files.backlog().of(name, interval, limit) {
            // This job's own checkpoints are copied anyway.
            Ok(versions) => self.catalog.read(|state| {
                versions
                    .into_iter()
                    .filter(|version| {
                        let known = state.checkpoints().find(name, *version);
                        !known.is_some_and(|id| state.checkpoints().is_taken(id))
                    })
                    .collect()
            }),
            Err(error) => {
                log::warn!("which checkpoints of \"{name}\" still have to be copied to persistent cannot be \
                            determined: {error}");
                BTreeSet::new()
            }
        }
    }

    /// Warns, once per name, how many versions are in the persist backlog.
    pub fn warn_of_backlog(&self, name: &str) {
        {
            let mut asked = self.asked.lock();
            if asked.contains(name) {
                return;
            }
            asked.insert(name.to_owned());
        }
        let what = match self.backlog(name).len() {
            0 => return,
            1 => format!("1 checkpoint of \"{name}\" is"),
            count => format!("{count} checkpoints of \"{name}\" are"),
        };
        let shown = |path: Option<&Path>| path.unwrap_or(Path::new("")).display().to_string();
        let file = self.config.file.as_deref();
        let option = file.map_or(String::new(), |file| format!(" --config {}", file.display()));
        log::warn!(
            "{what} in {} only; `veloc sync{option}` copies what is there to {}",
            shown(self.files.places().directory(FileLevel::Scratch)),
            shown(self.files.places().directory(FileLevel::Persistent)),
        );
    }
}

/// Copies one version of the persist backlog. Returns its size, or `None` if it has a copy by now.
///
/// # Errors
/// The file is damaged, or the system's error.
pub fn copy(files: &Files, name: &str, version: i32) -> Result<Option<u64>> {
    if !is_as_encoded(files, name, version)? {
        let what = "its file in scratch differs from the one that its parities were made of";
        return Err(Error::new(ErrorKind::Corrupt, what));
    }
    files.backlog().copy(name, version)
}

/// Whether a scratch file has the digest from which its parities were made, if it has parities.
fn is_as_encoded(files: &Files, name: &str, version: i32) -> Result<bool> {
    let header = match ParityFile::read(&files.places().parity_path(name, version)?) {
        Ok(file) => file.header,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(true),
        Err(error) => return Err(error),
    };
    let own = header.encoding.members.get(header.own as usize);
    let path = files.places().scratch_path(name, version)?;
    own.map_or(Ok(true), |own| files.checks().has_content(&path, own.len, own.digest, || Ok(())))
}
