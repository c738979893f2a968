//! The propagator on a CUDA device, through the driver alone.
//!
//! The kernels travel as PTX text, which the driver compiles for the device it finds. Where the
//! driver is this project's software device, [`super::software`] gives it the kernels instead and
//! everything else runs as it would on a GPU.

use std::ffi::{c_void, CString};

use anyhow::{ensure, Context as _, Result};
use cudarc::driver::result::{self, module, stream, DriverError};
use cudarc::driver::sys;

use super::{software, Grid, Medium, Propagator, Spread};

/// The kernels, as `scripts/make_ptx.py` compiled them.
const PTX: &str = include_str!("../../kernels/rtm.ptx");

/// Threads of a block along depth and along x.
const BLOCK: (u32, u32) = (64, 4);

/// Threads of a block of the kernels that run over receivers.
const LINE_BLOCK: u32 = 128;

/// A driver call's result with what was tried.
fn driver<T>(result: Result<T, DriverError>, what: &str) -> Result<T> {
    result.map_err(|error| {
        let code = error.0 as u32;
        match error.error_string() {
            Ok(text) => anyhow::anyhow!("{what}: {} (CUDA error {code})", text.to_string_lossy()),
            Err(_) => anyhow::anyhow!("{what}: CUDA error {code}"),
        }
    })
}

/// The device's primary context, current on the thread that made it.
struct Primary(sys::CUdevice);

impl Primary {
    fn new(device: sys::CUdevice) -> Result<Self> {
        // SAFETY: the device came from `cuDeviceGet`.
        let context = unsafe { result::primary_ctx::retain(device) };
        let context = driver(context, "retaining the primary context")?;
        let primary = Primary(device);
        // SAFETY: the context was retained just now, and stays so until `primary` is dropped.
        let current = unsafe { result::ctx::set_current(context) };
        driver(current, "making the context current")?;
        Ok(primary)
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained once in `new`; whatever lived in the context has been dropped before,
        // as the order of the fields of `Cuda` has it. Nothing can be done about an error.
        let _ = unsafe { result::primary_ctx::release(self.0) };
    }
}

/// A stream that does not wait for the default stream.
struct Stream(sys::CUstream);

impl Stream {
    fn new() -> Result<Self> {
        driver(stream::create(stream::StreamKind::NonBlocking), "creating a stream").map(Stream)
    }

    fn wait(&self) -> Result<()> {
        // SAFETY: the stream lives as long as `self`.
        driver(unsafe { stream::synchronize(self.0) }, "waiting for the stream")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: created in `new` and destroyed only here. Nothing can be done about an error.
        let _ = unsafe { stream::destroy(self.0) };
    }
}

/// Device memory of 4-byte values.
struct Buffer {
    address: sys::CUdeviceptr,
    bytes: usize,
}

impl Buffer {
    /// Memory for `len` values, not yet written.
    fn new(len: usize) -> Result<Self> {
        let bytes = len * size_of::<f32>();
        // SAFETY: nothing reads the memory before `zero` or `write` has been called on it.
        let address = unsafe { result::malloc_sync(bytes) };
        let address = driver(address, &format!("allocating {bytes} bytes on the device"))?;
        Ok(Buffer { address, bytes })
    }

    fn zero(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the range is the whole allocation, which lives as long as `self`.
        let done = unsafe { result::memset_d8_async(self.address, 0, self.bytes, stream.0) };
        driver(done, "clearing device memory")
    }

    /// Copies `from` into this buffer, in order with the stream, and waits for the copy.
    fn write<T>(&self, from: &[T], stream: &Stream) -> Result<()> {
        ensure!(size_of_val(from) == self.bytes, "a copy to the device of another size");
        // SAFETY: the sizes agree, and `from` is borrowed until the stream has been waited for.
        let queued = unsafe { result::memcpy_htod_async(self.address, from, stream.0) };
        driver(queued, "copying to the device")?;
        stream.wait()
    }

    /// Copies this buffer into `into`, in order with the stream, and waits for the copy.
    fn read(&self, into: &mut [f32], stream: &Stream) -> Result<()> {
        ensure!(size_of_val(into) == self.bytes, "a copy from the device of another size");
        // SAFETY: the sizes agree, any bits make an f32, and `into` is borrowed until the stream
        // has been waited for.
        let queued = unsafe { result::memcpy_dtoh_async(into, self.address, stream.0) };
        driver(queued, "copying from the device")?;
        stream.wait()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` and freed only here; `cuMemFree` waits for work that uses
        // the memory. Nothing can be done about an error.
        let _ = unsafe { result::free_sync(self.address) };
    }
}

/// An argument of a kernel.
enum Arg {
    Address(sys::CUdeviceptr),
    Word(u32),
}

impl From<&Buffer> for Arg {
    fn from(buffer: &Buffer) -> Self {
        Arg::Address(buffer.address)
    }
}

/// The loaded kernels.
struct Kernels {
    border: sys::CUfunction,
    step: sys::CUfunction,
    inject: sys::CUfunction,
    record: sys::CUfunction,
    snapshot: sys::CUfunction,
    correlate: sys::CUfunction,
}

impl Kernels {
    /// Has the driver compile the kernels. They stay loaded as long as the context lives.
    fn load() -> Result<Self> {
        let text = CString::new(PTX).context("the kernels' text holds a zero byte")?;
        // SAFETY: the text is PTX and ends with a zero byte; the driver keeps no reference to it.
        let module = unsafe { module::load_data(text.as_ptr().cast()) };
        let module = driver(module, "compiling the kernels")?;
        let kernel = |name: &str| -> Result<sys::CUfunction> {
            let symbol = CString::new(name)?;
            // SAFETY: the module was loaded above and is never unloaded.
            let function = unsafe { module::get_function(module, symbol) };
            driver(function, &format!("finding the kernel {name}"))
        };
        Ok(Kernels {
            border: kernel("rtm_border")?,
            step: kernel("rtm_step")?,
            inject: kernel("rtm_inject")?,
            record: kernel("rtm_record")?,
            snapshot: kernel("rtm_snapshot")?,
            correlate: kernel("rtm_correlate")?,
        })
    }
}

/// The wavefields and all arrays in device memory. The last fields are dropped last: the context
/// outlives the rest.
pub(crate) struct Cuda {
    name: String,
    software: bool,
    grid: Grid,
    receivers: u32,
    kernels: Kernels,
    source_place: Buffer,
    receiver_places: Buffer,
    wavelet: Buffer,
    /// `(a, b)` of the absorbing profile along x and along depth.
    absorb: [Buffer; 4],
    courant2: Buffer,
    field: Buffer,
    other: Buffer,
    /// psi along x and depth, then zeta along x and depth.
    memory: [Buffer; 4],
    traces: Buffer,
    state: Buffer,
    image: Buffer,
    illumination: Buffer,
    stream: Stream,
    _primary: Primary,
}

/// An error with the reason if there is no CUDA driver with a device.
pub(crate) fn available() -> Result<()> {
    // SAFETY: loading the driver runs no more than its constructors.
    let present = unsafe { sys::is_culib_present() };
    ensure!(present, "no CUDA driver (libcuda) was found");
    driver(result::init(), "starting the CUDA driver")?;
    let devices = driver(result::device::get_count(), "counting CUDA devices")?;
    ensure!(devices > 0, "the CUDA driver has no device");
    Ok(())
}

impl Cuda {
    /// A propagator on the driver's first device, at rest and with an empty medium. It takes as
    /// many steps as the wavelet has samples.
    pub(crate) fn new(grid: Grid, spread: &Spread, wavelet: &[f32]) -> Result<Self> {
        available()?;
        let device = driver(result::device::get(0), "opening CUDA device 0")?;
        let primary = Primary::new(device)?;
        let software = software::install()?;
        let name = driver(result::device::get_name(device), "reading the device's name")?;
        let name = if software {
            format!("software device (not a GPU), {} threads", rayon::current_num_threads())
        } else {
            name
        };
        let field = || Buffer::new(grid.padded());
        let model = || Buffer::new(grid.points());
        let receivers = spread.receivers.len();
        let mut cuda = Cuda {
            name,
            software,
            grid,
            receivers: u32::try_from(receivers)?,
            kernels: Kernels::load()?,
            source_place: Buffer::new(1)?,
            receiver_places: Buffer::new(receivers)?,
            wavelet: Buffer::new(wavelet.len())?,
            absorb: [
                Buffer::new(grid.px())?,
                Buffer::new(grid.px())?,
                Buffer::new(grid.pz())?,
                Buffer::new(grid.pz())?,
            ],
            courant2: field()?,
            field: field()?,
            other: field()?,
            memory: [field()?, field()?, field()?, field()?],
            traces: Buffer::new(wavelet.len() * receivers)?,
            state: model()?,
            image: model()?,
            illumination: model()?,
            stream: Stream::new()?,
            _primary: primary,
        };
        cuda.source_place.write(&[spread.source], &cuda.stream)?;
        cuda.receiver_places.write(&spread.receivers, &cuda.stream)?;
        cuda.wavelet.write(wavelet, &cuda.stream)?;
        for buffer in [&cuda.traces, &cuda.state, &cuda.courant2] {
            buffer.zero(&cuda.stream)?;
        }
        cuda.warm_up()?;
        Ok(cuda)
    }

    /// Launches each kernel once: the driver may load a kernel when it is first launched, and waits
    /// for the device then, in a migration that is timed.
    fn warm_up(&mut self) -> Result<()> {
        self.rest()?;
        self.step()?;
        self.fire(0)?;
        self.record(0)?;
        self.inject(0)?;
        self.snapshot()?;
        self.correlate()?;
        self.rest()?;
        self.clear_image()?;
        for buffer in [&self.traces, &self.state] {
            buffer.zero(&self.stream)?;
        }
        self.wait()
    }

    /// Whether the driver is the software device.
    pub(crate) fn is_software(&self) -> bool {
        self.software
    }

    /// Queues a kernel, one thread per point of an `nx` x `nz` array.
    fn over_points(
        &self,
        f: sys::CUfunction,
        (nx, nz): (usize, usize),
        args: &[Arg],
    ) -> Result<()> {
        let blocks = |points: usize, block: u32| (points as u32).div_ceil(block);
        let grid = (blocks(nz, BLOCK.0), blocks(nx, BLOCK.1), 1);
        self.launch(f, grid, (BLOCK.0, BLOCK.1, 1), args)
    }

    /// Queues a kernel, one thread per place, the last argument being their number.
    fn over_places(&self, f: sys::CUfunction, count: u32, args: &[Arg]) -> Result<()> {
        self.launch(f, (count.div_ceil(LINE_BLOCK), 1, 1), (LINE_BLOCK, 1, 1), args)
    }

    fn launch(
        &self,
        function: sys::CUfunction,
        grid: (u32, u32, u32),
        block: (u32, u32, u32),
        args: &[Arg],
    ) -> Result<()> {
        let mut params: Vec<*mut c_void> = args
            .iter()
            .map(|arg| match arg {
                Arg::Address(address) => std::ptr::from_ref(address).cast_mut().cast(),
                Arg::Word(word) => std::ptr::from_ref(word).cast_mut().cast(),
            })
            .collect();
        let (launch, stream) = (result::launch_kernel, self.stream.0);
        // SAFETY: each caller passes the arguments that its kernel in `rtm.cu` declares, on
        // buffers of the sizes that the kernel works over; the driver copies the arguments
        // before it returns and does not write to them.
        let queued = unsafe { launch(function, grid, block, 0, stream, &mut params) };
        driver(queued, "launching a kernel")
    }

    /// The address of sample `row` among rows of `width` values.
    fn row(&self, buffer: &Buffer, row: usize, width: usize) -> Result<Arg> {
        let offset = row * width * size_of::<f32>();
        ensure!(offset + width * size_of::<f32>() <= buffer.bytes, "step {row} has no samples");
        Ok(Arg::Address(buffer.address + offset as u64))
    }

    fn padded_size(&self) -> [Arg; 2] {
        [Arg::Word(self.grid.px() as u32), Arg::Word(self.grid.pz() as u32)]
    }

    fn model_size(&self) -> [Arg; 2] {
        [Arg::Word(self.grid.nx as u32), Arg::Word(self.grid.nz as u32)]
    }
}

impl Propagator for Cuda {
    fn device(&self) -> &str {
        &self.name
    }

    fn stream(&self) -> *mut c_void {
        self.stream.0.cast()
    }

    fn load(&mut self, medium: &Medium) -> Result<()> {
        ensure!(medium.grid == self.grid, "the medium is on another grid");
        let (x, z) = (&medium.absorb_x, &medium.absorb_z);
        for (buffer, values) in self.absorb.iter().zip([&x.a, &x.b, &z.a, &z.b]) {
            buffer.write(values, &self.stream)?;
        }
        self.courant2.write(&medium.courant2, &self.stream)?;
        self.rest()
    }

    fn rest(&mut self) -> Result<()> {
        for buffer in [&self.field, &self.other].into_iter().chain(&self.memory) {
            buffer.zero(&self.stream)?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<()> {
        let size = (self.grid.px(), self.grid.pz());
        let [ax, bx, az, bz] = &self.absorb;
        let [psi_x, psi_z, zeta_x, zeta_z] = &self.memory;
        let profile = || [ax, bx, az, bz].map(Arg::from).into_iter().chain(self.padded_size());
        let border: Vec<Arg> =
            [&self.field, psi_x, psi_z].map(Arg::from).into_iter().chain(profile()).collect();
        self.over_points(self.kernels.border, size, &border)?;
        let fields = [&self.field, &self.other, &self.courant2, psi_x, psi_z, zeta_x, zeta_z];
        let step: Vec<Arg> = fields.map(Arg::from).into_iter().chain(profile()).collect();
        self.over_points(self.kernels.step, size, &step)?;
        std::mem::swap(&mut self.field, &mut self.other);
        Ok(())
    }

    fn fire(&mut self, row: usize) -> Result<()> {
        let args = [
            (&self.field).into(),
            (&self.courant2).into(),
            (&self.source_place).into(),
            self.row(&self.wavelet, row, 1)?,
            Arg::Word(1),
        ];
        self.over_places(self.kernels.inject, 1, &args)
    }

    fn record(&mut self, row: usize) -> Result<()> {
        let args = [
            (&self.field).into(),
            (&self.receiver_places).into(),
            self.row(&self.traces, row, self.receivers as usize)?,
            Arg::Word(self.receivers),
        ];
        self.over_places(self.kernels.record, self.receivers, &args)
    }

    fn inject(&mut self, row: usize) -> Result<()> {
        let args = [
            (&self.field).into(),
            (&self.courant2).into(),
            (&self.receiver_places).into(),
            self.row(&self.traces, row, self.receivers as usize)?,
            Arg::Word(self.receivers),
        ];
        self.over_places(self.kernels.inject, self.receivers, &args)
    }

    fn snapshot(&mut self) -> Result<()> {
        let [nx, nz] = self.model_size();
        let args = [(&self.field).into(), (&self.state).into(), nx, nz];
        self.over_points(self.kernels.snapshot, (self.grid.nx, self.grid.nz), &args)
    }

    fn correlate(&mut self) -> Result<()> {
        let [nx, nz] = self.model_size();
        let (image, illumination) = ((&self.image).into(), (&self.illumination).into());
        let args = [(&self.field).into(), (&self.state).into(), image, illumination, nx, nz];
        self.over_points(self.kernels.correlate, (self.grid.nx, self.grid.nz), &args)
    }

    fn clear_image(&mut self) -> Result<()> {
        self.image.zero(&self.stream)?;
        self.illumination.zero(&self.stream)
    }

    fn state(&mut self) -> *mut c_void {
        // An address of the device, which only the driver and the library may follow.
        self.state.address as *mut c_void
    }

    fn wait(&mut self) -> Result<()> {
        self.stream.wait()
    }

    fn read_state(&mut self, into: &mut [f32]) -> Result<()> {
        self.state.read(into, &self.stream)
    }

    fn write_state(&mut self, from: &[f32]) -> Result<()> {
        self.state.write(from, &self.stream)
    }

    fn read_traces(&mut self, into: &mut [f32]) -> Result<()> {
        self.traces.read(into, &self.stream)
    }

    fn write_traces(&mut self, from: &[f32]) -> Result<()> {
        self.traces.write(from, &self.stream)
    }

    fn read_image(&mut self, image: &mut [f32], illumination: &mut [f32]) -> Result<()> {
        self.image.read(image, &self.stream)?;
        self.illumination.read(illumination, &self.stream)
    }
}
