//! Agreement on parities, which few versions have and which are made late.

use super::tests::least;
use super::*;

/// Few versions have parities, and making them takes longer than the next checkpoints. Catches versions
/// whose parities are never known to exist everywhere: they would stay in scratch for ever.
#[test]
fn parities_that_come_late_are_known_of() {
    let mut rounds = [Rounds::default(), Rounds::default()];
    let mut protected = [Common::default(), Common::default()];
    let is_one = |id: CheckpointNumber| id % 8 == 2;
    // One process is slower than the other.
    let state = |process: usize, now: CheckpointNumber| {
        move |id: CheckpointNumber, kind| match kind {
            PARITIES if !is_one(id) => FileState::Missing,
            PARITIES if now < id + 3 + process as CheckpointNumber => FileState::Pending,
            _ => FileState::Present,
        }
    };
    for now in 1..=40 {
        let begin = |process: usize| rounds[process].begin(7, None, state(process, now));
        let passed = [0, 1].map(begin);
        for (rounds, protected) in rounds.iter_mut().zip(&mut protected) {
            rounds.opened(now, false);
            protected.learn(rounds.end(&least(&passed)).common[PARITIES]);
        }
        // By then both have made them.
        let expected: Vec<CheckpointNumber> =
            (1..40).filter(|id| is_one(*id) && id + 4 <= now).collect();
        for protected in &protected {
            let found: Vec<CheckpointNumber> = (1..40).filter(|id| protected.has(*id)).collect();
            assert_eq!(found, expected, "after {now}");
        }
    }
}

/// At the end of a job no later round follows: the last version protected everywhere must still be
/// found.
#[test]
fn the_last_parities_are_known_of_in_the_end() {
    for made in [&[5][..], &[2, 5], &[2, 3, 5, 6], &[9]] {
        let mut rounds = [Rounds::default(), Rounds::default()];
        for now in 1..=9 {
            let open =
                |_, kind| if kind == PARITIES { FileState::Pending } else { FileState::Present };
            let passed = rounds.each_mut().map(|rounds| rounds.begin(7, None, open));
            for rounds in &mut rounds {
                rounds.opened(now, false);
                rounds.end(&least(&passed));
            }
        }
        let state = |id: CheckpointNumber, kind| match kind {
            PARITIES if !made.contains(&id) => FileState::Missing,
            _ => FileState::Present,
        };
        let passed = rounds.each_mut().map(|rounds| rounds.begin_last(state));
        for rounds in &mut rounds {
            let mut protected = Common::default();
            protected.learn(rounds.end(&least(&passed)).common[PARITIES]);
            assert_eq!(Some(&protected.youngest()), made.last());
        }
    }
}
