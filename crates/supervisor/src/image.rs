//! The versions of a job in its directory: each a directory of its own, which appears by rename.

use std::fs::{self, File};
use std::hash::Hasher as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use errors::{Error, ErrorKind, Result};
use os::files::{self, Durability};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use super::driver::Gpu;
use super::given::External;
use super::written::Written;

/// What a version is: the last of its files to be written.
const ABOUT: &str = "version.json";
/// The directory of a version's images.
const IMAGES: &str = "images";
/// The suffix of what is not whole yet.
const PARTIAL: &str = ".partial";
/// Raised with each change that readers of before do not understand.
const FORMAT: u32 = 1;
/// Images are copied in pieces of this size in bytes.
const PIECE: usize = 256 << 10;

/// A file of a version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageFile {
    name: String,
    bytes: u64,
    /// XXH3 of its bytes.
    digest: u64,
}

/// What is known of a version beside its images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    format: u32,
    /// Its number: 1 and higher.
    pub version: u32,
    /// When the program stood still for it, in seconds since 1970.
    pub made: u64,
    /// How long the program stood still, in milliseconds.
    pub stopped_ms: f64,
    /// The program with its arguments.
    pub command: Vec<String>,
    /// The CRIU that made it.
    pub criu: String,
    /// Its cards, if it uses any.
    pub(crate) gpu: Option<Gpu>,
    /// The number of its first process.
    pub(crate) root: u32,
    /// What it had from outside.
    pub(crate) externals: Vec<External>,
    /// The program's files that it had open for writing.
    pub(crate) written: Vec<Written>,
    pub(crate) files: Vec<ImageFile>,
}

impl About {
    /// Of a version whose files are not written yet.
    pub(crate) fn new(
        version: u32,
        command: &[String],
        criu: &str,
        root: u32,
        externals: &[External],
    ) -> About {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        About {
            format: FORMAT,
            version,
            made: now.as_secs(),
            stopped_ms: 0.0,
            command: command.to_vec(),
            criu: criu.to_owned(),
            gpu: None,
            root,
            externals: externals.to_vec(),
            written: Vec::new(),
            files: Vec::new(),
        }
    }

    /// The bytes of its files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }
}

/// The directory of a version's images.
pub(crate) fn images(directory: &Path, version: u32) -> PathBuf {
    directory.join(version.to_string()).join(IMAGES)
}

/// Writes the images that are in `from` as a version, whole or not at all.
///
/// # Errors
/// The system's, with the path. Nothing is left of the version.
pub(crate) fn write(directory: &Path, from: &Path, mut about: About) -> Result<About> {
    let complete = directory.join(about.version.to_string());
    let partial = directory.join(format!("{}{PARTIAL}", about.version));
    let written = (|| {
        remove(&partial)?;
        let images = partial.join(IMAGES);
        fs::create_dir_all(&images)
            .map_err(|error| Error::system(format!("creating {}", images.display()), &error))?;
        let mut names = files::list(from, |name| Some(name.to_owned()))?;
        names.sort();
        for name in names {
            about.files.push(copy(&from.join(&name), &images.join(&name), name)?);
        }
        let path = partial.join(ABOUT);
        let text = serde_json::to_vec_pretty(&about)
            .map_err(|error| Error::new(ErrorKind::Internal, error.to_string()))?;
        let file = files::create(&path)?;
        files::write_all_at(&file, &text, 0, &path)?;
        files::finish_write(&file, &path, Durability::Synced)?;
        files::sync_directory(&images)?;
        files::sync_directory(&partial)?;
        files::atomic_replace(&partial, &complete, Durability::Synced)
    })();
    if written.is_err() {
        // The next one is written there, and says so if it cannot be.
        let _ = remove(&partial);
    }
    written.map(|()| about)
}

fn copy(from: &Path, to: &Path, name: String) -> Result<ImageFile> {
    let reading =
        |error: std::io::Error| Error::system(format!("reading {}", from.display()), &error);
    let mut source = File::open(from).map_err(reading)?;
    let target = files::create(to)?;
    let (mut hash, mut bytes) = (XxHash3_64::new(), 0);
    let mut piece = vec![0; PIECE];
    loop {
        let len = source.read(&mut piece).map_err(reading)?;
        if len == 0 {
            break;
        }
        hash.write(&piece[..len]);
        files::write_all_at(&target, &piece[..len], bytes, to)?;
        bytes += len as u64;
    }
    files::finish_write(&target, to, Durability::Synced)?;
    Ok(ImageFile { name, bytes, digest: hash.finish() })
}

/// The versions of a directory, the newest first, with what is wrong with each that cannot be read.
///
/// # Errors
/// The directory cannot be read.
pub fn versions(directory: &Path) -> Result<Vec<(u32, Result<About>)>> {
    let mut numbers = files::list(directory, |name| name.parse::<u32>().ok())?;
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    Ok(numbers.into_iter().map(|number| (number, about(directory, number))).collect())
}

/// What is known of a version.
pub(crate) fn about(directory: &Path, version: u32) -> Result<About> {
    let path = directory.join(version.to_string()).join(ABOUT);
    let text = fs::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(
            ErrorKind::NotFound,
            format!("{} has no version {version}", directory.display()),
        ),
        _ => Error::system(format!("reading {}", path.display()), &error),
    })?;
    let corrupt =
        |what: String| Error::new(ErrorKind::Corrupt, format!("{} {what}", path.display()));
    let about: About = serde_json::from_slice(&text)
        .map_err(|error| corrupt(format!("cannot be read: {error}")))?;
    match about {
        About { format, .. } if format != FORMAT => {
            Err(corrupt(format!("has the format {format}, and this program knows {FORMAT}")))
        }
        About { version: found, .. } if found != version => {
            Err(corrupt(format!("is of version {found}")))
        }
        about => Ok(about),
    }
}

/// Checks that a version has the bytes that were written.
///
/// # Errors
/// The first file that has not, by name.
pub(crate) fn verify(directory: &Path, about: &About) -> Result<()> {
    let images = images(directory, about.version);
    for file in &about.files {
        let path = images.join(&file.name);
        let opened = files::open(&path)?;
        let len = files::len(&opened, &path)?;
        if len != file.bytes {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("{} has {len} bytes, and had {}", path.display(), file.bytes),
            ));
        }
        let mut hash = XxHash3_64::new();
        files::read_through(&opened, 0..len, &path, |piece| hash.write(piece))?;
        if hash.finish() != file.digest {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("{} is not what was written", path.display()),
            ));
        }
    }
    Ok(())
}

/// Removes what is not whole, and all but the newest `keep` versions.
///
/// # Errors
/// The system's, with the path.
pub(crate) fn prune(directory: &Path, keep: usize) -> Result<()> {
    for partial in files::list(directory, |name| name.ends_with(PARTIAL).then(|| name.to_owned()))?
    {
        remove(&directory.join(partial))?;
    }
    let mut numbers = files::list(directory, |name| name.parse::<u32>().ok())?;
    numbers.sort_unstable_by(|one, other| other.cmp(one));
    for old in numbers.into_iter().skip(keep) {
        // Without its name first: what is half removed is no version.
        let gone = directory.join(format!("{old}{PARTIAL}"));
        files::atomic_replace(&directory.join(old.to_string()), &gone, Durability::Unsynced)?;
        remove(&gone)?;
    }
    Ok(())
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::system(format!("removing {}", path.display()), &error))
        }
        _ => Ok(()),
    }
}
