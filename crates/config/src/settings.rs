//! The values that were given for each key, and the configuration that follows from them.

use std::borrow::Cow;
use std::collections::HashMap;

use super::keys::{self, Role, KEYS};
use super::value::{self, Allowed};
use super::{
    Compress, Config, Mode, NewestBy, Pin, RestoreOrder, SyncFiles, Touch, TouchMeans,
    LARGEST_GROUP, LARGEST_PIN_CHUNK, LONGEST_HAND_OVER, LONGEST_WATCHDOG, MOST_PARALLEL,
    MOST_TOUCH_THREADS, MOST_VERSIONS,
};
use errors::{Error, Result};

/// The error about a value that a key cannot have.
pub(super) fn refused(origin: &str, name: &str, text: &str, allowed: &str) -> Error {
    Error::invalid(format!("{origin}: {name} = {text:?} is not allowed; it takes {allowed}"))
}

/// A value as it was written, and where.
pub(super) struct Setting {
    pub(super) text: String,
    pub(super) origin: String,
}

/// The values that were given, by key.
#[derive(Default)]
pub(super) struct SettingsByKey {
    pub(super) given: HashMap<&'static str, Setting>,
}

impl SettingsByKey {
    /// Refuses what this version cannot do, and warns about what it ignores.
    pub(super) fn judge_unsupported(&self, warnings: &mut Vec<String>) -> Result<()> {
        // One warning for keys that have the same replacement.
        let mut ignored: Vec<(&str, Option<&str>, Vec<&str>)> = Vec::new();
        for key in KEYS {
            let Some(Setting { text, origin }) = self.given.get(key.name) else {
                continue;
            };
            let name = key.name;
            match key.role {
                Role::Required | Role::Optional | Role::Default(_) => {}
                Role::NoEffect { instead } => match ignored.last_mut() {
                    Some((from, same, names))
                        if instead.is_some() && *same == instead && from == origin =>
                    {
                        names.push(name);
                    }
                    _ => ignored.push((origin, instead, vec![name])),
                },
                Role::Refused { instead } => {
                    return Err(Error::invalid(format!(
                        "{origin}: {name} = {text} is not supported; use {instead}"
                    )));
                }
            }
        }
        warnings.extend(ignored.into_iter().map(|(origin, instead, names)| {
            let have = if names.len() == 1 { "has" } else { "have" };
            let instead = instead.map(|other| format!("; use {other} instead")).unwrap_or_default();
            format!("{origin}: {} {have} no effect in this version{instead}", names.join(", "))
        }));
        Ok(())
    }

    /// Warns about paths that seem to name a variable, and about those that VELOC reads otherwise. It
    /// makes directories with a `$` in their names, too, but takes the first word of a path.
    pub(super) fn judge_paths(&self, warnings: &mut Vec<String>) {
        for key in KEYS.iter().filter(|key| key.values == keys::PATH) {
            if let Some(Setting { text, origin }) = self.given.get(key.name) {
                if text.contains('$') {
                    warnings.push(format!(
                        "{origin}: {} = {text}: variables ($) are not replaced; the directory has exactly this name",
                        key.name
                    ));
                }
                if let Some((first, _)) = text.split_once(char::is_whitespace) {
                    warnings.push(format!(
                        "{origin}: {} = {text}: the white space is part of the path; VELOC reads only the first \
                         word, {first}",
                        key.name
                    ));
                }
            }
        }
    }

    /// The configuration; messages call the file `origin`.
    pub(super) fn into_config(self, origin: &str) -> Result<Config> {
        let ec_group =
            self.required("ec_group", origin, |text| value::count_from(text, 2, LARGEST_GROUP))?;
        let config = Config {
            mode: self.required("mode", origin, |text| {
                value::choice(text, &[("sync", Mode::Sync), ("async", Mode::Async)])
            })?,
            scratch: self.read("scratch", value::path)?,
            persistent: self.read("persistent", value::path)?,
            gpu_cache_size: self.read("gpu_cache_size", value::growing_size)?,
            host_cache_size: self.read("host_cache_size", value::size_or_auto)?.flatten(),
            drive: self.read("drive", value::path)?,
            drive_size: self.read("drive_size", |text| value::size_up_to(text, u64::MAX))?,
            compressed_cache_size: self
                .read("compressed_cache_size", |text| value::size_up_to(text, u64::MAX))?,
            gpu_chunk_size: self.required("gpu_chunk_size", origin, value::chunk_or_auto)?,
            ephemeral: self.required("ephemeral", origin, value::switch)?,
            hand_over: self.read("hand_over", value::label)?,
            hand_over_time: self.required("hand_over_time", origin, |text| {
                value::count_from(text, 1, LONGEST_HAND_OVER).map(|seconds| seconds as u64)
            })?,
            restore_order: self.required("restore_order", origin, |text| {
                let words = [
                    ("reverse", RestoreOrder::Reverse),
                    ("same", RestoreOrder::Same),
                    ("random", RestoreOrder::Random),
                ];
                value::choice(text, &words)
            })?,
            touch: self.required("touch", origin, |text| {
                let words = [
                    ("auto", Touch::Auto),
                    ("sequential", Touch::Sequential),
                    ("concurrent", Touch::Concurrent),
                ];
                value::choice(text, &words)
            })?,
            touch_threads: self
                .required("touch_threads", origin, |text| value::count(text, MOST_TOUCH_THREADS))?,
            touch_method: self.required("touch_method", origin, |text| {
                let words = [
                    ("auto", TouchMeans::Auto),
                    ("populate", TouchMeans::Populate),
                    ("write", TouchMeans::Write),
                ];
                value::choice(text, &words)
            })?,
            huge_pages: self.required("huge_pages", origin, value::switch)?,
            pin: self.required("pin", origin, |text| {
                let words = [
                    ("serial", Pin::Serial),
                    ("parallel", Pin::Parallel),
                    ("off", Pin::Off),
                    ("chunked", Pin::Chunked),
                ];
                value::choice(text, &words)
            })?,
            pin_chunk_size: self.required("pin_chunk_size", origin, |text| {
                value::size_up_to(text, LARGEST_PIN_CHUNK)
            })?,
            trace: self.read("trace", value::path)?,
            threaded: self.required("threaded", origin, value::switch)?,
            watchdog_interval: self.required("watchdog_interval", origin, |text| {
                value::count(text, LONGEST_WATCHDOG).map(|seconds| seconds as u64)
            })?,
            max_parallelism: self
                .required("max_parallelism", origin, |text| value::count(text, MOST_PARALLEL))?,
            log_prefix: self.read("log_prefix", value::path)?,
            run_directory: self.read("run_directory", value::path)?,
            sync_files: self.required("sync_files", origin, |text| {
                let words = [
                    ("none", SyncFiles::None),
                    ("data", SyncFiles::Data),
                    ("full", SyncFiles::Full),
                ];
                value::choice(text, &words)
            })?,
            persistent_interval: self.required("persistent_interval", origin, value::interval)?,
            max_versions: self
                .required("max_versions", origin, |text| value::count(text, MOST_VERSIONS))?,
            scratch_versions: self
                .required("scratch_versions", origin, |text| value::count(text, MOST_VERSIONS))?,
            newest_by: self.required("newest_by", origin, |text| {
                value::choice(text, &[("number", NewestBy::Number), ("time", NewestBy::Time)])
            })?,
            proof: self.required("proof", origin, value::proof)?,
            chksum: self.required("chksum", origin, value::switch)?,
            meta: self.read("meta", value::path)?,
            compress: self.required("compress", origin, value::compress)?,
            incremental: self.required("incremental", origin, value::switch)?,
            incremental_chain: self
                .required("incremental_chain", origin, |text| value::count_from(text, 1, 64))?,
            aggregated: self.required("aggregated", origin, value::switch)?,
            ec_interval: self.required("ec_interval", origin, value::interval)?,
            ec_group,
            ec_parity: self
                .required("ec_parity", origin, |text| value::count_from(text, 1, ec_group - 1))?,
            failure_domain: self.read("failure_domain", |text| Ok(text.to_owned()))?,
            host_capture: self.required("host_capture", origin, value::host_capture)?,
            stream_ordered: self.required("stream_ordered", origin, value::switch)?,
            verify_captures: self.required("verify_captures", origin, value::switch)?,
            print_errors: self.required("print_errors", origin, value::print_errors)?,
            file: None,
        };
        for (key, set) in [("chksum", config.chksum), ("aggregated", config.aggregated)] {
            if set && config.meta.is_none() && !config.ephemeral {
                return Err(Error::invalid(format!(
                    "{origin}: {key} = true needs the key meta, a directory for checksums and for the index of \
                     aggregated files"
                )));
            }
        }
        if config.compress != Compress::None {
            let without = match config.mode {
                Mode::Sync if !config.ephemeral => Some((
                    "mode = sync",
                    "only workers compress, and here the call itself writes the file",
                )),
                _ if config.aggregated => Some((
                    "aggregated = true",
                    "where a part begins in the file must be known before the parts are compressed",
                )),
                _ => None,
            };
            if let Some((other, why)) = without {
                return Err(Error::invalid(format!(
                    "{origin}: compress does not go with {other}: {why}"
                )));
            }
        }
        if config.scratch.is_none() && !config.ephemeral {
            return Err(Error::invalid(format!(
                "{origin}: scratch is missing; give a directory, or ephemeral = true if no \
                 checkpoint has to outlive the run"
            )));
        }
        judge_hand_over(&config).map_err(|error| error.within(origin))?;
        judge_incremental(&config).map_err(|error| error.within(origin))?;
        judge_lower(&config).map_err(|error| error.within(origin))?;
        Ok(config)
    }

    /// The value of `name` as given, or else its default, or else none.
    fn read<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> std::result::Result<T, Allowed>,
    ) -> Result<Option<T>> {
        let (text, origin) = match (self.given.get(name), keys::find(name).map(|key| key.role)) {
            (Some(setting), _) => (setting.text.as_str(), Cow::from(&setting.origin)),
            (None, Some(Role::Default(text))) => (text, Cow::from("default")),
            (None, _) => return Ok(None),
        };
        parse(text).map(Some).map_err(|allowed| refused(&origin, name, text, &allowed))
    }

    /// Reads a key that must have a value, given or by default.
    fn required<T>(
        &self,
        name: &str,
        origin: &str,
        parse: impl FnOnce(&str) -> std::result::Result<T, Allowed>,
    ) -> Result<T> {
        self.read(name, parse)?.ok_or_else(|| {
            let values = keys::find(name).map_or("a value", |key| key.values);
            Error::invalid(format!("{origin}: {name} is missing; it takes {values}"))
        })
    }
}

/// # Errors
/// A key with which a checkpoint could not be restored from what has changed alone.
fn judge_incremental(config: &Config) -> Result<()> {
    if !config.incremental {
        return Ok(());
    }
    let why = if config.ephemeral {
        "ephemeral = true: its checkpoints are restored from memory, but deltas only from files"
    } else if config.hand_over.is_some() {
        "hand_over: the next job finds checkpoints in memory, but deltas are restored only from files"
    } else if config.aggregated {
        "aggregated = true: one process replaces and removes the file for all, while others may still have deltas of \
         it"
    } else if config.persistent.is_some() && config.persistent_interval.is_some_and(|time| time > 0)
    {
        "persistent_interval: a delta that is copied would lack its base, if that is not copied"
    } else if config.ec_interval.is_some_and(|time| time > 0) {
        "ec_interval > 0: a delta that has parities would lack its base, if that has none"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("incremental = true does not go with {why}")))
}

/// # Errors
/// A key without which, or with which, a level below the host cache would have no use, or would lose what somebody waits
/// for.
fn judge_lower(config: &Config) -> Result<()> {
    let key = match (&config.drive, config.drive_size, config.compressed_cache_size) {
        (None, None, None) => return Ok(()),
        (Some(_), None, _) => return Err(Error::invalid("drive needs drive_size, the bytes that it may use")),
        (None, Some(_), _) => {
            return Err(Error::invalid("drive_size needs drive, a directory or a block device"))
        }
        (Some(_), Some(_), Some(_)) => {
            return Err(Error::invalid(
                "drive and compressed_cache_size: only one of them can be the level below the host cache",
            ))
        }
        (Some(_), Some(_), None) => "drive",
        (None, None, Some(_)) => "compressed_cache_size",
    };
    let why = if !config.ephemeral {
        "needs ephemeral = true: its content is gone when the process has ended"
    } else if config.hand_over.is_some() {
        "does not go with hand_over: its content would not be handed over"
    } else if config.host_cache_size == Some(0) {
        "does not go with host_cache_size = 0: checkpoints come to it from the host cache"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("{key} {why}")))
}

/// # Errors
/// A key without which, or with which, no memory can be handed over.
fn judge_hand_over(config: &Config) -> Result<()> {
    let Some(name) = &config.hand_over else { return Ok(()) };
    let why = if config.mode == Mode::Sync {
        "mode = sync, which leaves nothing in the host cache; it needs mode = async"
    } else if config.threaded {
        "threaded = true, without veloc-backend, which would keep the memory"
    } else if config.host_cache_size == Some(0) {
        "host_cache_size = 0: there is no host cache to hand over"
    } else if config.ephemeral && config.scratch.is_some() {
        "ephemeral = true with scratch: checkpoints that overflow into files would not be handed over; leave scratch \
         out"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("hand_over = {name} does not go with {why}")))
}
