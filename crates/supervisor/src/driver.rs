//! The CUDA driver of a program, which takes what processes have on devices into their own memory, and puts it back
//! (`cuCheckpointProcess*`, from CUDA 12.8 on).

use std::ffi::{c_char, c_int, c_void, CStr, CString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;

use errors::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::mapped::mapped;
use super::space::Space;

/// How long the driver waits for calls under way in a process, in milliseconds.
const LOCK_MS: u64 = 10_000;
/// `CU_PROCESS_STATE_RUNNING`, `_LOCKED` and `_CHECKPOINTED`.
const RUNNING: c_int = 0;
const LOCKED: c_int = 1;
const CHECKPOINTED: c_int = 2;
/// `CUDA_ERROR_INVALID_VALUE`, `_NOT_INITIALIZED` and `_NOT_SUPPORTED`.
const INVALID_VALUE: u32 = 1;
const NOT_INITIALIZED: u32 = 3;
const NOT_SUPPORTED: u32 = 801;

/// The cards of a program and their driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Gpu {
    library: PathBuf,
    driver: String,
    cards: Vec<String>,
}

impl Gpu {
    /// Whether a program that had these can go on here.
    ///
    /// # Errors
    /// What differs, with both names.
    pub(crate) fn check_here(&self) -> Result<()> {
        let here = Driver::open(&self.library)?.gpu()?;
        let differs = |what: &str, had: String, has: String| {
            Err(Error::invalid(format!("the program had {what} {had}, but this node has {has}")))
        };
        if self.driver != here.driver {
            return differs("the driver", self.driver.clone(), here.driver);
        }
        if self.cards != here.cards {
            return differs("the cards", self.cards.join(", "), here.cards.join(", "));
        }
        Ok(())
    }
}

/// A function of the driver for a process; its arguments are 64 bytes.
type OfProcess = unsafe extern "C" fn(c_int, *mut [u64; 8]) -> u32;

/// A driver, loaded and initialised.
#[derive(Debug)]
pub(crate) struct Driver {
    path: PathBuf,
    library: *mut c_void,
}

/// The processes of a space that use a driver.
#[derive(Debug)]
pub(crate) struct Users {
    driver: Driver,
    /// Their numbers, outside and inside.
    processes: Vec<(u32, u32)>,
}

impl Users {
    /// Those of this space; `None` if there are none.
    ///
    /// # Errors
    /// They use a driver that cannot checkpoint them.
    pub(crate) fn of(space: &Space) -> Result<Option<Users>> {
        let mut found: Option<Users> = None;
        for process in space.processes()? {
            let Some(path) = mapped(process.0, "libcuda.so") else { continue };
            let users = match &mut found {
                Some(users) => users,
                None => found.insert(Users { driver: Driver::open(&path)?, processes: Vec::new() }),
            };
            if users.driver.state(process.0)?.is_some() {
                users.processes.push(process);
            }
        }
        Ok(found.filter(|users| !users.processes.is_empty()))
    }

    /// Their cards.
    pub(crate) fn gpu(&self) -> Result<Gpu> {
        self.driver.gpu()
    }

    /// Has their calls wait, and leaves them nothing on devices.
    ///
    /// # Errors
    /// The driver's, with the process. [`Users::go_on`] undoes what was done.
    pub(crate) fn park(&self) -> Result<()> {
        for process in &self.processes {
            self.order("cuCheckpointProcessLock", *process, [LOCK_MS, 0, 0, 0, 0, 0, 0, 0])?;
        }
        for process in &self.processes {
            self.order("cuCheckpointProcessCheckpoint", *process, [0; 8])?;
        }
        Ok(())
    }

    /// Gives them back what they had, from whichever state, and lets their calls go on.
    ///
    /// # Errors
    /// The driver's, of the first process that does not go on.
    pub(crate) fn go_on(&self) -> Result<()> {
        let mut all = Ok(());
        for process in &self.processes {
            all = all.and(self.wake(*process));
        }
        all
    }

    fn wake(&self, process: (u32, u32)) -> Result<()> {
        let state = self.driver.state(process.0)?.unwrap_or(RUNNING);
        match state {
            RUNNING => return Ok(()),
            LOCKED => {}
            CHECKPOINTED => self.order("cuCheckpointProcessRestore", process, [0; 8])?,
            other => {
                return Err(Error::new(
                    ErrorKind::System,
                    format!("process {} is in the driver's state {other}", process.1),
                ))
            }
        }
        self.order("cuCheckpointProcessUnlock", process, [0; 8])
    }

    fn order(&self, name: &str, process: (u32, u32), mut arguments: [u64; 8]) -> Result<()> {
        let function: OfProcess = self.driver.function(name)?;
        // SAFETY: arguments of the size that each of these functions reads.
        let code = unsafe { function(process.0.cast_signed(), &raw mut arguments) };
        let of_process = |error: Error| error.within(format!("process {}", process.1));
        self.driver.check(name, code).map_err(of_process)
    }
}

/// Whether this node's driver can park processes; `None` if there is no driver.
pub fn can_park() -> Option<bool> {
    let driver = Driver::load(Path::new("libcuda.so.1")).ok()?;
    Some(driver.function::<OfProcess>("cuCheckpointProcessCheckpoint").is_ok())
}

impl Driver {
    fn load(path: &Path) -> Result<Driver> {
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| Error::invalid(format!("the path {} has a null byte", path.display())))?;
        // SAFETY: a driver's library, which the program has loaded as well.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            // SAFETY: a text of the loader's, or null.
            let why = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
            let why = why.map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
            return Err(Error::new(ErrorKind::System, format!("loading the driver: {why}")));
        }
        Ok(Driver { path: path.to_owned(), library })
    }

    fn open(path: &Path) -> Result<Driver> {
        let driver = Driver::load(path)?;
        let init: unsafe extern "C" fn(u32) -> u32 = driver.function("cuInit")?;
        // SAFETY: the function of this name.
        driver.check("cuInit", unsafe { init(0) })?;
        Ok(driver)
    }

    /// `F` must be the type of the function.
    fn function<F: Copy>(&self, name: &str) -> Result<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let symbol = CString::new(name).unwrap_or_default();
        // SAFETY: an open library and a terminated text.
        let at = unsafe { libc::dlsym(self.library, symbol.as_ptr()) };
        if at.is_null() {
            return Err(Error::invalid(format!(
                "the driver {} has no {name}: CUDA 12.8 or newer is needed",
                self.path.display()
            )));
        }
        // SAFETY: of the same size, and of that type.
        Ok(unsafe { std::mem::transmute_copy(&at) })
    }

    fn check(&self, what: &str, code: u32) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        let mut name: *const c_char = ptr::null();
        let get: unsafe extern "C" fn(u32, *mut *const c_char) -> u32 =
            self.function("cuGetErrorName")?;
        // SAFETY: room for a text of the driver's, which is one if the call succeeds.
        let name = unsafe {
            (get(code, &raw mut name) == 0 && !name.is_null()).then(|| CStr::from_ptr(name))
        };
        let name = name.map_or_else(String::new, |name| format!("{} ", name.to_string_lossy()));
        let hint = match code {
            NOT_SUPPORTED => "; it does not checkpoint managed memory (cudaMallocManaged)",
            _ => "",
        };
        Err(Error::new(ErrorKind::System, format!("{what}: {name}({code}){hint}")))
    }

    /// The state of a process; `None` if it does not use the driver.
    fn state(&self, process: u32) -> Result<Option<c_int>> {
        let name = "cuCheckpointProcessGetState";
        let get: unsafe extern "C" fn(c_int, *mut c_int) -> u32 = self.function(name)?;
        let mut state = 0;
        // SAFETY: room for a state.
        match unsafe { get(process.cast_signed(), &raw mut state) } {
            INVALID_VALUE | NOT_INITIALIZED => Ok(None),
            code => self.check(name, code).map(|()| Some(state)),
        }
    }

    fn gpu(&self) -> Result<Gpu> {
        let (mut version, mut count) = (0, 0);
        let get_version: unsafe extern "C" fn(*mut c_int) -> u32 =
            self.function("cuDriverGetVersion")?;
        let get_count: unsafe extern "C" fn(*mut c_int) -> u32 =
            self.function("cuDeviceGetCount")?;
        let get_name: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> u32 =
            self.function("cuDeviceGetName")?;
        // SAFETY: room for numbers.
        unsafe {
            self.check("cuDriverGetVersion", get_version(&raw mut version))?;
            self.check("cuDeviceGetCount", get_count(&raw mut count))?;
        }
        let mut cards = Vec::new();
        for device in 0..count {
            let mut name = [0_u8; 128];
            // SAFETY: room for so many bytes; a device's number is its handle.
            let code = unsafe { get_name(name.as_mut_ptr().cast(), 127, device) };
            self.check("cuDeviceGetName", code)?;
            let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
            cards.push(name.to_string_lossy().into_owned());
        }
        // The module's version: the driver's own is that of CUDA alone.
        let module = fs::read_to_string("/sys/module/nvidia/version").unwrap_or_default();
        let driver = format!("{} CUDA {}.{}", module.trim(), version / 1000, version % 1000 / 10);
        Ok(Gpu { library: self.path.clone(), driver: driver.trim().to_owned(), cards })
    }
}
