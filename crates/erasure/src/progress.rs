//! Which version is encoded when: what the members have said, and what is to be done next. No
//! thread, no socket, no clock.
//!
//! A version is encoded as soon as every member has said that its file is in scratch. Nobody has to
//! take the same versions at the same time, or at all: what a member never says is never waited for
//! by an application, only by the end of the job, and only while that member may still say it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::encoding::{Encoding, Member};
use format::checksum::Checksum;
use policy::rounds::FileState;

/// A checkpoint's name and version.
pub type Key = (Arc<str>, i32);

/// Versions that are remembered before they can be encoded. Each may hold a file open.
const MOST_PENDING: usize = 256;
/// Files, or decisions about them, that wait for each other.
const MOST_WAITING: usize = 1024;

/// What the worker is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Tell the others of this file.
    Announce(Key),
    /// Make the parities that this member keeps.
    Encode(Encoding),
    /// Tell those who follow that this version is to be encoded.
    Decide(Key),
    /// Tell those who follow that no more will be decided.
    DecideNoMore,
    /// Tell the others that no more files will be announced.
    Leave,
    /// Nobody needs this file any more.
    Withdraw(Key),
}

/// How a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberState {
    Present,
    /// It announces no more files.
    Leaving,
    /// It does nothing any more.
    Gone,
}

/// A version that somebody has announced.
#[derive(Debug)]
struct Version {
    announced: Vec<Option<Member>>,
    /// Of which encoding each member has made its parities, or cannot. That may be heard of before
    /// all is known that was encoded.
    ended: Vec<Option<Checksum>>,
    started: bool,
    since: u64,
}

/// Who decides which versions are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Nobody: all of them are.
    All,
    /// This process, which others follow.
    Own,
    /// Another process.
    Others,
}

/// What one member knows of its group.
#[derive(Debug)]
pub struct Progress {
    own: usize,
    parities: u32,
    selection: Selection,
    members: Vec<MemberState>,
    /// Files that have not been announced, the oldest first.
    complete: VecDeque<Key>,
    /// Versions that are to be encoded, and have not been announced.
    decided: VecDeque<Key>,
    /// The one that is being announced.
    announcing: Option<Key>,
    /// The last of which this member's parities are in their place.
    made: VecDeque<Key>,
    versions: BTreeMap<Key, Version>,
    /// To be done before anything else.
    urgent: VecDeque<Task>,
    /// No more versions will be decided on.
    closed: bool,
    /// The job ends once everything is done that can be.
    leaving: bool,
    left: bool,
    counter: u64,
    /// Versions that could not be protected because a member is gone.
    failed: u64,
}

impl Progress {
    /// Of member `own` in a group of so many.
    pub fn new(own: usize, members: usize, parities: u32, selection: Selection) -> Progress {
        Progress {
            own,
            parities,
            selection,
            members: vec![MemberState::Present; members],
            complete: VecDeque::new(),
            decided: VecDeque::new(),
            announcing: None,
            made: VecDeque::new(),
            versions: BTreeMap::new(),
            urgent: VecDeque::new(),
            closed: false,
            leaving: false,
            left: false,
            counter: 0,
            failed: 0,
        }
    }

    /// A file of this member is in scratch. `decide`: it is to be encoded, whatever was decided.
    pub fn complete(&mut self, key: Key, decide: bool) {
        // The parities of the file before went with it.
        self.made.retain(|made| *made != key);
        if self.member_is_gone() {
            self.failed += u64::from(self.selection == Selection::All || decide);
            return;
        }
        if decide {
            push(&mut self.decided, key.clone());
            if self.selection == Selection::Own {
                self.urgent.push_back(Task::Decide(key.clone()));
            }
        }
        push(&mut self.complete, key);
    }

    /// Somebody has decided that this version is to be encoded.
    pub fn decided(&mut self, key: Key) {
        self.urgent.push_back(Task::Decide(key.clone()));
        push(&mut self.decided, key);
    }

    /// No more versions will be decided on.
    pub fn no_more_decisions(&mut self) {
        if !std::mem::replace(&mut self.closed, true) && self.selection != Selection::All {
            self.urgent.push_back(Task::DecideNoMore);
        }
    }

    /// A member has said that its file is in scratch; or this one has.
    pub fn announced(&mut self, member: usize, key: Key, file: Member) {
        if self.member_is_gone() {
            return;
        }
        let (members, since) = (self.members.len(), self.counter);
        self.counter += 1;
        let version = self.versions.entry(key).or_insert_with(|| Version {
            announced: vec![None; members],
            ended: vec![None; members],
            started: false,
            since,
        });
        if version.announced[member].as_ref().is_some_and(|known| *known != file) {
            // The version was taken again: what is made of the old file is of no use.
            version.started = false;
        }
        version.announced[member] = Some(file);
        self.forget_impossible();
        self.forget_done();
        self.forget_old();
    }

    /// A member has made its parities of the encoding `id` of this version, or cannot.
    pub fn ended(&mut self, member: usize, key: &Key, id: Checksum) {
        if let Some(version) = self.versions.get_mut(key) {
            version.ended[member] = Some(id);
        }
        self.forget_done();
    }

    /// This member's parities of a version are in their place. To be told before it has ended.
    pub fn encoded(&mut self, key: Key) {
        push(&mut self.made, key);
    }

    /// What becomes of this member's parities of a version whose file is in scratch.
    pub fn parity_state(&self, key: &Key) -> FileState {
        if self.made.contains(key) {
            return FileState::Present;
        }
        match self.is_under_way(key) || self.complete.contains(key) {
            true => FileState::Pending,
            false => FileState::Missing,
        }
    }

    /// Whether this member has made its parities of a version, or will as far as it knows: its file is
    /// of use beyond that of a newer one.
    pub fn may_protect(&self, key: &Key) -> bool {
        let waits = || self.complete.contains(key) && self.is_wanted(key);
        self.made.contains(key) || self.is_under_way(key) || waits()
    }

    /// Whether this member tells the others of a version, or has, and waits for what comes of it.
    fn is_under_way(&self, key: &Key) -> bool {
        let begun = |version: &Version| {
            let id = version.encoding(key, self.parities).map(|encoding| encoding.id());
            let ended = id.is_some() && version.ended[self.own] == id;
            version.announced[self.own].is_some() && !ended
        };
        self.announcing.as_ref() == Some(key) || self.versions.get(key).is_some_and(begun)
    }

    /// A member announces no more files.
    pub fn member_leaves(&mut self, member: usize) {
        if self.members[member] == MemberState::Present {
            self.members[member] = MemberState::Leaving;
        }
        self.forget_impossible();
    }

    /// A member does nothing any more. How many versions cannot be protected because of that;
    /// `None` if it was known, or had nothing left to do.
    pub fn member_gone(&mut self, member: usize) -> Option<u64> {
        let before = std::mem::replace(&mut self.members[member], MemberState::Gone);
        if before == MemberState::Gone {
            return None;
        }
        let complete = std::mem::take(&mut self.complete);
        let wanted = complete.iter().filter(|key| self.is_wanted(key)).count() as u64;
        let lost = wanted + self.forget_impossible();
        self.failed += lost;
        self.forget_done();
        // One that has said goodbye was waited for by itself.
        (before == MemberState::Present || lost > 0).then_some(lost)
    }

    /// The job ends once everything is done that can be.
    pub fn leave(&mut self) {
        self.leaving = true;
        if self.selection != Selection::Others {
            self.no_more_decisions();
        }
    }

    /// Whether nobody needs this member any more.
    pub fn is_done(&self) -> bool {
        self.left && self.urgent.is_empty() && self.versions.is_empty()
    }

    /// Whether something is expected of the others.
    pub fn expects(&self) -> bool {
        self.leaving || !self.versions.is_empty()
    }

    /// Versions that could not be protected because a member is gone.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// The next thing to do, if there is any.
    pub fn next_task(&mut self) -> Option<Task> {
        // Whoever asks has done what came before.
        self.announcing = None;
        if let Some(task) = self.urgent.pop_front() {
            return Some(task);
        }
        if let Some(at) = self.complete.iter().position(|key| self.is_wanted(key)) {
            // What is older and was not decided on will not be.
            let key = self.complete.drain(..=at).next_back();
            if let Some(key) = key {
                self.decided.retain(|decided| *decided != key);
                self.announcing = Some(key.clone());
                return Some(Task::Announce(key));
            }
        }
        let ready = self
            .versions
            .iter_mut()
            .filter(|(_, version)| {
                !version.started && version.announced.iter().all(Option::is_some)
            })
            .min_by_key(|(_, version)| version.since);
        if let Some((key, version)) = ready {
            version.started = true;
            return version.encoding(key, self.parities).map(Task::Encode);
        }
        let over = self.selection == Selection::All || self.closed || self.member_is_gone();
        if self.leaving && over && !self.left {
            self.left = true;
            self.member_leaves(self.own);
            return Some(Task::Leave);
        }
        None
    }

    fn is_wanted(&self, key: &Key) -> bool {
        self.selection == Selection::All || self.decided.contains(key)
    }

    /// Whether a member is gone, without which nothing can be encoded.
    fn member_is_gone(&self) -> bool {
        self.members.contains(&MemberState::Gone)
    }

    /// Versions that will never be encoded, because somebody will never announce them or is gone:
    /// how many of them a death has spoilt.
    fn forget_impossible(&mut self) -> u64 {
        let (own, members) = (self.own, self.members.clone());
        let broken = self.member_is_gone();
        let mut lost = 0;
        self.forget(|_, version| {
            if broken {
                // Not even if all have announced: the others may have noticed before they began.
                lost += u64::from(!version.started && version.announced[own].is_some());
                return !version.started;
            }
            let never = |(file, member): (&Option<Member>, &MemberState)| {
                file.is_none() && *member == MemberState::Leaving
            };
            version.announced.iter().zip(&members).any(never)
        });
        lost
    }

    /// Versions whose parities every member has made that could. After a death, nobody can tell who
    /// still will: only this member's own are waited for.
    fn forget_done(&mut self) {
        let (own, parities, broken) = (self.own, self.parities, self.member_is_gone());
        self.forget(|key, version| {
            let Some(id) = version.encoding(key, parities).map(|encoding| encoding.id()) else {
                return false;
            };
            let ended = |member: usize| version.ended[member] == Some(id);
            ended(own) && (broken || (0..version.ended.len()).all(ended))
        });
    }

    fn forget(&mut self, mut when: impl FnMut(&Key, &Version) -> bool) {
        let urgent = &mut self.urgent;
        self.versions.retain(|key, version| {
            let forgotten = when(key, version);
            if forgotten {
                urgent.push_back(Task::Withdraw(key.clone()));
            }
            !forgotten
        });
    }

    /// The oldest of too many versions, which no other member seems to take.
    fn forget_old(&mut self) {
        while self.versions.len() > MOST_PENDING {
            let waiting = self.versions.iter().filter(|(_, version)| !version.started);
            let Some(oldest) = waiting.map(|(_, version)| version.since).min() else { return };
            self.forget(|_, version| version.since == oldest);
        }
    }
}

impl Version {
    /// What is to be encoded, once everybody has announced a file.
    fn encoding(&self, key: &Key, parities: u32) -> Option<Encoding> {
        Some(Encoding {
            name: key.0.to_string(),
            version: key.1,
            parities,
            members: self.announced.iter().cloned().collect::<Option<_>>()?,
        })
    }
}

fn push(queue: &mut VecDeque<Key>, key: Key) {
    queue.retain(|known| *known != key);
    queue.push_back(key);
    if queue.len() > MOST_WAITING {
        queue.pop_front();
    }
}

#[cfg(test)]
mod tests;
