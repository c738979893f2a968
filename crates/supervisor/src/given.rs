//! The descriptors that a program is given by whoever starts it.
//!
//! CRIU looks files up in the program's name space of mounts, so a file is opened there again. A pipe or a
//! terminal is not the program's own: it stays outside of images, and a restart gives another one.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use errors::{Error, Result};
use serde::{Deserialize, Serialize};

/// The lowest number of a descriptor that CRIU passes on.
const FIRST_OF_CRIU: RawFd = 100;

/// A descriptor that stays outside of images.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct External {
    /// Its number.
    pub fd: RawFd,
    /// CRIU's word for it.
    pub key: String,
    /// Whether it is a terminal.
    pub terminal: bool,
}

/// A file to be opened again.
#[derive(Debug)]
struct Again {
    fd: RawFd,
    path: CString,
    flags: libc::c_int,
    offset: libc::off_t,
    /// A lower number with the same offset, as behind `2>&1`.
    of: Option<RawFd>,
}

/// What the program is given.
#[derive(Debug, Default)]
pub(crate) struct Given {
    again: Vec<Again>,
    /// What stays outside of images.
    pub externals: Vec<External>,
    /// Descriptors that the program does not get.
    withheld: Vec<RawFd>,
    /// Why not, for messages.
    pub refused: Vec<String>,
}

impl Given {
    /// What this process would leave to a program that it becomes.
    ///
    /// # Errors
    /// Standard input, output or error is none that an image can have.
    pub(crate) fn found() -> Result<Given> {
        let failed = |error: io::Error| Error::system("looking at the open descriptors", &error);
        let mut numbers: Vec<RawFd> = Vec::new();
        for entry in fs::read_dir("/proc/self/fd").map_err(failed)? {
            numbers.extend(
                entry
                    .map_err(failed)?
                    .file_name()
                    .to_str()
                    .and_then(|name| name.parse::<RawFd>().ok()),
            );
        }
        numbers.sort_unstable();
        let mut given = Given::default();
        for fd in numbers {
            // SAFETY: a number, which may be no open descriptor.
            let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
            if flags < 0 || flags & libc::FD_CLOEXEC != 0 {
                continue;
            }
            let Err(why) = given.look_at(fd) else { continue };
            let why = format!("descriptor {fd} {why}");
            if fd <= libc::STDERR_FILENO {
                return Err(Error::invalid(format!("{why}: give a file, a pipe or a terminal")));
            }
            given.withheld.push(fd);
            given.refused.push(why);
        }
        Ok(given)
    }

    fn look_at(&mut self, fd: RawFd) -> std::result::Result<(), String> {
        let link = PathBuf::from(format!("/proc/self/fd/{fd}"));
        let path = fs::read_link(&link).map_err(|error| error.to_string())?;
        let found = fs::metadata(&link).map_err(|error| error.to_string())?;
        let kind = found.mode() & libc::S_IFMT;
        let shown = path.display();
        match kind {
            libc::S_IFSOCK => return Err(format!("is a socket ({shown})")),
            libc::S_IFIFO if path.is_absolute() => {
                return Err(format!("is a named pipe ({shown})"))
            }
            libc::S_IFIFO => {
                self.externals.push(External { fd, key: shown.to_string(), terminal: false });
                return Ok(());
            }
            libc::S_IFREG | libc::S_IFDIR | libc::S_IFCHR | libc::S_IFBLK => {}
            _ => return Err(format!("is none that an image can have ({shown})")),
        }
        let same = fs::metadata(&path)
            .is_ok_and(|named| (named.dev(), named.ino()) == (found.dev(), found.ino()));
        if !same {
            return Err(format!("is a file without a name ({shown})"));
        }
        // SAFETY: an open descriptor.
        let is_terminal = unsafe { libc::isatty(fd) } == 1;
        if is_terminal {
            let key = format!("tty[{:x}:{:x}]", found.rdev(), found.dev());
            self.externals.push(External { fd, key, terminal: true });
        }
        // SAFETY: as above.
        let (flags, offset) =
            unsafe { (libc::fcntl(fd, libc::F_GETFL), libc::lseek(fd, 0, libc::SEEK_CUR)) };
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
        // The first process of a session would get the terminal as its own.
        let flags = flags & !libc::O_CREAT & !libc::O_TRUNC & !libc::O_EXCL | libc::O_NOCTTY;
        let of = self.again.iter().map(|file| file.fd).find(|other| is_same(*other, fd));
        self.again.push(Again { fd, path, flags, offset, of });
        Ok(())
    }

    /// Numbers of files that the program may have written to.
    pub(crate) fn written(&self) -> Vec<RawFd> {
        let written =
            self.again.iter().filter(|file| file.flags & libc::O_ACCMODE != libc::O_RDONLY);
        written.map(|file| file.fd).collect()
    }

    /// Has `command` give them to its program, in a session of its own. To be called behind what enters the name
    /// space of mounts.
    pub(crate) fn give(self, command: &mut Command) {
        let give = move || {
            // SAFETY: system calls alone, as between fork and exec.
            unsafe {
                libc::setsid();
                for fd in &self.withheld {
                    libc::close(*fd);
                }
                for file in &self.again {
                    if let Some(other) = file.of {
                        if libc::dup2(other, file.fd) < 0 {
                            return Err(io::Error::last_os_error());
                        }
                        continue;
                    }
                    let opened = libc::open(file.path.as_ptr(), file.flags);
                    if opened < 0 {
                        return Err(io::Error::last_os_error());
                    }
                    // A device may have no offset.
                    libc::lseek(opened, file.offset.max(0), libc::SEEK_SET);
                    if libc::dup2(opened, file.fd) < 0 {
                        return Err(io::Error::last_os_error());
                    }
                    if opened != file.fd {
                        libc::close(opened);
                    }
                }
            }
            Ok(())
        };
        // SAFETY: it only makes system calls.
        unsafe { command.pre_exec(give) };
    }
}

/// Whether two descriptors are of one open file.
fn is_same(one: RawFd, other: RawFd) -> bool {
    const KCMP_FILE: libc::c_int = 0;
    let own = std::process::id();
    // SAFETY: numbers alone.
    unsafe { libc::syscall(libc::SYS_kcmp, own, own, KCMP_FILE, one, other) == 0 }
}

/// Where a program has written to files that this process has open as well, what follows comes behind it.
pub(crate) fn behind(written: &[RawFd]) {
    for fd in written {
        // SAFETY: a number. A device may have no end.
        unsafe { libc::lseek(*fd, 0, libc::SEEK_END) };
    }
}

/// What a restarted program gets in place of what was outside of its image: a descriptor of this process with the same
/// number, under another one that CRIU does not use, and CRIU's words for it.
///
/// # Errors
/// One was a terminal, and is none now; or is not open.
pub(crate) fn anew(externals: &[External]) -> Result<Vec<(OwnedFd, String)>> {
    let mut anew: Vec<(OwnedFd, String)> = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    for External { fd, key, terminal } in externals {
        if known.contains(&key.as_str()) {
            continue;
        }
        known.push(key);
        // SAFETY: a number, which may be no open descriptor.
        let (is_terminal, copy) =
            unsafe { (libc::isatty(*fd) == 1, libc::fcntl(*fd, libc::F_DUPFD, FIRST_OF_CRIU)) };
        if copy < 0 {
            return Err(Error::errno(format!("giving descriptor {fd} to the program")));
        }
        // SAFETY: a descriptor that nobody else has.
        let copy = unsafe { OwnedFd::from_raw_fd(copy) };
        if *terminal && !is_terminal {
            return Err(Error::invalid(format!(
                "the program has a terminal as descriptor {fd}, and restarts with one alone: run this command in \
                 a terminal, or below script(1)"
            )));
        }
        let words = format!("fd[{}]:{key}", copy.as_raw_fd());
        anew.push((copy, words));
    }
    Ok(anew)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// Catches a program that goes on without its terminal, and one that is refused though there is one.
    #[test]
    fn a_terminal_is_given_for_a_terminal() {
        let terminal = File::options().read(true).write(true).open("/dev/ptmx").unwrap();
        let plain = tempfile::tempfile().unwrap();
        let given = |file: &File, terminal| {
            let key = "key".to_owned();
            anew(&[External { fd: file.as_raw_fd(), key, terminal }]).map(|all| all.len())
        };
        assert_eq!(given(&terminal, true).unwrap(), 1);
        assert_eq!(given(&plain, false).unwrap(), 1);
        let error = given(&plain, true).unwrap_err().to_string();
        assert!(error.contains(&format!("descriptor {}", plain.as_raw_fd())), "{error}");
    }
}
