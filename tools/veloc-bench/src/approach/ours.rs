//! This library, through its C functions, as an application uses it.

use std::ffi::{c_int, c_void, CStr, CString};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::Duration;

use ::trace::metrics::{CAUSES, HOPS};
use anyhow::{ensure, Context, Result};
use device::Stream;
use veloc_client::capi::{
    VELOC_Checkpoint, VELOC_Finalize, VELOC_Get_metrics, VELOC_Init_single, VELOC_Last_error,
    VELOC_Mem_protect, VELOC_Metrics, VELOC_Prefetch_enqueue, VELOC_Prefetch_start, VELOC_Restart,
    VELOC_Set_stream, VELOC_Sum,
};

use super::{Approach, Insight};
use crate::cuda::CudaBuffer;
use crate::plan::{PointPlan, RestoreSequence};
use crate::results::{Decisions, HopFigures};
use crate::waits::WaitingTimes;

const NAME: &CStr = c"bench";
const REGION: c_int = 0;

/// A file without a name, for a reader that wants a path: it does not outlive this process.
#[derive(Debug)]
pub(crate) struct NamelessFile(File);

impl NamelessFile {
    /// A file with this content.
    pub(crate) fn new(content: &str) -> Result<NamelessFile> {
        let mut file = tempfile::tempfile().context("a temporary file")?;
        file.write_all(content.as_bytes()).context("writing a temporary file")?;
        Ok(NamelessFile(file))
    }

    /// A path for readers in this process, as long as the `NamelessFile` lives.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

/// A job of the library.
pub(super) struct Ours {
    buffer: *mut c_void,
    protected: u64,
    open: bool,
}

fn checked(code: c_int) -> Result<()> {
    if code >= 0 {
        return Ok(());
    }
    // SAFETY: never null, a text that ends with a zero and lives until this thread's next failing
    // call, which comes after it has been copied.
    let text = unsafe { CStr::from_ptr(VELOC_Last_error()) };
    anyhow::bail!("{}", text.to_string_lossy())
}

/// The configuration of an ephemeral job with the levels of the plan.
pub(crate) fn configuration(plan: &PointPlan) -> String {
    let order = match plan.order {
        RestoreSequence::Reverse => "reverse",
        RestoreSequence::Same => "same",
        RestoreSequence::Random => "random",
    };
    let device = match plan.device_cache_most {
        Some(most) => format!("{}B..{most}B", plan.device_cache),
        None => format!("{}B", plan.device_cache),
    };
    let mut text = format!(
        "mode = async\nephemeral = true\ngpu_cache_size = {device}\nhost_cache_size = {}B\n\
         restore_order = {order}\ntouch = {}\npin = {}\n",
        plan.host_cache, plan.touch, plan.pin
    );
    for setting in &plan.settings {
        text += setting;
        text.push('\n');
    }
    text
}

impl Ours {
    pub(super) fn start(
        plan: &PointPlan,
        process: u32,
        stream: &Stream,
        buffer: &CudaBuffer,
    ) -> Result<Ours> {
        let file =
            NamelessFile::new(&configuration(plan)).context("the library's configuration")?;
        let path = CString::new(file.path().as_os_str().as_encoded_bytes())
            .context("the configuration's path holds a zero byte")?;
        // SAFETY: the path is a text that ends with a zero.
        checked(unsafe { VELOC_Init_single(process, path.as_ptr()) })?;
        let mut ours = Ours { buffer: buffer.address() as *mut c_void, protected: 0, open: true };
        // SAFETY: the stream lives as long as the run.
        checked(unsafe { VELOC_Set_stream(stream.raw().cast()) })?;
        ours.protect(buffer.bytes())?;
        Ok(ours)
    }

    /// The region has the size of the checkpoint at hand, as an application with compressed states
    /// would have it.
    fn protect(&mut self, bytes: u64) -> Result<()> {
        if self.protected != bytes {
            checked(VELOC_Mem_protect(REGION, self.buffer, bytes as usize, 1))?;
            self.protected = bytes;
        }
        Ok(())
    }

    fn metrics(&self) -> Result<VELOC_Metrics> {
        let mut metrics = VELOC_Metrics::default();
        // SAFETY: the structure has the size that is given.
        checked(unsafe { VELOC_Get_metrics(&mut metrics, size_of::<VELOC_Metrics>()) })?;
        Ok(metrics)
    }
}

impl Approach for Ours {
    fn checkpoint(&mut self, version: u32, bytes: u64) -> Result<()> {
        self.protect(bytes)?;
        // SAFETY: the name ends with a zero; nothing else uses the buffer until the call returns.
        checked(unsafe { VELOC_Checkpoint(NAME.as_ptr(), version as c_int) })
    }

    fn expect(&mut self, versions: &[u32]) -> Result<()> {
        for version in versions {
            // SAFETY: the name ends with a zero.
            checked(unsafe { VELOC_Prefetch_enqueue(NAME.as_ptr(), *version as c_int) })?;
        }
        match versions {
            [] => Ok(()),
            _ => checked(VELOC_Prefetch_start()),
        }
    }

    fn restore(&mut self, version: u32, bytes: u64) -> Result<()> {
        self.protect(bytes)?;
        // SAFETY: as in `checkpoint`.
        checked(unsafe { VELOC_Restart(NAME.as_ptr(), version as c_int) })
    }

    fn waits(&self) -> Result<WaitingTimes> {
        let metrics = self.metrics()?;
        ensure!(metrics.blocked.len() == CAUSES.len());
        let mut waits = WaitingTimes::default();
        for ((_, cause), sum) in CAUSES.iter().zip(&metrics.blocked) {
            waits.add(cause, Duration::from_nanos(sum.nanoseconds), sum.count);
        }
        Ok(waits)
    }

    fn insight(&mut self) -> Result<Insight> {
        let metrics = self.metrics()?;
        ensure!(metrics.hops.len() == HOPS.len());
        let seconds = |sum: &VELOC_Sum| sum.nanoseconds as f64 / 1e9;
        let hop = |name: &str, sum: &VELOC_Sum| HopFigures {
            name: name.to_owned(),
            bytes: sum.bytes,
            seconds: seconds(sum),
        };
        let mut hops: Vec<HopFigures> =
            HOPS.iter().zip(&metrics.hops).map(|((_, name), sum)| hop(name, sum)).collect();
        hops.extend([
            hop("map", &metrics.map),
            hop("touch", &metrics.touch),
            hop("register", &metrics.registration),
            hop("turn", &metrics.turn),
        ]);
        hops.retain(|hop| hop.bytes > 0 || hop.seconds > 0.0);
        Ok(Insight {
            hops,
            device_cache: Some(metrics.device_capacity),
            managed: None,
            decisions: Some(Decisions {
                mode: if metrics.touch_mode == 0 { "sequential" } else { "concurrent" }.to_owned(),
                changes: metrics.touch_changes,
                rates: metrics.touch_rates,
                predictions: metrics.touch_predictions,
                touched: metrics.host_touched,
                registered: metrics.host_registered,
            }),
            notes: Vec::new(),
        })
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.open = false;
        checked(VELOC_Finalize(0))
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        if self.open {
            // A job is still open here only after a failure, which is reported; an error of this
            // call is not.
            let _ = VELOC_Finalize(0);
        }
    }
}
