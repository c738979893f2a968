//! The roll of an aggregated file that is not complete: which parts of it are there.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use errors::{Error, ErrorKind, Result};
use format::aggregate::{AggregatePart, Offsets};
use format::identity::{self, Identity};
use format::names;
use format::proof::{Digest, DIGEST_LEN};
use os::files;

/// The end of the roll's name. Of a ".roll", which older versions of this library left, the lines are shorter.
pub(super) const ROLL: &str = ".roll2";

/// Bytes of one process's line in the roll: where its part begins, plus 1, how long it is, when it was
/// taken, in nanoseconds since 1970, its digest (zeros: none), and the run that made it.
pub(super) const LINE: u64 = 24 + DIGEST_LEN as u64 + identity::LEN as u64;

/// The most lines of a roll. A longer file is no roll, and its length must not cost memory.
const MOST_LINES: u64 = 1 << 22;

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
pub(super) fn complete(
    list: &File,
    roll: &Path,
    ranks: u32,
) -> Result<Option<(Offsets, RollDigests, SystemTime)>> {
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
        let Some(RollPart { begin, len, digest, taken, .. }) = part_of(line) else {
            return Ok(None);
        };
        digests.push(digest);
        first = Some(first.map_or(taken, |first| first.min(taken)));
        if begin != end {
            return Err(Error::new(
                ErrorKind::Corrupt,
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
pub(super) type RollDigests = Vec<Option<Digest>>;

/// A part, as its line in the roll says.
#[derive(Clone, Copy, Debug)]
pub(super) struct RollPart {
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

impl RollPart {
    /// Its line in the roll.
    pub(super) fn line(&self) -> [u8; LINE as usize] {
        let since = self.taken.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let mut line = [0; LINE as usize];
        line[..8].copy_from_slice(&(self.begin + 1).to_le_bytes());
        line[8..16].copy_from_slice(&self.len.to_le_bytes());
        line[16..24].copy_from_slice(&(since.as_nanos() as u64).to_le_bytes());
        if let Some(digest) = self.digest {
            line[24..][..DIGEST_LEN].copy_from_slice(&digest.encode());
        }
        line[24 + DIGEST_LEN..].copy_from_slice(&self.identity.encode());
        line
    }
}

/// The part in a line of the roll; `None` if the line is empty.
fn part_of(line: &[u8]) -> Option<RollPart> {
    let number = |at: usize| {
        line[at..at + 8].iter().rev().fold(0, |all: u64, &byte| all << 8 | u64::from(byte))
    };
    let digest = line[24..].first_chunk::<DIGEST_LEN>().and_then(Digest::decode);
    let taken = SystemTime::UNIX_EPOCH + Duration::from_nanos(number(16));
    let identity = line[24 + DIGEST_LEN..].first_chunk().map(Identity::decode)?;
    Some(RollPart { begin: number(0).checked_sub(1)?, len: number(8), digest, taken, identity })
}

/// The parts in a file that is not complete, by rank, as the roll at `path` has them.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if the file is too long for a roll; else the system's. Both name the path.
pub(super) fn parts(path: &Path) -> Result<Vec<Option<RollPart>>> {
    let list = match files::open_own(path) {
        Ok(list) => list,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let len = files::len(&list, path)?;
    if len > MOST_LINES * LINE {
        let what = format!(
            "{} has {len} bytes, more than the index of an aggregated file can have",
            path.display()
        );
        return Err(Error::new(ErrorKind::Corrupt, what));
    }
    let mut lines = vec![0; (len / LINE * LINE) as usize];
    files::read_exact_at(&list, &mut lines, 0, path)?;
    Ok(lines.chunks_exact(LINE as usize).map(part_of).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches memory that is asked for by the length of a damaged roll: that ends the process.
    #[test]
    fn what_is_too_long_is_no_roll() {
        let file = tempfile::NamedTempFile::new().unwrap();
        if file.as_file().set_len(1 << 43).is_err() {
            println!("skipped: the folder for temporary files has no files of that length");
            return;
        }
        let error = parts(file.path()).unwrap_err();
        assert!(
            error.to_string().contains("more than the index of an aggregated file can have"),
            "{error}"
        );
    }
}
