//! One process of a job with erasure coding: its state, the files it serves, and its connections. The
//! engine's worker gets its tasks from [`Node::next_job`].

use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::encoding::{Encoding, Member};
use super::membership::{ErasureSettings, Membership, ProcessInfo};
use super::peer::Peer;
use super::progress::{GroupTask, Progress, Selection, VersionKey};
use super::served::ServedFiles;
use super::server::Server;
use super::wire::Message;
use errors::{Error, ErrorKind, Result};
use format::checksum::Checksum;
use format::names;
use os::fork::CloseOnFork;
use os::network::{self, Connection};
use os::sync::{Condvar, Mutex};
use policy::rounds::FileState;

/// How often peers are checked while something is expected of them.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A process that listens but does not answer yet.
#[derive(Debug)]
pub struct PreparedNode {
    listeners: Vec<CloseOnFork<TcpListener>>,
    /// The information that the other processes need about this one.
    pub info: ProcessInfo,
}

/// A process with its connections to the others.
#[derive(Debug)]
pub struct Node {
    shared: Arc<SharedNode>,
    served: Arc<ServedFiles>,
    server: Server,
}

#[derive(Debug)]
struct SharedNode {
    own: u32,
    infos: Vec<ProcessInfo>,
    membership: Membership,
    settings: ErasureSettings,
    now: Mutex<NodeState>,
    changed: Condvar,
    /// The connections that this process has made.
    calls: Mutex<Vec<Weak<Connection>>>,
}

#[derive(Debug)]
struct NodeState {
    progress: Progress,
    /// When a version was last selected for encoding.
    decided: Instant,
    /// When this process last caught up with the others.
    caught_up: Instant,
    /// Names whose versions are not selected for encoding.
    not_selectable: BTreeSet<String>,
    /// The warning that checkpoints are no longer protected has been logged.
    warned: bool,
    stopping: bool,
}

/// A job for the worker.
#[derive(Debug)]
pub enum Job {
    /// Do this task.
    Do(GroupTask),
    /// Check which peers are still there.
    CheckPeers,
}

impl PreparedNode {
    /// Listens on free ports. `domain`: the failure domain, by default the host.
    ///
    /// # Errors
    /// The system's.
    pub fn new(settings: ErasureSettings, domain: Option<&str>) -> Result<PreparedNode> {
        let listeners = network::listen()?;
        let addresses = listeners
            .iter()
            .map(|one| one.get().and_then(TcpListener::local_addr))
            .collect::<io::Result<_>>();
        let addresses = addresses
            .map_err(|error| Error::system("the ports for the other processes", &error))?;
        let host = network::host_name();
        let info = ProcessInfo {
            settings,
            domain: domain.unwrap_or(&host).to_owned(),
            loopback: network::loopback().unwrap_or_else(|| host.clone()),
            host,
            addresses,
            token: network::random()?,
        };
        Ok(PreparedNode { listeners, info })
    }
}

impl Node {
    /// Starts to answer the others. `own` is this process's rank; `infos` has all processes.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(
        prepared: PreparedNode,
        own: u32,
        infos: Vec<ProcessInfo>,
        membership: Membership,
    ) -> Result<Node> {
        let PreparedNode { mut listeners, info } = prepared;
        let settings = info.settings;
        if infos.iter().all(|other| other.loopback == info.loopback) {
            // All processes are on this host.
            let within = |one: &CloseOnFork<TcpListener>| {
                let at = one.get().and_then(TcpListener::local_addr);
                at.is_ok_and(|at| at.ip().is_loopback())
            };
            if listeners.iter().any(within) {
                listeners.retain(|one| within(one));
            }
        }
        let selection = match (settings.interval, membership.leader) {
            (0, _) => Selection::All,
            (_, None) => Selection::Own,
            (_, Some(_)) => Selection::Others,
        };
        let progress =
            Progress::new(membership.own, membership.members.len(), settings.parities, selection);
        let now = NodeState {
            progress,
            decided: Instant::now(),
            caught_up: Instant::now(),
            not_selectable: BTreeSet::new(),
            warned: false,
            stopping: false,
        };
        let shared = Arc::new(SharedNode {
            own,
            infos,
            membership,
            settings,
            now: Mutex::new(now),
            changed: Condvar::new(),
            calls: Mutex::default(),
        });
        let served = Arc::new(ServedFiles::default());
        let receiving = shared.clone();
        let server = Server::start(
            listeners,
            info.token,
            served.clone(),
            Box::new(move |from, message| receiving.on_message(from, message)),
        )?;
        Ok(Node { shared, served, server })
    }

    /// This process's rank.
    pub fn own(&self) -> u32 {
        self.shared.own
    }

    /// The ranks in this process's group.
    pub fn members(&self) -> &[u32] {
        &self.shared.membership.members
    }

    /// The other members of the group, who must know of this process's files.
    pub fn others(&self) -> impl Iterator<Item = u32> + '_ {
        self.members().iter().copied().filter(|rank| *rank != self.own())
    }

    /// The ranks that follow this process's decisions.
    pub fn followers(&self) -> &[u32] {
        &self.shared.membership.followers
    }

    /// The ranks whose failure matters to this process.
    pub fn watched_peers(&self) -> BTreeSet<u32> {
        let membership = &self.shared.membership;
        // If all versions are encoded, nobody decides.
        let tree = (self.shared.settings.interval > 0)
            .then(|| membership.followers.iter().copied().chain(membership.leader));
        self.others().chain(tree.into_iter().flatten()).collect()
    }

    /// Connects to another process of the job.
    ///
    /// # Errors
    /// The errors of [`Peer::call`]; or the job ends.
    pub fn call(&self, rank: u32) -> Result<Peer> {
        self.shared.check_not_stopping()?;
        let info = self.shared.infos.get(rank as usize);
        let info = info.ok_or_else(|| Error::invalid(format!("there is no rank {rank}")))?;
        let here = &self.shared.infos[self.own() as usize];
        Peer::call(rank, info, self.own(), here, |stream| {
            let mut calls = self.shared.calls.lock();
            calls.retain(|call| call.strong_count() > 0);
            calls.push(Arc::downgrade(stream));
            drop(calls);
            // If the job ends from here on, this connection is closed.
            self.shared.check_not_stopping()
        })
    }

    /// How many connections this process has made or is making.
    #[cfg(any(test, debug_assertions))]
    pub fn open_calls(&self) -> usize {
        self.shared.calls.lock().iter().filter(|call| call.strong_count() > 0).count()
    }

    /// The files that are served to others.
    pub fn served(&self) -> &Arc<ServedFiles> {
        &self.served
    }

    /// A checkpoint file is complete in scratch.
    pub fn file_complete(&self, name: &str, version: i32) {
        self.step(|now, settings| {
            let leads = self.shared.membership.leader.is_none() && settings.interval > 0;
            let due = leads
                && now.decided.elapsed() >= Duration::from_secs(settings.interval)
                && !now.not_selectable.contains(name);
            if due {
                now.decided = Instant::now();
            }
            let failed = now.progress.failed();
            now.progress.complete((Arc::from(name), version), due);
            if now.progress.failed() > failed && !std::mem::replace(&mut now.warned, true) {
                log::warn!(
                    "erasure coding: a member of the group is gone; from checkpoint \"{name}\" \
                     version {version} on, nothing is protected from the loss of a scratch directory"
                );
            }
        });
    }

    /// Sets whether versions of a name may be selected for encoding at intervals.
    pub fn set_selectable(&self, name: &str, may: bool) {
        self.step(|now, _| match may {
            true => drop(now.not_selectable.remove(name)),
            false => drop(now.not_selectable.insert(name.to_owned())),
        });
    }

    /// Selects a version whose file exists but whose parities do not, whatever the interval. Collective
    /// over the group.
    pub fn protect_again(&self, name: &str, version: i32) {
        self.step(|now, _| now.progress.complete((Arc::from(name), version), true));
    }

    /// Whether this process has not taken a version again after this round.
    pub fn is_latest(&self, key: &VersionKey, round: u32) -> bool {
        self.shared.now.lock().progress.is_latest(key, round)
    }

    /// This process's file was announced to the others, in this round of the version.
    pub fn announced(&self, key: &VersionKey, round: u32, file: Member) {
        let own = self.shared.membership.own;
        self.step(|now, _| now.progress.announced(own, key.clone(), round, file));
    }

    /// This process has finished an encoding: its parity file is complete if `made`; else it failed.
    pub fn encoding_ended(&self, key: &VersionKey, round: u32, id: Checksum, made: bool) {
        self.step(|now, _| {
            if made {
                now.progress.encoded(key.clone(), round);
            }
            now.progress.ended(self.shared.membership.own, key, round, id);
        });
    }

    /// The process `rank` refuses the file of this encoding, as it has taken the version again.
    pub fn taken_again(&self, key: &VersionKey, round: u32, encoding: &Encoding, rank: u32) {
        if let Some(member) = encoding.index_of(rank) {
            let file = &encoding.members[member];
            self.step(|now, _| now.progress.taken_again(member, key, round, file));
        }
    }

    /// The state of this process's parities of a version whose file is in scratch.
    pub fn parity_state(&self, key: &VersionKey) -> FileState {
        self.shared.now.lock().progress.parity_state(key)
    }

    /// Whether this process has made its parities of a version, or expects to.
    pub fn may_protect(&self, key: &VersionKey) -> bool {
        self.shared.now.lock().progress.may_protect(key)
    }

    /// The connection to another process is lost.
    pub fn peer_lost(&self, rank: u32, why: &Error) {
        let membership = &self.shared.membership;
        let mut now = self.shared.now.lock();
        if now.stopping {
            return;
        }
        if membership.leader == Some(rank) {
            now.progress.no_more_decisions();
        }
        let member = membership.members.iter().position(|member| *member == rank);
        let lost = member.and_then(|member| now.progress.member_gone(member));
        drop(now);
        self.shared.changed.notify_all();
        self.server.hang_up_on(rank);
        match lost {
            // At the end of a job, processes exit one by one.
            Some(0) => log::info!("erasure coding: rank {rank} is gone: {why}"),
            Some(lost) => log::warn!(
                "erasure coding: rank {rank} is gone, and {lost} checkpoints that were to be protected are not: {why}"
            ),
            None => {}
        }
    }

    /// How many versions could not be protected because a member is gone.
    pub fn unprotected(&self) -> u64 {
        self.shared.now.lock().progress.failed()
    }

    /// Waits for a job. `None`: the job ends.
    pub fn next_job(&self) -> Option<Job> {
        let mut now = self.shared.now.lock();
        let since = Instant::now();
        loop {
            if now.stopping {
                return None;
            }
            if now.caught_up.elapsed() >= CHECK_INTERVAL {
                now.caught_up = Instant::now();
                now.progress.catch_up(false);
            }
            if let Some(task) = now.progress.next_task() {
                return Some(Job::Do(task));
            }
            // Wakes a thread that waits in [`Node::finish`].
            self.shared.changed.notify_all();
            if !now.progress.expects() {
                now = self.shared.changed.wait(now);
            } else if since.elapsed() < CHECK_INTERVAL {
                now = self.shared.changed.wait_for(now, CHECK_INTERVAL);
            } else {
                return Some(Job::CheckPeers);
            }
        }
    }

    /// Waits until all possible encodings are done and no peer needs this process any more.
    pub fn finish(&self) {
        let mut now = self.shared.now.lock();
        now.progress.leave();
        self.shared.changed.notify_all();
        while !now.progress.is_done() && !now.stopping {
            now = self.shared.changed.wait(now);
        }
    }

    /// Closes all connections, and lets the worker end.
    pub fn stop(&self) {
        self.shared.now.lock().stopping = true;
        self.shared.changed.notify_all();
        self.shared.hang_up();
        self.server.stop();
    }

    fn step(&self, step: impl FnOnce(&mut NodeState, &ErasureSettings)) {
        step(&mut self.shared.now.lock(), &self.shared.settings);
        self.shared.changed.notify_all();
    }
}

impl SharedNode {
    /// Fails if the job ends.
    fn check_not_stopping(&self) -> Result<()> {
        if self.now.lock().stopping {
            return Err(Error::new(ErrorKind::System, "the job ends"));
        }
        Ok(())
    }

    /// Closes this process's connections, which also wakes threads that wait for an answer.
    fn hang_up(&self) {
        for call in self.calls.lock().iter().filter_map(Weak::upgrade) {
            network::stop(&call);
        }
    }

    /// Handles a message of another process.
    fn on_message(&self, from: u32, message: Message) {
        let member = self.membership.members.iter().position(|member| *member == from);
        let leads = self.membership.leader == Some(from);
        let key = |name: String, version: i32| {
            let valid = names::validate_name(&name).is_ok() && version >= 0;
            valid.then(|| (Arc::<str>::from(name), version))
        };
        let progress = &mut self.now.lock().progress;
        match (message, member) {
            (Message::Announced { name, version, round, file }, Some(member))
                if file.rank == from =>
            {
                if let Some(key) = key(name, version) {
                    progress.announced(member, key, round, file);
                }
            }
            (Message::Ended { name, version, round, id }, Some(member)) => {
                if let Some(key) = key(name, version) {
                    progress.ended(member, &key, round, id);
                }
            }
            (Message::Leaving, Some(member)) => progress.member_leaves(member),
            (Message::Settled, Some(member)) => progress.member_settles(member),
            (Message::Finished, Some(member)) => progress.member_finished(member),
            (Message::Decided { name, version }, _) if leads => {
                if let Some(key) = key(name, version) {
                    progress.decided(key);
                }
            }
            (Message::DecidedAll, _) if leads => progress.no_more_decisions(),
            (message, _) => log::debug!("rank {from} has no business to say {message:?}"),
        }
        self.changed.notify_all();
    }
}
