//! Where the wavefields wait between the passes: the checkpoint library, or plain memory.
//!
//! Every call of the library's C functions is in this file.

use std::ffi::{c_int, c_void, CStr, CString};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
use veloc_client::capi::{
    VELOC_Checkpoint, VELOC_Checkpoint_wait, VELOC_Finalize, VELOC_Get_metrics, VELOC_Init_single,
    VELOC_Last_error, VELOC_Mem_compress, VELOC_Mem_protect, VELOC_Metrics, VELOC_Prefetch_enqueue,
    VELOC_Prefetch_start, VELOC_Recover_ckpt_size, VELOC_Restart, VELOC_Set_stream,
    VELOC_COMPRESS_RELATIVE,
};

use crate::compress;
use crate::wave::Propagator;

const NAME: &CStr = c"rtm";

/// The one region that a checkpoint holds.
const REGION: c_int = 0;

/// Keeps the states of a propagator under version numbers.
pub(crate) trait Store {
    /// Keeps the propagator's state, which may change again once this returns.
    fn save(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()>;

    /// Says that these states will be loaded, the last first.
    fn announce_reverse(&mut self, versions: Range<i32>) -> Result<()>;

    /// Brings a kept state back into the propagator.
    fn load(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()>;
}

/// Every state in plain memory: a reference for the library's result.
pub(crate) struct InMemory {
    states: Vec<Vec<f32>>,
    /// Values of a state.
    points: usize,
}

impl InMemory {
    /// A store for states of `points` values.
    pub(crate) fn new(points: usize) -> Self {
        InMemory { states: Vec::new(), points }
    }
}

impl Store for InMemory {
    fn save(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()> {
        ensure!(self.states.len() == version as usize, "state {version} is out of order");
        let mut state = vec![0.0; self.points];
        device.read_state(&mut state)?;
        self.states.push(state);
        Ok(())
    }

    fn announce_reverse(&mut self, _versions: Range<i32>) -> Result<()> {
        Ok(())
    }

    fn load(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()> {
        let state = self.states.get(version as usize);
        device.write_state(state.with_context(|| format!("state {version} was never kept"))?)
    }
}

/// The calls of one function, as the application sees them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    /// The number of calls.
    pub count: u64,
    /// The time from call to return, summed.
    pub total: Duration,
    /// The longest time of a call.
    pub longest: Duration,
}

impl Calls {
    /// Runs `call` and adds its time.
    fn time<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = call();
        let took = start.elapsed();
        self.count += 1;
        self.total += took;
        self.longest = self.longest.max(took);
        result
    }
}

/// Calls and bytes of a run through the library.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    /// `VELOC_Mem_protect`.
    pub protect: Calls,
    /// `VELOC_Checkpoint`.
    pub checkpoint: Calls,
    /// `VELOC_Prefetch_enqueue` and `VELOC_Prefetch_start`.
    pub prefetch: Calls,
    /// `VELOC_Restart`.
    pub restart: Calls,
    /// Reading states from the device and compressing them, where they are compressed.
    pub pack: Calls,
    /// Decompressing states, and writing them to the device.
    pub unpack: Calls,
    /// Bytes of the states before compression.
    pub raw_bytes: u64,
    /// Bytes handed to the library.
    pub kept_bytes: u64,
    /// The smallest and the largest state handed to the library, in bytes.
    pub sizes: (usize, usize),
}

impl Usage {
    /// Time inside the library.
    pub(crate) fn waited(&self) -> Duration {
        self.protect.total + self.checkpoint.total + self.prefetch.total + self.restart.total
    }

    /// Protects `count` elements of `size` bytes at `memory`, on the host or on the device, as the one region.
    /// Called before each checkpoint and restart, as the memory may have moved.
    fn protect(&mut self, memory: *mut c_void, count: usize, size: usize) -> Result<()> {
        let code = self.protect.time(|| VELOC_Mem_protect(REGION, memory, count, size));
        checked(code).with_context(|| format!("a state of {} bytes", count * size))
    }

    /// Protects a state as it is.
    fn protect_whole(&mut self, device: &mut dyn Propagator, bytes: usize) -> Result<()> {
        self.protect(device.state(), bytes / size_of::<f32>(), size_of::<f32>())
    }

    /// Counts a state of `raw` bytes that is handed to the library as `kept` bytes.
    fn count_state(&mut self, raw: usize, kept: usize) {
        let (least, most) = self.sizes;
        let first = self.kept_bytes == 0;
        self.sizes = (if first { kept } else { least.min(kept) }, most.max(kept));
        self.raw_bytes += raw as u64;
        self.kept_bytes += kept as u64;
    }
}

/// How states are handed to the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Form {
    /// As they are.
    Whole,
    /// Compressed by this program, without loss.
    Packed,
    /// To be compressed by the library, to so many bits of a value, within a part of the largest one.
    Bits(c_int, f64),
}

/// Working memory for compressed states.
struct Packing {
    values: Vec<f32>,
    scratch: Vec<u8>,
    packed: Vec<u8>,
}

/// States kept by the checkpoint library.
pub(crate) struct Library {
    /// Set where states are compressed before they are handed over.
    packing: Option<Packing>,
    /// The first state is to be compressed by the library from then on.
    bits: Option<(c_int, f64)>,
    bytes: usize,
    drain: bool,
    open: bool,
    usage: Usage,
}

/// The result of a library function; an error says which function has failed.
fn checked(code: c_int) -> Result<()> {
    ensure!(code >= 0, "{}", last_error());
    Ok(())
}

/// The library's message about the last failure.
fn last_error() -> String {
    // SAFETY: never null, a text that ends with a zero and lives until this thread's next failing
    // call, which comes after it has been copied.
    let text = unsafe { CStr::from_ptr(VELOC_Last_error()) };
    text.to_string_lossy().into_owned()
}

impl Library {
    /// Starts the library with a configuration, for the states of `device`, each of `points`
    /// values. `drain` makes [`Library::finish`] wait until every checkpoint is where the
    /// configuration sends it.
    pub(crate) fn new(
        config: &Path,
        device: &dyn Propagator,
        points: usize,
        form: Form,
        drain: bool,
    ) -> Result<Self> {
        let path = CString::new(config.as_os_str().as_encoded_bytes())
            .context("the configuration's path holds a zero byte")?;
        // This program prints failures itself: a program that asks for messages has none printed by
        // the library.
        let _ = last_error();
        // SAFETY: the path is a text that ends with a zero.
        let started = unsafe { VELOC_Init_single(0, path.as_ptr()) };
        checked(started)?;
        let packing = matches!(form, Form::Packed).then(|| Packing {
            values: vec![0.0; points],
            scratch: Vec::new(),
            packed: Vec::new(),
        });
        let bytes = points * size_of::<f32>();
        let bits = match form {
            Form::Bits(bits, bound) => Some((bits, bound)),
            Form::Whole | Form::Packed => None,
        };
        let library = Library { packing, bits, bytes, drain, open: true, usage: Usage::default() };
        if !device.stream().is_null() {
            // States are captured and restored in the order of the device's own kernels.
            // SAFETY: the device's stream lives as long as the run.
            checked(unsafe { VELOC_Set_stream(device.stream()) })?;
        }
        Ok(library)
    }

    /// The library's own metrics so far.
    pub(crate) fn metrics(&self) -> Result<VELOC_Metrics> {
        let mut metrics = VELOC_Metrics::default();
        // SAFETY: the structure has the size that is given.
        let code = unsafe { VELOC_Get_metrics(&mut metrics, size_of::<VELOC_Metrics>()) };
        checked(code)?;
        Ok(metrics)
    }

    /// Calls and bytes of the run so far.
    pub(crate) fn usage(&self) -> Usage {
        self.usage
    }

    /// Ends the library's work; a failure in the background is reported here at the latest.
    pub(crate) fn finish(mut self) -> Result<()> {
        if self.drain {
            checked(VELOC_Checkpoint_wait())?;
        }
        self.open = false;
        checked(VELOC_Finalize(c_int::from(self.drain)))
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if self.open {
            // The library is still open here only after a failure, which is reported; an error of
            // this call is not.
            let _ = VELOC_Finalize(0);
        }
    }
}

impl Store for Library {
    fn save(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()> {
        let Library { packing, bits, usage, bytes, .. } = self;
        let size = match packing {
            None => {
                usage.protect_whole(device, *bytes)?;
                if let Some((bits, bound)) = bits.take() {
                    let mode = bits | VELOC_COMPRESS_RELATIVE;
                    checked(VELOC_Mem_compress(REGION, mode, bound))?;
                }
                *bytes
            }
            Some(Packing { values, scratch, packed }) => {
                usage.pack.time(|| {
                    device.read_state(values)?;
                    compress::pack(values, scratch, packed)
                })?;
                usage.protect(packed.as_mut_ptr().cast(), packed.len(), 1)?;
                packed.len()
            }
        };
        usage.count_state(*bytes, size);
        // SAFETY: the name ends with a zero; the memory protected just now lives, and nothing
        // else uses it until the call returns.
        let code = usage.checkpoint.time(|| unsafe { VELOC_Checkpoint(NAME.as_ptr(), version) });
        checked(code).with_context(|| format!("version {version}"))
    }

    fn announce_reverse(&mut self, versions: Range<i32>) -> Result<()> {
        let calls = &mut self.usage.prefetch;
        for version in versions.rev() {
            // SAFETY: the name ends with a zero.
            let code = calls.time(|| unsafe { VELOC_Prefetch_enqueue(NAME.as_ptr(), version) });
            checked(code).with_context(|| format!("version {version}"))?;
        }
        checked(calls.time(|| VELOC_Prefetch_start()))
    }

    fn load(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()> {
        let Library { packing, usage, bytes, .. } = self;
        match packing {
            None => usage.protect_whole(device, *bytes)?,
            Some(Packing { packed, .. }) => {
                // SAFETY: the name ends with a zero.
                let size = unsafe { VELOC_Recover_ckpt_size(NAME.as_ptr(), version, REGION) };
                if size == 0 {
                    bail!("version {version}: {}", last_error());
                }
                packed.resize(size, 0);
                usage.protect(packed.as_mut_ptr().cast(), size, 1)?;
            }
        }
        // SAFETY: the name ends with a zero; the memory protected just now lives, and nothing
        // else uses it until the call returns.
        let code = usage.restart.time(|| unsafe { VELOC_Restart(NAME.as_ptr(), version) });
        checked(code).with_context(|| format!("version {version}"))?;
        if let Some(Packing { values, scratch, packed }) = packing {
            usage.unpack.time(|| {
                compress::unpack(packed, scratch, values)?;
                device.write_state(values)
            })?;
        }
        Ok(())
    }
}
