//! Regions that are encoded on their way into a checkpoint, and decoded on their way back (`VELOC_Mem_compress`).
//!
//! What is captured, stored and restored are the encoded bytes; only here is known what they mean. They are in
//! buffers of this process, which are kept, as the next checkpoint needs as much. Device memory is encoded and
//! decoded on the device ([`engine::device_compression`]), where there is room for it.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Instant;

use super::recovering::zeros;
use super::regions::Compression;
use catalog::Region;
use compression::{decode, encode, encoded_len, Header, Outcome};
use device::Pointer;
use engine::device_compression::EncodedBuffer;
use engine::place::{check_mapped, Place};
use engine::Engine;
use errors::{Error, ErrorKind, Result};
use os::affinity::usable_cpus;
use os::sync::Mutex;
use trace::Activity;

/// The threads that encode and decode, at most.
const MOST_THREADS: usize = 8;

/// Bytes of the largest element.
const LARGEST_ELEMENT: u64 = 8;

/// Buffers for encoded bytes that are not used.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// A buffer, until it is dropped.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    from: Buffers,
}

/// Encoded bytes, or room for them, until it is dropped.
#[derive(Debug)]
pub(super) enum Encoded {
    /// In this process's memory.
    OnHost(Buffer),
    /// On the device.
    OnDevice(EncodedBuffer),
}

impl Buffers {
    /// A buffer of `len` bytes, whose content does not matter.
    fn take(&self, len: u64) -> Result<Buffer> {
        let mut idle = self.0.lock();
        let fits = idle.iter().position(|bytes| bytes.len() as u64 == len);
        let bytes = match fits {
            Some(at) => idle.swap_remove(at),
            None => {
                // Those of other lengths are of regions that are not there any more.
                idle.pop();
                zeros(len)?
            }
        };
        Ok(Buffer { bytes, from: self.clone() })
    }

    /// Encodes a region, if that makes it smaller within the bound. Returns where its bytes are then.
    ///
    /// # Errors
    /// It is not there any more; or the driver's.
    pub(super) fn encode(
        &self,
        engine: &Engine,
        place: Place,
        how: &Compression,
    ) -> Result<Option<(Place, Encoded)>> {
        let metrics = engine.metrics();
        let stored = encoded_len(place.len, how.element, how.bits)?;
        if stored >= place.len {
            metrics.uncompressed.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        let encoded = match place.kind {
            Pointer::Host { pinned } => {
                Some(self.encode_on_host(engine, place, pinned, stored, how)?)
            }
            Pointer::Device { .. } => encode_on_device(engine, &place, how)?,
        };
        let Some((small, buffer, outcome, since)) = encoded else {
            metrics.uncompressed.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        };
        match outcome {
            Outcome::Done { error, whole, .. } => {
                let time = since.elapsed();
                metrics.compress.add(place.len, time);
                metrics.compressed_bytes.fetch_add(stored, Ordering::Relaxed);
                metrics.compressed_whole.fetch_add(whole, Ordering::Relaxed);
                engine.trace().spent(Activity::Compress, since, time, place.len);
                engine.trace().compressed(how.bits.number(), stored, error, whole);
                Ok(Some((small, buffer)))
            }
            Outcome::Overflow => {
                metrics.uncompressed.fetch_add(1, Ordering::Relaxed);
                engine.files().warnings().once(format!(
                    "region {}: more than one in 128 of its blocks cannot have {} bits a value within the bound \
                     (VELOC_Mem_compress), so it is taken as it is",
                    place.id,
                    how.bits.number()
                ));
                Ok(None)
            }
        }
    }

    fn encode_on_host(
        &self,
        engine: &Engine,
        place: Place,
        pinned: bool,
        stored: u64,
        how: &Compression,
    ) -> Result<(Place, Encoded, Outcome, Instant)> {
        check_mapped(std::iter::once(&place))?;
        if pinned {
            engine.device_side().await_queued()?;
        }
        let mut buffer = self.take(stored)?;
        let since = Instant::now();
        // SAFETY: the application protects `len` readable bytes there and does not change them during the call.
        let content =
            unsafe { std::slice::from_raw_parts(place.address as *const u8, place.len as usize) };
        let threads = usable_cpus().min(MOST_THREADS);
        let outcome =
            encode(content, how.element, how.bits, &how.bound, threads, &mut buffer.bytes)?;
        let encoded = Place::plain(place.id, buffer.bytes.as_ptr(), buffer.bytes.len());
        let small = Place { decoded: Some(place.len), ..encoded };
        Ok((small, Encoded::OnHost(buffer), outcome, since))
    }

    /// Room for the encoded bytes of a region that is about to be restored to this memory: on the device, if that
    /// decodes them.
    pub(super) fn room(
        &self,
        engine: &Engine,
        region: &Region,
        to: &Place,
    ) -> Result<(Place, Encoded)> {
        if is_device(to, LARGEST_ELEMENT) {
            if let Some((place, buffer)) = engine.device_side().encoded_room(to, region.size)? {
                return Ok((place, Encoded::OnDevice(buffer)));
            }
        }
        let (place, buffer) = self.room_on_host(region)?;
        Ok((place, Encoded::OnHost(buffer)))
    }

    /// Room in this process's memory.
    pub(super) fn room_on_host(&self, region: &Region) -> Result<(Place, Buffer)> {
        let mut buffer = self.take(region.size)?;
        let place = Place::plain(region.id, buffer.bytes.as_mut_ptr(), buffer.bytes.len());
        Ok((place, buffer))
    }
}

/// Whether it is memory of the device alone, aligned to so many bytes.
fn is_device(place: &Place, alignment: u64) -> bool {
    matches!(place.kind, Pointer::Device { managed: false, .. })
        && place.address.is_multiple_of(alignment)
}

/// `None`: it is taken as it is.
fn encode_on_device(
    engine: &Engine,
    place: &Place,
    how: &Compression,
) -> Result<Option<(Place, Encoded, Outcome, Instant)>> {
    let bytes = how.element.bytes() as u64;
    if !is_device(place, bytes) {
        engine.files().warnings().once(format!(
            "region {}: managed memory, and device memory that is not aligned to {bytes} bytes, is taken as it is, \
             and not compressed (VELOC_Mem_compress)",
            place.id
        ));
        return Ok(None);
    }
    let kind = (how.element, how.bits, &how.bound);
    let compressed = engine.device_side().compress(place, kind);
    let compressed = compressed.map_err(|error| error.within(format!("region {}", place.id)))?;
    Ok(compressed
        .map(|done| (done.place, Encoded::OnDevice(done.buffer), done.outcome, done.since)))
}

impl Encoded {
    /// Decodes what was restored into memory of the application.
    ///
    /// # Errors
    /// They are no encoded bytes, or of another length; or the driver's.
    pub(super) fn decode(&self, engine: &Engine, to: &Place) -> Result<()> {
        let buffer = match self {
            Encoded::OnHost(buffer) => return buffer.decode(engine, to),
            Encoded::OnDevice(buffer) => buffer,
        };
        let since = Instant::now();
        let decoded = engine.device_side().decompress(buffer, to);
        decoded.map_err(|error| error.within(format!("region {}", to.id)))?;
        count(engine, to, since);
        Ok(())
    }
}

/// Counts a region that was decoded.
fn count(engine: &Engine, to: &Place, since: Instant) {
    engine.metrics().decompress.add(to.len, since.elapsed());
    engine.trace().spent(Activity::Decompress, since, since.elapsed(), to.len);
}

impl Buffer {
    /// Decodes what was restored into memory of the application.
    ///
    /// # Errors
    /// They are no encoded bytes, or of another length.
    pub(super) fn decode(&self, engine: &Engine, to: &Place) -> Result<()> {
        let within = |error: Error| error.within(format!("region {}", to.id));
        let decoded = Header::read(&self.bytes).map_err(within)?.content_len;
        if decoded != to.len {
            let text = format!("it decodes to {decoded} bytes, and its checkpoint says {}", to.len);
            return Err(within(Error::new(ErrorKind::Corrupt, text)));
        }
        if matches!(to.kind, Pointer::Device { .. }) {
            let since = Instant::now();
            let mut content = zeros(to.len)?;
            decode(&self.bytes, &mut content, usable_cpus().min(MOST_THREADS)).map_err(within)?;
            engine.device_side().write_application(to, content).map_err(within)?;
            count(engine, to, since);
            return Ok(());
        }
        // SAFETY: the application has `len` writable bytes there, which was checked, and uses them for nothing else during
        // the call.
        let content =
            unsafe { std::slice::from_raw_parts_mut(to.address as *mut u8, to.len as usize) };
        let since = Instant::now();
        decode(&self.bytes, content, usable_cpus().min(MOST_THREADS)).map_err(within)?;
        count(engine, to, since);
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.from.0.lock().push(bytes);
    }
}
