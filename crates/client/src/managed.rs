//! Checkpoints whose versions a caller manages one by one: the states of an adjoint computation, of
//! which each is a version. They carry a region of their manager's ([`format::mark`]), no limit of
//! versions applies to them, and each is restored and removed by this process alone: no call here
//! but [`Client::exchange`] and [`Client::channel`] is collective. Lost versions are rebuilt in
//! `regain.rs`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::agreement::Agreement;
use super::callbacks::Object;
use super::regions::{Memory, Protected};
use super::{check_name, protect, Client, Phase, Selection};
use catalog::{FileLevel, Part, Region};
use errors::{Error, Kind, Result};
use format::names;
use mpi::Comm;
use policy::rounds::FileState;
use trace::Activity;

impl Client {
    /// Whether the checkpoints of this job are still there for a next one.
    pub fn keeps_files(&self) -> bool {
        !self.engine.config().ephemeral
    }

    /// Whether there is this level of files, and they outlive the job.
    pub fn has_level(&self, level: FileLevel) -> bool {
        let files = self.engine.files();
        self.keeps_files()
            && match level {
                FileLevel::Scratch => files.places().has_scratch(),
                FileLevel::Persistent => files.places().has_persistent(),
            }
    }

    /// Checks that nothing is open, and that the name is valid.
    pub fn check_idle(&self, name: &str) -> Result<()> {
        names::validate_name(name).and_then(|()| self.must_be_idle())
    }

    /// How many processes the job has.
    pub fn ranks(&self) -> Result<u64> {
        self.comm.as_ref().map_or(Ok(1), |comm| comm.size().map(u64::from))
    }

    /// This process's rank.
    pub fn rank(&self) -> Result<u64> {
        self.comm.as_ref().map_or(Ok(0), |comm| comm.rank().map(u64::from))
    }

    /// From here on, the checkpoints of a name consist of this object and of what is protected for
    /// the name.
    pub fn manage(&mut self, name: &str, marker: Arc<dyn Object>) -> Result<()> {
        names::validate_name(name)?;
        let regions = self.regions.group_mut(Some(name));
        regions.clear();
        regions.manage(marker);
        Ok(())
    }

    /// Whether a managed name has regions beside its manager's mark.
    pub fn has_regions(&self, name: &str) -> bool {
        self.regions.of(name).has_regions()
    }

    /// The versions of a name that this process has, in memory or in files, good or not.
    pub fn versions(&self, name: &str) -> Result<BTreeSet<i32>> {
        self.engine.file_side().await_earlier_jobs();
        let mut versions = self.engine.checkpoints().versions(name);
        if self.keeps_files() {
            versions.extend(self.engine.files().listing().versions(name)?);
        }
        Ok(versions)
    }

    /// Reserves so many places in the order of the next reads, and returns the first.
    pub fn reserve_hints(&self, places: u64) -> u64 {
        self.engine.order().reserve_hints(places)
    }

    /// Says at which place in that order a version will be read. With `reads`, versions with a
    /// place are prefetched from now on.
    pub fn expect(&self, name: &str, version: i32, place: Option<u64>, reads: bool) {
        self.engine.order().expect_reads(name, &[(version, place)], reads);
    }

    /// Says at which place each of several versions of a name will be read. Said at once, so that
    /// none is prefetched before it is known which is the first.
    pub fn expect_all(&self, name: &str, places: &[(i32, u64)]) {
        let places: Vec<_> =
            places.iter().map(|(version, place)| (*version, Some(*place))).collect();
        self.engine.order().expect_reads(name, &places, true);
    }

    /// Fails if something has failed in the background that was not reported yet.
    pub fn check_background(&self) -> Result<()> {
        match self.engine.checkpoints().take_failure() {
            Some(failure) => Err(failure.within("failed in the background")),
            None => Ok(()),
        }
    }

    /// Tries again to bring to files what could not be brought there.
    pub fn try_again(&self) {
        self.engine.checkpoints().retry();
    }

    /// How many bytes of checkpoints memory can hold, if there are no files to hold any.
    pub fn room_without_files(&self) -> Option<u64> {
        let without = self.engine.config().ephemeral && !self.engine.files().places().has_scratch();
        without.then(|| self.engine.checkpoints().memory())
    }

    /// How many bytes of memory are protected for a name.
    pub fn bytes_of(&self, name: &str) -> u64 {
        let len = |region: &Protected| match region {
            Protected::Memory(memory) => memory.len,
            Protected::Object(_) => 0,
        };
        self.regions.of(name).iter().map(|(_, region)| len(region)).sum()
    }

    /// Drops a version that is of no use any more from memory, where nothing but memory has it.
    pub fn let_go_of(&self, name: &str, version: i32) {
        self.engine.checkpoints().drop_version(name, version);
    }

    /// Takes a managed checkpoint that will be read at `place`, or never.
    pub fn take_managed(
        &mut self,
        name: &str,
        version: i32,
        place: Option<u64>,
        reads: bool,
    ) -> Result<()> {
        let trace = self.engine.trace().clone();
        let _span = trace.span(Activity::Checkpoint).of(name, version);
        self.begin(name, version)?;
        self.take_all(true)?;
        self.expect(name, version, place, reads);
        Ok(())
    }

    /// How many rounds and gatherings of the agreement this process has begun.
    pub fn rounds(&self) -> [u64; 2] {
        self.agreement.as_ref().map_or([0; 2], Agreement::begun)
    }

    /// Begins as many rounds and gatherings as the process that has begun `most`, which took
    /// checkpoints that this one does not take.
    pub fn even(&mut self, most: [u64; 2]) {
        if let Some(agreement) = &mut self.agreement {
            agreement.even(&self.engine, most);
        }
    }

    /// Reads the manager's region of a version, and nothing else. Returns whether there is one: a
    /// version without it is the application's own.
    ///
    /// # Errors
    /// [`Kind::Invalid`] if the version's other regions are not those that are protected for the
    /// name, with the same sizes. Others if there is no good copy.
    pub fn read_managed(&mut self, name: &str, version: i32) -> Result<bool> {
        self.open_own(name, version)?;
        let (is_managed, read) = match &self.phase {
            Phase::Restart { restoring } => match restoring.mark {
                None => (false, Ok(())),
                Some(mark) => {
                    let checked = self.check_regions(name, &restoring.regions, mark);
                    let about = |error: Error| {
                        error.within(format!("checkpoint \"{name}\" version {version}"))
                    };
                    let read = checked
                        .map_err(about)
                        .and_then(|()| self.recover(&Selection::Some(vec![mark])));
                    (true, read)
                }
            },
            _ => (true, Ok(())),
        };
        let ended = self.restart_end(false);
        read.and(ended).map(|()| is_managed)
    }

    /// Checks that a checkpoint has exactly the memory that is protected for a name, beside its
    /// `mark`.
    fn check_regions(&self, name: &str, stored: &[Region], mark: i32) -> Result<()> {
        let protected = self.regions.of(name);
        let of_memory = || stored.iter().filter(|region| region.id != mark);
        let size = |id| of_memory().find(|region| region.id == id).map(|region| region.size);
        for (id, region) in protected.iter() {
            let Protected::Memory(memory) = region else { continue };
            let has = match size(id) {
                Some(size) if size == memory.len => continue,
                Some(size) => format!("{size} bytes of region {id}"),
                None => format!("no region {id}"),
            };
            return Err(Error::invalid(format!(
                "it has {has}, for which {} bytes are protected",
                memory.len
            )));
        }
        match of_memory().find(|region| protected.get(region.id).is_none()) {
            None => Ok(()),
            Some(Region { id, size, .. }) => Err(Error::invalid(format!(
                "it has {size} bytes of region {id}, for which no memory is protected"
            ))),
        }
    }

    /// Restores a version. `next` is the place at which it will be read again.
    pub fn restore_managed(&mut self, name: &str, version: i32, next: Option<u64>) -> Result<()> {
        let trace = self.engine.trace().clone();
        let _span = trace.span(Activity::Restore).of(name, version);
        self.open_own(name, version)?;
        // Memory that is restored again and again is checked once.
        let recovered = self.recover_checked(&Selection::All, Memory::was_writable);
        let Phase::Restart { restoring } = std::mem::replace(&mut self.phase, Phase::Idle) else {
            return recovered;
        };
        self.engine.restores().end_restore_expecting(restoring, recovered.is_ok(), next);
        recovered
    }

    pub(super) fn open_own(&mut self, name: &str, version: i32) -> Result<()> {
        check_name(name, version).and_then(|()| self.must_be_idle())?;
        let part_of = |id| self.regions.of(name).part(id);
        let restoring = self.engine.restores().begin_restore(name, version, part_of)?;
        self.phase = Phase::Restart { restoring };
        Ok(())
    }

    /// Whether a version has a file in its place in a level.
    pub fn has_file(&self, name: &str, version: i32, level: FileLevel) -> bool {
        self.engine.checkpoints().has_file(name, version, level)
    }

    /// Whether this process has its parities of a version.
    pub fn has_parities(&self, name: &str, version: i32) -> bool {
        let Some(node) = self.engine.file_side().erasure() else { return false };
        match self.engine.checkpoints().has_taken(name, version) {
            true => node.parity_state(&(name.into(), version)) == FileState::Present,
            // Parities of an earlier job are known by their file alone.
            false => self.engine.files().places().has_parities(name, version),
        }
    }

    /// Whether this process has its parities of a version, or will have them as far as it knows.
    pub fn may_have_parities(&self, name: &str, version: i32) -> bool {
        let node = self.engine.file_side().erasure();
        self.has_parities(name, version)
            || node.is_some_and(|node| node.may_protect(&(name.into(), version)))
    }

    /// Whether versions of a name may be chosen for parities that are made at intervals.
    pub fn choose_parities_from(&self, name: &str, may: bool) {
        if let Some(node) = self.engine.file_side().erasure() {
            node.set_selectable(name, may);
        }
    }

    /// Removes a version's file from a level, unless it is in use. Whether it is gone.
    pub fn retire(&self, name: &str, version: i32, level: FileLevel) -> Result<bool> {
        self.engine.file_side().retire(level, name, version)
    }

    /// Removes a version from memory and files.
    pub fn remove(&self, name: &str, version: i32) -> Result<()> {
        self.engine.file_side().remove_everywhere(name, &BTreeSet::from([version]))
    }

    /// Removes all versions of a name from memory and files. What is being written is waited for.
    pub fn remove_all(&self, name: &str) -> Result<()> {
        let mut versions = self.versions(name)?;
        if self.engine.file_side().erasure().is_some() {
            // Parities can be there without the checkpoint that they belong to.
            versions.extend(self.engine.files().listing().versions_of_anybody(name)?);
        }
        self.engine.file_side().remove_everywhere(name, &versions)
    }

    /// A digest of the memory that is protected for a name, without the manager's region. `None`:
    /// some of it is device memory, which is not read for this.
    ///
    /// # Errors
    /// The driver's.
    pub fn digest_of(&self, name: &str) -> Result<Option<u64>> {
        let mut digest = Sha256::new();
        for (id, region) in self.regions.of(name).iter() {
            let memory = match region {
                Protected::Memory(memory) => memory,
                Protected::Object(_) => continue,
            };
            let place = self.place(id, memory, memory.len)?;
            if place.part != Part::Host {
                return Ok(None);
            }
            digest.update(id.to_le_bytes());
            digest.update(memory.len.to_le_bytes());
            if memory.len > 0 {
                // SAFETY: the application has protected these bytes of host memory and does not
                // change them during its own call.
                let bytes = unsafe {
                    std::slice::from_raw_parts(memory.address as *const u8, memory.len as usize)
                };
                digest.update(bytes);
            }
        }
        let digest = digest.finalize();
        Ok(Some(digest.iter().take(8).fold(0, |word, byte| word << 8 | u64::from(*byte))))
    }

    /// The values of all processes, by rank. Collective.
    pub fn exchange<T: Serialize + DeserializeOwned>(&self, own: &T) -> Result<Vec<T>> {
        let own = protect::encode(own)?;
        let all = match &self.comm {
            Some(comm) => comm.allgather(&own)?,
            None => vec![own],
        };
        all.iter().map(|bytes| protect::decode(bytes)).collect()
    }

    /// A communicator with all processes of the job, if there are others. Collective.
    pub fn channel(&self) -> Result<Option<Comm>> {
        match &self.comm {
            Some(comm) if comm.size()? > 1 => Ok(Some(comm.dup()?)),
            _ => Ok(None),
        }
    }
}

/// Whether a checkpoint is missing or cannot be read, which is as good as missing.
pub fn is_lost(error: &Error) -> bool {
    matches!(error.kind(), Kind::NotFound | Kind::Corrupt | Kind::System)
}
