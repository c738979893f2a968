//! What measured, and on which machine.

use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use veloc_client::platform::memory::{self, HugePages};
use veloc_client::platform::{affinity, numa};

use super::results::{Machine, Program};

/// This program, now.
pub fn program() -> Program {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Program {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("VELOC_COMMIT").to_owned(),
        time,
        command: std::env::args().skip(1).collect(),
    }
}

/// This machine.
pub fn machine() -> Result<Machine> {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let huge_pages = match memory::huge_pages() {
        HugePages::Always => "always",
        HugePages::OnAdvice => "madvise",
        HugePages::Never => "never",
    };
    Ok(Machine {
        processor: processor_in(&cpuinfo).unwrap_or("unknown").to_owned(),
        processors: affinity::usable_cpus() as u32,
        memory_nodes: numa::node_count() as u32,
        memory: memory::physical()?.total,
        kernel: release.trim().to_owned(),
        huge_pages: huge_pages.to_owned(),
    })
}

/// The processor's name; aarch64 has none in this file.
fn processor_in(cpuinfo: &str) -> Option<&str> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_the_first_one_named() {
        let text =
            "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Some CPU @ 2 GHz\nprocessor\t: 1\n";
        assert_eq!(processor_in(text), Some("Some CPU @ 2 GHz"));
        assert_eq!(processor_in("CPU part\t: 0xd4f\n"), None);
    }
}
