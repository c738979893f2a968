//! A job of the library in this process, through its C interface: what is measured is what a
//! program pays.

use std::ffi::{c_void, CStr, CString};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use tempfile::TempDir;
use veloc_client::capi::*;

use crate::approach::NamelessFile;

/// The name of its checkpoints.
pub(in crate::host) const NAME: &CStr = c"bench";

/// How long a background step may take before it is taken for stuck.
const STUCK: Duration = Duration::from_secs(300);

/// A job, which ends when it is dropped; there can be one at a time.
#[derive(Debug)]
pub(in crate::host) struct BenchJob {
    /// The folder of the job's files, in the folder that the bench keeps for this process; none if
    /// the caller keeps it.
    _folder: Option<TempDir>,
    /// How long `VELOC_Init_single` took, in seconds.
    pub init: f64,
}

impl BenchJob {
    /// Starts a job with these lines of configuration, in which `DIR` stands for a folder of its
    /// own.
    pub(in crate::host) fn start(configuration: &str) -> Result<BenchJob> {
        let folder = TempDir::new().context("making a folder")?;
        let mut job = BenchJob::start_in(folder.path(), configuration)?;
        job._folder = Some(folder);
        Ok(job)
    }

    /// Starts a job with these lines of configuration, in which `DIR` stands for `folder`.
    pub(in crate::host) fn start_in(folder: &Path, configuration: &str) -> Result<BenchJob> {
        let text = configuration.replace("DIR", &folder.to_string_lossy());
        let file = NamelessFile::new(&text).context("the configuration of a job")?;
        let path = CString::new(file.path().as_os_str().as_encoded_bytes())?;
        let since = Instant::now();
        // SAFETY: the path ends with NUL.
        check(unsafe { VELOC_Init_single(0, path.as_ptr()) })?;
        Ok(BenchJob { _folder: None, init: since.elapsed().as_secs_f64() })
    }

    /// Protects `len` bytes at `address`.
    ///
    /// # Safety
    /// The bytes are valid until another region has this id, or the job has ended, and
    /// nobody has a reference to them during the calls below.
    pub(in crate::host) unsafe fn protect(
        &self,
        id: i32,
        address: *mut c_void,
        len: usize,
    ) -> Result<()> {
        check(VELOC_Mem_protect(id, address, len, 1))
    }

    /// Takes a checkpoint.
    pub(in crate::host) fn checkpoint(&self, name: &CStr, version: i32) -> Result<()> {
        // SAFETY: the name ends with NUL; protected memory is valid, as was promised.
        check(unsafe { VELOC_Checkpoint(name.as_ptr(), version) })
    }

    /// Restores a checkpoint.
    pub(in crate::host) fn restart(&self, version: i32) -> Result<()> {
        // SAFETY: as above.
        check(unsafe { VELOC_Restart(NAME.as_ptr(), version) })
    }

    /// The newest version up to `version`; with 0, the newest of all.
    pub(in crate::host) fn restart_test(&self, version: i32) -> Result<i32> {
        // SAFETY: the name ends with NUL.
        let found = unsafe { VELOC_Restart_test(NAME.as_ptr(), version) };
        check(if found == VELOC_FAILURE { VELOC_FAILURE } else { VELOC_SUCCESS })?;
        Ok(found)
    }

    /// Bytes of region 0 of a version.
    pub(in crate::host) fn recover_size(&self, version: i32) -> usize {
        // SAFETY: the name ends with NUL.
        unsafe { VELOC_Recover_ckpt_size(NAME.as_ptr(), version, 0) }
    }

    /// Says that a version will be restored after those said before.
    pub(in crate::host) fn hint(&self, version: i32) -> Result<()> {
        // SAFETY: the name ends with NUL.
        check(unsafe { VELOC_Prefetch_enqueue(NAME.as_ptr(), version) })
    }

    /// Removes all checkpoints of a name.
    pub(in crate::host) fn cleanup(&self, name: &CStr) -> Result<()> {
        // SAFETY: the name ends with NUL.
        check(unsafe { VELOC_Cleanup(name.as_ptr()) })
    }

    /// Waits until nothing is being flushed or written.
    pub(in crate::host) fn drain(&self) -> Result<()> {
        check(VELOC_Checkpoint_wait())
    }

    pub(in crate::host) fn metrics(&self) -> Result<VELOC_Metrics> {
        let mut metrics = VELOC_Metrics::default();
        // SAFETY: the size is the struct's.
        check(unsafe { VELOC_Get_metrics(&mut metrics, std::mem::size_of::<VELOC_Metrics>()) })?;
        Ok(metrics)
    }

    /// Waits until `done` is true of the metrics.
    pub(in crate::host) fn until(
        &self,
        what: &str,
        done: impl Fn(&VELOC_Metrics) -> bool,
    ) -> Result<()> {
        let since = Instant::now();
        while !done(&self.metrics()?) {
            if since.elapsed() > STUCK {
                bail!("{what}: not done after {} s", STUCK.as_secs());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Waits until no more pages of the host buffer are touched: those for the expected bytes
    /// exist.
    pub(in crate::host) fn until_touched(&self) -> Result<()> {
        let mut touched = None;
        let since = Instant::now();
        loop {
            let now = self.metrics()?.host_touched;
            if touched.replace(now) == Some(now) {
                return Ok(());
            }
            if since.elapsed() > STUCK {
                bail!("touching the host buffer: not done after {} s", STUCK.as_secs());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for BenchJob {
    fn drop(&mut self) {
        if let Err(error) = check(VELOC_Finalize(0)) {
            eprintln!("VELOC_Finalize: {error}");
        }
    }
}

/// An error with the reason, if the call has failed.
pub(in crate::host) fn check(status: i32) -> Result<()> {
    if status == VELOC_SUCCESS {
        return Ok(());
    }
    // SAFETY: never NULL, and valid until the next call that fails.
    let reason = unsafe { CStr::from_ptr(VELOC_Last_error()) };
    bail!("{}", reason.to_string_lossy())
}
