//! Random choices that can be repeated: the seed is printed, and taken from `CAPI_TESTS_SEED`.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::checkpoint_file::word;

/// A generator.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with the seed of the environment, or one from the clock. Prints the seed.
    pub fn seeded(what: &str) -> Random {
        let given = std::env::var("CAPI_TESTS_SEED").ok().and_then(|text| text.parse().ok());
        let seed = given.unwrap_or_else(|| {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64)
        });
        println!("{what}: CAPI_TESTS_SEED={seed}");
        Random(seed)
    }

    /// A number from 0 to below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        word(1, 1, self.0) % limit
    }
}
