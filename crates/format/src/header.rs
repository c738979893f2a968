//! The header at the start of every checkpoint file.
//!
//! Little-endian and packed: a `u64` count, then for each region an `i32` id and a `u64` size in bytes,
//! ascending by signed id. The regions' bytes follow in that order up to the end of the file. There is
//! no magic number and no checksum, so [`Header::decode`] only accepts what could have been written this
//! way and matches the file's length.
//!
//! Where a region is encoded (`VELOC_Mem_compress`), the count has its highest bit set, so that other readers refuse the
//! file, and each region has a third number: the bytes that it has when it is decoded, or `u64::MAX` if it is not encoded.

use std::fmt::Display;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use crate::frames::FileContent;
use errors::{Error, ErrorKind, Result};
use os::files;

/// How much of a header is read first, in bytes.
const BLOCK: usize = 1 << 20;

/// Length of the count in bytes.
const COUNT_LEN: usize = 8;

/// Length of one region's id and size in bytes.
const ENTRY_LEN: usize = 12;

/// The same where a region is encoded, and what the count has then.
const LONG_ENTRY_LEN: usize = 20;
const HAS_ENCODED: u64 = 1 << 63;

/// The third number of a region that is not encoded.
const NOT_ENCODED: u64 = u64::MAX;

/// The most regions of a checkpoint: as many as there are ids.
const MOST_REGIONS: u64 = 1 << 32;

/// The bytes of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// In the checkpoint.
    pub stored: u64,
    /// When it is decoded; `None`: it is not encoded.
    pub decoded: Option<u64>,
}

impl From<u64> for Size {
    fn from(stored: u64) -> Size {
        Size { stored, decoded: None }
    }
}

/// The regions of a checkpoint, and their sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    regions: Vec<(i32, Size)>,
}

/// The position of one region in a checkpoint file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionPosition {
    /// The id under which the application has protected it.
    pub id: i32,
    /// Its length in bytes.
    pub size: u64,
    /// Its length when it is decoded; `None`: it is not encoded.
    pub decoded: Option<u64>,
    /// The offset of its first byte from the start of the file, in bytes.
    pub offset: u64,
}

/// A decoded header, with its regions' positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    regions: Vec<RegionPosition>,
}

/// How the entries of a header are laid out.
#[derive(Clone, Copy)]
struct Layout {
    entry: usize,
}

impl Layout {
    fn of(has_encoded: bool) -> Layout {
        Layout { entry: if has_encoded { LONG_ENTRY_LEN } else { ENTRY_LEN } }
    }

    /// The layout that a count says, and the count.
    fn of_count(count: u64) -> (Layout, u64) {
        (Layout::of(count & HAS_ENCODED != 0), count & !HAS_ENCODED)
    }

    /// The layout of a header that begins like this.
    fn of_prefix(prefix: &[u8]) -> Layout {
        let count = prefix.first_chunk().map_or(0, |count| u64::from_le_bytes(*count));
        Layout::of_count(count).0
    }

    fn is_long(self) -> bool {
        self.entry == LONG_ENTRY_LEN
    }

    fn len(self, regions: usize) -> usize {
        COUNT_LEN + regions * self.entry
    }
}

impl Header {
    /// A header for these regions (id, length), in any order.
    ///
    /// # Errors
    /// A repeated id, or sizes that exceed the longest possible file.
    pub fn new<S: Into<Size>>(regions: Vec<(i32, S)>) -> Result<Header> {
        let mut regions: Vec<_> = regions.into_iter().map(|(id, size)| (id, size.into())).collect();
        regions.sort_unstable_by_key(|(id, _)| *id);
        for pair in regions.windows(2) {
            if pair[0].0 == pair[1].0 {
                return Err(Error::invalid(format!("region {} is given twice", pair[0].0)));
            }
        }
        let header = Header { regions };
        match header.checked_file_len() {
            Some(_) => Ok(header),
            None => Err(Error::invalid(
                "the sizes of the regions add up to more than a file can hold (2^63 - 1 bytes)",
            )),
        }
    }

    /// The regions (id, length), ascending by id.
    pub fn regions(&self) -> &[(i32, Size)] {
        &self.regions
    }

    /// The regions' positions in the file, ascending by id and so by offset.
    pub fn places(&self) -> impl Iterator<Item = RegionPosition> + '_ {
        let mut offset = self.encoded_len() as u64;
        self.regions.iter().map(move |(id, size)| {
            let region =
                RegionPosition { id: *id, size: size.stored, decoded: size.decoded, offset };
            offset += size.stored;
            region
        })
    }

    /// The length of the whole file in bytes: the header and the regions.
    pub fn file_len(&self) -> u64 {
        self.regions.iter().map(|(_, size)| size.stored).sum::<u64>() + self.encoded_len() as u64
    }

    /// Bytes of this header.
    pub fn encoded_len(&self) -> usize {
        self.layout().len(self.regions.len())
    }

    fn layout(&self) -> Layout {
        Layout::of(self.regions.iter().any(|(_, size)| size.decoded.is_some()))
    }

    /// The encoded header.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.encoded_len());
        let is_long = self.layout().is_long();
        let count = self.regions.len() as u64 | if is_long { HAS_ENCODED } else { 0 };
        bytes.extend_from_slice(&count.to_le_bytes());
        for (id, size) in &self.regions {
            bytes.extend_from_slice(&id.to_le_bytes());
            bytes.extend_from_slice(&size.stored.to_le_bytes());
            if is_long {
                bytes.extend_from_slice(&size.decoded.unwrap_or(NOT_ENCODED).to_le_bytes());
            }
        }
        bytes
    }

    /// The length in bytes of the header of a file that starts with `prefix` (8 bytes are enough) and
    /// has `file_len` bytes: as many are needed for [`Header::decode`]. At most `file_len`.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: fewer than 8 bytes, or a count for which the file is too short.
    pub(crate) fn declared_len(prefix: &[u8], file_len: u64) -> Result<usize> {
        let Some((count, _)) = prefix.split_first_chunk::<COUNT_LEN>() else {
            return Err(truncated(prefix.len() as u64, format!("at least {COUNT_LEN}")));
        };
        let (layout, count) = Layout::of_count(u64::from_le_bytes(*count));
        if count > MOST_REGIONS {
            return Err(no_checkpoint(format!("its header would have {count} regions")));
        }
        // Divided, not multiplied: a hostile count would overflow.
        let room = file_len.saturating_sub(COUNT_LEN as u64) / layout.entry as u64;
        match usize::try_from(count) {
            Ok(regions) if count <= room => Ok(layout.len(regions)),
            Ok(regions) => Err(truncated(file_len, format!("at least {}", layout.len(regions)))),
            Err(_) => Err(no_checkpoint(format!("its header would have {count} regions"))),
        }
    }

    /// Decodes the header of a file of `file_len` bytes from its first bytes, `prefix`: at least
    /// `Header::declared_len`.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] with the reason: too few bytes; repeated or descending ids (upstream writes
    /// them in ascending order, and reads the regions in that order, so any other file is damaged);
    /// sizes that do not add up to `file_len`.
    pub fn decode(prefix: &[u8], file_len: u64) -> Result<Decoded> {
        let len = Self::declared_len(prefix, file_len)?;
        let Some(prefix) = prefix.get(..len) else {
            return Err(corrupt(format!(
                "the header takes {len} bytes, of which {} are at hand",
                prefix.len()
            )));
        };
        Self::check_prefix(prefix, file_len)?;
        let mut offset = len as u64;
        let mut regions: Vec<RegionPosition> = Vec::with_capacity(len / ENTRY_LEN);
        for (id, Size { stored: size, decoded }) in entries(prefix) {
            regions.push(RegionPosition { id, size, decoded, offset });
            // No more than the file has, which was checked.
            offset += size;
        }
        if Layout::of_prefix(prefix).is_long()
            && entries(prefix).all(|(_, size)| size.decoded.is_none())
        {
            let why = "its header says that a region is encoded, and none is";
            return Err(no_checkpoint(why.to_owned()));
        }
        if offset != file_len {
            return Err(no_checkpoint(format!(
                "its regions would end at byte {offset} of {file_len}"
            )));
        }
        Ok(Decoded { regions })
    }

    /// Reads the header at the start of the range `part` of the open file `file` (`path` in messages):
    /// the whole file, or a rank's part of an aggregated one. Offsets count from the part's start. It
    /// reads growing blocks and checks each, so that a file without a header does not cost its size in
    /// memory.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] as for [`Header::decode`], or the system's, with the path.
    pub fn read(file: &File, content: &FileContent, path: &Path) -> Result<Decoded> {
        let read = |bytes: &mut [u8], at| content.read_exact_at(file, bytes, at, path);
        let prefix = Self::read_prefix(content.len(), read, path)?;
        Self::decode(&prefix, content.len()).map_err(|error| error.within(path.display()))
    }

    /// The length in bytes of the checkpoint file that begins at the start of `part` of the open file
    /// `file`, by its header; at most up to the part's end. `path` is for messages.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if there is no header, it has no regions, or they exceed the part; else the
    /// system's. All name the path.
    pub fn extent(file: &File, part: Range<u64>, path: &Path) -> Result<u64> {
        let room = part.end.saturating_sub(part.start);
        let start = part.start;
        let read = |bytes: &mut [u8], at| files::read_exact_at(file, bytes, start + at, path);
        let prefix = Self::read_prefix(room, read, path)?;
        let len = entries(&prefix).try_fold(prefix.len() as u64, |sum, (_, size)| {
            sum.checked_add(size.stored).filter(|sum| *sum <= room)
        });
        len.filter(|_| prefix.len() > COUNT_LEN).ok_or_else(|| {
            corrupt(format!("there is no checkpoint in the {room} bytes from byte {start} on"))
                .within(path.display())
        })
    }

    /// The encoded header at the start of `part`, checked by [`Header::check_prefix`].
    fn read_prefix(
        len: u64,
        read: impl Fn(&mut [u8], u64) -> Result<()>,
        path: &Path,
    ) -> Result<Vec<u8>> {
        let within = |error: Error| error.within(path.display());
        let mut prefix = vec![0; len.min(COUNT_LEN as u64) as usize];
        read(&mut prefix, 0)?;
        let declared = Self::declared_len(&prefix, len).map_err(within)?;
        while prefix.len() < declared {
            let from = prefix.len();
            prefix.resize(declared.min(2 * from + BLOCK), 0);
            read(&mut prefix[from..], from as u64)?;
            Self::check_prefix(&prefix, len).map_err(within)?;
        }
        Ok(prefix)
    }

    /// Checks the available part of a header: the ids must ascend and the sizes fit.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`].
    pub fn check_prefix(prefix: &[u8], file_len: u64) -> Result<()> {
        let declared = Self::declared_len(prefix, file_len)?;
        let (mut before, mut end) = (None, declared as u64);
        for (id, Size { stored: size, decoded }) in entries(prefix) {
            if decoded.is_some_and(|decoded| decoded == 0 || i64::try_from(decoded).is_err()) {
                let decoded = decoded.unwrap_or_default();
                return Err(no_checkpoint(format!(
                    "its header has region {id} decode to {decoded} bytes"
                )));
            }
            match before {
                Some(before) if before == id => {
                    return Err(no_checkpoint(format!("its header lists region {id} twice")));
                }
                Some(before) if before > id => {
                    let what = format!("its header lists region {id} after region {before}");
                    return Err(no_checkpoint(what));
                }
                _ => before = Some(id),
            }
            let sum = end.checked_add(size).filter(|sum| i64::try_from(*sum).is_ok());
            end = sum.ok_or_else(|| {
                no_checkpoint(format!("its header gives region {id} {size} bytes"))
            })?;
        }
        match end > file_len {
            true if prefix.len() < declared => Err(truncated(file_len, format!("at least {end}"))),
            true => Err(truncated(file_len, end)),
            false => Ok(()),
        }
    }

    /// The length of the file, if it is possible.
    fn checked_file_len(&self) -> Option<u64> {
        let header = self.encoded_len() as u64;
        self.regions
            .iter()
            .try_fold(header, |sum, (_, size)| sum.checked_add(size.stored))
            .filter(|len| i64::try_from(*len).is_ok())
    }
}

impl Decoded {
    /// The regions, ascending by id and by offset.
    pub fn regions(&self) -> &[RegionPosition] {
        &self.regions
    }

    /// The region of that id, if the checkpoint has it.
    pub fn region(&self, id: i32) -> Option<&RegionPosition> {
        let index = self.regions.binary_search_by_key(&id, |region| region.id).ok()?;
        self.regions.get(index)
    }

    /// The same without a region, at the same offsets.
    pub(crate) fn without(mut self, id: i32) -> Decoded {
        self.regions.retain(|region| region.id != id);
        self
    }

    /// Adds a region.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: there is one of that id.
    pub(crate) fn add(&mut self, region: RegionPosition) -> Result<()> {
        match self.regions.binary_search_by_key(&region.id, |region| region.id) {
            Ok(_) => Err(corrupt(format!("it has region {} twice", region.id))),
            Err(place) => {
                self.regions.insert(place, region);
                Ok(())
            }
        }
    }

    /// The header that was read.
    pub fn header(&self) -> Header {
        Header { regions: self.regions.iter().map(|r| (r.id, r.stored())).collect() }
    }
}

impl RegionPosition {
    /// Its bytes, stored and decoded.
    pub fn stored(&self) -> Size {
        Size { stored: self.size, decoded: self.decoded }
    }
}

/// The ids and sizes of the whole entries in the beginning of a header.
fn entries(prefix: &[u8]) -> impl Iterator<Item = (i32, Size)> + '_ {
    let layout = Layout::of_prefix(prefix);
    let entries = prefix.get(COUNT_LEN..).unwrap_or_default();
    entries.chunks_exact(layout.entry).filter_map(|entry| {
        let (id, sizes) = entry.split_first_chunk()?;
        let (stored, decoded) = sizes.split_first_chunk()?;
        let decoded = decoded.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
        let decoded = decoded.filter(|decoded| *decoded != NOT_ENCODED);
        Some((i32::from_le_bytes(*id), Size { stored: u64::from_le_bytes(*stored), decoded }))
    })
}

fn corrupt(message: String) -> Error {
    Error::new(ErrorKind::Corrupt, message)
}

/// The file has been cut off.
fn truncated(has: u64, of: impl Display) -> Error {
    corrupt(format!("truncated: {has} of {of} bytes"))
}

/// The file is something else.
fn no_checkpoint(why: String) -> Error {
    corrupt(format!("not a VELOC checkpoint: {why}"))
}

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
