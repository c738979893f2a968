//! Writes what a client left, by an engine that continues where the client ended.

use std::sync::Arc;

use config::{Config, Pin};
use engine::Engine;
use levels::files::Identities;
use levels::host_buffer::HostBuffer;
use levels::ledger::{self, Record, Standing};
use os::error::Result;
use os::mapping::Mapping;
use os::shared::SharedMemory;
use recovery::Process;

/// The most unwritten checkpoints that an error names.
const MOST_NAMES: usize = 16;

/// Writes the checkpoints in `host` that are not in files yet, as `ledger` says. Returns the number of
/// checkpoints in the ledger.
///
/// # Errors
/// Something could not be written; the message says what is lost.
pub(super) fn finish(
    config: &Config,
    process: Process,
    directories: &Identities,
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
    if config.aggregated && !process.is_single() && unplaced > 0 {
        log::warn!(
            "{unplaced} checkpoints whose place in an aggregated file was not known yet are copied \
             to files of their own"
        );
    }
    let config = Config { pin: Pin::Off, trace: None, ..config.clone() };
    let mapping = host.map(Mapping::of).transpose()?;
    let buffer =
        mapping.map(|mapping| HostBuffer::over(mapping, config.pin_chunk_size, config.huge_pages));
    let engine = Engine::take_over(config, process, directories, buffer, &records)?;
    engine.drain().map_err(|error| {
        let [lost, owed] = engine.left_behind();
        let lost = names(&lost).map(|names| format!("lost with its memory: {names}"));
        let owed = names(&owed).map(|names| format!("in scratch alone: {names}"));
        let left: Vec<String> = lost.into_iter().chain(owed).collect();
        if left.is_empty() {
            return error;
        }
        error.followed_by(left.join("; "))
    })?;
    Ok(records.len())
}

/// The first of the versions and how many more there are; `None`: there are none.
fn names(versions: &[(Arc<str>, i32)]) -> Option<String> {
    let shown: Vec<String> = versions
        .iter()
        .take(MOST_NAMES)
        .map(|(name, version)| format!("\"{name}\" version {version}"))
        .collect();
    match versions.len().checked_sub(MOST_NAMES) {
        _ if shown.is_empty() => None,
        None | Some(0) => Some(shown.join(", ")),
        Some(more) => Some(format!("{} and {more} more", shown.join(", "))),
    }
}
