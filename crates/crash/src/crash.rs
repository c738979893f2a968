//! A crash: a forked process writes what it would leave, and becomes the tool, which starts the program on it.
//!
//! Between fork and exec no memory is allocated and no lock is taken: other threads may hold them, and are not there.

use std::ffi::{c_char, c_int, CString};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use crate::image::{mixed, Coin, Crash, Few, Line, LineContents, Model};
use crate::state::{File, SimulationState};
use crate::text::{create, fail, interrupted, write_all, write_file, Text};

/// What is needed to start the tool, found while memory may be allocated.
struct ToolStart {
    tokens: c_int,
    /// The environment of the program, without the plan.
    environment: Vec<*const c_char>,
    _words: Vec<CString>,
}

// SAFETY: the pointers are to strings that it owns.
unsafe impl Send for ToolStart {}
// SAFETY: as above; nothing changes them.
unsafe impl Sync for ToolStart {}

static START: OnceLock<ToolStart> = OnceLock::new();

/// Prepares for crashes of this plan.
pub(crate) fn prepare(tokens: &std::ffi::CStr, environment: Vec<CString>) {
    // SAFETY: a string with NUL.
    let low = unsafe { libc::open(tokens.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    // Beyond the numbers that a program takes for its own.
    // SAFETY: a file that was opened above; -1 is refused.
    let high = unsafe { libc::fcntl(low, libc::F_DUPFD_CLOEXEC, 500) };
    if high < 0 {
        fail("cannot open ", tokens.to_bytes());
    }
    // SAFETY: opened above.
    unsafe { libc::close(low) };
    let mut pointers: Vec<*const c_char> = environment.iter().map(|word| word.as_ptr()).collect();
    pointers.push(null());
    let start = ToolStart { tokens: high, environment: pointers, _words: environment };
    drop(START.set(start));
}

/// A process of its own, of which the program's `wait` and `SIGCHLD` know nothing.
fn fork() -> libc::pid_t {
    // SAFETY: a copy of this process with this thread alone; it calls only what a signal's handler may.
    unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) as libc::pid_t }
}

/// Makes a crash before the present access, and goes on.
pub(crate) fn crash(state: &SimulationState) {
    let (Some(start), Some(plan)) = (START.get(), &state.plan) else { return };
    let mut token = 0_u8;
    loop {
        // SAFETY: reads one byte.
        match unsafe { libc::read(start.tokens, (&raw mut token).cast(), 1) } {
            1 => break,
            -1 if interrupted() => {}
            _ => fail("cannot read ", plan.tokens.as_bytes()),
        }
    }
    let first = fork();
    if first == 0 {
        // Its child belongs to the tool once it has ended.
        match fork() {
            0 => leave(state, start),
            second => {
                // SAFETY: always sound.
                unsafe { libc::_exit(c_int::from(second < 0)) }
            }
        }
    }
    let mut status = 0;
    if first < 0 {
        fail("cannot fork for a crash", b"");
    }
    loop {
        // SAFETY: a process that was made above, into a value that lives.
        let ended = unsafe { libc::waitpid(first, &mut status, libc::__WALL) };
        if ended >= 0 || !interrupted() {
            break;
        }
    }
    if status != 0 {
        fail("cannot fork for a crash", b"");
    }
}

/// Writes what the crash leaves, and becomes the tool.
fn leave(state: &SimulationState, start: &ToolStart) -> ! {
    let Some(plan) = &state.plan else { fail("no plan", b"") };
    let nth = mixed(&[plan.seed, state.now]) as usize % plan.coins.len().max(1);
    let coin = plan.coins.get(nth).copied().unwrap_or(Coin::Cache);
    let of = |model| Crash { model, coin, seed: plan.seed, number: state.now };
    let is_few = matches!(coin, Coin::FewLost | Coin::FewKept);
    let open = if is_few { state.files.iter().map(open).sum() } else { 0 };
    let mut few = (of(Model::Power).few(open), 0);
    let folder =
        || Text::new().push(plan.folder.as_bytes()).push(b"/crash-").number(state.now as i64);
    // SAFETY: a string with NUL.
    unsafe { libc::mkdir(folder().c_str().as_ptr(), 0o755) };
    let about = Text::new()
        .line("number", state.now as i64)
        .line("coin", nth as i64)
        .line("marked", state.marked)
        .line("foreign", state.foreign_bytes as i64);
    let written = write_file(folder().push(b"/crash").c_str(), about.bytes())
        && (0..state.files.len()).all(|nth| {
            let name = state.files[nth].name.as_bytes();
            let crash = of(state.files[nth].model);
            write_image(state, nth, &crash, &mut few, &folder().push(b"/").push(name))
        });
    if !written {
        fail("cannot write what a crash leaves to ", folder().bytes());
    }
    let folder = folder();
    let arguments = [c"veloc".as_ptr(), c"crash-judge".as_ptr(), folder.c_str().as_ptr(), null()];
    // SAFETY: the calls of a signal's handler, in a process that becomes another program: its signals are as at a
    // start, its files but standard error are closed.
    unsafe {
        for signal in 1..32 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, null_mut());
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        libc::dup2(nothing, libc::STDIN_FILENO);
        libc::dup2(nothing, libc::STDOUT_FILENO);
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        libc::execve(plan.tool.as_ptr(), arguments.as_ptr(), start.environment.as_ptr());
    }
    fail("cannot start ", plan.tool.as_bytes())
}

/// Lines of a page.
const LINES: usize = 64;

/// How many lines of a file a crash leaves together: those of a page, or each by itself.
fn together(of: &File) -> usize {
    if of.model == Model::Page {
        LINES
    } else {
        1
    }
}

/// Whether a crash may leave the lines that begin here as they are stored, or not.
fn is_open(of: &File, first: usize) -> bool {
    let last = of.len_in_lines().min(first + together(of));
    of.model != Model::Process && (first..last).any(|line| of.stored(line) != of.drained(line))
}

/// How many lines, or pages, of a file a crash may leave or not.
fn open(of: &File) -> u64 {
    let all = (0..of.len_in_lines()).step_by(together(of));
    all.filter(|first| is_open(of, *first)).count() as u64
}

/// Writes what is left of a file. Pages of zeros are left to the file system. `few`: those, and how many lines or pages
/// came before.
fn write_image(
    state: &SimulationState,
    nth: usize,
    crash: &Crash,
    few: &mut (Few, u64),
    path: &Text,
) -> bool {
    let of = &state.files[nth];
    for (number, flushed) in state.flushed.iter().enumerate() {
        let (line, content) = (flushed.line, flushed.content);
        if flushed.file == nth && crash.leaves_flushed(nth as u64, line as u64, number as u64) {
            of.set_drained(line, content);
        }
    }
    let file = create(path.c_str());
    // SAFETY: opened above; -1 is refused.
    if file < 0 || unsafe { libc::ftruncate(file, of.bytes as libc::off_t) } < 0 {
        return false;
    }
    let lines = of.len_in_lines();
    let mut is_few = false;
    for first in (0..lines).step_by(LINES) {
        let mut page: [Line; LINES] = [[0; 8]; LINES];
        let count = LINES.min(lines - first);
        let mut zero = true;
        for (at, left) in page.iter_mut().enumerate().take(count) {
            let line = first + at;
            let known = LineContents {
                stored: of.stored(line),
                drained: of.drained(line),
                evicted: of.evicted(line),
            };
            if line.is_multiple_of(together(of)) {
                let open = is_open(of, line);
                is_few = few.0.has(few.1);
                few.1 += u64::from(open);
            }
            *left = crash.leaves(nth as u64, line as u64, &known, is_few);
            zero &= *left == [0; 8];
        }
        if zero {
            continue;
        }
        let len = (count * 64).min(of.bytes - first * 64);
        // SAFETY: within the page; a file that was opened above.
        let bytes = unsafe { std::slice::from_raw_parts(page.as_ptr().cast::<u8>(), len) };
        // SAFETY: a file that was opened above.
        unsafe { libc::lseek(file, (first * 64) as libc::off_t, libc::SEEK_SET) };
        if !write_all(file, bytes) {
            return false;
        }
    }
    true
}
