//! Stored adjoints: the newest that every process has in its files stays, and what is older goes.
//!
//! A file comes to its place in the background, at a time of its own in every process. So each
//! process says when they meet ([`meetings`]) which one it has for certain, and at any
//! moment there is one that all have.

use std::collections::BTreeSet;

use super::meetings;
use crate::catalog::entry::FileTier;
use crate::client::Client;
use crate::error::{Error, Result};

/// The tiers of files, by number.
const TIERS: [FileTier; meetings::TIERS] = [FileTier::Scratch, FileTier::Persistent];

/// The adjoints of a run.
#[derive(Debug)]
pub struct Adjoints {
    name: String,
    /// Versions that are still in a tier, or on their way there, by tier.
    there: [BTreeSet<i32>; 2],
    next: i32,
    /// The state that the last one stored has come to.
    stored: Option<u64>,
}

impl Adjoints {
    /// Of this name, of which `there` are left from before; `next` is the next one's version, and
    /// `stored` the state that the one to go on from has come to.
    pub fn new(name: String, there: BTreeSet<i32>, next: i32, stored: Option<u64>) -> Adjoints {
        let there = [there.clone(), there];
        Adjoints { name, there, next, stored }
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
        Ok(())
    }

    /// The newest one that this process has in a file, by tier.
    pub fn newest(&self, client: &Client) -> [Option<i32>; meetings::TIERS] {
        TIERS.map(|tier| {
            let there = self.there[tier as usize].iter().rev();
            there.copied().find(|version| client.has_file(&self.name, *version, tier))
        })
    }

    /// Removes what is older than the newest one that all have, by tier.
    pub fn retire(
        &mut self,
        client: &Client,
        newest: [Option<i32>; meetings::TIERS],
    ) -> Result<()> {
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
}
