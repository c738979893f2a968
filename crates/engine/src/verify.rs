//! `verify_captures`: whether memory whose capture is deferred has changed before it was copied.
//!
//! The application has promised that it does not (`VELOC_READ_ONLY`), or the library prevents it
//! (`host_capture`). The memory is hashed in the call, and the copy of it when that is complete.

use super::device_side::ApplicationLane;
use super::run::Run;
use catalog::space::Extent;
use device::Pointer;
use errors::{Error, ErrorKind, Result};
use format::proof::{Digest, DigestHasher, Sort};
use levels::host_buffer::HostBuffer;

/// Bytes of device memory that are hashed at a time.
const PIECE: usize = 4 << 20;

/// What a run is to be when it has been copied.
#[derive(Debug)]
pub(super) struct ExpectedRun {
    region: i32,
    extents: Vec<Extent>,
    digest: Digest,
}

impl ExpectedRun {
    /// Hashes the application's memory of these runs, after its work on them. `own`: the library's stream, if some
    /// is device memory.
    pub(super) fn of(own: Option<&ApplicationLane>, runs: &[Run]) -> Result<Vec<ExpectedRun>> {
        let expect = |run: &Run| {
            let digest = match run.place.kind {
                Pointer::Host { .. } => hash_host(run.place.address, run.bytes()),
                Pointer::Device { .. } => hash_device(own, run.place.address, run.bytes())?,
            };
            Ok(ExpectedRun { region: run.place.id, extents: run.extents.clone(), digest })
        };
        runs.iter().map(expect).collect()
    }

    /// Compares what was copied to the host buffer.
    ///
    /// # Errors
    /// It is not what the memory was; the error names the region.
    pub(super) fn compare(&self, host: &HostBuffer) -> Result<()> {
        let mut hasher = DigestHasher::new(Sort::Xxh3);
        for extent in &self.extents {
            let copied = host.address(extent.offset).cast_const();
            // SAFETY: an extent of a checkpoint whose copies have ended, and that nobody else is given before its
            // arrival has been noted.
            hasher.update(unsafe { std::slice::from_raw_parts(copied, extent.len as usize) });
        }
        if hasher.finish() == self.digest {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "region {} has changed after the call and before its deferred capture had copied it (verify_captures)",
            self.region
        )))
    }
}

fn hash_host(address: u64, len: u64) -> Digest {
    if len == 0 {
        return Digest::of(Sort::Xxh3, &[]);
    }
    // SAFETY: the application passes at least as many bytes (the client has checked it), and does not write to them
    // during the call.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, len as usize) };
    Digest::of(Sort::Xxh3, bytes)
}

fn hash_device(own: Option<&ApplicationLane>, address: u64, len: u64) -> Result<Digest> {
    let Some(own) = own else {
        return Err(Error::new(ErrorKind::Internal, "device memory without a stream"));
    };
    let stream = own.lane.stream();
    let mut piece = vec![0; PIECE.min(len as usize)];
    let mut hasher = DigestHasher::new(Sort::Xxh3);
    let mut done = 0;
    while done < len {
        let bytes = (len - done).min(PIECE as u64);
        // SAFETY: the driver has confirmed the pointer; the piece has as many bytes, and stays until the stream
        // has been waited for.
        unsafe { stream.copy_to_host(piece.as_mut_ptr(), address + done, bytes) }?;
        stream.synchronize()?;
        hasher.update(&piece[..bytes as usize]);
        done += bytes;
    }
    Ok(hasher.finish())
}
