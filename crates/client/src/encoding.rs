//! Regions that are encoded on their way into a checkpoint, and decoded on their way back (`VELOC_Mem_compress`).
//!
//! What is captured, stored and restored are the encoded bytes; only here is known what they mean. They are in
//! buffers of this process, which are kept, as the next checkpoint needs as much. Device memory is encoded and
//! decoded on the device ([`engine::device_compression`]), where there is room for it.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Instant;

use super::recovering::zeros;
use super::terms::{Compression, Encoding};
use catalog::Region;
use compression::{
    decode, encode, encode_lossless, encoded_len, is_worthwhile, lossless_room, AnyHeader, Outcome,
};
use device::Pointer;
use engine::device_compression::{Compressed, EncodedBuffer};
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

/// A region that was encoded.
#[derive(Debug)]
struct Made {
    /// Its bytes then.
    place: Place,
    /// Where they are.
    buffer: Encoded,
    outcome: Outcome,
    since: Instant,
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
        let room = match how.way {
            Encoding::Bounded { bits, .. } => encoded_len(place.len, how.element, bits)?,
            Encoding::Lossless => lossless_room(place.len, how.element)?,
        };
        let made = match place.kind {
            _ if room >= place.len => None,
            Pointer::Host { pinned } => self.encode_on_host(engine, place, pinned, room, how)?,
            Pointer::Device { .. } => encode_on_device(engine, &place, how)?,
        };
        match made {
            Some(Made {
                place: small,
                buffer,
                outcome: Outcome::Done { error, whole, .. },
                since,
            }) => {
                let (time, stored) = (since.elapsed(), small.len);
                metrics.compress.add(place.len, time);
                metrics.compressed_bytes.fetch_add(stored, Ordering::Relaxed);
                metrics.compressed_whole.fetch_add(whole, Ordering::Relaxed);
                engine.trace().spent(Activity::Compress, since, time, place.len);
                engine.trace().compressed(how.way.bits(), stored, error, whole);
                return Ok(Some((small, buffer)));
            }
            Some(Made { outcome: Outcome::Overflow, .. }) => {
                engine.files().warnings().once(format!(
                    "region {}: more than one in 128 of its blocks would exceed the error bound with {} bits a value \
                     (VELOC_Mem_compress), so it is stored without compression",
                    place.id,
                    how.way.bits()
                ));
            }
            None => {}
        }
        metrics.uncompressed.fetch_add(1, Ordering::Relaxed);
        Ok(None)
    }

    /// [`Buffers::encode`] of a region that may be encoded, and for which nobody has asked: what the device cannot do
    /// is no error.
    ///
    /// # Errors
    /// It is not there any more.
    pub(super) fn try_encode(
        &self,
        engine: &Engine,
        place: Place,
        how: &Compression,
    ) -> Result<Option<(Place, Encoded)>> {
        match place.kind {
            Pointer::Host { .. } => self.encode(engine, place, how),
            _ if !is_device(&place, how.element.bytes() as u64) => Ok(None),
            Pointer::Device { .. } => self.encode(engine, place, how).or_else(|error| {
                let what = format!("device memory is stored without compression: {error}");
                engine.telemetry().degrade("device_may_compress", what);
                Ok(None)
            }),
        }
    }

    /// `None`: it is taken as it is.
    fn encode_on_host(
        &self,
        engine: &Engine,
        place: Place,
        pinned: bool,
        room: u64,
        how: &Compression,
    ) -> Result<Option<Made>> {
        check_mapped(std::iter::once(&place))?;
        if pinned {
            engine.device_side().await_queued()?;
        }
        let since = Instant::now();
        // SAFETY: the application protects `len` readable bytes there and does not change them during the call.
        let content =
            unsafe { std::slice::from_raw_parts(place.address as *const u8, place.len as usize) };
        let threads = usable_cpus().min(MOST_THREADS);
        let (buffer, len, outcome) = match &how.way {
            Encoding::Bounded { bits, bound } => {
                let mut buffer = self.take(room)?;
                let to = &mut buffer.bytes;
                let outcome = encode(content, how.element, *bits, bound, threads, to)?;
                (buffer, room, outcome)
            }
            Encoding::Lossless => {
                if !is_worthwhile(content, how.element) {
                    return Ok(None);
                }
                let mut buffer = self.take(room)?;
                let len = encode_lossless(content, how.element, threads, &mut buffer.bytes)?;
                let Some(len) = len else { return Ok(None) };
                (buffer, len, Outcome::Done { error: 0.0, whole: 0, blocks: 0 })
            }
        };
        let encoded = Place::plain(place.id, buffer.bytes.as_ptr(), len as usize);
        let small = Place { decoded: Some(place.len), ..encoded };
        Ok(Some(Made { place: small, buffer: Encoded::OnHost(buffer), outcome, since }))
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
fn encode_on_device(engine: &Engine, place: &Place, how: &Compression) -> Result<Option<Made>> {
    let bytes = how.element.bytes() as u64;
    if !is_device(place, bytes) {
        engine.files().warnings().once(format!(
            "region {}: it is stored without compression (VELOC_Mem_compress), as it is managed memory, or device \
             memory that is not aligned to {bytes} bytes",
            place.id
        ));
        return Ok(None);
    }
    let compressed = engine.device_side().compress(place, how.element, how.way.on_device());
    let compressed = compressed.map_err(|error| error.within(format!("region {}", place.id)))?;
    Ok(compressed.map(|Compressed { place, buffer, outcome, since }| {
        let buffer = Encoded::OnDevice(buffer);
        Made { place, buffer, outcome, since }
    }))
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
        let decoded = AnyHeader::read(&self.bytes).map_err(within)?.content_len();
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
