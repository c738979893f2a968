//! Finishing what a client has left: an engine goes on where the client ended.

use super::Process;
use crate::config::{Config, Pin};
use crate::engine::Engine;
use crate::error::Result;
use crate::platform::mapping::Mapping;
use crate::platform::shared::SharedMemory;
use crate::tier::host_buffer::HostBuffer;
use crate::tier::ledger::{self, Record, Standing};

/// Writes what is in `host` and not in files yet, as `ledger` says. The checkpoints it was left.
///
/// # Errors
/// Something could not be written.
pub(super) fn execute(
    config: &Config,
    process: Process,
    host: Option<&SharedMemory>,
    ledger: &SharedMemory,
) -> Result<usize> {
    let records = ledger::read(ledger)?;
    if records.is_empty() {
        return Ok(0);
    }
    let unplaced = |(record, standing): &&(Record<'_>, Standing)| {
        standing.persist && record.place.is_none() && record.routed.is_none()
    };
    let unplaced = records.iter().filter(unplaced).count();
    if config.aggregated && !process.alone && unplaced > 0 {
        log::warn!(
            "rank {}: {unplaced} checkpoints whose place in an aggregated file was not known yet \
             are copied to files of their own",
            process.rank
        );
    }
    let config = Config { pin: Pin::Off, trace: None, ..config.clone() };
    let mapping = host.map(Mapping::of).transpose()?;
    let buffer =
        mapping.map(|mapping| HostBuffer::over(mapping, config.pin_chunk_size, config.huge_pages));
    let engine = Engine::inherit(config, process, buffer, &records)?;
    engine.drain()?;
    Ok(records.len())
}
