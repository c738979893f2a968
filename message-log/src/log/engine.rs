//! The store of the process: the engine of the checkpoint library, if the application has a job with
//! it. The two libraries are not linked with each other; this one finds the other's table by a name.

use std::ffi::{c_char, c_int};
use std::sync::{Arc, OnceLock};

use message_abi::store::{self, Store as Table};
use message_abi::{reason, Found};

use super::keeper::{Keeper, Store};
use super::mapping::Mapped;

static TABLE: OnceLock<&'static Table> = OnceLock::new();
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
        if let Some(table) = TABLE.get() {
            return Some(table);
        }
        // It may be loaded later.
        let Found::Table(table) = store::find() else { return None };
        Some(TABLE.get_or_init(|| table))
    }

    fn call(
        number: u32,
        body: impl FnOnce(&Table, c_int, *mut c_char, usize) -> c_int,
    ) -> Result<(), String> {
        let table = Engine::table().ok_or("there is no checkpoint library in this process")?;
        let number =
            c_int::try_from(number).map_err(|_| format!("there were {number} chunks before it"))?;
        reason::told(|reason, room| body(table, number, reason, room))
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

    fn leave(&self, number: u32) -> Result<(), String> {
        // SAFETY: the reason is the function's meanwhile.
        Engine::call(number, |table, number, reason, room| unsafe {
            (table.leave)(number, reason, room)
        })
    }

    fn forget(&self, number: u32) -> Result<(), String> {
        // SAFETY: the reason is the function's meanwhile.
        Engine::call(number, |table, number, reason, room| unsafe {
            (table.forget)(number, reason, room)
        })
    }
}
