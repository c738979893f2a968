//! Stored adjoints: the newest that every process has in its files stays, and what is older goes.
//!
//! A file comes to its place in the background, at a time of its own in every process. So each
//! process says with each adjoint that it stores which one it has for certain, and takes what the
//! others have said when it comes: nobody waits, and at any moment there is one that all have.

use std::collections::{BTreeSet, VecDeque};

use crate::catalog::entry::FileTier;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::mpi::{Comm, Pending};

/// The tiers of files, by number.
const TIERS: [FileTier; 2] = [FileTier::Scratch, FileTier::Persistent];
/// What stands for no version.
const NONE: i64 = -1;

/// The adjoints of a run.
#[derive(Debug)]
pub struct Adjoints {
    name: String,
    /// Versions that are still in a tier, or on their way there, by tier.
    there: [BTreeSet<i32>; 2],
    next: i32,
    /// The state that the last one stored has come to.
    stored: Option<u64>,
    channel: Option<Comm>,
    posted: VecDeque<Pending>,
}

impl Adjoints {
    /// Of this name, of which `there` are left from before; `next` is the next one's version, and
    /// `stored` the state that the one to go on from has come to.
    pub fn new(
        name: String,
        there: BTreeSet<i32>,
        next: i32,
        stored: Option<u64>,
        channel: Option<Comm>,
    ) -> Adjoints {
        let there = [there.clone(), there];
        Adjoints { name, there, next, stored, channel, posted: VecDeque::new() }
    }

    /// The state that the last one stored has come to.
    pub fn stored(&self) -> Option<u64> {
        self.stored
    }

    /// Stores the adjoint, which has come to state `fine`.
    pub fn store(&mut self, client: &mut Client, fine: u64) -> Result<()> {
        let version = self.next;
        self.next = version.checked_add(1).ok_or_else(|| {
            Error::invalid(format!("\"{}\" has no versions behind {version}", self.name))
        })?;
        client.take_managed(&self.name, version, None, true)?;
        for there in &mut self.there {
            there.insert(version);
        }
        self.stored = Some(fine);
        self.tidy(client)
    }

    /// Removes what is older than the newest one that all have.
    fn tidy(&mut self, client: &Client) -> Result<()> {
        let newest = TIERS.map(|tier| {
            let there = self.there[tier as usize].iter().rev();
            there.copied().find(|version| client.has_file(&self.name, *version, tier))
        });
        let Some(channel) = &self.channel else {
            return self.retire(client, newest);
        };
        let mine = newest.map(|version| version.map_or(NONE, i64::from));
        self.posted.push_back(channel.begin_least(&mine)?);
        while let Some(first) = self.posted.front_mut() {
            let Some(least) = first.poll()? else { break };
            self.posted.pop_front();
            let of = |tier: usize| least.get(tier).and_then(|least| i32::try_from(*least).ok());
            self.retire(client, [of(0), of(1)].map(|version| version.filter(|v| *v >= 0)))?;
        }
        Ok(())
    }

    fn retire(&mut self, client: &Client, newest: [Option<i32>; 2]) -> Result<()> {
        for tier in TIERS {
            let Some(newest) = newest[tier as usize] else { continue };
            let there = &mut self.there[tier as usize];
            let older: Vec<i32> = there.range(..newest).copied().collect();
            for version in older {
                // What is still to be copied to persistent goes with a later one.
                if client.retire(&self.name, version, tier)? {
                    there.remove(&version);
                }
            }
        }
        Ok(())
    }

    /// Ends what the processes tell each other. Collective.
    pub fn conclude(&mut self) -> Result<()> {
        self.posted.drain(..).try_for_each(|mut pending| pending.wait().map(|_| ()))?;
        self.channel.take().map_or(Ok(()), Comm::free)
    }
}
