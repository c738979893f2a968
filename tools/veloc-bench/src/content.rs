//! The content of checkpoints, and whether it came back: every word depends on the version and on
//! its place, is written on the device and compared there.

use anyhow::{Context, Result};
use device::Stream;

use super::cuda::{BenchDevice, CudaBuffer, Kernels};

/// Counts wrong words of each version.
#[derive(Debug)]
pub(super) struct ContentCheck {
    pub kernels: Kernels,
    counters: CudaBuffer,
    versions: u64,
}

impl ContentCheck {
    /// Counters for versions below `versions`.
    pub(super) fn new(
        device: &BenchDevice,
        stream: &Stream,
        versions: u64,
    ) -> Result<ContentCheck> {
        let kernels = Kernels::load(device)?;
        let counters =
            CudaBuffer::new(device, 4 * versions.max(1)).context("counters of wrong words")?;
        counters.clear(stream)?;
        Ok(ContentCheck { kernels, counters, versions })
    }

    /// Queues counting wrong words, and then spoiling the buffer: a restore that does nothing must
    /// not leave right words there.
    pub(super) fn compare(
        &self,
        stream: &Stream,
        buffer: &CudaBuffer,
        bytes: u64,
        version: u32,
    ) -> Result<()> {
        let counter = (&self.counters, u64::from(version));
        self.kernels.compare(stream, buffer, bytes, version, counter)?;
        self.kernels.fill(stream, buffer, bytes, u32::MAX)
    }

    /// Waits for the stream. Returns how many versions had wrong words, each counted once.
    pub(super) fn wrong_versions(&self, stream: &Stream) -> Result<u64> {
        // If the counters do not arrive, nothing is right.
        let mut words = vec![u32::MAX; self.versions as usize];
        // SAFETY: both sides have as many bytes, and the words are not used before the stream was
        // waited for.
        unsafe {
            stream.copy_to_host(
                words.as_mut_ptr().cast(),
                self.counters.address(),
                4 * self.versions,
            )?;
        }
        stream.synchronize()?;
        Ok(words.into_iter().filter(|wrong| *wrong > 0).count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::on_device;

    fn device() -> (BenchDevice, Stream) {
        let device = BenchDevice::open(0).unwrap();
        let stream = Stream::new(&device).unwrap();
        (device, stream)
    }

    #[test]
    fn what_was_filled_is_right_whatever_the_size() {
        on_device::run(|| {
            let (device, stream) = device();
            let content = ContentCheck::new(&device, &stream, 8).unwrap();
            // Whole groups of 4 words and less, a block's worth, and more.
            for bytes in [4, 12, 16, 64, 4100, (1 << 18) + 8] {
                let buffer = CudaBuffer::new(&device, bytes).unwrap();
                content.kernels.fill(&stream, &buffer, bytes, 3).unwrap();
                content.compare(&stream, &buffer, bytes, 3).unwrap();
                assert_eq!(content.wrong_versions(&stream).unwrap(), 0, "{bytes}");
            }
        });
    }

    #[test]
    fn another_version_and_another_place_are_wrong_and_comparing_spoils() {
        on_device::run(|| {
            let (device, stream) = device();
            let buffer = CudaBuffer::new(&device, 4096).unwrap();
            let content = ContentCheck::new(&device, &stream, 8).unwrap();
            content.kernels.fill(&stream, &buffer, 4096, 3).unwrap();
            content.compare(&stream, &buffer, 4096, 2).unwrap();
            assert_eq!(content.wrong_versions(&stream).unwrap(), 1, "another version");
            content.compare(&stream, &buffer, 4096, 3).unwrap();
            assert_eq!(content.wrong_versions(&stream).unwrap(), 2, "spoilt");
            content.kernels.fill(&stream, &buffer, 4096, 4).unwrap();
            let shifted = CudaBuffer::new(&device, 4080).unwrap();
            // SAFETY: both buffers have the bytes, and live until the stream was waited for.
            unsafe { stream.copy_on_device(shifted.address(), buffer.address() + 16, 4080) }
                .unwrap();
            content.compare(&stream, &shifted, 4080, 4).unwrap();
            assert_eq!(content.wrong_versions(&stream).unwrap(), 3, "another place");
        });
    }

    #[test]
    fn one_flipped_byte_is_found_wherever_it_is() {
        on_device::run(|| {
            let (device, stream) = device();
            // 5 groups and 3 words more: each byte of a group, and of the rest.
            let bytes: u32 = 5 * 16 + 12;
            let buffer = CudaBuffer::new(&device, bytes.into()).unwrap();
            let content = ContentCheck::new(&device, &stream, bytes.into()).unwrap();
            for at in 0..bytes {
                content.kernels.fill(&stream, &buffer, bytes.into(), at).unwrap();
                let (mut byte, address) = (0_u8, buffer.address() + u64::from(at));
                // SAFETY: one byte of the buffer and one here, which is not used before the stream
                // was waited for.
                unsafe { stream.copy_to_host(&mut byte, address, 1) }.unwrap();
                stream.synchronize().unwrap();
                byte ^= 0x10;
                // SAFETY: as above.
                unsafe { stream.copy_from_host(address, &byte, 1) }.unwrap();
                stream.synchronize().unwrap();
                content.compare(&stream, &buffer, bytes.into(), at).unwrap();
            }
            assert_eq!(content.wrong_versions(&stream).unwrap(), u64::from(bytes));
        });
    }
}
