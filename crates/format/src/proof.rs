//! The proof that a checkpoint file is the one that was written: its identity and a digest of its bytes. It
//! is stored beside the data, as upstream reads no file with any byte behind its data: in an extended
//! attribute ([`NAME`]), which is renamed and removed with the file, and for the parts of an aggregated file
//! behind the offsets in its table.

use std::ffi::CStr;
use std::fs::File;
use std::hash::Hasher as _;
use std::ops::Range;
use std::path::Path;

use twox_hash::XxHash3_64;

use super::checksum::{self, Checksum};
use super::identity::{self, Identity};
use super::names;
use errors::{Error, ErrorKind, Result};
use os::{attributes, files};

/// The name of the extended attribute.
pub const NAME: &CStr = c"user.veloc";

/// The first byte of a proof, the version of this format: without an identity, and with one behind the length.
const FORMATS: [u8; 2] = [1, 2];

/// Bytes of a proof before its digest: format, rank, ranks, version, length.
const FIXED: usize = 1 + 4 + 4 + 4 + 8;

/// The kind of a digest that is not there.
const NO_DIGEST: u8 = 0;

/// Bytes of an encoded digest: the kind, and the digest padded with zeros.
pub const DIGEST_LEN: usize = 1 + checksum::LEN;

/// The digest of the bytes of a checkpoint file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digest {
    /// 64-bit XXH3: as fast as memory; detects damage, not forgery.
    Xxh3(u64),
    /// SHA-256, with `chksum = true`.
    Sha256(Checksum),
}

/// The kinds of digests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// [`Digest::Xxh3`].
    Xxh3,
    /// [`Digest::Sha256`].
    Sha256,
}

/// A digest in progress, of bytes in the order of the file.
#[derive(Clone)]
pub enum DigestHasher {
    /// Of [`Digest::Xxh3`].
    Xxh3(Box<XxHash3_64>),
    /// Of [`Digest::Sha256`].
    Sha256(checksum::ChecksumHasher),
}

impl std::fmt::Debug for DigestHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DigestHasher({:?})", self.sort())
    }
}

impl DigestHasher {
    /// Begins a digest.
    pub fn new(sort: Sort) -> DigestHasher {
        match sort {
            Sort::Xxh3 => DigestHasher::Xxh3(Box::default()),
            Sort::Sha256 => DigestHasher::Sha256(checksum::ChecksumHasher::default()),
        }
    }

    /// The kind of its digest.
    pub fn sort(&self) -> Sort {
        match self {
            DigestHasher::Xxh3(_) => Sort::Xxh3,
            DigestHasher::Sha256(_) => Sort::Sha256,
        }
    }

    /// Adds the next bytes of the file.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            DigestHasher::Xxh3(hasher) => hasher.write(bytes),
            DigestHasher::Sha256(hasher) => hasher.update(bytes),
        }
    }

    /// The digest of all bytes so far.
    pub fn finish(self) -> Digest {
        match self {
            DigestHasher::Xxh3(hasher) => Digest::Xxh3(hasher.finish()),
            DigestHasher::Sha256(hasher) => Digest::Sha256(hasher.finish()),
        }
    }
}

impl Digest {
    /// The digest of bytes in memory.
    pub fn of(sort: Sort, bytes: &[u8]) -> Digest {
        let mut hasher = DigestHasher::new(sort);
        hasher.update(bytes);
        hasher.finish()
    }

    /// The digest of `range` of the open file `file` (`path` in messages). Calls `progress` after each block
    /// with its length.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the file ends before the range does, else the system's, with the path.
    pub fn of_range(
        sort: Sort,
        file: &File,
        range: Range<u64>,
        path: &Path,
        mut progress: impl FnMut(u64),
    ) -> Result<Digest> {
        let mut hasher = DigestHasher::new(sort);
        files::read_through(file, range, path, |block| {
            hasher.update(block);
            progress(block.len() as u64);
        })?;
        Ok(hasher.finish())
    }

    /// The kind of this digest.
    pub fn sort(&self) -> Sort {
        match self {
            Digest::Xxh3(_) => Sort::Xxh3,
            Digest::Sha256(_) => Sort::Sha256,
        }
    }

    /// The digest in [`DIGEST_LEN`] bytes, of which the first is not 0.
    pub fn encode(&self) -> [u8; DIGEST_LEN] {
        let mut bytes = [0; DIGEST_LEN];
        match self {
            Digest::Xxh3(sum) => {
                bytes[0] = 1;
                bytes[1..9].copy_from_slice(&sum.to_le_bytes());
            }
            Digest::Sha256(sum) => {
                bytes[0] = 2;
                bytes[1..].copy_from_slice(sum.as_bytes());
            }
        }
        bytes
    }

    /// The digest at the start of `bytes`, and how many bytes it takes. `None` if there is none.
    fn decode_prefix(bytes: &[u8]) -> Option<(Digest, usize)> {
        let (kind, rest) = bytes.split_first()?;
        match kind {
            1 => {
                let sum = rest.first_chunk::<8>()?;
                Some((Digest::Xxh3(u64::from_le_bytes(*sum)), 9))
            }
            2 => {
                let sum = rest.first_chunk::<{ checksum::LEN }>()?;
                Some((Digest::Sha256(Checksum::from_bytes(*sum)), DIGEST_LEN))
            }
            _ => None,
        }
    }

    /// The digest that [`Digest::encode`] wrote. `None` if it did not write these bytes.
    pub fn decode(bytes: &[u8; DIGEST_LEN]) -> Option<Digest> {
        Digest::decode_prefix(bytes).map(|(digest, _)| digest).filter(|d| d.encode() == *bytes)
    }

    /// The digest in a proof: without padding.
    fn bytes(&self) -> Vec<u8> {
        let len = match self {
            Digest::Xxh3(_) => 9,
            Digest::Sha256(_) => DIGEST_LEN,
        };
        self.encode()[..len].to_vec()
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Digest::Xxh3(sum) => write!(f, "XXH3 {sum:016x}"),
            Digest::Sha256(sum) => write!(f, "SHA-256 {sum}"),
        }
    }
}

/// The identity of a checkpoint file, and the digest of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The name of the checkpoint.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// The rank in file names.
    pub rank: u32,
    /// How many processes the job had; 0 if unknown (`VELOC_Init_single`).
    pub ranks: u32,
    /// The run that made it.
    pub identity: Identity,
    /// Bytes of the file.
    pub len: u64,
    /// Their digest. `None`: of a file of the application's own, which may change it.
    pub digest: Option<Digest>,
}

impl Proof {
    /// The bytes of the attribute; with XXH3 and an identity, 42 and the name.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED + identity::LEN + DIGEST_LEN + self.name.len());
        bytes.push(FORMATS[usize::from(self.identity.is_known())]);
        bytes.extend_from_slice(&self.rank.to_le_bytes());
        bytes.extend_from_slice(&self.ranks.to_le_bytes());
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&self.len.to_le_bytes());
        if self.identity.is_known() {
            bytes.extend_from_slice(&self.identity.encode());
        }
        match self.digest {
            Some(digest) => bytes.extend_from_slice(&digest.bytes()),
            None => bytes.push(NO_DIGEST),
        }
        bytes.extend_from_slice(self.name.as_bytes());
        bytes
    }

    /// Reads the bytes of the attribute.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if these are not a proof that this version of the library can read.
    pub fn decode(bytes: &[u8]) -> Result<Proof> {
        let proof = || {
            let (fixed, rest) = bytes.split_first_chunk::<FIXED>()?;
            let number =
                |at: usize| Some(u32::from_le_bytes(*fixed.get(at..)?.first_chunk::<4>()?));
            let (identity, rest) = match FORMATS.iter().position(|format| *format == fixed[0])? {
                0 => (Identity::UNKNOWN, rest),
                _ => {
                    let (identity, rest) = rest.split_first_chunk::<{ identity::LEN }>()?;
                    (Some(Identity::decode(identity)).filter(|it| it.is_known())?, rest)
                }
            };
            let (digest, taken) = match rest.first() {
                Some(&NO_DIGEST) => (None, 1),
                _ => Digest::decode_prefix(rest).map(|(digest, taken)| (Some(digest), taken))?,
            };
            let name = std::str::from_utf8(rest.get(taken..)?).ok()?;
            // Messages contain the name: control characters in it could change what a terminal shows.
            names::validate_name(name).is_ok().then_some(())?;
            Some(Proof {
                name: name.to_owned(),
                version: number(9)? as i32,
                rank: number(1)?,
                ranks: number(5)?,
                identity,
                len: u64::from_le_bytes(*fixed.get(13..)?.first_chunk::<8>()?),
                digest,
            })
        };
        proof().ok_or_else(|| {
            let what = format!("its proof ({NAME:?}, {} bytes) cannot be read", bytes.len());
            Error::new(ErrorKind::Corrupt, what)
        })
    }

    /// The proof of the open file `file` (`path` in messages). `None` if it has none, like upstream's files
    /// and files on a file system without extended attributes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] as for [`Proof::decode`]; else the system's. Both name the path.
    pub fn read(file: &File, path: &Path) -> Result<Option<Proof>> {
        let bytes = attributes::get(file, NAME, path)?;
        let proof = bytes.map(|bytes| Proof::decode(&bytes)).transpose();
        proof.map_err(|error| error.within(path.display()))
    }

    /// The file's identity in words.
    pub fn said(&self) -> String {
        let Proof { name, version, rank, ranks, len, .. } = self;
        let of = match ranks {
            0 => String::new(),
            ranks => format!(" of {ranks}"),
        };
        format!("\"{name}\" version {version} of rank {rank}{of}, {len} bytes")
    }

    /// Whether this is the proof of that checkpoint file. The number of ranks is not compared, as the file's
    /// name does not have it.
    pub fn is_of(&self, name: &str, version: i32, rank: u32, len: u64) -> bool {
        (&*self.name, self.version, self.rank, self.len) == (name, version, rank, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn digest() -> impl Strategy<Value = Digest> {
        prop_oneof![
            any::<u64>().prop_map(Digest::Xxh3),
            any::<[u8; 32]>().prop_map(|sum| Digest::Sha256(Checksum::from_bytes(sum))),
        ]
    }

    proptest! {
        /// Catches a field that is lost, or read at the wrong place.
        #[test]
        fn what_is_written_is_read(
            name in "[a-zA-Z0-9_.]{1,127}", version: i32, rank: u32, ranks: u32, len: u64,
            digest in prop::option::of(digest()), run in 0..3u64, generation: u32,
        ) {
            let generation = if run == 0 { 0 } else { generation };
            let identity = Identity { run, generation };
            let proof = Proof { name, version, rank, ranks, identity, len, digest };
            prop_assert_eq!(Proof::decode(&proof.encode()), Ok(proof.clone()));
            prop_assert_eq!(digest.and_then(|of| Digest::decode(&of.encode())), digest);
        }

        /// Catches a panic, and a proof of another version that is accepted.
        #[test]
        fn any_bytes_are_a_proof_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Ok(proof) = Proof::decode(&bytes) {
                prop_assert_eq!(proof.encode(), bytes);
            }
        }
    }

    /// Catches a name with control characters, which a warning would print on the terminal.
    #[test]
    fn what_has_no_name_is_no_proof() {
        let digest = Some(Digest::of(Sort::Xxh3, b"abc"));
        for name in ["", "x\x1b[2J", "a\nb", "a/b"] {
            let name = name.to_owned();
            let identity = Identity::UNKNOWN;
            let proof = Proof { name, version: 1, rank: 2, ranks: 3, identity, len: 3, digest };
            assert!(Proof::decode(&proof.encode()).is_err(), "{proof:?}");
        }
    }

    /// It must fit into an inode of 256 bytes; otherwise each file would need another block.
    #[test]
    fn a_proof_is_short() {
        let digest = Some(Digest::of(Sort::Xxh3, b"abc"));
        let name = "wavefield".to_owned();
        let identity = Identity { run: 7, generation: 1 };
        let proof = Proof { name, version: 1, rank: 2, ranks: 3, identity, len: 3, digest };
        assert_eq!(proof.encode().len(), 51);
    }

    /// The values of XXH3's own description, so that later versions accept the proofs of these files.
    #[test]
    fn digests_are_the_known_ones() {
        assert_eq!(Digest::of(Sort::Xxh3, b""), Digest::Xxh3(0x2d06_8005_38d3_94c2));
        let mut pieces = DigestHasher::new(Sort::Xxh3);
        let bytes: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
        bytes.chunks(777).for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.finish(), Digest::of(Sort::Xxh3, &bytes));
    }
}
