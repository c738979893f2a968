//! The process `veloc-backend`: it holds its clients' shared memory, and writes what is left in it
//! when a client has ended (`recover`).

#![deny(clippy::disallowed_methods)]

mod clients;
mod keep;
mod recover;
mod serve;

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use clients::Clients;
use config::Config;
use errors::{Error, Result};
use keep::Keeper;
use os::affinity;
use os::logging;
use os::socket::{connect_to, listen_at, Listener, Socket};
use os::sync::{Condvar, Mutex};
use recovery::log as log_file;
use recovery::protocol::{path as path_of, portable};
use serve::serve_client;

/// How often to check whether the backend can end.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// How long a backend that was started by a client waits for that client, which connects at once unless
/// it has ended. A later client starts another backend.
const START_TIMEOUT: Duration = Duration::from_secs(2);

/// Set by SIGTERM: end when no client is left.
static TERMINATING: AtomicBool = AtomicBool::new(false);

/// Where the backend's socket comes from.
#[derive(Clone, Debug)]
pub enum Start<'a> {
    /// A client created it and passed it as standard input. The backend ends with its last client.
    HandedOver,
    /// Started by hand for this configuration: it runs until SIGTERM.
    Configuration {
        /// The configuration file.
        path: &'a Path,
        /// Stay in the foreground instead of becoming a daemon.
        foreground: bool,
    },
}

/// How a start ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The backend has served, and has ended.
    Served,
    /// There is a backend for this configuration already.
    AlreadyThere,
}

/// Runs a backend. Called by the program's only thread.
///
/// # Errors
/// The configuration is wrong or needs no backend, or the socket's name cannot be taken.
pub fn run(start: &Start<'_>) -> Result<Outcome> {
    let listener = match start {
        Start::HandedOver => {
            let socket = std::io::stdin().as_fd().try_clone_to_owned();
            let socket = socket.map_err(|error| Error::system("taking the socket over", &error))?;
            Listener::from_file(socket)
        }
        Start::Configuration { path, .. } => {
            let config = portable(&Config::load(path)?)?;
            if !config.outlives_application() {
                return Err(Error::invalid(format!(
                    "{}: only a job with mode = async that writes files has a backend, and not \
                     with threaded = true",
                    path.display()
                )));
            }
            let Some(listener) = listen(&path_of(&config)?)? else {
                return Ok(Outcome::AlreadyThere);
            };
            log_file::set_directory(&config);
            listener
        }
    };
    let on_demand = matches!(start, Start::HandedOver);
    if !matches!(start, Start::Configuration { foreground: true, .. }) {
        detach()?;
        close_inherited_files(&listener);
        log_file::start();
    }
    handle_signals();
    // New connections report this process's id from here on.
    listener.listen_on()?;
    Backend::default().serve(&listener, on_demand);
    Ok(Outcome::Served)
}

/// Listens at this path; `None` if there is a backend already.
fn listen(path: &Path) -> Result<Option<Listener>> {
    let since = Instant::now();
    loop {
        if let Some(listener) = listen_at(path)? {
            return Ok(Some(listener));
        }
        // A process that is about to listen or to end does not answer.
        if connect_to(path)?.is_some() || since.elapsed() > START_TIMEOUT {
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Becomes a daemon: no terminal, no session, no working directory.
fn detach() -> Result<()> {
    // SAFETY: this is the only thread, so the child of the fork has everything it needs.
    if unsafe { libc::daemon(0, 0) } != 0 {
        return Err(Error::errno("becoming a process of its own"));
    }
    Ok(())
}

/// Closes inherited descriptors: a reader of the application's pipe must not wait for the backend to
/// end.
fn close_inherited_files(listener: &Listener) {
    let kept = listener.as_fd().as_raw_fd();
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<i32> =
        open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|&number| number > 2 && number != kept) {
        // SAFETY: only the listener and the directory listing, which is closed already, were opened in
        // this process.
        unsafe { libc::close(number) };
    }
}

fn handle_signals() {
    extern "C" fn on_term(_: libc::c_int) {
        TERMINATING.store(true, Ordering::Relaxed);
    }
    let handler: extern "C" fn(libc::c_int) = on_term;
    // SAFETY: the handler only stores to an atomic. Without SA_RESTART, the signal interrupts waits.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
        // The terminal's signals are meant for the application.
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        // The process that started the backend may have blocked signals.
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

#[derive(Debug, Default)]
struct Backend {
    clients: Arc<Clients>,
    writers: Arc<WriterLimit>,
    /// The clients' common `watchdog_interval`.
    interval: Arc<OnceLock<Duration>>,
    keeper: Arc<Keeper>,
}

/// Counts the clients whose data is being written.
#[derive(Debug, Default)]
struct WriterLimit {
    now: Mutex<usize>,
    fewer: Condvar,
}

impl WriterLimit {
    /// Runs `work` with at most `limit` at a time; 0: the number of processors.
    fn with<T>(&self, limit: usize, work: impl FnOnce() -> T) -> T {
        let limit = if limit == 0 { affinity::usable_cpus() } else { limit };
        let mut now = self.now.lock();
        while *now >= limit {
            now = self.fewer.wait(now);
        }
        *now += 1;
        drop(now);
        let _slot = WriterSlot(self);
        work()
    }
}

/// Frees the slot, also after a panic.
struct WriterSlot<'a>(&'a WriterLimit);

impl Drop for WriterSlot<'_> {
    fn drop(&mut self) {
        *self.0.now.lock() -= 1;
        self.0.fewer.notify_one();
    }
}

impl Backend {
    /// Accepts clients until the backend can end.
    fn serve(&self, listener: &Listener, on_demand: bool) {
        let started = Instant::now();
        let mut had_clients = false;
        loop {
            match listener.accept(POLL_INTERVAL) {
                Ok(Some(socket)) => {
                    had_clients = true;
                    self.add_client(socket);
                }
                Ok(None) => {}
                Err(error) => {
                    log::error!("{error}");
                    thread::sleep(POLL_INTERVAL);
                }
            }
            self.keeper.expire();
            if TERMINATING.load(Ordering::Relaxed) {
                self.keeper.free("veloc-backend was told to end");
            }
            let nobody = self.clients.is_empty() && self.keeper.is_empty();
            let forgotten = had_clients || started.elapsed() > START_TIMEOUT;
            let ends = TERMINATING.load(Ordering::Relaxed) || (on_demand && forgotten);
            if nobody && ends {
                match listener.retire() {
                    Ok(true) => return,
                    Ok(false) => {}
                    Err(error) => {
                        log::warn!("{error}");
                        return;
                    }
                }
            }
        }
    }

    fn add_client(&self, socket: Socket) {
        let (writers, interval) = (self.writers.clone(), self.interval.clone());
        let keeper = self.keeper.clone();
        // Registered before its hello is read, so that the backend does not end meanwhile.
        let registration = self.clients.register(socket);
        let spawned = thread::Builder::new().name("veloc-client".to_owned()).spawn(move || {
            logging::set_topic(Some(format!("process {}", registration.client.number).into()));
            if let Err(error) = serve_client(&registration, &writers, &interval, &keeper) {
                log::error!("{error}");
            }
        });
        if let Err(error) = spawned {
            log::error!("a client is refused: {error}");
        }
    }
}

// The model checks' locks work only within a model check.
#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    /// Catches a limit that is exceeded, and a slot that is not freed after a panic.
    #[test]
    fn no_more_than_the_limit_write_at_a_time() {
        let (writers, now, most) =
            (WriterLimit::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            for number in 0..12 {
                let (writers, now, most) = (&writers, &now, &most);
                scope.spawn(move || {
                    let work = || {
                        most.fetch_max(1 + now.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                        thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                        assert!(number % 4 != 0, "one that fails");
                    };
                    let limited = std::panic::AssertUnwindSafe(|| writers.with(3, work));
                    let _ = std::panic::catch_unwind(limited);
                });
            }
        });
        assert!((1..=3).contains(&most.load(Ordering::SeqCst)));
        assert_eq!(*writers.now.lock(), 0);
    }
}
