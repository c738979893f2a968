//! The library's metrics of a job.

use std::ffi::{c_char, c_int};
use std::sync::atomic::Ordering;

use super::boundary::{guarded, status, with_client};
use catalog::Level;
use client::Client;
use erasure::node::Node;
use errors::{Error, Result};
use policy::touch::{Rate, TouchMode};
use trace::metrics::{Sum, CAUSES, HOPS};

/// Index in `hops`: from the application's memory to the device cache.
pub const VELOC_HOP_ATOD: usize = 0;
/// Index in `hops`: from the application's memory to the host buffer.
pub const VELOC_HOP_ATOH: usize = 1;
/// Index in `hops`: from the application's memory to a scratch file.
pub const VELOC_HOP_ATOF: usize = 2;
/// Index in `hops`: from the device cache to the host buffer.
pub const VELOC_HOP_DTOH: usize = 3;
/// Index in `hops`: from the device cache to a scratch file.
pub const VELOC_HOP_DTOF: usize = 4;
/// Index in `hops`: from the host buffer to a scratch file.
pub const VELOC_HOP_HTOF: usize = 5;
/// Index in `hops`: from a scratch file to a persistent file.
pub const VELOC_HOP_FTOP: usize = 6;
/// Index in `hops`: from a persistent file to a scratch file.
pub const VELOC_HOP_PTOF: usize = 7;
/// Index in `hops`: from a scratch file to the host buffer.
pub const VELOC_HOP_FTOH: usize = 8;
/// Index in `hops`: from the host buffer to the device cache.
pub const VELOC_HOP_HTOD: usize = 9;
/// Index in `hops`: from the device cache to the application's memory.
pub const VELOC_HOP_DTOA: usize = 10;
/// Index in `hops`: from the host buffer to the application's memory.
pub const VELOC_HOP_HTOA: usize = 11;
/// Index in `hops`: from a scratch file to the application's memory.
pub const VELOC_HOP_FTOA: usize = 12;
/// The number of hops.
pub const VELOC_HOPS: usize = 13;
/// Index in `blocked`: the call's own copy, into or out of the first level.
pub const VELOC_WAIT_COPY: usize = 0;
/// Index in `blocked`: the application's own work that was queued before the checkpoint.
pub const VELOC_WAIT_ORDER: usize = 1;
/// Index in `blocked`: mapping of the device cache.
pub const VELOC_WAIT_MAP: usize = 2;
/// Index in `blocked`: room in the device cache.
pub const VELOC_WAIT_DEVICE_ROOM: usize = 3;
/// Index in `blocked`: room in the host buffer.
pub const VELOC_WAIT_HOST_ROOM: usize = 4;
/// Index in `blocked`: in a restore, bytes that come up from a lower level.
pub const VELOC_WAIT_FETCH: usize = 5;
/// Index in `blocked`: files: `mode = sync`, a checkpoint larger than memory, or a restore from a
/// file.
pub const VELOC_WAIT_FILE: usize = 6;
/// Index in `blocked`: `VELOC_Checkpoint_wait` or a draining `VELOC_Finalize`.
pub const VELOC_WAIT_DRAIN: usize = 7;
/// The number of causes of waiting.
pub const VELOC_WAITS: usize = 8;

/// A sum over events: how much, how long, how many.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VELOC_Sum {
    /// Bytes moved; 0 where nothing moves.
    pub bytes: u64,
    /// Time in nanoseconds.
    pub nanoseconds: u64,
    /// Number of events.
    pub count: u64,
}

/// The figures of a job. New members are added at the end only; VELOC_Get_metrics fills as many as
/// the caller's size covers.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VELOC_Metrics {
    /// Bytes moved from one place to another, by `VELOC_HOP_*`.
    pub hops: [VELOC_Sum; VELOC_HOPS],
    /// Time the application was kept waiting, by `VELOC_WAIT_*`.
    pub blocked: [VELOC_Sum; VELOC_WAITS],
    /// Mapping of the device cache in the background.
    pub map: VELOC_Sum,
    /// Touching of the host buffer in the background, time added over the threads.
    pub touch: VELOC_Sum,
    /// Registration of the host buffer in the background.
    pub registration: VELOC_Sum,
    /// Waiting for the node's lock on registration, in the background.
    pub turn: VELOC_Sum,
    /// Time that initialisation took.
    pub init: VELOC_Sum,
    /// Bytes of the device cache that are mapped.
    pub device_capacity: u64,
    /// Free bytes of the mapped device cache.
    pub device_free: u64,
    /// Bytes of the host buffer.
    pub host_capacity: u64,
    /// Free bytes of the host buffer.
    pub host_free: u64,
    /// Bytes of the host buffer whose pages exist.
    pub host_touched: u64,
    /// Bytes of the host buffer that are registered.
    pub host_registered: u64,
    /// Checkpoints taken.
    pub checkpoints: u64,
    /// Checkpoints restored.
    pub restores: u64,
    /// Checkpoints that can be restored from memory, or from files that this job has met.
    pub live: u64,
    /// Copies that left the device cache to make room.
    pub device_evictions: u64,
    /// Copies that left the host buffer to make room.
    pub host_evictions: u64,
    /// Consumed checkpoints of an ephemeral job that were discarded to make room.
    pub discards: u64,
    /// Checkpoints of an ephemeral job that overflowed to files.
    pub spills: u64,
    /// Copies fetched to the device cache ahead of their restore.
    pub fetches: u64,
    /// Restores of device memory that found their bytes in the device cache.
    pub device_hits: u64,
    /// Restores of device memory that did not.
    pub device_misses: u64,
    /// The touching in force: 0 sequential, 1 concurrent.
    pub touch_mode: u64,
    /// How often `touch = auto` has changed its mode.
    pub touch_changes: u64,
    /// Rates that decide the touching, in bytes per second; 0 where not measured. In this order:
    /// touching alone, touching beside a flush, flushing to touched pages, flushing to untouched
    /// pages, flushing beside touching.
    pub touch_rates: [f64; 5],
    /// Bytes of a checkpoint, a running mean.
    pub touch_checkpoint_bytes: f64,
    /// Seconds from the end of one checkpoint to the beginning of the next, a running mean.
    pub touch_interval: f64,
    /// Predicted seconds of a flush with sequential and with concurrent touching, from what was
    /// measured until now; 0 before there is a prediction.
    pub touch_predictions: [f64; 2],
    /// Whether the device in use is the software device, whose times say nothing about a GPU.
    pub software_device: u64,
    /// Parities of erasure coding that this process has made, in the background.
    pub encode: VELOC_Sum,
    /// Checkpoints that erasure coding failed to protect.
    pub encode_failures: u64,
    /// Calls of VELOC_Checkpoint that have taken one, and their time, waiting included.
    pub checkpoint_calls: VELOC_Sum,
    /// Calls of VELOC_Restart that have restored one, and their time, waiting included.
    pub restart_calls: VELOC_Sum,
    /// Compression of regions (VELOC_Mem_compress): their bytes before it, and its time.
    pub compress: VELOC_Sum,
    /// Decompression of regions: their bytes after it, and its time.
    pub decompress: VELOC_Sum,
    /// Bytes of the compressed regions after compression.
    pub compressed_bytes: u64,
    /// Blocks of 64 values in compressed regions that were kept whole, to stay within the bound.
    pub compressed_whole: u64,
    /// Regions that were to be compressed and were not.
    pub uncompressed: u64,
}

fn sum(sum: &Sum) -> VELOC_Sum {
    VELOC_Sum { bytes: sum.amount(), nanoseconds: sum.nanoseconds(), count: sum.count() }
}

fn collect(client: &Client) -> VELOC_Metrics {
    let engine = client.engine();
    let metrics = &engine.metrics();
    let (counts, live) = engine.checkpoints().counts();
    let [device, host] = [Level::DEVICE, Level::HOST].map(|level| engine.checkpoints().room(level));
    let model = engine.host_side().touch_model();
    let inputs = model.inputs();
    let prediction = model.prediction().unwrap_or_default();
    let rate = |rate: Rate| rate.get().unwrap_or_default();
    VELOC_Metrics {
        hops: HOPS.map(|(hop, _)| sum(metrics.hop(hop))),
        blocked: CAUSES.map(|(cause, _)| sum(metrics.blocked(cause))),
        map: sum(&metrics.map),
        touch: sum(&metrics.touch),
        registration: sum(&metrics.register),
        turn: sum(&metrics.node_lock),
        init: sum(&metrics.init),
        device_capacity: device.0,
        device_free: device.1,
        host_capacity: host.0,
        host_free: host.1,
        host_touched: engine.host_side().buffer().as_ref().map_or(0, |host| host.touched_bytes()),
        host_registered: engine
            .host_side()
            .buffer()
            .as_ref()
            .map_or(0, |host| host.registrations().bytes()),
        checkpoints: counts.checkpoints,
        restores: counts.restores,
        live,
        device_evictions: counts.evictions[Level::DEVICE.index()],
        host_evictions: counts.evictions[Level::HOST.index()],
        discards: counts.discards,
        spills: counts.spills,
        fetches: counts.fetches,
        device_hits: counts.device_hits,
        device_misses: counts.device_misses,
        touch_mode: match model.mode() {
            TouchMode::Sequential => 0,
            TouchMode::Concurrent => 1,
        },
        touch_changes: model.changes(),
        touch_rates: [
            rate(inputs.touch_alone),
            rate(inputs.touch_beside_flush),
            rate(inputs.flush_touched),
            rate(inputs.flush_untouched),
            rate(inputs.flush_beside_touch),
        ],
        touch_checkpoint_bytes: inputs.checkpoint_bytes,
        touch_interval: inputs.interval,
        touch_predictions: [prediction.sequential, prediction.concurrent],
        software_device: engine
            .device_side()
            .device()
            .is_ok_and(|device| device.is_software())
            .into(),
        encode: sum(&metrics.encode),
        encode_failures: metrics.encode_failures.load(Ordering::Relaxed)
            + engine.file_side().erasure().map_or(0, Node::unprotected),
        checkpoint_calls: sum(&metrics.checkpoint_calls),
        restart_calls: sum(&metrics.restart_calls),
        compress: sum(&metrics.compress),
        decompress: sum(&metrics.decompress),
        compressed_bytes: metrics.compressed_bytes.load(Ordering::Relaxed),
        compressed_whole: metrics.compressed_whole.load(Ordering::Relaxed),
        uncompressed: metrics.uncompressed.load(Ordering::Relaxed),
    }
}

/// The bytes that the job has moved per hop, as one line of text: `{AtoD : 1048576, AtoH : 0,
/// ...}`.
///
/// @param text  gets at most 379 bytes, the final NUL included; the prototype asks for 1024. Empty
///              outside a job
///
/// Source: VELOC_Get_trf_metrics of VELOC's GPU prototype.
///
/// # Safety
/// `text` is NULL or has 1024 bytes.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Get_trf_metrics(text: *mut c_char) {
    let found = guarded("VELOC_Get_trf_metrics", || {
        if text.is_null() {
            return Err(Error::invalid("text is NULL"));
        }
        with_client(|client| Ok(client.engine().metrics().text()))
    });
    if !text.is_null() {
        let found = found.unwrap_or_default();
        // SAFETY: the text and its NUL are shorter than 1024 bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(found.as_ptr(), text.cast(), found.len());
            text.add(found.len()).write(0);
        }
    }
}

/// All figures of the job.
///
/// @param metrics  gets the figures
/// @param size     `sizeof(VELOC_Metrics)` of the caller; members beyond it are left out, members
///                 that this library does not know are set to 0
/// @return VELOC_SUCCESS; VELOC_FAILURE outside a job or if `metrics` is NULL
///
/// Source: an addition of this library.
///
/// # Safety
/// `metrics` is NULL or has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Get_metrics(metrics: *mut VELOC_Metrics, size: usize) -> c_int {
    status("VELOC_Get_metrics", || -> Result<()> {
        if metrics.is_null() {
            return Err(Error::invalid("metrics is NULL"));
        }
        let found = with_client(|client| Ok(collect(client)))?;
        // SAFETY: the caller's promise, and not NULL.
        unsafe { hand_out(&found, metrics, size) };
        Ok(())
    })
}

/// Gives a structure to a caller whose own has `size` bytes.
///
/// # Safety
/// So many bytes at `to` can be written, and those of `found` are all initialised.
unsafe fn hand_out<T>(found: &T, to: *mut T, size: usize) {
    let known = std::mem::size_of::<T>();
    let (from, to) = (std::ptr::from_ref(found).cast::<u8>(), to.cast::<u8>());
    // SAFETY: the caller's promise; of ours, `known` bytes exist.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, size.min(known));
        if size > known {
            to.add(known).write_bytes(0, size - known);
        }
    }
}

/// How `VELOC_Checkpoint` took host memory, and what that cost. New members are added at the end
/// only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VELOC_Snapshot {
    /// How the last VELOC_Checkpoint took host memory: VELOC_CAPTURE_COPY, VELOC_CAPTURE_PROTECT or
    /// VELOC_CAPTURE_FORK; 0: there was none.
    pub mode: u64,
    /// Checkpoints of host memory since the start of the job.
    pub checkpoints: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds that their calls have taken.
    pub blocked: u64,
    /// Bytes that were copied because the application was about to write to them
    /// (VELOC_CAPTURE_PROTECT).
    pub copied_ahead: u64,
    /// Checkpoints that could not be completed after their call; their versions do not exist.
    pub failed: u64,
    /// Why the last one was taken in its mode: a text that ends with NUL.
    pub reason: [c_char; VELOC_SNAPSHOT_REASON],
}

/// Bytes of the reason in a VELOC_Snapshot.
pub const VELOC_SNAPSHOT_REASON: usize = 256;

/// How checkpoints have taken host memory, why, and what that has cost the application.
///
/// @param stats  gets the figures
/// @param size   `sizeof(VELOC_Snapshot)` of the caller; members beyond it are left out, members
///               that this library does not know are set to 0
/// @return VELOC_SUCCESS; VELOC_FAILURE outside a job or if `stats` is NULL
///
/// Source: an addition of this library; CRUM, section V.
///
/// # Safety
/// `stats` points to `size` bytes that can be written.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Snapshot_stats(stats: *mut VELOC_Snapshot, size: usize) -> c_int {
    status("VELOC_Snapshot_stats", || -> Result<()> {
        if stats.is_null() {
            return Err(Error::invalid("stats is NULL"));
        }
        let found = with_client(|client| Ok(client.engine().captures().snapshots()))?;
        let mut reason = [0; VELOC_SNAPSHOT_REASON];
        for (to, from) in reason[..VELOC_SNAPSHOT_REASON - 1].iter_mut().zip(found.reason.bytes()) {
            *to = from as c_char;
        }
        let mode = match found.way {
            _ if found.checkpoints == 0 => 0,
            way => way.row().number.unwrap_or_default(),
        };
        let found = VELOC_Snapshot {
            mode: u64::from(mode),
            checkpoints: found.checkpoints,
            bytes: found.bytes,
            blocked: u64::try_from(found.blocked.as_nanos()).unwrap_or(u64::MAX),
            copied_ahead: found.ahead,
            failed: found.failed,
            reason,
        };
        // SAFETY: the caller's promise, and not NULL.
        unsafe { hand_out(&found, stats, size) };
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails if a constant of the header names another hop or cause than the library counts there.
    #[test]
    fn indices_have_the_names_that_the_library_gives() {
        let header = include_str!("../../include/veloc/metrics.h");
        let index = |name: &str| {
            let line = header.lines().find(|line| line.starts_with(&format!("#define {name} ")));
            line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
        };
        for (i, (_, name)) in HOPS.iter().enumerate() {
            assert_eq!(index(&format!("VELOC_HOP_{}", name.to_uppercase())), Some(i), "{name}");
        }
        for (i, (_, name)) in CAUSES.iter().enumerate() {
            let name = name.to_uppercase().replace(' ', "_");
            assert_eq!(index(&format!("VELOC_WAIT_{name}")), Some(i), "{name}");
        }
    }
}
