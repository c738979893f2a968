//! The configuration: can it be read, and does the node have the memory that it asks for.

use std::path::Path;

use config::{Config, Mode};
use os::memory;
use os::size;

use super::Finding;

const AREA: &str = "configuration";

/// Reads the configuration, if there is one.
pub(super) fn look(path: Option<&Path>) -> (Option<Config>, Vec<Finding>) {
    let Some(path) = path else {
        let none = Finding::ok(AREA, "file", "none given")
            .note("directories and sizes were not looked at; give --config FILE");
        return (None, vec![none]);
    };
    let file = |found: String| Finding::ok(AREA, "file", found);
    let shown = path.display();
    let read = std::fs::read_to_string(path).map_err(|error| format!("{shown}: {error}")).and_then(
        |text| {
            let read = Config::from_text(&text, |name| std::env::var(name).ok());
            read.map_err(|error| format!("{shown}: {error}"))
        },
    );
    let (config, warnings) = match read {
        Ok(read) => read,
        Err(error) => {
            let advice = "VELOC_Init fails until it is corrected";
            return (None, vec![file(error).problem(advice)]);
        }
    };
    let mode = match config.mode {
        Mode::Sync => "sync",
        Mode::Async => "async",
    };
    let mut findings = vec![file(format!("{shown}, mode = {mode}"))];
    findings.extend(warnings.into_iter().map(|warning| {
        Finding::ok(AREA, "key", warning).note("correct it or take it out; a job is told as well")
    }));
    findings.extend(config.host_cache_size.and_then(host_cache));
    (Some(config), findings)
}

/// Whether the memory for a host buffer of that size is there.
fn host_cache(asked: u64) -> Option<Finding> {
    let memory = memory::physical().ok()?;
    let shown = size::show(asked);
    let finding = |found: String| Finding::ok(AREA, "host_cache_size", found);
    Some(if asked > memory.total {
        finding(format!("{shown} of {} that this process may have", size::show(memory.total)))
            .problem(format!("set it below {} for each process", size::show(memory.available)))
    } else if asked > memory.available {
        finding(format!("{shown}; {} are free now", size::show(memory.available)))
            .note("the buffer is limited to what is free when it is filled; set it lower")
    } else {
        finding(format!("{shown} of {} that are free now", size::show(memory.available)))
    })
}
