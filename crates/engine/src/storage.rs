//! Files, on their own workers: writing to scratch, copying to persistent, and reading back ahead of use.

use std::fs::File;
use std::time::Instant;

use super::place::Place;
use super::run::about;
use super::run::stop;
use super::shared::Shared;
use super::spool::put_regions;
use crate::monitor::Worker;
use ::files::{Naming, Output, Target, Wanted, Written};
use catalog::space::cut;
use catalog::state::{After, FileJob, PersistJob};
use catalog::FileLevel;
use errors::{ErrorKind, Result};
use format::header::Header;
use os::files;
use trace::metrics::Stop;
use trace::Activity;

/// Bytes after which the writer of a persistent file asks whether others wait for the memory that it reads.
const STEP: usize = 4 << 20;

/// Writes scratch files until the engine stops.
pub(crate) fn write(shared: &Shared) -> Result<()> {
    bind(shared)?;
    if !shared.file_side.await_earlier_jobs() {
        return shared.succession.may_write();
    }
    while let Some(job) = shared.catalog.next(Worker::Write, |state| state.down().next_write()) {
        shared.file_side.make_room(FileLevel::Scratch, &job.name);
        let written = write_temporary(shared, &job);
        if written.is_err() && shared.stopping() {
            // As after a kill: the successor, if there is one, writes it.
            return Ok(());
        }
        let naming = shared.file_side.naming.lock();
        let result = written
            .and_then(|written| give_name(&naming, shared, &job, written))
            .map_err(|error| shared.file_side.with_limit(FileLevel::Scratch, error))
            .map_err(|error| match shared.config.incremental {
                true => error.followed_by(
                    "later versions that are deltas of it cannot be restored (incremental)",
                ),
                false => error,
            })
            .map_err(|error| {
                match shared.file_side.files.places().has_older(
                    FileLevel::Scratch,
                    &job.name,
                    job.version,
                ) {
                    true => error.followed_by("scratch keeps its older file of that version"),
                    false => error,
                }
            })
            .map_err(about(&job.name, job.version));
        if matches!(result, Ok(true)) {
            // Before the write counts as done: a thread that waits for that finds the old versions gone.
            shared.file_side.arrived(&naming, FileLevel::Scratch, &job.name, job.version, job.id);
        }
        let result = result.map(|_| ());
        let failure = result.as_ref().err().map(ToString::to_string);
        let after = shared.step_counted(|state| state.down().write_done(&job, result));
        match after {
            After::Keep => {}
            After::Unlink => unlink(&naming, shared, &job.name, job.version),
            After::Warn => shared.file_side.goes_past_scratch(failure.unwrap_or_default()),
        }
        drop(naming);
    }
    Ok(())
}

/// Makes persistent copies until the engine stops.
pub(crate) fn persist(shared: &Shared) -> Result<()> {
    if !shared.file_side.await_earlier_jobs() {
        return shared.succession.may_write();
    }
    while let Some(job) = shared.catalog.next(Worker::Persist, |state| state.down().next_persist())
    {
        persist_one(shared, job, None, None);
    }
    Ok(())
}

/// Makes one persistent copy, on its worker or on the thread of an application that would wait for it (`mode
/// = sync`); `memory` are the captured regions, if they have not changed. `complete`: its file, if it was
/// written already at the same time as that in scratch.
pub(super) fn persist_one(
    shared: &Shared,
    mut job: PersistJob,
    memory: Option<&[Place]>,
    complete: Option<Output>,
) {
    let brought = match complete {
        Some(output) => Ok(Some(output)),
        None if job.routed.is_some() => bring(shared, &mut job, None),
        None => {
            shared.file_side.make_room(FileLevel::Persistent, &job.name);
            bring(shared, &mut job, memory)
        }
    };
    let job = &job;
    // Whoever finds it in persistent finds it in scratch, where it is nearer: not an older one.
    let alone = shared.catalog.wait_for_transfer(|state| state.checkpoints().is_alone(job.id));
    if shared.stopping() && (brought.is_err() || alone.is_err()) {
        if let Ok(Some(output)) = brought {
            discard(shared, output.finish());
        }
        return;
    }
    let mut gone = false;
    let (brought, named) = match (brought, alone) {
        (Ok(Some(output)), Ok(false)) => {
            let named = give_name_beside(shared, job, output);
            (
                Ok(None),
                named.map(|(named, is_in_scratch)| {
                    gone = !is_in_scratch;
                    named
                }),
            )
        }
        (Ok(Some(output)), Err(error)) => {
            output.finish().discard();
            (Ok(None), Err(error))
        }
        (brought, _) => (brought, Ok(true)),
    };
    let naming = shared.file_side.naming.lock();
    let straight = |output: Output| give_name_straight(&naming, shared, job, output.finish());
    let result = brought
        .and_then(|output| output.map_or(named, straight))
        .map_err(|error| shared.file_side.with_limit(FileLevel::Persistent, error))
        .map_err(|error| {
            match shared.file_side.files.places().has_older(
                FileLevel::Persistent,
                &job.name,
                job.version,
            ) {
                true => error.followed_by("persistent keeps its older file of that version"),
                false => error,
            }
        })
        .map_err(about(&job.name, job.version));
    if matches!(result, Ok(true)) {
        shared.file_side.arrived(&naming, FileLevel::Persistent, &job.name, job.version, job.id);
    }
    let result = result.map(|_| ());
    gone |= result.as_ref().is_err_and(|error| {
        error.kind() == ErrorKind::NotFound
            && shared.file_side.files.places().lacks_scratch(&job.name, job.version)
    });
    let after = shared.step_counted(|state| {
        if gone {
            state.down().scratch_is_gone(job.id);
        }
        state.down().persist_done(job, result)
    });
    // Its scratch file had to stay until now.
    shared.file_side.prune(&naming, FileLevel::Scratch, &job.name);
    if after == After::Unlink {
        unlink(&naming, shared, &job.name, job.version);
    }
}

/// Copies a scratch file to its place in persistent, or writes a checkpoint from memory there, under a
/// temporary name. A part of an aggregated file is written from `memory` if possible: a file system lets one
/// process at a time write to a shared file, and none should read a file while it does.
fn bring(
    shared: &Shared,
    job: &mut PersistJob,
    memory: Option<&[Place]>,
) -> Result<Option<Output>> {
    let since = Instant::now();
    let mut span = shared.telemetry.trace.span(Activity::Persist).of(&job.name, job.version);
    let place = job.place;
    let place = place.as_ref();
    let (hop, bytes, output) = match (&job.straight, place, memory) {
        (None, Some(place), Some(regions)) => {
            let put = |output: &mut Output| put_regions(output, regions);
            (
                (Stop::Application, Stop::Scratch),
                shared.file_side.files.aggregates().write_part(
                    &job.name,
                    job.version,
                    place,
                    put,
                )?,
                None,
            )
        }
        (None, ..) => {
            let routed = job.routed.as_deref();
            (
                (Stop::Scratch, Stop::Persistent),
                shared.file_side.files.persistent().persist(
                    &job.name,
                    job.version,
                    routed,
                    place,
                )?,
                None,
            )
        }
        (Some(source), ..) => {
            // The metrics have no way past scratch.
            let alone =
                shared.catalog.read(|state| state.checkpoints().is_alone(job.id)) == Some(true);
            let from = if alone { from_memory(source) } else { Stop::Scratch };
            let to = if alone { Stop::Scratch } else { Stop::Persistent };
            let output = write_straight(shared, job)?;
            ((from, to), output.end() - place.map_or(0, |place| place.offset), Some(output))
        }
    };
    shared.telemetry.metrics.hop(hop).add(bytes, since.elapsed());
    span.bytes(bytes);
    Ok(output)
}

/// Reads files ahead until the engine stops.
pub(crate) fn read(shared: &Shared) -> Result<()> {
    while let Some(job) = shared.catalog.next(Worker::Read, |state| state.up().next_read()) {
        let result = read_one(shared, &job).map_err(about(&job.name, job.version));
        if let Err(error) = &result {
            // Nothing is lost: the restore reads the files itself, and reports errors.
            shared.telemetry.degrade("read", format!("reading ahead failed: {error}"));
        }
        shared.step_counted(|state| state.up().read_done(&job, &result));
    }
    Ok(())
}

fn bind(shared: &Shared) -> Result<()> {
    match shared.device_side.attached.get() {
        Some(side) => side.device.bind(),
        None => Ok(()),
    }
}

fn write_temporary(shared: &Shared, job: &FileJob) -> Result<Written> {
    let since = Instant::now();
    let mut span = shared.telemetry.trace.span(Activity::Write).of(&job.name, job.version);
    let temporary = shared
        .file_side
        .files
        .places()
        .temporary(&shared.file_side.files.places().scratch_path(&job.name, job.version)?);
    let mut output = Output::create(temporary, shared.file_side.files.proofs().digest())?;
    let begun = shared
        .file_side
        .files
        .proofs()
        .compressor()
        .map_or(Ok(()), |compressor| output.compress(compressor));
    let mut gathering = output.gathering();
    let written = begun
        .and_then(|()| write_file(shared, job, |bytes| gathering.put(bytes)))
        .and_then(|()| gathering.finish())
        .and_then(|()| output.end_content())
        .and_then(|()| {
            shared.file_side.files.scratch().seal(&output, &job.name, job.version, job.identity)
        });
    let complete = output.finish();
    match written {
        Ok(()) => {
            shared
                .telemetry
                .metrics
                .hop((from_memory(job), Stop::Scratch))
                .add(complete.length(), since.elapsed());
            span.bytes(complete.length());
            Ok(complete)
        }
        Err(error) => {
            discard(shared, complete);
            Err(error)
        }
    }
}

/// Removes a file that was not completed. The end of the job waits for its worker.
fn discard(shared: &Shared, written: Written) {
    match shared.stopping() {
        true => written.discard_behind(),
        false => written.discard(),
    }
}

/// The source of a file that is written from memory: the first level that it is read from.
fn from_memory(job: &FileJob) -> Stop {
    let first = job.memory.iter().flatten().map(|source| source.level).min();
    first.map_or(Stop::HOST, stop)
}

/// Writes a persistent file from memory, under its temporary name; the rest from the scratch file once others
/// wait for that memory.
fn write_straight(shared: &Shared, job: &mut PersistJob) -> Result<Output> {
    bind(shared)?;
    let (name, version, place) = (job.name.clone(), job.version, job.place);
    let mut output =
        shared.file_side.files.persistent().create_straight(&name, version, place.as_ref())?;
    let mut written = Ok(());
    if let Some(source) = job.straight.clone() {
        let mut scratch = None;
        let compressor = shared.file_side.files.proofs().compressor().filter(|_| place.is_none());
        // A file whose bytes depend on those before cannot go on with the bytes of another one.
        let may_leave = compressor.is_none() && !shared.config.incremental;
        if let Some(compressor) = compressor {
            output.compress(compressor)?;
        }
        let mut gathering = output.gathering();
        written = write_file(shared, &source, |bytes| {
            for piece in bytes.chunks(STEP) {
                if may_leave {
                    scratch = scratch.take().or_else(|| scratch_in_place_of_memory(shared, job));
                }
                if scratch.is_some() {
                    break;
                }
                gathering.put(piece)?;
            }
            Ok(())
        });
        written = written.and_then(|()| gathering.finish());
        shared.catalog.step(|state| state.down().leave_memory(job));
        if let Some(scratch) = scratch {
            written = written.and_then(|()| {
                shared.file_side.files.persistent().append_scratch(
                    &scratch,
                    &mut output,
                    &name,
                    version,
                )
            });
        }
        written = written.and_then(|()| output.end_content());
    }
    let by = (job.identity, place.as_ref());
    let written = written.and_then(|()| {
        shared.file_side.files.persistent().seal_straight(&output, &name, version, by)
    });
    match written {
        Ok(()) => Ok(output),
        Err(error) => {
            // A part is in the file shared by all.
            if place.is_none() {
                discard(shared, output.finish());
            }
            Err(error)
        }
    }
}

/// The scratch file of a checkpoint that is being written to persistent from memory for which others wait.
fn scratch_in_place_of_memory(shared: &Shared, job: &PersistJob) -> Option<File> {
    let is_to_leave = || shared.catalog.read(|state| state.is_to_leave_memory(job.id));
    if !is_to_leave() {
        return None;
    }
    // Once more: without the lock, a newer checkpoint's file could get its name.
    let _naming = shared.file_side.naming.lock();
    // If it cannot be opened, memory has the bytes.
    is_to_leave()
        .then(|| shared.file_side.files.places().open_scratch(&job.name, job.version).ok())
        .flatten()
}

/// Gives a complete file its name. False: the checkpoint was replaced or cleaned up in the meantime.
fn give_name(
    naming: &Naming<'_>,
    shared: &Shared,
    job: &FileJob,
    written: Written,
) -> Result<bool> {
    if !shared.catalog.read(|state| state.checkpoints().still_wanted(job.id)) {
        return files::remove(written.temporary()).map(|()| false);
    }
    let named = shared.file_side.files.scratch().publish(naming, &written, &job.name, job.version);
    if named.is_err() {
        written.discard();
    }
    named.map(|()| true)
}

/// Gives a complete persistent file its name, where the checkpoint has a scratch file. False as for
/// [`give_name`]; the second value says whether the scratch file is still there.
fn give_name_beside(shared: &Shared, job: &PersistJob, output: Output) -> Result<(bool, bool)> {
    let naming = shared.file_side.naming.lock();
    // Until here the file is open, so that nobody takes it for a leftover.
    let written = output.finish();
    if !shared.catalog.read(|state| state.checkpoints().still_wanted(job.id)) {
        written.discard();
        return Ok((false, true));
    }
    let is_in_scratch = match shared.file_side.files.persistent().publish_beside(
        &naming,
        &written,
        &job.name,
        job.version,
    ) {
        Ok(is_in_scratch) => is_in_scratch,
        Err(error) => {
            written.discard();
            return Err(error);
        }
    };
    drop(naming);
    if !is_in_scratch {
        log::warn!(
            "checkpoint \"{}\" version {}: somebody has removed its file from scratch; persistent has it",
            job.name,
            job.version
        );
    }
    // The file counts only once its name is durable; no other file need wait for that.
    shared.file_side.files.places().sync_names_in_persistent().map(|()| (true, is_in_scratch))
}

/// Gives a complete file that bypasses scratch its name. False as for [`give_name`].
fn give_name_straight(
    naming: &Naming<'_>,
    shared: &Shared,
    job: &PersistJob,
    written: Written,
) -> Result<bool> {
    let place = job.place.as_ref();
    if !shared.catalog.read(|state| state.checkpoints().still_wanted(job.id)) {
        if place.is_none() {
            written.discard();
        }
        return Ok(false);
    }
    let named = shared.file_side.publish_straight(naming, &written, &job.name, job.version, place);
    if named.is_err() && place.is_none() {
        written.discard();
    }
    named.map(|()| true)
}

/// Passes the content of a checkpoint's file to `put`, piece by piece in order.
fn write_file(
    shared: &Shared,
    job: &FileJob,
    mut put: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    if shared.write_changed(job, &mut put)?.is_some() {
        return Ok(());
    }
    let header = Header::new(job.regions.iter().map(|r| (r.id, r.stored())).collect())?;
    put(&header.encode())?;
    for region in job.regions.iter() {
        let Some(source) = &job.memory[region.part as usize] else {
            continue;
        };
        shared.read_memory(source, region, &mut put)?;
    }
    Ok(())
}

fn read_one(shared: &Shared, job: &FileJob) -> Result<()> {
    let since = Instant::now();
    let mut span = shared.telemetry.trace.span(Activity::Read).of(&job.name, job.version);
    let host = shared.host_side.host()?;
    let mut bytes = 0;
    shared.file_side.files.of_run(job.identity).copies().read_nearest(
        &job.name,
        job.version,
        |opened| {
            bytes = 0;
            let mut wanted = Vec::new();
            for region in job.regions.iter() {
                let Some(source) = &job.memory[region.part as usize] else {
                    continue;
                };
                let mut offset = opened.offset_of(region)?;
                for extent in cut(&source.extents, region.offset, region.size) {
                    // SAFETY: the room is this job's alone, within the mapping, and no two extents overlap. A
                    // slice is made for each copy that is tried; only one exists at a time.
                    let into = unsafe {
                        std::slice::from_raw_parts_mut(
                            host.address(extent.offset),
                            extent.len as usize,
                        )
                    };
                    wanted.push(Wanted::new(offset, Target::Memory(into)));
                    offset += extent.len;
                }
                bytes += region.size;
            }
            Ok(wanted)
        },
    )?;
    for source in job.memory.iter().flatten() {
        host.written(&source.extents);
    }
    shared.telemetry.metrics.hop((Stop::Scratch, Stop::HOST)).add(bytes, since.elapsed());
    span.bytes(bytes);
    Ok(())
}

fn unlink(naming: &Naming<'_>, shared: &Shared, name: &str, version: i32) {
    shared.file_side.left_scratch(naming, name, version);
    if let Err(error) = shared.file_side.files.removal().remove_scratch(name, version, None) {
        log::warn!("{error}");
    }
}
