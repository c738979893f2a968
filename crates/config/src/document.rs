//! The keys in Markdown, for `docs/configuration.md`.

use std::fmt::Write as _;

use super::keys::{Key, Role, Task, KEYS};

/// The keys that matter to most users, and why in one line.
const FIRST: [(&str, &str); 10] = [
    ("mode", "`async`: the application goes on while checkpoints are written; `sync`: it waits"),
    ("scratch", "directory on the node's own storage; checkpoints in it survive the job"),
    ("persistent", "directory on the parallel file system; checkpoints in it survive the node"),
    (
        "ephemeral",
        "`true` if nobody uses the checkpoints after the run, as in most adjoint computations",
    ),
    ("gpu_cache_size", "device memory for checkpoints; more of it means less waiting for flushes"),
    ("host_cache_size", "host memory for checkpoints; more of it means less waiting for files"),
    ("restore_order", "`reverse` for adjoint computations; prefetches and evictions follow it"),
    ("max_versions", "how many versions stay in persistent; 2 are enough to restart"),
    ("scratch_versions", "how many versions stay in scratch; 2 are enough to restart"),
    ("ec_interval", "`0` rebuilds what a lost node had in scratch, from the other nodes"),
];

/// The sections, in their order.
const SECTIONS: [(Task, &str); 9] = [
    (Task::Places, "Where checkpoints go"),
    (Task::Memory, "Memory for checkpoints"),
    (Task::Versions, "Which versions are kept and copied"),
    (Task::Damage, "Damaged files and crashes of machines"),
    (Task::Nodes, "Loss of nodes"),
    (Task::Insight, "Seeing what it does"),
    (Task::Backend, "The backend"),
    (Task::Preparation, "How memory is made ready (for experiments)"),
    (Task::Unused, "Keys of VELOC that are not used"),
];

/// The keys in Markdown: the ones that matter most, then all by task.
pub fn markdown() -> String {
    let mut text = String::from("## The ten that matter most\n\n| key | is |\n|---|---|\n");
    // Writing to a String cannot fail.
    for (name, line) in FIRST {
        let _ = writeln!(text, "| `{name}` | {line} |");
    }
    for (task, title) in SECTIONS {
        let _ = write!(
            text,
            "\n## {title}\n\n| key | values | without it | meaning |\n|---|---|---|---|\n"
        );
        for key in KEYS.iter().filter(|key| key.task == task) {
            let Key { name, values, meaning, .. } = key;
            let _ = writeln!(text, "| `{name}` | {values} | {} | {meaning} |", without(key.role));
        }
    }
    text
}

/// The text for a key that has no value.
fn without(role: Role) -> String {
    match role {
        Role::Required => "an error".to_string(),
        Role::Optional => "none".to_string(),
        Role::Default(value) => format!("`{value}`"),
        Role::NoEffect { instead: None } => "no effect".to_string(),
        Role::NoEffect { instead: Some(other) } => format!("no effect; use {other}"),
        Role::Refused { instead } => format!("refused; use {instead}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a key whose task has no section, and one that is listed first and is gone.
    #[test]
    fn the_documentation_has_every_key() {
        let text = markdown();
        let count = |name: &str| text.matches(&format!("\n| `{name}` | ")).count();
        for key in KEYS {
            let is_first = FIRST.iter().any(|(name, _)| *name == key.name);
            assert_eq!(count(key.name), 1 + usize::from(is_first), "{}", key.name);
        }
        for (name, _) in FIRST {
            assert_eq!(count(name), 2, "{name}");
        }
    }
}
