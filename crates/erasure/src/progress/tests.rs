//! Members that deliver all messages at once, and some that are lost or leave.

use super::*;

fn key(version: i32) -> VersionKey {
    (Arc::from("x"), version)
}

fn file(member: usize, content: u8) -> Member {
    Member {
        rank: member as u32,
        len: 1,
        digest: Checksum::from_bytes([content; 32]),
        identity: format::identity::Identity::UNKNOWN,
        routed: None,
    }
}

/// A group whose members deliver all messages at once.
struct Group {
    members: Vec<Progress>,
    parities: Vec<Vec<Encoding>>,
    left: Vec<bool>,
    dead: Vec<bool>,
    content: u8,
}

impl Group {
    fn new(choices: &[Selection]) -> Group {
        let count = choices.len();
        let one = |(own, choice): (usize, &Selection)| Progress::new(own, count, 1, *choice);
        Group {
            members: choices.iter().enumerate().map(one).collect(),
            parities: vec![Vec::new(); count],
            left: vec![false; count],
            dead: vec![false; count],
            content: 0,
        }
    }

    /// Runs all members until nothing is left to do.
    fn settle(&mut self) {
        while (0..self.members.len()).any(|own| !self.dead[own] && self.one(own)) {}
    }

    fn one(&mut self, own: usize) -> bool {
        let Some(task) = self.members[own].next_task() else { return false };
        let live = (0..self.members.len()).filter(|m| !self.dead[*m]).collect::<Vec<_>>();
        let others = live.iter().copied().filter(|m| *m != own);
        match task {
            GroupTask::Announce(key, round) => {
                let file = file(own, self.content);
                live.iter().for_each(|&m| {
                    self.members[m].announced(own, key.clone(), round, file.clone());
                });
            }
            GroupTask::Encode(encoding, round) => {
                let (key, id) = (key(encoding.version), encoding.id());
                live.iter().for_each(|&m| self.members[m].ended(own, &key, round, id));
                self.parities[own].push(encoding);
            }
            GroupTask::Leave => {
                self.left[own] = true;
                others.for_each(|m| self.members[m].member_leaves(own));
            }
            GroupTask::Settle => others.for_each(|m| self.members[m].member_settles(own)),
            GroupTask::Finish => others.for_each(|m| self.members[m].member_finished(own)),
            // Only the first member has followers.
            GroupTask::Decide(key) if own == 0 => {
                others.for_each(|m| self.members[m].decided(key.clone()));
            }
            GroupTask::DecideNoMore if own == 0 => {
                others.for_each(|m| self.members[m].no_more_decisions());
            }
            GroupTask::Decide(_) | GroupTask::DecideNoMore | GroupTask::Withdraw(_) => {}
        }
        true
    }

    fn complete(&mut self, members: &[usize], version: i32) {
        for &member in members {
            self.members[member].complete(key(version), false);
        }
    }

    fn die(&mut self, dead: usize) {
        self.dead[dead] = true;
        for member in 0..self.members.len() {
            self.members[member].member_gone(dead);
        }
    }

    fn versions(&self, member: usize) -> Vec<i32> {
        self.parities[member].iter().map(|encoding| encoding.version).collect()
    }

    fn done(&self) -> Vec<bool> {
        self.members.iter().map(Progress::is_done).collect()
    }
}

#[test]
fn a_version_is_encoded_when_all_have_it() {
    let mut group = Group::new(&[Selection::All; 3]);
    group.complete(&[0, 1], 1);
    group.complete(&[0], 2);
    group.settle();
    assert!(group.versions(0).is_empty());
    group.complete(&[2], 1);
    group.settle();
    for member in 0..3 {
        assert_eq!(group.versions(member), [1]);
    }
    let ranks: Vec<u32> = group.parities[1][0].members.iter().map(|m| m.rank).collect();
    assert_eq!(ranks, [0, 1, 2]);
}

/// The end of a job waits for slow members, but not for encodings that cannot happen.
#[test]
fn the_end_waits_as_long_as_it_must() {
    let mut group = Group::new(&[Selection::All; 3]);
    group.complete(&[0, 1], 1);
    group.members[0].leave();
    group.settle();
    assert_eq!(group.done(), [false; 3]);
    group.complete(&[2], 1);
    group.complete(&[1], 2);
    group.members[1].leave();
    group.settle();
    assert_eq!(group.versions(0), [1]);
    // Version 2 cannot happen without the first member, but the last may take version 1 again.
    assert_eq!(group.members[1].versions.len(), 0);
    assert_eq!(group.done(), [false; 3]);
    group.members[2].leave();
    group.settle();
    assert_eq!(group.done(), [true; 3]);
}

/// One member alone takes a version again, or they have taken it unequally often, as after a rollback: its file is
/// protected together with those that the others have, after a second or at the end.
#[test]
fn a_version_that_is_taken_unequally_often() {
    for at_the_end in [false, true] {
        let mut group = Group::new(&[Selection::All; 3]);
        group.complete(&[0, 1, 2], 1);
        group.complete(&[0], 2);
        group.settle();
        group.content = 1;
        group.complete(&[0], 1);
        group.complete(&[0, 1, 2], 2);
        group.settle();
        assert_eq!(group.versions(1), [1]);
        if at_the_end {
            group.members.iter_mut().for_each(Progress::leave);
        } else {
            // The first time they may just be slower.
            for expected in [&[1][..], &[1, 1, 2]] {
                group.members.iter_mut().for_each(|member| member.catch_up(false));
                group.settle();
                assert_eq!(group.versions(1).len(), expected.len());
            }
        }
        group.settle();
        for parities in &group.parities {
            let mut last = parities[1..].to_vec();
            last.sort_unstable();
            let versions: Vec<i32> = last.iter().map(|encoding| encoding.version).collect();
            assert_eq!(versions, [1, 2]);
            assert_eq!(last[0].members[0], file(0, 1));
        }
    }
}

/// What is known of the versions that were taken is bounded, and a version that others know longer is protected.
#[test]
fn old_rounds_are_forgotten() {
    let mut group = Group::new(&[Selection::All; 2]);
    for version in 0..3 * MOST_WAITING as i32 {
        group.complete(&[0, 1], version);
        group.settle();
        assert!(group.members[0].takes.len() <= 2 * MOST_WAITING);
    }
    assert!(!group.members[0].takes.contains_key(&key(0)));
    let takes = Takes { round: 7, announced: None, owed: 0, is_behind: false, since: u64::MAX };
    group.members[1].takes.insert(key(0), takes);
    group.content = 1;
    group.complete(&[0, 1], 0);
    group.settle();
    for _ in 0..2 {
        group.members.iter_mut().for_each(|member| member.catch_up(false));
        group.settle();
    }
    for parities in &group.parities {
        assert_eq!(parities.last().map(|last| last.version), Some(0));
    }
}

#[test]
fn nobody_waits_for_the_dead() {
    let mut group = Group::new(&[Selection::All; 3]);
    group.complete(&[0, 1], 1);
    group.settle();
    group.die(2);
    assert_eq!(group.members[0].failed(), 1);
    group.complete(&[0, 1], 2);
    assert_eq!(group.members[0].failed(), 2);
    for member in [0, 1] {
        group.members[member].leave();
    }
    group.settle();
    assert_eq!(group.done()[..2], [true; 2]);
    assert!(group.versions(0).is_empty());
}

/// A member is lost after all have announced: members that have finished do not wait for those that have
/// not begun, which count a failure.
#[test]
fn a_death_in_the_middle_of_encoding() {
    let mut group = Group::new(&[Selection::All; 3]);
    group.complete(&[0, 1, 2], 1);
    while group.versions(0).is_empty() {
        assert!((0..3).any(|own| group.one(own)));
    }
    assert!(group.versions(1).is_empty());
    group.die(2);
    for member in [0, 1] {
        group.members[member].leave();
        while group.one(member) {}
        assert!(group.members[member].is_done());
    }
    assert_eq!([0, 1].map(|member| group.members[member].failed()), [0, 1]);
}

/// A version that is taken again is encoded again, from the new files only.
#[test]
fn a_version_that_is_taken_again() {
    let mut group = Group::new(&[Selection::All; 2]);
    group.complete(&[0, 1], 1);
    group.settle();
    group.content = 1;
    group.complete(&[0, 1], 1);
    group.settle();
    let last = group.parities[0].last().unwrap();
    assert_eq!(last.members, [file(0, 1), file(1, 1)]);
    assert_eq!(group.parities[1].last().unwrap(), last);
}

#[test]
fn only_what_was_decided_is_encoded() {
    let mut group = Group::new(&[Selection::Own, Selection::Others]);
    // Selected before the other member has the file, and after.
    group.complete(&[0], 1);
    group.members[0].complete(key(2), true);
    group.settle();
    group.complete(&[1], 1);
    group.complete(&[1], 2);
    group.complete(&[1], 3);
    group.members[0].complete(key(3), true);
    group.settle();
    for member in [0, 1] {
        assert_eq!(group.versions(member), [2, 3]);
    }
    // A selection that arrives while the other member leaves still counts.
    group.members[1].leave();
    group.complete(&[1], 4);
    group.settle();
    assert_eq!(group.left, [false, false]);
    group.members[0].complete(key(4), true);
    group.members[0].leave();
    group.settle();
    assert_eq!(group.versions(1), [2, 3, 4]);
    assert_eq!(group.done(), [true, true]);
}

/// Messages of different members may overtake each other.
#[test]
fn an_end_that_is_heard_of_early_counts() {
    let mut member = Progress::new(0, 2, 1, Selection::All);
    let files = [file(0, 0), file(1, 0)];
    member.complete(key(1), false);
    assert_eq!(member.next_task(), Some(GroupTask::Announce(key(1), 0)));
    member.announced(0, key(1), 0, files[0].clone());
    let members = files.to_vec();
    let encoding = Encoding { name: "x".to_owned(), version: 1, parities: 1, members };
    member.ended(1, &key(1), 0, encoding.id());
    member.announced(1, key(1), 0, files[1].clone());
    assert_eq!(member.next_task(), Some(GroupTask::Encode(encoding.clone(), 0)));
    member.ended(0, &key(1), 0, encoding.id());
    assert_eq!(member.next_task(), Some(GroupTask::Withdraw(key(1))));
}

/// A name that only one member uses must not keep files open for ever.
#[test]
fn what_nobody_else_takes_is_forgotten() {
    let mut group = Group::new(&[Selection::All; 2]);
    for version in 0..2000 {
        group.complete(&[0], version);
        group.settle();
    }
    assert_eq!(group.members[0].versions.len(), MOST_PENDING);
    assert_eq!(group.members[1].versions.len(), MOST_WAITING);
    group.complete(&[1], 1999);
    group.settle();
    assert_eq!(group.versions(0), [1999]);
}

/// Catches old versions that a slower member announces, and for which the others forget younger ones: none would be
/// encoded by all.
#[test]
fn the_youngest_of_too_many_are_encoded() {
    let mut group = Group::new(&[Selection::All; 2]);
    for version in 0..600 {
        group.complete(&[0, 1], version);
    }
    while group.one(0) {}
    group.settle();
    let youngest = Vec::from_iter(600 - MOST_PENDING as i32..600);
    assert_eq!([group.versions(0), group.versions(1)], [youngest.clone(), youngest]);
}

/// Catches a version that is reported without parities while they may still come, and one that is
/// reported with them after it was taken again.
#[test]
fn the_fate_of_parities_is_told() {
    let mut group = Group::new(&[Selection::All; 2]);
    group.complete(&[0], 1);
    assert_eq!(group.members[0].parity_state(&key(1)), FileState::Pending, "not announced");
    let task = group.members[0].next_task();
    assert_eq!(task, Some(GroupTask::Announce(key(1), 0)));
    assert_eq!(group.members[0].parity_state(&key(1)), FileState::Pending, "being announced");
    group.members[0].announced(0, key(1), 0, file(0, 0));
    group.members[0].announced(1, key(1), 0, file(1, 0));
    assert_eq!(group.members[0].parity_state(&key(1)), FileState::Pending, "to be encoded");
    let Some(GroupTask::Encode(encoding, _)) = group.members[0].next_task() else { panic!() };
    assert_eq!(group.members[0].parity_state(&key(1)), FileState::Pending, "being encoded");
    group.members[0].ended(0, &key(1), 0, encoding.id());
    assert_eq!(group.members[0].parity_state(&key(1)), FileState::Missing, "it has failed");
    group.members[0].encoded(key(1), 0);
    assert_eq!(group.members[0].parity_state(&key(1)), FileState::Present);
    group.members[0].complete(key(1), false);
    assert_eq!(group.members[0].parity_state(&key(1)), FileState::Pending, "taken again");
    group.die(1);
    assert_eq!(
        group.members[0].parity_state(&key(1)),
        FileState::Missing,
        "nobody is there any more"
    );
}
