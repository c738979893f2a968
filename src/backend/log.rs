//! Where a process without a terminal says what it has to say.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::config::Config;

/// A file that is made when there is something to be written to it.
struct Lazy {
    path: PathBuf,
    file: Option<File>,
}

impl Write for Lazy {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(OpenOptions::new().create(true).append(true).open(&self.path)?),
        };
        file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

/// Sends what is logged to a file in the directory `log_prefix`, or in that for temporary files.
pub(super) fn start(config: Option<&Config>) {
    let given = config.and_then(|config| config.log_prefix.clone());
    let path = file(&given.unwrap_or_else(std::env::temp_dir));
    let settings = env_logger::Env::default().filter_or("VELOC_LOG", "warn");
    let target = env_logger::Target::Pipe(Box::new(Lazy { path, file: None }));
    // That there is a logger already is no error.
    let _ = env_logger::Builder::from_env(settings).target(target).try_init();
}

/// The backend's file in a directory, named as upstream's.
fn file(directory: &Path) -> PathBuf {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy().into_owned();
    let user = rustix::process::geteuid().as_raw();
    directory.join(format!("veloc-backend-{host}-{user}.log"))
}
