//! The libraries that a process has loaded.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The file of a process, given by its number, whose name begins with this.
pub(crate) fn mapped(process: u32, name: &str) -> Option<PathBuf> {
    let maps = fs::read(format!("/proc/{process}/maps")).ok()?;
    let paths = maps.split(|byte| *byte == b'\n').filter_map(|line| {
        let start = line.iter().position(|byte| *byte == b'/')?;
        Some(Path::new(OsStr::from_bytes(&line[start..])))
    });
    let is_it = |path: &&Path| {
        path.file_name().is_some_and(|file| file.as_bytes().starts_with(name.as_bytes()))
    };
    paths.into_iter().find(is_it).map(Path::to_owned)
}
