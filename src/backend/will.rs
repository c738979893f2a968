//! Finishing what a client has left: an engine goes on where the client ended.

use crate::config::{Config, Pin};
use crate::engine::Engine;
use crate::error::Result;
use crate::platform::mapping::Mapping;
use crate::platform::shared::SharedMemory;
use crate::tier::host_buffer::HostBuffer;
use crate::tier::ledger;

/// Writes what is in `host` and not in files yet, as `ledger` says. The checkpoints it was left.
///
/// # Errors
/// Something could not be written.
pub(super) fn execute(
    config: &Config,
    rank: u32,
    host: &SharedMemory,
    ledger: &SharedMemory,
) -> Result<usize> {
    let records = ledger::read(ledger)?;
    if records.is_empty() {
        return Ok(0);
    }
    let config = Config { pin: Pin::Off, trace: None, ..config.clone() };
    let buffer = HostBuffer::over(Mapping::of(host)?, config.pin_chunk_size, config.huge_pages);
    let engine = Engine::inherit(config, rank, buffer, &records)?;
    engine.drain()?;
    Ok(records.len())
}
