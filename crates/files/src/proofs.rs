//! What proves that a file is the one that was written: each file gets it before its name.

use std::fs::File;
use std::num::NonZero;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;

use super::hashing;
use super::output::Output;
use super::places::Places;
use super::sums::Sums;
use super::warnings::Warnings;
use config::{Compress, ProofPolicy as Setting};
use errors::Result;
use format::frames::{Codec, Compressor};
use format::identity::Identity;
use format::proof::{self, Digest, Proof, Sort};
use os::{attributes, files};

/// The most threads that compress one file.
const MOST_COMPRESSING: usize = 4;

/// The proofs that a process's files get.
#[derive(Debug)]
pub struct Proofs {
    places: Arc<Places>,
    warnings: Arc<Warnings>,
    sums: Arc<Sums>,
    /// How many processes the job has; 0: not known.
    ranks: u32,
    proof: Setting,
    compress: Compress,
    /// Files may have changes alone.
    incremental: bool,
}

impl Proofs {
    pub(super) fn new(
        (places, warnings, sums): (Arc<Places>, Arc<Warnings>, Arc<Sums>),
        ranks: u32,
        (proof, compress, incremental): (Setting, Compress, bool),
    ) -> Proofs {
        Proofs { places, warnings, sums, ranks, proof, compress, incremental }
    }

    /// The kind of digest that files get. SHA-256 proves as well as XXH3: nothing is hashed twice.
    pub fn digest(&self) -> Option<Sort> {
        match (self.sums.keeps_checksums(), self.proof) {
            (true, _) => Some(Sort::Sha256),
            (false, Setting::Off) => None,
            (false, Setting::Check | Setting::Accept) => Some(Sort::Xxh3),
        }
    }

    /// What compresses a file that a worker writes, if the configuration asks for it. Half of the processors are
    /// the application's.
    pub fn compressor(&self) -> Option<Compressor> {
        let codec = match self.compress {
            Compress::None => return None,
            Compress::Lz4 => Codec::Lz4,
            Compress::Zstd(level) => Codec::Zstd(level),
        };
        let processors = available_parallelism().map_or(1, NonZero::get);
        Some(Compressor::new(codec, (processors / 2).clamp(1, MOST_COMPRESSING)))
    }

    /// Whether the bytes of a file would have to be compressed, or compared, once more for another one.
    pub(super) fn costs_twice(&self) -> bool {
        self.compress != Compress::None || self.incremental
    }

    /// Gives a complete file that still has its temporary name its proof.
    pub(super) fn prove(&self, output: &Output, name: &str, version: i32, identity: Identity) {
        let Some(digest) = output.digest() else { return };
        let whole = (output.length(), Some(digest), identity);
        self.put_proof(&output.file, &output.temporary, name, version, whole);
    }

    /// Gives a file of this length and digest, made by this run, its proof.
    pub(super) fn put_proof(
        &self,
        file: &File,
        path: &Path,
        name: &str,
        version: i32,
        (len, digest, identity): (u64, Option<Digest>, Identity),
    ) {
        if self.proof == Setting::Off {
            return;
        }
        let (rank, ranks) = (self.places.rank(), self.ranks);
        let proof = Proof { name: name.to_owned(), version, rank, ranks, identity, len, digest };
        let kept = attributes::set(file, proof::NAME, &proof.encode());
        self.without_proof(path, kept);
    }

    /// Copies the proof of a file to its copy, which gets the name `copy`.
    pub(super) fn copy_proof(&self, from: (&File, &Path), (to, copy): (&File, &Path)) {
        self.without_proof(copy, attributes::copy(from, to, proof::NAME));
    }

    /// A file whose proof could not be `kept` is as good as one of upstream's. Said once for each directory and reason.
    fn without_proof(&self, path: &Path, kept: Result<()>) {
        if let Err(error) = kept {
            let directory = path.parent().unwrap_or(path).display();
            self.warnings.once(format!(
                "{directory}: {error}, so files there have no proof, and damage goes unnoticed unless chksum = true \
                 keeps checksums in meta"
            ));
        }
    }

    /// Says which run made a file of the application's own, which may change it.
    pub(super) fn prove_routed(
        &self,
        file: &File,
        path: &Path,
        name: &str,
        version: i32,
        identity: Identity,
    ) -> Result<()> {
        if !identity.is_known() {
            return Ok(());
        }
        let len = files::len(file, path)?;
        self.put_proof(file, path, name, version, (len, None, identity));
        Ok(())
    }

    /// Hashes a file that is complete, and gives it its proof.
    pub(super) fn prove_whole(
        &self,
        file: &File,
        path: &Path,
        name: &str,
        version: i32,
        identity: Identity,
    ) -> Result<()> {
        let Some(sort) = self.digest() else { return Ok(()) };
        let len = files::len(file, path)?;
        let digest = hashing::of_range(sort, file, 0..len, path, || Ok(()))?;
        self.put_proof(file, path, name, version, (len, Some(digest), identity));
        Ok(())
    }
}
