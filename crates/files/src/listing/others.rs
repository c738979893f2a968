//! The files of other processes in the same directories.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::Listing;
use crate::note::note_of;
use errors::Result;
use format::names::{self, Piece};
use os::files;

impl Listing {
    /// The versions of which scratch has a file or parities of any process of this user, ascending.
    pub fn versions_of_anybody(&self, name: &str) -> Result<BTreeSet<i32>> {
        let Some(directory) = self.places.scratch() else {
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
        let of_other = self.places.of_rank(rank);
        let path = match piece {
            Piece::Data => of_other.scratch_path(name, version),
            Piece::Parity => of_other.parity_path(name, version),
        };
        let path = path.ok().filter(|path| files::is_own(path))?;
        Some((path, note_of(&of_other, name, version).ok()?))
    }

    /// The parity files of a version that are in this process's scratch directory and belong to
    /// others, with their ranks.
    pub fn foreign_parities(&self, name: &str, version: i32) -> Result<Vec<(u32, PathBuf)>> {
        let Some(directory) = self.places.scratch() else {
            return Ok(Vec::new());
        };
        files::list(directory, |file_name| {
            let file = names::parse_parity(file_name)?;
            let is_one =
                file.name == name && file.version == version && file.rank != self.places.rank();
            let path = is_one.then(|| directory.join(file_name)).filter(|path| files::is_own(path));
            Some((file.rank, path?))
        })
    }
}
