//! Decides which version is encoded when, from the members' announcements. No thread, no socket, no
//! clock.
//!
//! A version is encoded as soon as every member has announced that its file is in scratch. Members need
//! not take the same versions, at the same time or at all: only the end of the job waits for an
//! announcement, and only while the member may still make it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::encoding::{Encoding, Member};
use format::checksum::Checksum;
use policy::rounds::FileState;

/// A checkpoint's name and version.
pub type Key = (Arc<str>, i32);

/// The most versions that wait for announcements. Each may hold a file open.
const MOST_PENDING: usize = 256;
/// The most files or decisions that wait for each other.
const MOST_WAITING: usize = 1024;

/// A task for the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Announce this file to the group, in this round of its version.
    Announce(Key, u32),
    /// Compute the parities that this member keeps, in this round of the version.
    Encode(Encoding, u32),
    /// Tell the followers that this version is to be encoded.
    Decide(Key),
    /// Tell the followers that no more versions will be selected.
    DecideNoMore,
    /// Tell the group that no more files will be announced.
    Leave,
    /// Tell the group that nothing of it is needed any more.
    Finish,
    /// Stop serving this file.
    Withdraw(Key),
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberState {
    Present,
    /// The member announces no more files.
    Leaving,
    /// The member reads no more files.
    Finished,
    /// The member is gone.
    Gone,
}

/// A version that a member has announced.
#[derive(Debug)]
struct Version {
    /// How often the group has begun anew with this version: what is said of an earlier time does not count.
    round: u32,
    announced: Vec<Option<Member>>,
    /// The encoding that each member has finished or failed. This may arrive before all announcements.
    ended: Vec<Option<Checksum>>,
    started: bool,
    since: u64,
}

/// Which process selects the versions to encode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Nobody: all versions are encoded.
    All,
    /// This process; others follow it.
    Own,
    /// Another process.
    Others,
}

/// The state of a group as one member knows it.
#[derive(Debug)]
pub struct Progress {
    own: usize,
    parities: u32,
    selection: Selection,
    members: Vec<MemberState>,
    /// Files that are not announced yet, oldest first.
    complete: VecDeque<Key>,
    /// Versions that are selected but not announced.
    decided: VecDeque<Key>,
    /// The version that is being announced.
    announcing: Option<Key>,
    /// The rounds of the versions that are protected again.
    rounds: BTreeMap<Key, u32>,
    /// The versions whose parities this member has made most recently.
    made: VecDeque<Key>,
    versions: BTreeMap<Key, Version>,
    /// Tasks to be done first.
    urgent: VecDeque<Task>,
    /// No more versions will be selected.
    closed: bool,
    /// The job ends when all possible encodings are done.
    leaving: bool,
    left: bool,
    /// This member encodes no more.
    finished: bool,
    counter: u64,
    /// Versions that could not be protected because a member is gone.
    failed: u64,
}

impl Progress {
    /// The state of a group of `members`, as member `own` knows it.
    pub fn new(own: usize, members: usize, parities: u32, selection: Selection) -> Progress {
        Progress {
            own,
            parities,
            selection,
            members: vec![MemberState::Present; members],
            complete: VecDeque::new(),
            decided: VecDeque::new(),
            announcing: None,
            rounds: BTreeMap::new(),
            made: VecDeque::new(),
            versions: BTreeMap::new(),
            urgent: VecDeque::new(),
            closed: false,
            leaving: false,
            left: false,
            finished: false,
            counter: 0,
            failed: 0,
        }
    }

    /// A file of this member is complete in scratch. `decide`: select it for encoding.
    pub fn complete(&mut self, key: Key, decide: bool) {
        // Replacing the file has removed its parities.
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

    /// All members protect a version again, which each of them is told once. The round keeps the new
    /// announcements apart from those that some members may still be busy with.
    pub fn again(&mut self, key: Key) {
        *self.rounds.entry(key.clone()).or_default() += 1;
        self.complete(key, true);
    }

    /// The leader has selected this version for encoding.
    pub fn decided(&mut self, key: Key) {
        self.urgent.push_back(Task::Decide(key.clone()));
        push(&mut self.decided, key);
    }

    /// No more versions will be selected.
    pub(crate) fn no_more_decisions(&mut self) {
        if !std::mem::replace(&mut self.closed, true) && self.selection != Selection::All {
            self.urgent.push_back(Task::DecideNoMore);
        }
    }

    /// A member (perhaps this one) has announced its file, in this round of the version.
    pub fn announced(&mut self, member: usize, key: Key, round: u32, file: Member) {
        if self.member_is_gone() || self.finished {
            return;
        }
        let (members, since) = (self.members.len(), self.counter);
        self.counter += 1;
        let new = || Version {
            round,
            announced: vec![None; members],
            ended: vec![None; members],
            started: false,
            since,
        };
        let version = self.versions.entry(key).or_insert_with(new);
        match version.round.cmp(&round) {
            Ordering::Less => *version = new(),
            Ordering::Equal => {}
            Ordering::Greater => return,
        }
        if version.announced[member].as_ref().is_some_and(|known| *known != file) {
            // The version was taken again: parities of the old file are useless.
            version.started = false;
        }
        version.announced[member] = Some(file);
        self.forget_impossible();
        self.forget_done();
        self.forget_old();
    }

    /// A member has finished or failed encoding `id` of this version, in this round.
    pub fn ended(&mut self, member: usize, key: &Key, round: u32, id: Checksum) {
        if let Some(version) = self.versions.get_mut(key).filter(|it| it.round == round) {
            version.ended[member] = Some(id);
        }
        self.forget_done();
    }

    /// This member's parities of a version are complete. Called before [`Progress::ended`].
    pub fn encoded(&mut self, key: Key) {
        push(&mut self.made, key);
    }

    /// The state of this member's parities of a version whose file is in scratch.
    pub fn parity_state(&self, key: &Key) -> FileState {
        if self.made.contains(key) {
            return FileState::Present;
        }
        match self.is_under_way(key) || self.complete.contains(key) {
            true => FileState::Pending,
            false => FileState::Missing,
        }
    }

    /// Whether this member has made its parities of a version, or expects to: then its file is still
    /// useful beside a newer one.
    pub fn may_protect(&self, key: &Key) -> bool {
        let waits = || self.complete.contains(key) && self.is_wanted(key);
        self.made.contains(key) || self.is_under_way(key) || waits()
    }

    /// Whether the version is announced or being announced, and its encoding is not finished here.
    fn is_under_way(&self, key: &Key) -> bool {
        let begun = |version: &Version| {
            let id = version.id(key, self.parities);
            let ended = id.is_some() && version.ended[self.own] == id;
            version.announced[self.own].is_some() && !ended
        };
        self.announcing.as_ref() == Some(key) || self.versions.get(key).is_some_and(begun)
    }

    /// A member announces no more files.
    pub(crate) fn member_leaves(&mut self, member: usize) {
        if self.members[member] == MemberState::Present {
            self.members[member] = MemberState::Leaving;
        }
        self.forget_impossible();
    }

    /// A member reads no more files.
    pub(crate) fn member_finished(&mut self, member: usize) {
        if self.members[member] != MemberState::Gone {
            self.members[member] = MemberState::Finished;
        }
        self.forget_impossible();
        self.forget_done();
    }

    /// A member is gone. Returns how many versions cannot be protected any more; `None` if that was
    /// known, or the member had nothing left to do.
    pub(crate) fn member_gone(&mut self, member: usize) -> Option<u64> {
        let before = std::mem::replace(&mut self.members[member], MemberState::Gone);
        if before == MemberState::Gone {
            return None;
        }
        let complete = std::mem::take(&mut self.complete);
        let wanted = complete.iter().filter(|key| self.is_wanted(key)).count() as u64;
        let lost = wanted + self.forget_impossible();
        self.failed += lost;
        self.forget_done();
        // A member that has left normally has no work left.
        (before == MemberState::Present || lost > 0).then_some(lost)
    }

    /// The job ends when all possible encodings are done.
    pub fn leave(&mut self) {
        self.leaving = true;
        if self.selection != Selection::Others {
            self.no_more_decisions();
        }
    }

    /// Whether no peer needs this member any more.
    pub fn is_done(&self) -> bool {
        self.finished && self.urgent.is_empty() && self.versions.is_empty()
    }

    /// Whether something is expected of the peers.
    pub fn expects(&self) -> bool {
        self.leaving || !self.versions.is_empty()
    }

    /// Versions that could not be protected because a member is gone.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// The next task, if any.
    pub(crate) fn next_task(&mut self) -> Option<Task> {
        // The caller has finished its last task.
        self.announcing = None;
        if let Some(task) = self.urgent.pop_front() {
            return Some(task);
        }
        if let Some(at) = self.complete.iter().position(|key| self.is_wanted(key)) {
            // Older files that were not selected never will be.
            let key = self.complete.drain(..=at).next_back();
            if let Some(key) = key {
                self.decided.retain(|decided| *decided != key);
                self.announcing = Some(key.clone());
                let round = self.rounds.get(&key).copied().unwrap_or(0);
                return Some(Task::Announce(key, round));
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
            let round = version.round;
            return version.encoding(key, self.parities).map(|it| Task::Encode(it, round));
        }
        let over = self.selection == Selection::All || self.closed || self.member_is_gone();
        if self.leaving && over && !self.left {
            self.left = true;
            self.member_leaves(self.own);
            return Some(Task::Leave);
        }
        // What has started has ended: this is the next task.
        if self.left && !self.finished && self.versions.values().all(|version| version.started) {
            self.finished = true;
            return Some(Task::Finish);
        }
        None
    }

    fn is_wanted(&self, key: &Key) -> bool {
        self.selection == Selection::All || self.decided.contains(key)
    }

    /// Whether a member is gone; then nothing more can be encoded.
    fn member_is_gone(&self) -> bool {
        self.members.contains(&MemberState::Gone)
    }

    /// Forgets versions that can never be encoded. Returns how many of them a lost member has prevented.
    fn forget_impossible(&mut self) -> u64 {
        let (own, members) = (self.own, self.members.clone());
        let broken = self.member_is_gone();
        let mut lost = 0;
        self.forget(|_, version| {
            if broken {
                // Even if all have announced: others may have noticed the loss before they began.
                lost += u64::from(!version.started && version.announced[own].is_some());
                return !version.started;
            }
            let never = |(file, member): (&Option<Member>, &MemberState)| {
                file.is_none() && matches!(member, MemberState::Leaving | MemberState::Finished)
            };
            version.announced.iter().zip(&members).any(never)
        });
        lost
    }

    /// Forgets versions whose encoding has ended on all members that may still read this member's file.
    /// After a loss only this member's own encoding is waited for, as the others may never finish.
    fn forget_done(&mut self) {
        let (own, parities, broken) = (self.own, self.parities, self.member_is_gone());
        let finished = |member: usize| self.members[member] == MemberState::Finished;
        let finished: Vec<bool> = (0..self.members.len()).map(finished).collect();
        self.forget(|key, version| {
            let Some(id) = version.id(key, parities) else { return false };
            let ended = |member: usize| version.ended[member] == Some(id);
            let needs_nothing = |member| ended(member) || finished[member];
            ended(own) && (broken || (0..finished.len()).all(needs_nothing))
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

    /// Forgets the oldest of too many versions, which the other members seem not to take, or not to encode.
    fn forget_old(&mut self) {
        let (own, parities) = (self.own, self.parities);
        while self.versions.len() > MOST_PENDING {
            let waiting = self.versions.iter().filter(|(key, version)| {
                !version.started || version.ended[own] == version.id(key, parities)
            });
            let Some(oldest) = waiting.map(|(_, version)| version.since).min() else { return };
            self.forget(|_, version| version.since == oldest);
        }
    }
}

impl Version {
    /// The encoding, once all members have announced their files.
    fn encoding(&self, key: &Key, parities: u32) -> Option<Encoding> {
        Some(Encoding {
            name: key.0.to_string(),
            version: key.1,
            parities,
            members: self.announced.iter().cloned().collect::<Option<_>>()?,
        })
    }

    /// The id of that encoding.
    fn id(&self, key: &Key, parities: u32) -> Option<Checksum> {
        Some(self.encoding(key, parities)?.id())
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

#[cfg(test)]
mod interleaved;
