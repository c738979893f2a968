//! Keys of the library's configuration as options: `--touch`, `--pin` and `--vary`.

use anyhow::{anyhow, bail, ensure, Context, Result};
use config::{Config, Role, KEYS};

use super::effect::distinct;
use crate::plan::{ApproachName, PointPlan};

/// Keys that every plan sets, and the option that each follows.
const PLANNED: [(&str, &str); 8] = [
    ("mode", "it is async in every run"),
    ("ephemeral", "it is true in every run"),
    ("gpu_cache_size", "say --device-cache"),
    ("host_cache_size", "say --host-cache"),
    ("restore_order", "say --order"),
    ("touch", "say --touch"),
    ("pin", "say --pin"),
    ("trace", "set VELOC_TRACE, which gives each run a file of its own"),
];

/// The value of a key that is not given.
pub(crate) fn default_of(key: &str) -> &'static str {
    let role = KEYS.iter().find(|known| known.name == key).map(|known| known.role);
    match role {
        Some(Role::Default(value)) => value,
        _ => "",
    }
}

/// Every combination of the values of `--vary`, as settings.
pub(super) fn variants(vary: &[String]) -> Result<Vec<Vec<String>>> {
    let mut all: Vec<Vec<String>> = vec![Vec::new()];
    let mut names: Vec<String> = Vec::new();
    for text in vary {
        let (key, values) =
            text.split_once('=').with_context(|| format!("--vary {text}: wanted is KEY=LIST"))?;
        let key = key.trim().to_ascii_lowercase();
        if let Some((_, instead)) = PLANNED.iter().find(|(name, _)| *name == key) {
            bail!("--vary {text}: {key} cannot be varied so: {instead}");
        }
        ensure!(
            KEYS.iter().any(|known| known.name == key),
            "--vary {text}: the library has no key {key}; docs/configuration.md has them all"
        );
        let values: Vec<&str> = values.split(',').map(str::trim).collect();
        for value in &values {
            check(&format!("{key} = {value}\n"))
                .map_err(|error| anyhow!("--vary {key}={value}: {error}"))?;
        }
        distinct(&format!("--vary {key}"), &values)?;
        ensure!(!names.contains(&key), "--vary {text}: {key} is varied already");
        all = all
            .iter()
            .flat_map(|before| {
                let setting = |value: &&str| [&before[..], &[format!("{key} = {value}")]].concat();
                values.iter().map(setting).collect::<Vec<_>>()
            })
            .collect();
        names.push(key);
    }
    Ok(all)
}

/// The error or warning of the library for a configuration with these lines.
fn check(lines: &str) -> Result<(), String> {
    let text = format!("mode = async\nephemeral = true\n{lines}");
    let (_, warnings) = Config::from_text(&text, |_| None).map_err(|error| error.to_string())?;
    warnings.into_iter().next().map_or(Ok(()), Err)
}

/// The plans with all combinations of keys, for this library; the other approaches have no keys.
pub(super) fn with_keys(
    base: PointPlan,
    touches: &[String],
    pins: &[String],
    variants: &[Vec<String>],
) -> Vec<PointPlan> {
    if base.approach != ApproachName::Ours {
        return vec![base];
    }
    let mut plans = Vec::new();
    for touch in touches {
        for pin in pins {
            for settings in variants {
                plans.push(PointPlan {
                    touch: touch.clone(),
                    pin: pin.clone(),
                    settings: settings.clone(),
                    ..base.clone()
                });
            }
        }
    }
    plans
}

/// Refuses settings that the library would refuse or ignore, before anything is measured.
pub(super) fn check_keys(plans: &[PointPlan]) -> Result<()> {
    for plan in plans.iter().filter(|plan| plan.approach == ApproachName::Ours) {
        for (option, key, value) in [("--touch", "touch", &plan.touch), ("--pin", "pin", &plan.pin)]
        {
            check(&format!("{key} = {value}\n"))
                .map_err(|error| anyhow!("{option} {value}: {error}"))?;
        }
        // Each setting has been checked alone; some exclude each other.
        let lines = format!("touch = {}\npin = {}\n", plan.touch, plan.pin);
        check(&(lines + &plan.settings.join("\n") + "\n"))
            .map_err(|error| anyhow!("{}: {error}", plan.settings.join(", ")))?;
    }
    Ok(())
}
