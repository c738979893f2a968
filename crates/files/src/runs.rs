//! Which run made a copy, and reading those of one run alone.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::opened::{Found, Opened};
use super::places::Places;
use catalog::FileLevel;
use config::ProofPolicy as Setting;
use errors::{Error, ErrorKind, Result};
use format::identity::Identity;
use format::proof::Proof;
use os::files;

/// The proof of the file at `path`, if it has one. A pipe or a directory has none, and is not waited for.
pub(super) fn proof_of(path: &Path) -> Option<Proof> {
    let file = files::open(path).ok()?;
    Proof::read(&file, path).ok().flatten()
}

/// The runs that have made files, as their proofs say.
#[derive(Debug)]
pub struct Runs {
    places: Arc<Places>,
    /// Only copies that this run may have made are read.
    wanted: Identity,
    proof: Setting,
}

impl Runs {
    pub(super) fn new(places: Arc<Places>, wanted: Identity, proof: Setting) -> Runs {
        Runs { places, wanted, proof }
    }

    /// The same, where only copies that this run may have made are read.
    pub(super) fn of_run(&self, wanted: Identity) -> Runs {
        Runs { places: self.places.clone(), wanted, proof: self.proof }
    }

    /// The run whose copies alone are read, if it is known.
    pub fn wanted(&self) -> Identity {
        self.wanted
    }

    /// The run that made an open file, as its proof says.
    pub fn identity_of(&self, file: &File, path: &Path) -> Identity {
        self.proven_identity(|| Proof::read(file, path))
    }

    /// The run that made this process's file of a version in a level, if that is known.
    pub fn identity_in(&self, level: FileLevel, name: &str, version: i32) -> Identity {
        let path = match level {
            FileLevel::Scratch => self.places.scratch_path(name, version).ok(),
            FileLevel::Persistent => self.places.persistent_path(name, version),
        };
        path.and_then(|path| Some(self.identity_of(&files::open(&path).ok()?, &path)))
            .unwrap_or(Identity::UNKNOWN)
    }

    /// The run that made a copy that was found.
    pub fn identity_found(&self, found: &Found) -> Identity {
        match found {
            Found::Regions(opened) => self.identity_of_copy(opened),
            Found::Routed(path) => {
                files::open(path).map_or(Identity::UNKNOWN, |file| self.identity_of(&file, path))
            }
        }
    }

    pub(super) fn identity_of_copy(&self, opened: &Opened) -> Identity {
        self.proven_identity(|| opened.proof())
    }

    /// What proves nothing says nothing about runs.
    fn proven_identity(&self, proof: impl FnOnce() -> Result<Option<Proof>>) -> Identity {
        if self.proof == Setting::Off {
            return Identity::UNKNOWN;
        }
        let proof = proof().ok().flatten();
        proof.map_or(Identity::UNKNOWN, |proof| proof.identity)
    }

    /// Checks that the wanted run may have made a copy.
    pub(super) fn check_run(&self, path: &Path, made_by: impl FnOnce() -> Identity) -> Result<()> {
        if !self.wanted.is_known() || self.wanted.may_be(made_by()) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::OtherJob,
            format!("{}: another run made it than the other processes' files", path.display()),
        ))
    }

    /// An opened copy, if the wanted run may have made it.
    pub(super) fn of_wanted_run(&self, opened: Opened) -> Result<Opened> {
        self.check_run(&opened.path, || self.identity_of_copy(&opened))?;
        Ok(opened)
    }
}
