//! Members whose messages arrive late, in any order between pairs of members, while files are taken again and removed, and
//! members leave and die: whatever happens, every member can end, and what all hold is protected.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::prelude::*;

use super::*;

const MEMBERS: usize = 3;
const VERSIONS: i32 = 2;

fn key(version: i32) -> VersionKey {
    (Arc::from("x"), version)
}

fn file(member: usize, content: u8) -> Member {
    let digest = Checksum::from_bytes([content; 32]);
    let identity = format::identity::Identity::UNKNOWN;
    Member { rank: member as u32, len: 1, digest, identity, routed: None }
}

#[derive(Clone, Debug)]
enum Said {
    Announced(VersionKey, u32, Member),
    Ended(VersionKey, u32, Checksum),
    Decided(VersionKey),
    DecidedAll,
    Leaving,
    Settled,
    Finished,
}

/// What happens next. Members are numbers.
#[derive(Clone, Debug)]
enum WorldStep {
    /// A member takes a version, perhaps again; the first selects it, if versions are selected.
    Take(usize, i32, bool),
    /// All restore a version and find that somebody lacks parities.
    Again(i32),
    /// A second has passed.
    CatchUp(usize),
    /// The second hears the next word of the first.
    Hear(usize, usize),
    /// A member goes on with its task, or begins the next one.
    Work(usize),
    Remove(usize, i32),
    Leave(usize),
    Die(usize),
    /// The first notices that the second has died.
    Notice(usize, usize),
}

/// A task that takes time.
enum Doing {
    /// An announcement whose file is not open yet.
    Open(VersionKey, u32),
    Announce(VersionKey, u32, Option<Member>),
    Encode(Encoding, u32),
    /// An encoding, and whether the parities have their name.
    Encoded(Encoding, u32, bool),
}

#[derive(Default)]
struct InterleavedGroup {
    /// Versions are encoded if the first member selects them.
    selects: bool,
    members: Vec<Progress>,
    doing: Vec<Option<Doing>>,
    /// What was said and not heard, by who says and who hears.
    said: BTreeMap<(usize, usize), VecDeque<Said>>,
    served: Vec<BTreeMap<i32, Member>>,
    /// The contents of files, by member and version, and how often each was taken.
    files: BTreeMap<(usize, i32), u8>,
    takes: BTreeMap<(usize, i32), u8>,
    /// Which take of the first member was selected last.
    selected: BTreeMap<i32, u8>,
    /// What each has made parities of, if the files are still the same here.
    made: BTreeMap<(usize, i32), Vec<Member>>,
    dead: BTreeSet<usize>,
    noticed: BTreeSet<(usize, usize)>,
    left: BTreeSet<usize>,
    removed: BTreeSet<i32>,
    /// A member that was slower by seconds has caught up with a file that it was still to take anew.
    is_slow: bool,
    /// Reads of a file that was withdrawn, and not taken again.
    refused: usize,
    announcements: usize,
    encodings: usize,
}

impl InterleavedGroup {
    fn new(selects: bool) -> InterleavedGroup {
        let selection = |own| match (selects, own) {
            (false, _) => Selection::All,
            (true, 0) => Selection::Own,
            (true, _) => Selection::Others,
        };
        InterleavedGroup {
            selects,
            members: (0..MEMBERS)
                .map(|own| Progress::new(own, MEMBERS, 1, selection(own)))
                .collect(),
            doing: (0..MEMBERS).map(|_| None).collect(),
            served: vec![BTreeMap::new(); MEMBERS],
            ..InterleavedGroup::default()
        }
    }

    fn lives(&self, member: usize) -> bool {
        !self.dead.contains(&member)
    }

    fn say(&mut self, own: usize, word: &Said) {
        for other in (0..MEMBERS).filter(|other| *other != own) {
            if self.lives(other) && !self.noticed.contains(&(own, other)) {
                self.said.entry((own, other)).or_default().push_back(word.clone());
            }
        }
    }

    fn hear(&mut self, from: usize, own: usize) -> bool {
        let words = self.said.get_mut(&(from, own)).filter(|_| !self.dead.contains(&own));
        let Some(word) = words.and_then(VecDeque::pop_front) else { return false };
        let member = &mut self.members[own];
        match word {
            Said::Announced(key, round, file) => member.announced(from, key, round, file),
            Said::Ended(key, round, id) => member.ended(from, &key, round, id),
            Said::Decided(key) => member.decided(key),
            Said::DecidedAll => member.no_more_decisions(),
            Said::Leaving => member.member_leaves(from),
            Said::Settled => member.member_settles(from),
            Said::Finished => member.member_finished(from),
        }
        true
    }

    fn work(&mut self, own: usize) -> bool {
        if !self.lives(own) {
            return false;
        }
        match self.doing[own].take() {
            Some(Doing::Open(key, round)) => {
                let is_latest = self.members[own].is_latest(&key, round);
                let content = self.files.get(&(own, key.1)).filter(|_| is_latest);
                let file = content.map(|content| file(own, *content));
                self.doing[own] = Some(Doing::Announce(key, round, file));
            }
            Some(Doing::Announce(key, round, Some(file))) => {
                self.served[own].insert(key.1, file.clone());
                self.members[own].announced(own, key.clone(), round, file.clone());
                self.say(own, &Said::Announced(key, round, file));
            }
            // There is no such file any more, or its next announcement is on its way.
            Some(Doing::Announce(_, _, None)) => {}
            Some(Doing::Encode(encoding, round)) => {
                let is_named = self.encode(own, &encoding, round);
                self.doing[own] = Some(Doing::Encoded(encoding, round, is_named));
            }
            Some(Doing::Encoded(encoding, round, is_named)) => {
                let key = key(encoding.version);
                if is_named {
                    self.members[own].encoded(key.clone(), round);
                }
                self.members[own].ended(own, &key, round, encoding.id());
                self.say(own, &Said::Ended(key, round, encoding.id()));
            }
            None => return self.begin(own),
        }
        true
    }

    fn begin(&mut self, own: usize) -> bool {
        match self.members[own].next_task() {
            None => return false,
            Some(GroupTask::Announce(key, round)) => {
                self.announcements += 1;
                self.doing[own] = Some(Doing::Open(key, round));
            }
            Some(GroupTask::Encode(encoding, round)) => {
                self.encodings += 1;
                self.doing[own] = Some(Doing::Encode(encoding, round));
            }
            Some(GroupTask::Withdraw(key)) => drop(self.served[own].remove(&key.1)),
            Some(GroupTask::Leave) => self.say(own, &Said::Leaving),
            Some(GroupTask::Settle) => self.say(own, &Said::Settled),
            Some(GroupTask::Finish) => self.say(own, &Said::Finished),
            Some(GroupTask::Decide(key)) if own == 0 => self.say(own, &Said::Decided(key)),
            Some(GroupTask::DecideNoMore) if own == 0 => self.say(own, &Said::DecidedAll),
            Some(GroupTask::Decide(_) | GroupTask::DecideNoMore) => {}
        }
        true
    }

    /// Reads the files of an encoding, and gives the parities their name if they can be made and belong to this member's
    /// file. Returns whether they have it.
    fn encode(&mut self, own: usize, encoding: &Encoding, round: u32) -> bool {
        let version = encoding.version;
        let mut is_read = true;
        for (member, file) in encoding.members.iter().enumerate() {
            let served = self.served[member].get(&version).filter(|_| !self.dead.contains(&member));
            match served {
                Some(served) if served == file => continue,
                Some(_) if member != own => {
                    self.members[own].taken_again(member, &key(version), round, file);
                }
                _ => self.refused += usize::from(!self.dead.contains(&member)),
            }
            is_read = false;
        }
        let current = self.files.get(&(own, version)).map(|content| file(own, *content));
        let is_named = is_read && current.as_ref() == Some(&encoding.members[own]);
        if is_named {
            self.made.insert((own, version), encoding.members.clone());
        }
        is_named
    }

    fn may_take(&self, member: usize) -> bool {
        self.lives(member) && !self.left.contains(&member)
    }

    fn step(&mut self, step: &WorldStep) {
        match *step {
            WorldStep::Take(member, version, selected) if self.may_take(member) => {
                let takes = self.takes.entry((member, version)).or_default();
                *takes += 1;
                self.files.insert((member, version), *takes);
                self.made.remove(&(member, version));
                let selected = selected && member == 0 && self.selects;
                if selected {
                    self.selected.insert(version, *takes);
                }
                self.members[member].complete(key(version), selected);
            }
            WorldStep::Again(version) => {
                let holds =
                    |member| self.may_take(member) && self.files.contains_key(&(member, version));
                if (0..MEMBERS).all(holds) {
                    for member in 0..MEMBERS {
                        *self.takes.entry((member, version)).or_default() += 1;
                        self.members[member].complete(key(version), true);
                    }
                    self.selected.insert(version, self.takes[&(0, version)]);
                }
            }
            WorldStep::CatchUp(member) if self.lives(member) => {
                self.members[member].catch_up(false);
                self.is_slow |= self.members[member].takes.values().any(|takes| takes.owed > 0);
            }
            WorldStep::Hear(from, own) => drop(self.hear(from, own)),
            WorldStep::Work(own) => drop(self.work(own)),
            WorldStep::Remove(member, version) if self.lives(member) => {
                self.removed.insert(version);
                self.made.remove(&(member, version));
                self.files.remove(&(member, version));
            }
            WorldStep::Leave(member) => {
                self.left.insert(member);
                self.members[member].leave();
            }
            WorldStep::Die(member) => drop(self.dead.insert(member)),
            WorldStep::Notice(own, member) => drop(self.notice(own, member)),
            WorldStep::Take(..) | WorldStep::CatchUp(_) | WorldStep::Remove(..) => {}
        }
    }

    fn notice(&mut self, own: usize, member: usize) -> bool {
        let can = self.dead.contains(&member) && self.lives(own);
        if !can || !self.noticed.insert((own, member)) {
            return false;
        }
        if self.selects && member == 0 {
            self.members[own].no_more_decisions();
        }
        self.members[own].member_gone(member);
        true
    }

    /// All leave, hear everything, and do what there is to do. They notice who has died when there is nothing else.
    fn end(&mut self) {
        for member in (0..MEMBERS).filter(|member| !self.left.contains(member)).collect::<Vec<_>>()
        {
            self.step(&WorldStep::Leave(member));
        }
        let pairs = (0..MEMBERS).flat_map(|own| (0..MEMBERS).map(move |other| (own, other)));
        let pairs: Vec<(usize, usize)> = pairs.collect();
        loop {
            let mut any = false;
            for own in 0..MEMBERS {
                while self.work(own) {
                    any = true;
                }
            }
            for &(own, other) in &pairs {
                any |= self.hear(other, own);
            }
            if !any {
                for &(own, other) in &pairs {
                    any |= self.notice(own, other);
                }
            }
            if !any {
                return;
            }
        }
    }

    /// Whether all must have made parities of their newest files of a version.
    fn must_be_protected(&self, version: i32) -> bool {
        let takes = |member| self.takes.get(&(member, version)).copied();
        let Some(first) = takes(0) else { return false };
        let is_taken = (0..MEMBERS).all(|member| takes(member).is_some());
        let is_selected = || {
            let alike = (0..MEMBERS).all(|member| takes(member) == Some(first));
            alike && self.selected.get(&version) == Some(&first)
        };
        let is_lost = self.removed.contains(&version) || !self.dead.is_empty();
        // Where versions are selected, a slow member's next file may be selected in its place.
        is_taken && !is_lost && (!self.selects || is_selected() && !self.is_slow)
    }

    fn check(&self) -> std::result::Result<(), TestCaseError> {
        for own in (0..MEMBERS).filter(|own| self.lives(*own)) {
            prop_assert!(self.members[own].is_done(), "{own} waits for ever");
        }
        if self.dead.is_empty() {
            prop_assert!(self.members.iter().all(|member| member.failed() == 0));
            let is_served = self.removed.is_empty() && !(self.selects && self.is_slow);
            prop_assert!(self.refused == 0 || !is_served, "a file was withdrawn");
        }
        for version in 0..VERSIONS {
            let newest = |member| Some(file(member, *self.files.get(&(member, version))?));
            let newest: Option<Vec<Member>> = (0..MEMBERS).map(newest).collect();
            for own in (0..MEMBERS).filter(|own| self.lives(*own)) {
                let made = self.made.get(&(own, version));
                let state = self.members[own].parity_state(&key(version));
                if self.must_be_protected(version) {
                    prop_assert_eq!(made, newest.as_ref(), "version {} on {}", version, own);
                    prop_assert_eq!(state, FileState::Present);
                } else if !self.removed.contains(&version) && made.is_none() {
                    prop_assert_ne!(state, FileState::Present);
                }
            }
        }
        let takes: usize = self.takes.values().map(|takes| usize::from(*takes)).sum();
        prop_assert!(self.announcements <= MEMBERS * (takes + 1), "again and again");
        prop_assert!(self.encodings <= MEMBERS * self.announcements, "again and again");
        Ok(())
    }
}

fn step(deaths: u32, removals: u32) -> impl Strategy<Value = WorldStep> {
    let version = 0..VERSIONS;
    prop_oneof![
        12 => (0..MEMBERS, version.clone(), any::<bool>()).prop_map(|(m, v, s)| WorldStep::Take(m, v, s)),
        4 => version.clone().prop_map(WorldStep::Again),
        10 => (0..MEMBERS).prop_map(WorldStep::CatchUp),
        80 => (0..MEMBERS, 0..MEMBERS).prop_map(|(from, own)| WorldStep::Hear(from, own)),
        80 => (0..MEMBERS).prop_map(WorldStep::Work),
        removals => (0..MEMBERS, version).prop_map(|(member, version)| WorldStep::Remove(member, version)),
        1 => (0..MEMBERS).prop_map(WorldStep::Leave),
        deaths => (0..MEMBERS).prop_map(WorldStep::Die),
        3 => (0..MEMBERS, 0..MEMBERS).prop_map(|(own, member)| WorldStep::Notice(own, member)),
    ]
}

fn run(selects: bool, steps: &[WorldStep]) -> std::result::Result<(), TestCaseError> {
    let mut group = InterleavedGroup::new(selects);
    (0..MEMBERS).for_each(|member| group.step(&WorldStep::Take(member, 0, true)));
    steps.iter().for_each(|step| group.step(step));
    group.end();
    group.check()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Catches a member that waits for ever for the end of an encoding that the others do not know of, a file that is
    /// withdrawn while another member needs it, a version that not all of them have encoded as it was taken last, and
    /// parities that count as there when they are gone.
    #[test]
    fn what_is_taken_again_is_protected(
        selects: bool,
        steps in prop::collection::vec(step(0, 0), 0..200)
    ) {
        run(selects, &steps)?;
    }

    /// As above, where files are removed and members die.
    #[test]
    fn every_member_ends(selects: bool, steps in prop::collection::vec(step(1, 3), 0..200)) {
        run(selects, &steps)?;
    }
}
