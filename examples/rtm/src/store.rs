//! Where the wavefields wait between the passes: the checkpoint library, or plain memory.
//!
//! Every call of the library's C functions is in this file.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr, CString};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Context, Result};
// The functions below are the library's: this links it.
use veloc_client as _;

use crate::compress;
use crate::report::Hops;
use crate::wave::Propagator;

extern "C" {
    fn VELOC_Init_single(id: c_uint, config: *const c_char) -> c_int;
    fn VELOC_Set_stream(stream: *mut c_void) -> c_int;
    fn VELOC_Mem_protect(id: c_int, ptr: *mut c_void, count: usize, base_size: usize) -> c_int;
    fn VELOC_Checkpoint(name: *const c_char, version: c_int) -> c_int;
    fn VELOC_Checkpoint_wait() -> c_int;
    fn VELOC_Prefetch_enqueue(name: *const c_char, version: c_int) -> c_int;
    fn VELOC_Prefetch_start() -> c_int;
    fn VELOC_Recover_ckpt_size(name: *const c_char, version: c_int, region: c_int) -> usize;
    fn VELOC_Restart(name: *const c_char, version: c_int) -> c_int;
    fn VELOC_Get_trf_metrics(text: *mut c_char);
    fn VELOC_Finalize(drain: c_int) -> c_int;
    fn VELOC_Last_error() -> *const c_char;
}

/// The name of the checkpoints.
const NAME: &CStr = c"rtm";

/// The one region that a checkpoint holds.
const REGION: c_int = 0;

/// The most bytes, with the final zero, that `VELOC_Get_trf_metrics` writes.
const METRICS_SIZE: usize = 1024;

/// Keeps the states of a propagator under version numbers.
pub trait Store {
    /// Keeps the propagator's state. It may change again once this returns.
    fn save(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()>;

    /// Says in which order the states will be asked for.
    fn announce(&mut self, versions: std::iter::Rev<std::ops::Range<i32>>) -> Result<()>;

    /// Brings a kept state back into the propagator.
    fn load(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()>;
}

/// Every state in plain memory: what the library's result is compared with.
pub struct InMemory {
    states: Vec<Vec<f32>>,
    /// Values of a state.
    points: usize,
}

impl InMemory {
    /// A store for states of `points` values.
    pub fn new(points: usize) -> Self {
        InMemory {
            states: Vec::new(),
            points,
        }
    }
}

impl Store for InMemory {
    fn save(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()> {
        ensure!(
            self.states.len() == version as usize,
            "state {version} is out of order"
        );
        let mut state = vec![0.0; self.points];
        device.read_state(&mut state)?;
        self.states.push(state);
        Ok(())
    }

    fn announce(&mut self, _versions: std::iter::Rev<std::ops::Range<i32>>) -> Result<()> {
        Ok(())
    }

    fn load(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()> {
        let state = self.states.get(version as usize);
        device.write_state(state.with_context(|| format!("state {version} was never kept"))?)
    }
}

/// The calls of one function, as the application sees them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Calls {
    /// How many.
    pub count: u64,
    /// From call to return, summed.
    pub total: Duration,
    /// The longest.
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

/// What a run through the library took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// `VELOC_Checkpoint`.
    pub checkpoint: Calls,
    /// `VELOC_Restart`.
    pub restart: Calls,
    /// Compressing, where states are compressed.
    pub pack: Calls,
    /// Decompressing.
    pub unpack: Calls,
    /// Bytes of the states before compression.
    pub raw_bytes: u64,
    /// Bytes handed to the library.
    pub kept_bytes: u64,
    /// The smallest and the largest state handed to the library, in bytes.
    pub sizes: (usize, usize),
}

/// Working memory for compressed states.
struct Packing {
    values: Vec<f32>,
    scratch: Vec<u8>,
    packed: Vec<u8>,
}

/// States kept by the checkpoint library.
pub struct Library {
    /// Set where states are compressed before they are handed over.
    packing: Option<Packing>,
    bytes: usize,
    drain: bool,
    open: bool,
    usage: Usage,
}

/// The result of one of the library's functions, with its own words where it failed.
fn checked(code: c_int, what: impl FnOnce() -> String) -> Result<()> {
    if code >= 0 {
        return Ok(());
    }
    // SAFETY: may be called at any time on the thread that saw the failure.
    let text = unsafe { VELOC_Last_error() };
    if text.is_null() {
        bail!("{} failed", what());
    }
    // SAFETY: a text that ends with a zero and lives until the library's next call, which comes
    // after it has been copied.
    let text = unsafe { CStr::from_ptr(text) };
    bail!("{}: {}", what(), text.to_string_lossy())
}

impl Library {
    /// Starts the library with a configuration, for the states of `device`, each of `points`
    /// values. `drain` makes [`Library::finish`] wait until every checkpoint is where the
    /// configuration sends it.
    pub fn new(
        config: &Path,
        device: &dyn Propagator,
        points: usize,
        compressed: bool,
        drain: bool,
    ) -> Result<Self> {
        let path = CString::new(config.as_os_str().as_encoded_bytes())
            .context("the configuration's path holds a zero byte")?;
        // SAFETY: the path is a text that ends with a zero.
        let started = unsafe { VELOC_Init_single(0, path.as_ptr()) };
        checked(started, || {
            format!("VELOC_Init_single with {}", config.display())
        })?;
        let packing = compressed.then(|| Packing {
            values: vec![0.0; points],
            scratch: Vec::new(),
            packed: Vec::new(),
        });
        let bytes = points * size_of::<f32>();
        let library = Library {
            packing,
            bytes,
            drain,
            open: true,
            usage: Usage::default(),
        };
        if !device.stream().is_null() {
            // SAFETY: the stream lives as long as the device, which outlives the library's use:
            // states are captured in the order of its kernels.
            checked(unsafe { VELOC_Set_stream(device.stream()) }, || {
                "VELOC_Set_stream".into()
            })?;
        }
        Ok(library)
    }

    /// Bytes moved per hop so far, as the library counts them.
    pub fn hops(&self) -> Hops {
        let mut text = [0u8; METRICS_SIZE];
        // SAFETY: the buffer has the size that the function may fill.
        unsafe { VELOC_Get_trf_metrics(text.as_mut_ptr().cast()) };
        let end = text
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(text.len());
        Hops::parse(&String::from_utf8_lossy(&text[..end]))
    }

    /// What the run took so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Ends the library's work; a failure in the background is reported here at the latest.
    pub fn finish(mut self) -> Result<()> {
        if self.drain {
            // SAFETY: the library has been started.
            checked(unsafe { VELOC_Checkpoint_wait() }, || {
                "VELOC_Checkpoint_wait".into()
            })?;
        }
        self.open = false;
        // SAFETY: as above; nothing is called afterwards.
        checked(unsafe { VELOC_Finalize(c_int::from(self.drain)) }, || {
            "VELOC_Finalize".into()
        })
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if self.open {
            // SAFETY: the library has been started; this is after a failure, which is what will
            // be reported.
            let _ = unsafe { VELOC_Finalize(0) };
        }
    }
}

/// Protects `size` bytes at `memory` as the region of the checkpoints.
///
/// # Safety
/// Until the next call of this function, each checkpoint and restart needs the memory to be
/// there, on the host or on the device, and not in use by others while the call lasts.
unsafe fn protect(memory: *mut c_void, size: usize) -> Result<()> {
    // SAFETY: the caller's promise.
    let code = unsafe { VELOC_Mem_protect(REGION, memory, size, 1) };
    checked(code, || format!("VELOC_Mem_protect of {size} bytes"))
}

impl Store for Library {
    fn save(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()> {
        let size = match &mut self.packing {
            None => {
                // SAFETY: the state lives as long as the device, and the next checkpoint or
                // restart is preceded by another call of `protect`.
                unsafe { protect(device.state(), self.bytes)? };
                self.bytes
            }
            Some(Packing {
                values,
                scratch,
                packed,
            }) => {
                device.read_state(values)?;
                self.usage
                    .pack
                    .time(|| compress::pack(values, scratch, packed))?;
                // SAFETY: as above; the buffer is not touched until the checkpoint has returned.
                unsafe { protect(packed.as_mut_ptr().cast(), packed.len())? };
                packed.len()
            }
        };
        let (least, most) = self.usage.sizes;
        let first = self.usage.checkpoint.count == 0;
        self.usage.sizes = (if first { size } else { least.min(size) }, most.max(size));
        self.usage.raw_bytes += self.bytes as u64;
        self.usage.kept_bytes += size as u64;
        // SAFETY: the name ends with a zero; the region was protected just now.
        let code = self
            .usage
            .checkpoint
            .time(|| unsafe { VELOC_Checkpoint(NAME.as_ptr(), version) });
        checked(code, || format!("VELOC_Checkpoint of version {version}"))
    }

    fn announce(&mut self, versions: std::iter::Rev<std::ops::Range<i32>>) -> Result<()> {
        for version in versions {
            // SAFETY: the name ends with a zero.
            let code = unsafe { VELOC_Prefetch_enqueue(NAME.as_ptr(), version) };
            checked(code, || {
                format!("VELOC_Prefetch_enqueue of version {version}")
            })?;
        }
        // SAFETY: the library has been started.
        checked(unsafe { VELOC_Prefetch_start() }, || {
            "VELOC_Prefetch_start".into()
        })
    }

    fn load(&mut self, device: &mut dyn Propagator, version: i32) -> Result<()> {
        match &mut self.packing {
            // SAFETY: as in `save`.
            None => unsafe { protect(device.state(), self.bytes)? },
            Some(Packing { packed, .. }) => {
                // SAFETY: the name ends with a zero.
                let size = unsafe { VELOC_Recover_ckpt_size(NAME.as_ptr(), version, REGION) };
                ensure!(
                    size > 0 && size <= lz4_flex::block::get_maximum_output_size(self.bytes),
                    "VELOC_Recover_ckpt_size of version {version} says {size} bytes"
                );
                packed.resize(size, 0);
                // SAFETY: as in `save`.
                unsafe { protect(packed.as_mut_ptr().cast(), size)? };
            }
        }
        // SAFETY: the name ends with a zero; the region was protected just now.
        let code = self
            .usage
            .restart
            .time(|| unsafe { VELOC_Restart(NAME.as_ptr(), version) });
        checked(code, || format!("VELOC_Restart of version {version}"))?;
        if let Some(Packing {
            values,
            scratch,
            packed,
        }) = &mut self.packing
        {
            self.usage
                .unpack
                .time(|| compress::unpack(packed, scratch, values))?;
            device.write_state(values)?;
        }
        Ok(())
    }
}
