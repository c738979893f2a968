//! Warnings of the library on a slow machine, where nothing is wrong.

/// Whether this line of standard error is a warning of an async job whose backend started slowly:
/// the job waits for it, after a second, or the backend had served nobody when the job was done,
/// and was ended.
pub fn of_a_slow_start(line: &str) -> bool {
    let Some((_, line)) =
        line.split_once(": warning: ").filter(|(name, _)| name.starts_with("veloc"))
    else {
        return false;
    };
    line.starts_with("waiting for veloc-backend (process ")
        && line.ends_with("), which does not answer")
        || line.starts_with("process ")
            && line.ends_with(" was started as veloc-backend and serves nobody: it is ended")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a backend that was not found, or is lost, and is taken for a slow one.
    #[test]
    fn whatever_else_is_said_counts() {
        for slow in [
            "veloc: warning: waiting for veloc-backend (process 7), which does not answer",
            "veloc (rank 3 on node5): warning: process 7 was started as veloc-backend and serves nobody: it is ended",
        ] {
            assert!(of_a_slow_start(slow), "{slow}");
        }
        for other in [
            "veloc: warning: waiting for veloc-backend (process 7), which writes what an earlier job has left",
            "veloc: warning: veloc-backend (process 7) has not answered for 3 s (watchdog_interval)",
            "veloc: warning: bin/veloc-backend has ended before it served anybody (exit status: 3)",
            "veloc: error: process 7 was started as veloc-backend and serves nobody: it is ended",
        ] {
            assert!(!of_a_slow_start(other), "{other}");
        }
    }
}
