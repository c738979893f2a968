//! Which versions of each name a file level holds, in the order in which they were taken, and which
//! exceed its limit (`max_versions`, `scratch_versions`).
//!
//! The order is by time, not by number: after a rollback the newest checkpoint has a lower version than
//! some old ones, and it is the one to keep.

use std::collections::{BTreeMap, HashMap};

/// When a version was taken; larger is later. A checkpoint number of this job; 0 for versions found on
/// disk, which are older.
pub type Taken = u64;

/// The versions of a name, each from the youngest to the oldest.
#[derive(Debug)]
pub struct Divided {
    /// Those that the limit keeps.
    pub kept: Vec<(Taken, i32)>,
    /// Those beyond it.
    pub older: Vec<(Taken, i32)>,
}

/// The versions in one level.
#[derive(Debug)]
pub struct Retention {
    /// How many versions of each name to keep; 0: all.
    limit: usize,
    names: HashMap<String, VersionsByAge>,
}

#[derive(Debug, Default)]
struct VersionsByAge {
    /// Versions by age; the second number orders those found on disk.
    by_age: BTreeMap<(Taken, usize), i32>,
    ages: HashMap<i32, (Taken, usize)>,
}

impl Retention {
    /// For a level that keeps `limit` versions of each name; 0: all.
    pub fn new(limit: usize) -> Retention {
        Retention { limit, names: HashMap::new() }
    }

    /// Whether versions are ever removed.
    pub fn is_limited(&self) -> bool {
        self.limit > 0
    }

    /// Whether the level's versions of a name are known.
    pub fn knows(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// Sets the versions found on disk, oldest first. Versions that this job has taken keep their age.
    pub fn set_found(&mut self, name: &str, versions: impl IntoIterator<Item = i32>) {
        let kept = self.names.entry(name.to_owned()).or_default();
        kept.forget_found();
        for (order, version) in versions.into_iter().enumerate() {
            if kept.ages.get(&version).is_none_or(|(taken, _)| *taken == 0) {
                kept.put(version, (0, order));
            }
        }
    }

    /// A version that was found on disk was taken right after the one of this job that was taken at `before`.
    pub fn found_after(&mut self, name: &str, version: i32, before: Taken) {
        let Some(kept) = self.names.get_mut(name) else { return };
        if let Some((0, order)) = kept.ages.get(&version).copied() {
            kept.put(version, (before, order + 1));
        }
    }

    /// Adds a version, replacing an older one of that number.
    pub fn put(&mut self, name: &str, version: i32, taken: Taken) {
        self.names.entry(name.to_owned()).or_default().put(version, (taken, 0));
    }

    /// A version was removed from the level.
    pub fn remove(&mut self, name: &str, version: i32) {
        if let Some(kept) = self.names.get_mut(name) {
            kept.remove(version);
        }
    }

    /// Whether the level has a version; `None` if unknown.
    pub fn has(&self, name: &str, version: i32) -> Option<bool> {
        let kept = self.names.get(name).filter(|_| self.is_limited())?;
        Some(kept.ages.contains_key(&version))
    }

    /// Forgets all versions of a name.
    pub fn forget(&mut self, name: &str) {
        self.names.remove(name);
    }

    /// The names with known versions.
    pub fn names(&self) -> Vec<String> {
        self.names.keys().cloned().collect()
    }

    /// When the youngest version of a name was taken, among those whose time satisfies `is_one`.
    pub fn youngest(&self, name: &str, is_one: impl Fn(Taken) -> bool) -> Option<Taken> {
        let kept = self.names.get(name)?;
        kept.by_age.keys().rev().map(|(taken, _)| *taken).find(|taken| is_one(*taken))
    }

    /// The versions of a name to remove, oldest first, at most `most`. Only versions whose time
    /// satisfies `counts` and is not after `youngest` count towards the limit: other processes may lack
    /// the rest. Once one such version exists, those found on disk count, too. Everything older than the
    /// kept versions is removed, whether it counts or not, unless it `stays`.
    pub fn excess(
        &self,
        name: &str,
        most: usize,
        youngest: Taken,
        counts: impl Fn(Taken) -> bool,
        stays: impl Fn(Taken, i32) -> bool,
    ) -> Vec<i32> {
        let Some((kept, last)) = self.last_kept(name, youngest, counts) else {
            return Vec::new();
        };
        // Removes what is older than the last version kept.
        let older = kept.by_age.range(..last);
        let older = older.filter(|((taken, _), version)| !stays(*taken, **version));
        older.take(most).map(|(_, &version)| version).collect()
    }

    /// Whether the level has versions of a name that were found on disk.
    pub fn has_found(&self, name: &str) -> bool {
        let oldest = self.names.get(name).and_then(|kept| kept.by_age.keys().next());
        oldest.is_some_and(|(taken, _)| *taken == 0)
    }

    /// The versions of a name that [`Retention::excess`] keeps, and those it removes. `None`: it removes none.
    pub fn divided(
        &self,
        name: &str,
        youngest: Taken,
        counts: impl Fn(Taken) -> bool,
        stays: impl Fn(Taken, i32) -> bool,
    ) -> Option<Divided> {
        let (kept, last) = self.last_kept(name, youngest, counts)?;
        let all = kept.by_age.iter().rev().map(|(age, version)| (*age, *version));
        let (kept, older): (Vec<_>, Vec<_>) =
            all.partition(|(age, version)| *age >= last || stays(age.0, *version));
        let bare = |all: Vec<((Taken, usize), i32)>| {
            all.into_iter().map(|((taken, _), version)| (taken, version)).collect()
        };
        (!older.is_empty()).then(|| Divided { kept: bare(kept), older: bare(older) })
    }

    /// The age of the last version that is kept because of its age.
    fn last_kept(
        &self,
        name: &str,
        youngest: Taken,
        counts: impl Fn(Taken) -> bool,
    ) -> Option<(&VersionsByAge, (Taken, usize))> {
        let last = self.limit.checked_sub(1)?;
        let kept = self.names.get(name)?;
        if kept.by_age.len() <= self.limit {
            return None;
        }
        let ages = kept.by_age.range(..=(youngest, usize::MAX)).rev();
        // Iterates from the youngest; those found on disk come last.
        let mut is_safe = false;
        let mut counted = ages.filter(|((taken, _), _)| {
            is_safe |= counts(*taken);
            is_safe && (*taken == 0 || counts(*taken))
        });
        counted.nth(last).map(|(&last, _)| (kept, last))
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

    /// Catches a version that was on disk before, and is removed for an older one that comes late.
    #[test]
    fn what_comes_late_is_no_younger_for_that() {
        let mut kept = Retention::new(2);
        kept.set_found("x", [12, 15]);
        kept.found_after("x", 15, 7);
        for (version, taken) in [(13, 6), (14, 7)] {
            kept.put("x", version, taken);
        }
        assert_eq!(kept.excess("x", 99, u64::MAX, |_| true, |_, _| false), [12, 13]);
        kept.found_after("x", 14, 9);
        kept.put("x", 16, 8);
        assert_eq!(kept.excess("x", 99, u64::MAX, |_| true, |_, _| false), [12, 13, 14]);
    }

    /// Upstream removes the checkpoint that was just taken, because an older run's versions have higher
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

    /// Versions of an earlier job that are found late are older than this job's. Catches one that
    /// takes another's position in the order, or that of a version taken again.
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

    /// A version that others may lack does not count towards the limit, and goes with older ones.
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

    /// Catches jobs that end before they reach the limit, and so never remove what earlier jobs left.
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
        // A version that another process lacks does not count.
        assert_eq!(kept.excess("x", 99, 3, |id| id == 3, |_, _| false), [1, 2, 3, 4]);
    }

    proptest! {
        /// Compares with a plain list.
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
