//! Checkpoints of another number of processes, or of other subarrays, than a job has (`VELOC_Mem_decompose`). Each
//! process looks at some of the files in persistent, compares their bytes with their proofs, and tells the others what
//! they have; all come to the same judgement of that.

use serde::{Deserialize, Serialize};

use super::one_run::of_several_runs;
use super::pass::gather;
use super::search::Search;
use catalog::MESSAGES;
use errors::{Error, ErrorKind, Result};
use files::{Files, Opened};
use format::header::RegionPosition;
use format::identity::{common, Identity};
use format::proof::{Digest, DigestHasher, Proof, Sort};
use format::subarray::{self, Subarray};

/// Bytes that are read at once.
const STEP: u64 = 1 << 20;

/// A checkpoint whose arrays are distributed over the files of several ranks.
#[derive(Clone, Debug)]
pub struct Distribution {
    /// The run that made it.
    pub identity: Identity,
    /// By rank, what the files have.
    files: Vec<RankFile>,
}

/// What a rank's file has.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct RankFile {
    proof: Vec<u8>,
    regions: Vec<FileRegion>,
}

/// A region of a file.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct FileRegion {
    id: i32,
    len: u64,
    content: Content,
}

/// What a region has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Content {
    /// A part of an array.
    Part(Subarray),
    /// Something that all ranks should have alike: its digest.
    Alike(u64),
}

/// The copies of rank 0 that persistent has: the run and the number of processes of each. Or why there are none.
type Made = std::result::Result<Vec<(Identity, u32)>, String>;

/// What a process knows of a version at first: rank 0's [`Made`], and the runs that it has copies of itself.
type Known = (Option<Made>, Vec<Identity>);

/// What a process has seen of the files that it looked at, by rank.
type Seen = Vec<(u32, std::result::Result<RankFile, String>)>;

impl Distribution {
    /// How many ranks have a file.
    pub fn ranks(&self) -> u32 {
        self.files.len() as u32
    }

    /// What each rank has of the array of a region.
    pub fn parts(&self, id: i32) -> impl Iterator<Item = (u32, Subarray)> + '_ {
        (0..).zip(&self.files).filter_map(move |(rank, file)| match file.region(id)?.content {
            Content::Part(part) => Some((rank, part)),
            Content::Alike(_) => None,
        })
    }

    /// Opens the file of a rank.
    ///
    /// # Errors
    /// It is not there any more.
    pub fn open(&self, files: &Files, rank: u32, name: &str, version: i32) -> Result<Opened> {
        let proof = self.files.get(rank as usize).map(|file| Proof::decode(&file.proof));
        let digest = proof.transpose()?.and_then(|proof| proof.digest);
        let files = files.in_persistent(rank).of_run(self.identity);
        match digest {
            Some(digest) => files.copies().open_known(name, version, digest),
            None => Err(Error::new(ErrorKind::Internal, "a file without a digest was accepted")),
        }
    }

    /// Checks that the files make up whole arrays, and have everything else alike.
    ///
    /// # Errors
    /// Naming the region and the ranks: they do not.
    fn check(&self) -> Result<()> {
        let Some(first) = self.files.first() else { return Ok(()) };
        for FileRegion { id, len, content } in &first.regions {
            let about = |error: Error| error.within(format!("region {id}"));
            for (rank, file) in (0_u32..).zip(&self.files) {
                let Some(other) = file.region(*id) else {
                    return Err(about(Error::invalid(format!("rank {rank} has none"))));
                };
                let is_alike = match (content, &other.content) {
                    (Content::Part(_), Content::Part(_)) => true,
                    (one, another) => one == another && *len == other.len,
                };
                if !is_alike {
                    return Err(about(Error::invalid(format!(
                        "it is not alike on ranks 0 and {rank}, and not a part of an array on both \
                         (VELOC_Mem_decompose)"
                    ))));
                }
            }
            if matches!(content, Content::Part(_)) {
                let parts: Vec<_> = self.parts(*id).collect();
                subarray::check_whole(&parts).map_err(about)?;
            }
        }
        let more = (0_u32..).zip(&self.files).find(|(_, file)| {
            let lacks = |one: &&FileRegion| first.region(one.id).is_none();
            file.regions.iter().any(|one| lacks(&one))
        });
        match more {
            None => Ok(()),
            Some((rank, _)) => {
                Err(Error::invalid(format!("rank {rank} has regions that rank 0 has not")))
            }
        }
    }
}

impl RankFile {
    fn region(&self, id: i32) -> Option<&FileRegion> {
        self.regions.iter().find(|region| region.id == id)
    }

    /// Looks at a good file of the run that is wanted.
    fn of(opened: &Opened, (identity, ranks): (Identity, u32)) -> Result<RankFile> {
        let proof = opened.proof()?.filter(|proof| proof.digest.is_some());
        let proof = proof.ok_or_else(|| Error::new(ErrorKind::Corrupt, "it has no proof"))?;
        // With `proof = off` nobody has compared that yet.
        if proof.identity != identity {
            return Err(Error::new(ErrorKind::OtherJob, "another run made it than rank 0's"));
        }
        if proof.ranks != ranks {
            let text = format!(
                "it is of a job of {} processes, and rank 0's of one of {ranks}",
                proof.ranks
            );
            return Err(Error::new(ErrorKind::OtherJob, text));
        }
        let parts = opened.subarrays()?;
        let regions = opened.header().regions().iter().filter(|one| one.id != subarray::REGION);
        let region = |region: &RegionPosition| {
            let len = region.decoded.unwrap_or(region.size);
            let content =
                match parts.iter().find(|(id, _)| *id == region.id) {
                    Some((_, part)) if part.len() == len => Content::Part(*part),
                    Some((id, part)) => {
                        let text =
                            format!("region {id} has {len} bytes, and its subarray {}", part.len());
                        return Err(Error::new(ErrorKind::Corrupt, text));
                    }
                    None if region.id == MESSAGES => return Err(Error::invalid(
                        "it has a log of messages (libveloc-mpi.so), which is of its ranks alone",
                    )),
                    None => Content::Alike(digest_of(opened, region)?),
                };
            Ok(FileRegion { id: region.id, len, content })
        };
        let regions = regions.map(region).collect::<Result<Vec<_>>>()?;
        Ok(RankFile { proof: proof.encode(), regions })
    }
}

/// A digest of a region's bytes in a file.
fn digest_of(opened: &Opened, region: &RegionPosition) -> Result<u64> {
    let mut hasher = DigestHasher::new(Sort::Xxh3);
    let mut bytes = vec![0; region.size.min(STEP) as usize];
    let mut done = 0;
    while done < region.size {
        let piece = &mut bytes[..(region.size - done).min(STEP) as usize];
        opened.read_exact_at(piece, region.offset + done)?;
        hasher.update(piece);
        done += piece.len() as u64;
    }
    match hasher.finish() {
        Digest::Xxh3(digest) => Ok(digest),
        Digest::Sha256(_) => Err(Error::new(ErrorKind::Internal, "another digest was asked for")),
    }
}

impl Search<'_> {
    /// The newest version above `known` and not above `bound` that another number of processes has left, and that this
    /// job can restore all the same. Collective.
    pub(super) fn newest_distributed(
        &self,
        name: &str,
        known: Option<i32>,
        mut bound: i32,
    ) -> Result<Option<i32>> {
        if !self.engine.files().places().has_persistent() {
            return Ok(None);
        }
        loop {
            // Rank 0 alone looks which there are: every job has one.
            let own = match self.own_rank()? {
                0 => self.newest_with_subarrays(name, known, bound),
                _ => None,
            };
            let newest = own.map_or(-1, i64::from);
            let newest = self.comm.map_or(Ok(newest), |comm| {
                comm.allreduce_min_i64(-newest).map(|negated| -negated)
            })?;
            let Some(version) = i32::try_from(newest).ok().filter(|version| *version >= 0) else {
                return Ok(None);
            };
            match self.distribution(name, version, &[]) {
                Ok(_) => return Ok(Some(version)),
                Err(why) if os::logging::speaks_for_all() => {
                    let what = format!("passing over version {version} of \"{name}\": {why}");
                    self.engine.files().warnings().once(what);
                }
                Err(_) => {}
            }
            let Some(below) = version.checked_sub(1) else { return Ok(None) };
            bound = below;
        }
    }

    fn own_rank(&self) -> Result<u32> {
        self.comm.map_or(Ok(0), |comm| comm.rank())
    }

    /// The newest version of rank 0 in persistent, above `known` and not above `bound`, that has subarrays.
    fn newest_with_subarrays(&self, name: &str, known: Option<i32>, bound: i32) -> Option<i32> {
        let files = self.engine.files().in_persistent(0);
        let versions = files.listing().versions(name).ok()?;
        let newer = known.map_or(0, |known| known.saturating_add(1));
        let mut versions = versions.range(newer..=bound.max(newer)).rev().copied();
        versions.find(|version| *version <= bound && has_subarrays(&files, name, *version))
    }

    /// What all files of a version have that a job of any number of processes has left in persistent. If each process has
    /// `copies` of its own, the nearest first, it is a run that all have one of. All processes come to the same result.
    /// Collective.
    ///
    /// # Errors
    /// MPI's; [`ErrorKind::NotFound`]: there is no file of rank 0; [`ErrorKind::OtherJob`], with the rank: a file is
    /// missing, damaged or of another run, the files do not make up whole arrays, or have anything else not alike.
    pub fn distribution(
        &self,
        name: &str,
        version: i32,
        copies: &[Identity],
    ) -> Result<Distribution> {
        let files = self.engine.files();
        let (rank, processes) = (self.own_rank()?, self.comm.map_or(Ok(1), |comm| comm.size())?);
        let made = (rank == 0).then(|| made(files, name, version));
        let all: Vec<Known> = self.gather_all(&(made, copies.to_vec()))?;
        let (made, copies): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let made = made.into_iter().flatten().next().unwrap_or_else(|| Ok(Vec::new()));
        let text = |why: &str| Error::new(ErrorKind::NotFound, why);
        let wanted = match copies.iter().all(|copies| !copies.is_empty()) {
            true => common(&copies).ok_or_else(|| of_several_runs(name, version))?,
            false => Identity::UNKNOWN,
        };
        let mut failed = text(match wanted.is_known() {
            true => "persistent does not have what these processes have: VELOC_Checkpoint_wait brings it there",
            false => "persistent has no files that say what job made them (those of proof = off and VELOC_Init_single do not)",
        });
        let made = made.map_err(|why| text(&why))?;
        for (identity, ranks) in made.into_iter().filter(|(made, _)| wanted.may_be(*made)) {
            // The first that is not good is enough.
            let mut seen = Seen::new();
            for of in (rank..ranks).step_by(processes as usize) {
                let found = files.in_persistent(of).of_run(identity);
                let found = found.copies().open_nearest(name, version);
                let found = found.and_then(|opened| RankFile::of(&opened, (identity, ranks)));
                let is_good = found.is_ok();
                seen.push((of, found.map_err(|error| error.to_string())));
                if !is_good {
                    break;
                }
            }
            let mut seen: Seen = self.gather_all(&seen)?.into_iter().flatten().collect();
            seen.sort_unstable_by_key(|(of, _)| *of);
            match judged(identity, ranks, seen) {
                Ok(distribution) => return Ok(distribution),
                Err(error) => failed = error.within(format!("of {ranks} ranks")),
            }
        }
        Err(failed)
    }

    fn gather_all<T>(&self, own: &T) -> Result<Vec<T>>
    where
        T: Serialize + serde::de::DeserializeOwned + Default + Clone,
    {
        self.comm.map_or_else(|| Ok(vec![own.clone()]), |comm| gather(comm, own))
    }
}

/// Whether a copy of a version has subarrays.
pub(super) fn has_subarrays(files: &Files, name: &str, version: i32) -> bool {
    files.copies().have_region(name, version, subarray::REGION)
}

/// The jobs that have left copies of rank 0's file in persistent.
fn made(files: &Files, name: &str, version: i32) -> Made {
    let files = files.in_persistent(0);
    let found = files.copies().proofs(name, version).map_err(|error| error.to_string())?;
    let known = found.into_iter().filter(|proof| proof.ranks > 0 && proof.identity.is_known());
    let mut made: Vec<(Identity, u32)> = Vec::new();
    for one in known.map(|proof| (proof.identity, proof.ranks)) {
        if !made.contains(&one) {
            made.push(one);
        }
    }
    Ok(made)
}

/// The distribution that has been seen, if there is one.
fn judged(identity: Identity, ranks: u32, seen: Seen) -> Result<Distribution> {
    let mut files = Vec::with_capacity(seen.len());
    let mut bad = Vec::new();
    for (rank, found) in seen {
        match found {
            Ok(file) => files.push(file),
            Err(why) => bad.push(format!("rank {rank}: {why}")),
        }
    }
    if !bad.is_empty() {
        return Err(Error::new(ErrorKind::OtherJob, bad.join("; ")));
    }
    if files.len() != ranks as usize {
        let text = format!("{} of their files were looked at", files.len());
        return Err(Error::new(ErrorKind::OtherJob, text));
    }
    let distribution = Distribution { identity, files };
    let checked = distribution.check();
    checked.map_err(|error| Error::new(ErrorKind::OtherJob, error.to_string()))?;
    Ok(distribution)
}
