//! The files of other processes in the same directories.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Companions, Files, Opened};
use errors::Result;
use format::names::{self, Piece};
use os::files;

impl Files {
    /// These directories as another rank of the job sees them.
    pub fn of_rank(&self, rank: u32) -> Files {
        // What a job with another number of processes has left may be read on purpose.
        Files { rank, ranks: 0, companions: Arc::new(Companions::any()), ..self.clone() }
    }

    /// The versions of which scratch has a file or parities of any process of this user, ascending.
    pub fn versions_of_anybody(&self, name: &str) -> Result<BTreeSet<i32>> {
        let Some(directory) = &self.scratch else {
            return Ok(BTreeSet::new());
        };
        let versions = files::list(directory, |file_name| {
            let file = names::parse(file_name).or_else(|| names::parse_parity(file_name))?;
            let counts = file.name == name && files::is_own(&directory.join(file_name));
            counts.then_some(file.version)
        })?;
        Ok(versions.into_iter().collect())
    }

    /// The file of another process in this one's scratch directory, if it is there; for a
    /// file-based checkpoint with the path that was routed.
    pub fn foreign(
        &self,
        name: &str,
        version: i32,
        rank: u32,
        piece: Piece,
    ) -> Option<(PathBuf, Option<String>)> {
        let of_other = self.of_rank(rank);
        let path = match piece {
            Piece::Data => of_other.scratch_path(name, version),
            Piece::Parity => of_other.parity_path(name, version),
        };
        let path = path.ok().filter(|path| files::is_own(path))?;
        Some((path, of_other.routed(name, version).ok()?))
    }

    /// Checks that the file at `path` is that checkpoint of that rank.
    ///
    /// # Errors
    /// [`errors::Kind::Corrupt`] if it is not; else the system's. Both name the path.
    pub fn check_foreign(&self, path: &Path, name: &str, version: i32, rank: u32) -> Result<()> {
        self.of_rank(rank).checked(Opened::read(path)?, name, version, || Ok(())).map(drop)
    }

    /// The parity files of a version that are in this process's scratch directory and belong to
    /// others, with their ranks.
    pub fn foreign_parities(&self, name: &str, version: i32) -> Result<Vec<(u32, PathBuf)>> {
        let Some(directory) = &self.scratch else {
            return Ok(Vec::new());
        };
        files::list(directory, |file_name| {
            let file = names::parse_parity(file_name)?;
            let is_one = file.name == name && file.version == version && file.rank != self.rank;
            let path = is_one.then(|| directory.join(file_name)).filter(|path| files::is_own(path));
            Some((file.rank, path?))
        })
    }

    /// The scratch directory, for messages.
    pub fn scratch_directory(&self) -> Option<&Path> {
        self.scratch.as_deref()
    }

    /// Removes a file of another process from this one's scratch directory.
    pub fn remove_foreign(&self, name: &str, version: i32, rank: u32, piece: Piece) -> Result<()> {
        self.may_change_in(self.scratch.as_deref())?;
        let of_other = self.of_rank(rank);
        match piece {
            Piece::Data => {
                files::remove(&of_other.scratch_path(name, version)?)?;
                files::remove(&of_other.routed_note(name, version)?)
            }
            Piece::Parity => files::remove(&of_other.parity_path(name, version)?),
        }
    }
}
