//! What a client and its backend say to each other, and where they meet.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Process;
use config::Config;
use format::checksum::Checksum;
use levels::files::Identities;
use os::error::{Error, Kind, Result};
use os::private;

/// Goes up with every change of the messages or of what lies in shared memory.
pub const PROTOCOL: u32 = 6;

/// The first message of a client. Its ledger comes with it, and its host buffer if it has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The job's, as [`portable`] gives it.
    pub config: Config,
    /// Whose memory it is.
    pub process: Process,
    /// Which directories the configuration means.
    pub directories: Identities,
}

/// What a client tells its backend after its hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// It ends in order; one that is killed says nothing.
    Goodbye,
    /// It wants an answer: it is about to rely on the backend.
    Ping,
}

/// What a backend tells a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// Nothing of an earlier client of that rank is left to be written.
    PredecessorsDone,
    /// The backend is there, also while it writes what an earlier client of that rank has left.
    Alive,
}

/// The configuration as another process needs it: no path depends on the working directory, and
/// what concerns the application alone is left out.
///
/// # Errors
/// The system does not tell the working directory.
pub fn portable(config: &Config) -> Result<Config> {
    let absolute = |path: &Path| {
        std::path::absolute(path)
            .map_err(|error| Error::system(format!("the path {}", path.display()), &error))
    };
    let mut config = config.clone();
    let Config { scratch, persistent, meta, log_prefix, .. } = &mut config;
    for path in [scratch, persistent, meta, log_prefix] {
        *path = path.as_deref().map(absolute).transpose()?;
    }
    config.trace = None;
    config.ec_interval = None;
    config.failure_domain = None;
    Ok(config)
}

/// The path at which the backend of this user and (portable) configuration is found.
///
/// # Errors
/// There is no directory that this user alone can enter.
pub fn path(config: &Config) -> Result<PathBuf> {
    Ok(private::directory()?.join(name(config)?))
}

/// Its name there.
fn name(config: &Config) -> Result<String> {
    // Where paths mean something else, as in another container or another job of a batch system that
    // gives each its own /tmp, files must not be written by a backend of here.
    let space = std::fs::read_link("/proc/self/ns/mnt").unwrap_or_default();
    name_in(&space, config)
}

/// The same in the mount namespace that the system calls `space`.
fn name_in(space: &Path, config: &Config) -> Result<String> {
    // A directory for temporary files may be that of several nodes.
    let host = rustix::system::uname();
    let digest = Checksum::of(&encode(&(space, host.nodename().to_bytes(), config))?);
    let digits: String = digest.as_bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("backend-{PROTOCOL}-{digits}"))
}

/// A message as bytes.
///
/// # Errors
/// There is no memory for them.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(message).map_err(|error| Error::new(Kind::Internal, error.to_string()))
}

/// A message out of its bytes.
///
/// # Errors
/// [`Kind::Corrupt`]: they are none.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    postcard::from_bytes(bytes)
        .map_err(|error| Error::new(Kind::Corrupt, format!("a message of the backend: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a message without a byte: it cannot be told from the end of the connection.
    #[test]
    fn every_message_has_bytes() {
        for request in [Request::Goodbye, Request::Ping] {
            assert!(!encode(&request).unwrap().is_empty());
        }
        for reply in [Reply::PredecessorsDone, Reply::Alive] {
            assert!(!encode(&reply).unwrap().is_empty());
        }
    }

    /// Catches a directory that the backend, which runs elsewhere, would look for elsewhere.
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
            name(&portable(&config).unwrap()).unwrap()
        };
        let (here, _) = Config::from_text("mode = async\nscratch = /s\n", |_| None).unwrap();
        let of = |space: &str| name_in(Path::new(space), &here).unwrap();
        assert_ne!(of("mnt:[1]"), of("mnt:[2]"), "the same path is another directory there");
        assert_eq!(config(""), config("trace = /t.json\n"));
        assert_ne!(config(""), config("persistent = /p\n"));
        assert!(config("").len() < 80, "the paths of sockets are short");
    }
}
