//! What the log of messages has no memory for, given to the engine and taken back: the entry of the
//! client that is below its lock. The log grows inside calls of MPI's, at any time and beside any
//! call of the application's here, also while a checkpoint or a restart is open; and it gives on a
//! thread of its own, which may wait for room. So it goes to what the workers share, past the
//! client, which no call of the log ever waits for.

use std::sync::{Arc, OnceLock};

use crate::engine::passing::REGION;
use crate::engine::shared::Shared;
use crate::error::{Error, Kind, Result};
use crate::sync::Mutex;
use crate::tier::files::left;

/// The job that takes chunks now. A process has one at a time.
static KEEPS: OnceLock<Mutex<Option<Arc<Shared>>>> = std::sync::OnceLock::new();

fn keeps() -> &'static Mutex<Option<Arc<Shared>>> {
    KEEPS.get_or_init(Mutex::default)
}

/// A job takes chunks for as long as this lives.
#[derive(Debug)]
pub struct Keeping(());

impl Keeping {
    /// From here on.
    pub fn begin(shared: Arc<Shared>) -> Keeping {
        *keeps().lock() = Some(shared);
        Keeping(())
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        *keeps().lock() = None;
    }
}

/// Whether there is a job that has a place for chunks.
pub fn is_there() -> bool {
    keeper().is_ok_and(|shared| shared.takes_passing())
}

/// Takes a copy of a chunk.
///
/// # Errors
/// [`Kind::NotFound`] without a job. There is no room, and none can come.
pub fn take(number: i32, bytes: &[u8]) -> Result<()> {
    keeper()?.take_passing(number, bytes)
}

/// Gives a chunk back. It stays, too.
///
/// # Errors
/// It is not there, or cannot be read.
pub fn give(number: i32, into: &mut [u8]) -> Result<()> {
    left::read(number, REGION, into).unwrap_or_else(|| keeper()?.give_passing(number, into))
}

/// The job ends. Sees to it that a chunk can be given and forgotten all the same.
///
/// # Errors
/// It cannot: it is in no file.
pub fn leave(number: i32) -> Result<()> {
    // An earlier job may have left it.
    if !left::has(number) {
        left::keep(number, keeper()?.leave_passing(number)?);
    }
    Ok(())
}

/// Forgets a chunk.
///
/// # Errors
/// Its file cannot be removed.
pub fn forget(number: i32) -> Result<()> {
    left::remove(number).unwrap_or_else(|| keeper()?.drop_passing(number))
}

/// The process ends, and what was left to it goes.
pub fn end() {
    left::remove_all();
}

fn keeper() -> Result<Arc<Shared>> {
    // Not held meanwhile: the end of the job waits for nobody.
    let shared = keeps().lock().clone();
    shared.ok_or_else(|| {
        Error::new(Kind::NotFound, "there is no job (VELOC_Init) that keeps the log of messages")
    })
}
