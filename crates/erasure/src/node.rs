//! One process of a job with erasure coding: what it knows, what it serves, and whom it calls. What
//! is to be done is given to the engine's worker ([`Node::next_job`]).

use std::collections::BTreeSet;
use std::io;
use std::net::TcpListener;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::encoding::Member;
use super::offers::Offers;
use super::peer::Peer;
use super::progress::{Choice, Key, Progress, Task};
use super::roster::{Card, Place, Settings};
use super::server::Server;
use super::wire::Word;
use format::checksum::Checksum;
use format::names;
use os::error::{Error, Kind, Result};
use os::fork::Private;
use os::network::{self, Connection};
use os::sync::{Condvar, Mutex};
use policy::rounds::FileState;

/// While something is expected of others, they are looked after so often.
const LOOK: Duration = Duration::from_secs(1);

/// A process that can be called, and does not answer yet.
#[derive(Debug)]
pub struct Prepared {
    listeners: Vec<Private<TcpListener>>,
    /// What the others need to know.
    pub card: Card,
}

/// A process among others.
#[derive(Debug)]
pub struct Node {
    known: Arc<Known>,
    offers: Arc<Offers>,
    server: Server,
}

#[derive(Debug)]
struct Known {
    own: u32,
    cards: Vec<Card>,
    place: Place,
    settings: Settings,
    now: Mutex<Now>,
    changed: Condvar,
    /// The calls that this process has made.
    calls: Mutex<Vec<Weak<Connection>>>,
}

#[derive(Debug)]
struct Now {
    progress: Progress,
    /// When it was last decided that a version is to be encoded.
    decided: Instant,
    /// Of these names no version is chosen.
    passed_over: BTreeSet<String>,
    /// It has been said that checkpoints are not protected any more.
    said: bool,
    stopping: bool,
}

/// What the worker is to do.
#[derive(Debug)]
pub enum Job {
    /// This.
    Do(Task),
    /// See who is still there.
    LookAround,
}

impl Prepared {
    /// Takes ports. `domain`: what this process is lost together with, by default its host.
    ///
    /// # Errors
    /// The system gives none.
    pub fn new(settings: Settings, domain: Option<&str>) -> Result<Prepared> {
        let listeners = network::listen()?;
        let addresses = listeners
            .iter()
            .map(|one| one.get().and_then(TcpListener::local_addr))
            .collect::<io::Result<_>>();
        let addresses = addresses
            .map_err(|error| Error::system("the ports for the other processes", &error))?;
        let host = network::host_name();
        let card = Card {
            settings,
            domain: domain.unwrap_or(&host).to_owned(),
            loopback: network::loopback().unwrap_or_else(|| host.clone()),
            host,
            addresses,
            token: network::random()?,
        };
        Ok(Prepared { listeners, card })
    }
}

impl Node {
    /// Answers the others from here on. `own` is this process's number, `cards` are those of all.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(prepared: Prepared, own: u32, cards: Vec<Card>, place: Place) -> Result<Node> {
        let Prepared { mut listeners, card } = prepared;
        let settings = card.settings;
        if cards.iter().all(|other| other.loopback == card.loopback) {
            // Nobody calls from elsewhere.
            let within = |one: &Private<TcpListener>| {
                let at = one.get().and_then(TcpListener::local_addr);
                at.is_ok_and(|at| at.ip().is_loopback())
            };
            if listeners.iter().any(within) {
                listeners.retain(|one| within(one));
            }
        }
        let choice = match (settings.interval, place.leader) {
            (0, _) => Choice::All,
            (_, None) => Choice::Own,
            (_, Some(_)) => Choice::Others,
        };
        let progress = Progress::new(place.own, place.members.len(), settings.parities, choice);
        let now = Now {
            progress,
            decided: Instant::now(),
            passed_over: BTreeSet::new(),
            said: false,
            stopping: false,
        };
        let known = Arc::new(Known {
            own,
            cards,
            place,
            settings,
            now: Mutex::new(now),
            changed: Condvar::new(),
            calls: Mutex::default(),
        });
        let offers = Arc::new(Offers::default());
        let hearing = known.clone();
        let server = Server::start(
            listeners,
            card.token,
            offers.clone(),
            Box::new(move |from, word| hearing.hear(from, word)),
        )?;
        Ok(Node { known, offers, server })
    }

    /// This process's number.
    pub fn own(&self) -> u32 {
        self.known.own
    }

    /// The members of this process's group.
    pub fn members(&self) -> &[u32] {
        &self.known.place.members
    }

    /// The others of the group, who must know of this process's files.
    pub fn others(&self) -> impl Iterator<Item = u32> + '_ {
        self.members().iter().copied().filter(|rank| *rank != self.own())
    }

    /// Those who follow its decisions.
    pub fn followers(&self) -> &[u32] {
        &self.known.place.followers
    }

    /// Everybody who matters to this process.
    pub fn acquaintances(&self) -> BTreeSet<u32> {
        let place = &self.known.place;
        // Nobody decides where all versions are encoded.
        let tree = (self.known.settings.interval > 0)
            .then(|| place.followers.iter().copied().chain(place.leader));
        self.others().chain(tree.into_iter().flatten()).collect()
    }

    /// Calls another process of the job.
    ///
    /// # Errors
    /// As [`Peer::call`]; and if the job ends.
    pub fn call(&self, rank: u32) -> Result<Peer> {
        self.known.check_going_on()?;
        let card = self.known.cards.get(rank as usize);
        let card = card.ok_or_else(|| Error::invalid(format!("there is no number {rank}")))?;
        let here = &self.known.cards[self.own() as usize];
        Peer::call(rank, card, self.own(), here, |stream| {
            let mut calls = self.known.calls.lock();
            calls.retain(|call| call.strong_count() > 0);
            calls.push(Arc::downgrade(stream));
            drop(calls);
            // Whoever ends it from here on hangs up on this call.
            self.known.check_going_on()
        })
    }

    /// How many calls of this process are open, or being opened.
    #[cfg(any(test, feature = "tests"))]
    pub fn open_calls(&self) -> usize {
        self.known.calls.lock().iter().filter(|call| call.strong_count() > 0).count()
    }

    /// The files that are served to others.
    pub fn offers(&self) -> &Arc<Offers> {
        &self.offers
    }

    /// A checkpoint file has its name in scratch.
    pub fn complete(&self, name: &str, version: i32) {
        self.step(|now, settings| {
            let leads = self.known.place.leader.is_none() && settings.interval > 0;
            let due = leads
                && now.decided.elapsed() >= Duration::from_secs(settings.interval)
                && !now.passed_over.contains(name);
            if due {
                now.decided = Instant::now();
            }
            let failed = now.progress.failed();
            now.progress.complete((Arc::from(name), version), due);
            if now.progress.failed() > failed && !std::mem::replace(&mut now.said, true) {
                log::warn!(
                    "erasure coding: a member of the group is gone; from checkpoint \"{name}\" \
                     version {version} on, nothing is protected from the loss of a scratch directory"
                );
            }
        });
    }

    /// Whether a version of a name may be the one that is encoded after an interval.
    pub fn choose_from(&self, name: &str, may: bool) {
        self.step(|now, _| match may {
            true => drop(now.passed_over.remove(name)),
            false => drop(now.passed_over.insert(name.to_owned())),
        });
    }

    /// A checkpoint file is there whose parities are not, whenever the last were made.
    pub fn protect_again(&self, name: &str, version: i32) {
        self.step(|now, _| now.progress.complete((Arc::from(name), version), true));
    }

    /// This process's file was announced to the others.
    pub fn announced(&self, key: &Key, file: Member) {
        self.step(|now, _| now.progress.announced(self.known.place.own, key.clone(), file));
    }

    /// This process has made its parities of an encoding, which are in their place if `made`, or it
    /// cannot.
    pub fn ended(&self, key: &Key, id: Checksum, made: bool) {
        self.step(|now, _| {
            if made {
                now.progress.made(key.clone());
            }
            now.progress.ended(self.known.place.own, key, id);
        });
    }

    /// What becomes of this process's parities of a version whose file is in scratch.
    pub fn parity_state(&self, key: &Key) -> FileState {
        self.known.now.lock().progress.parity_state(key)
    }

    /// Whether this process has made its parities of a version, or will as far as it knows.
    pub fn may_protect(&self, key: &Key) -> bool {
        self.known.now.lock().progress.may_protect(key)
    }

    /// Another process is not there any more.
    pub fn lost(&self, rank: u32, why: &Error) {
        let place = &self.known.place;
        let mut now = self.known.now.lock();
        if now.stopping {
            return;
        }
        if place.leader == Some(rank) {
            now.progress.decided_all();
        }
        let member = place.members.iter().position(|member| *member == rank);
        let spoilt = member.and_then(|member| now.progress.gone(member));
        drop(now);
        self.known.changed.notify_all();
        match spoilt {
            // Jobs end, and not all at once.
            Some(0) => log::info!("erasure coding: number {rank} is gone: {why}"),
            Some(spoilt) => log::warn!(
                "erasure coding: number {rank} is gone, and {spoilt} checkpoints that were to be \
                 protected are not: {why}"
            ),
            None => {}
        }
    }

    /// Versions that could not be protected because a member of the group is gone.
    pub fn unprotected(&self) -> u64 {
        self.known.now.lock().progress.failed()
    }

    /// Waits for something to do. `None`: the job ends.
    pub fn next_job(&self) -> Option<Job> {
        let mut now = self.known.now.lock();
        let since = Instant::now();
        loop {
            if now.stopping {
                return None;
            }
            if let Some(task) = now.progress.next_task() {
                return Some(Job::Do(task));
            }
            // Somebody may wait for the end.
            self.known.changed.notify_all();
            if !now.progress.expects() {
                now = self.known.changed.wait(now);
            } else if since.elapsed() < LOOK {
                now = self.known.changed.wait_for(now, LOOK);
            } else {
                return Some(Job::LookAround);
            }
        }
    }

    /// Waits until everything is encoded that can be, and nobody needs this process any more.
    pub fn finish(&self) {
        let mut now = self.known.now.lock();
        now.progress.leave();
        self.known.changed.notify_all();
        while !now.progress.is_done() && !now.stopping {
            now = self.known.changed.wait(now);
        }
    }

    /// Hangs up on everybody, and lets the worker end.
    pub fn stop(&self) {
        self.known.now.lock().stopping = true;
        self.known.changed.notify_all();
        self.known.hang_up();
        self.server.stop();
    }

    fn step(&self, step: impl FnOnce(&mut Now, &Settings)) {
        step(&mut self.known.now.lock(), &self.known.settings);
        self.known.changed.notify_all();
    }
}

impl Known {
    /// An error once the job ends.
    fn check_going_on(&self) -> Result<()> {
        if self.now.lock().stopping {
            return Err(Error::new(Kind::System, "the job ends"));
        }
        Ok(())
    }

    /// Ends the calls that this process has made, also for threads that wait for an answer.
    fn hang_up(&self) {
        for call in self.calls.lock().iter().filter_map(Weak::upgrade) {
            network::stop(&call);
        }
    }

    /// What another process has said.
    fn hear(&self, from: u32, word: Word) {
        let member = self.place.members.iter().position(|member| *member == from);
        let leads = self.place.leader == Some(from);
        let key = |name: String, version: i32| {
            let valid = names::validate_name(&name).is_ok() && version >= 0;
            valid.then(|| (Arc::<str>::from(name), version))
        };
        let progress = &mut self.now.lock().progress;
        match (word, member) {
            (Word::Announced { name, version, file }, Some(member)) if file.rank == from => {
                if let Some(key) = key(name, version) {
                    progress.announced(member, key, file);
                }
            }
            (Word::Ended { name, version, id }, Some(member)) => {
                if let Some(key) = key(name, version) {
                    progress.ended(member, &key, id);
                }
            }
            (Word::Leaving, Some(member)) => progress.leaves(member),
            (Word::Decided { name, version }, _) if leads => {
                if let Some(key) = key(name, version) {
                    progress.decided(key);
                }
            }
            (Word::DecidedAll, _) if leads => progress.decided_all(),
            (word, _) => log::debug!("number {from} has no business to say {word:?}"),
        }
        self.changed.notify_all();
    }
}
