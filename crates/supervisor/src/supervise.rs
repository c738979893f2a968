//! What the supervisor of a program does, from the program's start to its end.
//!
//! One thread waits for all: the program's end, signals for it, questions, and the time of the next version. A version
//! is made in memory while the program stands still. Another thread writes its files meanwhile the program
//! runs; there is one version at a time.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use errors::{Error, ErrorKind, Result};
use os::lock::Lock;
use os::size;
use os::socket::{self, Listener, Socket};
use rustix::process::{pidfd_open, Pid, PidfdFlags};

use super::ask;
use super::criu::Criu;
use super::directory::Directory;
use super::given::{self, External, Given};
use super::image::{self, About};
use super::signals::Signals;
use super::space::{Space, FIRST};
use super::stop;
use super::written;

/// How long until a driver that could not have the program go on is asked again.
const AGAIN: Duration = Duration::from_secs(1);

/// How often versions are made, and how many are kept.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The time from one version to the next; `None`: when somebody asks.
    pub every: Option<Duration>,
    /// How many are kept, at least one.
    pub keep: usize,
}

/// Starts a program whose versions go to `directory`, and returns how it has ended.
///
/// # Errors
/// It cannot be started so; the message says what is missing. Or the directory has versions already.
pub fn run(directory: &Path, command: &[OsString], pace: Pace) -> Result<ExitStatus> {
    let criu = Criu::find()?;
    let directory = Directory::open(directory, true)?;
    if let Some((newest, _)) = image::versions(directory.path())?.first() {
        return Err(Error::invalid(format!(
            "{} has versions of an earlier run, up to {newest}: go on from it with veloc restart, remove it, or \
             give another directory (--dir)",
            directory.path().display()
        )));
    }
    let given = Given::found()?;
    for refused in &given.refused {
        log::warn!("the program does not get what an image cannot have: {refused}");
    }
    let (externals, files) = (given.externals.clone(), given.written());
    let mut job = Job::begin(directory, criu, pace)?;
    let (program, arguments) =
        command.split_first().ok_or_else(|| Error::invalid("no program is given"))?;
    let mut start = job.space.command(program)?;
    start.args(arguments);
    job.signals.leave_to(&mut start);
    given.give(&mut start);
    job.space.next_number(FIRST)?;
    let child = job.space.spawn(&mut start)?;
    drop(start);
    job.supervise(
        Program {
            outside: child.id(),
            root: FIRST,
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            externals,
            files,
        },
        0,
    )
}

/// Starts a program from a version, the newest that is whole if none is given, and returns how it has ended.
///
/// # Errors
/// There is no such version, it is damaged, or the program cannot be made from it.
pub fn restart(directory: &Path, version: Option<u32>, pace: Pace) -> Result<ExitStatus> {
    let criu = Criu::find()?;
    if image::versions(directory)?.is_empty() {
        return Err(nothing(directory));
    }
    let directory = Directory::open(directory, true)?;
    let mut job = Job::begin(directory, criu, pace)?;
    let about = job.choose(version)?;
    let given = given::anew(&about.externals)?;
    let images = image::images(job.directory.path(), about.version);
    about.gpu.as_ref().map_or(Ok(()), stop::check_gpu)?;
    written::roll_back(&about.written)?;
    // The numbers of the program's processes are those from FIRST on.
    job.space.next_number(2)?;
    job.criu.restore(&job.space, &images, &job.directory.memory(), &given)?;
    drop(given);
    if about.gpu.is_some() {
        // What has no devices can do nothing; the version stays.
        stop::go_on(&job.space).inspect_err(|_| job.space.end())?;
    }
    let highest = job.space.processes()?.into_iter().map(|(_, inside)| inside).max();
    job.space.next_number(highest.unwrap_or(FIRST) + 1)?;
    let newest = image::versions(job.directory.path())?.first().map_or(0, |(number, _)| *number);
    let program = Program {
        outside: job.space.outside(about.root)?,
        root: about.root,
        command: about.command,
        externals: about.externals,
        files: Vec::new(),
    };
    job.supervise(program, newest)
}

/// A program that runs.
#[derive(Debug)]
struct Program {
    /// The number of its first process outside, and in its own name space.
    outside: u32,
    root: u32,
    command: Vec<String>,
    externals: Vec<External>,
    /// Descriptors of this process, which has the same files.
    files: Vec<RawFd>,
}

/// A job, and what it needs.
struct Job {
    directory: Directory,
    criu: Criu,
    pace: Pace,
    listener: Listener,
    signals: Signals,
    space: Space,
    // The first process of the space has it as well.
    _running: Lock,
}

/// A version whose files are being written.
struct Writing {
    thread: JoinHandle<Result<()>>,
    /// Readable once the thread has ended.
    ended: OwnedFd,
}

impl Job {
    fn begin(directory: Directory, criu: Criu, pace: Pace) -> Result<Job> {
        let running = directory.take()?;
        let listener = directory.listen()?;
        image::prune(directory.path(), usize::MAX)?;
        let signals = Signals::open()?;
        let space = Space::new(&directory.memory(), &running)?;
        Ok(Job { directory, criu, pace, listener, signals, space, _running: running })
    }

    /// The version that a restart is made from.
    fn choose(&self, version: Option<u32>) -> Result<About> {
        let path = self.directory.path();
        if let Some(version) = version {
            let about = image::about(path, version)?;
            return image::verify(path, &about).map(|()| about);
        }
        for (number, about) in image::versions(path)? {
            match about.and_then(|about| image::verify(path, &about).map(|()| about)) {
                Ok(about) => return Ok(about),
                Err(error) => log::warn!("version {number} is not restarted from: {error}"),
            }
        }
        Err(nothing(path))
    }

    /// Until the end of the program. `newest` is the number of the newest version.
    fn supervise(mut self, program: Program, mut newest: u32) -> Result<ExitStatus> {
        let failed = |error: io::Error| Error::system("waiting for the program", &error);
        let pid = Pid::from_raw(program.outside.cast_signed())
            .ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(error.into()))?;
        let mut asked: Vec<Socket> = Vec::new();
        let mut writing: Option<Writing> = None;
        let mut last = Instant::now();
        // When the driver is asked again to have the program go on.
        let mut again: Option<Instant> = None;
        loop {
            let due = self.pace.every.map(|every| every.saturating_sub(last.elapsed()));
            let until = match again {
                _ if writing.is_some() => Duration::MAX,
                Some(again) => again.saturating_duration_since(Instant::now()),
                None => due.unwrap_or(Duration::MAX),
            };
            let mut files: Vec<BorrowedFd<'_>> =
                vec![process.as_fd(), self.listener.as_fd(), self.signals.as_fd()];
            files.extend(writing.as_ref().map(|writing| writing.ended.as_fd()));
            let ready = socket::wait_for(&files, until);
            let has_ended = ready[0];
            if ready[2] {
                self.signals.pass_on(program.outside);
            }
            if ready[1] {
                if let Ok(Some(socket)) = self.listener.accept(Duration::ZERO) {
                    if socket.check_user().is_ok() && ask::is_question(&socket) {
                        asked.push(socket);
                    }
                }
            }
            if has_ended || ready.get(3) == Some(&true) {
                if let Some(writing) = writing.take() {
                    end(writing);
                }
            }
            if has_ended {
                given::behind(&program.files);
                return wait(program.outside);
            }
            if writing.is_some() {
                continue;
            }
            if again.is_some_and(|again| again <= Instant::now()) {
                again = stop::go_on(&self.space).is_err().then(|| Instant::now() + AGAIN);
            }
            let is_due = due == Some(Duration::ZERO);
            if asked.is_empty() && (!is_due || again.is_some()) {
                continue;
            }
            last = Instant::now();
            let asked = Arc::new(std::mem::take(&mut asked));
            let made = match again {
                Some(_) => {
                    let why = "the driver has the program stand still";
                    Err(Error::new(ErrorKind::System, why))
                }
                None => self.checkpoint(&program, newest + 1, &mut again),
            };
            match made.and_then(|about| self.write(about, Arc::clone(&asked))) {
                Ok(begun) => {
                    newest += 1;
                    writing = Some(begun);
                }
                Err(error) => tell(&asked, Err(error)),
            }
        }
    }

    /// Makes the images of a version while the program stands still. Where the program does not go on, it is to be asked
    /// `again`.
    fn checkpoint(
        &self,
        program: &Program,
        version: u32,
        again: &mut Option<Instant>,
    ) -> Result<About> {
        let mut about = About::new(
            version,
            &program.command,
            self.criu.version(),
            program.root,
            &program.externals,
        );
        let memory = self.directory.memory();
        // What a version that has failed may have left.
        clear(&self.space.path(&memory))?;
        let stopped =
            stop::image(&self.space, &self.criu, program.root, &memory, &program.externals);
        if let Some(why) = stopped.stuck {
            log::error!("the program stands still, and is asked each second to go on: {why}");
            *again = Some(Instant::now() + AGAIN);
        }
        if let Some(why) = stopped.failed {
            return Err(Error::new(ErrorKind::System, why));
        }
        (about.stopped_ms, about.gpu) = (stopped.ms, stopped.gpu);
        about.written = written::listed_in(&self.space.path(&memory))?;
        Ok(about)
    }

    /// Starts to write a version's files, and to tell whoever has `asked` once they are there.
    fn write(&self, about: About, asked: Arc<Vec<Socket>>) -> Result<Writing> {
        let failed = |error: io::Error| Error::system("writing a version", &error);
        let (ended, end) = io::pipe().map_err(failed)?;
        let directory = self.directory.path().to_owned();
        let from = self.space.path(&self.directory.memory());
        let keep = self.pace.keep;
        let write = move || {
            let written = image::write(&directory, &from, about);
            let keep = if written.is_ok() { keep } else { usize::MAX };
            tell(&asked, written);
            let cleared = clear(&from).and(image::prune(&directory, keep));
            drop(end);
            cleared
        };
        let thread = thread::Builder::new().name("veloc-write".to_owned()).spawn(write);
        Ok(Writing { thread: thread.map_err(failed)?, ended: ended.into() })
    }
}

/// Waits until a version is written, and those that are too many are removed.
fn end(writing: Writing) {
    let panicked = |_| Err(Error::new(ErrorKind::Internal, "writing a version panicked"));
    if let Err(error) = writing.thread.join().unwrap_or_else(panicked) {
        log::warn!("what is left of earlier versions was not removed: {error}");
    }
}

/// Tells whoever has asked for a version, or else the log, what has become of it.
fn tell(asked: &[Socket], version: Result<About>) {
    match &version {
        Ok(about) => log::info!(
            "version {} is written: {}, stopped for {:.0} ms",
            about.version,
            size::show(about.bytes()),
            about.stopped_ms
        ),
        Err(error) if asked.is_empty() => log::warn!("no version was made: {error}"),
        Err(_) => {}
    }
    let result = version.map(|about| about.version);
    asked.iter().for_each(|socket| ask::answer(socket, &result));
}

fn nothing(directory: &Path) -> Error {
    let what = format!("{} has no version to restart from", directory.display());
    Error::new(ErrorKind::NotFound, what)
}

/// Waits for the end of a child.
pub(super) fn wait(process: u32) -> Result<ExitStatus> {
    let mut status = 0;
    loop {
        // SAFETY: room for a status.
        if unsafe { libc::waitpid(process.cast_signed(), &raw mut status, 0) } >= 0 {
            return Ok(ExitStatus::from_raw(status));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(Error::system("waiting for the program", &error));
        }
    }
}

/// Removes the files of a directory.
fn clear(directory: &Path) -> Result<()> {
    for name in os::files::list(directory, |name| Some(name.to_owned()))? {
        os::files::remove(&directory.join(name))?;
    }
    Ok(())
}
