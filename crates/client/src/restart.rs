//! The restart side of the protocol: begin, recover, end.

use std::time::Instant;

use super::opening::{BegunRestore, Opening};
use super::recovering::{Prepared, Recovering};
use super::regions::{Group, Protected, ProtectedMemory};
use super::{Client, Phase, Selection};
use catalog::Region;
use errors::{Error, ErrorKind, Result};
use format::names;
use trace::Activity;

impl Client {
    /// Restores a whole checkpoint (`VELOC_Restart`), of the rank `of` if there is one. Collective
    /// under MPI: before the first byte changes, every process has found that it can read its
    /// checkpoint and has the memory for it. A process without others compares the checksum of an
    /// earlier job's file while it restores, so that the file is read once.
    pub fn restart(&mut self, name: &str, version: i32, of: Option<u32>) -> Result<()> {
        let trace = self.engine.trace().clone();
        let _span = trace.span(Activity::Restore).of(name, version);
        let since = Instant::now();
        let mut prepared = self.open_restart(name, version, of, Some(&Selection::All))?;
        let recovered = prepared.as_mut().map_or(Ok(()), |prepared| {
            prepared.order(&self.engine);
            self.recover_prepared(prepared)
        });
        // Before the end, from which on the engine knows a version of an earlier job.
        let is_own = self.search().other(of).is_none() && self.phase.pieces().is_none();
        let is_own = recovered.is_ok() && is_own;
        if let Some(prepared) = prepared.filter(|_| is_own) {
            let protected = self.protection.regions.of(name);
            self.deltas.goes_on_from(&self.engine, protected, (name, version), &prepared.places);
        }
        let ended = self.restart_end(recovered.is_ok());
        recovered.and(ended)?;
        self.engine.metrics().restart_calls.add(0, since.elapsed());
        Ok(())
    }

    /// Restores regions of a checkpoint into the memory of a list, whatever is protected and whatever is open: so threads
    /// of a process restore each their own (`VELOC_Restart_list`). An empty list only checks that it can be restored.
    /// `consumed`: as for [`Client::restart_end`]. Collective under MPI, as [`Client::restart`] is.
    ///
    /// # Errors
    /// As [`Client::restart`]; the checkpoint lacks a region of the list; or as [`Protecting::protect_list`](super::Protecting::protect_list).
    pub fn restart_list(
        &mut self,
        (name, version): (&str, i32),
        list: Result<Vec<(i32, ProtectedMemory)>>,
        called: impl Fn(usize) -> String,
        consumed: bool,
    ) -> Result<()> {
        let trace = self.engine.trace().clone();
        let _span = trace.span(Activity::Restore).of(name, version);
        let since = Instant::now();
        let list = list.and_then(|list| self.protecting().checked_list(Some(name), list, called));
        let ids = list.iter().flatten().map(|(id, _)| *id).collect();
        let selection = Selection::Some(ids);
        // An empty list may ask for a file of the application's own, of which nothing can be copied back.
        let wanted = list.as_ref().is_ok_and(|list| !list.is_empty()).then_some(&selection);
        let mut group = Group::default();
        for (id, memory) in list.iter().flatten() {
            group.protect(*id, Protected::Memory(memory.clone()));
        }
        let own = self.protection.regions.exchange(name, Some(group));
        let open = self.phase.take();
        // The others hear of a list that is none: no checkpoint has an empty name.
        let opened = self.open_restart(if list.is_ok() { name } else { "" }, version, None, wanted);
        let restored = opened.and_then(|prepared| {
            let recovered =
                prepared.map_or(Ok(()), |mut prepared| self.recover_prepared(&mut prepared));
            self.restart_end(recovered.is_ok() && consumed).and(recovered)
        });
        self.phase = open;
        self.protection.regions.exchange(name, own);
        list?;
        restored?;
        self.engine.metrics().restart_calls.add(0, since.elapsed());
        Ok(())
    }

    /// Opens a checkpoint for recovery, and ends a restart that is open. Collective under MPI: it
    /// is opened on every process or on none, whichever rank's checkpoint each of them wants.
    pub fn restart_begin(&mut self, name: &str, version: i32, of: Option<u32>) -> Result<()> {
        self.open_restart(name, version, of, None).map(drop)
    }

    /// Opens a checkpoint for recovery. Of what is to be copied at once it also returns where to, which is found before
    /// the processes agree.
    fn open_restart(
        &mut self,
        name: &str,
        version: i32,
        of: Option<u32>,
        copied: Option<&Selection>,
    ) -> Result<Option<Prepared>> {
        self.end_open_restart();
        // Only an adjoint computation itself restores the checkpoints that it stores.
        let not_held = || {
            let under_way = &self.protection.under_way;
            under_way.check_not_held(name, format_args!("version {version} of"))
        };
        self.protection.regions.of(name).use_once();
        let proper = names::validate(name, version).and_then(|()| self.phase.must_be_idle());
        let proper = proper.and_then(|()| not_held());
        let opening = Opening { search: self.search(), recovering: self.recovering() };
        let BegunRestore { restoring, prepared, pieces, .. } =
            opening.open(name, version, of, copied, proper)?;
        self.phase = Phase::Restart { restoring, pieces };
        if self.search().other(of).is_none() {
            self.engine.file_side().warn_of_backlog(name);
        }
        prepared
    }

    /// What a recovery uses.
    fn recovering(&self) -> Recovering<'_> {
        let Client { engine, protection, buffers, sizes_asked, .. } = self;
        Recovering { engine, protection, buffers, sizes_asked }
    }

    fn recover_prepared(&self, prepared: &mut Prepared) -> Result<()> {
        self.recovering().recover(self.phase.restoring()?, self.phase.pieces(), prepared)
    }

    /// Bytes of a region in the checkpoint that is open for recovery.
    pub fn recover_size(&self, id: i32) -> Result<u64> {
        let restoring = self.phase.restoring()?;
        self.sizes_asked.set(true);
        let regions = self.protection.regions.of(&restoring.name);
        if self.phase.pieces().is_some_and(|pieces| pieces.part_of(id).is_some()) {
            if let Some((_, part)) = regions.subarrays().find(|(of, _)| *of == id) {
                return Ok(part.len());
            }
        }
        let found = restoring.regions.iter().find(|region| region.id == id);
        found.map(Region::len_in_memory).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!(
                    "checkpoint \"{}\" version {} has no region {id}",
                    restoring.name, restoring.version
                ),
            )
        })
    }

    /// Bytes of a region in any checkpoint.
    pub fn recover_ckpt_size(&mut self, name: &str, version: i32, region: i32) -> Result<u64> {
        names::validate(name, version)?;
        self.sizes_asked.set(true);
        let open = self.phase.restoring().ok().filter(|_| self.phase.pieces().is_some());
        if open.is_some_and(|open| (&*open.name, open.version) == (name, version)) {
            return self.recover_size(region);
        }
        let part_of = |id| self.protection.regions.of(name).part(id);
        let id = self.engine.restores().find(name, version, part_of)?;
        let regions = self.engine.restores().regions_to_restore(id, name, version, part_of)?;
        let found = regions.iter().find(|found| found.id == region);
        found.map(Region::len_in_memory).ok_or_else(|| {
            Error::new(
                ErrorKind::NotFound,
                format!("checkpoint \"{name}\" version {version} has no region {region}"),
            )
        })
    }

    /// Copies regions back to the protected memory. Everything is checked before the first byte is
    /// overwritten: each selected region of the checkpoint has memory that is large enough.
    pub fn recover(&mut self, selection: &Selection) -> Result<()> {
        let trace = self.engine.trace().clone();
        let _span = self.phase.span(&trace, Activity::Restore);
        self.recover_checked(selection, false, |_, _| false)
    }

    /// Copies regions back, `in_order` of the application's stream where the job has that. Memory that is `known` to be
    /// writable for so many bytes is not checked.
    pub(super) fn recover_checked(
        &mut self,
        selection: &Selection,
        in_order: bool,
        known: impl Fn(&ProtectedMemory, u64) -> bool,
    ) -> Result<()> {
        let (restoring, pieces) = (self.phase.restoring()?, self.phase.pieces());
        let mut prepared = self.recovering().prepare(restoring, pieces, selection, known)?;
        if in_order {
            prepared.order(&self.engine);
        }
        self.recover_prepared(&mut prepared)
    }

    /// Closes the checkpoint that is open for recovery.
    pub fn restart_end(&mut self, success: bool) -> Result<()> {
        match self.phase.take() {
            Phase::Restart { restoring, .. } => {
                self.engine.restores().end_restore(restoring, success);
                Ok(())
            }
            other => {
                self.phase = other;
                Err(Error::invalid("there is no open restart (VELOC_Restart_begin)"))
            }
        }
    }
}
