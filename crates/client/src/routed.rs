//! A file-based checkpoint under way (`VELOC_Route_file`): the file that the application writes in
//! place of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use super::{Client, Phase};
use catalog::FileLevel;
use errors::{Error, ErrorKind, Result};
use files::Files;
use os::files::Folder;
use trace::metrics::{Cause, Stop};

/// The file of a file-based checkpoint, in a folder with a temporary name. It is not there before the application makes
/// it: libraries lock what they make, or want to make it themselves.
#[derive(Debug)]
pub(super) struct RoutedFile {
    /// The application's own file, which this one will replace.
    pub original: Arc<str>,
    /// The level of the temporary file: persistent, beside the original, if scratch cannot take it.
    pub level: FileLevel,
    /// The path that the application writes to.
    pub temporary: PathBuf,
    folder: Folder,
}

impl RoutedFile {
    /// Makes the folder for the file of a checkpoint, where there is room for bytes in it.
    ///
    /// # Errors
    /// The system's, with the path; or there is no scratch directory.
    pub(crate) fn create(
        files: &Files,
        level: FileLevel,
        name: &str,
        version: i32,
        original: &str,
    ) -> Result<RoutedFile> {
        let own = Path::new(original);
        let folder = match level {
            FileLevel::Scratch => {
                files.places().temporary(&files.places().scratch_path(name, version)?)
            }
            FileLevel::Persistent => files.places().temporary(own),
        };
        let Some(file) = own.file_name() else {
            return Err(Error::invalid(format!(
                "{original}: the path must end with the name of a file"
            )));
        };
        let temporary = folder.join(file);
        let folder = Folder::create(&folder)?;
        Ok(RoutedFile { original: original.into(), level, temporary, folder })
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]: the application has not written it; else the system's.
    pub(crate) fn check_written(&self) -> Result<u64> {
        let path = self.temporary.display();
        let found = fs::metadata(&self.temporary).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::new(ErrorKind::NotFound, format!("nothing was written to {path}"))
            }
            _ => Error::system(format!("stat {path}"), &error),
        });
        let stays = |error: Error| {
            Error::new(error.kind(), format!("{error}; {} stays as it is", self.original))
        };
        found.map(|found| found.len()).map_err(stays)
    }

    /// Removes the folder, and the file in it if that has not become a checkpoint.
    pub(crate) fn remove_folder(self) {
        // What cannot be removed is told with the folder.
        let _ = fs::remove_file(&self.temporary);
        match self.folder.remove() {
            Ok(rest) if rest.is_empty() => {}
            Ok(rest) => log::warn!(
                "{}: the checkpoint is only the file that was routed; other files beside it were removed: {}",
                self.original,
                rest.join(", ")
            ),
            Err(error) => log::warn!("{error}"),
        }
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
            Phase::Checkpoint { .. } if self.engine.config().ephemeral => {
                return Err(Error::invalid(format!(
                    "{original}: an ephemeral job (ephemeral = true) keeps no \
                     files"
                )));
            }
            Phase::Checkpoint { open, routed, .. } => {
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
                        let files = self.engine.files();
                        let bytes = self.routed_bytes.entry(name.clone());
                        let bytes = *bytes.or_insert_with(|| {
                            files.listing().expected_len(&name, Path::new(&original))
                        });
                        let new = self.engine.capturing().place_routed(open, bytes, |level| {
                            RoutedFile::create(files, level, &name, version, &original)
                        })?;
                        routed.insert(new).temporary.clone()
                    }
                }
            }
            Phase::Restart { restoring, .. } => {
                let since = Instant::now();
                let files = self.engine.restores().files_of(restoring);
                let lock = || self.engine.file_side().lock_names();
                let (path, bytes) =
                    files.fetch().fetch_routed(&restoring.name, restoring.version, lock)?;
                self.engine.files().rights().allow_replacing(&restoring.name);
                if bytes > 0 {
                    self.engine
                        .metrics()
                        .hop((Stop::Persistent, Stop::Scratch))
                        .add(bytes, since.elapsed());
                    self.engine.metrics().waited(Cause::File, since);
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
        .map_err(|error| Error::system(format!("the path {path:?}"), &error))?
        .into_os_string()
        .into_string()
        .map_err(|path| Error::invalid(format!("{} is not UTF-8", path.to_string_lossy())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;

    /// Catches a file that is there before the application makes it, an empty one that is taken for none, and a folder
    /// that stays.
    #[test]
    fn the_file_is_the_applications_to_make() {
        let directory = tempfile::tempdir().unwrap();
        let text = format!("mode = sync\nscratch = {}\n", directory.path().display());
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let files = Files::open(&config, 0).unwrap();
        let routed = |version| {
            RoutedFile::create(&files, FileLevel::Scratch, "x", version, "/at/own.h5").unwrap()
        };
        let untouched = routed(1);
        let error = untouched.check_written().unwrap_err().to_string();
        assert!(error.contains(".x-0-1.dat.tmp-") && error.contains("/at/own.h5 stays"), "{error}");
        untouched.remove_folder();
        let empty = routed(2);
        assert!(empty.temporary.ends_with("own.h5"));
        fs::File::create_new(&empty.temporary).unwrap();
        assert_eq!(empty.check_written(), Ok(0));
        let folder = empty.temporary.parent().unwrap().to_owned();
        empty.remove_folder();
        assert!(!folder.exists());
        assert!(RoutedFile::create(&files, FileLevel::Scratch, "x", 3, "/").is_err());
    }
}
