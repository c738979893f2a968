//! The kernels: compiled by the driver from PTX, or, on the software device, functions of this
//! program ([`super::software`]).

use std::ffi::{c_void, CString};

use anyhow::{Context as _, Result};
use cudarc::driver::result::{self, module};
use cudarc::driver::sys;

use super::{driver, Buffer, Device, Stream};

/// The kernels, as `scripts/make_ptx.py` compiled them.
const PTX: &str = include_str!("../../../kernels/bench.ptx");

/// Threads of a block.
const BLOCK: u32 = 256;
/// Words that a thread takes at least, where there are enough.
const WORDS_OF_A_THREAD: u64 = 4;
/// The most blocks: enough to fill any device; the kernels loop over the rest.
const MOST_BLOCKS: u64 = 4096;

/// The loaded kernels.
#[derive(Debug)]
pub struct Kernels {
    fill: sys::CUfunction,
    compare: sys::CUfunction,
    burn: sys::CUfunction,
    _device: Device,
}

/// Words of 4 bytes.
fn words(bytes: u64) -> u64 {
    bytes / 4
}

impl Kernels {
    /// Has the driver compile them. They stay loaded as long as the context lives.
    pub fn load(device: &Device) -> Result<Kernels> {
        let text = CString::new(PTX).context("the kernels' text holds a zero byte")?;
        // SAFETY: the text is PTX and ends with a zero byte; the driver keeps no reference to it.
        let module = unsafe { module::load_data(text.as_ptr().cast()) };
        let module = driver(module, || "compiling the kernels".into())?;
        let kernel = |name: &str| -> Result<sys::CUfunction> {
            let symbol = CString::new(name)?;
            // SAFETY: the module was loaded above and is never unloaded.
            let function = unsafe { module::get_function(module, symbol) };
            driver(function, || format!("finding the kernel {name}"))
        };
        Ok(Kernels {
            fill: kernel("bench_fill")?,
            compare: kernel("bench_compare")?,
            burn: kernel("bench_burn")?,
            _device: device.clone(),
        })
    }

    /// Queues writing the content of `version` to the first `bytes` of a buffer.
    pub fn fill(&self, stream: &Stream, buffer: &Buffer, bytes: u64, version: u32) -> Result<()> {
        let bytes = bytes.min(buffer.bytes());
        let (mut address, mut count, mut version) = (buffer.address(), words(bytes), version);
        let mut arguments = [pointer(&mut address), pointer(&mut count), pointer(&mut version)];
        // SAFETY: the kernel takes these three, and writes `count` words of the buffer.
        unsafe { launch(self.fill, stream, count, &mut arguments) }
    }

    /// Queues comparing the first `bytes` of a buffer with the content of `version`; the number of
    /// wrong words is added to word `counter` of `counters`.
    pub fn compare(
        &self,
        stream: &Stream,
        buffer: &Buffer,
        bytes: u64,
        version: u32,
        (counters, counter): (&Buffer, u64),
    ) -> Result<()> {
        anyhow::ensure!(4 * counter < counters.bytes(), "there is no counter {counter}");
        let bytes = bytes.min(buffer.bytes());
        let (mut address, mut count, mut version) = (buffer.address(), words(bytes), version);
        let mut wrong = counters.address() + 4 * counter;
        let mut arguments = [
            pointer(&mut address),
            pointer(&mut count),
            pointer(&mut version),
            pointer(&mut wrong),
        ];
        // SAFETY: the kernel takes these four, reads `count` words of the buffer, and adds to one
        // word of the counters.
        unsafe { launch(self.compare, stream, count, &mut arguments) }
    }

    /// Queues going over a buffer of numbers so many times.
    pub fn burn(&self, stream: &Stream, buffer: &Buffer, rounds: u32) -> Result<()> {
        let (mut address, mut count) = (buffer.address(), words(buffer.bytes()));
        let mut rounds = rounds;
        let mut arguments = [pointer(&mut address), pointer(&mut count), pointer(&mut rounds)];
        // SAFETY: the kernel takes these three, and changes the words of the buffer.
        unsafe { launch(self.burn, stream, count, &mut arguments) }
    }
}

fn pointer<T>(value: &mut T) -> *mut c_void {
    std::ptr::from_mut(value).cast()
}

/// # Safety
/// The kernel must take these arguments and be sound for them.
unsafe fn launch(
    kernel: sys::CUfunction,
    stream: &Stream,
    words: u64,
    arguments: &mut [*mut c_void],
) -> Result<()> {
    let blocks = words.div_ceil(u64::from(BLOCK) * WORDS_OF_A_THREAD).clamp(1, MOST_BLOCKS) as u32;
    let (grid, block) = ((blocks, 1, 1), (BLOCK, 1, 1));
    // SAFETY: the caller's promise; the driver copies the arguments before it returns.
    let queued = unsafe { result::launch_kernel(kernel, grid, block, 0, stream.raw(), arguments) };
    driver(queued, || "launching a kernel".into())
}
