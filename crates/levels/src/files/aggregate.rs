//! One persistent file for the processes of a job (`aggregated = true`), in upstream's form.
//!
//! Each process writes its part to a common temporary file and enters it in a second one, the roll.
//! The process that finds the roll complete gives the file its name: it removes the old table and
//! the old file, puts the new table, and the file last, so that a table never stands beside a file
//! of another attempt. Nobody waits for anybody.

use std::fs::File;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::opened::ProvenBy;
use super::{Files, Opened, Output};
use catalog::FileLevel;
use errors::{Error, Kind, Result};
use format::aggregate::{self, AggregatePart, Offsets, Proofs};
use format::frames::Content;
use format::header::Header;
use format::identity::{self, Identity};
use format::names;
use format::proof::{Digest, Proof, DIGEST_LEN};
use os::files;

/// The end of the roll's name. Of a ".roll", which older versions of this library left, the lines are shorter.
pub(super) const ROLL: &str = ".roll2";

/// Bytes of one process's line in the roll: where its part begins, plus 1, how long it is, when it was
/// taken, in nanoseconds since 1970, its digest (zeros: none), and the run that made it.
const LINE: u64 = 24 + DIGEST_LEN as u64 + identity::LEN as u64;

/// The most lines of a roll. A longer file is no roll, and its length must not cost memory.
const MOST_LINES: u64 = 1 << 22;

impl Files {
    /// The aggregated file of a checkpoint and its table, if there is a place for both.
    pub(super) fn aggregated_paths(&self, name: &str, version: i32) -> Option<(PathBuf, PathBuf)> {
        let file = aggregate::file_name(name, version);
        Some((self.persistent.as_ref()?.join(&file), self.meta.as_ref()?.join(file)))
    }

    /// Copies a checkpoint's scratch file to its place in the aggregated file. The last process to
    /// do so completes the file.
    pub(crate) fn persist_part(
        &self,
        name: &str,
        version: i32,
        place: &AggregatePart,
    ) -> Result<u64> {
        let (data, _) = self.places_of(name, version)?;
        let durability = self.persistent_durability();
        let source = self.scratch_path(name, version)?;
        let from = files::open_own(&source)?;
        let taken = from.metadata().and_then(|metadata| metadata.modified()).ok();
        let temporary = common_temporary(&data, "", place);
        let to = files::open_shared(&temporary)?;
        let bytes =
            files::copy_between(&from, &to, place.offset, (&source, &temporary), || Ok(()))?;
        files::finish_write(&to, &temporary, durability)?;
        // The scratch file's proof holds for the part. Damage shows when the part is read.
        let proof = Proof::read(&from, &source).unwrap_or_default();
        let proof = proof.filter(|proof| proof.is_of(name, version, self.rank, bytes));
        let digest = proof.and_then(|proof| proof.digest);
        self.enter_part(name, version, place, &temporary, (bytes, digest, taken))?;
        Ok(bytes)
    }

    /// Writes a part of an aggregated file with `put`, which writes what a scratch file would have.
    pub fn write_part(
        &self,
        name: &str,
        version: i32,
        place: &AggregatePart,
        put: impl FnOnce(&mut Output) -> Result<()>,
    ) -> Result<u64> {
        self.may_change_in(self.persistent.as_deref())?;
        let (data, _) = self.places_of(name, version)?;
        let temporary = common_temporary(&data, "", place);
        let file = files::open_shared(&temporary)?;
        let mut output = Output::within(file, temporary, place.offset, self.digest());
        put(&mut output)?;
        self.seal_straight(&output, name, version, (place.identity, Some(place)))?;
        let written = output.finish();
        let part = (written.len, written.digest, None);
        self.enter_part(name, version, place, &written.temporary, part)?;
        self.persist_checksum(name, version, None, self.persistent_durability())?;
        Ok(written.len)
    }

    /// Enters a part in the roll: it is in its place in the temporary file, with this length and
    /// digest. `taken`: the time of its scratch file, if it has one.
    pub(super) fn enter_part(
        &self,
        name: &str,
        version: i32,
        place: &AggregatePart,
        temporary: &Path,
        (bytes, digest, taken): (u64, Option<Digest>, Option<SystemTime>),
    ) -> Result<()> {
        let (data, table) = self.places_of(name, version)?;
        self.may_change_in(self.persistent.as_deref())?;
        self.may_change_in(self.meta.as_deref())?;
        // A file of this process's own, which an earlier job made from its part or from scratch,
        // would be nearer than the part.
        if let Some(own) = self.persistent_path(name, version) {
            self.let_go(name, version, &own)?;
            files::remove(&own)?;
        }
        self.check_aggregated(name, version, &data)?;
        let taken = self.time_of_part(temporary, taken)?;
        let since = taken.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let roll = common_temporary(&data, ROLL, place);
        let list = files::open_shared(&roll)?;
        let mut line = [0; LINE as usize];
        line[..8].copy_from_slice(&(place.offset + 1).to_le_bytes());
        line[8..16].copy_from_slice(&bytes.to_le_bytes());
        line[16..24].copy_from_slice(&(since.as_nanos() as u64).to_le_bytes());
        if let Some(digest) = digest {
            line[24..][..DIGEST_LEN].copy_from_slice(&digest.encode());
        }
        line[24 + DIGEST_LEN..].copy_from_slice(&place.identity.encode());
        files::write_all_at(&list, &line, u64::from(self.rank) * LINE, &roll)?;
        if let Some((offsets, digests, taken)) = complete(&list, &roll, place.ranks)? {
            let identity = place.identity;
            let proofs = Proofs { name: name.to_owned(), version, identity, digests };
            let offsets = offsets.with_proofs(proofs);
            self.complete_aggregated(&roll, (temporary, taken), &data, &table, &offsets)?;
            self.remove_passed_by(name, version, place)?;
        }
        Ok(())
    }

    /// Gives an aggregated file its name, its table and the time `taken`, unless another process
    /// does so.
    fn complete_aggregated(
        &self,
        roll: &Path,
        (temporary, taken): (&Path, SystemTime),
        data: &Path,
        table: &Path,
        offsets: &Offsets,
    ) -> Result<()> {
        let durability = self.persistent_durability();
        let new_table = self.temporary(table);
        let file = files::create(&new_table)?;
        let written = files::write_all_at(&file, &offsets.encode(), 0, &new_table)
            .and_then(|()| files::finish_write(&file, &new_table, durability));
        // Only one process can rename the roll.
        let claimed = self.temporary(roll);
        let claim = written.and_then(|()| match std::fs::rename(roll, &claimed) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::system(format!("rename {}", roll.display()), &error)),
        });
        if !matches!(claim, Ok(true)) {
            files::remove(&new_table)?;
            return claim.map(|_| ());
        }
        self.stamp_copy(FileLevel::Persistent, temporary, taken);
        // A process that dies in between leaves a whole file or none, never another one's table.
        let named = files::remove(table)
            .and_then(|()| files::remove(data))
            .and_then(|()| files::atomic_replace(&new_table, table, durability))
            .and_then(|()| files::atomic_replace(temporary, data, durability));
        match named {
            Ok(()) => files::remove(&claimed),
            Err(error) => {
                // Renamed back, so that it can be tried again.
                if !temporary.exists() {
                    let _ = std::fs::rename(data, temporary);
                }
                let _ = std::fs::rename(&claimed, roll);
                let _ = files::remove(&new_table);
                let _ = files::remove(table);
                Err(error)
            }
        }
    }

    /// Checks that this job may replace an aggregated file.
    fn check_aggregated(&self, name: &str, version: i32, data: &Path) -> Result<()> {
        self.check_ranks(name, data, || self.ranks_of_aggregated(name, version))
    }

    /// How many parts an aggregated file has.
    pub(super) fn ranks_of_aggregated(&self, name: &str, version: i32) -> Option<u32> {
        let (data, table) = self.aggregated_paths(name, version)?;
        let len = std::fs::metadata(data).ok()?.len();
        u32::try_from(Offsets::read(&table, len).ok()?.ranks()).ok()
    }

    /// The versions of a name that have an aggregated file.
    pub(super) fn aggregated_versions(&self, name: &str) -> Result<Vec<i32>> {
        let persistent = self.persistent.as_ref().filter(|_| self.meta.is_some());
        persistent.map_or(Ok(Vec::new()), |persistent| {
            files::list(persistent, |file| {
                aggregate::parse_name(file).filter(|(of, _)| *of == name).map(|(_, v)| v)
            })
        })
    }

    /// Whether there is an aggregated file of a checkpoint.
    pub(super) fn is_aggregated(&self, name: &str, version: i32) -> bool {
        self.aggregated_data(name, version).is_some_and(|data| files::is_own(&data))
    }

    /// The aggregated file of a checkpoint, for its age.
    pub(super) fn aggregated_data(&self, name: &str, version: i32) -> Option<PathBuf> {
        self.aggregated_paths(name, version).map(|(data, _)| data)
    }

    /// This process's part of an aggregated file.
    pub(super) fn open_part(&self, name: &str, version: i32) -> Result<Opened> {
        let missing = || Error::new(Kind::NotFound, "there is no aggregated file");
        let (path, table) = self.aggregated_paths(name, version).ok_or_else(missing)?;
        let file = files::open(&path)?;
        let len = files::len(&file, &path)?;
        let (offsets, without_table) = Offsets::find(&table, &file, len, &path)?;
        if let Some(found) = without_table {
            self.warn_once(found);
        }
        let part: Range<u64> = offsets.part(self.rank as usize).ok_or_else(missing)?;
        let content = Content::of(&file, part.clone(), &path)?;
        let header = Header::read(&file, &content, &path)?;
        let proven_by = ProvenBy::Table(offsets.proof(self.rank as usize));
        Ok(Opened { file, path, part, content, header, proven_by })
    }

    /// Removes the aggregated file of a checkpoint. Rank 0 does so for all processes.
    pub(super) fn remove_aggregated(&self, name: &str, version: i32) -> Result<()> {
        match self.aggregated_paths(name, version) {
            Some((data, table)) if self.rank == 0 => {
                self.may_change_in(self.meta.as_deref())?;
                // In this order, should the process end here, no table stays without its data.
                files::remove(&table)?;
                files::remove(&data)
            }
            _ => Ok(()),
        }
    }
}

/// A temporary name that is the same for all processes of a job.
pub(super) fn common_temporary(data: &Path, end: &str, place: &AggregatePart) -> PathBuf {
    temporary_of(data, end, place.job(), place.attempt)
}

/// The temporary name of a run's attempt.
pub(super) fn temporary_of(data: &Path, end: &str, job: u32, attempt: u64) -> PathBuf {
    let file = data.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = file.unwrap_or_default() + end;
    data.with_file_name(names::temporary_file(&name, job, attempt))
}

/// The offsets and the digests of the parts, if the roll has all of them; and the earliest time
/// that a part was taken, so that the file looks newer than no process's younger version.
fn complete(
    list: &File,
    roll: &Path,
    ranks: u32,
) -> Result<Option<(Offsets, Digests, SystemTime)>> {
    let whole = u64::from(ranks) * LINE;
    if files::len(list, roll)? < whole {
        return Ok(None);
    }
    let mut lines = vec![0; whole as usize];
    files::read_exact_at(list, &mut lines, 0, roll)?;
    let (mut lengths, mut digests) = (Vec::with_capacity(ranks as usize), Vec::new());
    let mut end = 0u64;
    let mut first: Option<SystemTime> = None;
    for (rank, line) in lines.chunks_exact(LINE as usize).enumerate() {
        let Some(Part { begin, len, digest, taken, .. }) = part_of(line) else {
            return Ok(None);
        };
        digests.push(digest);
        first = Some(first.map_or(taken, |first| first.min(taken)));
        if begin != end {
            return Err(Error::new(
                Kind::Corrupt,
                format!("{}: the part of rank {rank} begins at {begin}, not {end}", roll.display()),
            ));
        }
        end = end.saturating_add(len);
        lengths.push(len);
    }
    let first = first.unwrap_or(SystemTime::UNIX_EPOCH);
    Offsets::of_lengths(&lengths).map(|offsets| Some((offsets, digests, first)))
}

/// The digests of the parts, by rank.
type Digests = Vec<Option<Digest>>;

/// A part, as its line in the roll says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Where it begins.
    pub(super) begin: u64,
    /// How long it is.
    pub(super) len: u64,
    /// Its digest, if it has one.
    pub(super) digest: Option<Digest>,
    /// When it was taken.
    pub(super) taken: SystemTime,
    /// The run that made it.
    pub(super) identity: Identity,
}

/// The part in a line of the roll; `None` if the line is empty.
fn part_of(line: &[u8]) -> Option<Part> {
    let number = |at: usize| {
        line[at..at + 8].iter().rev().fold(0, |all: u64, &byte| all << 8 | u64::from(byte))
    };
    let digest = line[24..].first_chunk::<DIGEST_LEN>().and_then(Digest::decode);
    let taken = SystemTime::UNIX_EPOCH + Duration::from_nanos(number(16));
    let identity = line[24 + DIGEST_LEN..].first_chunk().map(Identity::decode)?;
    Some(Part { begin: number(0).checked_sub(1)?, len: number(8), digest, taken, identity })
}

/// The parts in a file that is not complete, by rank, as the roll at `path` has them.
///
/// # Errors
/// [`Kind::Corrupt`] if the file is too long for a roll; else the system's. Both name the path.
pub(super) fn parts(path: &Path) -> Result<Vec<Option<Part>>> {
    let list = match files::open_own(path) {
        Ok(list) => list,
        Err(error) if error.kind() == Kind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let len = files::len(&list, path)?;
    if len > MOST_LINES * LINE {
        let what = format!("{} has {len} bytes: it is no roll", path.display());
        return Err(Error::new(Kind::Corrupt, what));
    }
    let mut lines = vec![0; (len / LINE * LINE) as usize];
    files::read_exact_at(&list, &mut lines, 0, path)?;
    Ok(lines.chunks_exact(LINE as usize).map(part_of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Config;
    use std::fs;

    /// Catches memory that is asked for by the length of a damaged roll: that ends the process.
    #[test]
    fn what_is_too_long_is_no_roll() {
        let file = tempfile::NamedTempFile::new().unwrap();
        if file.as_file().set_len(1 << 43).is_err() {
            println!("skipped: the folder for temporary files has no files of that length");
            return;
        }
        let error = parts(file.path()).unwrap_err();
        assert!(error.to_string().contains("it is no roll"), "{error}");
    }

    /// Catches an earlier job's file of a version that stays when the version is taken again, and
    /// is restored in place of the newer part.
    #[test]
    fn a_part_takes_the_place_of_a_file_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "mode = async\naggregated = true\nscratch = {0}/s\npersistent = {0}/p\nmeta = {0}/m\n",
            folder.path().display()
        );
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let content =
            |byte: u8| [&Header::new(vec![(1, 3)]).unwrap().encode()[..], &[byte; 3]].concat();
        let len = content(0).len() as u64;
        for rank in 0..2 {
            let files = Files::open(&config, rank).unwrap();
            fs::write(files.persistent_path("x", 1).unwrap(), content(7)).unwrap();
            fs::write(files.scratch_path("x", 1).unwrap(), content(8)).unwrap();
            let (offset, identity) = (u64::from(rank) * len, Identity { run: 5, generation: 1 });
            let place = AggregatePart { offset, ranks: 2, identity, attempt: 1 };
            files.persist("x", 1, None, Some(&place)).unwrap();
            fs::remove_file(files.scratch_path("x", 1).unwrap()).unwrap();
        }
        for rank in 0..2 {
            let opened = Files::open(&config, rank).unwrap().open_nearest("x", 1).unwrap();
            let mut found = vec![0; len as usize];
            opened.read_exact_at(&mut found, 0).unwrap();
            assert_eq!(found, content(8), "{}", opened.path.display());
        }
    }
}
