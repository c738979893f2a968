//! Decides which version is encoded when, from the members' announcements. No thread, no socket, no
//! clock.
//!
//! A version is encoded as soon as every member has announced that its file is in scratch. Members need
//! not take the same versions, at the same time or at all: only the end of the job, which all members reach,
//! waits for an announcement, and only while the member may still make it.
//!
//! A version that is taken again begins another round, and only files of one round are encoded together.
//! Members that have taken it less often than others, as after a rollback, catch up: they announce the file
//! that they have in the others' round.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::encoding::{Encoding, Member};
use format::checksum::Checksum;
use policy::rounds::FileState;

/// A checkpoint's name and version.
pub type VersionKey = (Arc<str>, i32);

/// The most versions of this member that wait for the others' announcements. Each may hold a file open.
const MOST_PENDING: usize = 256;
/// The most files, decisions or announcements of others that wait for each other, and the least versions whose rounds
/// are known.
const MOST_WAITING: usize = 1024;

/// A task for the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupTask {
    /// Announce this file to the group, in this round of its version.
    Announce(VersionKey, u32),
    /// Compute the parities that this member keeps, in this round of the version.
    Encode(Encoding, u32),
    /// Tell the followers that this version is to be encoded.
    Decide(VersionKey),
    /// Tell the followers that no more versions will be selected.
    DecideNoMore,
    /// Tell the group that no more files will be taken.
    Leave,
    /// Tell the group that no more files will be announced.
    Settle,
    /// Tell the group that nothing of it is needed any more.
    Finish,
    /// Stop serving this file.
    Withdraw(VersionKey),
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberState {
    Present,
    /// The member takes no more files.
    Leaving,
    /// The member announces no more files.
    Settled,
    /// The member reads no more files.
    Finished,
    /// The member is gone.
    Gone,
}

/// A version that a member has announced.
#[derive(Debug)]
struct AnnouncedVersion {
    /// How often the members had taken this version before: what is said of an earlier round does not count.
    round: u32,
    announced: Vec<Option<Member>>,
    /// The encoding that each member has finished or failed. This may arrive before all announcements.
    ended: Vec<Option<Checksum>>,
    started: bool,
    since: u64,
}

/// How often this member has taken a version.
#[derive(Clone, Copy, Debug)]
struct Takes {
    /// The round of its file.
    round: u32,
    /// The last round in which its file was announced, or was to be.
    announced: Option<u32>,
    /// So many rounds were caught up with, and may be those of files that it has still to take: these are selected, too.
    owed: u32,
    /// It was in an earlier round than others when that was last looked at, and is since.
    is_behind: bool,
    /// When it was taken last, for the order.
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
    complete: VecDeque<VersionKey>,
    /// Versions that are selected but not announced.
    decided: VecDeque<VersionKey>,
    /// The version that is being announced.
    announcing: Option<VersionKey>,
    /// What this member has taken most recently.
    takes: BTreeMap<VersionKey, Takes>,
    /// The versions whose parities this member has made most recently.
    made: VecDeque<VersionKey>,
    versions: BTreeMap<VersionKey, AnnouncedVersion>,
    /// Tasks to be done first.
    urgent: VecDeque<GroupTask>,
    /// No more versions will be selected.
    closed: bool,
    /// The job ends when all possible encodings are done.
    leaving: bool,
    left: bool,
    /// All members leave, and this one has caught up with them.
    caught_up: bool,
    settled: bool,
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
            takes: BTreeMap::new(),
            made: VecDeque::new(),
            versions: BTreeMap::new(),
            urgent: VecDeque::new(),
            closed: false,
            leaving: false,
            left: false,
            caught_up: false,
            settled: false,
            finished: false,
            counter: 0,
            failed: 0,
        }
    }

    /// A file of this member is complete in scratch, or its parities are to be made once more: all members
    /// are told that once. `decide`: select it for encoding.
    pub fn complete(&mut self, key: VersionKey, decide: bool) {
        // Replacing the file has removed its parities.
        self.made.retain(|made| *made != key);
        let is_owed = self.takes.get(&key).is_some_and(|takes| takes.owed > 0);
        self.count(&key);
        if self.member_is_gone() {
            self.failed += u64::from(self.selection == Selection::All || decide);
            return;
        }
        if decide {
            push(&mut self.decided, key.clone());
            if self.selection == Selection::Own {
                self.urgent.push_back(GroupTask::Decide(key.clone()));
            }
        }
        if is_owed && !decide {
            push(&mut self.decided, key.clone());
        }
        push(&mut self.complete, key);
    }

    fn count(&mut self, key: &VersionKey) {
        let since = self.next_number();
        let others = self.versions.get(key).map_or(0, |version| version.round);
        let first = Takes { round: 0, announced: None, owed: 0, is_behind: false, since };
        let again = |takes: &mut Takes| {
            let round = takes.round.saturating_add(1);
            let (is_behind, owed) =
                (takes.is_behind && round < others, takes.owed.saturating_sub(1));
            *takes = Takes { round, is_behind, owed, since, ..*takes };
        };
        self.takes.entry(key.clone()).and_modify(again).or_insert(first);
        if self.takes.len() > 2 * MOST_WAITING {
            let mut order: Vec<u64> = self.takes.values().map(|takes| takes.since).collect();
            let (_, oldest, _) = order.select_nth_unstable(MOST_WAITING);
            let oldest = *oldest;
            self.takes.retain(|_, takes| takes.since >= oldest);
        }
    }

    fn next_number(&mut self) -> u64 {
        self.counter += 1;
        self.counter
    }

    /// Catches up with members that wait for this member's file, as they have taken a version more often or know of its
    /// selection: it is announced in their round. `all`: also where the member was not behind at the last call, and may
    /// therefore just be slower.
    pub fn catch_up(&mut self, all: bool) {
        for (key, version) in &self.versions {
            let own = self.own;
            let takes = self.takes.get_mut(key).filter(|takes| takes.is_awaited_by(version, own));
            let Some(takes) = takes else { continue };
            takes.is_behind = !(std::mem::replace(&mut takes.is_behind, true) || all);
            if takes.is_behind {
                continue;
            }
            takes.owed += version.round - takes.round;
            takes.round = version.round;
            if !self.decided.contains(key) {
                self.decided.push_back(key.clone());
            }
            if !self.complete.contains(key) {
                self.complete.push_front(key.clone());
            }
        }
    }

    /// The leader has selected this version for encoding.
    pub fn decided(&mut self, key: VersionKey) {
        self.urgent.push_back(GroupTask::Decide(key.clone()));
        push(&mut self.decided, key);
    }

    /// No more versions will be selected.
    pub(crate) fn no_more_decisions(&mut self) {
        if !std::mem::replace(&mut self.closed, true) && self.selection != Selection::All {
            self.urgent.push_back(GroupTask::DecideNoMore);
        }
    }

    /// A member (perhaps this one) has announced its file, in this round of the version.
    pub fn announced(&mut self, member: usize, key: VersionKey, round: u32, file: Member) {
        if self.member_is_gone() || self.finished {
            return;
        }
        if member == self.own {
            // What was to be withdrawn is what this file has replaced.
            let withdrawn = GroupTask::Withdraw(key.clone());
            self.urgent.retain(|task| *task != withdrawn);
        }
        let (members, since) = (self.members.len(), self.next_number());
        let new = || AnnouncedVersion {
            round,
            announced: vec![None; members],
            ended: vec![None; members],
            started: false,
            since,
        };
        if self.takes.get(&key).is_some_and(|takes| takes.round < round) {
            // A file that these parities were made of is replaced.
            self.made.retain(|made| *made != key);
        }
        let version = self.versions.entry(key).or_insert_with(new);
        match version.round.cmp(&round) {
            Ordering::Less => *version = new(),
            Ordering::Equal => {}
            Ordering::Greater => return,
        }
        if version.announced[member].as_ref().is_some_and(|known| *known != file) {
            // The member no longer knew how often it had taken the version.
            version.started = false;
        }
        version.announced[member] = Some(file);
        self.forget_impossible();
        self.forget_done();
        self.forget_old();
    }

    /// A member refuses this file, as it has taken the version again: its new announcement is on its way.
    pub fn taken_again(&mut self, member: usize, key: &VersionKey, round: u32, file: &Member) {
        if let Some(version) = self.versions.get_mut(key).filter(|it| it.round == round) {
            if version.announced[member].as_ref() == Some(file) {
                version.announced[member] = None;
                version.started = false;
            }
        }
        self.forget_impossible();
    }

    /// A member has finished or failed encoding `id` of this version, in this round.
    pub fn ended(&mut self, member: usize, key: &VersionKey, round: u32, id: Checksum) {
        if let Some(version) = self.versions.get_mut(key).filter(|it| it.round == round) {
            version.ended[member] = Some(id);
        }
        self.forget_done();
    }

    /// This member's parities of a version are complete, in this round. Called before [`Progress::ended`].
    pub fn encoded(&mut self, key: VersionKey, round: u32) {
        // The file may have been replaced, and the parities removed, meanwhile.
        if self.takes.get(&key).is_none_or(|takes| takes.round == round) {
            push(&mut self.made, key);
        }
    }

    /// Whether this member has not taken a version again after this round: its file is the one of the round.
    pub fn is_latest(&self, key: &VersionKey, round: u32) -> bool {
        self.takes.get(key).is_none_or(|takes| takes.round <= round)
    }

    /// The state of this member's parities of a version whose file is in scratch.
    pub fn parity_state(&self, key: &VersionKey) -> FileState {
        if self.made.contains(key) {
            return FileState::Present;
        }
        match self.is_under_way(key) || self.complete.contains(key) || self.is_awaited(key) {
            true => FileState::Pending,
            false => FileState::Missing,
        }
    }

    /// Whether this member has made its parities of a version, or expects to: then its file is still
    /// useful beside a newer one.
    pub fn may_protect(&self, key: &VersionKey) -> bool {
        let waits = || self.complete.contains(key) && self.is_wanted(key);
        self.made.contains(key) || self.is_under_way(key) || self.is_awaited(key) || waits()
    }

    /// Whether others wait for this member's file, which is going to be announced.
    fn is_awaited(&self, key: &VersionKey) -> bool {
        let known = self.versions.get(key).zip(self.takes.get(key));
        known.is_some_and(|(version, takes)| takes.is_awaited_by(version, self.own))
    }

    /// Whether the version is announced or being announced, and its encoding is not finished here.
    fn is_under_way(&self, key: &VersionKey) -> bool {
        let begun = |version: &AnnouncedVersion| {
            let id = version.id(key, self.parities);
            let ended = id.is_some() && version.ended[self.own] == id;
            version.announced[self.own].is_some() && !ended
        };
        self.announcing.as_ref() == Some(key) || self.versions.get(key).is_some_and(begun)
    }

    /// A member takes no more files.
    pub(crate) fn member_leaves(&mut self, member: usize) {
        if self.members[member] == MemberState::Present {
            self.members[member] = MemberState::Leaving;
        }
        self.forget_impossible();
    }

    /// A member announces no more files.
    pub(crate) fn member_settles(&mut self, member: usize) {
        if self.members[member] == MemberState::Leaving {
            self.members[member] = MemberState::Settled;
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
        let wanted = complete.into_iter().filter(|key| self.is_wanted(key));
        // Even if all have announced: others may have noticed the loss before they began.
        let waits = |(key, version): &(&VersionKey, &AnnouncedVersion)| {
            let is_here = version.announced[self.own].is_some() || self.is_awaited(key);
            !version.started && is_here
        };
        let waiting = self.versions.iter().filter(waits).map(|(key, _)| key.clone());
        let lost = wanted.chain(waiting).collect::<BTreeSet<VersionKey>>().len() as u64;
        self.forget_impossible();
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
    pub(crate) fn next_task(&mut self) -> Option<GroupTask> {
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
                let round = self.takes.get_mut(&key).map_or(0, |takes| {
                    takes.announced = Some(takes.round);
                    takes.round
                });
                return Some(GroupTask::Announce(key, round));
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
            return version.encoding(key, self.parities).map(|it| GroupTask::Encode(it, round));
        }
        let over = self.selection == Selection::All || self.closed || self.member_is_gone();
        if self.leaving && over && !self.left {
            self.left = true;
            self.member_leaves(self.own);
            return Some(GroupTask::Leave);
        }
        let some_may_take = self.members.contains(&MemberState::Present) && !self.member_is_gone();
        if self.left && !self.caught_up && !some_may_take {
            // All files are announced in the rounds in which they were taken.
            self.caught_up = true;
            self.catch_up(true);
            return self.next_task();
        }
        if self.caught_up && !self.settled {
            self.settled = true;
            self.member_settles(self.own);
            return Some(GroupTask::Settle);
        }
        // What has started has ended: this is the next task.
        if self.settled && !self.finished && self.versions.values().all(|version| version.started) {
            self.finished = true;
            return Some(GroupTask::Finish);
        }
        None
    }

    fn is_wanted(&self, key: &VersionKey) -> bool {
        self.selection == Selection::All || self.decided.contains(key)
    }

    /// Whether a member is gone; then nothing more can be encoded.
    fn member_is_gone(&self) -> bool {
        self.members.contains(&MemberState::Gone)
    }

    /// Forgets versions that can never be encoded.
    fn forget_impossible(&mut self) {
        let (members, selection) = (self.members.clone(), self.selection);
        let broken = self.member_is_gone();
        self.forget(|_, version| {
            if broken {
                return !version.started;
            }
            let never = |(file, member): (&Option<Member>, &MemberState)| {
                file.is_none()
                    && match member {
                        // It has no file of a first round, and may announce one again in a later.
                        MemberState::Leaving => version.round == 0 && selection == Selection::All,
                        MemberState::Settled | MemberState::Finished => true,
                        MemberState::Present | MemberState::Gone => false,
                    }
            };
            version.announced.iter().zip(&members).any(never)
        });
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

    fn forget(&mut self, mut when: impl FnMut(&VersionKey, &AnnouncedVersion) -> bool) {
        let urgent = &mut self.urgent;
        self.versions.retain(|key, version| {
            let forgotten = when(key, version);
            if forgotten {
                urgent.push_back(GroupTask::Withdraw(key.clone()));
            }
            !forgotten
        });
    }

    /// Forgets the oldest of too many versions, which the other members seem not to take, or not to encode. What only
    /// others have announced counts for itself: this member may be slower than they are.
    fn forget_old(&mut self) {
        let own = self.own;
        self.forget_oldest(MOST_PENDING, |version| version.announced[own].is_some());
        self.forget_oldest(MOST_WAITING, |version| version.announced[own].is_none());
    }

    /// Leaves at most so many of those that count.
    fn forget_oldest(&mut self, most: usize, counts: impl Fn(&AnnouncedVersion) -> bool) {
        let (own, parities) = (self.own, self.parities);
        while self.versions.values().filter(|version| counts(version)).count() > most {
            let waiting = self.versions.iter().filter(|(key, version)| {
                let waits = !version.started || version.ended[own] == version.id(key, parities);
                waits && counts(version)
            });
            let Some(oldest) = waiting.map(|(_, version)| version.since).min() else { return };
            self.forget(|_, version| version.since == oldest);
        }
    }
}

impl Takes {
    /// Whether a version waits for this file of member `own`, which was not announced in that round.
    fn is_awaited_by(&self, version: &AnnouncedVersion, own: usize) -> bool {
        let is_said = self.round == version.round && self.announced == Some(version.round);
        version.announced[own].is_none() && self.round <= version.round && !is_said
    }
}

impl AnnouncedVersion {
    /// The encoding, once all members have announced their files.
    fn encoding(&self, key: &VersionKey, parities: u32) -> Option<Encoding> {
        // Nothing is copied of the many that wait: each announcement looks at all of them, under the lock.
        self.announced.iter().all(Option::is_some).then(|| Encoding {
            name: key.0.to_string(),
            version: key.1,
            parities,
            members: self.announced.iter().flatten().cloned().collect(),
        })
    }

    /// The id of that encoding.
    fn id(&self, key: &VersionKey, parities: u32) -> Option<Checksum> {
        Some(self.encoding(key, parities)?.id())
    }
}

fn push(queue: &mut VecDeque<VersionKey>, key: VersionKey) {
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
