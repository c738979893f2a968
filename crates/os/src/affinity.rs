//! The processors that this process may use.

use std::num::NonZeroUsize;

/// How many processors this process may use at once, at least 1. Respects its affinity mask and
/// its control group's quota, as both are set at the time of the call.
pub fn usable_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

#[cfg(test)]
mod tests {
    #[test]
    fn there_is_one() {
        assert!(super::usable_cpus() >= 1);
    }
}
