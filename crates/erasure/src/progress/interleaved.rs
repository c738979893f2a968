//! Members whose messages arrive late, in any order between pairs of members, while files are taken and
//! announced again: whatever happens, every member can end, and what all have taken is protected.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;

const MEMBERS: usize = 3;

fn key(version: i32) -> Key {
    (Arc::from("x"), version)
}

#[derive(Clone, Debug)]
enum Said {
    Announced(Key, u32, Member),
    Ended(Key, u32, Checksum),
    Leaving,
    Settled,
    Finished,
}

/// What a member, chosen by the number, does next.
#[derive(Clone, Debug)]
enum Step {
    /// Takes a version, perhaps again.
    Take(usize, i32),
    /// A second has passed.
    CatchUp(usize),
    /// All restore a version and find that somebody lacks parities.
    Again(i32),
    /// Hears the next word of another one.
    Hear(usize, usize),
    /// Does its next task, or ends the encoding that it has begun.
    Work(usize),
}

struct Group {
    members: Vec<Progress>,
    /// What each has begun to encode.
    encoding: Vec<Option<(Encoding, u32)>>,
    /// What was said and not heard, by who says and who hears.
    said: BTreeMap<(usize, usize), VecDeque<Said>>,
    served: Vec<BTreeMap<i32, Member>>,
    /// Encodings that could not read another one's file, though it was not taken again.
    refused: usize,
    /// How often each has taken each version, and so the content of its file.
    taken: BTreeMap<(usize, i32), u8>,
    /// What each has made parities of last, if the files are still the same here.
    made: BTreeMap<(usize, i32), Vec<Member>>,
}

fn file(member: usize, content: u8) -> Member {
    let digest = Checksum::from_bytes([content; 32]);
    let identity = format::identity::Identity::UNKNOWN;
    Member { rank: member as u32, len: 1, digest, identity, routed: None }
}

impl Group {
    fn new() -> Group {
        let one = |own| Progress::new(own, MEMBERS, 1, Selection::All);
        Group {
            members: (0..MEMBERS).map(one).collect(),
            encoding: vec![None; MEMBERS],
            said: BTreeMap::new(),
            served: vec![BTreeMap::new(); MEMBERS],
            refused: 0,
            taken: BTreeMap::new(),
            made: BTreeMap::new(),
        }
    }

    fn say(&mut self, own: usize, word: &Said) {
        for other in (0..MEMBERS).filter(|other| *other != own) {
            self.said.entry((own, other)).or_default().push_back(word.clone());
        }
    }

    fn hear(&mut self, from: usize, own: usize) -> bool {
        let Some(word) = self.said.get_mut(&(from, own)).and_then(VecDeque::pop_front) else {
            return false;
        };
        let member = &mut self.members[own];
        match word {
            Said::Announced(key, round, file) => member.announced(from, key, round, file),
            Said::Ended(key, round, id) => member.ended(from, &key, round, id),
            Said::Leaving => member.member_leaves(from),
            Said::Settled => member.member_settles(from),
            Said::Finished => member.member_finished(from),
        }
        true
    }

    fn work(&mut self, own: usize) -> bool {
        if let Some((encoding, round)) = self.encoding[own].take() {
            let (key, version) = (key(encoding.version), encoding.version);
            let mut refused = false;
            for (member, file) in encoding.members.iter().enumerate() {
                match self.served[member].get(&version) {
                    Some(served) if served == file => continue,
                    Some(_) => self.members[own].taken_again(member, &key, round, file),
                    None => self.refused += 1,
                }
                refused = true;
            }
            if !refused && encoding.members[own] == file(own, self.taken[&(own, version)]) {
                self.members[own].encoded(key.clone());
                self.made.insert((own, version), encoding.members.clone());
            }
            self.members[own].ended(own, &key, round, encoding.id());
            self.say(own, &Said::Ended(key, round, encoding.id()));
            return true;
        }
        match self.members[own].next_task() {
            None => return false,
            Some(Task::Announce(key, round)) => {
                let file = file(own, self.taken[&(own, key.1)]);
                self.served[own].insert(key.1, file.clone());
                self.members[own].announced(own, key.clone(), round, file.clone());
                self.say(own, &Said::Announced(key, round, file));
            }
            Some(Task::Encode(encoding, round)) => self.encoding[own] = Some((encoding, round)),
            Some(Task::Withdraw(key)) => drop(self.served[own].remove(&key.1)),
            Some(Task::Leave) => self.say(own, &Said::Leaving),
            Some(Task::Settle) => self.say(own, &Said::Settled),
            Some(Task::Finish) => self.say(own, &Said::Finished),
            Some(Task::Decide(_) | Task::DecideNoMore) => {}
        }
        true
    }

    fn has_taken(&self, member: usize, version: i32) -> bool {
        self.taken.contains_key(&(member, version))
    }

    fn have_taken(&self, version: i32) -> bool {
        (0..MEMBERS).all(|member| self.has_taken(member, version))
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Take(member, version) => {
                *self.taken.entry((member, version)).or_default() += 1;
                self.made.remove(&(member, version));
                self.members[member].complete(key(version), false);
            }
            Step::CatchUp(member) => self.members[member].catch_up(false),
            // What is restored was taken by all.
            Step::Again(version) if self.have_taken(version) => {
                for member in &mut self.members {
                    member.complete(key(version), true);
                }
            }
            Step::Again(_) => {}
            Step::Hear(from, own) => drop(self.hear(from, own)),
            Step::Work(own) => drop(self.work(own)),
        }
    }

    fn end(&mut self) {
        self.members.iter_mut().for_each(Progress::leave);
        loop {
            let mut any = false;
            for own in 0..MEMBERS {
                while self.work(own) {
                    any = true;
                }
                for from in 0..MEMBERS {
                    any |= self.hear(from, own);
                }
            }
            if !any {
                return;
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (0..MEMBERS, 0..2).prop_map(|(member, version)| Step::Take(member, version)),
        1 => (0..2).prop_map(Step::Again),
        1 => (0..MEMBERS).prop_map(Step::CatchUp),
        4 => (0..MEMBERS, 0..MEMBERS).prop_map(|(from, own)| Step::Hear(from, own)),
        4 => (0..MEMBERS).prop_map(Step::Work),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Catches a member that waits for ever for the end of an encoding that the others do not know of, a file
    /// that is withdrawn while another member needs it, and a version that not all of them have encoded as it
    /// was taken last.
    #[test]
    fn every_member_ends(steps in prop::collection::vec(step(), 0..200)) {
        let mut group = Group::new();
        (0..MEMBERS).for_each(|member| group.step(&Step::Take(member, 0)));
        steps.iter().for_each(|step| group.step(step));
        group.end();
        let done: Vec<bool> = group.members.iter().map(Progress::is_done).collect();
        prop_assert_eq!(done, vec![true; MEMBERS]);
        prop_assert_eq!(group.refused, 0);
        for version in (0..2).filter(|version| group.have_taken(*version)) {
            for member in &group.members {
                prop_assert_eq!(member.parity_state(&key(version)), FileState::Present);
            }
            let last: Vec<Member> =
                (0..MEMBERS).map(|member| file(member, group.taken[&(member, version)])).collect();
            for member in 0..MEMBERS {
                prop_assert_eq!(group.made.get(&(member, version)), Some(&last));
            }
        }
    }
}
