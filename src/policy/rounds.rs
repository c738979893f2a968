//! What the processes of a job agree on beside their work: up to which checkpoint all of them have
//! their files, and which checkpoints are copied to persistent.
//!
//! Each checkpoint begins a round. A process passes what it knows to a reduction that nobody waits
//! for; the result comes some checkpoints later, and the rounds of all processes come in the same
//! order. What is not agreed yet is never the reason to remove an older version: were it removed,
//! and the job to end here, a slower process might have no version that all have.

use std::collections::VecDeque;

/// Names a checkpoint; larger is younger.
type Id = u64;

/// How many tiers of files there are.
const TIERS: usize = 2;

/// How many values a round passes.
pub const VALUES: usize = 3 + TIERS;

/// What a process passes to a round, of which the least of all is found.
pub type Values = [i64; VALUES];

/// The rounds of one process.
#[derive(Debug, Default)]
pub struct Rounds {
    /// Rounds begun.
    begun: u64,
    /// Rounds whose results have come.
    ended: u64,
    /// Checkpoints of rounds, oldest first, of which this process's file may still be missing; by
    /// tier.
    unsettled: [VecDeque<(u64, Id)>; TIERS],
    /// Checkpoints whose copy to persistent has not been decided on, or not where it goes; oldest
    /// first.
    undecided: VecDeque<(u64, Id)>,
    /// All checkpoints whose round may still become the one that is agreed on, oldest first.
    taken: VecDeque<(u64, Id)>,
    /// The processes have taken different checkpoints: nothing is agreed any more.
    broken: bool,
}

/// What a result means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The last checkpoint that all processes have in each tier, like all before it. `None`: there
    /// is none yet.
    pub agreed: [Option<Id>; TIERS],
    /// The checkpoint of the round, if its copy to persistent is still to be decided on, and whether
    /// it is to be made.
    pub persist: Option<(Id, bool)>,
    /// From here on nothing is agreed: the processes have taken different checkpoints.
    pub broke: bool,
}

impl Rounds {
    /// Begins the round of a checkpoint, which `key` tells from others. `persist` is whether it is
    /// to be copied to persistent, for the process that decides. `settled` tells whether a
    /// checkpoint is in a tier, or will never be.
    pub fn begin(
        &mut self,
        key: i64,
        persist: Option<bool>,
        settled: impl Fn(Id, usize) -> bool,
    ) -> Values {
        let files = self.settled(settled);
        self.begun += 1;
        let key = key >> 1; // So that it can be negated.
        [key, -key, persist.map_or(i64::MAX, i64::from), files[0], files[1]]
    }

    /// Begins a round that has no checkpoint: at the end, to learn what all have.
    pub fn begin_last(&mut self, settled: impl Fn(Id, usize) -> bool) -> Values {
        self.begin(0, None, settled)
    }

    /// The checkpoint of the round that was begun last. Whether its copy to persistent is still to
    /// be decided on.
    pub fn opened(&mut self, id: Id, undecided: bool) {
        let entry = (self.begun, id);
        for tier in &mut self.unsettled {
            tier.push_back(entry);
        }
        self.taken.push_back(entry);
        if undecided {
            self.undecided.push_back(entry);
        }
    }

    /// Takes the result of the next round.
    pub fn end(&mut self, least: &Values) -> Outcome {
        self.ended += 1;
        let same = least[0] == -least[1];
        let broke = !same && !self.broken;
        self.broken |= !same;
        let of_round = self.undecided.iter().find(|&&(round, _)| round == self.ended);
        // When in doubt, a copy too many.
        let persist = of_round.map(|&(_, id)| (id, self.broken || least[2] != 0));
        let mut agreed = [None; TIERS];
        if !self.broken {
            for (tier, agreed) in agreed.iter_mut().enumerate() {
                let round = u64::try_from(least[3 + tier]).unwrap_or(0);
                let known = self.taken.iter().take_while(|(taken, _)| *taken <= round);
                *agreed = known.last().map(|&(_, id)| id);
            }
            let lowest = least[3].min(least[4]).max(0) as u64;
            while self.taken.get(1).is_some_and(|(round, _)| *round <= lowest) {
                self.taken.pop_front();
            }
        }
        Outcome { agreed, persist, broke }
    }

    /// It is decided whether and where a checkpoint is copied to persistent.
    pub fn decided(&mut self, id: Id) {
        self.undecided.retain(|&(_, other)| other != id);
    }

    /// Rounds begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Up to which round this process has all its files, by tier.
    fn settled(&mut self, settled: impl Fn(Id, usize) -> bool) -> [i64; TIERS] {
        let undecided = self.undecided.front().map(|&(round, _)| round);
        let mut files = [0; TIERS];
        for (tier, unsettled) in self.unsettled.iter_mut().enumerate() {
            while let Some(&(round, id)) = unsettled.front() {
                let open = tier == TIERS - 1 && undecided.is_some_and(|first| first <= round);
                if open || !settled(id, tier) {
                    break;
                }
                unsettled.pop_front();
            }
            let before_first = unsettled.front().map_or(self.begun, |(round, _)| round - 1);
            files[tier] = before_first as i64;
        }
        files
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::retention::Retention;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// A process with its persistent files.
    #[derive(Default)]
    struct Process {
        rounds: Rounds,
        /// Values that were passed, oldest first.
        passed: Vec<Values>,
        /// Results that were taken.
        taken: usize,
        ids: Vec<Id>,
        files: BTreeSet<i32>,
        agreed: Id,
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(usize),
        Write(usize),
        Hear(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        (0..3usize, 0..3u8).prop_map(|(process, what)| match what {
            0 => Step::Take(process),
            1 => Step::Write(process),
            _ => Step::Hear(process),
        })
    }

    proptest! {
        /// Processes take the same checkpoints at their own pace, write their files later, hear
        /// results later still, and remove what their limit says. At any moment, the newest
        /// version that all have written is one that all still have.
        #[test]
        fn there_is_always_a_version_that_all_have(
            limit in 1..4usize,
            steps in prop::collection::vec(step(), 1..300),
        ) {
            let mut processes: Vec<Process> = (0..3).map(|_| Process::default()).collect();
            let mut kept: Vec<Retention> = (0..3).map(|_| Retention::new(limit)).collect();
            let mut written = [0usize; 3];
            for step in steps {
                match step {
                    Step::Take(p) => {
                        let process = &mut processes[p];
                        let version = process.ids.len() as i64;
                        let done = written[p] as u64;
                        let values = process.rounds.begin(version * 77, None, |id, _| id / 10 <= done);
                        process.passed.push(values);
                        // Numbers of checkpoints differ between processes.
                        let id = (version as u64 + 1) * 10 + p as u64;
                        process.rounds.opened(id, false);
                        process.ids.push(id);
                    }
                    Step::Write(p) => {
                        let process = &mut processes[p];
                        if written[p] == process.ids.len() {
                            continue;
                        }
                        let version = written[p] as i32;
                        process.files.insert(version);
                        kept[p].put("x", version, process.ids[written[p]]);
                        written[p] += 1;
                    }
                    Step::Hear(p) => {
                        let round = processes[p].taken;
                        if processes.iter().any(|other| other.passed.len() <= round) {
                            continue;
                        }
                        let least: Values = std::array::from_fn(|value| {
                            processes.iter().map(|other| other.passed[round][value]).min().unwrap()
                        });
                        let process = &mut processes[p];
                        process.taken += 1;
                        let outcome = process.rounds.end(&least);
                        prop_assert!(!outcome.broke);
                        process.agreed = process.agreed.max(outcome.agreed[1].unwrap_or(0));
                    }
                }
                for (process, kept) in processes.iter_mut().zip(&mut kept) {
                    for version in kept.excess("x", process.agreed, 99) {
                        kept.remove("x", version);
                        process.files.remove(&version);
                    }
                }
                let common = written.iter().min().unwrap();
                if *common > 0 {
                    let newest = *common as i32 - 1;
                    prop_assert!(
                        processes.iter().all(|process| process.files.contains(&newest)),
                        "version {} is gone somewhere", newest
                    );
                }
            }
        }
    }

    fn least(all: &[Values]) -> Values {
        std::array::from_fn(|value| all.iter().map(|values| values[value]).min().unwrap())
    }

    /// The process that decides does so for all; nothing counts as settled before.
    #[test]
    fn one_decides_for_all() {
        let mut rounds = [Rounds::default(), Rounds::default()];
        for (round, persist) in [(1, true), (2, false)] {
            let mut passed = Vec::new();
            for (process, rounds) in rounds.iter_mut().enumerate() {
                let decides = (process == 0).then_some(persist);
                passed.push(rounds.begin(7, decides, |_, _| true));
                rounds.opened(round, true);
            }
            assert!(passed.iter().all(|values| values[4] == round as i64 - 1), "{passed:?}");
            for rounds in &mut rounds {
                assert_eq!(rounds.end(&least(&passed)).persist, Some((round, persist)));
                rounds.decided(round);
            }
        }
    }

    /// Processes that do not take the same checkpoints have no agreement, and lose nothing by it.
    #[test]
    fn different_checkpoints_agree_on_nothing() {
        let mut mine = Rounds::default();
        let first = mine.begin(8, None, |_, _| true);
        mine.opened(1, true);
        let other = Rounds::default().begin(4, Some(false), |_, _| true);
        let outcome = mine.end(&least(&[first, other]));
        assert_eq!(outcome, Outcome { agreed: [None; 2], persist: Some((1, true)), broke: true });
        let second = mine.begin(8, None, |_, _| true);
        let outcome = mine.end(&second);
        assert_eq!((outcome.agreed, outcome.broke), ([None; 2], false));
    }
}
