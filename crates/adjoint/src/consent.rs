//! Whether all processes were asked for the same.
//!
//! This comes before anything else that they do together: what follows is a matter of the name and the
//! settings, and would wait for ever if these were others elsewhere.

use serde::{Deserialize, Serialize};

use super::settings::Settings;
use super::Reach;
use client::alike::{self, Given};
use os::error::Result;

/// What a process was asked for: its settings as texts, or why it cannot take part.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Proposal(Given);

/// Tells the others what this process was asked for, or why that cannot be. Collective.
///
/// # Errors
/// Its own, that of another process, or what differs: on all processes.
pub fn agree(settings: Result<&Settings>, reach: &impl Reach) -> Result<()> {
    let asked = match &settings {
        Ok(settings) => Ok(settings.texts()),
        Err(error) => Err(error.to_string()),
    };
    let all = reach.with(|client| Ok((client.exchange(&Proposal(asked))?, client.rank()?)));
    settings?;
    let (all, rank) = all?;
    let all: Vec<Given> = all.into_iter().map(|proposal| proposal.0).collect();
    // Who has failed tells the user of it, else the first process.
    judge(&all).map_err(|error| match rank == 0 && all.iter().all(|one| one.is_ok()) {
        true => error,
        false => error.told_by_another(),
    })
}

fn judge(all: &[Given]) -> Result<()> {
    alike::judge("the processes were given different computations", &Settings::LABELS, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(change: impl FnOnce(&mut Settings)) -> Given {
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
        let all: Vec<Given> = (0..5000).map(|rank| asked(|s| s.tag = rank % 1000)).collect();
        let text = judge(&all).unwrap_err().to_string();
        assert!(text.len() < 600 && text.contains("and 994 more values"), "{text}");
        let all: Vec<Given> = (0..99).map(|rank| asked(|s| s.verify = rank % 2 == 1)).collect();
        let text = judge(&all).unwrap_err().to_string();
        assert!(text.contains("0 (processes 0, 2, 4, 6, 8, 10 and 44 more)"), "{text}");
    }
}
