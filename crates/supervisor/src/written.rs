//! Files that the program has open for writing: at a restart they get the length that they had in the image.
//!
//! What the program wrote behind it, it writes again. What it has changed within a file stays changed: an image has no
//! contents of files that have a name.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use errors::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// The file of an image that lists the open files.
const FILES: &str = "files.img";
/// What it begins with, in 32-bit words.
const MAGIC: [u32; 2] = [0x5456_4319, 0x5630_3138];

/// Fields of the messages in that file, from CRIU's `fdinfo.proto` and `regfile.proto`.
const REGULAR: u64 = 3;
const FLAGS: u64 = 2;
const NAME: u64 = 6;
const SIZE: u64 = 8;

/// An open file of an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct OpenFile {
    path: PathBuf,
    flags: u64,
    /// Its length, if it is a regular file.
    size: Option<u64>,
}

/// A file that the program had open for writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Written {
    path: PathBuf,
    /// Its length at that time.
    bytes: u64,
    /// Which file it was: another one that has its name now is not cut.
    inode: [u64; 2],
}

/// The files with a name that the processes of these images have open for writing.
///
/// # Errors
/// The images cannot be read.
pub(crate) fn listed_in(images: &Path) -> Result<Vec<Written>> {
    let path = images.join(FILES);
    let bytes = fs::read(&path)
        .map_err(|error| Error::system(format!("reading {}", path.display()), &error))?;
    let files = listed(&bytes).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, format!("{} is no list of open files", path.display()))
    })?;
    let mut written: Vec<Written> = Vec::new();
    for OpenFile { path, flags, size } in files {
        // What is only appended to has no length there.
        let Some(bytes) = size.filter(|_| flags & libc::O_ACCMODE as u64 != libc::O_RDONLY as u64)
        else {
            continue;
        };
        // Without its name, its contents are in the image.
        let Some(inode) =
            inode_of(&path).filter(|_| written.iter().all(|known| known.path != path))
        else {
            continue;
        };
        written.push(Written { path, bytes, inode });
    }
    Ok(written)
}

fn inode_of(path: &Path) -> Option<[u64; 2]> {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    Some([found.dev(), found.ino()])
}

/// Gives files the length that they had. All are looked at before one is changed; CRIU says which are missing.
///
/// # Errors
/// One is shorter than it was, or longer and another file than it was; or cannot be changed.
pub(crate) fn roll_back(files: &[Written]) -> Result<()> {
    let mut longer = Vec::new();
    for Written { path, bytes, inode } in files {
        let Ok(found) = fs::metadata(path) else { continue };
        let (len, shown) = (found.len(), path.display());
        if len < *bytes {
            let what = format!("{shown} has {len} bytes, and had {bytes} in the version");
            return Err(Error::new(ErrorKind::Corrupt, what));
        }
        if len > *bytes && inode_of(path) != Some(*inode) {
            return Err(Error::invalid(format!(
                "{shown} is another file than the program had open: cut it to the {bytes} bytes that it had, or \
                 put the old one in its place"
            )));
        }
        longer.extend((len > *bytes).then_some((path, *bytes)));
    }
    for (path, bytes) in longer {
        let what = || format!("cutting {} to the {bytes} bytes that it had", path.display());
        let opened = OpenOptions::new().write(true).open(path);
        opened
            .and_then(|file| file.set_len(bytes))
            .map_err(|error| Error::system(what(), &error))?;
        log::info!("{} has the {bytes} bytes again that it had in the version", path.display());
    }
    Ok(())
}

/// The open files that an image lists.
fn listed(bytes: &[u8]) -> Option<Vec<OpenFile>> {
    let mut rest = bytes;
    for magic in MAGIC {
        if word(&mut rest)? != magic {
            return None;
        }
    }
    let mut files = Vec::new();
    while !rest.is_empty() {
        let len = word(&mut rest)? as usize;
        let entry = rest.split_off(..len)?;
        for field in fields(entry)? {
            if let (REGULAR, Field::Bytes(bytes)) = field {
                files.push(regular(bytes)?);
            }
        }
    }
    Some(files)
}

fn regular(bytes: &[u8]) -> Option<OpenFile> {
    let mut file = OpenFile::default();
    for field in fields(bytes)? {
        match field {
            (FLAGS, Field::Number(flags)) => file.flags = flags,
            (SIZE, Field::Number(size)) => file.size = Some(size),
            (NAME, Field::Bytes(name)) => file.path = PathBuf::from(OsStr::from_bytes(name)),
            _ => {}
        }
    }
    Some(file)
}

/// The value of a field in the encoding of protocol buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn fields(bytes: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    let mut rest = bytes;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let tag = varint(&mut rest)?;
        let value = match tag & 7 {
            0 => Field::Number(varint(&mut rest)?),
            1 => Field::Bytes(rest.split_off(..8)?),
            2 => {
                let len = usize::try_from(varint(&mut rest)?).ok()?;
                Field::Bytes(rest.split_off(..len)?)
            }
            5 => Field::Bytes(rest.split_off(..4)?),
            _ => return None,
        };
        fields.push((tag >> 3, value));
    }
    Some(fields)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *rest.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

fn word(rest: &mut &[u8]) -> Option<u32> {
    Some(u32::from_le_bytes(rest.split_off(..4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list as CRIU writes it, of one file.
    fn list(path: &str, flags: u8, size: u8) -> Vec<u8> {
        let mut regular = vec![0x08, 1, 0x10, flags, 0x32, path.len() as u8];
        regular.extend(path.as_bytes());
        regular.extend([0x40, size]);
        let mut entry = vec![0x08, 1, 0x10, 1, 0x1a, regular.len() as u8];
        entry.extend(regular);
        let mut bytes: Vec<u8> = MAGIC.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend((entry.len() as u32).to_le_bytes());
        bytes.extend(entry);
        bytes
    }

    /// Catches a list that is read wrongly, or beyond its end.
    #[test]
    fn lists_of_open_files_are_read() {
        let bytes = list("/a/b", 1, 7);
        let wanted = OpenFile { path: "/a/b".into(), flags: 1, size: Some(7) };
        assert_eq!(listed(&bytes), Some(vec![wanted]));
        for len in (0..bytes.len()).filter(|len| *len != 8) {
            assert_eq!(listed(&bytes[..len]), None, "{len} bytes");
        }
    }

    /// Catches files of the user's that are cut because they have the name of one of the program's.
    #[test]
    fn only_the_files_of_the_program_are_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, "1234567").unwrap();
        fs::write(folder.path().join(FILES), list(path.to_str().unwrap(), 1, 7)).unwrap();
        let written = listed_in(folder.path()).unwrap();
        OpenOptions::new().append(true).open(&path).unwrap().set_len(9).unwrap();
        roll_back(&written).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"1234567");
        fs::rename(&path, folder.path().join("old")).unwrap();
        fs::write(&path, "of the user").unwrap();
        let said = roll_back(&written).unwrap_err().to_string();
        assert!(said.contains("is another file"), "{said}");
        assert_eq!(fs::read(&path).unwrap(), b"of the user");
        fs::write(&path, "123").unwrap();
        let said = roll_back(&written).unwrap_err().to_string();
        assert!(said.contains("has 3 bytes, and had 7"), "{said}");
    }
}
