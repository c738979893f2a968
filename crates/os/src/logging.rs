//! How much is logged: what `VELOC_LOG` says, in the words of `env_logger`.

use std::cell::RefCell;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use env_logger::Builder;
use log::{Level, LevelFilter};

use crate::clock::utc;
use crate::network::host_name;

/// The variable of the environment.
const VARIABLE: &str = "VELOC_LOG";

/// The crates of the library, by which `VELOC_LOG` can name their modules.
const CRATES: [&str; 16] = [
    "adjoint",
    "client",
    "config",
    "daemon",
    "device",
    "driver",
    "engine",
    "erasure",
    "format",
    "levels",
    "mpi",
    "os",
    "policy",
    "recovery",
    "trace",
    "veloc_client",
];

/// Starts to log, unless the process has a logger already: what `VELOC_LOG` asks for, or messages of
/// this level and worse. `arrange` says where they go and how they look.
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
    // That there is a logger already is no error; it says by itself how much is logged.
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

/// Who logs, in a job of several processes.
static PROCESS: Mutex<Option<(u32, String)>> = Mutex::new(None);

fn process() -> MutexGuard<'static, Option<(u32, String)>> {
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// This process is number `rank` of a job of so many.
pub fn set_process(rank: u32, ranks: u32) {
    *process() = (ranks > 1).then(|| (rank, host_name()));
}

/// Whether this is the process that says what all of its job would say.
pub fn speaks_for_all() -> bool {
    process().as_ref().is_none_or(|(rank, _)| *rank == 0)
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
        let line = match &*process() {
            None => format!("veloc: {level}: {}\n", record.args()),
            Some((rank, host)) => {
                format!("veloc (rank {rank} on {host}): {level}: {}\n", record.args())
            }
        };
        into.write_all(line.as_bytes())
    });
}

thread_local! {
    static TOPIC: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Whom what this thread logs is about, in a process that works for several. What it starts is to have
/// the same.
pub fn topic() -> Option<Arc<str>> {
    TOPIC.with_borrow(Option::clone)
}

/// From here on what this thread logs is about this one.
pub fn set_topic(topic: Option<Arc<str>>) {
    TOPIC.set(topic);
}

/// Each line begins with the time (UTC), the level and, if there is one, the [`topic`].
pub fn with_time_and_topic(builder: &mut Builder) {
    builder.format(|into, record| {
        write!(into, "[{} {}] ", utc(std::time::SystemTime::now()), record.level())?;
        if let Some(topic) = topic() {
            write!(into, "{topic}: ")?;
        }
        writeln!(into, "{}", record.args())
    });
}

/// Whether the value says how much is logged of this library: levels, alone or for modules of it,
/// separated by commas, and behind a slash what messages must contain. `env_logger` takes any other
/// word for a module, of which it then logs everything, and nothing of all others.
fn is_understood(value: &str) -> bool {
    let (directives, text) = value.split_once('/').unwrap_or((value, ""));
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    let is_module = |name: &str| CRATES.contains(&name.split("::").next().unwrap_or(name));
    let mut directives =
        directives.split(',').map(str::trim).filter(|one| !one.is_empty()).peekable();
    // A text alone, such as a directory's path, would leave nothing but errors, and few of these.
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

    /// Catches a word that would silence everything, and one of `env_logger`'s that is refused.
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
            "warn, levels::files,",
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
