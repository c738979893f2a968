//! The name space of process numbers that a program runs in, so that it has the same ones after a restart.
//!
//! Its first process takes up what the program leaves behind, and is nobody's to talk to. It holds the lock of
//! the job's directory, and so says that the program runs, also when its supervisor was killed. It ends when
//! the supervisor and all other processes of the name space have.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use errors::{Error, ErrorKind, Result};
use os::lock::Lock;

/// The number of a program's first process. Those below are left to CRIU, which runs in the same name space.
pub(crate) const FIRST: u32 = 1000;

/// A name space of process numbers, and of mounts.
#[derive(Debug)]
pub(crate) struct Space {
    /// The number of its first process, outside.
    init: u32,
    /// The name spaces.
    numbers: File,
    mounts: File,
    /// This process's own.
    own: File,
    /// Numbers for [`Space::next_number`]; its first process ends some time after it is closed.
    orders: File,
    answers: File,
}

/// What the first process needs, prepared before the fork: it may not allocate.
struct Prepared {
    memory: CString,
    orders: RawFd,
    answers: RawFd,
    lock: RawFd,
}

impl Space {
    /// A new one, in which the directory `memory` is in memory. Its first process holds `lock`.
    ///
    /// # Errors
    /// The user may not; the message says what is needed.
    pub(crate) fn new(memory: &Path, lock: &Lock) -> Result<Space> {
        let failed = |error: io::Error| Error::system("making a PID name space", &error);
        let own = File::open("/proc/thread-self/ns/pid").map_err(failed)?;
        let (orders_in, orders) = pipe().map_err(failed)?;
        let (mut answers, answers_out) = pipe().map_err(failed)?;
        let memory = CString::new(memory.as_os_str().as_bytes()).map_err(|_| {
            Error::invalid(format!("the path {} has a null byte", memory.display()))
        })?;
        let prepared = Prepared {
            memory,
            orders: orders_in.as_raw_fd(),
            answers: answers_out.as_raw_fd(),
            lock: lock.as_fd().as_raw_fd(),
        };
        // SAFETY: no memory is involved.
        if unsafe { libc::unshare(libc::CLONE_NEWPID) } != 0 {
            return Err(denied(failed(io::Error::last_os_error())));
        }
        // Not by the C library: what is closed in forked processes, the lock among it, is to stay open there.
        // SAFETY: the child only makes system calls, and does not return.
        let forked = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
        if forked == 0 {
            first_process(&prepared);
        }
        let forked = if forked < 0 { Err(io::Error::last_os_error()) } else { Ok(forked as u32) };
        let back = enter(&own, libc::CLONE_NEWPID);
        let init = forked.map_err(failed)?;
        back.map_err(failed)?;
        drop((orders_in, answers_out));
        answer(&mut answers).map_err(denied)?;
        let of_init = |kind: &str| File::open(format!("/proc/{init}/ns/{kind}")).map_err(failed);
        Ok(Space { init, numbers: of_init("pid")?, mounts: of_init("mnt")?, own, orders, answers })
    }

    /// The next process there gets this number, if it is free.
    pub(crate) fn next_number(&mut self, number: u32) -> Result<()> {
        self.orders
            .write_all(&(number - 1).to_le_bytes())
            .map_err(|error| Error::system("ordering a process number", &error))?;
        answer(&mut self.answers)
    }

    /// A command for [`Space::spawn`], in this process's current directory.
    pub(crate) fn command(&self, program: &OsStr) -> Result<Command> {
        let mounts = self.mounts.as_raw_fd();
        let failed = |error: io::Error| Error::system("finding the current directory", &error);
        let here = std::env::current_dir().map_err(failed)?;
        let here = CString::new(here.as_os_str().as_bytes()).map_err(|e| failed(e.into()))?;
        let inside = move || {
            // SAFETY: a descriptor that lives until the process was started; system calls alone, as
            // between fork and exec.
            let entered = unsafe {
                libc::setns(mounts, libc::CLONE_NEWNS) == 0 && libc::chdir(here.as_ptr()) == 0
            };
            entered.then_some(()).ok_or_else(io::Error::last_os_error)
        };
        let mut command = Command::new(program);
        // SAFETY: it only makes system calls.
        unsafe { command.pre_exec(inside) };
        Ok(command)
    }

    /// Starts a process in the name spaces.
    pub(crate) fn spawn(&self, command: &mut Command) -> Result<Child> {
        let what = format!("starting {}", command.get_program().display());
        let failed = |error: io::Error| Error::system(&what, &error);
        enter(&self.numbers, libc::CLONE_NEWPID).map_err(failed)?;
        let child = command.spawn();
        enter(&self.own, libc::CLONE_NEWPID).map_err(failed)?;
        child.map_err(failed)
    }

    /// A path as processes there see it, for this process.
    pub(crate) fn path(&self, path: &Path) -> PathBuf {
        let below = path.strip_prefix("/").unwrap_or(path);
        Path::new(&format!("/proc/{}/root", self.init)).join(below)
    }

    /// The number outside of the process that has the number `inside` there.
    pub(crate) fn outside(&self, inside: u32) -> Result<u32> {
        self.processes()?.into_iter().find(|(_, number)| *number == inside).map_or_else(
            || Err(Error::new(ErrorKind::NotFound, format!("process {inside} has ended"))),
            |(outside, _)| Ok(outside),
        )
    }

    /// Ends all processes there.
    pub(crate) fn end(&self) {
        // SAFETY: no memory is involved; with the first process all others end.
        unsafe { libc::kill(self.init.cast_signed(), libc::SIGKILL) };
    }

    /// Takes note of the end of this process's children there, whose numbers are free afterwards.
    pub(crate) fn reap(&self) -> Result<()> {
        for (outside, _) in self.processes()?.into_iter().filter(|(_, inside)| *inside >= FIRST) {
            // SAFETY: no memory is involved. What is no child is not waited for.
            unsafe { libc::waitpid(outside.cast_signed(), std::ptr::null_mut(), 0) };
        }
        Ok(())
    }

    /// The processes there: their numbers outside and inside.
    pub(crate) fn processes(&self) -> Result<Vec<(u32, u32)>> {
        let failed = |error: io::Error| Error::system("listing /proc", &error);
        let space = |process: u32| fs::read_link(format!("/proc/{process}/ns/pid")).ok();
        let own = space(self.init);
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let Some(process) = number(&name) else { continue };
            if own.is_none() || space(process) != own {
                continue;
            }
            let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
            let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
            let inside = numbers.and_then(|all| all.split_whitespace().last()?.parse().ok());
            found.extend(inside.map(|inside| (process, inside)));
        }
        Ok(found)
    }
}

/// Waits for the answer of the first process: a number of [`STEPS`] and an error code, or that all is well.
fn answer(answers: &mut File) -> Result<()> {
    let mut words = [[0; 4]; 2];
    for word in &mut words {
        answers.read_exact(word).map_err(|error| {
            Error::system("asking the first process of the PID name space", &error)
        })?;
    }
    let [step, code] = words.map(i32::from_le_bytes);
    match STEPS.get(step.unsigned_abs() as usize) {
        None => Ok(()),
        Some(step) => Err(Error::system(step, &io::Error::from_raw_os_error(code))),
    }
}

/// A directory of `/proc` that is a process.
fn number(name: &OsStr) -> Option<u32> {
    name.to_str()?.parse().ok()
}

fn denied(error: Error) -> Error {
    error.followed_by(
        "; a program is started in name spaces of its own, which needs CAP_SYS_ADMIN (veloc doctor says more)",
    )
}

fn pipe() -> io::Result<(File, File)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: descriptors that nobody else has.
    let [read, write] = ends.map(|end| File::from(unsafe { OwnedFd::from_raw_fd(end) }));
    Ok((read, write))
}

fn enter(space: &File, kind: libc::c_int) -> io::Result<()> {
    // SAFETY: an open descriptor.
    match unsafe { libc::setns(space.as_raw_fd(), kind) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the first process does before it is ready, for messages.
const STEPS: [&str; 5] = [
    "making a name space of mounts",
    "keeping mounts apart",
    "mounting /proc for a PID name space",
    "mounting memory for images",
    "opening ns_last_pid",
];

/// The life of the first process: system calls alone, as it was forked.
fn first_process(prepared: &Prepared) -> ! {
    // SAFETY: a descriptor of this process.
    let beyond = |fd: RawFd| unsafe { libc::fcntl(fd, libc::F_DUPFD, 3) };
    let none = std::ptr::null();
    // SAFETY: system calls with constant or prepared arguments; the descriptors are those that this process got.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"veloc-init".as_ptr());
        // Whoever reads what the program prints is to see its end.
        for (number, kept) in
            (0..).zip([prepared.orders, prepared.answers, prepared.lock].map(beyond))
        {
            libc::dup2(kept, number);
        }
        libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0);
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        let say = |step: usize| {
            let mut answer = [0; 8];
            answer[..4].copy_from_slice(&(step as i32).to_le_bytes());
            answer[4..].copy_from_slice(&(*libc::__errno_location()).to_le_bytes());
            libc::write(1, answer.as_ptr().cast(), answer.len());
        };
        let root = c"/".as_ptr();
        let slave = libc::MS_REC | libc::MS_SLAVE;
        if libc::unshare(libc::CLONE_NEWNS) != 0 {
            say(0);
        } else if libc::mount(none, root, none, slave, none.cast()) != 0 {
            say(1);
        } else if libc::mount(c"proc".as_ptr(), c"/proc".as_ptr(), c"proc".as_ptr(), 0, none.cast())
            != 0
        {
            say(2);
        } else if libc::mount(
            c"veloc".as_ptr(),
            prepared.memory.as_ptr(),
            c"tmpfs".as_ptr(),
            0,
            c"size=100%,mode=700".as_ptr().cast(),
        ) != 0
        {
            say(3);
        } else {
            let last = libc::open(
                c"/proc/sys/kernel/ns_last_pid".as_ptr(),
                libc::O_RDWR | libc::O_CLOEXEC,
            );
            say(if last < 0 { 4 } else { STEPS.len() });
            serve(last, &say);
        }
        libc::_exit(0)
    }
}

/// # Safety
/// In the first process: its descriptors are those that it has made.
unsafe fn serve(last: RawFd, say: &impl Fn(usize)) {
    let mut order = [0; 4];
    // SAFETY: as above, and buffers that are long enough.
    unsafe {
        while libc::read(0, order.as_mut_ptr().cast(), order.len()) == order.len() as isize {
            let mut digits = [0; 10];
            let mut number = u32::from_le_bytes(order);
            let mut at = digits.len();
            while number > 0 && at > 0 {
                at -= 1;
                digits[at] = b'0' + (number % 10) as u8;
                number /= 10;
            }
            let text = &digits[at..];
            let written = libc::pwrite(last, text.as_ptr().cast(), text.len(), 0);
            say(if written < 0 { 4 } else { STEPS.len() });
        }
        while libc::kill(-1, 0) == 0 {
            libc::usleep(100_000);
        }
    }
}
