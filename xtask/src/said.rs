//! What the library says on a slow machine, where nothing is wrong.

/// Whether this line of standard error is of an async job whose backend took long to start: that it is
/// waited for, after a second, or that it had served nobody yet when the job was done, and was ended.
pub fn of_a_slow_start(line: &str) -> bool {
    let Some(line) = line.strip_prefix("[WARN ] ") else { return false };
    line.starts_with("waiting for veloc-backend (process ")
        && line.ends_with("), which does not answer")
        || line.starts_with("process ")
            && line.ends_with(" was started as veloc-backend and serves nobody: it is ended")
}
