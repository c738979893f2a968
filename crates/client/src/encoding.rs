//! Regions that are encoded on their way into a checkpoint, and decoded on their way back (`VELOC_Mem_compress`).
//!
//! What is captured, stored and restored are the encoded bytes; only here is known what they mean. They are in buffers of
//! this process, which are kept, as the next checkpoint needs as much.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Instant;

use super::recovering::zeros;
use super::regions::Compression;
use catalog::Region;
use compression::{decode, encode, encoded_len, Header, Outcome};
use device::{Pointer, PAGEABLE};
use engine::place::{check_mapped, Place};
use engine::Engine;
use errors::{Error, ErrorKind, Result};
use os::affinity::usable_cpus;
use os::sync::Mutex;
use trace::Activity;

/// The threads that encode and decode, at most.
const MOST_THREADS: usize = 8;

/// Buffers for encoded bytes that are not used.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// A buffer, until it is dropped.
#[derive(Debug)]
pub(super) struct Buffer {
    bytes: Vec<u8>,
    from: Buffers,
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
    /// It is memory of a device, or is not there any more.
    pub(super) fn encode(
        &self,
        engine: &Engine,
        place: Place,
        how: &Compression,
    ) -> Result<Option<(Place, Buffer)>> {
        let Pointer::Host { pinned } = place.kind else {
            return Err(Error::invalid(format!(
                "region {}: device and managed memory is not compressed (VELOC_Mem_compress)",
                place.id
            )));
        };
        check_mapped(std::iter::once(&place))?;
        if pinned {
            engine.device_side().await_queued()?;
        }
        let metrics = engine.metrics();
        let stored = encoded_len(place.len, how.element, how.bits)?;
        if stored >= place.len {
            metrics.uncompressed.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        }
        let mut buffer = self.take(stored)?;
        let since = Instant::now();
        // SAFETY: the application protects `len` readable bytes there and does not change them during the call.
        let content =
            unsafe { std::slice::from_raw_parts(place.address as *const u8, place.len as usize) };
        let threads = usable_cpus().min(MOST_THREADS);
        match encode(content, how.element, how.bits, &how.bound, threads, &mut buffer.bytes)? {
            Outcome::Done { error, whole, .. } => {
                let time = since.elapsed();
                metrics.compress.add(place.len, time);
                metrics.compressed_bytes.fetch_add(stored, Ordering::Relaxed);
                metrics.compressed_whole.fetch_add(whole, Ordering::Relaxed);
                engine.trace().spent(Activity::Compress, since, time, place.len);
                engine.trace().compressed(how.bits.number(), stored, error, whole);
            }
            Outcome::Overflow => {
                metrics.uncompressed.fetch_add(1, Ordering::Relaxed);
                engine.files().warnings().once(format!(
                    "region {}: more than one in 128 of its blocks cannot have {} bits a value within the bound \
                     (VELOC_Mem_compress), so it is taken as it is",
                    place.id,
                    how.bits.number()
                ));
                return Ok(None);
            }
        }
        let encoded = Place::plain(place.id, buffer.bytes.as_ptr(), buffer.bytes.len());
        Ok(Some((Place { decoded: Some(place.len), ..encoded }, buffer)))
    }

    /// Room for the encoded bytes of a region that is about to be restored.
    pub(super) fn room(&self, region: &Region) -> Result<(Place, Buffer)> {
        let mut buffer = self.take(region.size)?;
        let place = Place::plain(region.id, buffer.bytes.as_mut_ptr(), buffer.bytes.len());
        Ok((place, buffer))
    }
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
        if to.kind != PAGEABLE && !matches!(to.kind, Pointer::Host { .. }) {
            let text = "it was compressed, and cannot be restored to device memory";
            return Err(within(Error::invalid(text)));
        }
        // SAFETY: the application has `len` writable bytes there, which was checked, and uses them for nothing else during
        // the call.
        let content =
            unsafe { std::slice::from_raw_parts_mut(to.address as *mut u8, to.len as usize) };
        let since = Instant::now();
        decode(&self.bytes, content, usable_cpus().min(MOST_THREADS)).map_err(within)?;
        engine.metrics().decompress.add(to.len, since.elapsed());
        engine.trace().spent(Activity::Decompress, since, since.elapsed(), to.len);
        Ok(())
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        self.from.0.lock().push(bytes);
    }
}
