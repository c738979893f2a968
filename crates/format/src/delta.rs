//! Checkpoint files of an incremental job (`incremental = true`): they hold what has changed since their base, an
//! earlier version of the same name and rank, or everything.
//!
//! Such a file is a checkpoint file with one more region, [`REGION`]. Regions that are held whole are regions of the
//! file; of the others, only the runs of bytes that were written since the base are in that region, so that other
//! readers refuse the file instead of restoring a part. Little-endian:
//!
//! | bytes | are |
//! | --- | --- |
//! | 8 | [`MAGIC`] |
//! | 8 | the checkpoint's number: random, by which a delta knows its base |
//! | 8 | the most deltas that may lie below it; more than its base has |
//! | 8, 8 | the number and version of the base; they do not matter if no region is held in part |
//! | 8, 8 | the regions that are held in part, and all their runs: how many |
//! | 24 for each region | its id, its size, and how many runs it has |
//! | 16 for each run | its offset in the region, and its length |
//! | 8 | the XXH3 of all before |
//! | | the bytes of the runs |

use std::collections::HashSet;
use std::fs::File;
use std::hash::Hasher as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use errors::{Error, ErrorKind, Result};
use twox_hash::{XxHash3_128, XxHash3_64};

use crate::frames::FileContent;
use crate::header::{Decoded, Header, RegionPosition};

/// The id of the region. It is the first in each file.
pub const REGION: i32 = i32::MIN;

/// How the region begins.
pub const MAGIC: [u8; 8] = *b"VELOCdlt";

/// The most deltas between a checkpoint and one that has everything.
pub const LONGEST_CHAIN: u64 = 64;

const HEAD: u64 = 56;
const OF_REGION: u64 = 24;
const OF_RUN: u64 = 16;
const SUM: u64 = 8;

/// The length of the table of a checkpoint that has everything: its whole region.
pub const LEN_WITHOUT_BASE: u64 = HEAD + SUM;

/// Where a delta's other bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base {
    /// The version.
    pub version: i32,
    /// The number.
    pub number: u64,
}

/// A region that is held in part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sparse {
    /// Its id.
    pub id: i32,
    /// Its bytes.
    pub size: u64,
    /// What was written since the base: ascending and apart from each other.
    pub runs: Vec<Range<u64>>,
}

/// What a file says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeltaTable {
    /// The checkpoint's number.
    pub number: u64,
    /// The most deltas that may lie below it.
    pub chain: u64,
    /// What it could be a delta of.
    pub base: Option<Base>,
    /// Its regions that are held in part: without any it needs no base.
    pub regions: Vec<Sparse>,
}

fn corrupt(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, text.into())
}

/// The numbers of a table one after the other, read in blocks and summed: what is no table does not cost the memory that
/// it claims.
struct TableNumbers<R> {
    read: R,
    block: Vec<u8>,
    taken: usize,
    at: u64,
    end: u64,
    sum: XxHash3_64,
}

impl<R: FnMut(&mut [u8], u64) -> Result<()>> TableNumbers<R> {
    fn next(&mut self) -> Result<u64> {
        if self.taken == self.block.len() {
            self.block.resize((self.end - self.at).min(BLOCK) as usize, 0);
            (self.read)(&mut self.block, self.at)?;
            self.sum.write(&self.block);
            (self.at, self.taken) = (self.at + self.block.len() as u64, 0);
        }
        let bytes = self.block.get(self.taken..).and_then(<[u8]>::first_chunk);
        self.taken += 8;
        bytes.map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(contradicts)
    }

    fn several<const N: usize>(&mut self) -> Result<[u64; N]> {
        let mut numbers = [0; N];
        for number in &mut numbers {
            *number = self.next()?;
        }
        Ok(numbers)
    }
}

fn contradicts() -> Error {
    corrupt("its table of changes contradicts itself")
}

impl DeltaTable {
    /// Its base, if it needs one.
    pub fn needed(&self) -> Option<Base> {
        self.base.filter(|_| !self.regions.is_empty())
    }

    /// The bytes of its runs.
    pub fn data(&self) -> u64 {
        let runs = self.regions.iter().flat_map(|region| &region.runs);
        runs.map(|run| run.end - run.start).sum()
    }

    /// The region's bytes up to those of the runs.
    pub fn encode(&self) -> Vec<u8> {
        let (number, version) =
            self.base.map_or((0, 0), |base| (base.number, i64::from(base.version) as u64));
        let runs: usize = self.regions.iter().map(|region| region.runs.len()).sum();
        let mut bytes = MAGIC.to_vec();
        let mut put = |number: u64| bytes.extend_from_slice(&number.to_le_bytes());
        let counts = [self.regions.len() as u64, runs as u64];
        [self.number, self.chain, number, version].into_iter().chain(counts).for_each(&mut put);
        for region in &self.regions {
            put(i64::from(region.id) as u64);
            put(region.size);
            put(region.runs.len() as u64);
        }
        for run in self.regions.iter().flat_map(|region| &region.runs) {
            put(run.start);
            put(run.end - run.start);
        }
        let sum = XxHash3_64::oneshot(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads the table from the region of `size` bytes, which `read` fills from an offset. Also returns its length, where
    /// the bytes of the runs begin.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: it is none, or damaged; else those of `read`.
    pub fn read(
        size: u64,
        read: impl FnMut(&mut [u8], u64) -> Result<()>,
    ) -> Result<(DeltaTable, u64)> {
        if size < HEAD + SUM {
            return Err(corrupt(format!("its table of changes has {size} bytes")));
        }
        let (block, sum) = (Vec::new(), XxHash3_64::new());
        let mut numbers = TableNumbers { read, block, taken: 0, at: 0, end: HEAD, sum };
        if numbers.next()?.to_le_bytes() != MAGIC {
            return Err(corrupt("its table of changes does not begin like one"));
        }
        let [number, chain, base, version, regions, runs] = numbers.several()?;
        // Divided, not multiplied: hostile counts would overflow.
        let room = size - HEAD - SUM;
        let is_possible = regions <= room / OF_REGION
            && runs <= (room - regions * OF_REGION) / OF_RUN
            && chain <= LONGEST_CHAIN;
        if !is_possible {
            return Err(corrupt(format!(
                "its table of changes would have {regions} regions with {runs} runs, after {chain} other deltas"
            )));
        }
        let len = HEAD + regions * OF_REGION + runs * OF_RUN + SUM;
        numbers.end = len - SUM;
        let (mut left, mut ids, mut counts) = (runs, HashSet::new(), Vec::new());
        let mut table = DeltaTable { number, chain, base: None, regions: Vec::new() };
        for _ in 0..regions {
            let [id, size, of_it] = numbers.several()?;
            left = left.checked_sub(of_it).ok_or_else(contradicts)?;
            let id = i32::try_from(id as i64).map_err(|_| contradicts())?;
            if size == 0 || !ids.insert(id) {
                return Err(contradicts());
            }
            counts.push(of_it);
            table.regions.push(Sparse { id, size, runs: Vec::new() });
        }
        let mut data = len;
        for (region, count) in table.regions.iter_mut().zip(counts) {
            let mut end = 0;
            for _ in 0..count {
                let [start, len] = numbers.several()?;
                let till = start.checked_add(len).filter(|till| *till <= region.size);
                let till = till.filter(|_| len > 0 && start >= end).ok_or_else(contradicts)?;
                region.runs.push(start..till);
                (end, data) = (till, data.checked_add(len).ok_or_else(contradicts)?);
            }
        }
        let mut sum = [0; SUM as usize];
        (numbers.read)(&mut sum, len - SUM)?;
        if numbers.sum.finish().to_le_bytes() != sum {
            return Err(corrupt("its table of changes is not what it was"));
        }
        if left != 0 || data != size || chain == 0 && !table.regions.is_empty() {
            return Err(contradicts());
        }
        if chain > 0 {
            let version = i32::try_from(version as i64).map_err(|_| contradicts())?;
            table.base = Some(Base { version, number: base });
        }
        Ok((table, len))
    }
}

/// The bytes that one digest stands for.
pub const BLOCK: u64 = 64 << 10;

/// The digests of a region's blocks of [`BLOCK`] bytes: by which it is found out what has changed where the system does
/// not tell.
#[derive(Debug, Default)]
pub struct Blocks {
    done: Vec<u128>,
    /// Bytes that do not fill a block yet.
    pending: Vec<u8>,
}

impl Blocks {
    /// Takes the next bytes of the region.
    pub fn put(&mut self, mut bytes: &[u8]) {
        let block = BLOCK as usize;
        if !self.pending.is_empty() {
            let (fills, rest) = bytes.split_at(bytes.len().min(block - self.pending.len()));
            self.pending.extend_from_slice(fills);
            bytes = rest;
            if self.pending.len() < block {
                return;
            }
            self.done.push(XxHash3_128::oneshot(&self.pending));
            self.pending.clear();
        }
        let whole = bytes.chunks_exact(block);
        self.pending.extend_from_slice(whole.remainder());
        self.done.extend(whole.map(XxHash3_128::oneshot));
    }

    /// The digests.
    pub fn finish(mut self) -> Vec<u128> {
        if !self.pending.is_empty() {
            self.done.push(XxHash3_128::oneshot(&self.pending));
        }
        self.done
    }
}

/// What differs between two states of a region of `size` bytes, by the digests of its blocks.
pub fn changed(size: u64, before: &[u128], now: &[u128]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for (nth, digest) in now.iter().enumerate() {
        if before.get(nth) == Some(digest) {
            continue;
        }
        let start = nth as u64 * BLOCK;
        let end = (start + BLOCK).min(size);
        match runs.last_mut() {
            Some(last) if last.end == start => last.end = end,
            _ => runs.push(start..end),
        }
    }
    runs
}

/// A checkpoint in a file.
#[derive(Debug)]
pub struct StoredCheckpoint {
    /// The file.
    pub file: File,
    /// The checkpoint's bytes in it.
    pub part: Range<u64>,
    /// For messages.
    pub path: PathBuf,
}

/// Finds the file of a base.
pub type Find<'a> = &'a dyn Fn(&Base) -> Result<StoredCheckpoint>;

/// The regions that a checkpoint's file has, with those of its bases.
#[derive(Debug)]
pub struct Image {
    /// Where to read their bytes.
    pub content: FileContent,
    /// The regions, with their offsets in `content`.
    pub header: Decoded,
    /// What the file says about itself, if it is of an incremental job.
    pub table: Option<DeltaTable>,
}

/// The regions that a file holds in part.
#[derive(Debug)]
pub(crate) struct Layer {
    /// Where each begins in the content, ascending; with the place of its first run in the file.
    regions: Vec<(u64, u64, Sparse)>,
    base: Box<(StoredCheckpoint, Image)>,
}

impl Image {
    /// The image in a file. Each base is asked for by `find`, and is compared with what its delta says.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`]: it is no checkpoint, or damaged, or a base is another checkpoint than the one it was; those
    /// of `find`; else the system's. All name the path.
    pub fn of(file: &File, part: Range<u64>, path: &Path, find: Find<'_>) -> Result<Image> {
        Image::read(file, part, path, find, None).map_err(|error| {
            // One of its bases may be the one that is named.
            let is_named = error.to_string().starts_with(&*path.to_string_lossy());
            if is_named {
                error
            } else {
                error.within(path.display())
            }
        })
    }

    /// `expected`: the number of a base, and what its chain is below. They are compared before the next base is looked
    /// at, as a hostile chain may go round for ever.
    fn read(
        file: &File,
        part: Range<u64>,
        path: &Path,
        find: Find<'_>,
        expected: Option<(u64, u64)>,
    ) -> Result<Image> {
        let content = FileContent::of(file, part, path)?;
        let header = Header::read(file, &content, path)?;
        let within = |error: Error| error.within(path.display());
        let table = read_table(file, &content, &header, path)?;
        let found = table.as_ref().map(|(table, ..)| (table.number, table.chain));
        let fits = |(number, below): (u64, u64)| {
            found.is_some_and(|found| found.0 == number && found.1 < below)
        };
        if expected.is_some_and(|expected| !fits(expected)) {
            return Err(within(corrupt(
                "it is another checkpoint than its deltas were taken from",
            )));
        }
        let Some(table) = table else {
            return Ok(Image { content, header, table: None });
        };
        let (table, region, data) = table;
        let Some(base) = &table.needed() else {
            return Ok(Image { content, header: header.without(REGION), table: Some(table) });
        };
        let about = format!("it is a delta of version {}", base.version);
        let stored = find(base).map_err(|error| within(error.within(&about)))?;
        let below = (base.number, table.chain);
        let (of_base, from) = (&stored.file, &stored.path);
        let image = Image::read(of_base, stored.part.clone(), from, find, Some(below))?;
        let mut header = header.without(REGION);
        let (mut at, mut begin) = (region.offset + data, content.len());
        let mut regions = Vec::new();
        for sparse in &table.regions {
            if image.header.region(sparse.id).is_none_or(|below| below.size != sparse.size) {
                let what = format!("{about}, which has no region {} of that size", sparse.id);
                return Err(within(corrupt(what)));
            }
            let added =
                RegionPosition { id: sparse.id, size: sparse.size, decoded: None, offset: begin };
            header.add(added).map_err(within)?;
            regions.push((begin, at, sparse.clone()));
            at += sparse.runs.iter().map(|run| run.end - run.start).sum::<u64>();
            begin = begin.checked_add(sparse.size).ok_or_else(|| {
                within(corrupt("the sizes of its regions are more than a file can hold"))
            })?;
        }
        let layer = Layer { regions, base: Box::new((stored, image)) };
        Ok(Image { content: content.over(layer, begin), header, table: Some(table) })
    }

    /// Compares all that no digest of a whole file proves: the frames of compressed files.
    ///
    /// # Errors
    /// As [`FileContent::check`].
    pub fn check(&self, file: &File, path: &Path) -> Result<()> {
        self.content.check(file, path)
    }
}

/// What a file says about itself, without a look at its base. `None`: it is not of an incremental job.
///
/// # Errors
/// [`ErrorKind::Corrupt`]: it is damaged; else the system's. All name the path.
pub fn table_of(file: &File, part: Range<u64>, path: &Path) -> Result<Option<DeltaTable>> {
    let content = FileContent::of(file, part, path)?;
    let header = Header::read(file, &content, path)?;
    Ok(read_table(file, &content, &header, path)?.map(|(table, ..)| table))
}

fn read_table(
    file: &File,
    content: &FileContent,
    header: &Decoded,
    path: &Path,
) -> Result<Option<(DeltaTable, RegionPosition, u64)>> {
    let Some(region) = header.region(REGION).copied() else { return Ok(None) };
    // An application may have a region of this number, too.
    let mut magic = [0; MAGIC.len()];
    if region.size >= LEN_WITHOUT_BASE {
        content.read_exact_at(file, &mut magic, region.offset, path)?;
    }
    if magic != MAGIC {
        return Ok(None);
    }
    let read = |bytes: &mut [u8], at| content.read_exact_at(file, bytes, region.offset + at, path);
    match DeltaTable::read(region.size, read) {
        Ok((table, data)) => Ok(Some((table, region, data))),
        Err(error) if error.kind() == ErrorKind::Corrupt => Err(error.within(path.display())),
        Err(error) => Err(error),
    }
}

impl Layer {
    /// Fills `bytes` from an offset at or behind the first region; `read` fills from the file.
    pub(crate) fn read_exact_at(
        &self,
        mut bytes: &mut [u8],
        mut offset: u64,
        read: impl Fn(&mut [u8], u64) -> Result<()>,
    ) -> Result<()> {
        let (stored, image) = &*self.base;
        while !bytes.is_empty() {
            let next = self.regions.partition_point(|(begin, ..)| *begin <= offset);
            let found = next.checked_sub(1).and_then(|found| self.regions.get(found));
            let Some((begin, at, sparse)) =
                found.filter(|(begin, _, sparse)| offset - begin < sparse.size)
            else {
                return Err(corrupt("it has fewer bytes"));
            };
            let from = offset - begin;
            let len = (sparse.size - from).min(bytes.len() as u64);
            let (now, rest) = bytes.split_at_mut(len as usize);
            let wanted = from..from + len;
            let is_all = sparse.runs.iter().any(|r| r.start <= from && wanted.end <= r.end);
            if !is_all {
                let below = image.header.region(sparse.id).map_or(0, |below| below.offset);
                image.content.read_exact_at(&stored.file, now, below + from, &stored.path)?;
            }
            let mut at = *at;
            for run in &sparse.runs {
                let part = run.start.max(wanted.start)..run.end.min(wanted.end);
                if part.start < part.end {
                    let into = (part.start - from) as usize..(part.end - from) as usize;
                    read(&mut now[into], at + (part.start - run.start))?;
                }
                at += run.end - run.start;
            }
            (bytes, offset) = (rest, offset + len);
        }
        Ok(())
    }

    /// Compares what the bases have.
    pub(crate) fn check(&self) -> Result<()> {
        let (stored, image) = &*self.base;
        image.check(&stored.file, &stored.path)
    }
}

#[cfg(test)]
#[path = "delta_tests.rs"]
mod tests;
