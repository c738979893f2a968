//! The configuration: an INI file in upstream's syntax, or keys and values of a call, overridden by
//! `VELOC_<KEY>` in the environment, read once into typed values.
//!
//! Every key stands once, in [`KEYS`], with its default and its meaning. Old configurations keep
//! working: an unknown key, and a key of upstream's that has no effect here, are warnings. A value
//! that cannot be read, or that asks for something whose absence would change results, is an error
//! that names the key, the value and where it was found.

#![deny(clippy::disallowed_methods)]

/// The version of this library, and the VELOC whose interfaces and files it has. CMake and pkg-config
/// know the library by the latter.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (VELOC 1.8)");

mod directories;
mod document;
mod ini;
mod keys;
mod options;
mod settings;
mod value;

use policy::capture::Capture;
use std::env;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use errors::{Error, ErrorKind, Result};
use os::{files, size};
use settings::{Setting, SettingsByKey};

pub use directories::Directories;
pub use document::markdown;
pub use keys::{Key, Role, Task, KEYS};
pub use policy::order::RestoreOrder;
pub use policy::register::Pin;
pub use policy::touch::Touch;
pub use policy::LARGEST_GROUP;

/// The most bytes that one registration may cover.
pub const LARGEST_PIN_CHUNK: u64 = 1 << 30;

/// The most seconds between two looks at a client: a day.
pub(crate) const LONGEST_WATCHDOG: usize = 86_400;

/// The most seconds for which memory is kept for another job: a day.
pub(crate) const LONGEST_HAND_OVER: usize = 86_400;

/// The most versions that a limit can be: as many as there are.
pub(crate) const MOST_VERSIONS: usize = i32::MAX as usize;

/// The most bytes of a configuration file.
const LONGEST_FILE: u64 = 1 << 20;

/// The most jobs that the backend can be told to write for at a time.
pub(crate) const MOST_PARALLEL: usize = 1024;

/// The most threads that touch pages.
pub(crate) const MOST_TOUCH_THREADS: usize = 256;

/// When a checkpoint call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// When the last level has the bytes.
    Sync,
    /// When the application may change its memory again.
    Async,
}

/// Which files have to survive a crash of the machine: they have reached the storage, with their
/// names, before they count as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum SyncFiles {
    /// No files.
    None,
    /// The files in persistent.
    Data,
    /// The files in scratch as well.
    Full,
}

/// Which version is the newest one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NewestBy {
    /// The one with the highest number.
    #[default]
    Number,
    /// The one that was taken last.
    Time,
}

/// Whether checkpoint files have proofs, and what these decide.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProofPolicy {
    /// Each file gets a proof, and a file that does not fit its proof is not restored.
    #[default]
    Check,
    /// Each file gets a proof, and a file that does not fit its proof is restored with a warning.
    Accept,
    /// Files get no proof, and no proof is looked at.
    Off,
}

/// How checkpoint files are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compress {
    /// Not at all: they are upstream's, byte for byte.
    #[default]
    None,
    /// By LZ4.
    Lz4,
    /// By Zstandard at this level, from 1 to 22.
    Zstd(i32),
}

/// Whether the error of a call that fails is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PrintErrors {
    /// Errors are printed until the program has asked for one, and so prints them by itself.
    #[default]
    Auto,
    /// Every error is printed.
    Always,
    /// No error is printed.
    Never,
}

impl PrintErrors {
    /// The setting in the environment, for errors of calls before there is a configuration.
    pub fn of_environment() -> PrintErrors {
        let text = variable(os::environment::var("VELOC_PRINT_ERRORS").ok());
        text.and_then(|text| value::print_errors(&text).ok()).unwrap_or_default()
    }
}

/// By which means a page is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TouchMeans {
    /// The library chooses.
    Auto,
    /// `madvise(MADV_POPULATE_WRITE)`.
    Populate,
    /// A write that changes nothing.
    Write,
}

/// A size in bytes, and up to what it may grow: not less.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrowingSize {
    /// What it begins with.
    pub first: u64,
    /// The most that it becomes.
    pub most: u64,
}

impl std::fmt::Display for GrowingSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&size::show(self.first))?;
        match self.most > self.first {
            true => write!(f, "..{}", size::show(self.most)),
            false => Ok(()),
        }
    }
}

/// The configuration of one client. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Config {
    /// When a checkpoint call returns.
    pub mode: Mode,
    /// Node-local directory for checkpoint files. `None` only if `ephemeral`.
    pub scratch: Option<PathBuf>,
    /// Directory on the parallel file system, if there is that level.
    pub persistent: Option<PathBuf>,
    /// Bytes of the device cache. `None`: the library chooses; 0: no cache.
    pub gpu_cache_size: Option<GrowingSize>,
    /// Bytes of the host buffer. `None`: the library chooses; 0: no buffer.
    pub host_cache_size: Option<u64>,
    /// The directory of a drive below the host buffer, or its device. Only if `ephemeral`.
    pub drive: Option<PathBuf>,
    /// Bytes of the drive, more than 0. With `drive` alone, and then always.
    pub drive_size: Option<u64>,
    /// Bytes of compressed memory below the host buffer, more than 0. Only if `ephemeral`, and without a drive.
    pub compressed_cache_size: Option<u64>,
    /// How host memory gets to the host buffer; `None`: the library chooses for each checkpoint.
    pub host_capture: Option<Capture>,
    /// Copies of device memory stand in the order of the application's stream, and no call waits for them.
    pub stream_ordered: bool,
    /// Bytes of the device cache that are mapped at a time, more than 0. `None`: the library chooses.
    pub gpu_chunk_size: Option<u64>,
    /// The checkpoints are of no use after the run, so they need not reach a file.
    pub ephemeral: bool,
    /// The name under which the backend keeps the host buffer for the next job of this name.
    pub hand_over: Option<String>,
    /// For how many seconds the backend keeps the host buffer, 1 to a day.
    pub hand_over_time: u64,
    /// The order in which versions are expected back.
    pub restore_order: RestoreOrder,
    /// Which version a restart begins with.
    pub newest_by: NewestBy,
    /// How pages are touched.
    pub touch: Touch,
    /// Threads that touch pages, 0 to 256. 0: the library chooses.
    pub touch_threads: usize,
    /// By which means pages are touched.
    pub touch_method: TouchMeans,
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
    /// For how many ended jobs the backend writes at a time, at most `MOST_PARALLEL`. 0: as many as
    /// there are processors.
    pub max_parallelism: usize,
    /// Directory of the backend's log file.
    pub log_prefix: Option<PathBuf>,
    /// Where this user's directory for sockets of the backend is made. `None`: in /tmp.
    pub run_directory: Option<PathBuf>,
    /// Which files have to survive a crash of the machine.
    pub sync_files: SyncFiles,
    /// The least seconds between two checkpoints that are copied to persistent. `None`: never.
    pub persistent_interval: Option<u64>,
    /// Versions of each name that stay in persistent. 0: all.
    pub max_versions: usize,
    /// Versions of each name that stay in scratch. 0: all.
    pub scratch_versions: usize,
    /// Whether files have proofs.
    pub proof: ProofPolicy,
    /// A SHA-256 of each file is kept, and compared before a file is used.
    pub chksum: bool,
    /// How the workers compress the files that they write.
    pub compress: Compress,
    /// Directory of the checksums and of the index of aggregated files.
    pub meta: Option<PathBuf>,
    /// Whether a checkpoint has only what was written since the last one of its name.
    pub incremental: bool,
    /// How many checkpoints in a row have changes alone: 1 to 64.
    pub incremental_chain: usize,
    /// The processes share one persistent file for each version.
    pub aggregated: bool,
    /// Seconds between two erasure encodings at least, 0: every checkpoint. `None`: never.
    pub ec_interval: Option<u64>,
    /// Members of a group of erasure coding, about: 2 to [`LARGEST_GROUP`].
    pub ec_group: usize,
    /// Members of a group that may be lost: 1 to `ec_group` - 1.
    pub ec_parity: usize,
    /// The unit that fails together with this process. `None`: its host.
    pub failure_domain: Option<String>,
    /// Whether memory of deferred captures is hashed in the call, and compared when it has been copied.
    pub verify_captures: bool,
    /// Whether errors of calls are printed. Processes need not agree on it; the backend ignores it.
    #[serde(skip)]
    pub print_errors: PrintErrors,
    /// The file that this was read from, for lists of processes. It is no part of what the
    /// configuration says: copies of a file are one configuration.
    #[serde(skip)]
    pub file: Option<PathBuf>,
}

impl Config {
    /// `mode = sync`: the bytes are in their files when a checkpoint call returns.
    pub fn writes_directly(&self) -> bool {
        self.mode == Mode::Sync && !self.ephemeral
    }

    /// Whether the host buffer is for the next job of this name.
    pub fn hands_over(&self) -> bool {
        self.hand_over.is_some()
    }

    /// Whether the host buffer is to be written even if the application is killed, or to be kept
    /// for another job: only then is there a backend.
    pub fn outlives_application(&self) -> bool {
        let wanted_later = !self.ephemeral || self.hand_over.is_some();
        self.mode == Mode::Async && wanted_later && !self.threaded
    }

    /// Whether scratch files are to be protected by other processes.
    pub fn protects_scratch(&self) -> bool {
        self.ec_interval.is_some() && !self.ephemeral
    }

    /// Reads the file at `path` and the environment, and logs the warnings. An empty path is no file:
    /// the environment says all.
    ///
    /// # Errors
    /// A file that cannot be read or parsed (the message names the path, and the line if there is
    /// one), a missing key, or a value that is refused (named, with where it was found).
    pub fn load(path: &Path) -> Result<Config> {
        let named = !path.as_os_str().is_empty();
        let text = if named { read_text(path)? } else { String::new() };
        check_environment()?;
        let origin = match named {
            true => format!("configuration file {}", path.display()),
            false => "environment (the name of the configuration file is empty)".to_owned(),
        };
        let mut read =
            read(SourceValues::by_text(&text, &origin)?, |name| os::environment::var(name).ok())?;
        read.1.extend(read.0.elsewhere(path).filter(|_| named));
        Ok(Config { file: std::path::absolute(path).ok(), ..told(read) })
    }

    /// Reads `options`, keys and values, and the environment, as [`Config::load`] reads a file.
    ///
    /// # Errors
    /// An option without a key, an unknown key, a key that is given twice (the message names it and both
    /// values), and what [`Config::load`] refuses in a file, with "option" in place of the file.
    pub fn from_options(options: &[(&str, &str)]) -> Result<Config> {
        let given = SourceValues::by_options(options)?;
        check_environment()?;
        Ok(told(read(given, |name| os::environment::var(name).ok())?))
    }

    /// Reads a configuration from `text`, with `env` in place of the environment (it is asked for
    /// whole names, such as `VELOC_MODE`). Returns the warnings beside the configuration.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_text(
        text: &str,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<(Config, Vec<String>)> {
        read(SourceValues::by_text(text, "configuration")?, env)
    }
}

impl Config {
    /// Says that directories with relative paths will be made where the process is, and not beside the file at `path`.
    fn elsewhere(&self, path: &Path) -> Option<String> {
        let here = env::current_dir().ok()?;
        let beside = std::path::absolute(path).ok()?.parent()?.canonicalize().ok()?;
        let directories = [&self.scratch, &self.persistent, &self.meta].into_iter().flatten();
        let new = directories.filter(|directory| directory.is_relative() && !directory.exists());
        let named: Vec<String> = new.map(|directory| directory.display().to_string()).collect();
        if named.is_empty() || here.canonicalize().is_ok_and(|here| here == beside) {
            return None;
        }
        Some(format!(
            "relative paths ({}) begin in the working directory, {}, and not beside {}, and do not exist yet: a job \
             that starts in another directory finds other checkpoints",
            named.join(", "),
            here.display(),
            path.display()
        ))
    }
}

/// Refuses variables that are no text.
fn check_environment() -> Result<()> {
    for key in KEYS {
        let variable = key.variable();
        if let Err(env::VarError::NotUnicode(value)) = os::environment::var(&variable) {
            return Err(Error::invalid(format!(
                "environment variable {variable}: {} is not UTF-8",
                value.to_string_lossy()
            )));
        }
    }
    Ok(())
}

/// Logs the warnings, also of variables that are probably misspelt, and returns the configuration.
fn told((config, mut warnings): (Config, Vec<String>)) -> Config {
    warnings.extend(os::environment::names("VELOC_").iter().filter_map(|name| {
        let meant = keys::meant(name)?;
        Some(format!("environment variable {name} is ignored; was {meant} meant?"))
    }));
    // The other processes have read the same.
    if os::logging::speaks_for_all() {
        warnings.iter().for_each(|warning| log::warn!("{warning}"));
    }
    config
}

/// The values beside the environment: those of a file, or the options of a call.
struct SourceValues {
    /// The name of the source in messages.
    origin: String,
    /// The name of one of the values in messages.
    each: String,
    /// Keys, in lower case, and values.
    pairs: Vec<(String, String)>,
    /// Sections of a file, which have no meaning.
    sections: Vec<String>,
    /// An unknown key is an error, and not a warning.
    strict: bool,
}

impl SourceValues {
    /// The values of a file's text, which messages call `origin`.
    fn by_text(text: &str, origin: &str) -> Result<SourceValues> {
        let content = ini::read(text).map_err(|error| malformed(origin, &error))?;
        Ok(SourceValues {
            origin: origin.to_owned(),
            each: origin.to_owned(),
            pairs: content.root,
            sections: content.sections,
            strict: false,
        })
    }

    /// The values of a call's options.
    fn by_options(options: &[(&str, &str)]) -> Result<SourceValues> {
        Ok(SourceValues {
            origin: "options".to_owned(),
            each: "option".to_owned(),
            pairs: options::read(options)?,
            sections: Vec::new(),
            strict: true,
        })
    }
}

/// The text of a configuration file.
fn read_text(path: &Path) -> Result<String> {
    let within = |error: Error| {
        Error::new(ErrorKind::System, format!("configuration file {}: {error}", path.display()))
    };
    // Opening never waits, as for the writer of a pipe.
    let file = files::open(path).map_err(within)?;
    let mut text = Vec::new();
    let read = file.take(LONGEST_FILE + 1).read_to_end(&mut text);
    read.map_err(|e| Error::system(format!("configuration file {}", path.display()), &e))?;
    if text.len() as u64 > LONGEST_FILE {
        return Err(within(Error::invalid(format!("it has more than {LONGEST_FILE} bytes"))));
    }
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

/// The value of a variable; an empty one counts as none, as for upstream.
fn variable(text: Option<String>) -> Option<String> {
    text.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Reads the given values, which the environment overrides.
fn read(
    given: SourceValues,
    env: impl Fn(&str) -> Option<String>,
) -> Result<(Config, Vec<String>)> {
    let SourceValues { origin, each, pairs, sections, strict } = given;
    let mut warnings = Vec::new();
    for section in &sections {
        warnings.push(format!(
            "{origin}: section [{section}] is ignored; keys stand before any section"
        ));
    }

    let mut settings = SettingsByKey::default();
    for (name, text) in pairs {
        let Some(key) = keys::find(&name) else {
            let unknown = format!("{each}: unknown key {name}");
            let suggestion = keys::nearest(&name).map(|key| format!("; was {} meant?", key.name));
            let suggestion = suggestion.unwrap_or_default();
            if strict {
                return Err(Error::invalid(unknown + &suggestion));
            }
            warnings.push(format!("{unknown} is ignored{suggestion}"));
            continue;
        };
        if text.is_empty() {
            // An empty value is none: another source counts, as for upstream.
            continue;
        }
        let setting = Setting { text, origin: each.clone() };
        if settings.given.insert(key.name, setting).is_some() {
            warnings.push(format!("{origin}: {name} is given more than once; the last one counts"));
        }
    }
    for key in KEYS {
        let name = key.variable();
        if let Some(text) = variable(env(&name)) {
            let origin = format!("environment variable {name}");
            settings.given.insert(key.name, Setting { text, origin });
        }
    }
    settings.judge_unsupported(&mut warnings)?;
    settings.judge_paths(&mut warnings);
    let config = settings.into_config(&origin).map_err(|error| match sections.first() {
        // Warnings are not shown if there is an error.
        Some(section) => error.followed_by(format!(
            "the lines below [{section}] are not read; remove the line [{section}]"
        )),
        None => error,
    })?;
    Ok((config, warnings))
}

#[cfg(test)]
mod tests;
