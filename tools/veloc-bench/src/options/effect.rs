//! Options that would change nothing beside the others that are given. They are refused, so that
//! nobody takes the figures for those of something else.

use std::fmt::Display;

use anyhow::{bail, ensure, Result};
use clap::ValueEnum;
use os::size;

use super::RunOptions;
use crate::plan::{ApproachName, LevelConfiguration, RestoreSequence};
use crate::workload::GENERATED;

/// The name of a value on the command line.
pub(crate) fn name_of(value: &impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Refuses a list that has a value twice: it would be measured twice, as if there were two values.
pub(crate) fn distinct<T: PartialEq + Display>(
    option: &str,
    values: impl IntoIterator<Item = T>,
) -> Result<()> {
    let mut seen: Vec<T> = Vec::new();
    for value in values {
        ensure!(!seen.contains(&value), "{option}: {value} is there twice");
        seen.push(value);
    }
    Ok(())
}

/// Refuses options of `bench run` that would measure a point twice or have no effect.
pub(crate) fn check(options: &RunOptions) -> Result<()> {
    let amounts = &options.amounts;
    distinct("--approach", options.approach.iter().map(name_of))?;
    distinct("--configuration", options.configuration.iter().map(name_of))?;
    distinct("--processes", &options.processes)?;
    distinct("--interval", &options.interval)?;
    distinct("--host-cache", &amounts.host_cache)?;
    distinct("--touch", &options.touch)?;
    distinct("--pin", &options.pin)?;

    let approaches: Vec<String> = options.approach.iter().map(name_of).collect();
    let approaches = approaches.join(",");
    let any = |has: fn(ApproachName) -> bool| options.approach.iter().any(|name| has(*name));
    if !options.approach.contains(&ApproachName::Ours) {
        for (option, given) in
            [("--touch", &options.touch), ("--pin", &options.pin), ("--vary", &options.vary)]
        {
            if let Some(value) = given.first() {
                bail!("{option} {value}: a setting of ours, without effect on {approaches}");
            }
        }
        if let Some(most) = amounts.device_cache_most {
            let most = size::show(most);
            bail!("--device-cache-most {most}: a setting of ours, without effect on {approaches}");
        }
    }
    if let Some(bytes) = amounts.host_cache.first() {
        ensure!(
            options.configuration.contains(&LevelConfiguration::LargeHost),
            "--host-cache {}: there is no host buffer in the configuration {}",
            size::show(*bytes),
            LevelConfiguration::LargeDevice.text()
        );
    }
    if let Some(hints) = &options.hints {
        ensure!(
            any(fetches_ahead),
            "--hints {}: nothing is fetched ahead with {approaches}",
            name_of(hints)
        );
    }
    if let Some(seed) = amounts.seed {
        let generated = amounts.trace.as_deref() == Some(GENERATED);
        ensure!(
            generated || options.order == RestoreSequence::Random,
            "--seed {seed}: nothing is random without --order random or --trace {GENERATED}"
        );
    }
    Ok(())
}

/// Whether versions are fetched ahead of restores.
fn fetches_ahead(approach: ApproachName) -> bool {
    !matches!(approach, ApproachName::Uvm | ApproachName::UvmBudget | ApproachName::Ring)
}
