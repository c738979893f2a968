//! The store of the process: the engine of the checkpoint library, if the application has a job with
//! it. The two libraries are not linked with each other; this one finds the other's table by a name.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, OnceLock};

use super::keeper::{Keeper, Store};
use super::mapping::Mapped;

/// The function by which the other library gives its table.
const NAME: &CStr = c"VELOC_Message_store";

/// The version of the interface between the two.
const INTERFACE: c_int = 1;

/// Bytes for the reason of a failure, the final NUL included.
const REASON: usize = 1024;

/// The functions of the other library.
#[repr(C)]
struct Table {
    is_there: extern "C" fn() -> c_int,
    take: unsafe extern "C" fn(c_int, *const c_void, usize, *mut c_char, usize) -> c_int,
    give: unsafe extern "C" fn(c_int, *mut c_void, usize, *mut c_char, usize) -> c_int,
    forget: unsafe extern "C" fn(c_int, *mut c_char, usize) -> c_int,
}

static TABLE: AtomicPtr<Table> = AtomicPtr::new(null_mut());
static KEEPER: OnceLock<Arc<Keeper>> = OnceLock::new();

/// The engine of the checkpoint library.
#[derive(Clone, Copy, Debug)]
pub struct Engine;

impl Engine {
    /// The keeper that gives chunks to it.
    pub fn keeper(mapped: &Mapped) -> Arc<Keeper> {
        let make = || Arc::new(Keeper::of(Box::new(Engine), mapped));
        Arc::clone(KEEPER.get_or_init(make))
    }

    fn table() -> Option<&'static Table> {
        let known = TABLE.load(Ordering::Acquire);
        if !known.is_null() {
            // SAFETY: a table that stays: that library is never unloaded.
            return unsafe { known.as_ref() };
        }
        // SAFETY: the name ends with its only null byte.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, NAME.as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: the function of that name is declared like this in the other library.
        let function: extern "C" fn(c_int) -> *mut Table = unsafe { std::mem::transmute(found) };
        let table = function(INTERFACE);
        TABLE.store(table, Ordering::Release);
        // SAFETY: as above, or null for another version.
        unsafe { table.as_ref() }
    }

    fn call(
        number: u32,
        body: impl FnOnce(&Table, c_int, *mut c_char, usize) -> c_int,
    ) -> Result<(), String> {
        let table = Engine::table().ok_or("there is no checkpoint library in this process")?;
        let number =
            c_int::try_from(number).map_err(|_| format!("there were {number} chunks before it"))?;
        let mut reason = [0; REASON];
        if body(table, number, reason.as_mut_ptr(), REASON) == 0 {
            return Ok(());
        }
        let bytes: Vec<u8> = reason.iter().map(|&c| c as u8).take_while(|&c| c != 0).collect();
        Err(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Waits until nothing is to be given, brought back or forgotten any more.
pub fn rest() {
    if let Some(keeper) = KEEPER.get() {
        keeper.rest();
    }
}

impl Store for Engine {
    fn is_there(&self) -> bool {
        Engine::table().is_some_and(|table| (table.is_there)() == 1)
    }

    fn take(&self, number: u32, bytes: &[u8]) -> Result<(), String> {
        let from = bytes.as_ptr().cast();
        // SAFETY: as many bytes as said, which do not change meanwhile; the reason is the function's.
        Engine::call(number, |table, number, reason, room| unsafe {
            (table.take)(number, from, bytes.len(), reason, room)
        })
    }

    fn give(&self, number: u32, into: &mut [u8]) -> Result<(), String> {
        let to = into.as_mut_ptr().cast();
        // SAFETY: as many bytes as said, which are the function's meanwhile, as is the reason.
        Engine::call(number, |table, number, reason, room| unsafe {
            (table.give)(number, to, into.len(), reason, room)
        })
    }

    fn forget(&self, number: u32) -> Result<(), String> {
        // SAFETY: the reason is the function's meanwhile.
        Engine::call(number, |table, number, reason, room| unsafe {
            (table.forget)(number, reason, room)
        })
    }
}
