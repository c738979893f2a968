//! The checkpoint file that is looked at: a file, or one rank's part of an aggregated file.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context as _, Result};
use config::Directories;
use format::aggregate::{self, Offsets};
use format::frames::Content;
use format::header::{Decoded, Header};
use format::names;
use format::proof::Proof;
use os::error::Kind;
use os::files;

use crate::stored::routed;

/// An open file.
#[derive(Debug)]
pub(super) struct Opened {
    pub path: PathBuf,
    pub file: File,
    /// The length of the file in bytes.
    pub len: u64,
    /// The name of the file, without the directory.
    name: String,
}

/// A rank's checkpoint.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    /// The file that the checkpoint is in.
    pub opened: &'a Opened,
    /// The range of the checkpoint in the file.
    pub part: Range<u64>,
    /// The checkpoint's name, the rank and the version, if the file's name says them.
    pub identity: Option<(String, u32, i32)>,
    /// The proof of the checkpoint, if it has one.
    pub proof: Option<Proof>,
}

impl Opened {
    /// Opens a file. A pipe or a device is refused.
    pub(super) fn open(path: &Path) -> Result<Opened> {
        let file = files::open(path)?;
        let len = files::len(&file, path)?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Opened { path: path.to_owned(), file, len, name: name.unwrap_or_default() })
    }

    /// The name and version in the file's name, if that is the name of an aggregated file.
    pub(super) fn aggregated(&self) -> Option<(&str, i32)> {
        aggregate::parse_name(&self.name)
    }

    /// Where the parts of this aggregated file lie: by its table in the directory `meta`, or
    /// without a table as a restart finds them, which is said.
    pub(super) fn offsets(&self, meta: Option<&Path>) -> Result<Offsets> {
        let Some(meta) = meta else {
            bail!(
                "{}: where the ranks' parts of an aggregated file lie stands in the directory \
                 meta; give --meta DIR or --config FILE",
                self.path.display()
            );
        };
        let table = meta.join(&self.name);
        if is_same_file(&table, &self.path) {
            bail!("{} is the table of the aggregated file, not the file", self.path.display());
        }
        let found = Offsets::find(&table, &self.file, self.len, &self.path);
        let (offsets, without_table) =
            found.with_context(|| format!("the parts of {}", self.path.display()))?;
        if let Some(found) = without_table {
            eprintln!("{found}");
        }
        Ok(offsets)
    }

    /// The checkpoint in this file: of `rank` if the file is aggregated.
    pub(super) fn subject(&self, rank: Option<u32>, meta: Option<&Path>) -> Result<Subject<'_>> {
        match (self.aggregated(), rank) {
            (Some((name, version)), Some(rank)) => {
                let offsets = self.offsets(meta)?;
                let part = offsets.part(rank as usize).with_context(|| {
                    format!(
                        "{}: there is no rank {rank}; the file has the parts of {} ranks",
                        self.path.display(),
                        offsets.ranks()
                    )
                })?;
                let identity = Some((name.to_owned(), rank, version));
                let proof = offsets.proof(rank as usize);
                Ok(Subject { opened: self, part, identity, proof })
            }
            (Some(_), None) => {
                bail!("{} has the parts of several ranks; give --rank N", self.path.display())
            }
            (None, Some(rank)) => bail!(
                "{}: --rank {rank} is for aggregated files, which are called NAME-agg-VERSION.dat",
                self.path.display()
            ),
            (None, None) => {
                let identity = names::parse(&self.name)
                    .map(|parsed| (parsed.name.to_owned(), parsed.rank, parsed.version));
                let proof = Proof::read(&self.file, &self.path)?;
                Ok(Subject { opened: self, part: 0..self.len, identity, proof })
            }
        }
    }
}

impl Subject<'_> {
    /// The header. Offsets count from the start of the part.
    pub(super) fn header(&self) -> Result<Decoded> {
        let path = &self.opened.path;
        let read = |content| Header::read(&self.opened.file, &content, path);
        self.content().and_then(read).map_err(|error| match routed(path) {
            Some(original) if error.kind() == Kind::Corrupt => anyhow::anyhow!(
                "{} is a file of the application's own (VELOC_Route_file), {original:?}, and \
                     has no header",
                path.display()
            ),
            _ => error.into(),
        })
    }

    /// What is in it, without compression.
    pub(super) fn content(&self) -> os::error::Result<Content> {
        Content::of(&self.opened.file, self.part.clone(), &self.opened.path)
    }

    /// The name of the rank's own file, by which its checksum is kept.
    pub(super) fn checkpoint_file(&self) -> String {
        match &self.identity {
            Some((name, rank, version)) => names::checkpoint_file(name, *rank, *version),
            None => self.opened.name.clone(),
        }
    }
}

/// The directory `meta`, as given or as in the configuration.
pub(super) fn meta_of(given: Option<&Path>, config: Option<&Path>) -> Result<Option<PathBuf>> {
    match (given, config) {
        (Some(meta), _) => Ok(Some(meta.to_owned())),
        (None, Some(config)) => Ok(Directories::load(config)?.meta),
        (None, None) => Ok(None),
    }
}

/// Whether both paths lead to one existing file.
pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    fs::canonicalize(one).ok().is_some_and(|one| fs::canonicalize(other).ok() == Some(one))
}
