//! What ran where: the facts that stand in every file of results.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use veloc_client::platform::mapping::Mapping;
use veloc_client::platform::memory;

use super::results::{Machine, Program};

/// This program, now.
pub fn program() -> Program {
    Program {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("VELOC_COMMIT").to_owned(),
        time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        command: std::env::args().collect(),
    }
}

/// This machine. What it does not tell is empty or 0.
pub fn machine() -> Machine {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processor = text("/proc/cpuinfo");
    let processor = processor.lines().find(|line| line.starts_with("model name"));
    Machine {
        processor: processor
            .and_then(|line| line.split_once(':'))
            .map(|(_, name)| name.trim().to_owned())
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        processors: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        memory_nodes: fs::read_dir("/sys/devices/system/node").map_or(1, |entries| {
            let nodes = entries.flatten().filter(|entry| {
                let name = entry.file_name();
                let digits = name.to_string_lossy().strip_prefix("node").map(str::to_owned);
                digits.is_some_and(|digits| digits.parse::<u32>().is_ok())
            });
            nodes.count() as u32
        }),
        memory: meminfo("MemTotal").unwrap_or(0),
        kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled")
            .split(['[', ']'])
            .nth(1)
            .unwrap_or_default()
            .to_owned(),
    }
}

/// What is touched in one go.
const STEP: u64 = 256 << 20;

/// How many of `wanted` bytes of memory programs can have. A machine that is given its memory as it
/// needs it says little of that before: where less is available, it is used, as far as there is any,
/// and what has come by then is counted.
pub fn memory_for(wanted: u64) -> u64 {
    if available_memory().is_none_or(|available| available >= wanted) {
        return wanted;
    }
    let Ok(mapping) = Mapping::reserve(wanted as usize) else { return 0 };
    let mut had = 0;
    // Some is left to others, and one more second to whoever brings memory.
    let can_go_on =
        || memory::physical().is_ok_and(|found| found.available > found.total / 16 + STEP);
    while had < wanted
        && (can_go_on() || {
            sleep(Duration::from_secs(1));
            can_go_on()
        })
    {
        let end = wanted.min(had + STEP);
        if mapping.populate(had as usize..end as usize).is_err() {
            break;
        }
        had = end;
    }
    had
}

/// Memory that programs can still have, in bytes.
pub fn available_memory() -> Option<u64> {
    meminfo("MemAvailable")
}

fn meminfo(key: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The most memory that this process has had, in bytes.
pub fn peak_memory() -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.trim()
        .strip_suffix("kB")
        .and_then(|kib| kib.trim().parse().ok())
        .map_or(0, |kib: u64| kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_memory_and_so_has_this_process() {
        let machine = machine();
        assert!(machine.memory > 1 << 20 && machine.processors > 0 && machine.memory_nodes > 0);
        assert!(available_memory().is_some_and(|bytes| bytes <= machine.memory));
        assert_eq!(memory_for(1 << 20), 1 << 20);
        let peak = peak_memory();
        assert!(peak > 1 << 16 && peak < machine.memory);
    }
}
