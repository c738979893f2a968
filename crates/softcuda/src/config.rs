//! Settings: read from the environment once, changed by `softcuda_configure`.
//!
//! | key | meaning |
//! | --- | --- |
//! | `SOFTCUDA_MEMORY` | bytes of memory of each device, with K, M, G or T |
//! | `SOFTCUDA_DEVICES` | number of devices, fixed at `cuInit` |
//! | `SOFTCUDA_DELAY` | `name=microseconds,...` that a call takes |
//! | `SOFTCUDA_BANDWIDTH` | `kind=GB/s,...`, see [`Bandwidth`] |
//! | `SOFTCUDA_COPY` | `none` makes copies move nothing |
//! | `SOFTCUDA_CONTEXT_LOCK` | `1`: pageable copies and registrations keep others from queueing work |
//! | `SOFTCUDA_KERNELS` | `ptx` compiles every kernel from its module's PTX |
//! | `SOFTCUDA_PAGEABLE` | how kernels reach memory of `malloc`: not (`no`), by `hmm` or by `ats` |
//! | `SOFTCUDA_RANGES` | the range reported for mapped memory: of one `handle`, or the `reservation` |
//! | `SOFTCUDA_LIMIT` | bytes that one process may have of each device |
//! | `SOFTCUDA_SPIN` | `1`: waiting calls spin, except on events that were made to sleep |
//! | `SOFTCUDA_LATE` | microseconds: work is carried out once it is wanted, by a sleeping wait after so long |
//! | `SOFTCUDA_STALE` | `fatal` ends the process that uses a handle of a destroyed context |
//!
//! (`SOFTCUDA_FAIL` belongs to `inject`.) A value that cannot be read is
//! reported on stderr and leaves the default.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use crate::inject;
use crate::late;
use crate::notice::notice;
use crate::sync::lock;

const DEFAULT_MEMORY: u64 = 4 << 30;
const MOST_DEVICES: usize = 16;
const KEYS: [&str; 14] = [
    "SOFTCUDA_MEMORY",
    "SOFTCUDA_DEVICES",
    "SOFTCUDA_DELAY",
    "SOFTCUDA_BANDWIDTH",
    "SOFTCUDA_COPY",
    "SOFTCUDA_CONTEXT_LOCK",
    "SOFTCUDA_KERNELS",
    "SOFTCUDA_LIMIT",
    "SOFTCUDA_SPIN",
    "SOFTCUDA_LATE",
    "SOFTCUDA_STALE",
    "SOFTCUDA_FAIL",
    "SOFTCUDA_RANGES",
    "SOFTCUDA_PAGEABLE",
];

/// Rates in bytes per second; what is not given is not throttled.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Bandwidth {
    /// Device to pinned host memory.
    pub(crate) device_to_host: Option<f64>,
    /// Pinned host to device memory.
    pub(crate) host_to_device: Option<f64>,
    /// Within or between devices.
    pub(crate) device_to_device: Option<f64>,
    /// Any copy with unregistered host memory.
    pub(crate) pageable: Option<f64>,
    /// Registering host memory.
    pub(crate) register: Option<f64>,
}

/// How kernels reach memory that was never registered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Pageable {
    /// Not at all.
    #[default]
    No,
    /// By heterogeneous memory management of the system: pages move.
    Hmm,
    /// By the page tables of the host.
    Ats,
}

/// All settings but the failures to inject.
#[derive(Debug)]
struct DeviceSettings {
    memory_bytes: u64,
    limit: Option<u64>,
    devices: usize,
    delays: HashMap<String, Duration>,
    bandwidth: Bandwidth,
    copies_move_data: bool,
    context_lock: bool,
    only_ptx: bool,
    ranges_are_reservations: bool,
    pageable: Pageable,
    stale_is_fatal: bool,
    spins: bool,
    late: Duration,
}

impl Default for DeviceSettings {
    fn default() -> Self {
        Self {
            memory_bytes: DEFAULT_MEMORY,
            limit: None,
            devices: 1,
            delays: HashMap::new(),
            bandwidth: Bandwidth::default(),
            copies_move_data: true,
            context_lock: false,
            only_ptx: false,
            ranges_are_reservations: false,
            pageable: Pageable::default(),
            stale_is_fatal: false,
            spins: false,
            late: Duration::ZERO,
        }
    }
}

impl DeviceSettings {
    /// Sets one key, or says why not.
    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "SOFTCUDA_MEMORY" => self.memory_bytes = parse_bytes(value)?,
            "SOFTCUDA_DEVICES" => {
                self.devices = value
                    .parse()
                    .ok()
                    .filter(|count| *count <= MOST_DEVICES)
                    .ok_or_else(|| format!("not a number from 0 to {MOST_DEVICES}"))?;
            }
            "SOFTCUDA_DELAY" => self.delays = parse_delays(value)?,
            "SOFTCUDA_BANDWIDTH" => self.bandwidth = parse_bandwidth(value)?,
            "SOFTCUDA_COPY" => {
                self.copies_move_data = match value {
                    "none" => false,
                    "" | "real" => true,
                    _ => return Err("neither `none` nor `real`".into()),
                };
                if !self.copies_move_data {
                    notice("SOFTCUDA_COPY=none: copies move no data");
                }
            }
            "SOFTCUDA_CONTEXT_LOCK" => {
                self.context_lock = match value {
                    "1" => true,
                    "" | "0" => false,
                    _ => return Err("neither `0` nor `1`".into()),
                };
            }
            "SOFTCUDA_KERNELS" => {
                self.only_ptx = match value {
                    "ptx" => true,
                    "" | "native" => false,
                    _ => return Err("neither `native` nor `ptx`".into()),
                };
            }
            "SOFTCUDA_LIMIT" => {
                self.limit = if value.is_empty() { None } else { Some(parse_bytes(value)?) };
            }
            "SOFTCUDA_SPIN" => {
                self.spins = match value {
                    "1" => true,
                    "" | "0" => false,
                    _ => return Err("neither `0` nor `1`".into()),
                };
            }
            "SOFTCUDA_LATE" => {
                let micros = if value.is_empty() { Ok(0) } else { value.parse() };
                let micros = micros.map_err(|_| "not a number of microseconds")?;
                self.late = Duration::from_micros(micros);
                late::begin_period(micros > 0);
            }
            "SOFTCUDA_STALE" => {
                self.stale_is_fatal = match value {
                    "fatal" => true,
                    "" | "refused" => false,
                    _ => return Err("neither `fatal` nor `refused`".into()),
                };
            }
            "SOFTCUDA_FAIL" => inject::set_failures(value)?,
            "SOFTCUDA_RANGES" => {
                self.ranges_are_reservations = match value {
                    "reservation" => true,
                    "" | "handle" => false,
                    _ => return Err("neither `handle` nor `reservation`".into()),
                };
            }
            "SOFTCUDA_PAGEABLE" => {
                self.pageable = match value {
                    "" | "no" => Pageable::No,
                    "hmm" => Pageable::Hmm,
                    "ats" => Pageable::Ats,
                    _ => return Err("neither `no` nor `hmm` nor `ats`".into()),
                };
            }
            _ => return Err("no such setting".into()),
        }
        Ok(())
    }
}

fn settings() -> MutexGuard<'static, DeviceSettings> {
    static SETTINGS: OnceLock<Mutex<DeviceSettings>> = OnceLock::new();
    let settings = SETTINGS.get_or_init(|| {
        let mut settings = DeviceSettings::default();
        for key in KEYS {
            let Ok(value) = std::env::var(key) else {
                continue;
            };
            if let Err(why) = settings.set(key, &value) {
                notice(&format!("{key}={value}: {why}"));
            }
        }
        Mutex::new(settings)
    });
    lock(settings)
}

/// Reads the environment now, if that has not been done.
pub(crate) fn load() {
    drop(settings());
}

/// Sets `key` (with or without its `SOFTCUDA_`) to `value`.
pub(crate) fn configure(key: &str, value: &str) -> Result<(), String> {
    let key = key.to_ascii_uppercase();
    let key = if key.starts_with("SOFTCUDA_") { key } else { format!("SOFTCUDA_{key}") };
    settings().set(&key, value)
}

/// Bytes of memory of each device.
pub(crate) fn memory_bytes() -> u64 {
    settings().memory_bytes
}

/// Bytes of each device that can be allocated: fewer than it has where the process is limited, as under a
/// service that shares devices (MPS).
pub(crate) fn allowed_bytes() -> u64 {
    let settings = settings();
    settings.limit.unwrap_or(u64::MAX).min(settings.memory_bytes)
}

/// Number of devices.
pub(crate) fn devices() -> usize {
    settings().devices
}

/// How long a call of this function takes beyond its work.
pub(crate) fn delay(function: &str) -> Duration {
    settings().delays.get(function).copied().unwrap_or_default()
}

/// The rates to keep to.
pub(crate) fn bandwidth() -> Bandwidth {
    settings().bandwidth
}

/// Whether copies move data.
pub(crate) fn copies_move_data() -> bool {
    settings().copies_move_data
}

/// Whether kernels that the program has registered are ignored.
pub(crate) fn only_ptx() -> bool {
    settings().only_ptx
}

/// Whether pageable copies and registrations hold a lock that queueing takes.
pub(crate) fn context_lock() -> bool {
    settings().context_lock
}

/// How kernels reach memory that was never registered.
pub(crate) fn pageable() -> Pageable {
    settings().pageable
}

/// Whether a pointer into mapped memory is said to lie in its reservation, instead of in the mapping of one
/// handle.
pub(crate) fn ranges_are_reservations() -> bool {
    settings().ranges_are_reservations
}

/// Whether the use of a handle whose context was destroyed ends the process.
pub(crate) fn stale_is_fatal() -> bool {
    settings().stale_is_fatal
}

/// Whether waiting calls spin.
pub(crate) fn spins() -> bool {
    settings().spins
}

/// How long a sleeping wait leaves a late device alone.
pub(crate) fn late() -> Duration {
    settings().late
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let (digits, shift) = match text.to_ascii_uppercase().chars().last() {
        Some('K') => (&text[..text.len() - 1], 10),
        Some('M') => (&text[..text.len() - 1], 20),
        Some('G') => (&text[..text.len() - 1], 30),
        Some('T') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    digits
        .trim()
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| "not a number of bytes".into())
}

/// Splits `name=number,name=number`.
fn parse_pairs(text: &str) -> Result<Vec<(&str, f64)>, String> {
    text.split(',')
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| {
            let (name, number) = item.split_once('=').ok_or(format!("no `=` in `{item}`"))?;
            let number = number
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|number| number.is_finite() && *number >= 0.0)
                .ok_or(format!("no number in `{item}`"))?;
            Ok((name.trim(), number))
        })
        .collect()
}

fn parse_delays(text: &str) -> Result<HashMap<String, Duration>, String> {
    let pairs = parse_pairs(text)?;
    Ok(pairs
        .into_iter()
        .map(|(name, micros)| (name.to_owned(), Duration::from_nanos((micros * 1e3) as u64)))
        .collect())
}

fn parse_bandwidth(text: &str) -> Result<Bandwidth, String> {
    let mut bandwidth = Bandwidth::default();
    for (kind, gigabytes) in parse_pairs(text)? {
        let rate = (gigabytes > 0.0).then_some(gigabytes * 1e9);
        match kind {
            "dtoh" => bandwidth.device_to_host = rate,
            "htod" => bandwidth.host_to_device = rate,
            "dtod" => bandwidth.device_to_device = rate,
            "pageable" => bandwidth.pageable = rate,
            "register" => bandwidth.register = rate,
            _ => return Err(format!("no kind of copy is called `{kind}`")),
        }
    }
    Ok(bandwidth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_take_a_suffix() {
        assert_eq!(parse_bytes("4096"), Ok(4096));
        assert_eq!(parse_bytes(" 3m "), Ok(3 << 20));
        assert_eq!(parse_bytes("2G"), Ok(2 << 30));
        assert!(parse_bytes("").is_err());
        assert!(parse_bytes("-1").is_err());
        assert!(parse_bytes("99999999999T").is_err());
    }

    #[test]
    fn rates_are_in_gigabytes_and_nought_means_unthrottled() {
        let bandwidth = parse_bandwidth("dtoh=12, htod=0").unwrap();
        assert_eq!(bandwidth.device_to_host, Some(12e9));
        assert_eq!(bandwidth.host_to_device, None);
        assert!(parse_bandwidth("sideways=3").is_err());
        assert!(parse_bandwidth("dtoh").is_err());
    }

    #[test]
    fn delays_are_in_microseconds() {
        let delays = parse_delays("cuMemMap=1.5,cuMemFree_v2=2").unwrap();
        assert_eq!(delays["cuMemMap"], Duration::from_nanos(1500));
        assert_eq!(delays["cuMemFree_v2"], Duration::from_micros(2));
    }
}
