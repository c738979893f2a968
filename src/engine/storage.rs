//! Files, on workers of their own: writing to scratch, copying to persistent, reading back ahead.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::shared::Shared;
use super::spool::about;
use crate::catalog::entry::Tier;
use crate::catalog::monitor::Worker;
use crate::catalog::state::{After, FileJob, State};
use crate::error::Result;
use crate::format::header::Header;
use crate::metrics::Hop;
use crate::platform::files;
use crate::tier::space::cut;
use crate::trace::Activity;

/// Writes scratch files until the engine stops.
pub fn write(shared: &Shared) -> Result<()> {
    bind(shared)?;
    if !shared.settle() {
        return Ok(());
    }
    while let Some(job) = shared.catalog.next(Worker::Write, State::next_write) {
        let written = write_temporary(shared, &job);
        let naming = shared.naming.lock();
        let result = written
            .and_then(|temporary| give_name(shared, &job, &temporary))
            .map_err(about(&job.name, job.version));
        if result.is_ok() {
            // Before the step: whoever waits for the write may then wait for the parities.
            shared.protect(&job.name, job.version);
        }
        let (after, used) =
            shared.catalog.step(|state| (state.write_done(&job, result), state.used()));
        if after == After::Unlink {
            unlink(shared, &job.name, job.version);
        }
        drop(naming);
        shared.record_use(used);
    }
    Ok(())
}

/// Makes persistent copies until the engine stops.
pub fn persist(shared: &Shared) -> Result<()> {
    while let Some(job) = shared.catalog.next(Worker::Persist, State::next_persist) {
        let since = Instant::now();
        let mut span = shared.trace.span(Activity::Persist).of(&job.name, job.version);
        let result = shared
            .files
            .persist(&job.name, job.version, job.routed.as_deref())
            .map(|bytes| {
                shared.metrics.hop(Hop::FtoP).add(bytes, since.elapsed());
                span.bytes(bytes);
            })
            .map_err(about(&job.name, job.version));
        drop(span);
        let naming = shared.naming.lock();
        if shared.catalog.step(|state| state.persist_done(job.id, result)) == After::Unlink {
            unlink(shared, &job.name, job.version);
        }
        drop(naming);
    }
    Ok(())
}

/// Reads files ahead until the engine stops.
pub fn read(shared: &Shared) -> Result<()> {
    while let Some(job) = shared.catalog.next(Worker::Read, State::next_read) {
        let result = read_one(shared, &job).map_err(about(&job.name, job.version));
        if let Err(error) = &result {
            // Nothing is lost: the restore looks at the files itself, and reports.
            shared.degrade("read", format!("reading ahead failed: {error}"));
        }
        let used = shared.catalog.step(|state| {
            state.read_done(&job, &result);
            state.used()
        });
        shared.record_use(used);
    }
    Ok(())
}

fn bind(shared: &Shared) -> Result<()> {
    match shared.device.get() {
        Some(side) => side.device.bind(),
        None => Ok(()),
    }
}

fn write_temporary(shared: &Shared, job: &FileJob) -> Result<PathBuf> {
    let since = Instant::now();
    let mut span = shared.trace.span(Activity::Write).of(&job.name, job.version);
    let temporary = shared.files.temporary(&shared.files.scratch_path(&job.name, job.version)?);
    match write_file(shared, job, &temporary) {
        Ok(bytes) => {
            let from_device = job.memory.iter().flatten().any(|s| s.tier == Tier::Device);
            let hop = if from_device { Hop::DtoF } else { Hop::HtoF };
            shared.metrics.hop(hop).add(bytes, since.elapsed());
            span.bytes(bytes);
            Ok(temporary)
        }
        Err(error) => {
            // The failure of the write is the one to report.
            let _ = files::remove(&temporary);
            Err(error)
        }
    }
}

/// Gives a complete file its name, unless the checkpoint was replaced or cleaned up meanwhile.
fn give_name(shared: &Shared, job: &FileJob, temporary: &Path) -> Result<()> {
    if !shared.catalog.look(|state| state.still_wanted(job.id)) {
        return files::remove(temporary);
    }
    let named = shared.files.publish(temporary, &job.name, job.version);
    if named.is_err() {
        let _ = files::remove(temporary);
    }
    named
}

fn write_file(shared: &Shared, job: &FileJob, path: &Path) -> Result<u64> {
    let header = Header::new(job.regions.iter().map(|r| (r.id, r.size)).collect())?;
    let file = files::create(path)?;
    files::write_all_at(&file, &header.encode(), 0, path)?;
    let mut at = header.encoded_len() as u64;
    for region in job.regions.iter() {
        let Some(source) = &job.memory[region.part as usize] else {
            continue;
        };
        shared.read_memory(source, region, |bytes| {
            files::write_all_at(&file, bytes, at, path)?;
            at += bytes.len() as u64;
            Ok(())
        })?;
    }
    Ok(at)
}

fn read_one(shared: &Shared, job: &FileJob) -> Result<()> {
    let since = Instant::now();
    let mut span = shared.trace.span(Activity::Read).of(&job.name, job.version);
    let host = shared.host()?;
    let opened = shared.files.open_nearest(&job.name, job.version)?;
    let mut bytes = 0;
    for region in job.regions.iter() {
        let Some(source) = &job.memory[region.part as usize] else {
            continue;
        };
        let Some(place) = opened.header.region(region.id).filter(|p| p.size == region.size) else {
            return Err(crate::error::Error::new(
                crate::error::Kind::Corrupt,
                format!("{}: region {} is not what it was", opened.path.display(), region.id),
            ));
        };
        let mut at = place.offset;
        for extent in cut(&source.extents, region.offset, region.size) {
            // SAFETY: the room is this job's alone, within the mapping.
            let into = unsafe {
                std::slice::from_raw_parts_mut(host.address(extent.offset), extent.len as usize)
            };
            files::read_exact_at(&opened.file, into, at, &opened.path)?;
            at += extent.len;
        }
        bytes += region.size;
    }
    for source in job.memory.iter().flatten() {
        host.written(&source.extents);
    }
    shared.metrics.hop(Hop::FtoH).add(bytes, since.elapsed());
    span.bytes(bytes);
    Ok(())
}

fn unlink(shared: &Shared, name: &str, version: i32) {
    if let Err(error) = shared.files.remove_scratch(name, version) {
        log::warn!("{error}");
    }
}
