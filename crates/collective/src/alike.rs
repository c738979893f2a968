//! Checks that all processes of a job have been given the same settings: where these differ, some
//! would make calls of MPI that others do not, and wait for ever.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

use super::pass::{decode, encode};
use config::{Config, Mode};
use errors::{Error, ErrorKind, Result};
use format::checksum::Checksum;
use mpi::Comm;

/// The most values of a setting that are named.
const MOST_VALUES: usize = 6;
/// The most ranks, or ranges of them, that are named for each value.
const MOST_RANGES: usize = 6;

/// What a process was given: a text for each label, or why it cannot take part.
pub type Given = std::result::Result<Vec<String>, String>;

/// Compares the settings that must be the same on all processes, as they decide which calls of MPI
/// and which files these make together. The values are passed only where they differ. Also returns the random
/// number of the run, which is not 0. Collective.
///
/// # Errors
/// MPI's. The inner error, on all processes: this process's own, another's, or what differs.
pub(super) fn configured(config: Result<Config>, comm: &Comm) -> Result<(Result<Config>, u64)> {
    let (labels, texts): (Vec<_>, Vec<_>) = config.iter().flat_map(of_all).unzip();
    let given: Given = config.as_ref().map(|_| texts).map_err(ToString::to_string);
    let bytes = encode(&given)?;
    let digest = Checksum::of(&bytes).as_bytes().first_chunk().copied().unwrap_or_default();
    // Shifted so that it can be negated.
    let digest = i64::from_le_bytes(digest) >> 1;
    let own = comm.rank()? as usize;
    let run = if own == 0 { random() } else { i64::MAX };
    let [least, greatest, run] = comm.allreduce_min([digest, -digest, run])?;
    let run = run.unsigned_abs();
    if [least, greatest] == [digest, -digest] {
        let told = |error: Error| if own == 0 { error } else { error.told_by_another() };
        return Ok((config.map_err(told), run));
    }
    let all: Vec<Given> =
        comm.allgather(&bytes)?.iter().map(|b| decode(b)).collect::<Result<_>>()?;
    let what = "the processes are configured differently";
    // The first process that cannot take part tells the user, or else the first of all.
    let first = all.iter().position(|one| one.is_err()).unwrap_or(0);
    let told = all[..own.min(all.len())].contains(&given);
    let judged = config.and_then(|config| judge(what, &labels, &all).map(|()| config));
    let judged = judged.map_err(|error| match own == first || given.is_err() && !told {
        true => error,
        false => error.told_by_another(),
    });
    Ok((judged, run))
}

/// A number above 0.
fn random() -> i64 {
    ((RandomState::new().build_hasher().finish() >> 1) as i64).max(1)
}

/// The keys that must be alike, with their values.
fn of_all(config: &Config) -> Vec<(&'static str, String)> {
    let interval = |seconds: Option<u64>| seconds.map_or("-1".to_owned(), |s| s.to_string());
    let mode = if config.mode == Mode::Sync { "sync" } else { "async" };
    // The directory itself may have another path on another host.
    let persistent = if config.persistent.is_some() { "a directory" } else { "none" };
    vec![
        ("mode", mode.to_owned()),
        ("ephemeral", config.ephemeral.to_string()),
        ("hand_over", config.hand_over.as_deref().unwrap_or("none").to_owned()),
        ("persistent", persistent.to_owned()),
        ("persistent_interval", interval(config.persistent_interval)),
        ("max_versions", config.max_versions.to_string()),
        ("scratch_versions", config.scratch_versions.to_string()),
        ("newest_by", format!("{:?}", config.newest_by).to_lowercase()),
        ("aggregated", config.aggregated.to_string()),
        ("proof", format!("{:?}", config.proof).to_lowercase()),
        ("chksum", config.chksum.to_string()),
        ("ec_interval", interval(config.ec_interval)),
        ("ec_group", config.ec_group.to_string()),
        ("ec_parity", config.ec_parity.to_string()),
    ]
}

/// Checks that all processes, in the order of their ranks, were given the same.
///
/// # Errors
/// The first process's that cannot take part; else `what`, with each label's values and ranks.
pub fn judge(what: &str, labels: &[&str], all: &[Given]) -> Result<()> {
    let mut given = Vec::with_capacity(all.len());
    for (rank, one) in all.iter().enumerate() {
        match one {
            Ok(texts) => given.push(texts),
            Err(why) => {
                return Err(Error::new(ErrorKind::Internal, format!("process {rank}: {why}")))
            }
        }
    }
    let differences: Vec<String> = labels
        .iter()
        .enumerate()
        .filter_map(|(at, label)| {
            let mut values = BTreeMap::<&str, Vec<usize>>::new();
            for (rank, texts) in given.iter().enumerate() {
                values.entry(texts.get(at).map_or("", String::as_str)).or_default().push(rank);
            }
            (values.len() > 1).then(|| difference(label, values))
        })
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(Error::invalid(format!("{what}: {}", differences.join("; "))))
}

/// The values of a label and the ranks that were given each, the lowest rank first.
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

/// Ascending ranks as a text of ranges.
pub(super) fn processes(ranks: &[usize]) -> String {
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

    fn given(text: &str) -> Given {
        let (config, _) = Config::from_text(text, |_| None).unwrap();
        Ok(of_all(&config).into_iter().map(|(_, text)| text).collect())
    }

    /// Catches a key that is not compared, and one that is compared as another.
    #[test]
    fn each_key_is_compared() {
        let compared = |line: &str| {
            let mode = if line.starts_with("mode") { "" } else { "mode = async" };
            let text = format!("{mode}\nscratch = /s\nmeta = /m\n{line}\n");
            of_all(&Config::from_text(&text, |_| None).unwrap().0)
        };
        let keys = "mode = sync, ephemeral = true, hand_over = a, persistent = /p, persistent_interval = 9, \
                    max_versions = 3, scratch_versions = 2, newest_by = time, aggregated = true, proof = off, \
                    chksum = true, ec_interval = 9, ec_group = 4, ec_parity = 2";
        let plain = compared("");
        assert_eq!(plain.len(), keys.split(", ").count());
        for line in keys.split(", ") {
            let differ =
                compared(line).into_iter().zip(&plain).filter(|(one, plain)| one != *plain);
            let differ: Vec<&str> = differ.map(|((key, _), _)| key).collect();
            assert_eq!(differ, [line.split(' ').next().unwrap()]);
        }
    }

    /// Catches paths that are compared.
    #[test]
    fn what_differs_is_named_with_the_processes() {
        let text = "mode = sync\nscratch = /a\npersistent = /b\n";
        let (config, _) = Config::from_text(text, |_| None).unwrap();
        let labels: Vec<&str> = of_all(&config).into_iter().map(|(label, _)| label).collect();
        let judged = |all: &[Given]| judge("different", &labels, all).map_err(|e| e.to_string());
        let other = given("mode = sync\nscratch = /c\npersistent = /d\ntouch_threads = 3\n");
        assert_eq!(judged(&[given(text), other]), Ok(()));
        let other = given("mode = sync\nscratch = /a\nmax_versions = 2\n");
        assert_eq!(
            judged(&[given(text), other, given(text)]).unwrap_err(),
            "different: persistent = a directory (processes 0, 2), none (process 1); \
             max_versions = 0 (processes 0, 2), 2 (process 1)"
        );
        let all = [given(text), Err("no file".to_owned()), Err("another".to_owned())];
        assert_eq!(judged(&all).unwrap_err(), "process 1: no file");
    }
}
