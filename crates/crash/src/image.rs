//! What a crash leaves of a line: pure functions of what was stored, what reached memory, and the seed.

pub(crate) use os::persistent::Model;

/// The words of a line.
pub(crate) type Line = [u64; 8];

/// What becomes of stores that were not flushed and drained.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Coin {
    /// Each line, or page, is there by this chance.
    Chance(f64),
    /// What the cache had to write back is there, and nothing else.
    Cache,
    /// All is there but one to three lines, or pages: an invariant that does not ask for them accepts it.
    FewLost,
    /// One to three are there alone.
    FewKept,
}

/// The few of [`Coin::FewLost`] and [`Coin::FewKept`], by their numbers among those that may be there or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Few([u64; 3]);

/// One crash: the same one leaves the same bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crash {
    pub(crate) model: Model,
    pub(crate) coin: Coin,
    pub(crate) seed: u64,
    /// The access before which it comes.
    pub(crate) number: u64,
}

/// What is known of a line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineContents {
    /// What the program sees.
    pub(crate) stored: Line,
    /// What was flushed and drained last.
    pub(crate) drained: Line,
    /// What memory has, with what the cache has written back.
    pub(crate) evicted: Line,
}

/// One line, or page, of this many is there in part.
const TORN: u64 = 4;

/// Mixes the words into one.
pub(crate) fn mixed(words: &[u64]) -> u64 {
    words.iter().fold(0x9e37_79b9_7f4a_7c15, |mixed, word| {
        let mut z = (mixed ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// What a draw is for: no two share one.
const WHOLE: u64 = 0;
const PARTLY: u64 = 1;
const PART: u64 = 2;
const FLUSHED: u64 = 3;
const FEW: u64 = 4;

impl Few {
    /// Whether the one of this number is one of them.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.0.contains(&number)
    }
}

impl Crash {
    fn draw(&self, what: u64, file: u64, at: u64) -> u64 {
        mixed(&[self.seed, self.number, what, file, at])
    }

    fn comes(&self, chance: f64, what: u64, file: u64, at: u64) -> bool {
        let draw = (self.draw(what, file, at) >> 11) as f64 / (1_u64 << 53) as f64;
        draw < chance
    }

    /// Whether a line that was flushed and not drained is there. `nth`: one of its flushes.
    pub(crate) fn leaves_flushed(&self, file: u64, line: u64, nth: u64) -> bool {
        match self.coin {
            Coin::Chance(chance) => self.comes(chance, FLUSHED, file, mixed(&[line, nth])),
            Coin::Cache | Coin::FewLost | Coin::FewKept => false,
        }
    }

    /// One to three of so many lines or pages.
    pub(crate) fn few(&self, of: u64) -> Few {
        let count = 1 + self.draw(FEW, 0, 0) % 3;
        let one =
            |nth: u64| if nth < count { self.draw(FEW, 1, nth) % of.max(1) } else { u64::MAX };
        Few([one(0), one(1), one(2)])
    }

    /// What is left of a line of a file, by its number. `few`: it is one of the few, or in such a page.
    pub(crate) fn leaves(&self, file: u64, line: u64, known: &LineContents, few: bool) -> Line {
        let LineContents { stored, drained, evicted } = *known;
        let chance = match self.coin {
            Coin::Cache => None,
            Coin::Chance(chance) => Some(chance),
            Coin::FewLost => Some(f64::from(!few)),
            Coin::FewKept => Some(f64::from(few)),
        };
        match (self.model, chance) {
            (Model::Process, _) => stored,
            (Model::Power, None) => evicted,
            (Model::Page, None) => drained,
            (Model::Power, Some(chance)) => {
                if !self.draw(PARTLY, file, line).is_multiple_of(TORN) {
                    return if self.comes(chance, WHOLE, file, line) { stored } else { drained };
                }
                let word = |nth: usize| {
                    let comes = self.comes(chance, PART, file, line * 8 + nth as u64);
                    if comes {
                        stored[nth]
                    } else {
                        drained[nth]
                    }
                };
                std::array::from_fn(word)
            }
            (Model::Page, Some(chance)) => {
                let (page, sector) = (line / 64, line / 8);
                let comes = match !self.draw(PARTLY, file, page).is_multiple_of(TORN) {
                    true => self.comes(chance, WHOLE, file, page),
                    false => self.comes(chance, PART, file, sector),
                };
                if comes {
                    stored
                } else {
                    drained
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: Line = [1; 8];
    const NEW: Line = [2; 8];
    const LEFT: Line = [3; 8];
    const KNOWN: LineContents = LineContents { stored: NEW, drained: OLD, evicted: LEFT };

    fn crash(model: Model, coin: Coin, number: u64) -> Crash {
        Crash { model, coin, seed: 7, number }
    }

    fn lines(crash: &Crash) -> Vec<Line> {
        (0..6400).map(|line| crash.leaves(0, line, &KNOWN, false)).collect()
    }

    /// Catches a model that keeps what its crash loses, or loses what it keeps.
    #[test]
    fn what_is_certain_is_left() {
        let all = |model, coin, expected| {
            assert!(lines(&crash(model, coin, 1)).iter().all(|line| *line == expected));
        };
        for coin in [Coin::Chance(0.0), Coin::Chance(0.5), Coin::Cache] {
            all(Model::Process, coin, NEW);
        }
        all(Model::Power, Coin::Chance(0.0), OLD);
        all(Model::Page, Coin::Chance(0.0), OLD);
        all(Model::Power, Coin::Chance(1.0), NEW);
        all(Model::Power, Coin::Cache, LEFT);
        all(Model::Page, Coin::Cache, OLD);
        // What was flushed and drained is the same whatever the coin says.
        let same = LineContents { stored: OLD, drained: OLD, evicted: OLD };
        for line in 0..1000 {
            let left = crash(Model::Power, Coin::Chance(0.5), 1).leaves(0, line, &same, false);
            assert_eq!(left, OLD);
        }
    }

    /// Catches a coin that is not fair, lines and pages that are never torn, and parts of other sizes.
    #[test]
    fn the_rest_is_left_by_the_coin() {
        for (chance, expected) in [(0.5, 2406), (0.99, 6228)] {
            let power = lines(&crash(Model::Power, Coin::Chance(chance), 1));
            let whole = power.iter().filter(|line| **line == NEW).count();
            let none = power.iter().filter(|line| **line == OLD).count();
            let torn = 6400 - whole - none;
            assert!(whole.abs_diff(expected) < 200, "{chance}: {whole}");
            assert!(torn > 50 && torn < 1700, "{chance}: {torn}");
        }
        let page = lines(&crash(Model::Page, Coin::Chance(0.5), 1));
        assert!(page.iter().all(|line| *line == OLD || *line == NEW));
        assert!(page.chunks(8).all(|sector| sector.iter().all(|line| *line == sector[0])));
        let whole = |page: &&[Line]| page.iter().all(|line| *line == page[0]);
        let whole = page.chunks(64).filter(whole).count();
        assert!((60..95).contains(&whole), "{whole}");
    }

    /// Catches a few that are none, more than three, always the same, or not as many by turns; and lines that are left though
    /// they are to be lost, or the other way round.
    #[test]
    fn all_but_one_to_three_are_lost_or_kept() {
        let mut counts = [0; 4];
        let mut places = std::collections::BTreeSet::new();
        for number in 0..300 {
            for (coin, one, others) in [(Coin::FewLost, OLD, NEW), (Coin::FewKept, NEW, OLD)] {
                for model in [Model::Power, Model::Page] {
                    let crash = crash(model, coin, number);
                    let few = crash.few(1000);
                    assert_eq!(few, crash.few(1000));
                    let there: Vec<u64> = (0..2000).filter(|at| few.has(*at)).collect();
                    assert!(there.iter().all(|at| *at < 1000));
                    counts[there.len()] += 1;
                    places.extend(there);
                    assert_eq!(crash.leaves(0, 5, &KNOWN, true), one);
                    assert_eq!(crash.leaves(0, 5, &KNOWN, false), others);
                    assert!(!crash.leaves_flushed(0, 5, 0));
                }
            }
        }
        assert!(counts[0] == 0 && counts[1..].iter().all(|count| *count > 300), "{counts:?}");
        assert!(places.len() > 300, "{}", places.len());
        // Nothing may be lost: there is no such line.
        let _ = crash(Model::Power, Coin::FewLost, 1).few(0);
    }

    /// Catches crashes that cannot be repeated, and crashes that are all the same.
    #[test]
    fn a_crash_is_the_same_again_and_another_is_not() {
        let of = |seed, number| {
            lines(&Crash { seed, number, ..crash(Model::Power, Coin::Chance(0.5), 0) })
        };
        assert_eq!(of(1, 2), of(1, 2));
        assert_ne!(of(1, 2), of(1, 3));
        assert_ne!(of(1, 2), of(2, 2));
        let flushed = |number| {
            let crash = crash(Model::Power, Coin::Chance(0.5), number);
            (0..64).map(|line| crash.leaves_flushed(0, line, 0)).collect::<Vec<_>>()
        };
        assert_eq!(flushed(1), flushed(1));
        assert_ne!(flushed(1), flushed(2));
    }
}
