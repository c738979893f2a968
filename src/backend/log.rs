//! Where a process without a terminal says what it has to say.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::OnceLock;

use ::log::LevelFilter;

use crate::config::Config;
use crate::error::Error;
use crate::logging;
use crate::platform::files;

/// The directory of the file. All clients of a backend have one configuration, so the first one
/// settles it.
static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// A file that is made when there is something to be written to it.
#[derive(Default)]
struct Lazy(Option<File>);

impl Write for Lazy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.0 {
            Some(file) => file,
            none => none.insert(OpenOptions::new().create(true).append(true).open(path())?),
        };
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// Sends what is logged to a file.
pub(super) fn start() {
    logging::start(LevelFilter::Warn, |builder| {
        builder.target(env_logger::Target::Pipe(Box::<Lazy>::default()));
    });
}

/// Has the directory of the file be there, as those of checkpoints are. The job goes on without it.
pub(super) fn prepare(config: &Config) {
    let Some(directory) = &config.log_prefix else { return };
    let made = fs::create_dir_all(directory)
        .map_err(|error| Error::system(format!("making {}", directory.display()), &error))
        .and_then(|()| files::check_writable(directory));
    if let Err(error) = made {
        ::log::warn!("log_prefix: {error}; what veloc-backend has to say is lost");
    }
}

/// The file is to be where this configuration says, unless that is known already.
pub(super) fn place(config: &Config) {
    if let Some(directory) = &config.log_prefix {
        let _ = DIRECTORY.set(directory.clone());
    }
}

/// The backend's file, named as upstream's; without `log_prefix` among the temporary files.
fn path() -> PathBuf {
    let directory = DIRECTORY.get().cloned().unwrap_or_else(std::env::temp_dir);
    let system = rustix::system::uname();
    let host = system.nodename().to_string_lossy();
    let user = rustix::process::geteuid().as_raw();
    directory.join(format!("veloc-backend-{host}-{user}.log"))
}
