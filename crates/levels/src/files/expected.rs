//! Whether the bytes of a copy are what they should be: by the proof that each copy has, and with
//! `chksum = true` by upstream's checksum, which all copies of a version share.

use std::fs::File;
use std::num::NonZero;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use super::proven::Stamp;
use super::{hashing, Files, Opened, Output, MOST_COMPRESSING};
use config::{Compress, Proof as Setting};
use errors::{Error, Kind, Result};
use format::frames::{Codec, Compressor};
use format::identity::Identity;
use format::names;
use format::proof::{self, Digest, Proof, Sort};
use os::{attributes, files, memory};

/// The bytes of a block, by which the system counts.
const BLOCK: u64 = 512;

/// What a copy can be compared with: copies with less are tried later (`chksum = true`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Evidence {
    /// Its bytes can be compared with its proof or with the checksum of the version.
    Current,
    /// Its bytes can be compared, but the checksum of the version is another one: the copy is from
    /// before the version was taken again.
    Older,
    /// There is nothing to compare the copy with.
    Missing,
}

/// The digest that the bytes of a copy should have.
#[derive(Clone, Debug)]
pub(super) struct Expected {
    pub(super) digest: Digest,
    /// The file of the checksum that says so, where it is not the copy's own proof.
    kept_in: Option<PathBuf>,
}

impl Files {
    /// The kind of digest that files get. SHA-256 proves as well as XXH3: nothing is hashed twice.
    pub fn digest(&self) -> Option<Sort> {
        match (self.keeps_checksums(), self.proof) {
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

    /// Whether upstream's checksums are kept (`chksum = true`).
    pub(super) fn keeps_checksums(&self) -> bool {
        self.checksums.as_ref().is_some_and(|sums| sums.are_kept())
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
        let (rank, ranks) = (self.rank, self.ranks);
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
            self.warn_once(format!(
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

    /// The digest that a copy of this rank's checkpoint should have. `None`: nothing says so.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] if the proof is of another checkpoint or cannot be read, or if the
    /// checksum's file holds none; else the system's.
    pub(super) fn expected(
        &self,
        opened: &Opened,
        name: &str,
        version: i32,
    ) -> Result<(Option<Expected>, Evidence)> {
        let sums = self.checksums.as_ref().filter(|sums| sums.are_kept());
        let file = sums.map(|_| names::checkpoint_file(name, self.rank, version));
        let file = file.unwrap_or_default();
        let sums = sums.filter(|sums| sums.counts(&file, &opened.path));
        let kept = sums.map(|sums| sums.get(&file)).transpose();
        let proof = match self.proof {
            Setting::Off => None,
            Setting::Check | Setting::Accept => {
                let proof = opened.proof().and_then(|proof| match proof {
                    Some(proof) => self.fitting(proof, opened, name, version).map(Some),
                    None => Ok(None),
                });
                self.accepted(proof)?
            }
        };
        match (proof.and_then(|proof| proof.digest), kept) {
            (Some(digest), kept) => {
                let of_version = kept.ok().flatten().flatten().map(Digest::Sha256);
                let older = of_version.is_some_and(|of_version| of_version != digest);
                let evidence = if older { Evidence::Older } else { Evidence::Current };
                Ok((Some(Expected { digest, kept_in: None }), evidence))
            }
            (None, kept) => {
                let known = kept?.flatten().zip(sums.map(|sums| sums.path(&file)));
                refuse_holes(&opened.file, &opened.part, &opened.path)?;
                let expected = known.map(|(sum, path)| {
                    let kept_in = Some(path);
                    Expected { digest: Digest::Sha256(sum), kept_in }
                });
                let Some(expected) = expected else {
                    return self
                        .accepted(self.missing(opened, &file))
                        .map(|_| (None, Evidence::Missing));
                };
                Ok((Some(expected), Evidence::Current))
            }
        }
    }

    /// Where checksums are kept, a copy that nothing can be compared with is refused, as VELOC does.
    fn missing(&self, opened: &Opened, file: &str) -> Result<Option<()>> {
        let Some(sums) = self.checksums.as_ref().filter(|sums| sums.are_kept()) else {
            return Ok(None);
        };
        let what = format!(
            "{}: there is neither {} nor a proof to compare it with (chksum = false restores it, and so does proof = \
             accept)",
            opened.path.display(),
            sums.path(file).display()
        );
        Err(Error::new(Kind::Corrupt, what))
    }

    /// Checks that a proof is of that checkpoint.
    fn fitting(&self, proof: Proof, opened: &Opened, name: &str, version: i32) -> Result<Proof> {
        let len = opened.part.end - opened.part.start;
        if !proof.is_of(name, version, self.rank, len) {
            let is = proof.said();
            let is = format!("its proof says {is}");
            let not =
                Proof { name: name.to_owned(), version, rank: self.rank, len, ..proof }.said();
            return Err(self.unfit(opened, format!("{is}, where {not} should be")));
        }
        if self.ranks > 0 && proof.ranks > 0 && proof.ranks != self.ranks {
            return Err(Error::new(
                Kind::OtherJob,
                // The text is the same for all versions, so that it is printed once.
                format!(
                    "the checkpoints of \"{name}\" are of a job of {} ranks, and this one has {}: they \
                     are neither restored nor replaced (proof = accept does both)",
                    proof.ranks, self.ranks
                ),
            ));
        }
        Ok(proof)
    }

    fn unfit(&self, opened: &Opened, why: String) -> Error {
        Error::new(
            Kind::Corrupt,
            format!(
                "{}: {why}: it is damaged, was exchanged, or another program has replaced it (proof = \
                 accept restores it all the same)",
                opened.path.display()
            ),
        )
    }

    /// With `proof = accept`, a copy that does not fit is warned of once and counts as not proven.
    fn accepted<T>(&self, found: Result<Option<T>>) -> Result<Option<T>> {
        match found {
            Err(error) if self.proof == Setting::Accept && is_unfit(&error) => {
                self.warn_once(format!("{error}: restored all the same"));
                Ok(None)
            }
            found => found,
        }
    }

    /// The stamp of a copy: `Ok` if the copy has still to be read to its end to know that it is
    /// good, `Err` if it was read before and has not changed since. To be asked before it is read.
    pub(super) fn unproven(
        &self,
        opened: &Opened,
        expected: &Expected,
    ) -> Result<std::result::Result<Stamp, Stamp>> {
        let stamp = Stamp::of(&opened.file, &opened.path, expected.digest)?;
        Ok(if self.proven.has(&opened.path, &stamp) { Err(stamp) } else { Ok(stamp) })
    }

    /// Compares the digest that was `found` of a copy's bytes. A copy that was not known to be good
    /// yet (`new`) is known from there on.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] if it is not the expected digest.
    pub(super) fn compare(
        &self,
        opened: &Opened,
        expected: &Expected,
        new: Option<Stamp>,
        found: Digest,
    ) -> Result<()> {
        if found == expected.digest {
            if let Some(stamp) = new {
                self.proven.note(&opened.path, stamp);
            }
            return Ok(());
        }
        let Expected { digest, kept_in } = expected;
        let by = kept_in.as_ref().map_or("its proof".into(), |path| path.to_string_lossy());
        let unfit = self.unfit(opened, format!("its bytes have {found}, but {by} says {digest}"));
        self.accepted::<()>(Err(unfit)).map(drop)
    }

    /// Returns an opened copy if its bytes are what they should be, as far as something says so. An
    /// error of `go_on` ends the comparison.
    pub(super) fn checked(
        &self,
        opened: Opened,
        name: &str,
        version: i32,
        go_on: impl FnMut() -> Result<()>,
    ) -> Result<Opened> {
        let (expected, evidence) = self.expected(&opened, name, version)?;
        if let Some(expected) = expected {
            if let Ok(stamp) = self.unproven(&opened, &expected)? {
                let (sort, part) = (expected.digest.sort(), opened.part.clone());
                let found = hashing::of_range(sort, &opened.file, part, &opened.path, go_on)?;
                self.compare(&opened, &expected, Some(stamp), found)?;
            }
        }
        self.say_how_known(&opened, name, version, evidence);
        Ok(opened)
    }

    /// Where checksums are kept, warns that an older copy is used.
    pub(super) fn say_how_known(
        &self,
        opened: &Opened,
        name: &str,
        version: i32,
        evidence: Evidence,
    ) {
        if evidence == Evidence::Current {
            return;
        }
        let path = opened.path.display();
        let file = names::checkpoint_file(name, self.rank, version);
        let Some(sums) = self.checksums.as_ref().filter(|sums| sums.are_kept()) else { return };
        let sum = sums.path(&file);
        match evidence {
            Evidence::Current | Evidence::Missing => {}
            Evidence::Older => self.warn_once(format!(
                "{path}: it is good, but was taken before the version that {} is of, of which there \
                 is no copy",
                sum.display()
            )),
        }
    }
}

/// Whether a copy was refused because it does not fit.
fn is_unfit(error: &Error) -> bool {
    matches!(error.kind(), Kind::Corrupt | Kind::OtherJob)
}

/// Refuses a checkpoint without a proof that would take hours to read for nothing: one that is much
/// longer than the memory that it came from, in a file that is mostly holes.
///
/// # Errors
/// [`Kind::Corrupt`], with what is stored of how many bytes; else the system's. Both name the path.
pub fn refuse_holes(file: &File, part: &Range<u64>, path: &Path) -> Result<()> {
    let found = file.metadata();
    let found = found.map_err(|e| Error::system(format!("stat {}", path.display()), &e))?;
    let (len, stored) = (found.len(), found.blocks().saturating_mul(BLOCK));
    if stored >= len / 2 {
        return Ok(());
    }
    let memory = memory::machine_total().unwrap_or(u64::MAX);
    if part.end.saturating_sub(part.start) / 4 <= memory {
        return Ok(());
    }
    Err(Error::new(
        Kind::Corrupt,
        format!(
            "{}: of its {len} bytes only {stored} are stored, and the machine has {memory} of memory: it is \
             no checkpoint",
            path.display()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;
    use format::checksum::Checksum;
    use format::header::Header;
    use std::fs;

    /// A header that asks for hours, and a file of the application's own, which has none. Catches a file that is
    /// hashed to its end because it has a checksum, and one that a restart is offered because it has none.
    #[test]
    fn what_is_mostly_holes_is_not_hashed() {
        let folder = tempfile::tempdir().unwrap();
        let text = "mode = sync\nscratch = DIR/s\nmeta = DIR/m\n";
        let text = text.replace("DIR", &folder.path().display().to_string());
        let open = |keys: &str| {
            let (config, _) = Config::from_text(&(text.clone() + keys), |_| None).unwrap();
            Files::open(&config, 0).unwrap()
        };
        let files = open("chksum = true\n");
        let len = 5 * memory::machine_total().unwrap();
        let header = Header::new(vec![(0, len)]).unwrap();
        for version in [1, 2] {
            let path = files.scratch_path("x", version).unwrap();
            fs::write(&path, header.encode()).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            if file.set_len(len + header.encoded_len() as u64).is_err() {
                println!("skipped: the folder for temporary files has no files of {len} bytes");
                return;
            }
            let sum = folder.path().join(format!("m/x-0-{version}.dat.chksum"));
            if version == 1 {
                for files in [&files, &open(""), &open("proof = off\n")] {
                    let error = files.look("x", version).unwrap_err();
                    assert!(error.to_string().contains("are stored"), "{error}");
                }
            }
            fs::write(sum, Checksum::of(b"").as_bytes()).unwrap();
            if version == 2 {
                fs::write(files.routed_note("x", version).unwrap(), "/own").unwrap();
            }
            let error = files.look("x", version).unwrap_err();
            assert!(error.to_string().contains("are stored"), "{error}");
        }
    }
}
