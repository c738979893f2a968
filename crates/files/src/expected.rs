//! Whether the bytes of a copy are what they should be: by the proof that each copy has, and with
//! `chksum = true` by upstream's checksum, which all copies of a version share.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::hashing;
use super::opened::Opened;
use super::places::Places;
use super::proven::{Proven, Stamp};
use super::sums::Sums;
use super::warnings::Warnings;
use config::ProofPolicy as Setting;
use errors::{Error, ErrorKind, Result};
use format::checksum::Checksum;
use format::names;
use format::proof::{Digest, Proof, Sort};
use format::subarray;
use os::{files, memory};

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
pub(super) struct ExpectedDigest {
    pub(super) digest: Digest,
    /// The file of the checksum that says so, where it is not the copy's own proof.
    kept_in: Option<PathBuf>,
}

/// The comparison of copies with what they should be.
#[derive(Debug)]
pub struct Checks {
    places: Arc<Places>,
    warnings: Arc<Warnings>,
    sums: Arc<Sums>,
    proven: Arc<Proven>,
    /// How many processes the job has; 0: not known.
    ranks: u32,
    proof: Setting,
}

/// Whether a copy was refused because it does not fit.
fn is_unfit(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::OtherJob)
}

/// Refuses a checkpoint without a proof that would take hours to read for nothing: one that is much
/// longer than the memory that it came from, in a file that is mostly holes.
///
/// # Errors
/// [`ErrorKind::Corrupt`], with what is stored of how many bytes; else the system's. Both name the path.
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
        ErrorKind::Corrupt,
        format!(
            "{}: of its {len} bytes only {stored} are stored, and the machine has {memory} of memory: it is \
             no checkpoint",
            path.display()
        ),
    ))
}

impl Checks {
    pub(super) fn new(
        (places, warnings, sums): (Arc<Places>, Arc<Warnings>, Arc<Sums>),
        proven: Arc<Proven>,
        ranks: u32,
        proof: Setting,
    ) -> Checks {
        Checks { places, warnings, sums, proven, ranks, proof }
    }

    /// The digest that a copy of this rank's checkpoint should have. `None`: nothing says so.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the proof is of another checkpoint or cannot be read, or if the
    /// checksum's file holds none; else the system's.
    pub(super) fn expected(
        &self,
        opened: &Opened,
        name: &str,
        version: i32,
    ) -> Result<(Option<ExpectedDigest>, Evidence)> {
        let sums = self.sums.kept();
        let file = sums.map(|_| names::checkpoint_file(name, self.places.rank(), version));
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
                Ok((Some(ExpectedDigest { digest, kept_in: None }), evidence))
            }
            (None, kept) => {
                let known = kept?.flatten().zip(sums.map(|sums| sums.path(&file)));
                refuse_holes(&opened.file, &opened.part, &opened.path)?;
                let expected = known.map(|(sum, path)| {
                    let kept_in = Some(path);
                    ExpectedDigest { digest: Digest::Sha256(sum), kept_in }
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
        let Some(sums) = self.sums.kept() else {
            return Ok(None);
        };
        let what = format!(
            "{}: there is neither {} nor a proof to compare it with (chksum = false restores it, and so does proof = \
             accept)",
            opened.path.display(),
            sums.path(file).display()
        );
        Err(Error::new(ErrorKind::Corrupt, what))
    }

    /// Checks that a proof is of that checkpoint.
    fn fitting(&self, proof: Proof, opened: &Opened, name: &str, version: i32) -> Result<Proof> {
        let len = opened.part.end - opened.part.start;
        if !proof.is_of(name, version, self.places.rank(), len) {
            let is = proof.said();
            let is = format!("its proof says {is}");
            let not =
                Proof { name: name.to_owned(), version, rank: self.places.rank(), len, ..proof }
                    .said();
            return Err(self.unfit(opened, format!("{is}, where {not} should be")));
        }
        if self.ranks > 0 && proof.ranks > 0 && proof.ranks != self.ranks {
            let cut = opened.header.region(subarray::REGION);
            if cut.is_some() && self.proof == Setting::Accept {
                // Its bytes are compared; whose part it is, is looked at later.
                return Ok(proof);
            }
            let then = match cut {
                Some(_) => "it puts their arrays together from all files in persistent, if it says which parts it has \
                     (VELOC_Mem_decompose)",
                None => "they are neither restored nor replaced (proof = accept does both)",
            };
            return Err(Error::new(
                ErrorKind::OtherJob,
                // The text is the same for all versions, so that it is printed once.
                format!(
                    "the checkpoints of \"{name}\" are of a job of {} ranks, and this one has {}: {then}",
                    proof.ranks, self.ranks
                ),
            ));
        }
        Ok(proof)
    }

    fn unfit(&self, opened: &Opened, why: String) -> Error {
        Error::new(
            ErrorKind::Corrupt,
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
                self.warnings.once(format!("{error}: restored all the same"));
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
        expected: &ExpectedDigest,
    ) -> Result<std::result::Result<Stamp, Stamp>> {
        let stamp = Stamp::of(&opened.file, &opened.path, expected.digest)?;
        Ok(if self.proven.has(&opened.path, &stamp) { Err(stamp) } else { Ok(stamp) })
    }

    /// Compares the digest that was `found` of a copy's bytes. A copy that was not known to be good
    /// yet (`new`) is known from there on.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if it is not the expected digest.
    pub(super) fn compare(
        &self,
        opened: &Opened,
        expected: &ExpectedDigest,
        new: Option<Stamp>,
        found: Digest,
    ) -> Result<()> {
        if found == expected.digest {
            if let Some(stamp) = new {
                self.proven.note(&opened.path, stamp);
            }
            return Ok(());
        }
        let ExpectedDigest { digest, kept_in } = expected;
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

    /// Whether the file at `path` has this length and this checksum. It is read unless that is
    /// known; an error of `go_on` ends the reading.
    ///
    /// # Errors
    /// As [`files::open`]; the system's, with the path; those of `go_on`.
    pub fn has_content(
        &self,
        path: &Path,
        len: u64,
        digest: Checksum,
        go_on: impl FnMut() -> Result<()>,
    ) -> Result<bool> {
        let file = files::open(path)?;
        let digest = Digest::Sha256(digest);
        let stamp = Stamp::of(&file, path, digest)?;
        if stamp.len() != len {
            return Ok(false);
        }
        if self.proven.has(path, &stamp) {
            return Ok(true);
        }
        let is_good = hashing::of_range(Sort::Sha256, &file, 0..len, path, go_on)? == digest;
        if is_good {
            self.proven.note(path, stamp);
        }
        Ok(is_good)
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
        let file = names::checkpoint_file(name, self.places.rank(), version);
        let Some(sums) = self.sums.kept() else { return };
        let sum = sums.path(&file);
        match evidence {
            Evidence::Current | Evidence::Missing => {}
            Evidence::Older => self.warnings.once(format!(
                "{path}: it is good, but older than the version whose checksum is in {}; there is no copy of that \
                 version",
                sum.display()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Files;
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
            let path = files.places().scratch_path("x", version).unwrap();
            fs::write(&path, header.encode()).unwrap();
            let file = File::options().write(true).open(&path).unwrap();
            if file.set_len(len + header.encoded_len() as u64).is_err() {
                println!("skipped: the folder for temporary files has no files of {len} bytes");
                return;
            }
            let sum = folder.path().join(format!("m/x-0-{version}.dat.chksum"));
            if version == 1 {
                for files in [&files, &open(""), &open("proof = off\n")] {
                    let error = files.copies().look("x", version).unwrap_err();
                    assert!(error.to_string().contains("are stored"), "{error}");
                }
            }
            fs::write(sum, Checksum::of(b"").as_bytes()).unwrap();
            if version == 2 {
                fs::write(files.places().routed_note("x", version).unwrap(), "/own").unwrap();
            }
            let error = files.copies().look("x", version).unwrap_err();
            assert!(error.to_string().contains("are stored"), "{error}");
        }
    }
}
