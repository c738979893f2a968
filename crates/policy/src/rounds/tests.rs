//! Processes of arbitrary speed with arbitrary failures.

use super::*;
use crate::retention::Retention;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A process with its files of one kind.
#[derive(Default)]
struct Process {
    rounds: Rounds,
    common: Common,
    /// Contributed values, oldest first.
    passed: Vec<Values>,
    /// Results taken.
    taken: usize,
    /// The checkpoints of its rounds, and the state of their files.
    ids: Vec<(CheckpointNumber, FileState)>,
    files: BTreeSet<i32>,
    /// Its parities, for versions whose files all processes have announced: whether they were made.
    parities: BTreeMap<i32, bool>,
    protected: Common,
}

#[derive(Clone, Debug)]
enum Step {
    Take(usize),
    /// Beginning the checkpoint fails.
    Refuse(usize),
    /// The checkpoint is given up, or could not be taken.
    GiveUp(usize),
    /// Joins the rounds that others have begun, for checkpoints that it never takes.
    Even(usize),
    /// Writes the oldest unwritten file.
    Write(usize),
    /// Makes the parities of the oldest version that all have written, or fails to.
    Protect(usize, bool),
    Hear(usize),
}

const PROCESSES: usize = 3;

fn step() -> impl Strategy<Value = Step> {
    (0..PROCESSES, 0..29u8).prop_map(|(process, what)| match what {
        0 => Step::Refuse(process),
        1 => Step::GiveUp(process),
        28 => Step::Even(process),
        20..28 => Step::Protect(process, what > 20),
        2..8 => Step::Take(process),
        8..14 => Step::Write(process),
        _ => Step::Hear(process),
    })
}

/// The job's first version; lower ones are of an earlier job.
const FIRST: usize = 4;

/// The states that a process reports.
fn state_by<'a>(
    ids: &'a [(CheckpointNumber, FileState)],
    files: &'a BTreeSet<i32>,
    parities: &'a BTreeMap<i32, bool>,
) -> impl Fn(CheckpointNumber, usize) -> FileState + 'a {
    |id, kind| {
        let state = ids.iter().find(|known| known.0 == id).unwrap().1;
        let version = (id / 10) as i32;
        match (state, parities.get(&version)) {
            (FileState::Present, made) if kind == PARITIES => match made {
                Some(true) => FileState::Present,
                None if files.contains(&version) => FileState::Pending,
                _ => FileState::Missing,
            },
            (state, _) => state,
        }
    }
}

proptest! {
    /// Processes take the same checkpoints at their own pace, some not everywhere, write their files
    /// later, receive results later still, and apply their limit. They start with the files of a killed
    /// job. At any moment all still have the newest version that all have written; and once a version
    /// was protected everywhere, one always is.
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
            kept.set_found("x", 0..left as i32);
            had.push(process.files.clone());
        }
        for step in steps {
            match step {
                Step::Take(p) | Step::Refuse(p) | Step::GiveUp(p) => {
                    let Process { rounds, ids, passed, files, parities, .. } = &mut processes[p];
                    let version = FIRST + ids.len();
                    let state = state_by(ids, files, parities);
                    passed.push(rounds.begin(version as i64 * 77, None, state));
                    // Checkpoint numbers differ between processes.
                    let id = version as CheckpointNumber * 10 + p as CheckpointNumber;
                    if !matches!(step, Step::Refuse(_)) {
                        rounds.opened(id, false);
                    }
                    let taken = matches!(step, Step::Take(_));
                    ids.push((id, if taken { FileState::Pending } else { FileState::Missing }));
                }
                Step::Even(p) => {
                    let most = processes.iter().map(|process| process.passed.len()).max();
                    let Process { rounds, ids, passed, files, parities, .. } = &mut processes[p];
                    while passed.len() < most.unwrap() {
                        passed.push(rounds.begin_without_key(state_by(ids, files, parities)));
                        let version = FIRST + ids.len();
                        ids.push((version as CheckpointNumber * 10 + p as CheckpointNumber, FileState::Missing));
                    }
                }
                Step::Write(p) => {
                    let Process { ids, files, .. } = &mut processes[p];
                    let Some(at) = ids.iter().position(|(_, state)| *state == FileState::Pending) else {
                        continue;
                    };
                    let version = (FIRST + at) as i32;
                    ids[at].1 = FileState::Present;
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
                    prop_assert!(outcome.disagreement.is_none());
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

const NOTHING: [Learned; KINDS] = [Learned { more: None, settled: 0 }; KINDS];

pub(super) fn least(all: &[Values]) -> Values {
    std::array::from_fn(|value| all.iter().map(|values| values[value]).min().unwrap())
}

/// The deciding process decides for all; nothing is settled before that.
#[test]
fn one_decides_for_all() {
    let mut rounds = [Rounds::default(), Rounds::default()];
    for (round, persist) in [(1, true), (2, false)] {
        let mut passed = Vec::new();
        for (process, rounds) in rounds.iter_mut().enumerate() {
            let decides = (process == 0).then_some(persist);
            passed.push(rounds.begin(7, decides, |_, _| FileState::Present));
            rounds.opened(round, true);
        }
        assert!(passed.iter().all(|values| values[4] == round as i64 - 1), "{passed:?}");
        for rounds in &mut rounds {
            assert_eq!(rounds.end(&least(&passed)).persist, Some((round, persist)));
            rounds.decided(round);
        }
    }
}

/// Without failures, what is settled everywhere is known one round later, as one range. A version that
/// one process lacks is excluded; later ones are not.
#[test]
fn what_all_have_is_known_a_round_later() {
    let mut rounds = [Rounds::default(), Rounds::default()];
    let mut common = Common::default();
    for round in 1..=9u64 {
        let missing =
            |id: CheckpointNumber, _| if id == 4 { FileState::Missing } else { FileState::Present };
        let passed = [
            rounds[0].begin(7, None, |_, _| FileState::Present),
            rounds[1].begin(7, None, missing),
        ];
        rounds.iter_mut().for_each(|rounds| rounds.opened(round, false));
        let outcomes = rounds.each_mut().map(|rounds| rounds.end(&least(&passed)));
        assert_eq!(outcomes[0], outcomes[1]);
        common.learn(outcomes[0].common[0]);
        assert!(common.is_settled(round - 1) && !common.is_settled(round));
        let expected: Vec<CheckpointNumber> = (1..round).filter(|id| *id != 4).collect();
        assert_eq!((0..99).filter(|id| common.has(*id)).collect::<Vec<_>>(), expected);
    }
    assert_eq!(common.ranges, [(1, 3), (5, 8)]);
    assert!(rounds[0].taken.len() <= 1, "{:?}", rounds[0]);
}

/// A process that does not wait for the decision has a copy that the others lack: that version is not
/// common, later ones are. If the others make the copy, too, it is.
#[test]
fn a_copy_that_one_alone_has_is_not_common() {
    for persist in [false, true] {
        let mut rounds = [Rounds::default(), Rounds::default()];
        let mut common = Common::default();
        let mut step = |round: CheckpointNumber, alone: bool| {
            let passed = [0, 1].map(|process| {
                let rounds: &mut Rounds = &mut rounds[process];
                let decides = (process == 0).then_some(persist);
                let values = rounds.begin(7, decides, |_, _| FileState::Present);
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

/// Processes that take different checkpoints have no agreement, and lose no file.
#[test]
fn different_checkpoints_agree_on_nothing() {
    let mut mine = Rounds::default();
    let first = mine.begin(8, None, |_, _| FileState::Present);
    mine.opened(1, true);
    let other = Rounds::default().begin(4, Some(false), |_, _| FileState::Present);
    let outcome = mine.end(&least(&[first, other]));
    let disagreement = Some(Disagreement::Different);
    assert_eq!(outcome, RoundOutcome { common: NOTHING, persist: Some((1, true)), disagreement });
    let second = mine.begin(8, None, |_, _| FileState::Present);
    let outcome = mine.end(&second);
    assert_eq!((outcome.common, outcome.disagreement), (NOTHING, None));
}

/// A process that leaves the agreement is recognised, whatever key the others pass.
#[test]
fn one_that_has_given_up_ends_the_agreement() {
    for key in [i64::MIN, -1, 0, 8, i64::MAX] {
        let mut mine = Rounds::default();
        let values = mine.begin(key, Some(false), |_, _| FileState::Present);
        mine.opened(1, true);
        let outcome = mine.end(&least(&[values, WITHDRAWN]));
        let disagreement = Some(Disagreement::Withdrawn);
        assert_eq!(
            outcome,
            RoundOutcome { common: NOTHING, persist: Some((1, true)), disagreement }
        );
    }
    assert_eq!(
        Rounds::default().end(&WITHDRAWN).disagreement,
        Some(Disagreement::Withdrawn),
        "all have"
    );
}
