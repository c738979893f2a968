//! The kernels for the software device.
//!
//! The software device stands in for the CUDA driver on machines without a GPU. It runs no PTX: a
//! program gives it a native function for each kernel, which it calls in the order of the stream
//! with the launch's own arguments. The functions here are the loops of [`super::kernels`], on the
//! memory behind the device addresses.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::mem::ManuallyDrop;
use std::sync::OnceLock;

use anyhow::{ensure, Context, Result};
use cudarc::driver::sys;
use libloading::os::unix::{Library, RTLD_NOW};

use super::coefficients::REACH;
use super::kernels::{self, Memory, Profile};
use super::Grid;

/// `RTLD_NOLOAD` of Linux, which `libloading` does not name.
const RTLD_NOLOAD: c_int = 0x4;

/// One kernel launch, as the software device describes it.
#[repr(C)]
struct Launch {
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    parameter_count: u32,
    params: *mut *mut c_void,
}

type Native = unsafe extern "C" fn(*const Launch);
type RegisterKernel = unsafe extern "C" fn(*const c_char, c_uint, *const usize, Native) -> c_int;
type HostAlias = unsafe extern "C" fn(sys::CUdeviceptr, usize) -> *mut c_void;

/// `softcuda_host_alias`, kept for the kernels, which get nothing but their launch.
static HOST_ALIAS: OnceLock<HostAlias> = OnceLock::new();

/// Size of an address and of a number among a kernel's arguments.
const ADDRESS: usize = size_of::<sys::CUdeviceptr>();
const WORD: usize = size_of::<u32>();

/// Whether the loaded driver is the software device; if so, gives it the kernels.
pub(super) fn install() -> Result<bool> {
    // The driver that is loaded already, whichever path it came from: this is its soname.
    // SAFETY: nothing is loaded, so no constructor runs.
    let library = unsafe { Library::open(Some("libcuda.so.1"), RTLD_NOW | RTLD_NOLOAD) };
    // The driver's functions are called for as long as the program runs.
    let library = ManuallyDrop::new(library.context("the driver is not loaded")?);
    // SAFETY: a driver that has the symbol is the software device, whose header declares this.
    let is_software =
        unsafe { library.get::<unsafe extern "C" fn() -> c_int>(b"softcuda_is_software\0") };
    let Ok(is_software) = is_software else {
        return Ok(false);
    };
    // SAFETY: as above; the function takes no argument and may be called at any time.
    if unsafe { is_software() } == 0 {
        return Ok(false);
    }
    // SAFETY: the type is that of the software device's header.
    let alias = unsafe { library.get::<HostAlias>(b"softcuda_host_alias\0") };
    let alias = *alias.context("the software device has no softcuda_host_alias")?;
    HOST_ALIAS.get_or_init(|| alias);
    // SAFETY: the type is that of the software device's header.
    let register = unsafe { library.get::<RegisterKernel>(b"softcuda_register_kernel\0") };
    let register = register.context("the software device has no softcuda_register_kernel")?;

    let a = ADDRESS;
    let w = WORD;
    let natives: [(&CStr, &[usize], Native); 6] = [
        (c"rtm_border", &[a, a, a, a, a, a, a, w, w], border),
        (c"rtm_step", &[a, a, a, a, a, a, a, a, a, a, a, w, w], step),
        (c"rtm_inject", &[a, a, a, a, w], inject),
        (c"rtm_record", &[a, a, a, w], record),
        (c"rtm_snapshot", &[a, a, w, w], snapshot),
        (c"rtm_correlate", &[a, a, a, a, w, w], correlate),
    ];
    for (name, sizes, native) in natives {
        // SAFETY: name and sizes outlive the call, and the number of sizes is theirs; the
        // function lives as long as the program.
        let code =
            unsafe { register(name.as_ptr(), sizes.len() as c_uint, sizes.as_ptr(), native) };
        let name = name.to_string_lossy();
        ensure!(code == 0, "the software device refused the kernel {name} (code {code})");
    }
    Ok(true)
}

/// The arguments of a launch.
///
/// The methods are unsafe for one reason: the caller promises that argument `n` has the type of the
/// method, with as many values behind it, and that no other reference to mutable values is alive.
struct Args(*mut *mut c_void);

impl Args {
    /// # Safety
    /// `launch` must point to a launch, as the software device passes it.
    unsafe fn of(launch: *const Launch) -> Self {
        // SAFETY: the caller's promise.
        Args(unsafe { (*launch).params })
    }

    /// # Safety
    /// Argument `n` must exist and be a `T`.
    unsafe fn read<T: Copy>(&self, n: usize) -> T {
        // SAFETY: the caller's promise; the device keeps its own copy of every argument.
        let param = unsafe { *self.0.add(n) };
        // SAFETY: it points to a `T`, which may lie anywhere among the copied bytes.
        unsafe { param.cast::<T>().read_unaligned() }
    }

    /// # Safety
    /// Argument `n` must be a number.
    unsafe fn size(&self, n: usize) -> usize {
        // SAFETY: the caller's promise.
        unsafe { self.read::<u32>(n) as usize }
    }

    /// # Safety
    /// Argument `n` must be an address.
    unsafe fn alias<T>(&self, n: usize, len: usize) -> Option<*mut T> {
        // SAFETY: the caller's promise.
        let address = unsafe { self.read::<sys::CUdeviceptr>(n) };
        let alias = HOST_ALIAS.get()?;
        // SAFETY: the function takes any address and answers null for what is no device memory.
        let memory = unsafe { alias(address, len * size_of::<T>()) };
        (!memory.is_null()).then_some(memory.cast())
    }

    /// # Safety
    /// Argument `n` must be the address of `len` values that nothing writes meanwhile.
    unsafe fn values<'a, T>(&self, n: usize, len: usize) -> Option<&'a [T]> {
        // SAFETY: the caller's promise.
        let memory = unsafe { self.alias::<T>(n, len) }?;
        // SAFETY: the alias covers `len` values, and the caller promises that none changes.
        Some(unsafe { std::slice::from_raw_parts(memory, len) })
    }

    /// # Safety
    /// Argument `n` must be the address of `len` values that nothing else uses meanwhile.
    unsafe fn values_mut<'a, T>(&self, n: usize, len: usize) -> Option<&'a mut [T]> {
        // SAFETY: the caller's promise.
        let memory = unsafe { self.alias::<T>(n, len) }?;
        // SAFETY: the alias covers `len` values, and the caller promises that they are its own.
        Some(unsafe { std::slice::from_raw_parts_mut(memory, len) })
    }

    /// The absorbing profiles along x and depth, from argument `n` on.
    ///
    /// # Safety
    /// Four arguments from `n` on must be addresses of as many values as the grid has on each
    /// axis.
    unsafe fn profiles<'a>(&self, n: usize, grid: Grid) -> Option<(Profile<'a>, Profile<'a>)> {
        let (px, pz) = (grid.px(), grid.pz());
        // SAFETY: the caller's promise; no kernel writes a profile.
        let [ax, bx] = unsafe { [self.values(n, px)?, self.values(n + 1, px)?] };
        // SAFETY: as above.
        let [az, bz] = unsafe { [self.values(n + 2, pz)?, self.values(n + 3, pz)?] };
        Some((Profile { a: ax, b: bx }, Profile { a: az, b: bz }))
    }
}

/// The grid whose padded size is given, if it is one.
fn padded(px: usize, pz: usize) -> Option<Grid> {
    let nx = px.checked_sub(2 * Grid::PAD).filter(|n| *n > 2 * REACH)?;
    let nz = pz.checked_sub(2 * Grid::PAD).filter(|n| *n > 2 * REACH)?;
    Some(Grid { nx, nz })
}

// Each of the following is called by the software device only, with a launch whose arguments have
// the sizes registered above. `Cuda` passes distinct buffers of the sizes used here, and the
// device runs one kernel of a stream at a time, so a kernel has its buffers for itself. A kernel
// that misses a buffer does nothing: the device has then ended the context, as a GPU would, and the
// next call of the driver fails.

unsafe extern "C" fn border(launch: *const Launch) {
    // SAFETY: the note above.
    let _ = unsafe {
        let args = Args::of(launch);
        (|| {
            let grid = padded(args.size(7), args.size(8))?;
            let n = grid.padded();
            let (psi_x, psi_z) = (args.values_mut(1, n)?, args.values_mut(2, n)?);
            kernels::border(grid, args.values(0, n)?, args.profiles(3, grid)?, psi_x, psi_z);
            Some(())
        })()
    };
}

unsafe extern "C" fn step(launch: *const Launch) {
    // SAFETY: the note above.
    let _ = unsafe {
        let args = Args::of(launch);
        (|| {
            let grid = padded(args.size(11), args.size(12))?;
            let n = grid.padded();
            let memory = Memory {
                psi_x: args.values(3, n)?,
                psi_z: args.values(4, n)?,
                zeta_x: args.values_mut(5, n)?,
                zeta_z: args.values_mut(6, n)?,
            };
            let (field, other, courant2) =
                (args.values(0, n)?, args.values_mut(1, n)?, args.values(2, n)?);
            kernels::step(grid, field, other, courant2, args.profiles(7, grid)?, memory);
            Some(())
        })()
    };
}

unsafe extern "C" fn inject(launch: *const Launch) {
    // SAFETY: the note above.
    let _ = unsafe {
        let args = Args::of(launch);
        (|| {
            let count = args.size(4);
            let (places, samples) = (args.values::<u32>(2, count)?, args.values(3, count)?);
            let n = reach(places);
            kernels::inject(args.values_mut(0, n)?, args.values(1, n)?, places, samples);
            Some(())
        })()
    };
}

unsafe extern "C" fn record(launch: *const Launch) {
    // SAFETY: the note above.
    let _ = unsafe {
        let args = Args::of(launch);
        (|| {
            let count = args.size(3);
            let places = args.values::<u32>(1, count)?;
            kernels::record(args.values(0, reach(places))?, places, args.values_mut(2, count)?);
            Some(())
        })()
    };
}

unsafe extern "C" fn snapshot(launch: *const Launch) {
    // SAFETY: the note above.
    let _ = unsafe {
        let args = Args::of(launch);
        (|| {
            let grid = Grid { nx: args.size(2), nz: args.size(3) };
            let (field, state) =
                (args.values(0, grid.padded())?, args.values_mut(1, grid.points())?);
            kernels::snapshot(grid, field, state);
            Some(())
        })()
    };
}

unsafe extern "C" fn correlate(launch: *const Launch) {
    // SAFETY: the note above.
    let _ = unsafe {
        let args = Args::of(launch);
        (|| {
            let grid = Grid { nx: args.size(4), nz: args.size(5) };
            let (field, n) = (args.values(0, grid.padded())?, grid.points());
            let (image, illumination) = (args.values_mut(2, n)?, args.values_mut(3, n)?);
            kernels::correlate(grid, field, args.values(1, n)?, image, illumination);
            Some(())
        })()
    };
}

/// The length that an array must have to hold every place.
fn reach(places: &[u32]) -> usize {
    places.iter().max().map_or(0, |&place| place as usize + 1)
}
