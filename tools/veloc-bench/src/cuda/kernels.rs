//! The kernels: compiled by the driver from PTX, or, on the software device, functions of this
//! program ([`super::software`]).

use std::ffi::{c_void, CString};

use anyhow::{ensure, Context as _, Result};
use cudarc::driver::sys;

use super::driver::{self, checked};
use super::{BenchDevice, CudaBuffer};
use device::Stream;

/// The kernels, as `scripts/make_ptx.py` compiled them.
const PTX: &str = include_str!("../../kernels/bench.ptx");

/// Threads of a block.
const BLOCK: u32 = 256;
/// Bytes that a thread handles at once.
const GROUP: u64 = 16;
/// The most blocks: enough to fill any device; the kernels loop over the rest.
const MOST_BLOCKS: u64 = 4096;

/// The loaded kernels.
#[derive(Debug)]
pub(crate) struct Kernels {
    fill: sys::CUfunction,
    compare: sys::CUfunction,
    burn: sys::CUfunction,
    _device: BenchDevice,
}

/// The words of the first `bytes` bytes of a buffer, which must have so many and be of whole words.
fn words(buffer: &CudaBuffer, bytes: u64) -> Result<u64> {
    ensure!(
        bytes.is_multiple_of(4) && bytes <= buffer.bytes(),
        "content of {bytes} bytes in a buffer of {}: wanted is a multiple of 4 that fits",
        buffer.bytes()
    );
    Ok(bytes / 4)
}

impl Kernels {
    /// Has the driver compile the kernels. They stay loaded as long as the context lives.
    pub(crate) fn load(device: &BenchDevice) -> Result<Kernels> {
        let text = CString::new(PTX).context("the kernels' text holds a zero byte")?;
        let mut module = std::ptr::null_mut();
        // SAFETY: the text is PTX and ends with a zero byte; the driver keeps no reference to it.
        let loaded = unsafe { driver::cuModuleLoadData(&mut module, text.as_ptr().cast()) };
        checked(loaded, || "compiling the kernels".into())?;
        let kernel = |name: &str| -> Result<sys::CUfunction> {
            let symbol = CString::new(name)?;
            let mut function = std::ptr::null_mut();
            // SAFETY: the module was loaded above and is never unloaded; the name ends with NUL.
            let found =
                unsafe { driver::cuModuleGetFunction(&mut function, module, symbol.as_ptr()) };
            checked(found, || format!("finding the kernel {name}"))?;
            Ok(function)
        };
        let kernels = Kernels {
            fill: kernel("bench_fill")?,
            compare: kernel("bench_compare")?,
            burn: kernel("bench_burn")?,
            _device: device.clone(),
        };
        kernels.warm_up(device)?;
        Ok(kernels)
    }

    /// Launches each kernel once: the driver may load a kernel when it is first launched, and waits
    /// for the device then, in a measurement.
    fn warm_up(&self, device: &BenchDevice) -> Result<()> {
        let (stream, buffer) = (Stream::new(device)?, CudaBuffer::new(device, GROUP)?);
        let counters = CudaBuffer::new(device, GROUP)?;
        self.fill(&stream, &buffer, GROUP, 0)?;
        self.compare(&stream, &buffer, GROUP, 0, (&counters, 0))?;
        self.burn(&stream, &buffer, 1)?;
        Ok(stream.synchronize()?)
    }

    /// Queues writing the content of `version` to the first `bytes` of a buffer.
    pub(crate) fn fill(
        &self,
        stream: &Stream,
        buffer: &CudaBuffer,
        bytes: u64,
        version: u32,
    ) -> Result<()> {
        let mut count = words(buffer, bytes)?;
        let (mut address, mut version) = (buffer.address(), version);
        let mut arguments = [pointer(&mut address), pointer(&mut count), pointer(&mut version)];
        // SAFETY: the kernel takes these three, and writes `count` words of the buffer.
        unsafe { launch(self.fill, stream, bytes, &mut arguments) }
    }

    /// Queues comparing the first `bytes` of a buffer with the content of `version`; the number of
    /// wrong words is added to word `counter` of `counters`.
    pub(crate) fn compare(
        &self,
        stream: &Stream,
        buffer: &CudaBuffer,
        bytes: u64,
        version: u32,
        (counters, counter): (&CudaBuffer, u64),
    ) -> Result<()> {
        ensure!(4 * counter < counters.bytes(), "there is no counter {counter}");
        let mut count = words(buffer, bytes)?;
        let (mut address, mut version) = (buffer.address(), version);
        let mut wrong = counters.address() + 4 * counter;
        let mut arguments = [
            pointer(&mut address),
            pointer(&mut count),
            pointer(&mut version),
            pointer(&mut wrong),
        ];
        // SAFETY: the kernel takes these four, reads `count` words of the buffer, and adds to one
        // word of the counters.
        unsafe { launch(self.compare, stream, bytes, &mut arguments) }
    }

    /// Queues so many kernels that each read and write the whole buffer once, rounded down to
    /// multiples of 16 bytes. One kernel for each round, as a stencil has one for each step: within
    /// a single one, the first blocks would do all their rounds before the last ones begin, on a
    /// part of the buffer that the device's cache may hold.
    pub(crate) fn burn(&self, stream: &Stream, buffer: &CudaBuffer, rounds: u32) -> Result<()> {
        for _ in 0..rounds {
            let (mut address, mut count) = (buffer.address(), buffer.bytes() / GROUP);
            let mut arguments = [pointer(&mut address), pointer(&mut count)];
            // SAFETY: the kernel takes these two, and changes the words of the buffer.
            unsafe { launch(self.burn, stream, buffer.bytes(), &mut arguments) }?;
        }
        Ok(())
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
    bytes: u64,
    arguments: &mut [*mut c_void],
) -> Result<()> {
    let blocks = bytes.div_ceil(u64::from(BLOCK) * GROUP).clamp(1, MOST_BLOCKS) as u32;
    let (arguments, none) = (arguments.as_mut_ptr(), std::ptr::null_mut());
    let stream = stream.raw().cast();
    // SAFETY: the caller's promise; the driver copies the arguments before it returns.
    let queued = unsafe {
        driver::cuLaunchKernel(kernel, blocks, 1, 1, BLOCK, 1, 1, 0, stream, arguments, none)
    };
    checked(queued, || "launching a kernel".into())
}

#[cfg(test)]
mod tests {
    use std::ffi::{c_char, c_int};

    use super::*;
    use xtask::on_device;

    /// The bytes of a buffer.
    fn read(stream: &Stream, buffer: &CudaBuffer) -> Vec<u8> {
        let mut found = vec![0; buffer.bytes() as usize];
        // SAFETY: both sides have as many bytes, which are not used before the stream was waited
        // for.
        unsafe { stream.copy_to_host(found.as_mut_ptr(), buffer.address(), buffer.bytes()) }
            .unwrap();
        stream.synchronize().unwrap();
        found
    }

    #[test]
    fn each_round_changes_every_group_once_and_nothing_behind_them() {
        on_device::run(|| {
            let device = BenchDevice::open(0).unwrap();
            let stream = Stream::new(&device).unwrap();
            let buffer = CudaBuffer::new(&device, 4096 + 8).unwrap();
            buffer.clear(&stream).unwrap();
            Kernels::load(&device).unwrap().burn(&stream, &buffer, 2).unwrap();
            let found = read(&stream, &buffer);
            let step = |value: u32| value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            assert!(found[..4096].chunks(4).all(|word| *word == step(step(0)).to_le_bytes()));
            assert_eq!(found[4096..], [0; 8]);
        });
    }

    /// Catches kernels that NVIDIA's compiler made into something else than the native ones here.
    #[test]
    fn compiled_from_ptx_they_do_the_same() {
        type Configure = unsafe extern "C" fn(*const c_char, *const c_char) -> c_int;
        on_device::run(|| {
            let device = BenchDevice::open(0).unwrap();
            let stream = Stream::new(&device).unwrap();
            let native = Kernels::load(&device).unwrap();
            // SAFETY: the type is the header's, and both strings end with NUL.
            let configured = unsafe {
                let configure = driver::extension::<Configure>(c"softcuda_configure").unwrap();
                configure(c"KERNELS".as_ptr(), c"ptx".as_ptr())
            };
            assert_eq!(configured, 0);
            let compiled = Kernels::load(&device).unwrap();
            let counters = CudaBuffer::new(&device, 8).unwrap();
            counters.clear(&stream).unwrap();
            // Not a multiple of a group.
            let [one, other] = [(); 2].map(|()| CudaBuffer::new(&device, 40_004).unwrap());
            for (kernels, others, buffer) in
                [(&native, &compiled, &one), (&compiled, &native, &other)]
            {
                kernels.fill(&stream, buffer, 40_004, 7).unwrap();
                others.compare(&stream, buffer, 40_004, 7, (&counters, 0)).unwrap();
                others.compare(&stream, buffer, 40_004, 8, (&counters, 1)).unwrap();
                kernels.burn(&stream, buffer, 3).unwrap();
            }
            assert!(read(&stream, &one) == read(&stream, &other));
            let wrong = read(&stream, &counters);
            assert_eq!(wrong[..4], [0; 4]);
            assert_eq!(wrong[4..], 20_002_u32.to_le_bytes());
        });
    }

    #[test]
    fn what_does_not_lie_in_the_buffer_is_refused() {
        on_device::run(|| {
            let device = BenchDevice::open(0).unwrap();
            let stream = Stream::new(&device).unwrap();
            let kernels = Kernels::load(&device).unwrap();
            let buffer = CudaBuffer::new(&device, 4096).unwrap();
            let counters = CudaBuffer::new(&device, 8).unwrap();
            let refused = |result: Result<()>, said: &str| {
                let error = format!("{:#}", result.unwrap_err());
                assert!(error.contains(said), "{error}");
            };
            refused(kernels.fill(&stream, &buffer, 4100, 0), "4100");
            refused(kernels.compare(&stream, &buffer, 4094, 0, (&counters, 0)), "4094");
            refused(kernels.compare(&stream, &buffer, 4096, 0, (&counters, 2)), "counter 2");
        });
    }
}
