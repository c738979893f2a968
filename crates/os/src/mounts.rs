//! Which file system a directory lies in.

use std::fs;
use std::path::{Path, PathBuf};

use errors::{Error, Result};

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The directory at which it is mounted.
    pub at: PathBuf,
    /// Its type, as the kernel names it: `ext4`, `tmpfs`, `lustre`.
    pub kind: String,
    /// Its source, such as a device or a server's directory.
    pub source: String,
}

/// The file system of `path`, which need not exist yet.
///
/// # Errors
/// `/proc/self/mountinfo` cannot be read or does not name it.
pub fn mount_of(path: &Path) -> Result<Mount> {
    let table = "/proc/self/mountinfo";
    let text = fs::read(table).map_err(|error| Error::system(table, &error))?;
    let path = existing(path)?;
    find(&String::from_utf8_lossy(&text), &path)
        .ok_or_else(|| Error::invalid(format!("{table} has no mount for {}", path.display())))
}

/// `path`, or `/var/tmp` if that lies in memory: where tests put what has to be on a drive.
pub fn on_a_drive(path: &Path) -> &Path {
    let in_memory = mount_of(path).is_ok_and(|mount| ["tmpfs", "ramfs"].contains(&&*mount.kind));
    if in_memory {
        Path::new("/var/tmp")
    } else {
        path
    }
}

/// The nearest existing ancestor of `path`, or itself, with links resolved.
///
/// # Errors
/// There is none, or it cannot be accessed.
pub fn existing(path: &Path) -> Result<PathBuf> {
    let failed = |error: &std::io::Error| Error::system(path.display(), error);
    let absolute = std::path::absolute(path).map_err(|error| failed(&error))?;
    let found = absolute.ancestors().find(|above| above.exists()).unwrap_or(Path::new("/"));
    fs::canonicalize(found).map_err(|error| failed(&error))
}

/// The mount of a resolved path: the innermost one; among several at one directory the last, which hides
/// the others.
fn find(mountinfo: &str, path: &Path) -> Option<Mount> {
    let mounts = mountinfo.lines().filter_map(parse).filter(|mount| path.starts_with(&mount.at));
    mounts.max_by_key(|mount| mount.at.components().count())
}

/// A line such as `36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw`.
fn parse(line: &str) -> Option<Mount> {
    let (front, behind) = line.split_once(" - ")?;
    let at = unescape(front.split(' ').nth(4)?);
    let mut behind = behind.split(' ');
    let (kind, source) = (unescape(behind.next()?), unescape(behind.next()?));
    Some(Mount { at: at.into(), kind, source })
}

/// Spaces and the like are written as a backslash and three octal digits.
fn unescape(text: &str) -> String {
    let mut plain = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match (byte, code) {
            (b'\\', Some(code)) => {
                plain.push(code);
                rest = &behind[3..];
            }
            _ => {
                plain.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 0:21 / / rw - overlay overlay rw
23 22 0:5 / /mnt rw,noatime shared:7 master:1 - ext4 /dev/sda1 rw
24 22 0:6 / /mnt/lustre\\040fs rw - lustre 10.0.0.1@o2ib:/fs rw
25 22 0:7 / /mnt rw - xfs /dev/sdb1 rw
nonsense
";

    #[test]
    fn the_innermost_and_last_mount_counts() {
        for (path, kind, source) in [
            ("/home", "overlay", "overlay"),
            ("/mnt", "xfs", "/dev/sdb1"),
            ("/mnt/a/b", "xfs", "/dev/sdb1"),
            ("/mnt/lustre fs/x", "lustre", "10.0.0.1@o2ib:/fs"),
            ("/mntx", "overlay", "overlay"),
        ] {
            let mount = find(TABLE, Path::new(path)).unwrap();
            assert_eq!((mount.kind.as_str(), mount.source.as_str()), (kind, source), "{path}");
        }
        assert_eq!(find("", Path::new("/")), None);
        assert_eq!(unescape("a\\040b\\134c\\"), "a b\\c\\");
    }

    #[test]
    fn directories_that_are_not_there_yet() {
        let folder = tempfile::tempdir().unwrap();
        let here = mount_of(folder.path()).unwrap();
        assert_eq!(mount_of(&folder.path().join("not/yet/there")).unwrap(), here);
        let real = fs::canonicalize(folder.path()).unwrap();
        assert_eq!(existing(&folder.path().join("not/yet")).unwrap(), real);
        assert_eq!(mount_of(Path::new("/proc/self")).unwrap().kind, "proc");
    }
}
