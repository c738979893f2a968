//! What of a checkpoint goes into its file where nobody tells what was written (`incremental = true`): device memory, and
//! host memory that the system cannot watch. It is all in memory; the worker that writes the file compares the digests of
//! its blocks with those of the checkpoint before, and leaves out what is the same.

use std::collections::BTreeMap;
use std::ops::Range;

use super::digests::RegionDigests;
use super::shared::Shared;
use catalog::state::{FileJob, Source};
use catalog::Region;
use errors::{Error, ErrorKind, Result};
use format::delta::{self, changed, Blocks, DeltaTable, Sparse, BLOCK};
use format::header::Header;
use policy::changes::{choose, Has};

/// The most names of which digests are kept: the next checkpoint of another has everything.
const MOST_NAMES: usize = 16;

impl Shared {
    /// Passes the content of a file to `put`, without the blocks that its base has. `None`: it is not of an incremental
    /// job.
    pub(super) fn write_changed(
        &self,
        job: &FileJob,
        put: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<Option<()>> {
        let Some((first, others)) = job.regions.split_first() else { return Ok(None) };
        if !self.config.incremental || first.id != delta::REGION {
            return Ok(None);
        }
        // A marked checkpoint may have its mark there.
        let Some((mut table, data)) = self.table(job, first)? else { return Ok(None) };
        let digests = self.digests(job, others)?;
        let mut whole: Vec<Region> = others.to_vec();
        // The runs that the table has already come first.
        let mut added: Vec<(Region, Range<u64>)> = Vec::new();
        if let Some(base) = table.base {
            let known = self.captures.digests.0.lock();
            let known = known.get(&job.name).filter(|known| known.number == base.number);
            whole.retain(|region| {
                let of_region = |all: &RegionDigests| all.of_regions.get(&region.id).cloned();
                let before = known.and_then(of_region);
                let now = digests.get(&region.id);
                let ((size, before), (_, now)) = match (before, now) {
                    (Some(before), Some(now)) => (before, now),
                    _ => return true,
                };
                let runs = changed(region.size, &before, now);
                let bytes = runs.iter().map(|run| run.end - run.start).sum();
                if size != region.size || choose(region.size, bytes) == Has::Everything {
                    return true;
                }
                added.extend(runs.iter().map(|run| (*region, run.clone())));
                table.regions.push(Sparse { id: region.id, size, runs });
                false
            });
        }
        let encoded = table.encode();
        let mut sizes = vec![(delta::REGION, encoded.len() as u64 + table.data())];
        sizes.extend(whole.iter().map(|region| (region.id, region.size)));
        put(&Header::new(sizes)?.encode())?;
        put(&encoded)?;
        let part = |region: &Region, run: Range<u64>| Region {
            size: run.end - run.start,
            offset: region.offset + run.start,
            ..*region
        };
        let runs = std::iter::once(part(first, data..first.size));
        let runs = runs.chain(added.iter().map(|(region, run)| part(region, run.clone())));
        for region in runs.chain(whole) {
            if let Some(source) = &job.memory[region.part as usize] {
                self.read_memory(source, &region, &mut *put)?;
            }
        }
        let mut all = self.captures.digests.0.lock();
        if all.len() >= MOST_NAMES && !all.contains_key(&job.name) {
            let oldest =
                all.iter().min_by_key(|(_, digests)| digests.id).map(|(name, _)| name.clone());
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        let (id, number) = (job.id, table.number);
        all.insert(job.name.clone(), RegionDigests { id, number, of_regions: digests });
        Ok(Some(()))
    }

    /// The table in memory, and its length. `None`: the region is another one.
    fn table(&self, job: &FileJob, region: &Region) -> Result<Option<(DeltaTable, u64)>> {
        let missing =
            || Error::new(ErrorKind::Internal, "the table of what has changed is not in memory");
        let source: &Source = job.memory[region.part as usize].as_ref().ok_or_else(missing)?;
        let read = |bytes: &mut [u8], at| {
            let part = Region { offset: region.offset + at, size: bytes.len() as u64, ..*region };
            let mut done = 0;
            self.read_memory(source, &part, |piece| {
                bytes[done..done + piece.len()].copy_from_slice(piece);
                done += piece.len();
                Ok(())
            })
        };
        let mut begin = [0; delta::MAGIC.len()];
        if region.size >= delta::LEN_WITHOUT_BASE {
            read(&mut begin, 0)?;
        }
        (begin == delta::MAGIC).then(|| DeltaTable::read(region.size, read)).transpose()
    }

    /// The digests of regions that are all in memory.
    fn digests(
        &self,
        job: &FileJob,
        regions: &[Region],
    ) -> Result<BTreeMap<i32, (u64, Vec<u128>)>> {
        let mut digests = BTreeMap::new();
        for region in regions.iter().filter(|region| region.size >= BLOCK) {
            let Some(source) = &job.memory[region.part as usize] else { continue };
            let mut blocks = Blocks::default();
            self.read_memory(source, region, |bytes| {
                blocks.put(bytes);
                Ok(())
            })?;
            digests.insert(region.id, (region.size, blocks.finish()));
        }
        Ok(digests)
    }
}
