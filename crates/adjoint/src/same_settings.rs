//! Checks that all processes have the same settings.
//!
//! This comes first: all further collective steps depend on the name and the settings, and would hang if
//! they differed.

use serde::{Deserialize, Serialize};

use super::settings::AdjointSettings;
use super::ClientAccess;
use collective::alike::{self, Given};
use errors::Result;

/// A process's settings as texts, or why it cannot take part.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Proposal(Given);

/// Exchanges the settings. Collective.
///
/// # Errors
/// This process's error, another's, or the differences; on all processes.
pub(crate) fn check(settings: Result<&AdjointSettings>, access: &impl ClientAccess) -> Result<()> {
    let asked = match &settings {
        Ok(settings) => Ok(settings.texts()),
        Err(error) => Err(error.to_string()),
    };
    let all = access.with(|client| {
        Ok((client.processes().exchange(&Proposal(asked))?, client.processes().rank()?))
    });
    settings?;
    let (all, rank) = all?;
    let all: Vec<Given> = all.into_iter().map(|proposal| proposal.0).collect();
    // The process that has failed tells the user, or else rank 0.
    compare(&all).map_err(|error| match rank == 0 && all.iter().all(|one| one.is_ok()) {
        true => error,
        false => error.told_by_another(),
    })
}

fn compare(all: &[Given]) -> Result<()> {
    alike::judge("the processes were given different computations", &AdjointSettings::LABELS, all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(change: impl FnOnce(&mut AdjointSettings)) -> Given {
        let mut settings = AdjointSettings::example();
        change(&mut settings);
        Ok(settings.texts())
    }

    #[test]
    fn who_differs_is_named_with_the_values() {
        assert!(compare(&[asked(|_| {}), asked(|_| {})]).is_ok());
        let all = [
            asked(|_| {}),
            asked(|s| s.steps = 120),
            asked(|_| {}),
            asked(|s| (s.name, s.slots) = ("other".into(), 6)),
            asked(|_| {}),
        ];
        let error = compare(&all).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the processes were given different computations: name = \"shot\" (processes 0-2, 4), \
             \"other\" (process 3); steps = 100 (processes 0, 2-4), 120 (process 1); slots = 5 \
             (processes 0-2, 4), 6 (process 3)"
        );
        let failed = [asked(|_| {}), Err("rule 9".into()), Err("name is NULL".into())];
        assert_eq!(compare(&failed).unwrap_err().to_string(), "process 1: rule 9");
    }

    /// Catches a text that grows with the number of processes.
    #[test]
    fn of_many_the_first_are_named() {
        let all: Vec<Given> = (0..5000).map(|rank| asked(|s| s.tag = rank % 1000)).collect();
        let text = compare(&all).unwrap_err().to_string();
        assert!(text.len() < 600 && text.contains("and 994 more values"), "{text}");
        let all: Vec<Given> = (0..99).map(|rank| asked(|s| s.verify = rank % 2 == 1)).collect();
        let text = compare(&all).unwrap_err().to_string();
        assert!(text.contains("0 (processes 0, 2, 4, 6, 8, 10 and 44 more)"), "{text}");
    }
}
