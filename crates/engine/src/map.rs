//! The worker that maps the device cache in the background (HiPC'22, section IV), lets it grow, and gives memory back.

use std::time::Instant;

use super::monitor::{Next, Worker};
use super::shared::Shared;
use catalog::Level;
use errors::{Error, ErrorKind, Result};
use levels::device_cache::DeviceCache;
use os::precedence::Precedence;
use os::size;
use policy::map::{may_grow, may_map, CHUNK, IDLE_AFTER, PIECE};
use trace::{Activity, Counter};

/// The driver's `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: u32 = 2;

/// Maps the device cache, piece by piece, until it has what it begins with or the device has no more memory. Then
/// it grows and shrinks, if it may. Does `then` in between, for which no capture waits.
pub(crate) fn map(shared: &Shared, then: impl FnOnce() -> Result<()>) -> Result<()> {
    shared.device_side.attached()?.device.bind()?;
    let cache = shared.device_side.cache()?;
    let precedence = precedence(shared);
    let claim = precedence.as_ref().and_then(|all| heard(shared, all.claim()));
    let given = shared.config.gpu_chunk_size;
    let mut chunk = given.unwrap_or(PIECE);
    while !shared.stopping() && cache.mapped() < cache.first() {
        let left = cache.first() - cache.mapped();
        if let Err(error) = map_chunk(shared, cache, chunk.min(left), may_map) {
            if given.is_none() && chunk > CHUNK {
                // There may be less.
                chunk = CHUNK;
                continue;
            }
            shared.telemetry.degrade(
                "map",
                format!(
                    "the device cache has {} of the {} asked for (gpu_cache_size): {error}",
                    size::show(cache.mapped()),
                    size::show(cache.first())
                ),
            );
            break;
        }
    }
    shared.catalog.step(|state| state.growth().completed(Level::DEVICE));
    drop(claim);
    if shared.stopping() {
        return Ok(());
    }
    then()?;
    match cache.reserved() > cache.first() {
        true => grow(shared, cache, precedence.as_ref()),
        false => Ok(()),
    }
}

/// What all processes of the node that map say to those that register.
pub(crate) fn precedence(shared: &Shared) -> Option<Precedence> {
    heard(shared, Precedence::open())
}

/// The value; or none, which is said once.
pub(crate) fn heard<T>(shared: &Shared, result: Result<T>) -> Option<T> {
    result
        .inspect_err(|error| {
            if shared.telemetry.is_new("precedence") {
                log::info!("mapping does not go before other processes' registrations: {error}");
            }
        })
        .ok()
}

/// Maps the next `chunk` bytes of the device cache, if that `may` be with the device's free and total memory.
fn map_chunk(
    shared: &Shared,
    cache: &DeviceCache,
    chunk: u64,
    may: fn(u64, u64, u64) -> bool,
) -> Result<()> {
    let device = &shared.device_side.attached()?.device;
    let since = Instant::now();
    let mut span = shared.telemetry.trace.span(Activity::Map);
    let free = device.free_memory()?;
    if !may(chunk, free, device.total_memory()) {
        let what = format!("the device has {} left", size::show(free));
        return Err(Error::new(ErrorKind::NoRoom, what));
    }
    let bytes = cache.map_next(chunk)?;
    shared.telemetry.metrics.map.add(bytes, since.elapsed());
    span.bytes(bytes);
    drop(span);
    shared.catalog.step(|state| state.growth().grown(Level::DEVICE, bytes));
    shared.telemetry.trace.counter(Counter::DeviceMapped, cache.mapped());
    Ok(())
}

/// Lets the device cache grow while captures would wait for room, and gives back what it has grown by when the job
/// is idle.
fn grow(shared: &Shared, cache: &DeviceCache, precedence: Option<&Precedence>) -> Result<()> {
    let kept = cache.mapped();
    let chunk = shared.config.gpu_chunk_size.unwrap_or(CHUNK);
    let mut refused = false;
    let mut counts = shared.catalog.read(|state| state.counts());
    loop {
        let within = (refused || cache.mapped() > kept).then_some(IDLE_AFTER);
        let next = shared.catalog.next_within(Worker::Grow, within, |state| {
            Some(state.levels().wanted(Level::DEVICE)).filter(|wanted| *wanted > 0)
        });
        match next {
            Next::Job(_) => {
                let left = cache.reserved() - cache.mapped();
                let _claim = precedence.and_then(|all| heard(shared, all.claim()));
                if let Err(error) = map_chunk(shared, cache, chunk.min(left), may_grow) {
                    refused = true;
                    shared.catalog.step(|state| state.growth().refused(Level::DEVICE));
                    let (mapped, most) = (cache.mapped(), cache.reserved());
                    shared.telemetry.degrade("grow", cannot_grow(mapped, most, &error));
                }
            }
            Next::Late => {
                if std::mem::take(&mut refused) {
                    shared.catalog.step(|state| state.growth().ask_again(Level::DEVICE));
                }
                let now = shared.catalog.read(|state| state.counts());
                if std::mem::replace(&mut counts, now) == now {
                    shrink(shared, cache, kept);
                    counts = shared.catalog.read(|state| state.counts());
                }
            }
            Next::Stop => return Ok(()),
        }
    }
}

/// What is said of a device cache of `mapped` bytes that is to have `most` of them, and is not given more.
fn cannot_grow(mapped: u64, most: u64, error: &Error) -> String {
    let until = match error.kind() {
        ErrorKind::NoRoom | ErrorKind::Driver(OUT_OF_MEMORY) => ", until memory is free",
        _ => "",
    };
    let (mapped, most) = (size::show(mapped), size::show(most));
    format!(
        "the device cache stays at {mapped}, of {most} at most (gpu_cache_size){until}: {error}"
    )
}

/// Gives back the chunks of the device cache behind the first `kept` bytes, from the end, up to one that is needed.
fn shrink(shared: &Shared, cache: &DeviceCache, kept: u64) {
    while let Some(start) = cache.last_chunk().filter(|start| *start >= kept) {
        let free = shared.catalog.step(|state| state.growth().shrink(Level::DEVICE, start));
        if shared.stopping() || !free {
            break;
        }
        let bytes = cache.mapped() - start;
        // SAFETY: the catalog has taken the room back, so no copy is there, and whoever used one has waited for its
        // own copies before.
        if let Err(error) = unsafe { cache.unmap_last() } {
            shared.catalog.step(|state| state.growth().grown(Level::DEVICE, bytes));
            shared.telemetry.degrade(
                "shrink",
                format!("unused memory of the device cache cannot be given back: {error}"),
            );
            break;
        }
        shared.telemetry.trace.counter(Counter::DeviceMapped, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a refusal that is said to end with others' memory, where the driver has failed.
    #[test]
    fn the_reason_that_a_cache_does_not_grow() {
        let said = |kind| cannot_grow(1 << 30, 4 << 30, &Error::new(kind, "cuMemCreate: why"));
        for kind in [ErrorKind::NoRoom, ErrorKind::Driver(OUT_OF_MEMORY)] {
            let wanted = "stays at 1 GiB, of 4 GiB at most (gpu_cache_size), until memory is free: cuMemCreate: why";
            assert!(said(kind).ends_with(wanted), "{}", said(kind));
        }
        let failed = said(ErrorKind::Driver(800));
        assert!(failed.ends_with("at most (gpu_cache_size): cuMemCreate: why"), "{failed}");
    }
}
