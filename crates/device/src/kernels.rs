//! Encoding and decoding arrays on the device, by the kernels in `kernels/compression.cu`.

use std::ffi::CStr;
use std::sync::Arc;

use super::api::KernelHandle;
use super::device::Device;
use super::stream::Stream;
use compression::{Bits, Bound, Element, Header, LosslessHeader, BLOCK, GROUP, HEADER_LEN};
use errors::{Error, Result};

/// The kernels, as `scripts/make_ptx.py` compiled them.
const PTX: &str = concat!(include_str!("../kernels/compression.ptx"), "\0");

const NAMES: [&CStr; 14] = [
    c"compression_begin",
    c"compression_largest_f32",
    c"compression_compress_f32",
    c"compression_decompress_f32",
    c"compression_largest_f64",
    c"compression_compress_f64",
    c"compression_decompress_f64",
    c"lossless_places",
    c"lossless_codes_f32",
    c"lossless_pack_f32",
    c"lossless_unpack_f32",
    c"lossless_codes_f64",
    c"lossless_pack_f64",
    c"lossless_unpack_f64",
];

/// Threads of a block that writes a header, or looks for the largest magnitude.
const THREADS: u32 = 256;
/// Threads of a block that encodes or decodes: each has a block of the array at a time.
const TILE: u32 = 64;
/// Where the header of an encoded array has zeros: decoding counts what means nothing there.
const WRONG_AT: u64 = 124;
/// The number of the layout that the kernels write and read.
const LAYOUT: u64 = 1;
/// That of arrays without loss.
const LOSSLESS_LAYOUT: u64 = 2;

/// The kernels, loaded.
#[derive(Debug)]
pub struct Compression {
    begin: KernelHandle,
    places: KernelHandle,
    f32: ElementKernels,
    f64: ElementKernels,
}

#[derive(Debug)]
struct ElementKernels {
    largest: KernelHandle,
    compress: KernelHandle,
    decompress: KernelHandle,
    codes: KernelHandle,
    pack: KernelHandle,
    unpack: KernelHandle,
}

/// Where the parts of an encoded array lie, in bytes.
struct Parts {
    blocks: u64,
    codes_end: u64,
    values: u64,
    side: u64,
    end: u64,
}

impl Parts {
    fn of(header: &Header) -> Result<Parts> {
        let blocks = header.blocks();
        let places = header.places(0..blocks)?;
        Ok(Parts {
            blocks,
            codes_end: places.codes.end,
            values: places.values.start,
            side: places.side.start,
            end: header.encoded_len()?,
        })
    }

    /// The blocks of a launch that encodes or decodes.
    fn tiles(&self) -> (u64, u32) {
        (self.blocks.div_ceil(TILE.into()), TILE)
    }
}

impl Compression {
    /// Has the driver compile the kernels.
    ///
    /// # Errors
    /// The driver's; or the kind of device has none.
    pub fn load(device: &Device) -> Result<Compression> {
        let failed = |error: Error| error.within("loading the kernels that compress");
        let code = CStr::from_bytes_with_nul(PTX.as_bytes());
        let code = code.map_err(|error| failed(Error::invalid(error.to_string())))?;
        let _current = device.enter()?;
        let kernels = device.api().load_kernels(code, &NAMES).map_err(failed)?;
        let [begin, a, b, c, d, e, f, places, g, h, i, j, k, l] = kernels[..] else {
            return Err(failed(Error::invalid(format!("the driver has found {}", kernels.len()))));
        };
        Ok(Compression {
            begin,
            places,
            f32: ElementKernels {
                largest: a,
                compress: b,
                decompress: c,
                codes: g,
                pack: h,
                unpack: i,
            },
            f64: ElementKernels {
                largest: d,
                compress: e,
                decompress: f,
                codes: j,
                pack: k,
                unpack: l,
            },
        })
    }

    fn of(&self, element: Element) -> &ElementKernels {
        match element {
            Element::F32 => &self.f32,
            Element::F64 => &self.f64,
        }
    }

    /// Queues encoding `len` bytes at `from` to `to`, which has [`encoded_len`](compression::encoded_len) bytes. When
    /// it is done, the header says how many blocks are kept whole: more than it says there is room for are an
    /// overflow.
    ///
    /// # Errors
    /// The driver's; some of it may be queued then.
    ///
    /// # Safety
    /// Both are device memory, aligned to 8 bytes, `from` to an element alone. They stay valid until it is done, and
    /// nothing else uses `to`.
    pub unsafe fn compress(
        &self,
        stream: &Stream,
        (from, len): (u64, u64),
        (element, bits, bound): (Element, Bits, &Bound),
        to: u64,
    ) -> Result<()> {
        let (number, is_relative) = bound.number();
        let whole = 0;
        let zero =
            Header { element, bits, content_len: len, bound: 0.0, error: 0.0, whole, largest: 0.0 };
        let Parts { blocks, codes_end, values, side, end } = Parts::of(&zero)?;
        let tiles = Parts::of(&zero)?.tiles();
        let bytes = element.bytes() as u64;
        let capacity = (end - side) / (bytes * BLOCK as u64);
        let kind = LAYOUT | u64::from(bits.number()) << 32 | bytes << 40;
        let (bound, bits) = (number.to_bits(), bits.number().into());
        let begin = [to, len, kind, bound, codes_end, values, side, end, capacity];
        let (count, words) = (len / bytes, len / 4);
        let zeroing = ((end - side) / 4).div_ceil(THREADS.into());
        let looking = count.div_ceil(u64::from(THREADS) * 16);
        let compress =
            [from, words, to, blocks, values, side, capacity, bound, is_relative.into(), bits];
        // SAFETY: the caller's promise; the kernels take these arguments, and write within the encoded array alone.
        unsafe {
            stream.launch(self.begin, (zeroing, THREADS), &begin)?;
            if is_relative {
                stream.launch(self.of(element).largest, (looking, THREADS), &[from, count, to])?;
            }
            stream.launch(self.of(element).compress, tiles, &compress)
        }
    }

    /// Queues decoding the array with this header, which was read from its beginning at `from`. When it is done,
    /// [`Compression::wrong`] is how many blocks meant nothing and are 0.
    ///
    /// # Errors
    /// The driver's: nothing is queued.
    ///
    /// # Safety
    /// As of [`Compression::compress`], and all of the encoded array is there.
    pub unsafe fn decompress(
        &self,
        stream: &Stream,
        (from, header): (u64, &Header),
        to: u64,
    ) -> Result<()> {
        let parts = Parts::of(header)?;
        let (words, bits) = (header.content_len / 4, header.bits.number().into());
        let Parts { blocks, values, side, .. } = parts;
        let wrong = Compression::wrong(from);
        let arguments = [from, to, words, blocks, values, side, header.whole, wrong, bits];
        // SAFETY: the caller's promise; the kernel takes these arguments, and writes to `to` and one word of the
        // header.
        unsafe { stream.launch(self.of(header.element).decompress, parts.tiles(), &arguments) }
    }

    /// Queues encoding `len` bytes at `from` without loss to `to`, which has `room` bytes. When it is done, the header
    /// says how many bytes the encoded array has: if that are more than there is room for, the blocks mean nothing.
    ///
    /// # Errors
    /// There is no room for the header; or the driver's, and some of it may be queued then.
    ///
    /// # Safety
    /// As of [`Compression::compress`].
    pub unsafe fn compress_lossless(
        &self,
        stream: &Stream,
        (from, len): (u64, u64),
        element: Element,
        (to, room): (u64, u64),
    ) -> Result<()> {
        let header = LosslessHeader { element, content_len: len, encoded_len: 0 };
        let (blocks, table, payload) = (header.blocks(), header.table(), header.payload()?);
        if payload > room {
            return Err(Error::invalid(format!(
                "{room} bytes for an encoded array that has {payload} and its blocks"
            )));
        }
        let kind = LOSSLESS_LAYOUT | (element.bytes() as u64) << 40;
        let codes_end = HEADER_LEN as u64 + blocks;
        let begin = [to, len, kind, 0, codes_end, table, table, payload, 0];
        let (words, groups) = (len / 4, blocks.div_ceil(GROUP as u64));
        let zeroing = groups.div_ceil(u64::from(THREADS) / 2);
        let tiles = (blocks.div_ceil(TILE.into()), TILE);
        let table = to + table;
        let kernels = self.of(element);
        // SAFETY: the caller's promise; the kernels take these arguments, and write within the encoded array alone.
        unsafe {
            stream.launch(self.begin, (zeroing, THREADS), &begin)?;
            stream.launch(kernels.codes, tiles, &[from, words, to, table, blocks])?;
            stream.launch(self.places, (1, THREADS), &[to, table, groups, payload])?;
            stream.launch(kernels.pack, tiles, &[from, words, to, table, blocks, room])
        }
    }

    /// Queues decoding the array with this header; as [`Compression::decompress`].
    ///
    /// # Errors
    /// The driver's: nothing is queued.
    ///
    /// # Safety
    /// As of [`Compression::decompress`].
    pub unsafe fn decompress_lossless(
        &self,
        stream: &Stream,
        (from, header): (u64, &LosslessHeader),
        to: u64,
    ) -> Result<()> {
        let (blocks, words) = (header.blocks(), header.content_len / 4);
        let (table, payload, end) = (from + header.table(), header.payload()?, header.encoded_len);
        let wrong = Compression::wrong(from);
        let arguments = [from, table, to, words, blocks, payload, end, wrong];
        let tiles = (blocks.div_ceil(TILE.into()), TILE);
        // SAFETY: the caller's promise; the kernel takes these arguments, and writes to `to` and one word of the
        // header.
        unsafe { stream.launch(self.of(header.element).unpack, tiles, &arguments) }
    }

    /// The address of the number (4 bytes) of blocks that meant nothing, in the header of an array that was decoded.
    pub fn wrong(encoded: u64) -> u64 {
        encoded + WRONG_AT
    }
}

/// Device memory of the library's own.
#[derive(Debug)]
pub struct DeviceBuffer {
    device: Arc<Device>,
    address: u64,
    len: u64,
}

impl DeviceBuffer {
    /// Memory of `len` bytes.
    ///
    /// # Errors
    /// The driver's: there is not as much.
    pub fn new(device: &Arc<Device>, len: u64) -> Result<DeviceBuffer> {
        let _current = device.enter()?;
        let address = device.api().allocate(len)?;
        Ok(DeviceBuffer { device: device.clone(), address, len })
    }

    /// Where it is.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new`; its users have waited for what they have queued.
        self.device.destroy_in_context(|api| unsafe { api.free(self.address) });
    }
}
