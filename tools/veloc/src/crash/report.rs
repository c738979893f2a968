//! What was found, as a table and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use serde::Serialize;

use super::campaign::{CampaignResults, CrashedRun, UNSEEN};
use super::judge::{CrashVerdict, Judged};
use super::mutate::Mutation;
use super::seen::{Simulated, UnseenStore};
use super::CrashCommand;
use crate::output;

/// The results.
#[derive(Debug, Serialize)]
pub(super) struct CrashReport {
    files: Vec<Simulated>,
    seed: u64,
    accesses: u64,
    /// Seconds without and with the simulation.
    seconds: (f64, f64),
    crashes: usize,
    /// Right, and gone on from a marked iteration.
    recovered: usize,
    /// Right, from the begin, though an iteration was marked.
    started_over: usize,
    /// Right, from the begin, as none was.
    unmarked: usize,
    wrong: usize,
    hung: usize,
    failed: usize,
    /// How many crashes at any access after the first mark have lost that many iterations.
    lost: BTreeMap<i64, usize>,
    /// Bytes that were stored by code that was not compiled so, and where some of them are.
    unseen: u64,
    stored: Vec<UnseenStore>,
    not_right: Vec<Judged>,
    /// Only of `--only`.
    only: Option<Judged>,
    mutations: Option<Vec<Mutation>>,
    folder: Option<PathBuf>,
    /// The options without which `--only` repeats another crash.
    #[serde(skip)]
    options: String,
}

/// Only so many wrong results are shown.
const SHOWN: usize = 10;

impl CrashReport {
    pub(super) fn new(
        crash: &CrashCommand,
        found: &CrashedRun,
        mutations: Option<Vec<Mutation>>,
        kept: CampaignResults,
    ) -> CrashReport {
        let of = |verdict| found.judged.iter().filter(move |judged| judged.verdict == verdict);
        let from_mark = |judged: &&Judged| judged.found.is_some_and(|found| found >= 0);
        let recovered = of(CrashVerdict::Right).filter(from_mark).count();
        let unmarked = of(CrashVerdict::Right)
            .filter(|judged| judged.marked < 0 && !from_mark(judged))
            .count();
        let mut lost = BTreeMap::new();
        // A wrong result has lost more than iterations, and before the first mark there is none to lose.
        let at_random = |judged: &&Judged| found.random.contains(&judged.number);
        let marked = of(CrashVerdict::Right).filter(|judged| judged.marked >= 0).filter(at_random);
        for iterations in marked.filter_map(Judged::lost) {
            *lost.entry(iterations).or_default() += 1;
        }
        CrashReport {
            files: kept.counted.files,
            seed: kept.seed,
            accesses: kept.counted.accesses,
            seconds: kept.seconds,
            crashes: found.judged.len(),
            recovered,
            started_over: of(CrashVerdict::Right).count() - recovered - unmarked,
            unmarked,
            wrong: of(CrashVerdict::Wrong).count(),
            hung: of(CrashVerdict::Hung).count(),
            failed: of(CrashVerdict::Failed).count() + found.failed,
            lost,
            unseen: found.foreign,
            stored: found.stored.clone(),
            not_right: found
                .judged
                .iter()
                .filter(|one| one.verdict != CrashVerdict::Right)
                .cloned()
                .collect(),
            only: crash.only.and_then(|_| found.judged.first().cloned()),
            mutations,
            folder: kept.folder,
            options: crash.repeated(),
        }
    }

    /// Whether there is nothing to find fault with.
    pub(super) fn good(&self) -> bool {
        self.not_right.is_empty() && self.failed == 0 && self.unseen == 0
    }

    /// As text.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        if self.unseen > 0 {
            self.add_unseen(&mut text);
        }
        let mut table = output::table(&["result", ">crashes"]);
        for (what, count) in [
            ("recovered", self.recovered),
            ("started over", self.started_over),
            ("before the first mark", self.unmarked),
            ("wrong", self.wrong),
            ("hung", self.hung),
            ("not judged", self.failed),
            ("all", self.crashes),
        ] {
            table.add_row([what.to_owned(), count.to_string()]);
        }
        let _ = writeln!(text, "{table}\n");
        let mut table = output::table(&[">iterations lost", ">crashes", ">of all so many or less"]);
        let all: usize = self.lost.values().sum();
        let (mut so_far, mut first) = (0, 0);
        let most = self.lost.keys().next_back().copied().unwrap_or(-1);
        // 0, 1, 2, 3 to 4, 5 to 8, and so on.
        while first <= most {
            let last = if first < 3 { first } else { (first - 1) * 2 };
            let count: usize = self.lost.range(first..=last).map(|(_, count)| count).sum();
            so_far += count;
            let share = 100.0 * so_far as f64 / all as f64;
            let range =
                if first == last { first.to_string() } else { format!("{first} to {last}") };
            table.add_row([range, count.to_string(), format!("{share:.1} %")]);
            first = last + 1;
        }
        let _ = writeln!(text, "{table}\n");
        let (plain, simulated) = self.seconds;
        let _ = writeln!(
            text,
            "{} accesses; {simulated:.2} s with the simulation, {plain:.2} s without",
            self.accesses
        );
        for Simulated { file, model } in &self.files {
            let _ = writeln!(text, "{file}: as a crash of model {model} leaves it");
        }
        for judged in self.not_right.iter().take(SHOWN) {
            let _ = writeln!(text, "{}", self.line(judged));
        }
        if self.not_right.len() > SHOWN {
            let _ = writeln!(text, "and {} more", self.not_right.len() - SHOWN);
        }
        if let Some(only) = self.only.iter().find(|only| only.verdict == CrashVerdict::Right) {
            let _ = writeln!(text, "{}", self.line(only));
        }
        if let Some(folder) = &self.folder {
            let _ = writeln!(text, "kept: {}", folder.display());
        }
        if let Some(mutations) = &self.mutations {
            add_mutations(&mut text, mutations);
        }
        text
    }

    fn line(&self, judged: &Judged) -> String {
        let verdict = match judged.verdict {
            CrashVerdict::Right => "right",
            CrashVerdict::Wrong => "wrong",
            CrashVerdict::Hung => "hung",
            CrashVerdict::Failed => "not judged",
        };
        let found = judged.found.map_or("unknown".to_owned(), |found| found.to_string());
        format!(
            "{verdict}: {}--only {}/{}, coin {}, marked {}, went on from {found}{}{}",
            self.options,
            self.seed,
            judged.number,
            judged.coin,
            judged.marked,
            if judged.why.is_empty() { "" } else { ": " },
            judged.why
        )
    }

    fn add_unseen(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "{} were stored by code that was not compiled for this ({UNSEEN}). Nothing below can be believed.",
            output::bytes(self.unseen)
        );
        for UnseenStore { file, bytes, offset, after } in &self.stored {
            let _ = writeln!(
                text,
                "  {} of {file}, the first at {offset}: by the function in {}, or what it calls",
                output::bytes(*bytes),
                after.shown()
            );
        }
        text.push('\n');
    }
}

fn add_mutations(text: &mut String, mutations: &[Mutation]) {
    let mut table = output::table(&["left out", "at", ">calls", ">crashes", "needed", "because"]);
    for Mutation { site, line, needed, why, crashes } in mutations {
        table.add_row([
            site.kind.clone(),
            line.clone(),
            site.calls.to_string(),
            crashes.to_string(),
            if *needed { "needed" } else { "not needed" }.to_owned(),
            why.clone().unwrap_or_else(|| "no crash was worse".to_owned()),
        ]);
    }
    let _ = writeln!(text, "\n{table}");
}
