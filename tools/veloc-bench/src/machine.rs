//! The facts about program and machine that stand in every file of results.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use os::{memory, numa};

use super::results::{MeasuredMachine, MeasuringProgram};

/// This program, now.
pub(super) fn program() -> MeasuringProgram {
    MeasuringProgram {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: env!("VELOC_COMMIT").to_owned(),
        time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        command: command(),
    }
}

/// The command line, without the folder that this program is in.
fn command() -> Vec<String> {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
    name.into_iter().chain(words).collect()
}

/// This machine. Facts that it does not tell are empty or 0.
pub(super) fn machine() -> MeasuredMachine {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processor = text("/proc/cpuinfo");
    let processor = processor.lines().find(|line| line.starts_with("model name"));
    MeasuredMachine {
        processor: processor
            .and_then(|line| line.split_once(':'))
            .map(|(_, name)| name.trim().to_owned())
            .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        processors: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        memory_nodes: numa::node_count() as u32,
        memory: memory::machine_total().unwrap_or(0),
        kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        huge_pages: text("/sys/kernel/mm/transparent_hugepage/enabled")
            .split(['[', ']'])
            .nth(1)
            .unwrap_or_default()
            .to_owned(),
    }
}

/// Memory that programs can still have, in bytes.
pub(super) fn available_memory() -> Option<u64> {
    memory::physical().ok().map(|memory| memory.available)
}

/// Processor time of this thread (`CLOCK_THREAD_CPUTIME_ID`) or process
/// (`CLOCK_PROCESS_CPUTIME_ID`), in seconds.
pub(super) fn processor_seconds(clock: libc::clockid_t) -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a struct that is ours to write to. These clocks always exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// The most memory that this process has had, in bytes.
pub(super) fn peak_memory() -> u64 {
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
        let peak = peak_memory();
        assert!(peak > 1 << 16 && peak < machine.memory);
    }
}
