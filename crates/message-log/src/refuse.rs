//! Failing a call: the message is printed and kept, and the error handler is called.

use std::cell::RefCell;
use std::ffi::{c_char, c_int, CString};
use std::io::Write;

use ::mpi::Library;
use message_log_core::log::Call;

use crate::mpi::{self, MpiProperties};
use crate::pmpi;

thread_local! {
    static LAST: RefCell<CString> = RefCell::new(CString::default());
}

/// Keeps a message for `VELOC_Part_error`.
pub(crate) fn keep(text: &str) {
    let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
    // The thread may be exiting.
    let _ = LAST.try_with(|last| *last.borrow_mut() = text);
}

/// The calling thread's last message. Valid until its next one.
pub(crate) fn last() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Prints a warning.
pub(crate) fn warn(mpi: &MpiProperties, text: &str) {
    write(Some(mpi.rank), "warning", text);
}

/// Prints why a call has failed.
pub(crate) fn print(mpi: &MpiProperties, text: &str) {
    write(Some(mpi.rank), "error", text);
}

/// Prints why a call has failed when the rank is unknown.
pub(crate) fn print_without_rank(text: &str) {
    write(None, "error", text);
}

/// Writes a line as the checkpoint library does, which this one must work without.
fn write(rank: Option<i32>, level: &str, text: &str) {
    let from = rank.map(|rank| format!(" (rank {rank} on {})", os::network::host_name()));
    let line = format!("veloc{}: {level}: {text}\n", from.unwrap_or_default());
    // In one write, as other processes print too. Errors are ignored.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// [`fail`], for a call that fails like those before it: the same message is not printed again, as a polling
/// program would print it for ever.
pub(crate) fn fail_again(mpi: &MpiProperties, comm: usize, text: &str) -> c_int {
    let is_last = LAST.try_with(|last| last.borrow().as_bytes() == text.as_bytes());
    match is_last.unwrap_or(false) {
        true => call_handler(mpi, comm),
        false => fail(mpi, comm, text),
    }
}

/// Prints and keeps the reason why an MPI call fails, and calls the communicator's error handler, which
/// may abort the job. Returns the call's result.
pub(crate) fn fail(mpi: &MpiProperties, comm: usize, text: &str) -> c_int {
    print(mpi, text);
    keep(text);
    call_handler(mpi, comm)
}

/// Calls the communicator's error handler. Returns the call's result.
fn call_handler(mpi: &MpiProperties, comm: usize) -> c_int {
    let comm = if comm == 0 || comm == mpi.comm_null { mpi.comm_world } else { comm };
    let code = mpi.numbers.err_other;
    // SAFETY: a communicator that the application passed or that always exists.
    unsafe { pmpi::comm_call_errhandler(comm, code) };
    code
}

/// Fails a call that has done nothing: there is no memory to defer the freeing of an object.
#[cold]
pub(crate) fn no_memory(mpi: &MpiProperties, comm: usize, call: &str) -> c_int {
    fail(mpi, comm, &format!("{call}: there is no memory to keep it for replays"))
}

/// Fails a call that has done nothing, as there is no memory to log it.
#[cold]
pub(crate) fn no_room(mpi: &MpiProperties, call: Call, comm: usize) -> c_int {
    fail(mpi, comm, &format!("{}: there is no memory to log it, so it has done nothing", call.0))
}

/// [`fail`], without a state.
#[cold]
pub(crate) fn fail_without_state(text: &str) -> c_int {
    print_without_rank(text);
    keep(text);
    let library = Library::find();
    let code = pmpi::err_other(library);
    let world = library.and_then(|library| library.constant(library.abi().handles().comm_world));
    if let Some(world) = world.filter(|_| mpi::is_running()) {
        // SAFETY: a communicator that always exists while MPI runs.
        unsafe { pmpi::comm_call_errhandler(world, code) };
    }
    code
}
