//! How much of what could be tried is tried: a part each time, all before a release.

/// Whether everything is to run, as before a release (`cargo xtask test --all`).
pub fn is_all() -> bool {
    std::env::var_os("VELOC_TEST_ALL").is_some()
}

/// All cases before a release, otherwise the first `few`.
pub fn cases<T>(few: usize, all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    all.into_iter().take(if is_all() { usize::MAX } else { few })
}

/// `all` before a release, otherwise `few`; or what the variable of this name says.
pub fn times(name: &str, few: u64, all: u64) -> u64 {
    let said = std::env::var(name).ok();
    let otherwise = if is_all() { all } else { few };
    said.map_or(otherwise, |said| said.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}
