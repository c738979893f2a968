//! NVTX: ranges for NVIDIA's profilers.
//!
//! Version 3 has no library: a profiler names its own in `NVTX_INJECTION64_PATH`, which fills in a table
//! of functions. Version 2 is `libnvToolsExt.so.1`, which a program may have loaded. Without either
//! nothing is called.
//!
//! Ranges have the names of the activities. Events that are recorded when they are over (waits,
//! captures, touching, initialisation) have no range.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr, OsStr};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LAZY, RTLD_LOCAL};

/// The variable by which a profiler names its library.
const INJECTION: &str = "NVTX_INJECTION64_PATH";
/// The soname of version 2.
const TOOLS_EXT: &str = "libnvToolsExt.so.1";

type RangePush = unsafe extern "C" fn(*const c_char) -> c_int;
type RangePop = unsafe extern "C" fn() -> c_int;
type NameThread = unsafe extern "C" fn(u32, *const c_char);

/// The functions in use.
#[derive(Debug)]
pub(crate) struct Nvtx {
    push: RangePush,
    pop: RangePop,
    name_thread: Option<NameThread>,
}

impl Nvtx {
    /// The functions, looked up once per process. `load`: load version 2 if the program has not;
    /// otherwise it is only used if loaded.
    pub(crate) fn find(load: bool) -> Option<&'static Nvtx> {
        static FOUND: OnceLock<Nvtx> = OnceLock::new();
        static INJECTED: OnceLock<Option<Nvtx>> = OnceLock::new();
        if let Some(found) = FOUND.get() {
            return Some(found);
        }
        let injected =
            INJECTED.get_or_init(|| os::environment::var_os(INJECTION).and_then(|p| inject(&p)));
        injected.as_ref().or_else(|| tools_ext(load).map(|found| FOUND.get_or_init(|| found)))
    }

    /// Begins a range on the calling thread.
    pub(crate) fn push(&self, name: &CStr) {
        // SAFETY: the function has this type, and the text ends with NUL.
        unsafe { (self.push)(name.as_ptr()) };
    }

    /// Ends the calling thread's innermost range.
    pub(crate) fn pop(&self) {
        // SAFETY: the function has this type.
        unsafe { (self.pop)() };
    }

    /// Names the calling thread.
    pub(crate) fn name_thread(&self, name: &CStr) {
        if let Some(function) = self.name_thread {
            let thread = os::thread_id();
            // SAFETY: the function has this type, and the text ends with NUL.
            unsafe { function(thread, name.as_ptr()) };
        }
    }
}

// ---- version 2 -------------------------------------------------------------------------------

fn tools_ext(load: bool) -> Option<Nvtx> {
    // The loader would look for it in all its folders, even where it loads nothing.
    if !load && !is_loaded(TOOLS_EXT.trim_end_matches(".1")) {
        return None;
    }
    let only_loaded = if load { 0 } else { libc::RTLD_NOLOAD };
    // SAFETY: NVIDIA's library may be loaded at any time; its constructors ask for nothing.
    let library =
        unsafe { Library::open(Some(TOOLS_EXT), RTLD_LAZY | RTLD_LOCAL | only_loaded) }.ok()?;
    // SAFETY: the types are those of NVTX's header.
    let (push, pop, name) = unsafe {
        (
            *library.get::<RangePush>(b"nvtxRangePushA\0").ok()?,
            *library.get::<RangePop>(b"nvtxRangePop\0").ok()?,
            library.get::<NameThread>(b"nvtxNameOsThreadA\0").ok().map(|symbol| *symbol),
        )
    };
    // Never unloaded: its functions are in use.
    std::mem::forget(library);
    Some(Nvtx { push, pop, name_thread: name })
}

/// Whether a library is loaded whose file's name begins so.
fn is_loaded(name: &str) -> bool {
    unsafe extern "C" fn visit(
        info: *mut libc::dl_phdr_info,
        _size: libc::size_t,
        name: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader hands in a valid description, and back the pointer that it was given, to the text below.
        let (info, name) = unsafe { (&*info, *name.cast::<&str>()) };
        if info.dlpi_name.is_null() {
            return 0;
        }
        // SAFETY: the loader's names end with a null byte.
        let path = unsafe { CStr::from_ptr(info.dlpi_name) }.to_bytes();
        let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        c_int::from(file.starts_with(name.as_bytes()))
    }
    let mut name = name;
    // SAFETY: `visit` fits the declaration and gets the text, which outlives the call. It loads nothing and does not
    // unwind.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut name).cast()) != 0 }
}

// ---- version 3 -------------------------------------------------------------------------------

/// `NVTX_ETID_CALLBACKS`.
const CALLBACKS: u32 = 1;
/// `NVTX_ETID_VERSIONINFO`.
const VERSION_INFO: u32 = 3;
/// `NVTX_CB_MODULE_CORE`.
const CORE: c_uint = 1;
/// `NVTX_CBID_CORE_SIZE`.
const CORE_FUNCTIONS: usize = 16;
/// `NVTX_CBID_CORE_RangePushA`.
const RANGE_PUSH: usize = 9;
/// `NVTX_CBID_CORE_RangePop`.
const RANGE_POP: usize = 11;
/// `NVTX_CBID_CORE_NameOsThreadA`.
const NAME_THREAD: usize = 14;

/// A function pointer that the profiler fills in.
type CallbackSlot = AtomicPtr<c_void>;

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct CallbackTable {
    bytes: usize,
    functions: unsafe extern "C" fn(c_uint, *mut *const SlotPointer, *mut c_uint) -> c_int,
}

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionTable {
    bytes: usize,
    version: u32,
    reserved: u32,
    set_version: unsafe extern "C" fn(u32),
}

#[repr(transparent)]
struct SlotPointer(*const CallbackSlot);
// SAFETY: the pointers are to atomics that live for ever, or NULL.
unsafe impl Sync for SlotPointer {}

static SLOTS: [CallbackSlot; CORE_FUNCTIONS] =
    [const { AtomicPtr::new(std::ptr::null_mut()) }; CORE_FUNCTIONS];

/// The table that the profiler fills in, by number; 0 means none.
static SLOT_POINTERS: [SlotPointer; CORE_FUNCTIONS] = {
    let mut pointers = [const { SlotPointer(std::ptr::null()) }; CORE_FUNCTIONS];
    let mut i = 1;
    while i < CORE_FUNCTIONS {
        pointers[i] = SlotPointer(&raw const SLOTS[i]);
        i += 1;
    }
    pointers
};

static CALLBACK_TABLE: CallbackTable =
    CallbackTable { bytes: size_of::<CallbackTable>(), functions: module_functions };

static VERSION_TABLE: VersionTable = VersionTable {
    bytes: size_of::<VersionTable>(),
    version: 3,
    reserved: 0,
    set_version: ignore_version,
};

unsafe extern "C" fn ignore_version(_version: u32) {}

/// `GetModuleFunctionTable`: 1 if the module exists.
unsafe extern "C" fn module_functions(
    module: c_uint,
    table: *mut *const SlotPointer,
    size: *mut c_uint,
) -> c_int {
    if module != CORE {
        return 0;
    }
    // SAFETY: the profiler passes pointers to its own variables, or NULL.
    unsafe {
        if !table.is_null() {
            *table = SLOT_POINTERS.as_ptr();
        }
        if !size.is_null() {
            *size = CORE_FUNCTIONS as c_uint;
        }
    }
    1
}

/// `nvtxGetExportTable`.
unsafe extern "C" fn export_table(id: u32) -> *const c_void {
    match id {
        CALLBACKS => std::ptr::from_ref(&CALLBACK_TABLE).cast(),
        VERSION_INFO => std::ptr::from_ref(&VERSION_TABLE).cast(),
        _ => std::ptr::null(),
    }
}

/// Lets the profiler's library fill in its functions.
fn inject(path: &OsStr) -> Option<Nvtx> {
    type ExportTable = unsafe extern "C" fn(u32) -> *const c_void;
    type Initialize = unsafe extern "C" fn(ExportTable) -> c_int;
    let warn = |what: &dyn std::fmt::Display| {
        log::warn!("no NVTX ranges: {INJECTION}={}: {what}", path.to_string_lossy());
    };
    // SAFETY: the environment asks for this library to be loaded.
    let library = unsafe { Library::open(Some(path), RTLD_LAZY | RTLD_LOCAL) };
    let library = library.inspect_err(|error| warn(error)).ok()?;
    // SAFETY: the type is that of NVTX's header.
    let initialize = unsafe { library.get::<Initialize>(b"InitializeInjectionNvtx2\0") };
    let initialize = *initialize.inspect_err(|error| warn(error)).ok()?;
    // SAFETY: called once, with the function that it asks for.
    if unsafe { initialize(export_table) } == 0 {
        warn(&"InitializeInjectionNvtx2 failed");
        return None;
    }
    std::mem::forget(library);
    let slot = |number: usize| {
        let function = SLOTS[number].load(Ordering::Acquire);
        (!function.is_null()).then_some(function)
    };
    let (push, pop) = (slot(RANGE_PUSH)?, slot(RANGE_POP)?);
    // SAFETY: the profiler has put functions of these types there, as NVTX's header demands.
    unsafe {
        Some(Nvtx {
            push: std::mem::transmute::<*mut c_void, RangePush>(push),
            pop: std::mem::transmute::<*mut c_void, RangePop>(pop),
            name_thread: slot(NAME_THREAD)
                .map(|name| std::mem::transmute::<*mut c_void, NameThread>(name)),
        })
    }
}
