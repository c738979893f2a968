//! What a run stores and restores: states in their slots, adjoints, and hashes of states.

use super::adjoints::Files;
use super::run::Sweep;
use super::setback::is_of_the_store;
use super::Reach;
use crate::client::managed::is_lost;
use crate::error::{Error, Kind, Result};

impl<R: Reach> Sweep<'_, R> {
    pub(super) fn restore_adjoint(&mut self, version: i32) -> Result<()> {
        let name = self.settings.name_of_adjoints();
        self.reach.with(|client| client.restore_managed(&name, version, None))?;
        let stored = self.adjoint.get();
        if (stored.run, stored.number) != (self.run, self.fine) {
            return Err(Error::new(
                Kind::Corrupt,
                format!(
                    "\"{name}\" version {version} has come to state {} of run {:#018x}, not to state \
                     {} of run {:#018x}",
                    stored.number, stored.run, self.fine, self.run
                ),
            ));
        }
        match (self.hash_of_adjoint()?, stored.hash) {
            (Some(hash), Some(stored)) if hash != stored => {
                // Or the next run would come to it again.
                self.reach.with(|client| client.remove(&name, version))?;
                Err(Error::new(
                    Kind::Corrupt,
                    format!(
                        "the adjoint at state {} has the hash {hash:#018x} after it was restored from \
                         \"{name}\" version {version}, and had {stored:#018x} when it was stored: \
                         it was damaged there, and is removed; the same call goes on without it",
                        self.fine
                    ),
                ))
            }
            _ => Ok(()),
        }
    }

    /// A hash of the adjoint, where replays are verified and it is in the host's memory.
    fn hash_of_adjoint(&self) -> Result<Option<u64>> {
        if self.replay.is_none() {
            return Ok(None);
        }
        let digest =
            self.reach.with(|client| client.digest_of(&self.settings.name_of_adjoints()))?;
        Ok(digest.map(|digest| digest.max(1)))
    }

    pub(super) fn store(&mut self, state: u64, slot: u64) -> Result<()> {
        self.prepare(state)?;
        let version = self.numbers.version(slot);
        if self.failure.is_some() {
            self.set_aside(state, version);
            return self.pass_over(version);
        }
        match self.take(state, version) {
            Ok(()) => Ok(()),
            Err(error) if self.meetings.is_none() && state == 0 => {
                self.store_the_first(version, error)
            }
            Err(error) if self.meetings.is_none() => self.go_on_without(state, error),
            Err(error) => {
                let lacked = match self.set_aside(state, version) {
                    true => self.lack(state, version, error),
                    false => Err(error),
                };
                self.bear(lacked)
            }
        }
    }

    /// Looks at the state that the application has, before it is stored.
    pub(super) fn prepare(&mut self, state: u64) -> Result<()> {
        let hash = self.meet(state)?;
        let stored = self.store_hashes(state);
        self.do_without(stored)?;
        self.at = Some(state);
        self.states.set(self.run, state, hash);
        Ok(())
    }

    /// Has this process count a state that it does not store, as the others store it.
    fn pass_over(&mut self, version: u64) -> Result<()> {
        self.reach.with(|client| {
            client.pass_over(&self.settings.name, version as i32);
            Ok(())
        })
    }

    /// Keeps a state that cannot be stored for as long as others may need this process. Whether it could.
    fn set_aside(&mut self, state: u64, version: u64) -> bool {
        let aside = self.reach.with(|client| client.set_aside(&self.settings.name));
        match aside {
            Ok(aside) => {
                self.asides.keep(version, state, aside);
                true
            }
            Err(error) => {
                log::error!("state {state} cannot be kept in memory either: {error}");
                false
            }
        }
    }

    /// Stores the hashes of the states up to this one that are not stored yet.
    pub(super) fn store_hashes(&mut self, state: u64) -> Result<()> {
        // The hash of state 0 stands with it. When the adjoint has begun, all states were met.
        if !self.lasting || state == 0 || self.fine < self.steps {
            return Ok(());
        }
        let Some(replay) = &mut self.replay else { return Ok(()) };
        let Some((first, hashes)) = replay.unstored_to(state) else { return Ok(()) };
        self.trail.set(self.run, first, hashes.to_vec());
        let (name, version) = (self.settings.name_of_hashes(), self.next_hashes);
        self.next_hashes = version.checked_add(1).ok_or_else(|| {
            Error::invalid(format!("\"{name}\" has no versions behind {version}"))
        })?;
        // Also if they are not stored here: they are on the other processes.
        replay.is_stored_to(state);
        let fails = self.failure.is_some();
        self.reach.with(|client| match fails {
            true => {
                client.pass_over(&name, version);
                Ok(())
            }
            false => client.take_managed(&name, version, None, false),
        })
    }

    pub(super) fn restore(&mut self, state: u64, slot: u64) -> Result<()> {
        let version = self.numbers.version(slot);
        if let Some(aside) = self.asides.get(version, state) {
            self.reach.with(|client| client.put_back(&self.settings.name, aside))?;
            self.at = Some(state);
            return Ok(());
        }
        if let Some(failure) = &self.failure {
            if self.slots.get(&version) != Some(&state) {
                // There was no memory for it.
                return Err(failure.clone());
            }
        }
        // It is read once more unless the adjoint takes its step from it now.
        let next = (state + 1 < self.fine).then(|| self.place(state));
        let name = &self.settings.name;
        self.at = None;
        match self.reach.with(|client| client.restore_managed(name, version as i32, next)) {
            Ok(()) => {}
            Err(error) if self.meetings.is_none() && is_lost(&error) => {
                self.compute_again(state, version, error)?;
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let stored = self.states.get();
        if (stored.run, stored.number) != (self.run, state) {
            return Err(Error::new(
                Kind::Corrupt,
                format!(
                    "slot {version} has state {} of run {:#018x}, not state {state} of run {:#018x}",
                    stored.number, stored.run, self.run
                ),
            ));
        }
        let hash = self.hash(state)?;
        match self.damage(state, version, hash, stored.hash)? {
            None => self.compare(state, hash)?,
            Some(damage) if self.meetings.is_none() => {
                self.damaged.insert(version as i32);
                self.remove_damaged();
                self.compute_again(state, version, damage)?;
                return Ok(());
            }
            Some(damage) => {
                self.damaged.insert(version as i32);
                let text = "it is removed, and the same call goes on without it";
                self.bear(Err(damage.followed_by(text)))?;
            }
        }
        self.at = Some(state);
        Ok(())
    }

    pub(super) fn store_adjoint(&mut self) -> Result<()> {
        let hash = self.hash_of_adjoint()?;
        self.adjoint.set(self.run, self.fine, hash);
        let (adjoints, fine) = (&mut self.adjoints, self.fine);
        let (name, alone) = (adjoints.name().to_owned(), self.meetings.is_none());
        self.reach.with(|client| {
            adjoints.withdraw_unwritten(client);
            adjoints.store(client, fine)?;
            match alone {
                true => adjoints.hear_itself(&Files { client, name: &name }),
                false => Ok(()),
            }
        })
    }

    /// Stores what the next run needs to go on from here, and waits until it is in its files.
    pub(super) fn stop(&mut self) -> Result<()> {
        if !self.lasting {
            // Who makes the call again does not ask again by that.
            self.clock.decline();
            return Err(Error::invalid(
                "the run was asked to stop, but nothing outlives the job (ephemeral = true)",
            ));
        }
        if self.fine < self.steps && self.adjoints.stored() != Some(self.fine) {
            self.store_adjoint()?;
        }
        let extra = self.store_where_it_is()?;
        let written = self.await_files();
        match (written, extra) {
            (Err(error), Some(version)) => {
                self.go_without(version, error)?;
                self.await_files()
            }
            (written, _) => written,
        }
    }

    /// Waits until everything that is of use is in its files.
    fn await_files(&self) -> Result<()> {
        // What could not be written is tried again. What is of no use any more need not be.
        let (name, slots, fine) = (&self.settings.name, &self.slots, self.fine);
        let is_of_use =
            |version: i32| slots.get(&(version as u64)).is_some_and(|state| *state < fine);
        self.reach.with(|client| {
            client.withdraw_unwritten(name, |version| !is_of_use(version));
            drop(client.setback());
            client.checkpoint_wait()?;
            client.setback().map_or(Ok(()), Err)
        })
    }

    /// A run that has come to its end leaves nothing. What cannot be removed is said, and no reason to fail:
    /// the application has its adjoint.
    pub(super) fn remove_all(&self) -> Result<()> {
        let name = &self.settings.name;
        let names =
            [name.clone(), self.settings.name_of_adjoints(), self.settings.name_of_hashes()];
        self.reach.with(|client| {
            let removed = names.each_ref().map(|name| client.remove_all(name));
            let Some(cause) = removed.into_iter().find_map(Result::err) else { return Ok(()) };
            if !is_of_the_store(&cause) {
                return Err(cause);
            }
            client.give_up(self.run);
            let left = names.iter().map(|name| client.versions(name).map_or(0, |left| left.len()));
            let left = match left.sum::<usize>() {
                // What cannot be looked at cannot be counted.
                0 => "what its files had may remain".to_owned(),
                left => format!("{left} checkpoints of the run remain"),
            };
            log::warn!(
                "\"{name}\": the adjoint is computed, but {left}, as it cannot be removed ({cause}): a later \
                 job would go on from it; remove it before, or give that another tag"
            );
            Ok(())
        })
    }
}
