//! The log level and filter: `VELOC_LOG`, in the syntax of `env_logger`.

use std::cell::RefCell;
use std::fmt::Display;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use env_logger::Builder;
use log::{Level, LevelFilter};

use crate::clock::utc;
use crate::network::host_name;

/// The environment variable.
const VARIABLE: &str = "VELOC_LOG";

/// The library's crates, whose modules `VELOC_LOG` can name.
const CRATES: [&str; 21] = [
    "adjoint",
    "catalog",
    "client",
    "collective",
    "config",
    "daemon",
    "device",
    "driver",
    "engine",
    "erasure",
    "files",
    "format",
    "levels",
    "mpi",
    "os",
    "pmem",
    "policy",
    "recovery",
    "supervisor",
    "trace",
    "veloc_client",
];

/// Starts logging with the filter in `VELOC_LOG` or else this level, unless the process has a logger.
/// `arrange` sets the target and the format.
pub fn start(level: LevelFilter, arrange: impl FnOnce(&mut Builder)) {
    let asked =
        crate::environment::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
    let asked = asked.filter(|value| !value.trim().is_empty());
    let mut builder = Builder::new();
    match &asked {
        Some(value) if is_understood(value) => builder.parse_filters(value),
        _ => builder.filter_level(level),
    };
    arrange(&mut builder);
    // An existing logger is no error; it has its own filter.
    if builder.try_init().is_err() {
        return;
    }
    if let Some(value) = asked.filter(|value| !is_understood(value)) {
        log::warn!(
            "{VARIABLE} is \"{value}\", which is none of off, error, warn, info, debug and trace, \
             nor one of these for a module, as in engine::storage=debug; logging as for {}",
            level.as_str().to_ascii_lowercase()
        );
    }
}

/// The rank of this process in a job of several processes, plus 1; 0: there are no others. Without a lock, which a
/// forked child could find held by a thread that it does not have.
static RANK: AtomicU64 = AtomicU64::new(0);
static HOST: OnceLock<String> = OnceLock::new();

/// The rank and host of this process, in a job of several processes.
fn process() -> Option<(u64, &'static str)> {
    let rank = RANK.load(Ordering::Acquire).checked_sub(1)?;
    Some((rank, HOST.get()?))
}

/// This process has the rank `rank` in a job of `ranks` processes.
pub fn set_process(rank: u32, ranks: u32) {
    HOST.get_or_init(host_name);
    RANK.store(if ranks > 1 { u64::from(rank) + 1 } else { 0 }, Ordering::Release);
}

/// Whether this is the process that speaks where all of its job would say the same.
pub fn speaks_for_all() -> bool {
    process().is_none_or(|(rank, _)| rank == 0)
}

/// Prints an error as a line of [`with_name_and_rank`] without the locks of logging, which a forked child may find
/// held by a thread that it does not have.
pub fn error_without_locks(error: &dyn Display) {
    if log::max_level() >= LevelFilter::Error {
        let line = line("error", error);
        // SAFETY: the bytes of the text. Standard error may be closed.
        let _ = unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
    }
}

fn line(level: &str, text: &dyn Display) -> String {
    match process() {
        None => format!("veloc: {level}: {text}\n"),
        Some((rank, host)) => format!("veloc (rank {rank} on {host}): {level}: {text}\n"),
    }
}

/// Each line begins with `veloc`, in a job of several processes with the rank and the host, and says whether it
/// is an error or a warning.
pub fn with_name_and_rank(builder: &mut Builder) {
    builder.format(|into, record| {
        let level = match record.level() {
            Level::Error => "error",
            Level::Warn => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        };
        // One write for each line: others write to the same terminal.
        into.write_all(line(level, record.args()).as_bytes())
    });
}

thread_local! {
    static TOPIC: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// The topic of this thread's messages, in a process that serves several jobs. Threads that it starts
/// should get the same.
pub fn topic() -> Option<Arc<str>> {
    TOPIC.with_borrow(Option::clone)
}

/// Sets the topic of this thread's messages.
pub fn set_topic(topic: Option<Arc<str>>) {
    TOPIC.set(topic);
}

/// Each line begins with the time (UTC), the level and the [`topic`], if any.
pub fn with_time_and_topic(builder: &mut Builder) {
    builder.format(|into, record| {
        write!(into, "[{} {}] ", utc(std::time::SystemTime::now()), record.level())?;
        if let Some(topic) = topic() {
            write!(into, "{topic}: ")?;
        }
        writeln!(into, "{}", record.args())
    });
}

/// Whether the value is a filter for this library: levels, alone or for its modules, separated by
/// commas, and a text filter after a slash. `env_logger` takes any other word for a module: it would log
/// all of that and nothing else.
fn is_understood(value: &str) -> bool {
    let (directives, text) = value.split_once('/').unwrap_or((value, ""));
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let is_module = |name: &str| CRATES.contains(&name.split("::").next().unwrap_or(name));
    let mut directives =
        directives.split(',').map(str::trim).filter(|one| !one.is_empty()).peekable();
    // A text filter alone, such as a path, would hide nearly everything.
    !text.contains('/')
        && directives.peek().is_some()
        && directives.all(|directive| match directive.split_once('=') {
            Some((name, level)) => is_module(name) && (level.is_empty() || is_level(level.trim())),
            None => is_level(directive) || is_module(directive),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a word that would silence all messages, and a valid filter that is refused.
    #[test]
    fn what_is_understood() {
        for value in [
            "off",
            "error",
            "WARN",
            "info",
            "debug",
            " trace ",
            "veloc_client",
            "veloc_client=debug",
            "warn,engine=trace",
            "warn, files::places,",
            "info/rank 3",
        ] {
            assert!(is_understood(value), "{value}");
            let errors = Builder::new().parse_filters(value).build().filter();
            assert_eq!(errors == LevelFilter::Off, value == "off", "{value}");
        }
        for value in [
            "1",
            "yes",
            "nonsense",
            "veloc",
            "veloc_clients=debug",
            "veloc_client=loud",
            "veloc_client=debug=info",
            "other=debug",
            "warn,nonsense",
            "info/a/b",
            "/tmp",
            "/",
            ",",
        ] {
            assert!(!is_understood(value), "{value}");
        }
    }
}
