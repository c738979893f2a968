//! Shared by all tests: they run one at a time, each in its own context.

#![allow(dead_code, reason = "each test uses some of it")]

use std::ffi::{c_char, c_void, CString};
use std::ptr::null_mut;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use softcuda::abi::{
    AccessDesc, AllocationProp, CUcontext, CUdeviceptr, CUevent, CUstream, Location,
    ACCESS_READ_WRITE, LOCATION_DEVICE,
};
use softcuda::api::*;

/// Makes one call of the driver.
macro_rules! cu {
    ($call:expr) => {{
        #[allow(clippy::macro_metavars_in_unsafe)]
        // SAFETY: the tests pass null, values and arrays that outlive the call
        // and are of its types, buffers that outlive the queued work, and
        // addresses that the driver is to refuse without following them.
        let value = unsafe { $call };
        value
    }};
}

pub(crate) mod ptx;

pub(crate) const INVALID_VALUE: u32 = 1;
pub(crate) const OUT_OF_MEMORY: u32 = 2;
pub(crate) const NOT_INITIALIZED: u32 = 3;
pub(crate) const INVALID_CONTEXT: u32 = 201;
pub(crate) const INVALID_PTX: u32 = 218;
pub(crate) const INVALID_HANDLE: u32 = 400;
pub(crate) const NOT_FOUND: u32 = 500;
pub(crate) const NOT_READY: u32 = 600;
pub(crate) const ILLEGAL_ADDRESS: u32 = 700;
pub(crate) const CONTEXT_IS_DESTROYED: u32 = 709;
pub(crate) const ALREADY_REGISTERED: u32 = 712;
pub(crate) const NOT_REGISTERED: u32 = 713;
pub(crate) const NOT_PERMITTED: u32 = 800;

/// One granule of device memory.
pub(crate) const GRANULE: usize = 2 << 20;
/// `CU_STREAM_NON_BLOCKING`.
pub(crate) const NON_BLOCKING: u32 = 1;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A fresh context, current on this thread, while no other test runs.
pub(crate) struct Session {
    pub context: CUcontext,
    _alone: MutexGuard<'static, ()>,
}

impl Session {
    pub(crate) fn start() -> Self {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        inject("");
        configure("MEMORY", "4G");
        configure("DELAY", "");
        configure("BANDWIDTH", "");
        configure("COPY", "real");
        configure("CONTEXT_LOCK", "0");
        configure("KERNELS", "native");
        configure("RANGES", "handle");
        configure("PAGEABLE", "no");
        configure("LIMIT", "");
        configure("SPIN", "0");
        configure("LATE", "0");
        softcuda_reset_counts();
        ok(cuInit(0));
        let mut context = null_mut();
        ok(cu!(cuCtxCreate_v2(&mut context, 0, 0)));
        Self { context, _alone: alone }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        inject("");
        let _ = cuCtxDestroy_v2(self.context);
    }
}

#[track_caller]
pub(crate) fn ok(code: u32) {
    assert_eq!(code, 0, "a driver call failed");
}

pub(crate) fn inject(specification: &str) {
    let text = CString::new(specification).unwrap();
    assert_eq!(cu!(softcuda_inject(text.as_ptr())), 0);
}

pub(crate) fn configure(key: &str, value: &str) {
    let (key, value) = (CString::new(key).unwrap(), CString::new(value).unwrap());
    assert_eq!(cu!(softcuda_configure(key.as_ptr(), value.as_ptr())), 0);
}

pub(crate) fn calls(name: &str) -> u64 {
    let name = CString::new(name).unwrap();
    cu!(softcuda_call_count(name.as_ptr()))
}

#[track_caller]
pub(crate) fn allocate(bytes: usize) -> CUdeviceptr {
    let mut address = 0;
    ok(cu!(cuMemAlloc_v2(&mut address, bytes)));
    address
}

#[track_caller]
pub(crate) fn stream(flags: u32) -> CUstream {
    let mut stream = null_mut();
    ok(cu!(cuStreamCreate(&mut stream, flags)));
    stream
}

#[track_caller]
pub(crate) fn event() -> CUevent {
    let mut event = null_mut();
    ok(cu!(cuEventCreate(&mut event, 0)));
    event
}

#[track_caller]
pub(crate) fn reserve(bytes: usize) -> CUdeviceptr {
    let mut address = 0;
    ok(cu!(cuMemAddressReserve(&mut address, bytes, 0, 0, 0)));
    address
}

#[track_caller]
pub(crate) fn create(bytes: usize) -> u64 {
    let mut handle = 0;
    ok(cu!(cuMemCreate(&mut handle, bytes, &AllocationProp::on_device(0), 0)));
    handle
}

pub(crate) fn set_access(address: CUdeviceptr, bytes: usize, flags: u32) -> u32 {
    let grant = AccessDesc { location: Location { kind: LOCATION_DEVICE, id: 0 }, flags };
    cu!(cuMemSetAccess(address, bytes, &grant, 1))
}

/// Reserves, makes, maps and opens so much memory in one piece.
#[track_caller]
pub(crate) fn mapped(bytes: usize) -> CUdeviceptr {
    let address = reserve(bytes);
    let handle = create(bytes);
    ok(cuMemMap(address, bytes, 0, handle, 0));
    ok(set_access(address, bytes, ACCESS_READ_WRITE));
    ok(cuMemRelease(handle));
    address
}

/// The text in a buffer that the driver filled.
pub(crate) fn text(buffer: &[c_char]) -> String {
    let bytes = buffer.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0);
    String::from_utf8(bytes.collect()).unwrap()
}

#[track_caller]
pub(crate) fn upload(to: CUdeviceptr, bytes: &[u8]) {
    ok(cu!(cuMemcpyHtoD_v2(to, bytes.as_ptr().cast(), bytes.len())));
}

#[track_caller]
pub(crate) fn download(from: CUdeviceptr, bytes: usize) -> Vec<u8> {
    let mut target = vec![0_u8; bytes];
    ok(cu!(cuMemcpyDtoH_v2(target.as_mut_ptr().cast(), from, bytes)));
    target
}

/// Page-locked host memory of the driver's, freed with the context.
#[track_caller]
pub(crate) fn pinned(bytes: usize) -> &'static mut [u8] {
    let mut address = null_mut();
    ok(cu!(cuMemHostAlloc(&mut address, bytes, 0)));
    // SAFETY: the driver has just handed out so many bytes, and no test uses
    // them beyond its context.
    unsafe { std::slice::from_raw_parts_mut(address.cast(), bytes) }
}

/// Page-aligned ordinary memory.
pub(crate) struct Pages {
    pub address: *mut u8,
    pub bytes: usize,
}

impl Pages {
    pub(crate) fn new(bytes: usize) -> Self {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping where the system likes touches nobody's memory.
        let address = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
        assert_ne!(address, libc::MAP_FAILED);
        Self { address: address.cast(), bytes }
    }

    pub(crate) fn at(&self, offset: usize) -> *mut c_void {
        assert!(offset <= self.bytes);
        // SAFETY: it was checked that this is within the mapping or at its end.
        unsafe { self.address.add(offset).cast() }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: the mapping is this object's own.
        unsafe { libc::munmap(self.address.cast(), self.bytes) };
    }
}

/// Whether a thread of this process runs, or would if it had a processor.
fn is_awake(thread: libc::pid_t) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    // The state comes behind the name, which ends with the last bracket.
    stat.is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with('S'))
}

#[derive(Default)]
struct GateState {
    reached: bool,
    open: bool,
}

/// Holds a stream until it is opened.
#[derive(Clone, Default)]
pub(crate) struct Gate {
    state: Arc<(Mutex<GateState>, Condvar)>,
}

impl Gate {
    /// Queues the waiting for this gate in `stream`.
    #[track_caller]
    pub(crate) fn block(stream: CUstream) -> Self {
        let gate = Self::default();
        let data = Box::into_raw(Box::new(gate.clone()));
        ok(cu!(cuLaunchHostFunc(stream, Some(wait_for_gate), data.cast())));
        gate
    }

    pub(crate) fn open(&self) {
        self.state.0.lock().unwrap().open = true;
        self.state.1.notify_all();
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.0.lock().unwrap().open
    }

    /// Waits until the stream stands at this gate.
    pub(crate) fn wait_until_reached(&self) {
        let mut state = self.state.0.lock().unwrap();
        while !state.reached {
            state = self.state.1.wait(state).unwrap();
        }
    }

    /// Opens it from another thread once the calling one waits for something, or has ended.
    pub(crate) fn open_later(&self) -> std::thread::JoinHandle<()> {
        let gate = self.clone();
        // SAFETY: it cannot fail, and takes nothing.
        let caller = unsafe { libc::gettid() };
        std::thread::spawn(move || {
            // A lock that another thread holds for a moment is not waited for so long.
            let mut looks = 0;
            while looks < 20 {
                std::thread::sleep(std::time::Duration::from_millis(1));
                looks = if is_awake(caller) { 0 } else { looks + 1 };
            }
            gate.open();
        })
    }

    fn wait(&self) {
        let mut state = self.state.0.lock().unwrap();
        state.reached = true;
        self.state.1.notify_all();
        while !state.open {
            state = self.state.1.wait(state).unwrap();
        }
    }
}

unsafe extern "C" fn wait_for_gate(data: *mut c_void) {
    // SAFETY: `Gate::block` made the box and passed it to this call alone.
    unsafe { Box::from_raw(data.cast::<Gate>()) }.wait();
}
