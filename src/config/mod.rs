//! The configuration: an INI file in upstream's syntax, overridden by `VELOC_<KEY>` in the
//! environment, read once into typed values.
//!
//! Every key stands once, in [`KEYS`], with its default and its meaning. Old configurations keep
//! working: an unknown key, and a key of upstream's that has no effect here, are warnings. A value
//! that cannot be read, or that asks for something whose absence would change results, is an error
//! that names the key, the value and where it was found.

mod directories;
mod ini;
mod keys;
mod value;

use std::borrow::Cow;
use std::collections::HashMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use value::Allowed;

pub use crate::erasure::layout::LARGEST_GROUP;
pub use crate::policy::order::RestoreOrder;
pub use crate::policy::register::Pin;
pub use crate::policy::touch::Touch;
pub use directories::Directories;
pub use keys::{markdown, Key, Role, KEYS};

/// The most bytes that one registration may cover.
pub const LARGEST_PIN_CHUNK: u64 = 1 << 30;

/// The most seconds between two looks at a client: a day.
pub const LONGEST_WATCHDOG: usize = 86_400;

/// The most versions that a limit can be: as many as there are.
pub const MOST_VERSIONS: usize = i32::MAX as usize;

/// The most jobs that the backend can be told to write for at a time.
pub const MOST_PARALLEL: usize = 1024;

/// The most threads that touch pages.
pub const MOST_TOUCH_THREADS: usize = 256;

/// When a checkpoint call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// When the last tier has the bytes.
    Sync,
    /// When the application may change its memory again.
    Async,
}

/// Which files have to survive a crash of the machine: they have reached the storage, with their
/// names, before they count as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SyncFiles {
    /// None.
    None,
    /// Those in persistent.
    Data,
    /// Those in scratch as well.
    Full,
}

/// By which means a page is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TouchMethod {
    /// The library chooses.
    Auto,
    /// `madvise(MADV_POPULATE_WRITE)`.
    Populate,
    /// A write that changes nothing.
    Write,
}

/// The configuration of one client. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// When a checkpoint call returns.
    pub mode: Mode,
    /// Node-local directory for checkpoint files. `None` only if `ephemeral`.
    pub scratch: Option<PathBuf>,
    /// Directory on the parallel file system, if there is that tier.
    pub persistent: Option<PathBuf>,
    /// Bytes of the device cache. `None`: the library chooses; 0: no cache.
    pub gpu_cache_size: Option<u64>,
    /// Bytes of the host buffer. `None`: the library chooses; 0: no buffer.
    pub host_cache_size: Option<u64>,
    /// Bytes of the device cache that are mapped at a time, more than 0.
    pub gpu_chunk_size: u64,
    /// The checkpoints are of no use after the run, so they need not reach a file.
    pub ephemeral: bool,
    /// The order in which versions are expected back.
    pub restore_order: RestoreOrder,
    /// How pages are touched.
    pub touch: Touch,
    /// Threads that touch pages, 0 to 256. 0: the library chooses.
    pub touch_threads: usize,
    /// By which means pages are touched.
    pub touch_method: TouchMethod,
    /// Ask for transparent huge pages.
    pub huge_pages: bool,
    /// How host memory is registered with the driver.
    pub pin: Pin,
    /// Bytes that one registration covers, 1 to [`LARGEST_PIN_CHUNK`].
    pub pin_chunk_size: u64,
    /// The file for the timeline, if one is wanted.
    pub trace: Option<PathBuf>,
    /// Files are written by threads of the application alone; there is no backend.
    pub threaded: bool,
    /// Seconds between two looks of the backend at whether a client lives, at least 1.
    pub watchdog_interval: u64,
    /// For how many ended jobs the backend writes at a time, at most [`MOST_PARALLEL`]. 0: as many as
    /// there are processors.
    pub max_parallelism: usize,
    /// Directory of the backend's log file.
    pub log_prefix: Option<PathBuf>,
    /// Which files have to survive a crash of the machine.
    pub sync_files: SyncFiles,
    /// The least seconds between two checkpoints that are copied to persistent. `None`: none is.
    pub persistent_interval: Option<u64>,
    /// Versions of each name that stay in persistent. 0: all.
    pub max_versions: usize,
    /// Versions of each name that stay in scratch. 0: all.
    pub scratch_versions: usize,
    /// A SHA-256 of each file is kept, and compared before a file is used.
    pub chksum: bool,
    /// Directory of the checksums and of the index of aggregated files.
    pub meta: Option<PathBuf>,
    /// The processes share one persistent file for each version.
    pub aggregated: bool,
    /// Seconds between two erasure encodings at least, 0: every checkpoint. `None`: never.
    pub ec_interval: Option<u64>,
    /// Members of a group of erasure coding, about: 2 to [`LARGEST_GROUP`].
    pub ec_group: usize,
    /// Members of a group that may be lost: 1 to `ec_group` - 1.
    pub ec_parity: usize,
    /// What this process is lost together with. `None`: its host.
    pub failure_domain: Option<String>,
    /// The file that this was read from, for who looks at a list of processes. No part of what the
    /// configuration says: copies of a file are one configuration.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

impl Config {
    /// Whether what is in the host buffer is to be written even if the application is killed: only
    /// then is there a backend.
    pub fn outlives_application(&self) -> bool {
        self.mode == Mode::Async && !self.ephemeral && !self.threaded
    }

    /// Whether scratch files are to be protected by other processes.
    pub fn protects_scratch(&self) -> bool {
        self.ec_interval.is_some() && !self.ephemeral
    }

    /// Reads the file at `path` and the environment, and logs the warnings.
    ///
    /// # Errors
    /// A file that cannot be read or parsed (the message names the path, and the line if there is
    /// one), a missing key, or a value that is refused (named, with where it was found).
    pub fn load(path: &Path) -> Result<Config> {
        let text = read_text(path)?;
        for key in KEYS {
            let variable = key.variable();
            if let Err(env::VarError::NotUnicode(value)) = env::var(&variable) {
                return Err(Error::invalid(format!(
                    "environment variable {variable}: {} is not UTF-8",
                    value.to_string_lossy()
                )));
            }
        }
        let origin = format!("configuration file {}", path.display());
        let (config, warnings) = read(&text, &origin, |name| env::var(name).ok())?;
        for warning in warnings {
            log::warn!("{warning}");
        }
        Ok(Config { file: std::path::absolute(path).ok(), ..config })
    }

    /// The same from `text`, with `env` in place of the environment (it is asked for whole names,
    /// such as `VELOC_MODE`). The warnings come back beside the configuration.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_text(
        text: &str,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<(Config, Vec<String>)> {
        read(text, "configuration", env)
    }
}

/// The text of a configuration file.
fn read_text(path: &Path) -> Result<String> {
    let text = fs::read(path)
        .map_err(|e| Error::system(format!("configuration file {}", path.display()), &e))?;
    String::from_utf8(text).map_err(|e| {
        let before = &e.as_bytes()[..e.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        Error::invalid(format!(
            "configuration file {}, line {line}: the text is not UTF-8",
            path.display()
        ))
    })
}

/// The error about a line that cannot be read.
fn malformed(origin: &str, error: &ini::Malformed) -> Error {
    Error::invalid(format!("{origin}, line {}: {}", error.line, error.reason))
}

/// Reads `text`, which messages call `origin`.
fn read(
    text: &str,
    origin: &str,
    env: impl Fn(&str) -> Option<String>,
) -> Result<(Config, Vec<String>)> {
    let content = ini::read(text).map_err(|error| malformed(origin, &error))?;
    let mut warnings = Vec::new();
    for section in &content.sections {
        warnings.push(format!(
            "{origin}: section [{section}] is ignored; keys stand before any section"
        ));
    }

    let mut settings = Settings { given: HashMap::new() };
    for (name, text) in content.root {
        let Some(key) = keys::find(&name) else {
            warnings.push(unknown(&name, origin));
            continue;
        };
        let setting = Setting { text, origin: origin.to_string() };
        if settings.given.insert(key.name, setting).is_some() {
            warnings.push(format!("{origin}: {name} is given more than once; the last one counts"));
        }
    }
    for key in KEYS {
        let variable = key.variable();
        if let Some(text) = env(&variable) {
            let origin = format!("environment variable {variable}");
            let text = text.trim().to_string();
            settings.given.insert(key.name, Setting { text, origin });
        }
    }
    settings.judge_unsupported(&mut warnings)?;
    settings.judge_paths(&mut warnings);
    let config = settings.into_config(origin).map_err(|error| match content.sections.first() {
        // The warnings are not seen if there is an error.
        Some(section) => error
            .followed_by(format!("what stands below [{section}] is not read; take the line away")),
        None => error,
    })?;
    Ok((config, warnings))
}

/// The error about a value that a key cannot have.
fn refused(origin: &str, name: &str, text: &str, allowed: &str) -> Error {
    Error::invalid(format!("{origin}: {name} = {text:?} is not allowed; it takes {allowed}"))
}

/// The warning about a key that is not in the table.
fn unknown(name: &str, origin: &str) -> String {
    let suggestion = match keys::nearest(name) {
        Some(key) => format!("; was {} meant?", key.name),
        None => String::new(),
    };
    format!("{origin}: unknown key {name} is ignored{suggestion}")
}

/// A value as it was written, and where.
struct Setting {
    text: String,
    origin: String,
}

/// The values that were given, by key.
struct Settings {
    given: HashMap<&'static str, Setting>,
}

impl Settings {
    /// Refuses what this version cannot do, and warns about what it ignores.
    fn judge_unsupported(&self, warnings: &mut Vec<String>) -> Result<()> {
        for key in KEYS {
            let Some(Setting { text, origin }) = self.given.get(key.name) else {
                continue;
            };
            let name = key.name;
            match key.role {
                Role::Required | Role::Optional | Role::Default(_) => {}
                Role::NoEffect { instead } => warnings.push(match instead {
                    Some(other) => format!(
                        "{origin}: {name} has no effect in this version; use {other} instead"
                    ),
                    None => format!("{origin}: {name} has no effect in this version"),
                }),
                Role::Refused { instead } => {
                    return Err(Error::invalid(format!(
                        "{origin}: {name} = {text} is not supported; use {instead}"
                    )));
                }
            }
        }
        Ok(())
    }

    /// Warns about paths that seem to name a variable. VELOC makes directories of such names, too.
    fn judge_paths(&self, warnings: &mut Vec<String>) {
        for key in KEYS.iter().filter(|key| key.values == keys::PATH) {
            if let Some(Setting { text, origin }) = self.given.get(key.name) {
                if text.contains('$') {
                    warnings.push(format!(
                        "{origin}: {} = {text}: nothing is put in place of $; the directory has this \
                         very name",
                        key.name
                    ));
                }
            }
        }
    }

    fn into_config(self, origin: &str) -> Result<Config> {
        let ec_group =
            self.required("ec_group", origin, |text| value::count_from(text, 2, LARGEST_GROUP))?;
        let config = Config {
            mode: self.required("mode", origin, |text| {
                value::choice(text, &[("sync", Mode::Sync), ("async", Mode::Async)])
            })?,
            scratch: self.read("scratch", value::path)?,
            persistent: self.read("persistent", value::path)?,
            gpu_cache_size: self.read("gpu_cache_size", value::size)?,
            host_cache_size: self.read("host_cache_size", value::size)?,
            gpu_chunk_size: self
                .required("gpu_chunk_size", origin, |text| value::size_up_to(text, u64::MAX))?,
            ephemeral: self.required("ephemeral", origin, value::switch)?,
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
                    ("auto", TouchMethod::Auto),
                    ("populate", TouchMethod::Populate),
                    ("write", TouchMethod::Write),
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
            chksum: self.required("chksum", origin, value::switch)?,
            meta: self.read("meta", value::path)?,
            aggregated: self.required("aggregated", origin, value::switch)?,
            ec_interval: self.required("ec_interval", origin, value::interval)?,
            ec_group,
            ec_parity: self
                .required("ec_parity", origin, |text| value::count_from(text, 1, ec_group - 1))?,
            failure_domain: self.read("failure_domain", |text| match text {
                "" => Err("a name".to_owned()),
                name => Ok(name.to_owned()),
            })?,
            file: None,
        };
        for (key, set) in [("chksum", config.chksum), ("aggregated", config.aggregated)] {
            if set && config.meta.is_none() && !config.ephemeral {
                return Err(Error::invalid(format!(
                    "{origin}: {key} = true needs the key meta, a directory for what is known of \
                     the files"
                )));
            }
        }
        if config.scratch.is_none() && !config.ephemeral {
            return Err(Error::invalid(format!(
                "{origin}: scratch is missing; give a directory, or ephemeral = true if no \
                 checkpoint has to outlive the run"
            )));
        }
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

    /// The same for a key that has to have a value, given or by default.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use proptest::prelude::*;
    use std::io::Write as _;

    const LEAST: &str = "mode = async\nscratch = /tmp/s\n";

    fn text_and_env(text: &str, env: &[(&str, &str)]) -> Result<(Config, Vec<String>)> {
        Config::from_text(text, |name| {
            env.iter().find(|(known, _)| *known == name).map(|(_, value)| value.to_string())
        })
    }

    fn with(more: &str) -> Result<(Config, Vec<String>)> {
        text_and_env(&format!("{LEAST}{more}\n"), &[])
    }

    #[test]
    fn defaults() {
        let (config, warnings) = with("").unwrap();
        assert_eq!(
            config,
            Config {
                mode: Mode::Async,
                scratch: Some("/tmp/s".into()),
                persistent: None,
                gpu_cache_size: None,
                host_cache_size: None,
                gpu_chunk_size: 128 << 20,
                ephemeral: false,
                restore_order: RestoreOrder::Reverse,
                touch: Touch::Auto,
                touch_threads: 0,
                touch_method: TouchMethod::Auto,
                huge_pages: true,
                pin: Pin::Chunked,
                pin_chunk_size: 64 << 20,
                trace: None,
                threaded: false,
                watchdog_interval: 5,
                max_parallelism: 0,
                log_prefix: None,
                sync_files: SyncFiles::Data,
                persistent_interval: Some(0),
                max_versions: 0,
                scratch_versions: 0,
                chksum: false,
                meta: None,
                aggregated: false,
                ec_interval: None,
                ec_group: 8,
                ec_parity: 1,
                failure_domain: None,
                file: None,
            }
        );
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn every_key_is_read() {
        let (config, warnings) = text_and_env(
            "mode = sync\nscratch = /s\npersistent = /p\ngpu_cache_size = 0.5\n\
             host_cache_size = 12\ngpu_chunk_size = 2M\nephemeral = yes\nrestore_order = random\n\
             touch = concurrent\ntouch_threads = 16\ntouch_method = populate\nhuge_pages = off\n\
             pin = chunked\npin_chunk_size = 1G\ntrace = /t.json\nthreaded = true\n\
             watchdog_interval = 7\nmax_parallelism = 4\nlog_prefix = /l\nsync_files = full\n\
             persistent_interval = -1\nmax_versions = 3\nscratch_versions = 2\nchksum = true\n\
             meta = /m\naggregated = true\nec_interval = 60\nec_group = 4\n\
             ec_parity = 3\nfailure_domain = rack 7\n",
            &[],
        )
        .unwrap();
        assert_eq!(
            config,
            Config {
                mode: Mode::Sync,
                scratch: Some("/s".into()),
                persistent: Some("/p".into()),
                gpu_cache_size: Some(512 << 20),
                host_cache_size: Some(12 << 30),
                gpu_chunk_size: 2 << 20,
                ephemeral: true,
                restore_order: RestoreOrder::Random,
                touch: Touch::Concurrent,
                touch_threads: 16,
                touch_method: TouchMethod::Populate,
                huge_pages: false,
                pin: Pin::Chunked,
                pin_chunk_size: 1 << 30,
                trace: Some("/t.json".into()),
                threaded: true,
                watchdog_interval: 7,
                max_parallelism: 4,
                log_prefix: Some("/l".into()),
                sync_files: SyncFiles::Full,
                persistent_interval: None,
                max_versions: 3,
                scratch_versions: 2,
                chksum: true,
                meta: Some("/m".into()),
                aggregated: true,
                ec_interval: Some(60),
                ec_group: 4,
                ec_parity: 3,
                failure_domain: Some("rack 7".into()),
                file: None,
            }
        );
        assert!(warnings.is_empty(), "{warnings:?}");
    }

    #[test]
    fn bad_values_name_key_value_place_and_what_is_allowed() {
        for (key, value, allowed) in [
            ("mode", "asynk", "sync, async"),
            ("ec_interval", "-2", "from -1 (never)"),
            ("ec_group", "1", "from 2 to 64"),
            ("ec_parity", "0", "from 1 to 7"),
            ("ec_parity", "8", "from 1 to 7"),
            ("failure_domain", "", "a name"),
            ("scratch", "", "a path"),
            ("scratch", "~/scratch", "written out"),
            ("persistent", "", "a path"),
            ("persistent", "\"/p\"", "without quotes"),
            ("gpu_cache_size", "-1", "a number of GiB"),
            ("host_cache_size", "lots", "a number of GiB"),
            ("gpu_chunk_size", "0", "more than 0"),
            ("ephemeral", "maybe", "true or false"),
            ("restore_order", "backwards", "reverse, same, random"),
            ("touch", "none", "auto, sequential, concurrent"),
            ("touch_threads", "257", "from 0 to 256"),
            ("touch_method", "read", "auto, populate, write"),
            ("huge_pages", "2", "true or false"),
            ("pin", "both", "serial, parallel, off, chunked"),
            ("pin_chunk_size", "2G", "at most 1024 MiB"),
            ("trace", "", "a path"),
            ("aggregated", "perhaps", "true or false"),
            ("max_parallelism", "1025", "from 0 to 1024"),
            ("sync_files", "all", "none, data, full"),
            ("persistent_interval", "-2", "from -1 (never)"),
            ("max_versions", "-1", "a whole number"),
            ("scratch_versions", "2.5", "a whole number"),
            ("chksum", "sha256", "true or false"),
            ("meta", "", "a path"),
        ] {
            let from_file = with(&format!("{key} = {value}")).unwrap_err();
            assert_eq!(from_file.kind(), Kind::Invalid);
            let variable = format!("VELOC_{}", key.to_ascii_uppercase());
            let from_env = text_and_env(LEAST, &[(variable.as_str(), value)]).unwrap_err();
            for (message, place) in
                [(from_file.to_string(), "configuration"), (from_env.to_string(), &variable)]
            {
                for part in [place, &format!("{key} = {value:?}"), allowed] {
                    assert!(message.contains(part), "{message:?} lacks {part:?}");
                }
            }
        }
    }

    #[test]
    fn missing_keys() {
        let message = text_and_env("scratch = /s", &[]).unwrap_err().to_string();
        assert!(message.contains("mode is missing"), "{message}");
        let message = text_and_env("mode = sync", &[]).unwrap_err().to_string();
        assert!(message.contains("scratch is missing"), "{message}");
        let (config, _) = text_and_env("mode = sync\nephemeral = true", &[]).unwrap();
        assert_eq!(config.scratch, None);
    }

    #[test]
    fn the_environment_overrides() {
        let env = [("VELOC_MODE", "sync"), ("VELOC_PIN", "off"), ("VELOC_CHKSUM", "false")];
        let (config, _) = text_and_env(&format!("{LEAST}chksum = true"), &env).unwrap();
        assert_eq!((config.mode, config.pin), (Mode::Sync, Pin::Off));
    }

    #[test]
    fn keys_without_effect_are_warnings() {
        for key in KEYS {
            let Role::NoEffect { instead } = key.role else {
                continue;
            };
            let (_, warnings) = with(&format!("{} = 1", key.name)).unwrap();
            assert_eq!(warnings.len(), 1, "{}", key.name);
            assert!(warnings[0].contains(key.name) && warnings[0].contains("no effect"));
            if let Some(other) = instead {
                assert!(warnings[0].contains(other), "{}", warnings[0]);
            }
        }
    }

    #[test]
    fn what_would_change_results_is_refused() {
        for (line, accepted) in
            [("axl_type = pthread", false), ("daos_pool = p", false), ("daos_cont = c", false)]
        {
            match with(line) {
                Ok((_, warnings)) => assert!(accepted && warnings.is_empty(), "{line}"),
                Err(e) => {
                    assert!(!accepted, "{line}: {e}");
                    assert!(e.to_string().contains(line), "{e}");
                }
            }
        }
    }

    #[test]
    fn what_is_known_of_files_needs_a_directory() {
        for key in ["chksum", "aggregated"] {
            let message = with(&format!("{key} = true")).unwrap_err().to_string();
            assert!(message.contains(key) && message.contains("meta"), "{message}");
            assert!(with(&format!("{key} = true\nmeta = /m")).is_ok());
        }
    }

    #[test]
    fn unknown_keys_and_sections_are_warnings() {
        let (_, warnings) =
            with("scrach = /tmp\nwhatever = 7\nmode = async\n[gpu]\nx = 1").unwrap();
        let expected =
            ["section [gpu]", "was scratch meant?", "whatever is ignored", "mode is given more"];
        assert_eq!(warnings.len(), expected.len(), "{warnings:?}");
        for (warning, part) in warnings.iter().zip(expected) {
            assert!(warning.contains(part), "{warning:?} lacks {part:?}");
        }
    }

    /// Catches a directory `$USER` that nobody hears of, and a warning about anything else.
    #[test]
    fn variables_in_paths_are_warnings() {
        let (config, warnings) = with("persistent = /p/$USER\nfailure_domain = a$b").unwrap();
        assert_eq!(config.persistent, Some("/p/$USER".into()));
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].contains("persistent = /p/$USER"), "{warnings:?}");
    }

    #[test]
    fn files() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(LEAST.as_bytes()).unwrap();
        assert_eq!(Config::load(file.path()).unwrap().mode, Mode::Async);

        file.write_all(b"nonsense\n").unwrap();
        let message = Config::load(file.path()).unwrap_err().to_string();
        assert!(message.contains(&file.path().display().to_string()), "{message}");
        assert!(message.contains("line 3"), "{message}");

        file.write_all(b"a = \xff\n").unwrap();
        let message = Config::load(file.path()).unwrap_err().to_string();
        assert!(message.contains("line 4") && message.contains("UTF-8"), "{message}");

        let missing = Config::load(Path::new("/nonexistent/veloc.cfg")).unwrap_err();
        assert_eq!(missing.kind(), Kind::System);
        assert!(missing.to_string().contains("/nonexistent/veloc.cfg"), "{missing}");
    }

    proptest! {
        #[test]
        fn any_value_is_answered(index in 0..KEYS.len(), value in "[!-~ ]{0,16}") {
            let key = &KEYS[index];
            match with(&format!("{} = {value}", key.name)) {
                Ok((config, _)) => {
                    prop_assert!(config.gpu_chunk_size > 0);
                    prop_assert!((1..=LARGEST_PIN_CHUNK).contains(&config.pin_chunk_size));
                    prop_assert!(config.touch_threads <= MOST_TOUCH_THREADS);
                    prop_assert!(config.scratch.is_some() || config.ephemeral);
                }
                Err(e) => prop_assert!(e.to_string().contains(key.name), "{}", e),
            }
        }
    }
}
