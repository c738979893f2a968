//! Writes what a client left, by an engine that continues where the client ended.

use std::sync::Arc;

use catalog::ledger::{self, Ledger, Left};
use config::{Config, Pin};
use engine::Engine;
use errors::{Error, ErrorKind, Result};
use levels::host_buffer::HostBuffer;
use os::carrier;
use os::mapping::Mapping;
use os::shared::SharedMemory;
use recovery::protocol::Hello;

use super::clients::Client;

/// The most unwritten checkpoints that an error names.
const MOST_NAMES: usize = 16;

/// Writes the checkpoints in `host` that are not in files yet, as `ledger` says. Returns how many.
/// Where the memory is handed over, the ledger stays true, and the next job may stop the writing.
///
/// # Errors
/// Something could not be written; the message says what is lost. [`ErrorKind::Internal`]: the memory may still
/// be in use.
pub(super) fn finish(
    client: &Client,
    hello: &Hello,
    host: Option<&SharedMemory>,
    ledger: &SharedMemory,
) -> Result<usize> {
    let Hello { config, process, directories, .. } = hello;
    for carrier in ledger::carriers(ledger.words()?)? {
        await_carrier(carrier, ledger);
    }
    let (kept, records) = match config.hand_over.is_some() {
        true => Ledger::resume(ledger.words()?).map(|(ledger, left)| (Some(ledger), left))?,
        false => (None, ledger::read(ledger.words()?)?),
    };
    let due = records.iter().filter(|(_, standing, _)| standing.is_due()).count();
    if due == 0 {
        return Ok(0);
    }
    let unplaced = |(record, standing, _): &&Left| {
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
    let keeps = kept.is_some();
    let engine = Engine::take_over(config, *process, directories, buffer, &records, kept)?;
    client.is_written_by(engine.handle());
    let drained = engine.drain();
    if keeps && !engine.stop_workers() {
        let what = "a thread that writes has not ended, so the memory is not handed over";
        return Err(Error::new(ErrorKind::Internal, what));
    }
    match drained {
        Err(_) if client.is_wanted() => Ok(0),
        Err(error) => Err(unwritten(&engine, error)),
        Ok(()) => Ok(due),
    }
}

/// Waits until a process that copies for an ended client has ended.
fn await_carrier(carrier: u32, ledger: &SharedMemory) {
    let Ok(Some(end)) = carrier::open(carrier) else { return };
    // Another process may have its number by now.
    if ledger.is_mapped_by(carrier) == Some(true) {
        log::info!("process {carrier} copies for it, and is waited for");
        if let Err(error) = carrier::await_end(&end) {
            log::error!("{error}");
        }
    }
}

/// The error, with the checkpoints that could not be written.
fn unwritten(engine: &Engine, error: Error) -> Error {
    let [lost, backlog] = engine.checkpoints().left_behind();
    let lost = names(&lost).map(|names| match engine.config().hands_over() {
        true => format!("in memory alone: {names}"),
        false => format!("lost with its memory: {names}"),
    });
    let backlog = names(&backlog).map(|names| format!("in scratch alone: {names}"));
    let left: Vec<String> = lost.into_iter().chain(backlog).collect();
    if left.is_empty() {
        return error;
    }
    error.followed_by(left.join("; "))
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
