//! Compiled programs: made once for each content of sources and headers, and kept between runs.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use xtask::files::FileLock;

use crate::program::staged;

/// The folder called `name` with the files that `make` puts there. It is made anew when a file
/// among `inputs`, or below a folder among them, has changed, or `how`: compiler and flags. Several
/// threads and processes may ask at once: one makes the folder, and the others wait for it.
pub(crate) fn compiled(
    name: &str,
    how: &str,
    inputs: &[PathBuf],
    make: impl FnOnce(&Path),
) -> PathBuf {
    compiled_in(&staged().folder.join("capi-tests"), name, how, inputs, make)
}

fn compiled_in(
    all: &Path,
    name: &str,
    how: &str,
    inputs: &[PathBuf],
    make: impl FnOnce(&Path),
) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    how.hash(&mut hasher);
    inputs.iter().for_each(|input| add(input, &mut hasher));
    let name = name.replace('/', "-");
    let folder = all.join(format!("{name}-{:016x}", hasher.finish()));
    if folder.exists() {
        return folder;
    }
    fs::create_dir_all(all).unwrap();
    let _only = FileLock::take(&folder.with_extension("lock")).unwrap();
    if folder.exists() {
        return folder;
    }
    let unfinished = tempfile::Builder::new().prefix(&name).tempdir_in(all).unwrap();
    make(unfinished.path());
    fs::rename(unfinished.path(), &folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    folder
}

/// Adds the content of a file, or of all files below a folder.
fn add(path: &Path, hasher: &mut DefaultHasher) {
    if !path.is_dir() {
        path.hash(hasher);
        return fs::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}")).hash(hasher);
    }
    let mut entries: Vec<PathBuf> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    entries.iter().for_each(|entry| add(entry, hasher));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// Catches several that make the same at once.
    #[test]
    fn one_makes_it_for_all() {
        let (all, made) = (tempfile::tempdir().unwrap(), AtomicUsize::new(0));
        let ask = || {
            let folder = compiled_in(all.path(), "a", "", &[], |folder| {
                made.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(50));
                fs::write(folder.join("a"), "made").unwrap();
            });
            assert_eq!(fs::read_to_string(folder.join("a")).unwrap(), "made");
        };
        std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(ask))));
        assert_eq!(made.into_inner(), 1);
    }

    /// Catches a cache that keeps files made of an old header, and one that makes everything anew.
    #[test]
    fn a_changed_input_is_seen() {
        let (all, headers) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let header = headers.path().join("below/a.h");
        fs::create_dir(headers.path().join("below")).unwrap();
        let mut made = 0;
        let mut folder = |text: &str, how: &str| {
            fs::write(&header, text).unwrap();
            compiled_in(all.path(), "a", how, &[headers.path().into()], |folder| {
                made += 1;
                fs::write(folder.join("a"), format!("{text}{how}")).unwrap();
            })
        };
        let first = folder("1", "-O1");
        assert_eq!(folder("1", "-O1"), first);
        let folders = [first, folder("2", "-O1"), folder("2", "-O2")];
        assert_eq!(made, 3);
        let texts = folders.map(|folder| fs::read_to_string(folder.join("a")).unwrap());
        assert_eq!(texts, ["1-O1", "2-O1", "2-O2"]);
    }
}
