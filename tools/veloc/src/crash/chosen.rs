//! Which accesses a campaign crashes before.

use std::collections::BTreeSet;

/// The accesses to crash before.
pub(super) struct Chosen {
    pub random: BTreeSet<u64>,
    /// Just before calls of the library, or behind them.
    pub around: BTreeSet<u64>,
}

/// Half of the crashes come around calls, the same number at each place that calls; the others at any accesses.
pub(super) fn chosen<'a>(
    seed: u64,
    runs: u64,
    accesses: u64,
    moments: impl Iterator<Item = &'a [u64]>,
) -> Chosen {
    let (mut random, mut around) = (BTreeSet::new(), BTreeSet::new());
    if accesses <= runs {
        return Chosen { random: (1..=accesses).collect(), around };
    }
    let mut state = seed;
    let mut next = || {
        // SplitMix64.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    // A call may end behind the last access.
    let known = |of: &[u64]| of.iter().copied().filter(|moment| *moment <= accesses).collect();
    let mut places: Vec<Vec<u64>> = moments.map(known).collect();
    while (around.len() as u64) < runs / 2 && places.iter().any(|place| !place.is_empty()) {
        for place in places.iter_mut().filter(|place| !place.is_empty()) {
            let moment = place.swap_remove((next() % place.len() as u64) as usize);
            if (around.len() as u64) < runs / 2 {
                around.insert(moment);
            }
        }
    }
    while ((random.len() + around.len()) as u64) < runs {
        let access = 1 + next() % accesses;
        if !around.contains(&access) {
            random.insert(access);
        }
    }
    Chosen { random, around }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches crashes that are chosen twice or beyond the end; seeds that choose the same; and calls that no crash, or not
    /// its half of them, comes around: also where one place calls a thousand times and another once.
    #[test]
    fn half_of_the_crashes_come_around_calls() {
        let many: Vec<u64> = (1..1000).map(|nth| nth * 900).collect();
        let moments = [&many[..], &[5, 1_000_000, 1_000_001]];
        let of = |seed, runs, accesses| {
            let Chosen { random, around } = chosen(seed, runs, accesses, moments.into_iter());
            assert!(random.is_disjoint(&around));
            assert!(random.iter().chain(&around).all(|access| (1..=accesses).contains(access)));
            assert_eq!((random.len() + around.len()) as u64, runs.min(accesses));
            (random, around)
        };
        let (random, around) = of(1, 1000, 1_000_000);
        assert_eq!((random.len(), around.len()), (500, 500));
        assert!(around.contains(&5) && around.contains(&1_000_000));
        assert!(around.iter().all(|access| moments.concat().contains(access)));
        assert_eq!(of(1, 1000, 1_000_000), (random.clone(), around.clone()));
        let (other, other_around) = of(2, 1000, 1_000_000);
        assert!(other != random && other_around != around);
        // No more than there are.
        assert_eq!(of(1, 5000, 1_000_000).1.len(), 1001);
        assert_eq!(of(1, 1000, 5).0, (1..=5).collect());
        assert_eq!(of(1, 1, 1_000_000).1.len(), 0);
    }
}
