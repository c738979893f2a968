//! What checkpoints contain, and whether it came back: every word depends on the version and on
//! its place, is written on the device and compared there.

use anyhow::{Context, Result};

use super::cuda::{Buffer, Device, Kernels, Stream};

/// Counts wrong words of each version.
#[derive(Debug)]
pub struct Content {
    kernels: Kernels,
    counters: Buffer,
    versions: u64,
}

impl Content {
    /// For versions below `versions`.
    pub fn new(device: &Device, stream: &Stream, versions: u64) -> Result<Content> {
        let kernels = Kernels::load(device)?;
        let counters =
            Buffer::new(device, 4 * versions.max(1)).context("counters of wrong words")?;
        counters.clear(stream)?;
        Ok(Content { kernels, counters, versions })
    }

    /// The kernels.
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// Queues writing the content of `version` to the first `bytes` of `buffer`.
    pub fn fill(&self, stream: &Stream, buffer: &Buffer, bytes: u64, version: u32) -> Result<()> {
        self.kernels.fill(stream, buffer, bytes, version)
    }

    /// Queues looking for wrong words, and then spoiling the buffer: a restore that does nothing
    /// must not find there what it should have brought.
    pub fn compare(
        &self,
        stream: &Stream,
        buffer: &Buffer,
        bytes: u64,
        version: u32,
    ) -> Result<()> {
        let counter = (&self.counters, u64::from(version));
        self.kernels.compare(stream, buffer, bytes, version, counter)?;
        self.kernels.fill(stream, buffer, bytes, u32::MAX)
    }

    /// Waits for the stream. How many versions had wrong words, each counted once.
    pub fn wrong_versions(&self, stream: &Stream) -> Result<u64> {
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
        stream.wait()?;
        Ok(words.into_iter().filter(|wrong| *wrong > 0).count() as u64)
    }
}
