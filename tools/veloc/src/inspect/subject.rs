//! The checkpoint file that is looked at: a file, or one rank's part of an aggregated file.

use std::fs::{self, File};
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context as _, Result};
use config::Directories;
use errors::{Error, ErrorKind};
use format::aggregate::{self, Offsets};
use format::delta::{self, DeltaTable, Image};
use format::frames::FileContent;
use format::header::{Decoded, Header};
use format::names;
use format::proof::Proof;
use format::subarray::{self, Subarray};
use os::files;

use crate::bases::{self, BaseFinder};
use crate::stored::routed;

/// An open file.
#[derive(Debug)]
pub(super) struct InspectedFile {
    pub path: PathBuf,
    pub file: File,
    /// The length of the file in bytes.
    pub len: u64,
    /// The name of the file, without the directory.
    name: String,
}

/// A rank's checkpoint.
#[derive(Debug)]
pub(super) struct InspectedCheckpoint<'a> {
    /// The file that the checkpoint is in.
    pub opened: &'a InspectedFile,
    /// The range of the checkpoint in the file.
    pub part: Range<u64>,
    /// The checkpoint's name, the rank and the version, if the file's name says them.
    pub identity: Option<(String, u32, i32)>,
    /// The proof of the checkpoint, if it has one.
    pub proof: Option<Proof>,
}

impl InspectedFile {
    /// Opens a file. A pipe or a device is refused.
    pub(super) fn open(path: &Path) -> Result<InspectedFile> {
        let file = files::open(path)?;
        let len = files::len(&file, path)?;
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(InspectedFile { path: path.to_owned(), file, len, name: name.unwrap_or_default() })
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
                "{}: the directory meta says where the ranks' parts of an aggregated file are; give --meta DIR or \
                 --config FILE",
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
    pub(super) fn subject(
        &self,
        rank: Option<u32>,
        meta: Option<&Path>,
    ) -> Result<InspectedCheckpoint<'_>> {
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
                Ok(InspectedCheckpoint { opened: self, part, identity, proof })
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
                Ok(InspectedCheckpoint { opened: self, part: 0..self.len, identity, proof })
            }
        }
    }
}

/// What a file says about itself, without a look at its bases.
#[derive(Debug)]
pub(super) struct FileDescription {
    /// What is in it, without compression.
    pub content: FileContent,
    /// Its header. Offsets count from the start of the part.
    pub header: Decoded,
    /// What it says if it is of an incremental job.
    pub table: Option<DeltaTable>,
}

impl FileDescription {
    /// The regions of the checkpoint: id, size, and the offset if the file has all of it.
    pub(super) fn regions(&self) -> Vec<(i32, u64, Option<u64>)> {
        bases::regions_of(&self.header, self.table.as_ref())
    }
}

impl InspectedCheckpoint<'_> {
    /// What the file says about itself.
    pub(super) fn said(&self) -> Result<FileDescription> {
        let InspectedFile { file, path, .. } = self.opened;
        let read = || {
            let content = FileContent::of(file, self.part.clone(), path)?;
            let header = Header::read(file, &content, path)?;
            let table = match header.region(delta::REGION) {
                Some(_) => delta::table_of(file, self.part.clone(), path)?,
                None => None,
            };
            Ok(FileDescription { content, header, table })
        };
        read().map_err(|error: Error| match routed(path) {
            Some(original) if error.kind() == ErrorKind::Corrupt => anyhow::anyhow!(
                "{} is a file of the application's own (VELOC_Route_file), {original:?}, and \
                     has no header",
                path.display()
            ),
            _ => error.into(),
        })
    }

    /// Which parts of arrays its regions are.
    pub(super) fn parts(&self, said: &FileDescription) -> Result<Vec<(i32, Subarray)>> {
        let Some(region) = said.header.region(subarray::REGION) else { return Ok(Vec::new()) };
        let InspectedFile { file, path, .. } = self.opened;
        let mut bytes = vec![0; region.size.min(subarray::LONGEST) as usize];
        said.content.read_exact_at(file, &mut bytes, region.offset, path)?;
        // A region of the application's own may have this number.
        Ok(subarray::decode(&bytes).unwrap_or_default())
    }

    /// The checkpoint, of which its bases may have a part.
    pub(super) fn image(&self, bases: &BaseFinder) -> errors::Result<Image> {
        let find = |base: &delta::Base| match &self.identity {
            Some((name, rank, _)) => bases.find(name, *rank, base),
            None => Err(Error::invalid(
                "the file's name does not say of which checkpoint it is, so its base is not known",
            )),
        };
        let InspectedFile { file, path, .. } = self.opened;
        Image::of(file, self.part.clone(), path, &find)
    }

    /// The name of the rank's own file, by which its checksum is kept.
    pub(super) fn checkpoint_file(&self) -> String {
        match &self.identity {
            Some((name, rank, version)) => names::checkpoint_file(name, *rank, *version),
            None => self.opened.name.clone(),
        }
    }
}

/// The directories of the configuration, with `meta` as given.
pub(super) fn directories(meta: Option<&Path>, config: Option<&Path>) -> Result<Directories> {
    let known = config.map(Directories::load).transpose()?.unwrap_or_default();
    Ok(Directories { meta: meta.map(Path::to_owned).or(known.meta), ..known })
}

/// Where the bases of a file may be: beside it, and in the directories of the configuration.
pub(super) fn bases_of(path: &Path, known: &Directories, read_all: bool) -> BaseFinder {
    let beside = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let mut directories = vec![beside.unwrap_or(Path::new(".")).to_owned()];
    let known_too = [&known.scratch, &known.persistent].into_iter().flatten();
    for directory in known_too {
        if !directories.iter().any(|other| is_same_file(other, directory)) {
            directories.push(directory.clone());
        }
    }
    BaseFinder::new(directories, known.meta.clone(), read_all)
}

/// Whether both paths lead to one existing file.
pub(super) fn is_same_file(one: &Path, other: &Path) -> bool {
    fs::canonicalize(one).ok().is_some_and(|one| fs::canonicalize(other).ok() == Some(one))
}
