//! The size of a job's host buffer, and whether its memory is shared with the backend.

use config::{Config, Mode};
use errors::{Error, Result};
use levels::host_buffer::HostBuffer;
use os::mapping::{supports_populate, Mapping};
use os::memory::{self, Physical};
use os::shared::SharedMemory;
use os::size;
use policy::capture::Capture;
use recovery::link::HandOff;

/// A host buffer without a size, in an ephemeral job without a device, can grow to so many quarters
/// of the memory that there is. How much of that it uses follows the available memory (`guard`).
const QUARTERS: u64 = 3;
/// Without `host_cache_size`, any other host buffer gets at most this share of the available memory.
const HOST_SHARE: u64 = 8;
/// Without `host_cache_size`, the largest host buffer in bytes of a job that writes files.
const HOST_DEFAULT: u64 = 1 << 30;
/// Without `host_cache_size`, a host buffer for which there are too few addresses (`ulimit -v`) is half of the first half that
/// fits; fewer bytes than this are not tried.
const HOST_LEAST: u64 = 32 << 20;
/// Without `host_cache_size`, the largest host buffer of an ephemeral job with a device.
const HOST_DEFAULT_EPHEMERAL: u64 = 8 << 30;

/// The host buffer that another job has handed over. Pages are made by need: most are there.
pub(super) fn taken(config: &Config, host: &SharedMemory) -> Result<HostBuffer> {
    if config.host_cache_size.is_some_and(|bytes| bytes != host.len()) {
        log::warn!(
            "host_cache_size is {}, but the host buffer was handed over by an earlier job (hand_over) and has {}",
            size::show(config.host_cache_size.unwrap_or(0)),
            size::show(host.len())
        );
    }
    let mapping = Mapping::of(host)?;
    Ok(HostBuffer::over(mapping, config.pin_chunk_size, config.huge_pages).by_need())
}

/// The host buffer, and what is handed to the backend.
pub(super) fn host_buffer(config: &Config) -> Result<(Option<HostBuffer>, Option<HandOff>)> {
    let direct = config.mode == Mode::Sync && !config.ephemeral;
    let bytes = match config.host_cache_size {
        Some(_) | None if direct => 0,
        Some(given) => {
            // This only reserves addresses, and a machine may get more memory while it runs.
            let total = memory::machine_total()?;
            if given > total {
                log::warn!(
                    "host_cache_size is {}, but this machine has {} of memory now: the host buffer can use only what \
                     is free when it is filled",
                    size::show(given),
                    size::show(total)
                );
            }
            given
        }
        None if config.ephemeral => memory::physical()?.total / 4 * QUARTERS,
        None => HOST_DEFAULT.min(memory::physical()?.available / HOST_SHARE),
    };
    if bytes == 0 {
        let no_device_cache = config.gpu_cache_size.is_none_or(|size| size.most == 0);
        if config.ephemeral && config.scratch.is_none() && no_device_cache {
            return Err(Error::invalid(
                "host_cache_size is 0, and there is neither gpu_cache_size nor scratch: an \
                 ephemeral job has no place for a checkpoint",
            ));
        }
        // Copies to persistent are made in the background all the same.
        let persists = config.outlives_application() && config.persistent.is_some();
        let ledger = persists.then(|| SharedMemory::create("veloc-ledger", ledger_size(0)));
        let hand_off =
            ledger.transpose().map(|ledger| Some(HandOff { ledger: ledger?, host: None }));
        return Ok((None, or_without(hand_off)));
    }
    let (chunk, huge) = (config.pin_chunk_size, config.huge_pages);
    if config.outlives_application() {
        let shared = as_large_as_possible(config, bytes, |bytes| {
            let (host, mapping) = shared(bytes, huge)?;
            let ledger = SharedMemory::create("veloc-ledger", ledger_size(bytes))?;
            Ok((mapping, HandOff { ledger, host: Some(host) }))
        });
        if let Some((mapping, hand_off)) = or_without(shared.map(Some)) {
            return Ok((Some(HostBuffer::over(mapping, chunk, huge).by_need()), Some(hand_off)));
        }
    }
    let reserve = |bytes| {
        let reserved = match config.host_capture {
            Some(Capture::Copy) => HostBuffer::reserve(bytes, chunk, huge),
            // A forked process may write to it.
            _ => shared(bytes, huge).map(|(_, mapping)| HostBuffer::over(mapping, chunk, huge)),
        };
        reserved.map_err(|error| error.within(format!("host_cache_size is {}", size::show(bytes))))
    };
    let buffer = as_large_as_possible(config, bytes, reserve)?;
    Ok((Some(buffer.by_need()), None))
}

/// What `make` makes of so many bytes, or of half of that and so on where nobody has asked for a size.
///
/// # Errors
/// That of the first attempt.
fn as_large_as_possible<T>(
    config: &Config,
    bytes: u64,
    make: impl Fn(u64) -> Result<T>,
) -> Result<T> {
    let first = match make(bytes) {
        Err(error) if config.host_cache_size.is_none() => error,
        made => return made,
    };
    let halves = std::iter::successors(Some(bytes / 2), |bytes| Some(bytes / 2));
    // Others need addresses, too.
    let fits = halves.take_while(|half| *half >= HOST_LEAST).find(|half| make(*half).is_ok());
    let Some(less) = fits.map(|fits| fits / 2) else { return Err(first) };
    log::warn!("the host buffer gets only {}: {first}", size::show(less));
    make(less)
}

/// The size of an ephemeral job's buffer without `host_cache_size`, once there is a device: it is touched and
/// registered from end to end.
pub(super) fn with_device(physical: &Physical) -> u64 {
    HOST_DEFAULT_EPHEMERAL.min(physical.available / HOST_SHARE)
}

/// Shared memory for the buffer, mapped. It uses huge pages that were set aside, if there are
/// enough and this process may use them: writing to a refused page would kill the process.
fn shared(bytes: u64, huge: bool) -> Result<(SharedMemory, Mapping)> {
    let mapped = |memory: SharedMemory| {
        let mapping = Mapping::of(&memory)?;
        Ok((memory, mapping))
    };
    if huge && supports_populate() {
        let set_aside = SharedMemory::create_huge("veloc-host", bytes).and_then(mapped);
        // Tests with one page whether this process gets any.
        if let Ok((memory, mapping)) = set_aside {
            if mapping.populate(0..1).is_ok() {
                log::info!("the host buffer has huge pages that were set aside: {bytes} bytes");
                return Ok((memory, mapping));
            }
        }
    }
    SharedMemory::create("veloc-host", bytes).and_then(mapped)
}

/// The shared memory, or nothing and a warning.
fn or_without<T>(shared: Result<Option<T>>) -> Option<T> {
    shared.unwrap_or_else(|error| {
        log::warn!(
            "there is no shared memory, so data that is not in files yet is lost if the application is killed: \
             {error}"
        );
        None
    })
}

/// The size of the ledger for a host buffer of `host` bytes: a record for each checkpoint of the smallest
/// size. Its pages are allocated when they are used.
fn ledger_size(host: u64) -> u64 {
    (host / 4).clamp(1 << 20, 1 << 30)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a second attempt that is larger than the first, one that takes all addresses, and a size that was asked for
    /// and is not given.
    #[test]
    fn a_buffer_that_does_not_fit_is_smaller() {
        let config = |more: &str| {
            let text = format!("mode = async\nephemeral = true\n{more}");
            Config::from_text(&text, |_| None).unwrap().0
        };
        let up_to = |most: u64| {
            move |bytes: u64| match bytes <= most {
                true => Ok(bytes),
                false => Err(Error::invalid(format!("{bytes} are too many"))),
            }
        };
        let found = |most| as_large_as_possible(&config(""), 1 << 30, up_to(most)).ok();
        assert_eq!(found(1 << 30), Some(1 << 30));
        assert_eq!(found((1 << 30) - 1), Some(1 << 28));
        assert_eq!(found(200 << 20), Some(64 << 20));
        assert_eq!(found(HOST_LEAST - 1), None);
        let given = config("host_cache_size = 1G\n");
        let error = as_large_as_possible(&given, 1 << 30, up_to(1 << 29)).unwrap_err();
        assert!(error.to_string().starts_with("1073741824"), "{error}");
    }
}
