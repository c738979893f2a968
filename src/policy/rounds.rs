//! What the processes of a job agree on beside their work: of which checkpoints all of them have
//! their files, and which checkpoints are copied to persistent.
//!
//! Each checkpoint begins a round. A process passes what it knows to a reduction that nobody waits
//! for; the result comes some checkpoints later, and the rounds of all processes come in the same
//! order. What is not known to be had by all is never the reason to remove an older version: were it
//! removed, and the job to end here, a process that has not written the newer one, or has given it
//! up, would have no version that all have.

use std::collections::VecDeque;

/// Names a checkpoint; larger is younger.
type Id = u64;

/// The file in persistent, among what a process may have of a checkpoint. The one in scratch is 0.
const PERSISTENT: usize = 1;

/// The parities of the file in scratch, where there is erasure coding.
pub const PARITIES: usize = 2;

/// How many such things there are.
pub const TIERS: usize = 3;

/// How many values a round passes.
pub const VALUES: usize = 3 + 2 * TIERS;

/// What a process passes to a round, of which the least of all is found.
pub type Values = [i64; VALUES];

/// What a process passes between rounds, of which the least of all is found: up to which round all is
/// known, and the last one of which it has nothing, negated.
pub type Tidings = [i64; 2 * TIERS];

/// Less than any key that is passed, and than any that is passed negated.
const NO_KEY: i64 = (i64::MIN >> 1) - 1;

/// What a process passes that takes no part in the agreement any more: it ends for all by that.
pub const GIVEN_UP: Values = {
    let mut values = [0; VALUES];
    values[0] = NO_KEY;
    values[1] = NO_KEY;
    values[2] = i64::MAX;
    values
};

/// What becomes of a checkpoint's file in a tier, or of its parities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It may still come.
    Open,
    /// It is in its place, or none is wanted of any process.
    There,
    /// It never comes, or was replaced before anybody asked.
    Missing,
}

/// Checkpoints of which all processes have the files of a tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Common {
    /// From one to another, both among them; ascending.
    ranges: Vec<(Id, Id)>,
    /// Up to this one nothing more will be among them.
    settled: Id,
    /// From one to another of those that are settled and not among them here, and may be among them
    /// for another process; ascending.
    doubtful: Vec<(Id, Id)>,
}

impl Common {
    /// All: of a process that has no others.
    pub fn all() -> Common {
        Common { ranges: vec![(0, Id::MAX)], settled: Id::MAX, doubtful: Vec::new() }
    }

    /// Whether these are the checkpoints of a process that has no others.
    pub fn is_alone(&self) -> bool {
        self.settled == Id::MAX
    }

    /// Whether a checkpoint is among them.
    pub fn has(&self, id: Id) -> bool {
        is_within(&self.ranges, id)
    }

    /// The last of them; 0: there is none.
    pub fn youngest(&self) -> Id {
        self.ranges.last().map_or(0, |&(_, last)| last)
    }

    /// Whether it is known of a checkpoint that it is among them, or that no process will ever have
    /// it among them.
    fn is_settled(&self, id: Id) -> bool {
        id <= self.settled && !is_within(&self.doubtful, id)
    }

    /// Whether a checkpoint is kept for its parities, of which these are those that all have: the
    /// youngest of them is, and so is each that may be the next one, which this process has `made`.
    /// `last` is the youngest of them of that name. Before there is one, so are those of an earlier
    /// job (0).
    pub fn keeps(&self, last: Option<Id>, id: Id, made: impl FnOnce() -> bool) -> bool {
        match last {
            Some(last) if id <= last => id == last,
            None if id == 0 => made(),
            _ => !self.is_settled(id) && made(),
        }
    }

    /// Adds what was learned.
    pub fn learn(&mut self, learned: Learned) {
        self.settled = self.settled.max(learned.settled);
        self.doubtful.extend(learned.doubtful);
        let Some(more) = learned.more else { return };
        match self.ranges.last_mut() {
            // There is nothing between.
            Some((_, last)) if more.goes_on => *last = more.last,
            _ => self.ranges.push((more.first, more.last)),
        }
    }
}

/// Whether one of the ranges, which ascend, has a checkpoint.
fn is_within(ranges: &[(Id, Id)], id: Id) -> bool {
    let behind = ranges.partition_point(|&(first, _)| first <= id);
    behind.checked_sub(1).is_some_and(|at| id <= ranges[at].1)
}

/// What a result says of one tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Learned {
    /// The checkpoints that all processes are now known to have.
    pub more: Option<Range>,
    /// Up to this checkpoint, no others will be.
    pub settled: Id,
    /// From this to that checkpoint it cannot be said whether all have them, for one of them has
    /// already said that it lacks a later one, and says of no others. A process that takes results
    /// in another order may have heard that all have them.
    pub doubtful: Option<(Id, Id)>,
}

/// Checkpoints that follow each other in the order in which they were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The oldest.
    pub first: Id,
    /// The youngest.
    pub last: Id,
    /// It follows the range before it.
    pub goes_on: bool,
}

/// The rounds of one process.
#[derive(Debug, Default)]
pub struct Rounds {
    /// Rounds begun.
    begun: u64,
    /// The checkpoint of the last one has not begun, as far as is known.
    owed: bool,
    /// Rounds whose results have come.
    ended: u64,
    /// Rounds, oldest first, of which this process's file may still be missing; by tier. `None`:
    /// the checkpoint never began here.
    unsettled: [VecDeque<(u64, Option<Id>)>; TIERS],
    /// The last settled round of which this process has no file; by tier.
    missing: [u64; TIERS],
    /// Up to which round all is known of what all have; by tier.
    known: [u64; TIERS],
    /// The last round of which it is known that all have its checkpoint; by tier.
    reached: [u64; TIERS],
    /// Checkpoints whose copy to persistent has not been decided on, or not where it goes; oldest
    /// first.
    undecided: VecDeque<(u64, Id)>,
    /// Checkpoints that this process copies by its own decision, before it has heard the common one;
    /// oldest first.
    alone: VecDeque<(u64, Id)>,
    /// The checkpoints of all rounds of which it is not known yet whether all have them.
    taken: VecDeque<(u64, Id)>,
    /// The processes have taken different checkpoints: nothing is agreed any more.
    broken: bool,
}

/// Why nothing is agreed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// The processes have taken different checkpoints.
    Different,
    /// One of them has given the agreement up.
    GivenUp,
}

/// What a result means.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Of which checkpoints all processes have something; by tier.
    pub common: [Learned; TIERS],
    /// The checkpoint of the round, if its copy to persistent is still to be decided on, and whether
    /// it is to be made.
    pub persist: Option<(Id, bool)>,
    /// From here on nothing is agreed, and why.
    pub broke: Option<Breach>,
}

impl Rounds {
    /// Begins the round of a checkpoint, which `key` tells from others. `persist` is whether it is
    /// to be copied to persistent, for the process that decides. `fate` tells what becomes of a
    /// checkpoint's file in a tier.
    pub fn begin(
        &mut self,
        key: i64,
        persist: Option<bool>,
        fate: impl Fn(Id, usize) -> Fate,
    ) -> Values {
        let values = self.values(key, persist, fate);
        self.owed = true;
        values
    }

    /// Begins a round that has no checkpoint: at the end, to learn what all have.
    pub fn begin_last(&mut self, fate: impl Fn(Id, usize) -> Fate) -> Values {
        self.values(0, None, fate)
    }

    fn values(
        &mut self,
        key: i64,
        persist: Option<bool>,
        fate: impl Fn(Id, usize) -> Fate,
    ) -> Values {
        if std::mem::take(&mut self.owed) {
            for unsettled in &mut self.unsettled {
                unsettled.push_back((self.begun, None));
            }
        }
        let settled = self.settle(fate);
        self.begun += 1;
        let key = key >> 1; // So that it can be negated.
        let mut values = [0; VALUES];
        values[..3].copy_from_slice(&[key, -key, persist.map_or(i64::MAX, i64::from)]);
        for tier in 0..TIERS {
            values[3 + tier] = settled[tier] as i64;
            values[3 + TIERS + tier] = -(self.missing[tier] as i64);
        }
        values
    }

    /// The checkpoint of the round that was begun last. Whether its copy to persistent is still to
    /// be decided on.
    pub fn opened(&mut self, id: Id, undecided: bool) {
        self.owed = false;
        if undecided {
            self.undecided.push_back((self.begun, id));
        }
        if self.broken {
            return;
        }
        for unsettled in &mut self.unsettled {
            unsettled.push_back((self.begun, Some(id)));
        }
        self.taken.push_back((self.begun, id));
    }

    /// What this process knows of the files of all rounds until now, between rounds.
    pub fn tidings(&mut self, fate: impl Fn(Id, usize) -> Fate) -> Tidings {
        let settled = self.settle(fate);
        // The checkpoint of the last round may still begin.
        let last = self.begun - u64::from(self.owed);
        let mut values = [0; 2 * TIERS];
        for tier in 0..TIERS {
            values[tier] = settled[tier].min(last) as i64;
            values[TIERS + tier] = -(self.missing[tier] as i64);
        }
        values
    }

    /// Takes the least of what all processes know between rounds. Nothing counts before its round has
    /// ended: only then is it known that all have taken the same checkpoint.
    pub fn hear_tidings(&mut self, least: &Tidings) -> [Learned; TIERS] {
        std::array::from_fn(|tier| {
            let round = |value: i64| u64::try_from(value).unwrap_or(0);
            let settled = round(least[tier]).min(self.ended);
            let missing = round(least[TIERS + tier].saturating_neg());
            if self.broken || missing > self.ended {
                return Learned::default();
            }
            self.learn(tier, settled, missing)
        })
    }

    /// Takes the result of the next round.
    pub fn end(&mut self, least: &Values) -> Outcome {
        self.ended += 1;
        let same = least[0] == -least[1];
        let why = if least[0] == NO_KEY { Breach::GivenUp } else { Breach::Different };
        let broke = (!same && !self.broken).then_some(why);
        self.broken |= !same;
        let of_round = self.undecided.iter().find(|&&(round, _)| round == self.ended);
        // When in doubt, a copy too many.
        let persist = of_round.map(|&(_, id)| (id, self.broken || least[2] != 0));
        self.end_alone(least[2] != 0);
        let mut common = [Learned::default(); TIERS];
        if self.broken {
            self.taken.clear();
        } else {
            for (tier, common) in common.iter_mut().enumerate() {
                let round = |value: i64| u64::try_from(value).unwrap_or(0);
                let settled = round(least[3 + tier]);
                let missing = round(least[3 + TIERS + tier].saturating_neg());
                *common = self.learn(tier, settled, missing);
            }
            let lowest = self.known.into_iter().min().unwrap_or(0);
            while self.taken.front().is_some_and(|(round, _)| *round <= lowest) {
                self.taken.pop_front();
            }
        }
        Outcome { common, persist, broke }
    }

    /// The checkpoints that are common by this and were not known to be: every process knows about
    /// its own up to the round `settled`, and `missing` is the last of which one of them has none.
    fn learn(&mut self, tier: usize, settled: u64, missing: u64) -> Learned {
        let before = self.known[tier];
        let behind = before.max(missing);
        let known = behind.max(settled);
        self.known[tier] = known;
        let up_to = |last: u64| self.taken.partition_point(|(round, _)| *round <= last);
        let id = |at: usize| self.taken.get(at).map(|&(_, id)| id);
        let last_of = |behind: usize| behind.checked_sub(1).and_then(id);
        let between =
            |from: usize, to: usize| Some((id(from)?, last_of(to)?)).filter(|_| from < to);
        let known = last_of(up_to(known)).unwrap_or(0);
        let doubtful = between(up_to(before), up_to(missing.saturating_sub(1)));
        let Some((first, last)) = between(up_to(behind), up_to(settled)) else {
            return Learned { more: None, settled: known, doubtful };
        };
        let goes_on = self.reached[tier] == behind;
        self.reached[tier] = settled;
        Learned { more: Some(Range { first, last, goes_on }), settled: known, doubtful }
    }

    /// It is decided whether and where a checkpoint is copied to persistent.
    pub fn decided(&mut self, id: Id) {
        self.undecided.retain(|&(_, other)| other != id);
    }

    /// A checkpoint is copied to persistent before that is decided.
    pub fn decided_alone(&mut self, id: Id) {
        let round = self.undecided.iter().find(|&&(_, other)| other == id).copied();
        self.alone.extend(round);
        self.decided(id);
    }

    /// The round that has ended is one of those: others have no copy if it was decided not to make
    /// one.
    fn end_alone(&mut self, persist: bool) {
        let Some(at) = self.alone.iter().position(|&(round, _)| round == self.ended) else {
            return;
        };
        self.alone.remove(at);
        let persistent = &mut self.unsettled[PERSISTENT];
        if let Some(unsettled) = persistent.iter_mut().find(|(round, _)| *round == self.ended) {
            unsettled.1 = unsettled.1.filter(|_| persist);
        }
    }

    /// Rounds begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Up to which round the fate of all of this process's files is known, by tier.
    fn settle(&mut self, fate: impl Fn(Id, usize) -> Fate) -> [u64; TIERS] {
        let undecided = [self.undecided.front(), self.alone.front()];
        let undecided = undecided.into_iter().flatten().map(|&(round, _)| round).min();
        let mut settled = [0; TIERS];
        for (tier, unsettled) in self.unsettled.iter_mut().enumerate() {
            while let Some(&(round, id)) = unsettled.front() {
                let open = tier == PERSISTENT && undecided.is_some_and(|first| first <= round);
                let fate = id.map_or(Fate::Missing, |id| fate(id, tier));
                if open || fate == Fate::Open {
                    break;
                }
                if fate == Fate::Missing {
                    self.missing[tier] = round;
                }
                unsettled.pop_front();
            }
            settled[tier] = unsettled.front().map_or(self.begun, |(round, _)| round - 1);
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::retention::Retention;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// A process with its files of one tier.
    #[derive(Default)]
    struct Process {
        rounds: Rounds,
        common: Common,
        /// Values that were passed, oldest first.
        passed: Vec<Values>,
        /// Results that were taken.
        taken: usize,
        /// What was told between rounds, oldest first, and how many results of that were taken.
        told: Vec<Tidings>,
        heard: usize,
        /// The checkpoints of its rounds, and what became of their files.
        ids: Vec<(Id, Fate)>,
        files: BTreeSet<i32>,
        /// What became of its parities, of versions whose files all have been told of.
        parities: BTreeMap<i32, bool>,
        protected: Common,
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(usize),
        /// Its begin fails.
        Refuse(usize),
        /// It is given up, or could not be taken.
        GiveUp(usize),
        /// The oldest that is not written is.
        Write(usize),
        /// The parities of the oldest version that has none are made, if all have written it; or
        /// cannot be.
        Protect(usize, bool),
        Hear(usize),
        /// It takes what was told between rounds, and tells what it knows.
        Tell(usize),
    }

    const PROCESSES: usize = 3;

    fn step() -> impl Strategy<Value = Step> {
        (0..PROCESSES, 0..34u8).prop_map(|(process, what)| match what {
            0 => Step::Refuse(process),
            1 => Step::GiveUp(process),
            20..28 => Step::Protect(process, what > 20),
            28..34 => Step::Tell(process),
            2..8 => Step::Take(process),
            8..14 => Step::Write(process),
            _ => Step::Hear(process),
        })
    }

    /// The first version that the job takes: those before are of an earlier one.
    const FIRST: usize = 4;

    /// What a process says of its files.
    fn fate_by<'a>(
        ids: &'a [(Id, Fate)],
        files: &'a BTreeSet<i32>,
        parities: &'a BTreeMap<i32, bool>,
    ) -> impl Fn(Id, usize) -> Fate + 'a {
        |id, tier| {
            let fate = ids.iter().find(|known| known.0 == id).unwrap().1;
            let version = (id / 10) as i32;
            match (fate, parities.get(&version)) {
                (Fate::There, made) if tier == PARITIES => match made {
                    Some(true) => Fate::There,
                    None if files.contains(&version) => Fate::Open,
                    _ => Fate::Missing,
                },
                (fate, _) => fate,
            }
        }
    }

    proptest! {
        /// Processes take the same checkpoints at their own pace, some not everywhere, write their
        /// files later, hear results later still, and remove what their limit says; they begin with
        /// what an earlier job that was killed has left. At any moment, the newest version that all
        /// have written is one that all still have; and once there has been one of which all have
        /// made parities, there always is.
        #[test]
        fn there_is_always_a_version_that_all_have(
            limit in 1..4usize,
            left in prop::collection::vec(0..=FIRST, PROCESSES),
            steps in prop::collection::vec(step(), 1..400),
        ) {
            let mut processes: Vec<Process> = (0..PROCESSES).map(|_| Process::default()).collect();
            let mut kept: Vec<Retention> = (0..PROCESSES).map(|_| Retention::new(limit)).collect();
            // Versions that each process has ever had.
            let mut had: Vec<BTreeSet<i32>> = Vec::new();
            for ((process, kept), left) in processes.iter_mut().zip(&mut kept).zip(left) {
                process.files.extend(0..left as i32);
                kept.found("x", 0..left as i32);
                had.push(process.files.clone());
            }
            for step in steps {
                match step {
                    Step::Take(p) | Step::Refuse(p) | Step::GiveUp(p) => {
                        let Process { rounds, ids, passed, files, parities, .. } = &mut processes[p];
                        let version = FIRST + ids.len();
                        let fate = fate_by(ids, files, parities);
                        passed.push(rounds.begin(version as i64 * 77, None, fate));
                        // Numbers of checkpoints differ between processes.
                        let id = version as Id * 10 + p as Id;
                        if !matches!(step, Step::Refuse(_)) {
                            rounds.opened(id, false);
                        }
                        let taken = matches!(step, Step::Take(_));
                        ids.push((id, if taken { Fate::Open } else { Fate::Missing }));
                    }
                    Step::Write(p) => {
                        let Process { ids, files, .. } = &mut processes[p];
                        let Some(at) = ids.iter().position(|(_, fate)| *fate == Fate::Open) else {
                            continue;
                        };
                        let version = (FIRST + at) as i32;
                        ids[at].1 = Fate::There;
                        files.insert(version);
                        had[p].insert(version);
                        kept[p].put("x", version, ids[at].0);
                    }
                    Step::Protect(p, succeeds) => {
                        let written = had.iter().cloned().reduce(|all, one| &all & &one).unwrap();
                        let Process { files, parities, .. } = &mut processes[p];
                        let next = written.iter().find(|version| !parities.contains_key(version));
                        if let Some(version) = next {
                            parities.insert(*version, succeeds && files.contains(version));
                        }
                    }
                    Step::Tell(p) => {
                        let number = processes[p].heard;
                        if processes.iter().all(|other| other.told.len() > number) {
                            let least: Tidings = std::array::from_fn(|value| {
                                let told = processes.iter().map(|other| other.told[number][value]);
                                told.min().unwrap()
                            });
                            let process = &mut processes[p];
                            process.heard += 1;
                            let learned = process.rounds.hear_tidings(&least);
                            process.common.learn(learned[0]);
                            process.protected.learn(learned[PARITIES]);
                        }
                        let Process { rounds, ids, files, parities, told, heard, .. } =
                            &mut processes[p];
                        if told.len() == *heard {
                            told.push(rounds.tidings(fate_by(ids, files, parities)));
                        }
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
                        prop_assert!(outcome.broke.is_none());
                        process.common.learn(outcome.common[0]);
                        process.protected.learn(outcome.common[PARITIES]);
                    }
                }
                for (process, kept) in processes.iter_mut().zip(&mut kept) {
                    let Process { common, files, parities, protected, .. } = process;
                    let last = kept.youngest("x", |id| protected.has(id));
                    let counts = |id| common.has(id);
                    let made = |version| parities.get(&version) == Some(&true);
                    let stays = |id, version| protected.keeps(last, id, || made(version));
                    for version in kept.excess("x", 99, common.youngest(), counts, stays) {
                        kept.remove("x", version);
                        files.remove(&version);
                    }
                }
                let common = had.iter().cloned().reduce(|all, one| &all & &one).unwrap();
                if processes.iter().any(|process| process.protected.youngest() > 0) {
                    let protected = |process: &Process| -> BTreeSet<i32> {
                        let made = |version: &&i32| process.parities.get(version) == Some(&true);
                        process.files.iter().filter(made).copied().collect()
                    };
                    let all = processes.iter().map(protected).reduce(|all, one| &all & &one);
                    prop_assert!(!all.unwrap().is_empty(), "none is protected any more");
                }
                if let Some(newest) = common.last() {
                    prop_assert!(
                        processes.iter().all(|process| process.files.contains(newest)),
                        "version {} is gone somewhere", newest
                    );
                }
            }
        }
    }

    const NOTHING: [Learned; TIERS] = [Learned { more: None, settled: 0, doubtful: None }; TIERS];

    fn least(all: &[Values]) -> Values {
        std::array::from_fn(|value| all.iter().map(|values| values[value]).min().unwrap())
    }

    /// Catches versions that count before it is known that all have taken the same, and one whose
    /// checkpoint has not begun; and processes that learn nothing between two checkpoints.
    #[test]
    fn what_all_have_is_told_between_rounds() {
        let there = |_, _| Fate::There;
        let mut rounds = [Rounds::default(), Rounds::default()];
        let passed = rounds.each_mut().map(|rounds| rounds.begin(7, None, there));
        let tell = |rounds: &mut [Rounds; 2]| {
            let told = rounds.each_mut().map(|rounds| rounds.tidings(there));
            let least: Tidings = std::array::from_fn(|value| told[0][value].min(told[1][value]));
            rounds.each_mut().map(|rounds| rounds.hear_tidings(&least)[0].more)
        };
        assert_eq!(tell(&mut rounds), [None; 2], "it has not begun");
        rounds.iter_mut().for_each(|rounds| rounds.opened(5, false));
        assert_eq!(tell(&mut rounds), [None; 2], "the round has not ended");
        for rounds in &mut rounds {
            assert_eq!(rounds.end(&least(&passed)).broke, None);
        }
        assert_eq!(tell(&mut rounds), [Some(Range { first: 5, last: 5, goes_on: true }); 2]);
        assert_eq!(tell(&mut rounds), [None; 2]);
    }

    /// The process that decides does so for all; nothing counts as settled before.
    #[test]
    fn one_decides_for_all() {
        let mut rounds = [Rounds::default(), Rounds::default()];
        for (round, persist) in [(1, true), (2, false)] {
            let mut passed = Vec::new();
            for (process, rounds) in rounds.iter_mut().enumerate() {
                let decides = (process == 0).then_some(persist);
                passed.push(rounds.begin(7, decides, |_, _| Fate::There));
                rounds.opened(round, true);
            }
            assert!(passed.iter().all(|values| values[4] == round as i64 - 1), "{passed:?}");
            for rounds in &mut rounds {
                assert_eq!(rounds.end(&least(&passed)).persist, Some((round, persist)));
                rounds.decided(round);
            }
        }
    }

    /// Where nothing goes wrong, all that is settled everywhere is known after the next round, and
    /// is one range. What one lacks is not counted, and what comes after it is.
    #[test]
    fn what_all_have_is_known_a_round_later() {
        let mut rounds = [Rounds::default(), Rounds::default()];
        let mut common = Common::default();
        for round in 1..=9u64 {
            let missing = |id: Id, _| if id == 4 { Fate::Missing } else { Fate::There };
            let passed =
                [rounds[0].begin(7, None, |_, _| Fate::There), rounds[1].begin(7, None, missing)];
            rounds.iter_mut().for_each(|rounds| rounds.opened(round, false));
            let outcomes = rounds.each_mut().map(|rounds| rounds.end(&least(&passed)));
            assert_eq!(outcomes[0], outcomes[1]);
            common.learn(outcomes[0].common[0]);
            assert!(common.is_settled(round - 1) && !common.is_settled(round));
            let expected: Vec<Id> = (1..round).filter(|id| *id != 4).collect();
            assert_eq!((0..99).filter(|id| common.has(*id)).collect::<Vec<_>>(), expected);
        }
        assert_eq!(common.ranges, [(1, 3), (5, 8)]);
        assert!(rounds[0].taken.len() <= 1, "{:?}", rounds[0]);
    }

    /// A process that would not wait has a copy that the others have not: nothing is counted of it,
    /// and what comes later is. If the others make one too, it counts.
    #[test]
    fn a_copy_that_one_alone_has_is_not_common() {
        for persist in [false, true] {
            let mut rounds = [Rounds::default(), Rounds::default()];
            let mut common = Common::default();
            let mut step = |round: Id, alone: bool| {
                let passed = [0, 1].map(|process| {
                    let rounds: &mut Rounds = &mut rounds[process];
                    let decides = (process == 0).then_some(persist);
                    let values = rounds.begin(7, decides, |_, _| Fate::There);
                    rounds.opened(round, true);
                    if alone && process == 1 {
                        rounds.decided_alone(round);
                    }
                    values
                });
                let outcomes = rounds.each_mut().map(|rounds| {
                    let outcome = rounds.end(&least(&passed));
                    rounds.decided(round);
                    outcome
                });
                common.learn(outcomes[0].common[1]);
                (1..9).filter(|id| common.has(*id)).collect::<Vec<_>>()
            };
            step(1, false);
            step(2, true);
            let expected = if persist { vec![1, 2, 3] } else { vec![1, 3] };
            step(3, false);
            assert_eq!(step(4, false), expected, "{persist}");
        }
    }

    /// Processes that do not take the same checkpoints have no agreement, and lose nothing by it.
    #[test]
    fn different_checkpoints_agree_on_nothing() {
        let mut mine = Rounds::default();
        let first = mine.begin(8, None, |_, _| Fate::There);
        mine.opened(1, true);
        let other = Rounds::default().begin(4, Some(false), |_, _| Fate::There);
        let outcome = mine.end(&least(&[first, other]));
        let broke = Some(Breach::Different);
        assert_eq!(outcome, Outcome { common: NOTHING, persist: Some((1, true)), broke });
        let second = mine.begin(8, None, |_, _| Fate::There);
        let outcome = mine.end(&second);
        assert_eq!((outcome.common, outcome.broke), (NOTHING, None));
    }

    /// The same of one that has given up, which is told from them; whatever key the others pass.
    #[test]
    fn one_that_has_given_up_ends_the_agreement() {
        for key in [i64::MIN, -1, 0, 8, i64::MAX] {
            let mut mine = Rounds::default();
            let values = mine.begin(key, Some(false), |_, _| Fate::There);
            mine.opened(1, true);
            let outcome = mine.end(&least(&[values, GIVEN_UP]));
            let broke = Some(Breach::GivenUp);
            assert_eq!(outcome, Outcome { common: NOTHING, persist: Some((1, true)), broke });
        }
        assert_eq!(Rounds::default().end(&GIVEN_UP).broke, Some(Breach::GivenUp), "all have");
    }
}
