//! A file-based checkpoint under way (`VELOC_Route_file`): the file that the application writes in
//! place of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use super::{Client, Phase};
use engine::catalog::entry::FileLevel;
use levels::files::Files;
use os::descriptors::GuardedFd;
use os::error::{Error, Kind, Result};
use os::{files, times};
use trace::metrics::{Cause, Stop};

/// The file of a file-based checkpoint, under its temporary name.
#[derive(Debug)]
pub(super) struct Routed {
    /// The application's own file, which this one will replace.
    pub original: Arc<str>,
    /// The level of the temporary file: persistent, beside the original, if scratch cannot take it.
    pub level: FileLevel,
    /// The path that the application writes to.
    pub temporary: PathBuf,
    /// The time of the file as long as nobody has written to it.
    untouched: SystemTime,
    /// Kept open, so that others see that the file is in use.
    _file: GuardedFd<File>,
}

impl Routed {
    /// Makes the empty file of a checkpoint, where there is room for bytes in it.
    ///
    /// # Errors
    /// The system's, with the path; or there is no scratch directory.
    pub(crate) fn create(
        files: &Files,
        level: FileLevel,
        name: &str,
        version: i32,
        original: &str,
    ) -> Result<Routed> {
        let temporary = match level {
            FileLevel::Scratch => files.temporary(&files.scratch_path(name, version)?),
            FileLevel::Persistent => files.temporary(Path::new(original)),
        };
        let file = files::create(&temporary)?;
        if let Err(error) = files::probe_room(&file, &temporary) {
            // The first failure is the one to report.
            let _ = files::remove(&temporary);
            return Err(error);
        }
        // A file that is opened to be written anew gets another time than this, even if it stays
        // empty. Where a file system refuses this time, the file has the time of now.
        let _ = file.set_modified(SystemTime::UNIX_EPOCH);
        let untouched = times::modified(&temporary)?;
        Ok(Routed {
            original: original.into(),
            level,
            temporary,
            untouched,
            _file: GuardedFd::new(file),
        })
    }

    /// The bytes of the file. A file that nobody has written is refused: it would replace the
    /// application's own by nothing.
    ///
    /// # Errors
    /// [`Kind::Invalid`]; [`Kind::NotFound`] if the file is gone; else the system's.
    pub(crate) fn check_written(&self) -> Result<u64> {
        let path = self.temporary.display();
        let found = fs::metadata(&self.temporary).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Error::new(Kind::NotFound, format!("{path} is gone")),
            _ => Error::system(format!("stat {path}"), &error),
        });
        let unwritten = |what: &str| format!("{what}; {} stays as it is", self.original);
        let found =
            found.map_err(|error| Error::new(error.kind(), unwritten(&error.to_string())))?;
        let changed = times::modified(&self.temporary)? != self.untouched;
        if found.len() > 0 || changed {
            return Ok(found.len());
        }
        Err(Error::invalid(unwritten(&format!("nothing was written to {path}"))))
    }
}

impl Client {
    /// The path where the application writes the file `original` of the open checkpoint, or reads
    /// it during a restart.
    pub fn route_file(&mut self, original: &str) -> Result<String> {
        let path = match &mut self.phase {
            Phase::Idle => {
                return Err(Error::invalid(format!(
                    "{original}: there is no open checkpoint or restart"
                )));
            }
            Phase::Checkpoint { .. } if self.engine.config.ephemeral => {
                return Err(Error::invalid(format!(
                    "{original}: an ephemeral job (ephemeral = true) keeps no \
                     files"
                )));
            }
            Phase::Checkpoint { open, routed } => {
                if !open.regions.is_empty() {
                    return Err(Error::invalid(format!(
                        "checkpoint \"{}\" version {} has memory regions; it cannot be the file \
                         {original}",
                        open.name, open.version
                    )));
                }
                let original = absolute(original)?;
                match routed {
                    Some(routed) if *routed.original == original => routed.temporary.clone(),
                    Some(routed) => {
                        return Err(Error::invalid(format!(
                            "checkpoint \"{}\" version {} is the file {}; it cannot be {original} \
                             as well",
                            open.name, open.version, routed.original
                        )));
                    }
                    None => {
                        let (name, version) = (open.name.clone(), open.version);
                        let files = &self.engine.files;
                        let bytes = self.routed_bytes.entry(name.clone());
                        let bytes = *bytes
                            .or_insert_with(|| files.expected_len(&name, Path::new(&original)));
                        let new = self.engine.place_routed(open, bytes, |level| {
                            Routed::create(files, level, &name, version, &original)
                        })?;
                        routed.insert(new).temporary.clone()
                    }
                }
            }
            Phase::Restart { restoring } => {
                let since = Instant::now();
                let files = restoring.files(&self.engine);
                let lock = || self.engine.naming.lock();
                let (path, bytes) = files.fetch_routed(&restoring.name, restoring.version, lock)?;
                if bytes > 0 {
                    self.engine
                        .metrics
                        .hop((Stop::Persistent, Stop::Scratch))
                        .add(bytes, since.elapsed());
                    self.engine.metrics.waited(Cause::File, since);
                }
                path
            }
        };
        path.into_os_string()
            .into_string()
            .map_err(|path| Error::invalid(format!("{} is not UTF-8", path.to_string_lossy())))
    }
}

fn absolute(path: &str) -> Result<String> {
    std::path::absolute(path)
        .map_err(|error| Error::system(format!("the path {path}"), &error))?
        .into_os_string()
        .into_string()
        .map_err(|path| Error::invalid(format!("{} is not UTF-8", path.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;

    /// Catches an empty file that is not told from one that nobody has written.
    #[test]
    fn an_empty_file_may_be_meant() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("mode = sync\nscratch = {}\n", directory.path().display());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 0).unwrap();
        let routed =
            |version| Routed::create(&files, FileLevel::Scratch, "x", version, "/own").unwrap();
        let untouched = routed(1);
        let error = untouched.check_written().unwrap_err().to_string();
        assert!(error.contains(".x-0-1.dat.tmp-") && error.contains("/own"), "{error}");
        let empty = routed(2);
        File::create(&empty.temporary).unwrap();
        empty.check_written().unwrap();
        let replaced = routed(3);
        let other = directory.path().join("other");
        fs::write(&other, "").unwrap();
        fs::rename(&other, &replaced.temporary).unwrap();
        replaced.check_written().unwrap();
        fs::remove_file(&replaced.temporary).unwrap();
        assert!(replaced.check_written().unwrap_err().to_string().contains("is gone"));
    }
}
