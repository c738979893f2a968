//! The program CRIU, which writes a running program to files and makes it from them again.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use errors::{Error, ErrorKind, Result};
use os::{environment, programs};

use super::given::External;
use super::space::Space;

/// The variable that names the program.
pub const VARIABLE: &str = "VELOC_CRIU";

/// Earlier ones fail on kernels of today.
const OLDEST: (u32, u32) = (4, 1);

/// The directories of programs for administrators, which `PATH` may lack.
const DIRECTORIES: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];

/// The log of its last call.
const LOG: &str = "criu.log";

/// Contents of files without a name are part of an image up to this size in bytes.
const LARGEST_UNNAMED: &str = "1073741824";

/// A CRIU that can be used.
#[derive(Debug)]
pub struct Criu {
    program: PathBuf,
    version: String,
}

impl Criu {
    /// The one that [`VARIABLE`] names, or else the one in `PATH`.
    ///
    /// # Errors
    /// There is none, or it is too old.
    pub fn find() -> Result<Criu> {
        let program = match environment::var_os(VARIABLE) {
            Some(given) => PathBuf::from(given),
            None => programs::in_path("criu")
                .or_else(|| DIRECTORIES.map(|folder| Path::new(folder).join("criu")).into_iter().find(|path| path.is_file()))
                .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("there is no criu in PATH, and {VARIABLE} names none: install CRIU {}.{} or newer", OLDEST.0, OLDEST.1)))?,
        };
        let what = || format!("asking {} for its version", program.display());
        let output = Command::new(&program).arg("--version").stdin(Stdio::null()).output();
        let output = output.map_err(|error| Error::system(what(), &error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let version =
            text.lines().find_map(|line| line.strip_prefix("Version: ")).unwrap_or_default();
        let mut numbers = version.split('.').map(|number| number.parse::<u32>().ok());
        let found = numbers.next().flatten().zip(numbers.next().flatten());
        match found {
            Some(found) if found >= OLDEST => Ok(Criu { version: version.to_owned(), program }),
            Some(_) => Err(Error::invalid(format!(
                "{} is CRIU {version}, older than {}.{}",
                program.display(),
                OLDEST.0,
                OLDEST.1
            ))),
            None => Err(Error::invalid(format!("{} does not tell its version", program.display()))),
        }
    }

    /// Its version.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its file.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Writes the processes from `root` on to `images`, a directory of the space. They stand still meanwhile, and run
    /// afterwards also where that fails; not if CRIU is killed in the middle.
    pub(crate) fn dump(
        &self,
        space: &Space,
        root: u32,
        images: &Path,
        externals: &[External],
    ) -> Result<()> {
        let mut options: Vec<OsString> = Vec::new();
        options.extend(["--tree".into(), root.to_string().into(), "--leave-running".into()]);
        options.extend(["--ghost-limit".into(), LARGEST_UNNAMED.into()]);
        for external in externals {
            options.extend(["--external".into(), external.key.clone().into()]);
        }
        self.call(space, "dump", images, images, &options)
    }

    /// Makes the processes of `images` anew, as children of this process. Writes its log to `logs`.
    pub(crate) fn restore(
        &self,
        space: &Space,
        images: &Path,
        logs: &Path,
        given: &[(OwnedFd, String)],
    ) -> Result<()> {
        let mut options: Vec<OsString> =
            vec!["--restore-detached".into(), "--restore-sibling".into()];
        for (_, words) in given {
            options.extend(["--inherit-fd".into(), words.into()]);
        }
        let call = || self.call(space, "restore", images, logs, &options);
        match call() {
            // A restore that was killed had given a file without a name one for a moment. CRIU has removed it now.
            Err(error) if error.to_string().contains("ghost") => {
                space.reap()?;
                call()
            }
            done => done,
        }
    }

    fn call(
        &self,
        space: &Space,
        what: &str,
        images: &Path,
        logs: &Path,
        options: &[OsString],
    ) -> Result<()> {
        let log = logs.join(LOG);
        let mut command = space.command(self.program.as_os_str())?;
        command.arg(what).args(options).args([OsStr::new("--images-dir"), images.as_os_str()]);
        command.args([OsStr::new("--log-file"), log.as_os_str(), OsStr::new("-v2")]);
        command.args(["--file-locks", "--manage-cgroups=ignore"]);
        // No plugins: the driver is called from here.
        command.args([OsStr::new("--libdir"), logs.as_os_str()]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = space.spawn(&mut command)?;
        let ended = child.wait().map_err(|error| Error::system("waiting for criu", &error))?;
        if ended.success() {
            return Ok(());
        }
        let text = fs::read(space.path(&log)).unwrap_or_default();
        let said = reason(&String::from_utf8_lossy(&text));
        Err(Error::new(
            ErrorKind::System,
            match said {
                Some(said) => format!("criu {what}: {said}"),
                None => format!("criu {what} ended with {ended}"),
            },
        ))
    }
}

/// What a log of CRIU says first of all that went wrong.
fn reason(log: &str) -> Option<String> {
    let errors = log.lines().filter_map(|line| line.split_once("Error (").map(|(_, rest)| rest));
    let texts = errors.filter_map(|rest| rest.split_once("): ").map(|(_, text)| text.trim()));
    // It tries to raise a limit, and goes on without.
    texts.filter(|text| !text.starts_with("rlimit: ")).map(str::to_owned).next()
}
