//! The border between C and Rust: arguments in, status codes and error texts out, no panic across.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::ffi::{c_char, c_int, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{LazyLock, Once, OnceLock};

use super::{VELOC_FAILURE, VELOC_MAX_NAME, VELOC_SUCCESS};
use client::{Client, Selection};
use config::PrintErrors;
use engine::EngineHandle;
use errors::{Error, ErrorKind, Result};
use os::fork_detector::ForkDetector;
use os::sync::Mutex;

/// The process's client. Every call takes the lock for its duration.
static CLIENT: LazyLock<Mutex<Option<Client>>> = LazyLock::new(|| Mutex::new(None));

/// The engine of the client, for the end of the process: another thread may be in a call then, and have the client.
static ENGINE: LazyLock<Mutex<Option<EngineHandle>>> = LazyLock::new(Mutex::default);

/// The process that has the client: a forked child has only a copy of its memory, without workers.
static OWNER: OnceLock<ForkDetector> = OnceLock::new();

/// Whether errors of calls are printed, as the newest configuration says, or the environment where there was
/// none yet.
static PRINT_ERRORS: LazyLock<AtomicU8> =
    LazyLock::new(|| AtomicU8::new(PrintErrors::of_environment() as u8));

/// The program has asked for the text of an error.
static HAS_ASKED: AtomicBool = AtomicBool::new(false);

/// How often errors that differ in their numbers alone are all printed.
const OFTEN: u64 = 3;

/// How many different errors are counted.
const COUNTED: usize = 64;

/// How often errors came, by their texts without numbers.
static COUNTS: LazyLock<Mutex<HashMap<String, u64>>> = LazyLock::new(Mutex::default);

/// How many texts of errors a thread keeps: a program may name several in one statement.
const KEPT: usize = 8;

thread_local! {
    /// The texts of the last errors, the newest last.
    static LAST_ERRORS: RefCell<VecDeque<CString>> = const { RefCell::new(VecDeque::new()) };
    static ERRORS: Cell<u64> = const { Cell::new(0) };
    static IN_CALLBACK: Cell<bool> = const { Cell::new(false) };
}

/// Runs a call's body; a panic is an error like any other.
pub(super) fn guarded<T>(call: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    os::stack::enter();
    let caught = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_default();
        Err(Error::new(ErrorKind::Internal, format!("the library panicked: {text}")))
    });
    caught.map_err(|error| {
        let error = error.within(call);
        let is_owner = check_owner().is_ok();
        let again = if is_owner { count(&error) } else { 0 };
        match prints(&error) {
            true if again < OFTEN => say(&error),
            true if is_power_of_ten(again + 1) => say(&error.clone().followed_by(format_args!(
                "{} errors like this one have occurred; the {}th is the next that is printed",
                again + 1,
                10 * (again + 1)
            ))),
            _ if is_owner => log::debug!("{error}"),
            _ => {}
        }
        keep(&error.to_string());
        error
    })
}

/// How often errors as this one came before: a program that goes on after each gets thousands of them.
fn count(error: &Error) -> u64 {
    let text = error.to_string().replace(|letter: char| letter.is_ascii_digit(), "");
    let mut counts = COUNTS.lock();
    if counts.len() >= COUNTED && !counts.contains_key(&text) {
        counts.clear();
    }
    let count = counts.entry(text).or_default();
    *count += 1;
    *count - 1
}

fn is_power_of_ten(count: u64) -> bool {
    count.checked_ilog10().is_some_and(|digits| 10u64.pow(digits) == count)
}

/// From here on errors are printed as a configuration says.
pub(super) fn print_errors(when: PrintErrors) {
    PRINT_ERRORS.store(when as u8, Ordering::Relaxed);
}

/// Whether the library prints an error: once for each job, and not if the program prints it.
fn prints(error: &Error) -> bool {
    let when = PRINT_ERRORS.load(Ordering::Relaxed);
    let prints_itself = when == PrintErrors::Auto as u8 && HAS_ASKED.load(Ordering::Relaxed);
    when != PrintErrors::Never as u8 && !prints_itself && !error.is_told_by_another()
}

/// Keeps and prints an error that no call returns, such as one of a C++ destructor: programs that
/// ask for errors of calls do not look for it.
pub(super) fn report(call: &str, error: Error) {
    let error = error.within(call);
    if PRINT_ERRORS.load(Ordering::Relaxed) != PrintErrors::Never as u8 {
        say(&error);
    }
    keep(&error.to_string());
}

/// Prints an error. In a forked child other threads of its parent may have held the locks of logging.
fn say(error: &Error) {
    match check_owner() {
        Ok(()) => log::error!("{error}"),
        Err(_) => os::logging::error_without_locks(error),
    }
}

/// Keeps a text for `VELOC_Last_error`.
pub(super) fn keep(text: &str) {
    let text = CString::new(text.replace('\0', "?")).unwrap_or_default();
    // The thread may be ending; then nobody will ask.
    let _ = LAST_ERRORS.try_with(|last| {
        let mut last = last.borrow_mut();
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(text);
    });
    ERRORS.set(ERRORS.get() + 1);
}

/// Calls a function of the application's, and gives the text that was kept last in it, if one was.
pub(super) fn kept_meanwhile<T>(function: impl FnOnce() -> T) -> (T, Option<String>) {
    let before = ERRORS.get();
    let result = function();
    let kept = (ERRORS.get() != before).then(|| {
        LAST_ERRORS.try_with(|last| Some(last.borrow().back()?.to_string_lossy().into_owned())).ok()
    });
    (result, kept.flatten().flatten())
}

/// Runs a call's body and gives its status code.
pub(super) fn status(call: &str, body: impl FnOnce() -> Result<()>) -> c_int {
    match guarded(call, body) {
        Ok(()) => VELOC_SUCCESS,
        Err(_) => VELOC_FAILURE,
    }
}

/// The text of the calling thread's last error. Valid until it has had [`KEPT`] more.
pub(super) fn last_error() -> *const c_char {
    HAS_ASKED.store(true, Ordering::Relaxed);
    let last = LAST_ERRORS.try_with(|last| last.borrow().back().map(|text| text.as_ptr()));
    last.ok().flatten().unwrap_or(c"".as_ptr())
}

/// An error in a process that was forked from the one that initialised the library.
fn check_owner() -> Result<()> {
    let Some(owner) = OWNER.get().filter(|owner| !owner.is_owner()) else {
        return Ok(());
    };
    Err(Error::invalid(format!(
        "process {} was forked from process {}, which initialised the library; only that one can use it",
        std::process::id(),
        owner.process()
    )))
}

/// Runs a function of the application's that one of its own calls is waiting for, so that it must
/// make no call itself.
pub(super) fn call_back<T>(function: impl FnOnce() -> T) -> T {
    let _within = Within(IN_CALLBACK.replace(true));
    function()
}

/// On its end it is as before whether a function of the application's runs.
struct Within(bool);

impl Drop for Within {
    fn drop(&mut self) {
        IN_CALLBACK.set(self.0);
    }
}

/// An error where a call would wait for itself.
fn check_caller() -> Result<()> {
    check_owner()?;
    refuse_within_callbacks()
}

/// An error in a function of the application's that one of its own calls is waiting for.
pub(super) fn refuse_within_callbacks() -> Result<()> {
    if IN_CALLBACK.get() {
        return Err(Error::invalid(
            "a serializer, deserializer, release routine or invariant must not call the library, which waits for it",
        ));
    }
    Ok(())
}

/// Calls the client, if there is one.
pub(super) fn with_client<T>(body: impl FnOnce(&mut Client) -> Result<T>) -> Result<T> {
    check_caller()?;
    match CLIENT.lock().as_mut() {
        Some(client) => {
            client.engine().device_side().resume_copies();
            let done = client.call(body);
            hear_of_the_end(client);
            done
        }
        None => Err(Error::invalid(
            "there is no job: this call belongs between VELOC_Init and VELOC_Finalize",
        )),
    }
}

/// Calls the client in a collective call, also where the name is no string: the other processes wait
/// for this one, and are told by it that it cannot go on. No checkpoint has an empty name.
pub(super) fn with_name<T>(
    name: Result<&str>,
    body: impl FnOnce(&mut Client, &str) -> Result<T>,
) -> Result<T> {
    let done = with_client(|client| body(client, name.as_ref().copied().unwrap_or_default()));
    name.and(done)
}

/// Makes a client with `start`, unless there is one.
pub(super) fn start_client(start: impl FnOnce() -> Result<Client>) -> Result<()> {
    check_caller()?;
    let mut client = CLIENT.lock();
    if client.is_some() {
        return Err(Error::invalid(
            "the library is initialised already: call VELOC_Finalize before another VELOC_Init",
        ));
    }
    let started = client.insert(start()?);
    *ENGINE.lock() = Some(started.engine().handle());
    OWNER.get_or_init(ForkDetector::for_this_process);
    hear_of_the_end(started);
    Ok(())
}

/// Has the library called when the process ends and, once it uses a device, also before the driver
/// ends. The driver has registered its own end when it was loaded or first used, and the last to
/// register is called first.
fn hear_of_the_end(client: &Client) {
    static AT_EXIT: Once = Once::new();
    static BEFORE_DRIVER: Once = Once::new();
    let ask = |at_end: extern "C" fn()| {
        // SAFETY: the function is in this library, which is never unloaded.
        if unsafe { libc::atexit(at_end) } != 0 {
            log::warn!("atexit failed, so the library will not notice if the process ends without VELOC_Finalize");
        }
    };
    AT_EXIT.call_once(|| ask(at_exit));
    if client.engine().device_side().has_device() {
        BEFORE_DRIVER.call_once(|| ask(before_driver));
    }
}

/// Whether there is a client.
pub(super) fn has_client() -> Result<bool> {
    check_caller()?;
    Ok(CLIENT.lock().is_some())
}

/// Ends the client. Other calls wait meanwhile: a job that began beside the end of this one would have
/// its files in the same places.
pub(super) fn end_client(end: impl FnOnce(Client) -> Result<()>) -> Result<()> {
    check_caller()?;
    let mut slot = CLIENT.lock();
    match slot.take() {
        Some(client) => {
            client.engine().device_side().resume_copies();
            drop(ENGINE.lock().take());
            end(client)
        }
        None => Err(Error::invalid("there is no job to finalize")),
    }
}

/// The driver ends next, and the process with it: no copy is begun from here on. A handler of the
/// application's may still come that finalizes the job, for what is in host memory by then.
extern "C" fn before_driver() {
    let _ = catch_unwind(|| {
        if check_owner().is_err() {
            return;
        }
        if let Some(client) = CLIENT.try_lock().as_deref().and_then(Option::as_ref) {
            client.engine().device_side().hold_copies();
        }
    });
}

/// The process ends without VELOC_Finalize: the workers must make no driver calls any more.
extern "C" fn at_exit() {
    let _ = catch_unwind(|| {
        if check_owner().is_err() {
            return;
        }
        if let Some(engine) = ENGINE.try_lock().as_deref().and_then(Option::as_ref) {
            engine.leave();
        }
    });
}

/// A string argument.
///
/// # Safety
/// `text` is NULL or points to bytes that end with NUL within VELOC_MAX_NAME bytes or later.
pub(super) unsafe fn string<'a>(what: &str, text: *const c_char) -> Result<&'a str> {
    if text.is_null() {
        return Err(Error::invalid(format!("{what} is NULL")));
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    let text = text
        .to_str()
        .map_err(|_| Error::invalid(format!("{what} is not UTF-8: {}", text.to_string_lossy())))?;
    if text.len() >= VELOC_MAX_NAME {
        return Err(Error::invalid(format!(
            "{what} has {} bytes; VELOC_MAX_NAME allows {}",
            text.len(),
            VELOC_MAX_NAME - 1
        )));
    }
    Ok(text)
}

/// A selection argument: `VELOC_CKPT_*` or `VELOC_RECOVER_*`, which have the same values.
///
/// # Safety
/// `ids` is NULL or points to `count` ids.
pub(super) unsafe fn selection(mode: c_int, ids: *const c_int, count: c_int) -> Result<Selection> {
    if mode == super::VELOC_CKPT_ALL {
        return Ok(Selection::All);
    }
    if mode != super::VELOC_CKPT_SOME && mode != super::VELOC_CKPT_REST {
        return Err(Error::invalid(format!(
            "the mode is {mode}; it must be 0 (all), 1 (some) or 2 (rest)"
        )));
    }
    let Ok(count) = usize::try_from(count) else {
        return Err(Error::invalid(format!("the number of ids is {count}; it must be 0 or more")));
    };
    if ids.is_null() && count > 0 {
        return Err(Error::invalid(format!(
            "{count} ids are given, but the pointer to them is NULL"
        )));
    }
    let ids = if count == 0 {
        Vec::new()
    } else {
        // SAFETY: not NULL; the rest is the caller's promise.
        unsafe { std::slice::from_raw_parts(ids, count) }.to_vec()
    };
    Ok(if mode == super::VELOC_CKPT_SOME { Selection::Some(ids) } else { Selection::Rest(ids) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a thread whose calls are all refused because one callback has panicked.
    #[test]
    fn a_callback_that_panics_has_ended() {
        let ended = guarded("test", || {
            call_back(|| {
                assert!(check_caller().is_err());
                panic!("as a fault of the library would");
            })
        });
        let error = ended.map(|(): ()| ()).unwrap_err().to_string();
        assert!(error.contains("as a fault of the library would"), "{error}");
        check_caller().unwrap();
    }
}
