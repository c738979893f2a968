//! The cost of giving up a stored state of a pass whose end is not known.

use super::binomial::advances;
use super::online::Online;

/// For how many of the last states the loss is computed.
const CONSIDERED: usize = 64;

/// Known losses by the index of the state among the stored ones, so that they are not computed again at each
/// step.
#[derive(Clone, Debug, Default)]
pub(super) struct Losses(Vec<Option<Loss>>);

/// The loss of a state between two others.
#[derive(Clone, Copy, Debug)]
struct Loss {
    /// What the loss depends on: the three states, the slots for the piece before the state, and the
    /// repetition number of the pass.
    of: [u64; 5],
    /// Whether the steps between the other two states would fit into one such piece.
    fits: bool,
    /// The additional advances for the piece.
    more: i128,
    /// The advances saved behind the state if an earlier one is given up, as there is a slot more then.
    behind: i128,
}

impl Loss {
    /// `range` is the longest possible length of the piece.
    fn new(of: [u64; 5], range: u128) -> Loss {
        let [from, middle, to, slots, _] = of;
        let cost = |length: u64, slots: u64| match slots {
            0 => 0,
            _ => advances(length, slots) as i128,
        };
        // All less than MAX_STEPS squared.
        let (before, fewer) = (cost(middle - from, slots), cost(to - middle, slots - 1));
        Loss {
            of,
            fits: u128::from(to - from) <= range,
            more: cost(to - from, slots) - before - fewer,
            behind: cost(to - middle, slots) - fewer,
        }
    }
}

impl Losses {
    fn of(&mut self, place: usize, of: [u64; 5]) -> Loss {
        self.0.resize(CONSIDERED, None);
        match &mut self.0[place % CONSIDERED] {
            Some(known) if known.of == of => *known,
            other => {
                let [_, _, _, slots, repetition] = of;
                *other.insert(Loss::new(of, range(slots, repetition)))
            }
        }
    }
}

/// How many steps the piece behind a stored state can have with `slots` slots, including its own.
fn range(slots: u64, repetition: u64) -> u128 {
    super::binomial::beta(slots, repetition - 1)
}

impl Online {
    /// The index of the stored state that is given up for `state` at the present repetition number; one
    /// beyond the last stands for `state` itself. `None`: the number must grow.
    pub(super) fn given_up_within_repetition(&mut self, state: u64) -> Option<usize> {
        let count = self.stored.len();
        let kept = self.is_next_fixed(state);
        // The least cost of giving one up, and what the pieces behind it save.
        let (mut best, mut behind) = (None::<(i128, usize)>, 0);
        for (looked, i) in (1..=count).rev().enumerate() {
            let is_fixed = if i == count { kept } else { self.is_fixed(self.stored[i].state) };
            if looked >= CONSIDERED {
                if let Some((_, place)) = best {
                    return Some(place);
                }
                if !is_fixed && self.loss(i, state).fits {
                    return Some(i);
                }
                continue;
            }
            let loss = self.loss(i, state);
            // Of equals the last, which may be the state that is not stored yet.
            let more = loss.more + behind;
            if loss.fits && !is_fixed && best.is_none_or(|(least, _)| more < least) {
                best = Some((more, i));
            }
            behind += loss.behind;
        }
        best.map(|(_, place)| place)
    }

    /// The cost of giving up the cheapest of the stored states considered, except the last, without the part
    /// that depends on where the pass is.
    pub(super) fn cheapest_other(&mut self) -> Option<i128> {
        let (mut behind, mut best) = (0, None::<i128>);
        for i in (1..self.stored.len() - 1).rev().take(CONSIDERED - 2) {
            let loss = self.loss(i, u64::MAX);
            if loss.fits && !self.is_fixed(self.stored[i].state) {
                let more = loss.more + behind;
                best = Some(best.map_or(more, |least| least.min(more)));
            }
            behind += loss.behind;
        }
        best
    }

    /// The loss of stored state number `i`, with the pass at `state`, which is stored or lost behind them.
    fn loss(&mut self, i: usize, state: u64) -> Loss {
        let count = self.stored.len();
        // The stored states, this one, and the next one, where the pass may end.
        let place = |i: usize| match self.stored.get(i) {
            Some(stored) => stored.state,
            None => state + (i - count) as u64,
        };
        let slots = (count - i + 1) as u64;
        let of = [place(i - 1), place(i), place(i + 1), slots, self.repetition];
        match i + 1 < count {
            true => self.losses.of(i, of),
            false => Loss::new(of, range(slots, self.repetition)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same by definition: each of the last states is left out in turn, and all pieces are added up as if
    /// the pass ended one step later. `may_go` says whether a state can be given up at all.
    fn by_definition(online: &Online, state: u64) -> Option<usize> {
        let (slots, count) = (online.slots, online.stored.len());
        let mut all: Vec<u64> = online.stored.iter().map(|stored| stored.state).collect();
        all.extend([state, state + 1]);
        let may_go = |i: usize| {
            let longest = super::super::binomial::beta(slots - i as u64 + 1, online.repetition - 1);
            let fixed =
                if i == count { online.is_next_fixed(all[i]) } else { online.is_fixed(all[i]) };
            !fixed && u128::from(all[i + 1] - all[i - 1]) <= longest
        };
        let cost = |i: usize| -> u128 {
            let left: Vec<u64> = [&all[..i], &all[i + 1..]].concat();
            let lengths = left.windows(2).map(|pair| pair[1] - pair[0]);
            lengths.zip((1..=slots).rev()).map(|(length, slots)| advances(length, slots)).sum()
        };
        let first = (count + 1).saturating_sub(CONSIDERED).max(1);
        let best = (first..=count).filter(|i| may_go(*i)).min_by_key(|i| (cost(*i), count - i));
        best.or_else(|| (1..first).rev().find(|i| may_go(*i)))
    }

    /// Catches a loss reused for other states or another number of them, one with the slots of another piece,
    /// a kept state that is given up, and of equals another than the last.
    #[test]
    fn what_is_given_up_is_what_costs_least() {
        for (slots, steps) in
            [(1, 20), (2, 800), (3, 800), (4, 800), (7, 900), (30, 1200), (70, 2900)]
        {
            let mut online = Online::new(slots);
            let mut given_up = 0;
            while online.at() != Some(steps) {
                let Some(state) = online.at() else { break };
                if !online.decided && online.stored.len() as u64 == slots && slots > 1 {
                    let found = online.given_up_within_repetition(state);
                    let wanted = by_definition(&online, state);
                    assert_eq!(found, wanted, "{slots} slots, state {state}: {:?}", online.stored);
                    given_up += u64::from(found.is_some_and(|place| place < online.stored.len()));
                }
                online.next_action();
            }
            assert!(slots == 1 || given_up > steps / 40, "{slots} slots: {given_up}");
        }
    }
}
