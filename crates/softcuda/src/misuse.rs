//! The log of misuse: things a program must never do, but which the driver
//! does not refuse, such as freeing memory that a queued copy will touch.

use std::sync::Mutex;

use crate::config;
use crate::notice::notice;
use crate::sync::lock;

/// More entries than this are counted and printed, but not kept.
const KEPT: usize = 256;

static LOG: Mutex<MisuseLog> = Mutex::new(MisuseLog { count: 0, entries: Vec::new() });

struct MisuseLog {
    count: u64,
    entries: Vec<String>,
}

/// Counts one misuse and prints it on stderr.
pub(crate) fn report(what: String) {
    notice(&format!("misuse: {what}"));
    let mut log = lock(&LOG);
    log.count += 1;
    if log.entries.len() < KEPT {
        log.entries.push(what);
    }
}

/// Reports the use of a handle whose context was destroyed. A driver may follow it, and end the process.
pub(crate) fn stale(what: &str) {
    if config::stale_is_fatal() {
        notice(&format!("{what} is used"));
        std::process::abort();
    }
}

/// How many were reported since the start or the last [`reset`].
pub(crate) fn count() -> u64 {
    lock(&LOG).count
}

/// The entries kept, one per line.
pub(crate) fn entries() -> String {
    lock(&LOG).entries.join("\n")
}

/// Forgets all of them.
pub(crate) fn reset() {
    let mut log = lock(&LOG);
    log.count = 0;
    log.entries.clear();
}
