//! Extended attributes of files: a few bytes that are stored and synced with the file.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;

use errors::{Error, ErrorKind, Result};

/// The longest value in bytes.
const MOST: usize = 512;

/// Sets an attribute of the open file `file`.
///
/// # Errors
/// The system's, as text without the file: the file system keeps no attributes, has no room for them, or refuses this
/// one.
pub fn set(file: &File, name: &CStr, value: &[u8]) -> Result<()> {
    let (bytes, len) = (value.as_ptr().cast(), value.len());
    // SAFETY: an open descriptor, a string that ends with a null byte, and `len` readable bytes.
    if unsafe { libc::fsetxattr(file.as_raw_fd(), name.as_ptr(), bytes, len, 0) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    Err(match error.raw_os_error() {
        Some(libc::EOPNOTSUPP | libc::ENOSYS) => {
            Error::new(ErrorKind::System, "this file system keeps no extended attributes")
        }
        _ => Error::system("an extended attribute cannot be set", &error),
    })
}

/// The value of an attribute of the open file `file` (`path` in messages). `None`: it is not set.
///
/// # Errors
/// The system's, with the path; also for a value of more than 512 bytes.
pub fn get(file: &File, name: &CStr, path: &Path) -> Result<Option<Vec<u8>>> {
    let mut value = [0u8; MOST];
    let into = value.as_mut_ptr().cast();
    // SAFETY: an open descriptor, a string that ends with a null byte, and room for `MOST` bytes.
    let len = unsafe { libc::fgetxattr(file.as_raw_fd(), name.as_ptr(), into, MOST) };
    if let Ok(len) = usize::try_from(len) {
        return Ok(Some(value[..len].to_vec()));
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::ENODATA | libc::EOPNOTSUPP | libc::ENOSYS) => Ok(None),
        _ => {
            let what = format!("reading the attribute {name:?} of {}", path.display());
            Err(Error::system(what, &error))
        }
    }
}

/// Copies an attribute, if there is one.
///
/// # Errors
/// The errors of [`get`] and [`set`].
pub fn copy(from: (&File, &Path), to: &File, name: &CStr) -> Result<()> {
    get(from.0, name, from.1)?.map_or(Ok(()), |value| set(to, name, &value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_comes_with_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a", "b"].map(|name| folder.path().join(name));
        let [from, to] = [0, 1].map(|i| File::create(&paths[i]).unwrap());
        assert_eq!(get(&from, c"user.test", &paths[0]), Ok(None));
        if let Err(error) = set(&from, c"user.test", b"value") {
            println!("skipped: the folder for temporary files: {error}");
            return;
        }
        assert_eq!(copy((&to, &paths[1]), &from, c"user.test"), Ok(()));
        assert_eq!(get(&from, c"user.test", &paths[0]).unwrap().unwrap(), b"value");
        assert_eq!(copy((&from, &paths[0]), &to, c"user.test"), Ok(()));
        assert_eq!(get(&to, c"user.test", &paths[1]).unwrap().unwrap(), b"value");
        assert!(set(&from, c"nonsense", b"value").is_err());
    }
}
