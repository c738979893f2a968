//! Which versions of each name a file tier has, in the order in which they were taken, and which of
//! them are more than it is to keep (`max_versions`, `scratch_versions`).
//!
//! The order is that of taking, not that of numbers: after a rollback the newest checkpoint has a
//! lower version than some old ones, and it is the one to keep.

use std::collections::{BTreeMap, HashMap};

/// When a version was taken: larger is later. Numbers of checkpoints of this job; those found on
/// disk are older than all of them.
pub type Taken = u64;

/// The versions in one tier.
#[derive(Debug)]
pub struct Retention {
    /// How many of each name to keep; 0: all.
    limit: usize,
    names: HashMap<String, VersionsByAge>,
}

#[derive(Debug, Default)]
struct VersionsByAge {
    /// Version by when it was taken; the second number orders those found on disk.
    by_age: BTreeMap<(Taken, usize), i32>,
    ages: HashMap<i32, (Taken, usize)>,
}

impl Retention {
    /// Of a tier that keeps so many versions of each name; 0: all.
    pub fn new(limit: usize) -> Retention {
        Retention { limit, names: HashMap::new() }
    }

    /// Whether anything is ever to be removed.
    pub fn is_limited(&self) -> bool {
        self.limit > 0
    }

    /// Whether it is known what the tier has of a name.
    pub fn knows(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Says what the tier has of a name, oldest first. What this job has taken is known better already.
    pub fn set_found(&mut self, name: &str, versions: impl IntoIterator<Item = i32>) {
        let kept = self.names.entry(name.to_owned()).or_default();
        kept.forget_found();
        for (order, version) in versions.into_iter().enumerate() {
            if kept.ages.get(&version).is_none_or(|(taken, _)| *taken == 0) {
                kept.put(version, (0, order));
            }
        }
    }

    /// A version has come, in place of what was there of that version.
    pub fn put(&mut self, name: &str, version: i32, taken: Taken) {
        self.names.entry(name.to_owned()).or_default().put(version, (taken, 0));
    }

    /// A version has gone.
    pub fn remove(&mut self, name: &str, version: i32) {
        if let Some(kept) = self.names.get_mut(name) {
            kept.remove(version);
        }
    }

    /// Whether the tier has a version; `None` if that is not known here.
    pub fn has(&self, name: &str, version: i32) -> Option<bool> {
        let kept = self.names.get(name).filter(|_| self.is_limited())?;
        Some(kept.ages.contains_key(&version))
    }

    /// Forgets what the tier has of a name.
    pub fn forget(&mut self, name: &str) {
        self.names.remove(name);
    }

    /// The names of which the tier has something.
    pub fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    /// When the youngest version of a name was taken of those that were taken when `is_one` says so.
    pub fn youngest(&self, name: &str, is_one: impl Fn(Taken) -> bool) -> Option<Taken> {
        let kept = self.names.get(name)?;
        kept.by_age.keys().rev().map(|(taken, _)| *taken).find(|taken| is_one(*taken))
    }

    /// The versions of a name to be removed, oldest first, at most `most` of them. Only those taken
    /// when `counts` says so, which are none after `youngest`, are counted among those to keep:
    /// others may be missing elsewhere. As soon as there is one of these, those found on disk are counted,
    /// too: all have one that is younger. What is older than all that are kept goes, whether it counts or
    /// not, unless it `stays`.
    pub fn excess(
        &self,
        name: &str,
        most: usize,
        youngest: Taken,
        counts: impl Fn(Taken) -> bool,
        stays: impl Fn(Taken, i32) -> bool,
    ) -> Vec<i32> {
        let Some(last) = self.limit.checked_sub(1) else {
            return Vec::new();
        };
        let Some(kept) = self.names.get(name) else {
            return Vec::new();
        };
        if kept.by_age.len() <= self.limit {
            return Vec::new();
        }
        let ages = kept.by_age.range(..=(youngest, usize::MAX)).rev();
        // The youngest first, of which those found on disk are none.
        let mut is_safe = false;
        let mut counted = ages.filter(|((taken, _), _)| {
            is_safe |= counts(*taken);
            is_safe && (*taken == 0 || counts(*taken))
        });
        match counted.nth(last) {
            // What is older than the last one that stays.
            Some((&last, _)) => {
                let older = kept.by_age.range(..last);
                let older = older.filter(|((taken, _), version)| !stays(*taken, **version));
                older.take(most).map(|(_, &version)| version).collect()
            }
            None => Vec::new(),
        }
    }
}

impl VersionsByAge {
    fn forget_found(&mut self) {
        let taken = self.by_age.split_off(&(1, 0));
        for version in std::mem::replace(&mut self.by_age, taken).into_values() {
            self.ages.remove(&version);
        }
    }

    fn put(&mut self, version: i32, age: (Taken, usize)) {
        self.remove(version);
        self.by_age.insert(age, version);
        self.ages.insert(version, age);
    }

    fn remove(&mut self, version: i32) {
        if let Some(age) = self.ages.remove(&version) {
            self.by_age.remove(&age);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Upstream removes the checkpoint that was just taken, because an older run's have higher
    /// numbers.
    #[test]
    fn after_a_rollback_the_newest_is_kept() {
        let mut kept = Retention::new(2);
        kept.set_found("x", [8, 9, 10]);
        kept.put("x", 5, 1);
        assert_eq!(kept.excess("x", 99, u64::MAX, |_| true, |_, _| false), [8, 9]);
        kept.put("x", 6, 2);
        assert_eq!(kept.excess("x", 99, u64::MAX, |_| true, |_, _| false), [8, 9, 10]);
        kept.put("x", 8, 3);
        assert_eq!(kept.excess("x", 99, u64::MAX, |_| true, |_, _| false), [9, 10, 5]);
    }

    /// What comes late from an earlier job is older than what this job has taken. Catches one that takes
    /// the place of another in the order, or of a version that was taken again.
    #[test]
    fn what_is_found_later_keeps_its_age() {
        let mut kept = Retention::new(2);
        kept.set_found("x", [8, 9]);
        kept.put("x", 5, 1);
        kept.put("x", 9, 2);
        kept.set_found("x", [7, 8, 9, 5]);
        assert_eq!(kept.excess("x", 99, u64::MAX, |_| true, |_, _| false), [7, 8]);
        kept.remove("x", 9);
        assert_eq!(kept.excess("x", 99, u64::MAX, |_| true, |_, _| false), [7]);
    }

    /// What others may lack keeps nothing from staying; it goes with those that it is older than.
    #[test]
    fn only_what_all_have_counts() {
        let mut kept = Retention::new(1);
        kept.set_found("x", [8, 9]);
        for version in 1..=4 {
            kept.put("x", version, version as u64);
        }
        assert_eq!(kept.excess("x", 99, u64::MAX, |_| false, |_, _| false), [0; 0]);
        assert_eq!(kept.excess("x", 99, u64::MAX, |taken| taken == 1, |_, _| false), [8, 9]);
        assert_eq!(
            kept.excess("x", 99, u64::MAX, |taken| taken == 1 || taken == 3, |_, _| false),
            [8, 9, 1, 2]
        );
        assert_eq!(kept.excess("x", 2, 3, |taken| taken == 3, |taken, _| taken == 0), [1, 2]);
    }

    /// Catches jobs that end before they have as many versions as there may be, and so never remove what
    /// those before them have left.
    #[test]
    fn what_earlier_jobs_have_left_goes_with_the_first_that_all_have() {
        let mut kept = Retention::new(3);
        kept.set_found("x", 1..=6);
        kept.put("x", 7, 1);
        kept.put("x", 8, 2);
        kept.put("x", 9, 3);
        let excess =
            |common: u64| kept.excess("x", 99, common, |id| id > 0 && id <= common, |_, _| false);
        assert_eq!(excess(0), [0; 0]);
        assert_eq!(excess(1), [1, 2, 3, 4]);
        assert_eq!(excess(2), [1, 2, 3, 4, 5]);
        // One that somebody lacks keeps nothing from staying.
        assert_eq!(kept.excess("x", 99, 3, |id| id == 3, |_, _| false), [1, 2, 3, 4]);
    }

    proptest! {
        /// Against a list that is kept by hand.
        #[test]
        fn the_last_taken_stay(
            limit in 0..4usize,
            old in prop::collection::vec(0..8i32, 0..6),
            steps in prop::collection::vec((0..8i32, any::<bool>()), 0..40),
        ) {
            let mut kept = Retention::new(limit);
            let mut list: Vec<i32> = Vec::new();
            let put = |list: &mut Vec<i32>, version| {
                list.retain(|&other| other != version);
                list.push(version);
            };
            kept.set_found("x", old.iter().copied());
            for version in old {
                put(&mut list, version);
            }
            for (taken, (version, goes)) in steps.into_iter().enumerate() {
                if goes {
                    kept.remove("x", version);
                    list.retain(|&other| other != version);
                } else {
                    kept.put("x", version, taken as u64 + 1);
                    put(&mut list, version);
                }
                let excess = if limit == 0 { 0 } else { list.len().saturating_sub(limit) };
                prop_assert_eq!(kept.excess("x", 99, u64::MAX, |_| true, |_, _| false), &list[..excess]);
            }
        }
    }
}
