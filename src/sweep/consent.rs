//! Whether all processes were asked for the same.
//!
//! This comes before anything else that they do together: what follows is a matter of the name and the
//! settings, and would wait for ever if these were others elsewhere.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::settings::Settings;
use super::Reach;
use crate::error::{Error, Kind, Result};

/// The most values of a setting that are named.
const MOST_VALUES: usize = 6;
/// The most processes, or ranges of them, that are named for each.
const MOST_RANGES: usize = 6;

/// What a process was asked for: its settings as texts, or why it cannot take part.
type Asked = std::result::Result<Vec<String>, String>;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Proposal(Asked);

/// Tells the others what this process was asked for, or why that cannot be. Collective.
///
/// # Errors
/// Its own, that of another process, or what differs: on all processes.
pub fn agree(settings: Result<&Settings>, reach: &impl Reach) -> Result<()> {
    let asked = match &settings {
        Ok(settings) => Ok(settings.texts()),
        Err(error) => Err(error.to_string()),
    };
    let all = reach.with(|client| client.exchange(&Proposal(asked)));
    settings?;
    judge(&all?.into_iter().map(|proposal| proposal.0).collect::<Vec<_>>())
}

fn judge(all: &[Asked]) -> Result<()> {
    let mut agreed = Vec::with_capacity(all.len());
    for (rank, asked) in all.iter().enumerate() {
        match asked {
            Ok(texts) => agreed.push(texts),
            Err(why) => return Err(Error::new(Kind::Internal, format!("process {rank}: {why}"))),
        }
    }
    let differences: Vec<String> = Settings::LABELS
        .iter()
        .enumerate()
        .filter_map(|(at, label)| {
            let mut values = BTreeMap::<&str, Vec<usize>>::new();
            for (rank, texts) in agreed.iter().enumerate() {
                values.entry(texts.get(at).map_or("", String::as_str)).or_default().push(rank);
            }
            (values.len() > 1).then(|| difference(label, values))
        })
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the processes were given different computations: {}",
        differences.join("; ")
    )))
}

/// Who was given which value, the lowest process first.
fn difference(label: &str, values: BTreeMap<&str, Vec<usize>>) -> String {
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_unstable_by_key(|(_, ranks)| ranks[0]);
    let more = values.len().saturating_sub(MOST_VALUES);
    let words: Vec<String> = values
        .iter()
        .take(MOST_VALUES)
        .map(|(value, ranks)| format!("{value} ({})", processes(ranks)))
        .collect();
    let end = if more > 0 { format!(" and {more} more values") } else { String::new() };
    format!("{label} = {}{end}", words.join(", "))
}

/// Numbers of processes, ascending, as ranges.
fn processes(ranks: &[usize]) -> String {
    let mut ranges = Vec::<(usize, usize)>::new();
    for &rank in ranks {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let more: usize = ranges.iter().skip(MOST_RANGES).map(|(first, last)| last - first + 1).sum();
    let words: Vec<String> = ranges
        .iter()
        .take(MOST_RANGES)
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            _ => format!("{first}-{last}"),
        })
        .collect();
    let word = if ranks.len() == 1 { "process" } else { "processes" };
    let end = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{word} {}{end}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(change: impl FnOnce(&mut Settings)) -> Asked {
        let mut settings = Settings::example();
        change(&mut settings);
        Ok(settings.texts())
    }

    #[test]
    fn who_differs_is_named_with_the_values() {
        assert!(judge(&[asked(|_| {}), asked(|_| {})]).is_ok());
        let all = [
            asked(|_| {}),
            asked(|s| s.steps = 120),
            asked(|_| {}),
            asked(|s| (s.name, s.slots) = ("other".into(), 6)),
            asked(|_| {}),
        ];
        let error = judge(&all).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the processes were given different computations: name = \"shot\" (processes 0-2, 4), \
             \"other\" (process 3); steps = 100 (processes 0, 2-4), 120 (process 1); slots = 5 \
             (processes 0-2, 4), 6 (process 3)"
        );
        let failed = [asked(|_| {}), Err("rule 9".into()), Err("name is NULL".into())];
        assert_eq!(judge(&failed).unwrap_err().to_string(), "process 1: rule 9");
    }

    /// Catches a text that grows with the processes.
    #[test]
    fn of_many_the_first_are_named() {
        let all: Vec<Asked> = (0..5000).map(|rank| asked(|s| s.tag = rank % 1000)).collect();
        let text = judge(&all).unwrap_err().to_string();
        assert!(text.len() < 600 && text.contains("and 994 more values"), "{text}");
        let all: Vec<Asked> = (0..99).map(|rank| asked(|s| s.verify = rank % 2 == 1)).collect();
        let text = judge(&all).unwrap_err().to_string();
        assert!(text.contains("0 (processes 0, 2, 4, 6, 8, 10 and 44 more)"), "{text}");
    }
}
