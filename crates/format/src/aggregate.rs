//! Upstream's aggregated files (`aggregated = true`): the files of all ranks, concatenated in
//! `<persistent>/<name>-agg-<version>.dat`, and a table of the same name in the directory `meta` with
//! the offset of each.
//!
//! The table is little-endian: an `i64` number of ranks, then per rank the `i64` offset of its first
//! byte. The last part ends with the file. [`Offsets::decode`] accepts only contiguous parts within the
//! file. After the offsets, which is all that upstream reads, the proofs of the parts ([`PartProofs`]) may
//! follow.

use std::fs::File;
use std::ops::Range;
use std::path::Path;

use super::header::Header;
use super::identity::{self, Identity};
use super::names;
use super::proof::{Digest, Proof, DIGEST_LEN};
use errors::{Error, ErrorKind, Result};
use os::files;
use serde::{Deserialize, Serialize};

/// Bytes of a number in the table.
const NUMBER: usize = 8;

/// The least length of a part: the count at the start of every checkpoint file.
const SHORTEST_PART: u64 = 8;

/// Replaces the rank in the file name.
const MARK: &str = "-agg-";

/// The end of the name of every checkpoint file.
const SUFFIX: &str = ".dat";

/// How much of a table is read at a time, in bytes.
const BLOCK: usize = 1 << 20;

/// The most ranks of which proofs are read from a damaged table: its count is not trusted with more
/// memory.
const MOST_RANKS: u64 = 1 << 22;

/// The name of the aggregated file of a checkpoint, and of its table.
pub fn file_name(name: &str, version: i32) -> String {
    format!("{name}{MARK}{version}{SUFFIX}")
}

/// The name and version in the name of an aggregated file. `None` for any name that [`file_name`] would
/// not produce for a valid name and version.
pub fn parse_name(file_name: &str) -> Option<(&str, i32)> {
    let (name, version) = file_name.strip_suffix(SUFFIX)?.split_once(MARK)?;
    names::is_name(name).then_some((name, names::number(version)?))
}

/// Where a process's part of an aggregated file goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AggregatePart {
    /// The part's first byte.
    pub offset: u64,
    /// How many processes have a part.
    pub ranks: u32,
    /// The run that makes it.
    pub identity: Identity,
    /// Tells this file from others of the run.
    pub attempt: u64,
}

impl AggregatePart {
    /// Tells the run from others in names of files.
    pub fn job(&self) -> u32 {
        self.identity.run as u32
    }
}

/// The magic bytes of the proofs: without an identity, and with one behind the name.
const PROOFS: [[u8; NUMBER]; 2] = [*b"VELOCprf", *b"VELOCprg"];

/// The positions of the ranks' parts in an aggregated file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// The start of each part, and the end of the last: never empty.
    bounds: Vec<u64>,
    proofs: Option<PartProofs>,
}

/// The proofs of the parts of an aggregated file: their checkpoint, and the digest of each part that has
/// one. As bytes: `VELOCprg`, the version (`i32`), the length of the name (`u8`), the name, the run that made
/// them ([`identity::LEN`]; without it the first bytes are `VELOCprf`), and [`DIGEST_LEN`] bytes per rank, zeros
/// for a part without a digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartProofs {
    /// The name of the checkpoint.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// The run that made it.
    pub identity: Identity,
    /// By rank.
    pub digests: Vec<Option<Digest>>,
}

impl PartProofs {
    /// Bytes before the name.
    const FIXED: usize = NUMBER + 4 + 1;

    fn encode(&self) -> Vec<u8> {
        let name = self.name.as_bytes();
        let len = u8::try_from(name.len()).unwrap_or(u8::MAX);
        let mut bytes = PROOFS[usize::from(self.identity.is_known())].to_vec();
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.push(len);
        bytes.extend_from_slice(&name[..usize::from(len)]);
        if self.identity.is_known() {
            bytes.extend_from_slice(&self.identity.encode());
        }
        for digest in &self.digests {
            bytes.extend_from_slice(&digest.map_or([0; DIGEST_LEN], |digest| digest.encode()));
        }
        bytes
    }

    /// Reads what follows the offsets of this many ranks.
    fn decode(bytes: &[u8], ranks: usize) -> Result<PartProofs> {
        let proofs = || {
            let (fixed, rest) = bytes.split_first_chunk::<{ PartProofs::FIXED }>()?;
            let (name, rest) = rest.split_at_checked(usize::from(fixed[Self::FIXED - 1]))?;
            let name = std::str::from_utf8(name).ok().filter(|name| names::is_name(name))?;
            let (identity, digests) =
                match PROOFS.iter().position(|magic| fixed.starts_with(magic))? {
                    0 => (Identity::UNKNOWN, rest),
                    _ => {
                        let (identity, digests) = rest.split_first_chunk::<{ identity::LEN }>()?;
                        (Some(Identity::decode(identity)).filter(|it| it.is_known())?, digests)
                    }
                };
            let (digests, behind) = digests.as_chunks::<DIGEST_LEN>();
            (behind.is_empty() && digests.len() == ranks).then_some(())?;
            let one = |bytes: &[u8; DIGEST_LEN]| match Digest::decode(bytes) {
                None if bytes != &[0; DIGEST_LEN] => None,
                digest => Some(digest),
            };
            Some(PartProofs {
                name: name.to_owned(),
                version: i32::from_le_bytes(*fixed[NUMBER..].first_chunk::<4>()?),
                identity,
                digests: digests.iter().map(one).collect::<Option<_>>()?,
            })
        };
        proofs().ok_or_else(|| {
            let len = bytes.len();
            corrupt(format!("the {len} bytes behind the offsets of {ranks} ranks are no proofs"))
        })
    }

    /// Reads the proofs in the table at `path`, ignoring its offsets. `None`: there are none for its
    /// number of ranks.
    fn read(path: &Path) -> Result<Option<PartProofs>> {
        let file = files::open(path)?;
        let len = files::len(&file, path)?;
        let mut prefix = vec![0; NUMBER.min(len as usize)];
        files::read_exact_at(&file, &mut prefix, 0, path)?;
        let end = offsets_end(&prefix, len);
        let ranks = (end / NUMBER as u64).saturating_sub(1);
        if end == len || ranks > MOST_RANKS {
            return Ok(None);
        }
        let mut bytes = vec![0; (len - end) as usize];
        files::read_exact_at(&file, &mut bytes, end, path)?;
        Ok(PartProofs::decode(&bytes, ranks as usize).ok())
    }

    /// The longest proofs of this many ranks, in bytes.
    fn most(ranks: u64) -> u64 {
        let name = u64::from(u8::MAX);
        (Self::FIXED as u64 + name + identity::LEN as u64)
            .saturating_add(ranks.saturating_mul(DIGEST_LEN as u64))
    }
}

impl Offsets {
    /// The offsets of parts of these lengths in bytes, by rank.
    ///
    /// # Errors
    /// A part that is too short for a checkpoint, or more bytes than a file can hold.
    pub fn of_lengths(lengths: &[u64]) -> Result<Offsets> {
        let mut bounds = Vec::with_capacity(lengths.len() + 1);
        let mut end = 0u64;
        bounds.push(end);
        for (rank, len) in lengths.iter().enumerate() {
            if *len < SHORTEST_PART {
                return Err(Error::invalid(format!(
                    "the part of rank {rank} has {len} bytes; a checkpoint has at least \
                     {SHORTEST_PART}"
                )));
            }
            end = end.checked_add(*len).filter(|end| i64::try_from(*end).is_ok()).ok_or_else(
                || {
                    Error::invalid(format!(
                        "with the part of rank {rank} the aggregated file has more than \
                         2^63 - 1 bytes"
                    ))
                },
            )?;
            bounds.push(end);
        }
        Ok(Offsets { bounds, proofs: None })
    }

    /// Adds proofs of the parts.
    pub fn with_proofs(self, proofs: PartProofs) -> Offsets {
        Offsets { proofs: Some(proofs), ..self }
    }

    /// The proof of a rank's part, if there is one.
    pub fn proof(&self, rank: usize) -> Option<Proof> {
        let part = self.part(rank)?;
        let proofs = self.proofs.as_ref()?;
        Some(Proof {
            name: proofs.name.clone(),
            version: proofs.version,
            rank: u32::try_from(rank).ok()?,
            ranks: u32::try_from(self.ranks()).ok()?,
            identity: proofs.identity,
            len: part.end - part.start,
            digest: Some((*proofs.digests.get(rank)?)?),
        })
    }

    /// The number of ranks.
    pub fn ranks(&self) -> usize {
        self.bounds.len() - 1
    }

    /// The byte range of a rank in the aggregated file.
    pub fn part(&self, rank: usize) -> Option<Range<u64>> {
        Some(*self.bounds.get(rank)?..*self.bounds.get(rank.checked_add(1)?)?)
    }

    /// The length of the aggregated file in bytes.
    pub fn file_len(&self) -> u64 {
        self.bounds.last().copied().unwrap_or(0)
    }

    /// The bytes of the table.
    pub fn encode(&self) -> Vec<u8> {
        let ranks = self.ranks();
        let mut bytes = Vec::with_capacity(NUMBER * (1 + ranks));
        bytes.extend_from_slice(&(ranks as i64).to_le_bytes());
        for start in &self.bounds[..ranks] {
            bytes.extend_from_slice(&start.to_le_bytes());
        }
        bytes.extend(self.proofs.iter().flat_map(PartProofs::encode));
        bytes
    }

    /// Decodes the table of an aggregated file of `file_len` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] with the reason: the table's length does not match its number of ranks and
    /// their proofs, or the parts are not contiguous from the file's start to its end.
    pub fn decode(table: &[u8], file_len: u64) -> Result<Offsets> {
        let prefix = &table[..table.len().min(NUMBER)];
        let end = offsets_end(prefix, table.len() as u64) as usize;
        let mut decoder = Decoder::new(prefix, end as u64, file_len)?;
        decoder.push(&table[prefix.len()..end])?;
        decoder.finish(&table[end..])
    }

    /// Reads the table at `path` of an aggregated file of `file_len` bytes, checking each block, so that
    /// a file that is no table does not cost its size in memory.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is no such file; [`ErrorKind::Corrupt`] as for [`Offsets::decode`];
    /// else the system's. All name the path.
    pub fn read(path: &Path, file_len: u64) -> Result<Offsets> {
        let within = |error: Error| error.within(path.display());
        let file = files::open(path)?;
        let len = files::len(&file, path)?;
        let mut block = vec![0; NUMBER.min(len as usize)];
        files::read_exact_at(&file, &mut block, 0, path)?;
        let end = offsets_end(&block, len);
        let mut decoder = Decoder::new(&block, end, file_len).map_err(within)?;
        let mut at = block.len() as u64;
        while at < end {
            block.resize((end - at).min(BLOCK as u64) as usize, 0);
            files::read_exact_at(&file, &mut block, at, path)?;
            decoder.push(&block).map_err(within)?;
            at += block.len() as u64;
        }
        // At most what that many ranks, whose number is known by now, can have.
        block.resize((len - end) as usize, 0);
        files::read_exact_at(&file, &mut block, end, path)?;
        decoder.finish(&block).map_err(within)
    }
}

/// The end of the offsets in a table of `len` bytes that begins with `prefix`: where proofs may begin,
/// or the end of the table.
fn offsets_end(prefix: &[u8], len: u64) -> u64 {
    let Some(ranks) = <[u8; NUMBER]>::try_from(prefix).ok().map(u64::from_le_bytes) else {
        return len;
    };
    let end = ranks.checked_add(1).and_then(|numbers| numbers.checked_mul(NUMBER as u64));
    let fits =
        |end: &u64| len.checked_sub(*end).is_some_and(|more| more <= PartProofs::most(ranks));
    end.filter(fits).unwrap_or(len)
}

impl Offsets {
    /// Finds the parts of the aggregated file `file` of `file_len` bytes (`path` in messages) by the
    /// table at `table` or, if that is missing or damaged, by their headers; then it also returns a
    /// warning.
    ///
    /// # Errors
    /// Those of [`Offsets::read`]; those of [`Offsets::walk`], with the table's error.
    pub fn find(
        table: &Path,
        file: &File,
        file_len: u64,
        path: &Path,
    ) -> Result<(Offsets, Option<String>)> {
        match files::check_beside(table, path).and_then(|()| Offsets::read(table, file_len)) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => {
                let wrong = match error.kind() {
                    ErrorKind::NotFound => format!("its table {} is missing", table.display()),
                    _ => format!("its table is of no use: {error}"),
                };
                let offsets = Offsets::walk(file, file_len, path);
                let offsets = offsets.map_err(|error| error.followed_by(&wrong))?;
                let found = format!(
                    "{}: {wrong}; its {} parts are found by their headers",
                    path.display(),
                    offsets.ranks()
                );
                // The file may be the wrong one, so the table's proofs still count.
                let proofs =
                    files::check_beside(table, path).and_then(|()| PartProofs::read(table));
                Ok((Offsets { proofs: proofs.ok().flatten(), ..offsets }, Some(found)))
            }
            read => Ok((read?, None)),
        }
    }

    /// Finds the parts of an aggregated file of `file_len` bytes without a table: each part's header
    /// tells where the next one begins, and the last must end with the file. `path` is for messages.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the headers do not lead from the file's start to its end, or one has no
    /// regions, like bytes that were never written; else the system's. All name the path.
    pub fn walk(file: &File, file_len: u64, path: &Path) -> Result<Offsets> {
        let mut bounds = vec![0];
        let mut end = 0;
        while end < file_len || bounds.len() == 1 {
            let rank = bounds.len() - 1;
            let part = Header::extent(file, end..file_len, path);
            end += part.map_err(|error| error.within(format!("the part of rank {rank}")))?;
            bounds.push(end);
        }
        Ok(Offsets { bounds, proofs: None })
    }
}

/// Decodes a table block by block.
struct Decoder {
    file_len: u64,
    bounds: Vec<u64>,
}

impl Decoder {
    /// Starts with the number of ranks in a table of `table_len` bytes.
    fn new(prefix: &[u8], table_len: u64, file_len: u64) -> Result<Decoder> {
        let Ok(ranks) = <[u8; NUMBER]>::try_from(prefix) else {
            return Err(corrupt(format!(
                "the table has {table_len} bytes; the number of ranks alone takes {NUMBER}"
            )));
        };
        let ranks = i64::from_le_bytes(ranks);
        // Computed from the actual length: a hostile number would overflow.
        let entries = table_len.saturating_sub(NUMBER as u64) / NUMBER as u64;
        if !table_len.is_multiple_of(NUMBER as u64)
            || u64::try_from(ranks) != Ok(entries)
            || ranks == 0
        {
            return Err(corrupt(format!(
                "the table counts {ranks} ranks, but has {table_len} bytes"
            )));
        }
        Ok(Decoder { file_len, bounds: Vec::new() })
    }

    /// Decodes whole offsets.
    fn push(&mut self, bytes: &[u8]) -> Result<()> {
        for number in bytes.chunks_exact(NUMBER) {
            let mut start = [0; NUMBER];
            start.copy_from_slice(number);
            let (start, rank) = (i64::from_le_bytes(start), self.bounds.len());
            let least = self.bounds.last().map_or(0, |before| before + SHORTEST_PART);
            // The first part is at the start; each part, also the last, has room for a header.
            let fits = u64::try_from(start).ok().filter(|start| {
                let within = self.file_len.checked_sub(SHORTEST_PART);
                (rank > 0 || *start == 0) && *start >= least && Some(*start) <= within
            });
            let Some(start) = fits else {
                return Err(corrupt(format!(
                    "the part of rank {rank} cannot begin at byte {start} of an aggregated file of \
                     {} bytes, behind the {least} bytes before it",
                    self.file_len
                )));
            };
            self.bounds.push(start);
        }
        Ok(())
    }

    /// Ends with what follows the offsets, if anything.
    fn finish(mut self, behind: &[u8]) -> Result<Offsets> {
        let ranks = self.bounds.len();
        self.bounds.push(self.file_len);
        let proofs = (!behind.is_empty()).then(|| PartProofs::decode(behind, ranks)).transpose()?;
        Ok(Offsets { bounds: self.bounds, proofs })
    }
}

fn corrupt(message: String) -> Error {
    Error::new(ErrorKind::Corrupt, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Written by hand from the format's description: parts of 20, 300 and 8 bytes.
    const GOLDEN: [u8; 32] = [
        3, 0, 0, 0, 0, 0, 0, 0, // three ranks
        0, 0, 0, 0, 0, 0, 0, 0, // rank 0 at the start
        20, 0, 0, 0, 0, 0, 0, 0, // rank 1 at 20
        0x40, 1, 0, 0, 0, 0, 0, 0, // rank 2 at 320
    ];

    #[test]
    fn golden_bytes() {
        let offsets = Offsets::of_lengths(&[20, 300, 8]).unwrap();
        assert_eq!(offsets.encode(), GOLDEN);
        assert_eq!(offsets.file_len(), 328);
        let decoded = Offsets::decode(&GOLDEN, 328).unwrap();
        assert_eq!(decoded, offsets);
        assert_eq!(decoded.ranks(), 3);
        assert_eq!(decoded.part(0), Some(0..20));
        assert_eq!(decoded.part(1), Some(20..320));
        assert_eq!(decoded.part(2), Some(320..328));
        assert_eq!((decoded.part(3), decoded.part(usize::MAX)), (None, None));
        // The last part extends to the end of the file.
        assert_eq!(Offsets::decode(&GOLDEN, 1 << 40).unwrap().part(2), Some(320..1 << 40));
    }

    /// Catches a file with other parts that is accepted as upstream's, without a proof, because the
    /// table does not fit it.
    #[test]
    fn a_table_that_does_not_fit_still_proves() {
        let folder = tempfile::tempdir().unwrap();
        let [path, beside] = ["data", "table"].map(|name| folder.path().join(name));
        let part = |len: u64| Header::new(vec![(1, len)]).unwrap().encode();
        let of = |len: u64| [part(len), vec![7; len as usize]].concat();
        std::fs::write(&path, [of(10), of(30)].concat()).unwrap();
        let digests = vec![Some(Digest::Xxh3(5)); 2];
        let identity = Identity { run: 9, generation: 2 };
        let proofs = PartProofs { name: "x".to_owned(), version: 3, identity, digests };
        let offsets = Offsets::of_lengths(&[500, 600]).unwrap().with_proofs(proofs);
        std::fs::write(&beside, offsets.encode()).unwrap();
        let file = files::open(&path).unwrap();
        let len = files::len(&file, &path).unwrap();
        let (found, said) = Offsets::find(&beside, &file, len, &path).unwrap();
        assert!(said.is_some());
        assert_eq!(
            (found.ranks(), found.proof(1).and_then(|proof| proof.digest)),
            (2, Some(Digest::Xxh3(5)))
        );
    }

    fn table(numbers: &[i64]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
    }

    #[test]
    fn hostile_tables_are_refused() {
        for (table, file_len, part) in [
            (vec![], 100, "takes 8"),
            (vec![1, 0, 0], 100, "takes 8"),
            (table(&[0]), 0, "counts 0 ranks"),
            (table(&[1 << 60, 0]), 100, "counts 1152921504606846976 ranks"),
            (table(&[-1, 0]), 100, "counts -1 ranks"),
            (table(&[2, 0]), 100, "counts 2 ranks"),
            (table(&[1, 0, 20]), 100, "8 bytes behind the offsets of 1 ranks"),
            (table(&[1, 0])[..15].to_vec(), 100, "has 15 bytes"),
            (table(&[1, 8]), 100, "rank 0 cannot begin at byte 8"),
            (table(&[2, 0, -20]), 100, "rank 1 cannot begin at byte -20"),
            (table(&[2, 0, 0]), 100, "rank 1 cannot begin at byte 0"),
            (table(&[3, 0, 50, 20]), 100, "rank 2 cannot begin at byte 20"),
            (table(&[2, 0, 93]), 100, "rank 1 cannot begin at byte 93"),
            (table(&[2, 0, i64::MAX]), 100, "rank 1 cannot begin"),
            (table(&[1, 0]), 7, "rank 0 cannot begin at byte 0 of"),
        ] {
            let error = Offsets::decode(&table, file_len).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains(part), "{error} lacks {part:?}");
        }
        assert!(Offsets::of_lengths(&[20, 7]).is_err());
        assert!(Offsets::of_lengths(&[1 << 62, 1 << 62]).is_err());
    }

    #[test]
    fn tables_in_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file_name("wave", 7));
        assert_eq!(Offsets::read(&path, 328).unwrap_err().kind(), ErrorKind::NotFound);
        std::fs::write(&path, GOLDEN).unwrap();
        assert_eq!(Offsets::read(&path, 328).unwrap(), Offsets::decode(&GOLDEN, 328).unwrap());
        // More than one block.
        let many = Offsets::of_lengths(&vec![9; BLOCK / NUMBER + 3]).unwrap();
        std::fs::write(&path, many.encode()).unwrap();
        assert_eq!(Offsets::read(&path, many.file_len()).unwrap(), many);
        // A file of zeros that only looks large is rejected in its first block.
        let file = std::fs::File::create(&path).unwrap();
        let ranks = 1i64 << 34;
        std::os::unix::fs::FileExt::write_all_at(&file, &ranks.to_le_bytes(), 0).unwrap();
        file.set_len(8 + (ranks as u64) * 8).unwrap();
        let error = Offsets::read(&path, 1 << 50).unwrap_err().to_string();
        assert!(error.contains("wave-agg-7.dat") && error.contains("rank 1"), "{error}");
        std::fs::write(&path, []).unwrap();
        assert_eq!(Offsets::read(&path, 328).unwrap_err().kind(), ErrorKind::Corrupt);
        assert!(Offsets::read(folder.path(), 328).is_err());
    }

    /// Catches a walk that miscounts regions or bytes or ends too early, and one that takes unwritten
    /// bytes for parts.
    #[test]
    fn parts_without_a_table() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(file_name("wave", 7));
        let part = |sizes: &[u64]| {
            let header = Header::new((0..).zip(sizes.iter().copied()).collect()).unwrap();
            let body = vec![0; sizes.iter().sum::<u64>() as usize];
            [header.encode(), body].concat()
        };
        let walk = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            let file = File::open(&path).unwrap();
            Offsets::walk(&file, bytes.len() as u64, &path)
        };
        let parts = [part(&[5]), part(&[0, 70_000]), part(&vec![3; BLOCK / 12 + 9]), part(&[0])];
        let whole = parts.concat();
        let lengths = parts.each_ref().map(|part| part.len() as u64);
        assert_eq!(walk(&whole).unwrap(), Offsets::of_lengths(&lengths).unwrap());
        let zeros = [&whole[..], &[0; 16]].concat();
        for bytes in [&whole[..whole.len() - 1], &whole[1..], &zeros, &[0; 800], &[], &[1, 2]] {
            let error = walk(bytes).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains("wave-agg-7.dat"), "{error}");
        }
    }

    #[test]
    fn names_of_aggregated_files() {
        assert_eq!(file_name("wave.field", 12), "wave.field-agg-12.dat");
        assert_eq!(parse_name("wave.field-agg-12.dat"), Some(("wave.field", 12)));
        for file in [
            "x-0-7.dat",
            "x-agg-07.dat",
            "x-agg-7.dat.partial",
            "x-agg-99999999999.dat",
            "x-agg--7.dat",
            "-agg-7.dat",
            "x-agg-7",
            "x-y-agg-7.dat",
            "x-agg-agg-7.dat",
            "../x-agg-7.dat",
        ] {
            assert_eq!(parse_name(file), None, "{file}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            lengths in prop::collection::vec(8..1u64 << 40, 1..20), run in 0..2u64,
        ) {
            let plain = Offsets::of_lengths(&lengths).unwrap();
            let decoded = Offsets::decode(&plain.encode(), plain.file_len()).unwrap();
            prop_assert_eq!(&decoded, &plain);
            let digest = |len: &u64| (!len.is_multiple_of(3)).then_some(Digest::Xxh3(*len));
            let digests = lengths.iter().map(digest).collect();
            let identity = Identity { run, generation: run as u32 };
            let proofs = PartProofs { name: "wave".to_owned(), version: 7, identity, digests };
            let offsets = plain.clone().with_proofs(proofs);
            let bytes = offsets.encode();
            prop_assert!(bytes.starts_with(&plain.encode()), "upstream reads these alone");
            let decoded = Offsets::decode(&bytes, offsets.file_len()).unwrap();
            prop_assert_eq!(&decoded, &offsets);
            prop_assert!(Offsets::decode(&bytes[..bytes.len() - 1], offsets.file_len()).is_err());
            for (rank, len) in lengths.iter().enumerate() {
                let proof = decoded.proof(rank);
                prop_assert_eq!(proof.as_ref().and_then(|proof| proof.digest), digest(len));
                prop_assert!(proof.as_ref().is_none_or(|proof| proof.identity == identity));
                let fits = |p: Proof| p.is_of("wave", 7, rank as u32, *len);
                prop_assert!(proof.is_none_or(fits));
            }
            for (rank, len) in lengths.iter().enumerate() {
                let part = decoded.part(rank).unwrap();
                prop_assert_eq!(part.end - part.start, *len);
            }
        }

        #[test]
        fn any_table_is_answered(
            numbers in prop::collection::vec(-20..200i64, 0..6),
            cut in 0..8usize,
            file_len in 0..300u64,
        ) {
            let mut bytes = table(&[&[numbers.len() as i64], &numbers[..]].concat());
            bytes.truncate(bytes.len() - if cut < 7 { 0 } else { cut });
            if let Ok(offsets) = Offsets::decode(&bytes, file_len) {
                // Contiguous parts from the file's start to its end.
                let mut end = 0;
                for rank in 0..offsets.ranks() {
                    let part = offsets.part(rank).unwrap();
                    prop_assert_eq!(part.start, end);
                    prop_assert!(part.end - part.start >= 8);
                    end = part.end;
                }
                prop_assert_eq!(end, file_len);
                prop_assert_eq!(offsets.encode(), bytes);
            }
        }
    }
}
