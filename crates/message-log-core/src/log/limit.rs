//! The memory limit of the log (`VELOC_MPI_LOG_MEMORY`).

/// The variable.
const VARIABLE: &str = "VELOC_MPI_LOG_MEMORY";

/// The largest default.
const DEFAULT: usize = 1 << 30;

/// The default as a fraction of the available memory.
const SHARE: usize = 16;

/// The least limit that is accepted.
const LEAST: usize = 1 << 20;

/// A limit in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit(pub usize);

impl Limit {
    /// The configured limit.
    ///
    /// # Errors
    /// The variable is not a number of bytes, or too small.
    pub fn wanted() -> Result<Limit, String> {
        match os::environment::var_os(VARIABLE) {
            None => Ok(Limit::by_memory(available())),
            Some(text) => Limit::parse(&text.to_string_lossy()),
        }
    }

    fn by_memory(available: Option<usize>) -> Limit {
        let share = available.map_or(DEFAULT, |available| available / SHARE);
        Limit(share.clamp(LEAST, DEFAULT))
    }

    fn parse(text: &str) -> Result<Limit, String> {
        let wrong = || {
            format!(
                "{VARIABLE} is \"{text}\": it must be a number of bytes of at least 1M, with K, M, G \
                 or T behind it for powers of 1024"
            )
        };
        let digits = text.trim_end_matches(['K', 'M', 'G', 'T']);
        let shift = match &text[digits.len()..] {
            "" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            _ => return Err(wrong()),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number: usize = digits.parse().ok().filter(|_| is_number).ok_or_else(wrong)?;
        let bytes = number.checked_mul(1 << shift).ok_or_else(wrong)?;
        (bytes >= LEAST).then_some(Limit(bytes)).ok_or_else(wrong)
    }
}

/// Bytes of memory that are available.
pub fn available() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: usize = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a limit that is misread, and an invalid one that is accepted.
    #[test]
    fn what_the_variable_says() {
        let parse = |text| Limit::parse(text).map(|limit| limit.0);
        assert_eq!(parse("1048576"), Ok(1 << 20));
        assert_eq!((parse("1024K"), parse("64M")), (Ok(1 << 20), Ok(64 << 20)));
        assert_eq!((parse("3G"), parse("1T")), (Ok(3 << 30), Ok(1 << 40)));
        for wrong in ["", "M", "-1", "+1G", "1.5G", "64MB", "64m", "MM", "1GG", "0", "1023K", " 1G"]
        {
            let text = parse(wrong).unwrap_err();
            assert!(text.contains(VARIABLE) && text.contains(&format!("\"{wrong}\"")), "{text}");
        }
        assert!(parse("99999999999999999999").is_err() && parse("99999999999T").is_err());
        assert_eq!(Limit::by_memory(None), Limit(DEFAULT));
        assert_eq!(Limit::by_memory(Some(160 << 20)), Limit(10 << 20));
        assert_eq!(Limit::by_memory(Some(1 << 40)), Limit(DEFAULT));
        assert!(available().is_some_and(|bytes| bytes > 0));
    }
}
