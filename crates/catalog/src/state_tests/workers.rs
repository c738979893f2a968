//! The workers of the world.

use std::collections::BTreeMap;

use super::world::{failure, Job, World, NAME};
use crate::space::{cut, side_by_side, Extent};
use crate::state::*;
use crate::{Level, Region};

impl World {
    /// Lets every worker begin what it can: there is one of each kind, and it does one thing at a time.
    pub(super) fn begin_jobs(&mut self) -> bool {
        self.leave_memory_to_others();
        let before = self.jobs.len();
        let levels: Vec<Level> = self.state.levels().all().collect();
        for &level in &levels {
            let is = |job: &Job| matches!(job, Job::Flush(job) if job.from.level == level);
            if !self.jobs.iter().any(is) {
                self.jobs.extend(self.state.down().next_flush(level).map(Job::Flush));
            }
        }
        if !self.jobs.iter().any(|job| matches!(job, Job::Write(_))) {
            self.jobs.extend(self.state.down().next_write().map(Job::Write));
        }
        if !self.jobs.iter().any(|job| matches!(job, Job::Persist(_))) {
            self.jobs.extend(self.state.down().next_persist().map(Job::Persist));
        }
        for &level in &levels {
            let is = |job: &Job| matches!(job, Job::Fetch(job) if job.to.level == level);
            if !self.jobs.iter().any(is) {
                self.jobs.extend(self.state.up().next_fetch(level).map(Job::Fetch));
            }
        }
        if !self.jobs.iter().any(|job| matches!(job, Job::Read(_))) {
            self.jobs.extend(self.state.up().next_read().map(Job::Read));
        }
        if !self.jobs.iter().any(|job| matches!(job, Job::Arrive(_))) {
            self.jobs.extend(self.state.captures().next_arrival().map(Job::Arrive));
        }
        self.jobs.len() > before
    }

    pub(super) fn end_job(&mut self, which: usize, fails: bool) {
        if self.jobs.is_empty() {
            return;
        }
        let which = which % self.jobs.len();
        let answered = match &self.jobs[which] {
            Job::Flush(job) | Job::Fetch(job) => self.has_answered(job),
            _ => false,
        };
        let fails = fails && !answered;
        let result = if fails { Err(failure()) } else { Ok(()) };
        let end = if fails { MoveEnd::Failed(failure()) } else { MoveEnd::Done };
        match self.jobs.remove(which) {
            Job::Flush(job) => {
                self.move_or_fail(&job, fails);
                self.state.down().flush_done(&job, end);
            }
            Job::Arrive(job) => self.arrive(&job, end),
            Job::Ordered(job) => {
                self.arrive(&job, if fails { MoveEnd::Stranded(failure()) } else { end });
            }
            Job::Reading(id, source, region, expected) => {
                // The device does one behind the other.
                let before = |job: &Job| matches!(job, Job::Ordered(arrival) if arrival.id == id);
                if let Some(before) = self.jobs.iter().position(before) {
                    self.end_job(before, fails);
                }
                if !self.never_came.contains(&id) {
                    assert_eq!(self.bytes(&source, &region), expected, "room was used again");
                }
                if fails {
                    self.state.captures().strand(id);
                }
                self.state.up().release(id, region.part, source.level);
            }
            Job::Fetch(job) => {
                self.move_or_fail(&job, fails);
                self.state.up().fetch_done(&job, end);
            }
            Job::Write(job) => {
                let content = self.content(&job);
                let file = (job.name.to_string(), job.version);
                if result.is_ok() && self.state.checkpoints().still_wanted(job.id) {
                    self.scratch.insert(file.clone(), content);
                }
                if self.state.down().write_done(&job, result) == After::Unlink {
                    self.scratch.remove(&file);
                }
            }
            Job::Persist(mut job) => {
                let file = (job.name.to_string(), job.version);
                let read = match job.straight.clone() {
                    Some(source) => Some(self.content(&source)),
                    None => self.read_by_persist.remove(&job.id),
                };
                self.state.down().leave_memory(&mut job);
                self.state.check().unwrap();
                if self.state.checkpoints().is_alone(job.id).is_none() {
                    let writes = |other: &Job| matches!(other, Job::Write(w) if w.id == job.id);
                    let write = self.jobs.iter().position(writes).unwrap();
                    self.end_job(write, fails);
                }
                let alone = self.state.checkpoints().is_alone(job.id).unwrap();
                let content = match read {
                    Some(content) => {
                        let wanted = self.state.checkpoints().still_wanted(job.id);
                        if wanted && result.is_ok() && alone {
                            // The scratch file must not hide the newer one.
                            self.scratch.remove(&file);
                        }
                        wanted.then_some(content)
                    }
                    None => self.scratch.get(&file).cloned(),
                };
                // Only the file of a replaced checkpoint may be gone by now.
                assert!(content.is_some() || !self.state.checkpoints().still_wanted(job.id));
                let result = result.and_then(|()| content.ok_or_else(failure)).map(|content| {
                    self.persistent.insert(file.clone(), content);
                });
                if self.state.down().persist_done(&job, result) == After::Unlink {
                    self.scratch.remove(&file);
                }
            }
            Job::Read(job) => {
                let file = (job.name.to_string(), job.version);
                let content =
                    self.scratch.get(&file).or_else(|| self.persistent.get(&file)).cloned();
                // Its file may have been cleaned up or replaced by now: then the reader fails.
                let same = content.as_ref().is_some_and(|content| {
                    job.regions.iter().all(|region| {
                        content.get(&region.id).is_some_and(|b| b.len() as u64 == region.size)
                    })
                });
                let result = if same { result } else { Err(failure()) };
                for region in job.regions.iter().filter(|_| result.is_ok()) {
                    let bytes = &content.as_ref().unwrap()[&region.id];
                    let source = job.memory[region.part as usize].clone().unwrap();
                    let mut at = 0;
                    for extent in cut(&source.extents, region.offset, region.size) {
                        let to = extent.offset as usize..(extent.offset + extent.len) as usize;
                        self.memory(source.level)[to]
                            .copy_from_slice(&bytes[at..at + extent.len as usize]);
                        at += extent.len as usize;
                    }
                }
                self.state.up().read_done(&job, &result);
            }
        }
    }

    fn arrive(&mut self, job: &Arrival, end: MoveEnd) {
        let deferred = self.deferred.remove(&job.id).unwrap();
        let was_there = self.state.checkpoints().find(NAME, job.version) == Some(job.id);
        let fails = end != MoveEnd::Done;
        for (level, room, bytes) in deferred.iter().filter(|_| !fails) {
            self.put(*level, room, bytes);
        }
        if fails {
            self.never_came.insert(job.id);
        }
        self.state.captures().arrived(job.id, end);
        if fails && was_there {
            // The failure was reported, so this checkpoint does not exist. The one that it would have replaced may.
            let older = self.state.checkpoints().find(NAME, job.version);
            match older.map(|older| self.captured[&older].clone()) {
                Some(older) => self.expected.insert(job.version, older),
                None => self.expected.remove(&job.version),
            };
        }
    }

    /// The writer of a persistent file goes on from the scratch file where others wait for its memory.
    fn leave_memory_to_others(&mut self) {
        let mut jobs = std::mem::take(&mut self.jobs);
        for job in &mut jobs {
            let Job::Persist(job) = job else { continue };
            if let Some(source) =
                job.straight.clone().filter(|_| self.state.is_to_leave_memory(job.id))
            {
                let content = self.scratch[&(job.name.to_string(), job.version)].clone();
                assert_eq!(content, self.content(&source), "another checkpoint's scratch file");
                self.read_by_persist.insert(job.id, content);
                self.state.down().leave_memory(job);
                self.state.check().unwrap();
            }
        }
        self.jobs = jobs;
    }

    /// A store that has answered does not fail any more; one that fails does not answer.
    fn move_or_fail(&mut self, job: &MoveJob, fails: bool) {
        if !(fails && self.is_compressed(job.to.level)) {
            self.move_bytes(job);
        }
        if self.is_compressed(job.to.level) {
            self.packing.remove(&(job.id, job.part as usize));
        }
    }

    /// One of the moves into the level that compresses goes on.
    pub(super) fn pack_some(&mut self, which: usize) {
        let moves: Vec<MoveJob> = self
            .jobs
            .iter()
            .filter_map(|job| match job {
                Job::Flush(job) | Job::Fetch(job) => Some(job),
                _ => None,
            })
            .filter(|job| self.is_compressed(job.to.level))
            .cloned()
            .collect();
        if !moves.is_empty() {
            self.pack(&moves[which % moves.len()]);
        }
    }

    fn move_bytes(&mut self, job: &MoveJob) {
        if self.is_compressed(job.to.level) {
            return self.compress(job);
        }
        if self.is_compressed(job.from.level) {
            let bytes = self.decompressed(&job.from, job.len);
            let room: Vec<Extent> = cut(&job.to.extents, 0, job.len).collect();
            return self.put(job.to.level, &room, &bytes);
        }
        for (from, to, len) in side_by_side(&job.from.extents, &job.to.extents, job.len) {
            let bytes = self.memory(job.from.level)[from as usize..(from + len) as usize].to_vec();
            self.memory(job.to.level)[to as usize..(to + len) as usize].copy_from_slice(&bytes);
        }
    }

    /// The content that a writer reads for a checkpoint.
    pub(super) fn content(&mut self, job: &FileJob) -> BTreeMap<i32, Vec<u8>> {
        let region = |region: &Region| {
            let source = job.memory[region.part as usize].clone().unwrap();
            (region.id, self.bytes(&source, region))
        };
        job.regions.iter().map(region).collect()
    }

    pub(super) fn bytes(&mut self, source: &Source, region: &Region) -> Vec<u8> {
        if self.is_compressed(source.level) {
            let all = self.decompressed(source, region.offset + region.size);
            return all[region.offset as usize..(region.offset + region.size) as usize].to_vec();
        }
        let extents: Vec<Extent> = cut(&source.extents, region.offset, region.size).collect();
        self.plain(source.level, &extents, region.size)
    }

    /// The first `len` bytes that are in these places, or all.
    pub(super) fn plain(&mut self, level: Level, extents: &[Extent], len: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for extent in cut(extents, 0, len) {
            let from = extent.offset as usize..(extent.offset + extent.len) as usize;
            bytes.extend_from_slice(&self.memory(level)[from]);
        }
        bytes
    }

    pub(super) fn everybody_works(&mut self) {
        self.map();
        self.grow();
        self.begin_jobs();
        while !self.jobs.is_empty() {
            self.end_job(0, false);
        }
    }
}
