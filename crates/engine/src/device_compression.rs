//! Regions in device memory that are encoded and decoded there, in buffers of the library's on the device. They are
//! kept, as the next checkpoint needs as much.

use std::sync::Arc;
use std::time::Instant;

use super::device_side::DeviceSide;
use super::place::Place;
use catalog::Part;
use compression::{
    encoded_len, lossless_room, AnyHeader, Bits, Bound, Element, Header, LosslessHeader, Outcome,
    HEADER_LEN,
};
use device::{Compression, DeviceBuffer, Pointer, Stream};
use errors::{Error, ErrorKind, Result};
use once_cell::sync::OnceCell;
use os::size;
use os::sync::Mutex;
use policy::capture::Capture;
use trace::metrics::Cause;

/// Where the header says how many blocks are kept whole, and how many have room.
const WHOLE_AT: usize = 40;
/// Where that of an array without loss says how many bytes it has.
const ENCODED_AT: usize = 24;

/// What becomes of an array.
#[derive(Clone, Copy, Debug)]
pub enum Way<'a> {
    /// It has so many bits a value, within a bound.
    Bounded(Bits, &'a Bound),
    /// All bits come back.
    Lossless,
}

impl Way<'_> {
    /// The room for the encoded bytes of so many.
    fn room(self, len: u64, element: Element) -> Result<u64> {
        match self {
            Way::Bounded(bits, _) => encoded_len(len, element, bits),
            Way::Lossless => lossless_room(len, element),
        }
    }
}

type Idle = Arc<Mutex<Vec<DeviceBuffer>>>;

/// What a device needs to encode and decode.
#[derive(Debug, Default)]
pub(crate) struct DeviceCompression {
    kernels: OnceCell<Compression>,
    /// Buffers that are not used.
    idle: Idle,
}

/// A buffer on the device for encoded bytes, until it is dropped.
#[derive(Debug)]
pub struct EncodedBuffer {
    buffer: Option<DeviceBuffer>,
    address: u64,
    /// Its bytes that are used.
    len: u64,
    from: Idle,
}

impl Drop for EncodedBuffer {
    fn drop(&mut self) {
        self.from.lock().extend(self.buffer.take());
    }
}

/// A region that was encoded on the device.
#[derive(Debug)]
pub struct Compressed {
    /// The encoded bytes.
    pub place: Place,
    /// Where they are.
    pub buffer: EncodedBuffer,
    /// What became of it. After an overflow the bytes mean nothing.
    pub outcome: Outcome,
    /// When the application's queued work, as far as the call waited for it, was done.
    pub since: Instant,
}

impl DeviceSide {
    /// Loads the kernels, and takes memory for a region's encoded bytes: both may wait for the device.
    ///
    /// # Errors
    /// The driver cannot load the kernels. Where there is no room, checkpoints try again.
    pub fn prepare_compression(&self, len: u64, element: Element, way: Way<'_>) -> Result<()> {
        let len = way.room(len, element)?;
        self.kernels()?;
        let compression = &self.attached()?.compression;
        if !compression.idle.lock().iter().any(|idle| fits(idle, len)) {
            let made = self.made(len)?;
            compression.idle.lock().extend(made);
        }
        Ok(())
    }

    /// Encodes a region of plain device memory, aligned to its elements, behind all work that the application has
    /// queued, and waits for it. `None`: there is no room for a buffer, or it would not become smaller.
    ///
    /// # Errors
    /// The driver's.
    pub fn compress(
        &self,
        place: &Place,
        element: Element,
        way: Way<'_>,
    ) -> Result<Option<Compressed>> {
        let kernels = self.kernels()?;
        let Some(mut buffer) = self.buffer(way.room(place.len, element)?)? else {
            return Ok(None);
        };
        let own = self.own()?;
        let side = self.attached()?;
        let _current = side.device.enter()?;
        let waiting = self.telemetry.metrics.wait(Cause::Order);
        let _closed = self.after_application(&side.device, &own)?;
        drop(waiting);
        let (stream, since) = (own.lane.stream(), Instant::now());
        let (from, to) = ((place.address, place.len), buffer.address);
        // SAFETY: the driver has confirmed the application's memory, which stays as it is during the call; the buffer
        // has as many bytes, and nothing else uses it. The stream is waited for below.
        let queued = unsafe {
            match way {
                Way::Bounded(bits, bound) => {
                    kernels.compress(stream, from, (element, bits, bound), to)
                }
                Way::Lossless => kernels.compress_lossless(stream, from, element, (to, buffer.len)),
            }
        };
        let header = read_behind(stream, queued, to, HEADER_LEN)?;
        let outcome = match way {
            Way::Bounded(..) => outcome(&header),
            Way::Lossless if number(&header, ENCODED_AT) > buffer.len => return Ok(None),
            Way::Lossless => LosslessHeader::read(&header).map(|header| {
                buffer.len = header.encoded_len;
                Outcome::Done { error: 0.0, whole: 0, blocks: header.blocks() }
            }),
        };
        let outcome = outcome.map_err(|error| error.within("compressing on the device"))?;
        let place = buffer.place(place.id, place.kind, place.len);
        Ok(Some(Compressed { place, buffer, outcome, since }))
    }

    /// Room on the device for `stored` encoded bytes that are about to be restored to plain device memory. `None`:
    /// there is none, or the kernels cannot be loaded.
    ///
    /// # Errors
    /// The driver's.
    pub fn encoded_room(&self, to: &Place, stored: u64) -> Result<Option<(Place, EncodedBuffer)>> {
        if let Err(error) = self.kernels() {
            let what =
                format!("compressed regions of device memory are decoded on the host: {error}");
            self.telemetry.degrade("device_decompress", what);
            return Ok(None);
        }
        let buffer = self.buffer(stored)?;
        Ok(buffer.map(|buffer| (buffer.place(to.id, to.kind, to.len), buffer)))
    }

    /// Decodes what was restored to a buffer into the application's memory, and waits for it.
    ///
    /// # Errors
    /// The bytes are no encoded ones, or of another length; the driver's.
    pub fn decompress(&self, encoded: &EncodedBuffer, to: &Place) -> Result<()> {
        let kernels = self.kernels()?;
        let own = self.own()?;
        let side = self.attached()?;
        let _current = side.device.enter()?;
        let _closed = self.after_application(&side.device, &own)?;
        let (stream, from) = (own.lane.stream(), encoded.address);
        let header = AnyHeader::read(&read_behind(stream, Ok(()), from, HEADER_LEN)?)?;
        let corrupt = |text: String| Error::new(ErrorKind::Corrupt, text);
        let [len, decoded] = [header.encoded_len()?, header.content_len()];
        if (len, decoded) != (encoded.len, to.len) {
            return Err(corrupt(format!(
                "{} bytes decode to {}, and its header says {len} and {decoded}",
                encoded.len, to.len
            )));
        }
        // SAFETY: the driver has confirmed the application's memory of `len` bytes, which it uses for nothing else
        // during the call; the buffer has all that the header says. The stream is waited for below.
        let queued = unsafe {
            match &header {
                AnyHeader::Bounded(header) => {
                    kernels.decompress(stream, (from, header), to.address)
                }
                AnyHeader::Lossless(header) => {
                    kernels.decompress_lossless(stream, (from, header), to.address)
                }
            }
        };
        let wrong = read_behind(stream, queued, Compression::wrong(from), size_of::<u32>())?;
        match word(&wrong, 0) {
            0 => Ok(()),
            wrong => {
                Err(corrupt(format!("{wrong} of its {} blocks cannot be decoded", header.blocks())))
            }
        }
    }

    fn kernels(&self) -> Result<&Compression> {
        let side = self.attached()?;
        side.compression.kernels.get_or_try_init(|| Compression::load(&side.device))
    }

    /// A buffer for so many bytes. `None`: there is no room, which is said once.
    fn buffer(&self, len: u64) -> Result<Option<EncodedBuffer>> {
        let from = &self.attached()?.compression.idle;
        let mut idle = from.lock();
        let fitting = idle.iter().enumerate().filter(|(_, buffer)| fits(buffer, len));
        let buffer = match fitting.min_by_key(|(_, buffer)| buffer.len()).map(|(at, _)| at) {
            Some(at) => Some(idle.swap_remove(at)),
            None => {
                // Those of other lengths are of regions that are not there any more.
                drop(idle.pop());
                self.made(len)?
            }
        };
        Ok(buffer.map(|buffer| {
            let (address, from) = (buffer.address(), from.clone());
            EncodedBuffer { buffer: Some(buffer), address, len, from }
        }))
    }

    /// New memory.
    fn made(&self, len: u64) -> Result<Option<DeviceBuffer>> {
        let made = DeviceBuffer::new(&self.attached()?.device, len);
        made.map(Some).or_else(|error| {
            let what = format!(
                "there is no room of {} on the device for compressing or decoding a region there: {error}",
                size::show(len)
            );
            self.telemetry.degrade("device_compress", what);
            Ok(None)
        })
    }
}

impl EncodedBuffer {
    /// The bytes as a region's that has `decoded` bytes when it is decoded.
    fn place(&self, id: i32, kind: Pointer, decoded: u64) -> Place {
        Place {
            id,
            address: self.address,
            len: self.len,
            kind,
            part: Part::Device,
            capture: Capture::Copy,
            decoded: Some(decoded),
        }
    }
}

/// Whether a buffer is right for so many bytes, also where a region's length changes a little.
fn fits(buffer: &DeviceBuffer, len: u64) -> bool {
    (len..=len.saturating_mul(2)).contains(&buffer.len())
}

/// Reads bytes on the device behind what was queued, and waits for all of it.
fn read_behind(stream: &Stream, queued: Result<()>, from: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    // SAFETY: `bytes` stay valid until the stream was waited for, or for ever; the buffer at `from` has as many.
    let copied =
        queued.and_then(|()| unsafe { stream.copy_to_host(bytes.as_mut_ptr(), from, len as u64) });
    let waited = stream.synchronize();
    if waited.is_err() {
        std::mem::forget(std::mem::take(&mut bytes));
    }
    copied.and(waited)?;
    Ok(bytes)
}

/// What the header says that the kernels have written.
fn outcome(header: &[u8]) -> Result<Outcome> {
    if number(header, WHOLE_AT) > number(header, WHOLE_AT + 8) {
        return Ok(Outcome::Overflow);
    }
    let header = Header::read(header)?;
    let Header { error, whole, .. } = header;
    Ok(Outcome::Done { error, whole, blocks: header.blocks() })
}

/// Eight bytes as a number; 0 where there are none.
fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at + 4)) << 32 | u64::from(word(bytes, at))
}

/// Four bytes as a number; 0 where there are none.
fn word(bytes: &[u8], at: usize) -> u32 {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk());
    four.map_or(0, |four| u32::from_le_bytes(*four))
}
