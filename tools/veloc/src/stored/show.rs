//! Tables of stored checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use os::size;

use super::group::{StoredAnswer, StoredVersion};
use super::ranks::ranges;
use super::{Condition, CopyPlace};
use crate::output;

/// The most unusable copies that are named.
const MOST_NAMED: usize = 20;

/// The places, in the order of their columns, with their headings.
const PLACES: [(CopyPlace, &str); 4] = [
    (CopyPlace::Scratch, "scratch"),
    (CopyPlace::Persistent, "persistent"),
    (CopyPlace::Aggregated, "aggregated"),
    (CopyPlace::Parity, "parity"),
];

/// Versions that are stored alike and stand in one row.
struct TableRow<'a> {
    versions: Vec<&'a StoredVersion>,
    /// Ranks, places and state.
    cells: Vec<String>,
}

impl TableRow<'_> {
    /// Whether a version is of the same name, and a delta if these are.
    fn is_like(&self, version: &StoredVersion) -> bool {
        let one = self.versions[0];
        one.name == version.name && one.delta_of.is_empty() == version.delta_of.is_empty()
    }
}

/// All versions: a row for each, or for neighbours that are stored alike unless `each`.
pub(crate) fn table(answer: &StoredAnswer, each: bool) -> String {
    if answer.checkpoints.is_empty() {
        return "no checkpoints\n".to_owned();
    }
    let places: Vec<(CopyPlace, &str)> = PLACES
        .into_iter()
        .filter(|(place, _)| answer.checkpoints.iter().any(|v| !v.ranks_in(*place).is_empty()))
        .collect();
    let deltas = answer.checkpoints.iter().any(|version| !version.delta_of.is_empty());
    let headings: Vec<&str> = ["name", ">version", "ranks"]
        .into_iter()
        .chain(places.iter().map(|(_, heading)| *heading))
        .chain(deltas.then_some("delta of"))
        .chain([">size", ">age", "state"])
        .collect();
    let mut rows: Vec<TableRow> = Vec::new();
    for version in &answer.checkpoints {
        let cells = cells(version, &places);
        match rows.last_mut() {
            Some(row) if !each && row.cells == cells && row.is_like(version) => {
                row.versions.push(version);
            }
            _ => rows.push(TableRow { versions: vec![version], cells }),
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let mut table = output::table(&headings);
    for TableRow { versions, mut cells } in rows {
        let state = cells.pop().unwrap_or_default();
        let mut row = vec![versions[0].name.clone(), numbers(&versions)];
        row.extend(cells);
        if deltas {
            let bases = versions.iter().flat_map(|version| &version.delta_of);
            row.push(ranges(&bases.map(|base| base.unsigned_abs()).collect::<Vec<_>>()));
        }
        row.push(size::show(versions.iter().map(|version| version.bytes).sum()));
        let newest = versions.iter().flat_map(|v| &v.copies).filter_map(|copy| copy.modified).max();
        row.push(newest.map_or_else(String::new, |newest| age(now.saturating_sub(newest))));
        row.push(state);
        table.add_row(row);
    }
    format!("{table}\n{}{}{}", named(answer), out_of_order(answer), totals(answer))
}

/// A line for each name whose version with the highest number was not taken last.
fn out_of_order(answer: &StoredAnswer) -> String {
    let mut newest: BTreeMap<&str, [(u64, i32); 2]> = BTreeMap::new();
    for version in &answer.checkpoints {
        let Some(taken) = version.copies.iter().filter_map(|copy| copy.modified).max() else {
            continue;
        };
        let this = (taken, version.version);
        let [by_time, by_number] = newest.entry(&version.name).or_insert([this; 2]);
        *by_time = (*by_time).max(this);
        *by_number = if this.1 > by_number.1 { this } else { *by_number };
    }
    let later = newest.into_iter().filter(|(_, [by_time, by_number])| by_time.0 > by_number.0);
    later
        .map(|(name, [by_time, by_number])| {
            format!(
                "{name}: version {} was taken after version {}, with which a restart begins (newest_by = time: with {})\n",
                by_time.1, by_number.1, by_time.1
            )
        })
        .collect()
}

/// The versions that all ranks can restore, in a line for each name, and those that they cannot
/// restore because they are of another job.
pub(crate) fn restorable(answer: &StoredAnswer) -> String {
    let mut of_others: BTreeMap<(&str, &BTreeSet<u32>), Vec<u32>> = BTreeMap::new();
    for version in answer.checkpoints.iter().filter(|version| version.is_of_others) {
        let versions = of_others.entry((&version.name, &version.jobs)).or_default();
        versions.push(version.version.unsigned_abs());
    }
    let of_others = of_others.into_iter().map(|((name, jobs), versions)| {
        let of = if jobs.len() == 1 { "a job" } else { "jobs" };
        let jobs: Vec<_> = jobs.iter().map(|job| job.to_string()).collect();
        let but = match answer.ranks {
            Some(ranks) => format!(
                ", and this one has {ranks} (with proof = accept each rank gets the file with its \
                 number)"
            ),
            None => "; --ranks N says what a job of N ranks can restore".to_owned(),
        };
        let (versions, jobs) = (ranges(&versions), jobs.join(" and "));
        format!("{name}: the files of {versions} are of {of} of {jobs} ranks{but}\n")
    });
    let line = |(name, versions): (&String, &Vec<i32>)| {
        let versions: Vec<u32> = versions.iter().map(|version| version.unsigned_abs()).collect();
        match versions.is_empty() {
            true => format!("{name}: no version can be restored by all ranks\n"),
            false => format!("{name}: all ranks can restore {}\n", ranges(&versions)),
        }
    };
    let cut = answer.checkpoints.iter().filter_map(|version| {
        let (ranks, why) = version.bad_cut.as_ref()?;
        let StoredVersion { name, version, .. } = version;
        Some(format!("{name}: version {version} can be restored by {ranks} ranks alone: {why}\n"))
    });
    answer.restorable.iter().map(line).chain(of_others).chain(cut).collect()
}

/// Ranks, places and state of a version, as they stand in a row.
fn cells(version: &StoredVersion, places: &[(CopyPlace, &str)]) -> Vec<String> {
    let ranks: Vec<u32> = version.copies.iter().map(|copy| copy.rank).collect();
    let all = ranges(&ranks);
    let mut cells = vec![all.clone()];
    for (place, _) in places {
        let ranks = ranges(&version.ranks_in(*place));
        let routed = version.copies.iter().any(|c| c.place == *place && c.routed.is_some());
        let mut cell = if ranks == all { "all".to_owned() } else { ranks };
        if routed {
            cell += " (routed)";
        }
        cells.push(cell);
    }
    let state = match (version.bad(), version.missing_ranks.is_empty()) {
        (0, true) if version.is_of_others => "of another job".to_owned(),
        (0, true) if version.of_several_runs => "of different runs".to_owned(),
        (0, true) => match version.unchecked_ranks() {
            unchecked if unchecked.is_empty() && version.any_ranks => {
                "good, for any number of ranks".to_owned()
            }
            unchecked if unchecked.is_empty() => "good".to_owned(),
            unchecked => format!("not checked: {}", ranges(&unchecked)),
        },
        (0, false) => missing(version),
        (bad, true) => format!("{bad} bad, others are good"),
        (bad, false) => format!("{bad} bad, {}", missing(version)),
    };
    let others = version.ranks_of_others();
    let others = others.iter().map(|(user, ranks)| format!(", of user {user}: {}", ranges(ranks)));
    cells.push(state + &others.collect::<String>());
    cells
}

/// The missing ranks of a version.
fn missing(version: &StoredVersion) -> String {
    let word = if version.missing_ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {} missing", ranges(&version.missing_ranks))
}

/// The numbers of versions in one row.
fn numbers(versions: &[&StoredVersion]) -> String {
    match versions {
        [one] => one.version.to_string(),
        [first, .., last] => {
            format!("{}-{} ({})", first.version, last.version, versions.len())
        }
        [] => String::new(),
    }
}

/// Lines that name the first unusable copies.
fn named(answer: &StoredAnswer) -> String {
    let copies = answer.checkpoints.iter().flat_map(|version| {
        let copies = version.copies.iter().filter(|copy| copy.condition == Condition::Bad);
        let line = |path: &std::path::Path, reason: &str| format!("{}: {reason}\n", path.display());
        let copies = copies.map(move |copy| {
            let rank = match copy.place {
                CopyPlace::Aggregated => format!("rank {}: ", copy.rank),
                _ => String::new(),
            };
            line(&copy.path, &format!("{rank}{}", copy.reason.as_deref().unwrap_or("bad")))
        });
        copies.chain(version.damaged.iter().map(move |file| line(&file.path, &file.reason)))
    });
    let mut text: String = copies.take(MOST_NAMED).collect();
    if answer.totals.bad > MOST_NAMED {
        text += &format!("and {} more, which --json names\n", answer.totals.bad - MOST_NAMED);
    }
    text
}

fn totals(answer: &StoredAnswer) -> String {
    let totals = &answer.totals;
    format!(
        "{}, {}, {}, {}, {} bad\n",
        output::count(totals.names, "name", "names"),
        output::count(totals.versions, "version", "versions"),
        output::count(totals.copies, "copy", "copies"),
        size::show(totals.bytes),
        totals.bad
    )
}

/// A number of seconds as text.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        for (seconds, text) in [
            (0, "0 s"),
            (119, "119 s"),
            (120, "2 min"),
            (7199, "119 min"),
            (7200, "2 h"),
            (172_799, "47 h"),
            (172_800, "2 d"),
        ] {
            assert_eq!(age(seconds), text);
        }
    }
}
