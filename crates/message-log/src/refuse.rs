//! How a call fails: the text, where it is said and kept, and the error handler.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, CString};
use std::io::Write;

use mpi_abi::Library;

use crate::log::Call;
use crate::mpi::{self, Mpi};
use crate::pmpi;
use crate::state;

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Keeps a text for `VELOC_Part_error`.
pub fn keep(text: &str) {
    let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
    // The thread may be ending; then nobody will ask.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// The text of the calling thread's last failure. Valid until its next one.
pub fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Says a text, with who says it.
pub fn say(mpi: &Mpi, text: &str) {
    write(&format!("[veloc-mpi rank {}] {text}\n", mpi.rank));
}

/// Says a text where it is not known which process this is.
pub fn say_anonymously(text: &str) {
    write(&format!("[veloc-mpi] {text}\n"));
}

fn write(line: &str) {
    // In one piece, as other processes write there too. Who cannot be told is not told.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// As [`fail`], for a call that fails as the ones before it do: a text that was the last one is not said
/// again, as a program that waits in a loop would never stop to be told.
pub fn fail_again(mpi: &Mpi, comm: usize, text: &str) -> c_int {
    let is_last = LAST.try_with(|last| last.borrow().as_bytes() == text.as_bytes());
    match is_last.unwrap_or(false) {
        true => call_handler(mpi, comm),
        false => fail(mpi, comm, text),
    }
}

/// Says and keeps why a call of MPI's fails, and calls the communicator's error handler, which may
/// end the job; what the call returns if it does not.
pub fn fail(mpi: &Mpi, comm: usize, text: &str) -> c_int {
    say(mpi, text);
    keep(text);
    call_handler(mpi, comm)
}

/// Calls the communicator's error handler; what the call returns.
fn call_handler(mpi: &Mpi, comm: usize) -> c_int {
    let comm = if comm == 0 || comm == mpi.comm_null { mpi.comm_world } else { comm };
    let code = mpi.numbers.err_other;
    // SAFETY: a communicator that the application passed or that is always there.
    unsafe { pmpi::comm_call_errhandler(comm, code) };
    code
}

/// A call fails, before it has done anything: there is no memory to keep what is freed for a replay.
#[cold]
pub fn no_memory(mpi: &Mpi, comm: usize, call: &str) -> c_int {
    fail(mpi, comm, &format!("{call}: there is no memory to keep it for replays"))
}

/// A call fails whose function the MPI library does not have: without this library the application
/// would not have started, or would have stopped here.
#[cold]
pub fn lacking(call: Call) -> c_int {
    let why = match Library::find() {
        Some(_) => "the MPI library has no such function",
        // A linker that leaves out what it takes for unneeded, if this library has all the names.
        None => "there is no MPI library in this process (linked with --as-needed?)",
    };
    let text = format!("{} cannot be called: {why}", call.0);
    state::with(|state| fail(&state.mpi, 0, &text)).unwrap_or_else(|_| fail_without_state(&text))
}

/// The same as [`fail`] where there is no state to go by.
#[cold]
pub fn fail_without_state(text: &str) -> c_int {
    say_anonymously(text);
    keep(text);
    let library = Library::find();
    let code = pmpi::err_other(library);
    let world = library.and_then(|library| library.constant(library.abi().handles().comm_world));
    if let Some(world) = world.filter(|_| mpi::is_running()) {
        // SAFETY: a communicator that is always there while MPI runs.
        unsafe { pmpi::comm_call_errhandler(world, code) };
    }
    code
}
