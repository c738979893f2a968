//! A cache of 64-byte lines: which it holds, which of them are dirty, and which one leaves it. It has no bytes.

/// What a new line takes the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replace {
    /// The line of its set that was used the longest ago.
    Lru,
    /// Any line of its set.
    Random,
}

/// What an access did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    /// The line was there.
    Hit,
    /// It was there, and clean until this store.
    Dirtied,
    /// It was not; this dirty line has left the cache for it.
    Missed(Option<u64>),
}

/// The cache. A line is its address divided by 64.
#[derive(Debug)]
pub(crate) struct Cache {
    ways: usize,
    /// The number of sets less one: they are a power of two.
    mask: u64,
    replace: Replace,
    random: u64,
    clock: u64,
    /// For each set, the way that was used last.
    newest: Vec<u8>,
    /// For each way, `line * 2`, and 1 if it is dirty.
    lines: Vec<u64>,
    used: Vec<u64>,
}

const NONE: u64 = u64::MAX;

impl Cache {
    /// None yet.
    pub(crate) const fn none() -> Cache {
        Cache {
            ways: 0,
            mask: 0,
            replace: Replace::Lru,
            random: 0,
            clock: 0,
            newest: Vec::new(),
            lines: Vec::new(),
            used: Vec::new(),
        }
    }

    /// A cache of `bytes`; `None` if the sets are no power of two, or the ways not 1 to 64.
    pub(crate) fn new(bytes: u64, ways: usize, replace: Replace, seed: u64) -> Option<Cache> {
        let sets = (1..=64).contains(&ways).then(|| bytes / 64 / ways as u64)?;
        if !sets.is_power_of_two() || sets * 64 * ways as u64 != bytes {
            return None;
        }
        let all = sets as usize * ways;
        Some(Cache {
            ways,
            mask: sets - 1,
            replace,
            random: seed | 1,
            clock: 0,
            newest: vec![0; sets as usize],
            lines: vec![NONE; all],
            used: vec![0; all],
        })
    }

    /// Reads or writes a line.
    #[inline(always)]
    pub(crate) fn touch(&mut self, line: u64, write: bool) -> Touched {
        let set = (line & self.mask) as usize;
        let way = set * self.ways + self.newest[set] as usize;
        if self.lines[way] | u64::from(!write) == line * 2 + 1 {
            return Touched::Hit;
        }
        self.search(set, line, write)
    }

    #[inline(never)]
    fn search(&mut self, set: usize, line: u64, write: bool) -> Touched {
        self.clock += 1;
        let first = set * self.ways;
        let lines = &mut self.lines[first..first + self.ways];
        let found = lines.iter().position(|held| held | 1 == line * 2 + 1);
        let way = found.unwrap_or_else(|| match self.replace {
            Replace::Random => {
                self.random ^= self.random << 13;
                self.random ^= self.random >> 7;
                self.random ^= self.random << 17;
                let empty = lines.iter().position(|held| *held == NONE);
                empty.unwrap_or((self.random >> 32) as usize % self.ways)
            }
            Replace::Lru => {
                let used = &self.used[first..first + self.ways];
                used.iter().enumerate().min_by_key(|(_, used)| **used).map_or(0, |(way, _)| way)
            }
        });
        self.newest[set] = way as u8;
        self.used[first + way] = self.clock;
        if found.is_some() {
            let before = lines[way];
            lines[way] |= u64::from(write);
            return if lines[way] == before { Touched::Hit } else { Touched::Dirtied };
        }
        let left = lines[way];
        lines[way] = line * 2 + u64::from(write);
        Touched::Missed((left != NONE && left & 1 == 1).then_some(left / 2))
    }

    /// Whether a line is there and dirty.
    pub(crate) fn is_dirty(&self, line: u64) -> bool {
        let first = (line & self.mask) as usize * self.ways;
        self.lines[first..first + self.ways].contains(&(line * 2 + 1))
    }

    /// Makes a line clean, and says whether it was dirty.
    pub(crate) fn clean(&mut self, line: u64) -> bool {
        let first = (line & self.mask) as usize * self.ways;
        let lines = &mut self.lines[first..first + self.ways];
        let dirty = lines.iter_mut().find(|held| **held == line * 2 + 1);
        dirty.map(|held| *held -= 1).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{HashMap, HashSet};

    /// A set as a list, the line that was used last in front.
    #[derive(Default)]
    struct Model(HashMap<u64, Vec<(u64, bool)>>);

    impl Model {
        fn touch(&mut self, sets: u64, ways: usize, line: u64, write: bool) -> Touched {
            let set = self.0.entry(line % sets).or_default();
            let found = set.iter().position(|(held, _)| *held == line).map(|at| set.remove(at));
            set.insert(0, (line, write || found.is_some_and(|(_, dirty)| dirty)));
            let left = if set.len() > ways { set.pop() } else { None };
            match found {
                Some((_, dirty)) if write && !dirty => Touched::Dirtied,
                Some(_) => Touched::Hit,
                None => Touched::Missed(left.filter(|(_, dirty)| *dirty).map(|(line, _)| line)),
            }
        }
    }

    proptest! {
        /// Catches a line that leaves out of turn, or a dirty one that leaves unseen; and a line made clean that stays dirty.
        #[test]
        fn as_a_list_for_each_set(
            ways in 1_usize..5,
            steps in prop::collection::vec((0_u64..40, 0..4), 0..300),
        ) {
            let mut cache = Cache::new(4 * 64 * ways as u64, ways, Replace::Lru, 1).unwrap();
            let mut model = Model::default();
            for (line, what) in steps {
                if what == 3 {
                    let set = model.0.entry(line % 4).or_default();
                    let dirty = set.iter_mut().find(|(held, dirty)| *held == line && *dirty);
                    prop_assert_eq!(cache.is_dirty(line), dirty.is_some());
                    prop_assert_eq!(cache.clean(line), dirty.map(|held| held.1 = false).is_some());
                    prop_assert!(!cache.is_dirty(line));
                } else {
                    let expected = model.touch(4, ways, line, what == 0);
                    prop_assert_eq!(cache.touch(line, what == 0), expected);
                }
            }
        }

        /// Catches random replacement that loses a dirty line, or leaves ways empty.
        #[test]
        fn random_replacement_loses_nothing(
            seed in any::<u64>(),
            steps in prop::collection::vec((0_u64..40, any::<bool>()), 0..300),
        ) {
            let mut cache = Cache::new(2 * 64 * 4, 4, Replace::Random, seed).unwrap();
            let (mut held, mut dirty) = (HashSet::new(), HashSet::new());
            for (line, write) in steps {
                let touched = cache.touch(line, write);
                if let Touched::Missed(Some(left)) = touched {
                    prop_assert!(dirty.remove(&left) && left % 2 == line % 2);
                }
                if write {
                    dirty.insert(line);
                }
                held.insert(line);
                for line in &dirty {
                    prop_assert!(cache.is_dirty(*line));
                }
                let of_set = held.iter().filter(|other| *other % 2 == line % 2).count();
                prop_assert!(of_set > 4 || !matches!(touched, Touched::Missed(Some(_))));
            }
        }
    }

    /// Catches sizes that are accepted though lines would share a wrong set.
    #[test]
    fn sizes_that_are_no_cache() {
        for (bytes, ways) in [(0, 1), (64, 0), (3 * 64, 1), (100, 1), (1 << 20, 65), (64 * 8, 16)] {
            assert!(Cache::new(bytes, ways, Replace::Lru, 0).is_none(), "{bytes} {ways}");
        }
        assert!(Cache::new(8 << 20, 16, Replace::Lru, 0).is_some());
    }
}
