//! A checkpoint's file, opened for reading, with its header checked.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use catalog::Region;
use errors::{Error, ErrorKind, Result};
use format::delta::{self, Image};
use format::frames::FileContent;
use format::header::{Decoded, Header};
use format::mark;
use format::proof::Proof;
use format::subarray::{self, Subarray};
use os::files;

/// A checkpoint's file on disk.
#[derive(Debug)]
pub enum Found {
    /// Regions of memory.
    Regions(Opened),
    /// A file of the application's own (`VELOC_Route_file`), at this path.
    Routed(PathBuf),
}

/// A complete checkpoint file, or a process's part of an aggregated one, open for reading, with its
/// header read.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub(super) file: File,
    /// Its path, for messages.
    pub(super) path: PathBuf,
    /// The bytes of the file that are the checkpoint's.
    pub(super) part: Range<u64>,
    /// What they are, without compression; of a delta, with what its bases have.
    pub(super) content: FileContent,
    /// Its regions; their offsets count from the content's start.
    pub(super) header: Decoded,
    /// Where its proof is.
    pub(super) proven_by: ProvenBy,
}

/// Where the proof of a copy is.
#[derive(Debug)]
pub(super) enum ProvenBy {
    /// In an attribute of the file.
    Attribute,
    /// In the table of the aggregated file, which had this one.
    Table(Option<Proof>),
}

impl Opened {
    /// Opens a file and checks its header against its length. Of a file of an incremental job, the regions are those
    /// of the file itself.
    pub fn read(path: &Path) -> Result<Opened> {
        let file = files::open(path)?;
        let len = files::len(&file, path)?;
        let content = FileContent::of(&file, 0..len, path)?;
        let header = Header::read(&file, &content, path)?;
        let proven_by = ProvenBy::Attribute;
        Ok(Opened { file, path: path.to_owned(), part: 0..len, content, header, proven_by })
    }

    /// Its regions; their offsets count from the content's start.
    pub fn header(&self) -> &Decoded {
        &self.header
    }

    /// The same with the regions of the checkpoint, of which other files may have parts.
    ///
    /// # Errors
    /// As [`Image::of`].
    pub(super) fn with_bases(self, find: delta::Find<'_>) -> Result<Opened> {
        if self.header.region(delta::REGION).is_none() {
            return Ok(self);
        }
        let Image { content, header, .. } =
            Image::of(&self.file, self.part.clone(), &self.path, find)?;
        Ok(Opened { content, header, ..self })
    }

    /// Whether its regions are one after the other in the file, behind a header of them alone.
    pub(super) fn is_plain(&self) -> bool {
        let end = self.header.regions().last().map_or(0, |last| last.offset + last.size);
        let is_whole = self.header.header().file_len() == end;
        is_whole && !self.content.is_compressed() && !self.content.is_delta()
    }

    /// The copy's proof, if it has one.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the proof cannot be read; else the system's.
    pub fn proof(&self) -> Result<Option<Proof>> {
        match &self.proven_by {
            ProvenBy::Attribute => Proof::read(&self.file, &self.path),
            ProvenBy::Table(found) => Ok(found.clone()),
        }
    }

    /// Where a region begins in this copy of the checkpoint.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the copy has no such region, or one of another size.
    pub fn offset_of(&self, region: &Region) -> Result<u64> {
        let found = self.header.region(region.id).filter(|found| found.size == region.size);
        found.map(|found| found.offset).ok_or_else(|| {
            Error::new(
                ErrorKind::Corrupt,
                format!(
                    "{}: region {} is missing, or has another size than in the other copies",
                    self.path.display(),
                    region.id
                ),
            )
        })
    }

    /// The id of the region that is the checkpoint's mark, if one is.
    ///
    /// # Errors
    /// The system's, with the path.
    pub fn mark(&self) -> Result<Option<i32>> {
        for region in mark::candidates(self.header.regions()) {
            let mut bytes = vec![0; region.size.min(mark::LEN as u64) as usize];
            self.read_exact_at(&mut bytes, region.offset)?;
            if mark::is_mark(&bytes, region.size) {
                return Ok(Some(region.id));
            }
        }
        Ok(None)
    }

    /// The subarrays of its regions, as its table says; none without one.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the table is none; else the system's, with the path.
    pub fn subarrays(&self) -> Result<Vec<(i32, Subarray)>> {
        let Some(region) = self.header.region(subarray::REGION) else { return Ok(Vec::new()) };
        let mut bytes = vec![0; region.size.min(subarray::LONGEST) as usize];
        self.read_exact_at(&mut bytes, region.offset)?;
        subarray::decode(&bytes).map_err(|error| error.within(self.path.display()))
    }

    /// Fills `bytes` from an offset in the checkpoint.
    ///
    /// # Errors
    /// The system's, with the path; [`ErrorKind::Corrupt`] if there are fewer bytes.
    pub fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.content.read_exact_at(&self.file, bytes, offset, &self.path)
    }
}
