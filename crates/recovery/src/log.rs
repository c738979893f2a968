//! The log file of a process without a terminal.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use ::log::LevelFilter;

use config::Config;
use errors::{Error, Result};
use os::logging;
use os::{files, private};

/// The largest size in bytes; the file starts over beyond it.
const LONGEST: u64 = 4 << 20;

/// The directory of the log file. All clients of a backend have one configuration, so the first one sets
/// it.
static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// A file that is created at the first write.
#[derive(Default)]
struct LazyFile(Option<File>);

impl Write for LazyFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.0 {
            Some(file) => file,
            none => {
                let directory =
                    DIRECTORY.get().cloned().map_or_else(|| private::directory(None), Ok);
                let path = path_in(&directory.map_err(io::Error::other)?);
                none.insert(open(&path, true)?)
            }
        };
        write(file, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Write::flush)
    }
}

fn write(file: &mut File, bytes: &[u8]) -> io::Result<usize> {
    if file.metadata()?.len() + bytes.len() as u64 > LONGEST {
        file.set_len(0)?;
        file.write_all(b"The log was too long: its earlier part was removed.\n")?;
    }
    file.write(bytes)
}

/// Opens a log file for appending. It must belong to this user alone, as others may write to its
/// directory. Never blocks.
fn open(path: &Path, make: bool) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(make).mode(0o600);
    let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    let user = rustix::process::geteuid().as_raw();
    if !found.is_file() || found.uid() != user || found.nlink() > 1 {
        return Err(io::Error::other("it is no regular file of this user's with one name"));
    }
    Ok(file)
}

/// Sends log messages to the file.
pub fn start() {
    logging::start(LevelFilter::Warn, |builder| {
        logging::with_time_and_topic(builder);
        builder.target(env_logger::Target::Pipe(Box::<LazyFile>::default()));
    });
}

/// Creates the directory, and warns if the log file cannot be written. The job continues without it.
pub fn prepare(config: &Config) {
    let prepared = match &config.log_prefix {
        Some(directory) => fs::create_dir_all(directory)
            .map_err(|error| Error::system(format!("making {}", directory.display()), &error))
            .and_then(|()| files::check_writable(directory))
            .map(|()| directory.clone()),
        None => private::directory(config.run_directory.as_deref()),
    };
    if let Err(error) = prepared.and_then(|directory| check(&path_in(&directory))) {
        let key = config.log_prefix.as_ref().map_or("", |_| "log_prefix: ");
        ::log::warn!("{key}{error}; messages of veloc-backend are lost");
    }
}

fn check(path: &Path) -> Result<()> {
    match open(path, false) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::system(format!("opening {}", path.display()), &error))
        }
        _ => Ok(()),
    }
}

/// Sets the directory of the log file from this configuration, unless it is set.
pub fn set_directory(config: &Config) {
    // One that cannot be had is told of where it is needed.
    let own = || private::directory(Some(config.run_directory.as_ref()?)).ok();
    if let Some(directory) = config.log_prefix.clone().or_else(own) {
        let _ = DIRECTORY.set(directory);
    }
}

/// The log file, named as upstream's.
fn path_in(directory: &Path) -> PathBuf {
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let user = rustix::process::geteuid().as_raw();
    directory.join(format!("veloc-backend-{host}-{user}.log"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{chown, symlink};

    /// Catches a log that follows another user's link, and an open that waits for a pipe's reader.
    #[test]
    fn it_is_a_file_of_this_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        open(&at("own"), true).unwrap().write_all(b"x").unwrap();
        fs::write(at("target"), "").unwrap();
        symlink(at("target"), at("link")).unwrap();
        fs::write(at("two"), "").unwrap();
        fs::hard_link(at("two"), at("names")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            at("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o666),
            0,
        )
        .unwrap();
        fs::write(at("strange"), "").unwrap();
        let mut wrong = vec!["link", "names", "pipe"];
        match chown(at("strange"), Some(65534), None) {
            Ok(()) => wrong.push("strange"),
            Err(_) => {
                println!("skipped: it_is_a_file_of_this_user_alone needs root for another user's")
            }
        }
        // The pipe has a reader, so that opening it does not fail by itself.
        let _reader = File::options().read(true).write(true).open(at("pipe")).unwrap();
        for name in wrong {
            assert!(open(&at(name), true).is_err(), "{name}");
            let error = check(&at(name)).unwrap_err().to_string();
            assert!(error.contains(&format!("/{name}")), "{error}");
        }
        check(&at("own")).unwrap();
        check(&at("none")).unwrap();
        assert!(!at("none").exists());
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut file = open(&path, true).unwrap();
        let line = [vec![b'x'; 999], vec![b'\n']].concat();
        let enough = LONGEST as usize / line.len();
        for _ in 0..enough + 1 {
            assert_eq!(write(&mut file, &line).unwrap(), line.len());
        }
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("The log was too long") && text.lines().count() == 2, "{text}");
    }
}
