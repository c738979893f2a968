//! A job: a directory of its own, with a configuration, scratch and persistent.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::backends::MARK;
use crate::program::{program, Flavour};
use crate::run::Run;

/// A job's directory. It is removed with its content when this is dropped.
#[derive(Debug)]
pub struct Job {
    directory: TempDir,
}

impl Job {
    /// A job with this configuration, in which `DIR` stands for the job's directory.
    pub fn new(configuration: &str) -> Job {
        let job = Job { directory: tempfile::tempdir().unwrap() };
        job.configure(configuration);
        job
    }

    /// Replaces the configuration.
    pub fn configure(&self, configuration: &str) {
        let text = configuration.replace("DIR", &self.path("").display().to_string());
        fs::write(self.path("veloc.cfg"), text).unwrap();
    }

    /// A path in the directory.
    pub fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    /// The path `DIR/scratch`.
    pub fn scratch(&self) -> PathBuf {
        self.path("scratch")
    }

    /// The path `DIR/persistent`.
    pub fn persistent(&self) -> PathBuf {
        self.path("persistent")
    }

    /// A run of a program in this job, without a device. `arguments` follow the configuration;
    /// `DIR` in them is the job's directory.
    pub fn run(&self, name: &str, arguments: &str) -> Run {
        self.run_flavour(name, Flavour::Plain, arguments)
    }

    /// A run of a program of this flavour in this job, without a device.
    pub fn run_flavour(&self, name: &str, flavour: Flavour, arguments: &str) -> Run {
        let arguments = arguments.replace("DIR", &self.path("").display().to_string());
        Run::new(&program(name, flavour))
            .env(MARK, self.path(""))
            .arg(self.path("veloc.cfg"))
            .args(&arguments)
    }

    /// A run of a program in this job with the software device.
    pub fn run_device(&self, name: &str, arguments: &str) -> Run {
        self.run(name, arguments).with_device()
    }
}

/// The files of a directory with their contents, hidden ones included, but for the one that says who is at work
/// there. None without a directory.
pub fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let Ok(entries) = fs::read_dir(directory) else { return BTreeMap::new() };
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap_or_default())
        })
        .filter(|(name, _)| !name.starts_with(".veloc-live-"))
        .collect()
}

/// The names of the files of a directory.
pub fn names(directory: &Path) -> Vec<String> {
    files(directory).into_keys().collect()
}
