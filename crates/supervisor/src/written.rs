//! Files that the program has open for writing: at a restart they get the length that they had in the image.
//!
//! What the program wrote behind it, it writes again. What it has changed within a file stays changed: an image has no
//! contents of files that have a name.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use errors::{Error, ErrorKind, Result};

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

/// Gives the files that an image has open for writing their length of that time. All are looked at before one is changed.
///
/// # Errors
/// One is missing, or shorter than it was; or cannot be changed.
pub(crate) fn roll_back(images: &Path) -> Result<()> {
    let path = images.join(FILES);
    let bytes = fs::read(&path)
        .map_err(|error| Error::system(format!("reading {}", path.display()), &error))?;
    let files = listed(&bytes).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, format!("{} is no list of open files", path.display()))
    })?;
    let mut longer: Vec<(&Path, u64)> = Vec::new();
    for file in &files {
        let Some(size) = file.size else { continue };
        if file.flags & libc::O_ACCMODE as u64 == libc::O_RDONLY as u64 {
            continue;
        }
        // Without its name, its contents are in the image.
        let Ok(found) = fs::metadata(&file.path) else { continue };
        if found.is_file() && found.len() > size && !longer.contains(&(&file.path, size)) {
            longer.push((&file.path, size));
        }
    }
    for (path, size) in longer {
        let what = || format!("cutting {} to the {size} bytes that it had", path.display());
        let opened = OpenOptions::new().write(true).open(path);
        opened
            .and_then(|file| file.set_len(size))
            .map_err(|error| Error::system(what(), &error))?;
        log::info!("{} has the {size} bytes again that it had in the image", path.display());
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
