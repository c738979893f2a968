//! The protocol between a client and its backend, and the socket's path.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::handover::Kept;
use super::Process;
use config::Config;
use errors::{Error, ErrorKind, Result};
use files::Inodes;
use format::checksum::Checksum;
use os::private;

/// The version: it changes with every change of the messages or of the shared memory. Release 0.2.0 has 12.
pub const PROTOCOL: u32 = 12;

/// The first message over a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum First {
    /// A client. Its ledger and its host buffer, if any, are attached.
    Hello(Box<Hello>),
    /// A client asks for the memory that is kept for it. Its hello follows the answer.
    Asks(Box<Hello>),
    /// Somebody asks what memory is kept.
    Lists,
    /// The kept memory is to be freed.
    Drops,
}

/// What a client tells about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The job's configuration, made [`portable`].
    pub config: Config,
    /// The client's rank.
    pub process: Process,
    /// The inodes of the configured directories.
    pub directories: Inodes,
}

/// A client's later messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The client ends normally; a killed client sends nothing.
    Goodbye,
    /// The client wants an answer, because it is about to rely on the backend.
    Ping,
}

/// A backend's messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The data of all earlier clients of that rank is written.
    PredecessorsDone,
    /// The backend is alive; also sent while it writes an earlier client's data.
    Alive,
    /// The memory that was asked for: ledger and host buffer are attached.
    Memory,
    /// There is no memory, and why.
    Nothing(String),
    /// Memory that is, or was, kept. The connection ends after the last such message.
    Keeps(Box<Kept>),
}

/// The configuration for another process: paths are absolute, and settings that concern only the
/// application are left out.
///
/// # Errors
/// The working directory is unknown.
pub fn portable(config: &Config) -> Result<Config> {
    let absolute = |path: &Path| {
        std::path::absolute(path)
            .map_err(|error| Error::system(format!("the path {}", path.display()), &error))
    };
    let mut config = config.clone();
    let Config { scratch, persistent, meta, log_prefix, run_directory, drive, .. } = &mut config;
    for path in [scratch, persistent, meta, log_prefix, run_directory, drive] {
        *path = path.as_deref().map(absolute).transpose()?;
    }
    config.trace = None;
    config.ec_interval = None;
    config.failure_domain = None;
    Ok(config)
}

/// The socket path of the backend of this user and (portable) configuration. Jobs that hand their memory
/// over to each other have one backend, whatever else their configurations say.
///
/// # Errors
/// There is no directory that only this user can enter.
pub fn path(config: &Config) -> Result<PathBuf> {
    let directory = private::directory(config.run_directory.as_deref())?;
    let name = match &config.hand_over {
        Some(name) => name_in(&mount_space(), KEEPER, name)?,
        None => name_in(&mount_space(), BACKEND, config)?,
    };
    Ok(directory.join(name))
}

/// The socket path of the backend that keeps memory under this name (`hand_over`).
///
/// # Errors
/// As [`path`].
pub(crate) fn path_of_name(name: &str) -> Result<PathBuf> {
    Ok(private::directory(None)?.join(name_in(&mount_space(), KEEPER, &name)?))
}

/// The sockets of all backends that keep memory under a name.
///
/// # Errors
/// As [`path`]; or the directory cannot be read.
pub(crate) fn kept_sockets() -> Result<Vec<PathBuf>> {
    let directory = private::directory(None)?;
    let failed = |error| Error::system(format!("reading {}", directory.display()), &error);
    let prefix = format!("{KEEPER}-{PROTOCOL}-");
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let digits = name.strip_prefix(&prefix);
        if digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit())) {
            found.push(path);
        }
    }
    Ok(found)
}

/// The beginning of socket names.
const BACKEND: &str = "backend";
/// The beginning of socket names where memory is handed over.
const KEEPER: &str = "hand-over";

/// The mount namespace. In another container, or in a job with its own /tmp, the same paths mean
/// other directories, so it needs another backend.
fn mount_space() -> PathBuf {
    std::fs::read_link("/proc/self/ns/mnt").unwrap_or_default()
}

/// The name in the mount namespace `space` of the socket for `what`.
fn name_in(space: &Path, prefix: &str, what: &impl Serialize) -> Result<String> {
    // A directory for temporary files may be shared by several nodes.
    let host = rustix::system::uname();
    let digest = Checksum::of(&encode(&(space, host.nodename().to_bytes(), what))?);
    let digits: String = digest.as_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{prefix}-{PROTOCOL}-{digits}"))
}

/// Encodes a message.
///
/// # Errors
/// Out of memory.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(message).map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))
}

/// Decodes a message.
///
/// # Errors
/// [`ErrorKind::Corrupt`]: the bytes are no message.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    postcard::from_bytes(bytes).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("a message of the backend: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches an empty message, which would look like the end of the connection.
    #[test]
    fn every_message_has_bytes() {
        for request in [Request::Goodbye, Request::Ping] {
            assert!(!encode(&request).unwrap().is_empty());
        }
        for reply in [Reply::PredecessorsDone, Reply::Alive] {
            assert!(!encode(&reply).unwrap().is_empty());
        }
    }

    /// Catches relative paths, which the backend would resolve elsewhere.
    #[test]
    fn every_directory_is_absolute() {
        let text = "mode = async\nscratch = s\npersistent = p\nmeta = m\nlog_prefix = l\n";
        let (config, _) = Config::from_text(text, |_| None).unwrap();
        let config = portable(&config).unwrap();
        for path in [config.scratch, config.persistent, config.meta, config.log_prefix] {
            assert!(path.unwrap().is_absolute());
        }
    }

    #[test]
    fn a_name_is_of_one_configuration() {
        let config = |more: &str| {
            let text = format!("mode = async\nscratch = /s\n{more}");
            let (config, _) = Config::from_text(&text, |_| None).unwrap();
            path(&portable(&config).unwrap()).unwrap()
        };
        let (here, _) = Config::from_text("mode = async\nscratch = /s\n", |_| None).unwrap();
        let of = |space: &str| name_in(Path::new(space), BACKEND, &here).unwrap();
        assert_ne!(of("mnt:[1]"), of("mnt:[2]"), "the same path is another directory there");
        for own in ["trace = /t.json", "failure_domain = rack 7", "ec_interval = 9"] {
            assert_eq!(config(""), config(&format!("{own}\n")), "{own}");
        }
        assert_ne!(config(""), config("persistent = /p\n"));
        assert!(config("").as_os_str().len() < 80, "the paths of sockets are short");
        // Two programs have different caches.
        let handed = |more: &str| config(&format!("hand_over = a\n{more}"));
        assert_eq!(handed(""), handed("gpu_cache_size = 5M\nhost_cache_size = 1G\n"));
        assert_ne!(handed(""), config(""));
        assert_ne!(handed(""), config("hand_over = b\n"));
    }
}
