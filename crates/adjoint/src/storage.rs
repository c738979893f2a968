//! Stores and restores states, adjoints and hashes. A failure to store or restore ends the run.

use super::adjoints::ClientFiles;
use super::run::RunInProgress;
use super::ClientAccess;
use errors::{Error, ErrorKind, Result};

impl<R: ClientAccess> RunInProgress<'_, R> {
    pub(super) fn restore_adjoint(&mut self, version: i32) -> Result<()> {
        let name = self.settings.name_of_adjoints();
        let in_order = self.hashes.replay.is_none();
        let restored =
            self.access.with(|client| client.marked().restore(&name, version, None, in_order));
        if let Err(error) = restored {
            let error = error.within(format!(
                "the adjoint at state {} cannot be read back from \"{name}\" version {version}",
                self.reached.fine
            ));
            return Err(self.remove_if_damaged(&name, version, error));
        }
        let stored = self.marks.adjoint.get();
        if (stored.run, stored.number) != (self.run, self.reached.fine) {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "\"{name}\" version {version} has come to state {} of run {:#018x}, not to state \
                     {} of run {:#018x}",
                    stored.number, stored.run, self.reached.fine, self.run
                ),
            ));
        }
        match (self.hash_of_adjoint()?, stored.hash) {
            (Some(hash), Some(stored)) if hash != stored => {
                let error = Error::new(
                    ErrorKind::Corrupt,
                    format!(
                        "the adjoint at state {} has the hash {hash:#018x} after it was restored from \
                         \"{name}\" version {version}, and had {stored:#018x} when it was stored: \
                         it was damaged there",
                        self.reached.fine
                    ),
                );
                Err(self.remove_if_damaged(&name, version, error))
            }
            _ => Ok(()),
        }
    }

    /// A hash of the adjoint, if replays are verified and it is in host memory.
    fn hash_of_adjoint(&self) -> Result<Option<u64>> {
        if self.hashes.replay.is_none() {
            return Ok(None);
        }
        let digest = self
            .access
            .with(|client| client.protecting().digest_of(&self.settings.name_of_adjoints()))?;
        Ok(digest.map(|digest| digest.max(1)))
    }

    /// Stores the application's current state in a slot.
    pub(super) fn store(&mut self, state: u64, slot: u64) -> Result<()> {
        if self.others.failure.is_some() {
            return Ok(());
        }
        self.check_background()?;
        let mut hash = self.verify(state)?;
        if state == 0 && hash.is_none() {
            // A restart identifies the state 0 of this computation by the hash.
            hash = self.problem.hash(0)?.map(|hash| hash.max(1));
        }
        self.store_hashes(state)?;
        self.reached.at = Some(state);
        self.marks.states.set(self.run, state, hash);
        let (name, version) = (&self.settings.name, slot as i32);
        let (place, reads) = (Some(self.read_order(state)), self.reached.fine < self.steps);
        let taken = self.access.with(|client| {
            // The slot's old state is not needed, and memory alone may lack room for both.
            client.versions().let_go_of(name, version);
            client.marked().take(name, version, place, reads)
        });
        taken.map_err(|error| {
            let what = format!(
                "state {state} cannot be stored in slot {slot} (\"{name}\" version {version})"
            );
            self.with_advice(error.within(what))
        })?;
        self.reached.slots.insert(slot, state);
        Ok(())
    }

    /// Fails if storing an earlier version has failed in the background.
    pub(super) fn check_background(&self) -> Result<()> {
        let heard = self.access.with(|client| client.versions().check_background());
        heard.map_err(|error| self.with_advice(error))
    }

    /// Adds advice to an error.
    fn with_advice(&self, error: Error) -> Error {
        let slots = self.slots;
        let error = match error.kind() {
            ErrorKind::NoRoom => error.followed_by(format_args!(
                "make room for {slots} states and one that replaces another (host_cache_size, gpu_cache_size, \
                 scratch, persistent), or begin anew with fewer slots (VELOC_Adjoint_discard){}",
                match self.settings.slots as u64 == slots {
                    true => "",
                    false => "; states that do not fit their bits take more room than compressed ones: begin anew \
                              with a larger bound or more bits",
                }
            )),
            _ => error,
        };
        error.followed_by("what is stored stays, and the same call goes on from it")
    }

    /// Stores the hashes up to this state that are not stored yet.
    pub(super) fn store_hashes(&mut self, state: u64) -> Result<()> {
        // The hash of state 0 is stored with the state. When the reverse sweep has begun, all hashes are
        // known.
        if !self.durable
            || state == 0
            || self.reached.fine < self.steps
            || self.others.failure.is_some()
        {
            return Ok(());
        }
        let Some(replay) = &mut self.hashes.replay else { return Ok(()) };
        let Some((first, hashes)) = replay.unstored_to(state) else { return Ok(()) };
        self.hashes.stored.set(self.run, first, hashes.to_vec());
        let (name, version) = (self.settings.name_of_hashes(), self.hashes.next_version);
        self.hashes.next_version = version.checked_add(1).ok_or_else(|| {
            Error::invalid(format!(
                "\"{name}\" has reached version {version}, the highest that is possible"
            ))
        })?;
        replay.mark_stored_to(state);
        self.access.with(|client| client.marked().take(&name, version, None, false)).map_err(
            |error| {
                let what = "the hashes of the states up to";
                self.with_advice(
                    error.within(format!("{what} {state} cannot be stored (\"{name}\")")),
                )
            },
        )
    }

    /// Restores the state in a slot.
    pub(super) fn restore(&mut self, state: u64, slot: u64) -> Result<()> {
        if self.others.failure.is_some() {
            return Ok(());
        }
        // The state is read again, unless the adjoint takes its step from it now.
        let next = (state + 1 < self.reached.fine).then(|| self.read_order(state));
        let (name, version) = (&self.settings.name, slot as i32);
        self.reached.at = None;
        // Its hash is looked at at once.
        let in_order = self.hashes.replay.is_none();
        let restored =
            self.access.with(|client| client.marked().restore(name, version, next, in_order));
        if let Err(error) = restored {
            let error = error.within(format!(
                "state {state} cannot be read back from slot {slot} (\"{name}\" version {version})"
            ));
            return Err(self.remove_if_damaged(name, version, error));
        }
        let stored = self.marks.states.get();
        if (stored.run, stored.number) != (self.run, state) {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "slot {slot} has state {} of run {:#018x}, not state {state} of run {:#018x}",
                    stored.number, stored.run, self.run
                ),
            ));
        }
        let hash = self.hash(state)?;
        if let Some(damage) = self.damage(state, slot, hash, stored.hash)? {
            return Err(self.remove_if_damaged(&self.settings.name, version, damage));
        }
        self.compare(state, hash)?;
        self.reached.at = Some(state);
        Ok(())
    }

    /// Removes a damaged version, so that a later call does not find it again. Returns the error with
    /// advice.
    fn remove_if_damaged(&self, name: &str, version: i32, error: Error) -> Error {
        if error.kind() == ErrorKind::Corrupt {
            if let Err(why) = self.access.with(|client| client.versions().remove(name, version)) {
                return error.followed_by(format_args!(
                    "remove \"{name}\" version {version}, which cannot be removed here: {why}"
                ));
            }
            return error.followed_by("it is removed, and the same call goes on without it");
        }
        error.followed_by("the same call goes on from what is left")
    }

    pub(super) fn store_adjoint(&mut self) -> Result<()> {
        if self.others.failure.is_some() {
            return Ok(());
        }
        self.check_background()?;
        let hash = self.hash_of_adjoint()?;
        self.marks.adjoint.set(self.run, self.reached.fine, hash);
        let (adjoints, fine) = (&mut self.adjoints, self.reached.fine);
        let (name, alone) = (adjoints.name().to_owned(), self.others.exchange.is_none());
        let stored = self.access.with(|client| {
            adjoints.store(client, fine)?;
            match alone {
                true => adjoints.apply_alone(&ClientFiles { client, name: &name }),
                false => Ok(()),
            }
        });
        stored.map_err(|error| {
            let what = format!("the adjoint at state {fine} cannot be stored (\"{name}\")");
            self.with_advice(error.within(what))
        })
    }

    /// Removes everything that a finished run has stored.
    pub(super) fn remove_all(&self) -> Result<()> {
        if self.others.failure.is_some() {
            return Ok(());
        }
        let name = &self.settings.name;
        let names =
            [name.clone(), self.settings.name_of_adjoints(), self.settings.name_of_hashes()];
        self.access.with(|client| {
            let removed = names.each_ref().map(|name| client.versions().remove_all(name));
            removed.into_iter().collect::<Result<()>>().map_err(|error| {
                error.within(format!(
                    "\"{name}\": the adjoint is computed, but what the run has stored cannot be removed"
                ))
            })
        })
    }
}
