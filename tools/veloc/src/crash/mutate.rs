//! Leaves out the program's calls of the library in turn: which are needed.

use std::collections::HashMap;

use anyhow::{bail, Result};
use serde::Serialize;

use super::campaign::{Campaign, CrashedRun};
use super::judge::{CrashVerdict, Judged};
use super::seen::CallSite;

/// What became of the program without one of its calls.
#[derive(Debug, Serialize)]
pub(super) struct Mutation {
    #[serde(flatten)]
    pub site: CallSite,
    /// File and line, if they are known.
    pub line: String,
    pub needed: bool,
    /// What shows that it is needed.
    pub why: Option<String>,
    pub crashes: usize,
}

/// What each crash has lost with all calls, by its number.
type LostIterations = HashMap<u64, i64>;

/// What is worse than with all calls. Crash by crash: where some lose everything, none can lose more than the most.
fn worse(seed: u64, judged: &[Judged], with_all: &LostIterations) -> Option<String> {
    let at = |judged: &Judged| format!("{seed}/{}", judged.number);
    judged.iter().find_map(|judged| match (judged.verdict, judged.lost()) {
        (CrashVerdict::Wrong, _) => Some(format!("wrong result in {}: {}", at(judged), judged.why)),
        (CrashVerdict::Hung, _) => Some(format!("hung in {}", at(judged))),
        (CrashVerdict::Failed, _) => None,
        (CrashVerdict::Right, lost) => {
            let before = with_all.get(&judged.number)?;
            let lost = lost.filter(|lost| lost > before)?;
            Some(format!("{lost} iterations lost in {}, {before} with it", at(judged)))
        }
    })
}

/// Leaves out each call in turn.
pub(super) fn run(campaign: &Campaign, found: &CrashedRun) -> Result<Vec<Mutation>> {
    let lost = |judged: &Judged| judged.lost().map(|lost| (judged.number, lost));
    let with_all: LostIterations = found.judged.iter().filter_map(lost).collect();
    let sites = campaign.counted.sites.iter().enumerate();
    let one = |(nth, site): (usize, &CallSite)| {
        let enough = |judged: &[Judged]| worse(campaign.seed(), judged, &with_all).is_some();
        let found = campaign.run_with(Some(site), &format!("m{nth:04}"), Some(&enough))?;
        let without = found.itself.map(|what| format!("without it and without a crash, {what}"));
        let why = worse(campaign.seed(), &found.judged, &with_all).or(without);
        let unknown =
            found.judged.iter().filter(|judged| judged.verdict == CrashVerdict::Failed).count();
        if why.is_none() && unknown + found.failed > 0 {
            bail!(
                "without the {} at {}, crashes could not be judged",
                site.kind,
                site.place.shown()
            );
        }
        Ok(Mutation {
            site: site.clone(),
            line: site.place.shown(),
            needed: why.is_some(),
            why,
            crashes: found.judged.len(),
        })
    };
    sites.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a call that is taken for unnecessary since another crash has lost as much with it.
    #[test]
    fn a_crash_is_compared_with_itself() {
        let crash = |number: u64, found: i64| -> Judged {
            let text = format!(
                "{{\"number\":{number},\"coin\":\"0\",\"verdict\":\"right\",\"why\":\"\",\"marked\":9,\"found\":{found},\"foreign\":0}}"
            );
            serde_json::from_str(&text).unwrap()
        };
        let with_all = LostIterations::from([(1, 10), (2, 0)]);
        assert_eq!(worse(5, &[crash(1, -1), crash(2, 9)], &with_all), None);
        let why = worse(5, &[crash(1, -1), crash(2, 7)], &with_all);
        assert_eq!(why.as_deref(), Some("2 iterations lost in 5/2, 0 with it"));
    }
}
