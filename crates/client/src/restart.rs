//! The restart side of the protocol: begin, recover, end.

use std::sync::Arc;
use std::time::Instant;

use super::callbacks::Object;
use super::messages::{is_chunk, MessageLog};
use super::one_run::of_several_runs;
use super::regions::{check_writable, Group, Memory, Protected};
use super::{check_name, Client, Phase, Selection};
use catalog::{Part, Region, MESSAGES};
use engine::place::Place;
use engine::restore::Restoring;
use errors::{Error, Kind, Result};
use format::identity::Identity;
use trace::Activity;

/// A checkpoint that is about to be open for recovery.
struct Begun {
    restoring: Restoring,
    /// Where a restart copies to, or why it cannot; `None` if the checkpoint is only opened.
    prepared: Result<Option<Prepared>>,
    /// The checkpoint was opened by its header alone: its checksum is compared while it is read.
    unread: bool,
}

/// The memory and the objects that regions are copied back to.
struct Prepared {
    places: Vec<Place>,
    /// Objects, with the bytes that each is read from once all bytes are there.
    objects: Vec<(i32, Arc<dyn Object>, Vec<u8>)>,
    /// The message log, with the bytes that it is read from.
    messages: Option<(MessageLog, Vec<u8>)>,
}

impl Client {
    /// `rank`, if it is another one than this process's.
    pub(super) fn other(&self, rank: Option<u32>) -> Option<u32> {
        rank.filter(|&rank| rank != self.engine.files().places().rank())
    }

    /// Restores a whole checkpoint (`VELOC_Restart`), of the rank `of` if there is one. Collective
    /// under MPI: before the first byte changes, every process has found that it can read its
    /// checkpoint and has the memory for it. A process without others compares the checksum of an
    /// earlier job's file while it restores, so that the file is read once.
    pub fn restart(&mut self, name: &str, version: i32, of: Option<u32>) -> Result<()> {
        let trace = self.engine.trace().clone();
        let _span = trace.span(Activity::Restore).of(name, version);
        let since = Instant::now();
        let (prepared, unread) = self.open_restart(name, version, of, Some(&Selection::All))?;
        let recovered =
            prepared.as_ref().map_or(Ok(()), |prepared| self.recover_prepared(prepared));
        let ended = self.restart_end(recovered.is_ok());
        recovered.and(ended)?;
        if let Some(prepared) = prepared.filter(|_| self.other(of).is_none()) {
            self.goes_on_from(name, version, &prepared.places);
        }
        if unread {
            // From here on the engine knows the checkpoint, and knows that it is good.
            let part_of = |id| self.regions.of(name).part(id);
            if let Ok(known) = self.engine.restores().begin_restore(name, version, part_of) {
                self.engine.restores().end_restore(known, true);
            }
        }
        self.engine.metrics().restart_calls.add(0, since.elapsed());
        Ok(())
    }

    /// Restores regions of a checkpoint into the memory of a list, whatever is protected and whatever is open: so threads
    /// of a process restore each their own (`VELOC_Restart_list`). An empty list only checks that it can be restored.
    /// `consumed`: as for [`Client::restart_end`]. Collective under MPI, as [`Client::restart`] is.
    ///
    /// # Errors
    /// As [`Client::restart`]; the checkpoint lacks a region of the list; or as [`Client::protect_list`].
    pub fn restart_list(
        &mut self,
        (name, version): (&str, i32),
        list: Result<Vec<(i32, Memory)>>,
        called: impl Fn(usize) -> String,
        consumed: bool,
    ) -> Result<()> {
        let trace = self.engine.trace().clone();
        let _span = trace.span(Activity::Restore).of(name, version);
        let since = Instant::now();
        let list = list.and_then(|list| self.checked_list(Some(name), list, called));
        let ids = list.iter().flatten().map(|(id, _)| *id).collect();
        let selection = Selection::Some(ids);
        // An empty list may ask for a file of the application's own, of which nothing can be copied back.
        let wanted = list.as_ref().is_ok_and(|list| !list.is_empty()).then_some(&selection);
        let mut group = Group::default();
        for (id, memory) in list.iter().flatten() {
            group.protect(*id, Protected::Memory(memory.clone()));
        }
        let own = self.regions.exchange(name, Some(group));
        let open = std::mem::replace(&mut self.phase, Phase::Idle);
        // The others hear of a list that is none: no checkpoint has an empty name.
        let opened = self.open_restart(if list.is_ok() { name } else { "" }, version, None, wanted);
        let restored = opened.and_then(|(prepared, _)| {
            let recovered = prepared.map_or(Ok(()), |prepared| self.recover_prepared(&prepared));
            self.restart_end(recovered.is_ok() && consumed).and(recovered)
        });
        self.phase = open;
        self.regions.exchange(name, own);
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
    /// the processes agree; and whether the checksum is still to be compared.
    fn open_restart(
        &mut self,
        name: &str,
        version: i32,
        of: Option<u32>,
        copied: Option<&Selection>,
    ) -> Result<(Option<Prepared>, bool)> {
        let other = self.other(of);
        self.end_open_restart();
        // Only an adjoint computation itself restores the checkpoints that it stores.
        let not_held = || self.check_not_held(name, &format!("version {version} of"));
        self.regions.of(name).use_once();
        let proper = check_name(name, version).and_then(|()| self.must_be_idle());
        let proper = proper.and_then(|()| not_held());
        let end = |begun: Result<Begun>| {
            if let Ok(begun) = begun {
                self.engine.restores().end_restore(begun.restoring, false);
            }
        };
        let any = Identity::UNKNOWN;
        let mut begun =
            proper.clone().and_then(|()| self.begin_one(name, version, of, copied, any));
        // Each process rebuilds its own file only.
        let own = proper.is_ok() && other.is_none();
        let why = match self.make_good(name, version, own, begun.is_ok()) {
            Ok(None) => None,
            Ok(Some(Ok(()))) => {
                // The file that was opened before may have been an old one.
                end(begun);
                begun = self.begin_one(name, version, of, copied, any);
                None
            }
            Ok(Some(Err(why))) | Err(why) => Some(why),
        };
        let nearest = begun.as_ref().ok().map(|begun| begun.restoring.identity);
        match self.is_of_one_run(name, nearest) {
            Ok(true) => {}
            Ok(false) => {
                // A process that has found nothing keeps its reason.
                let failed = begun.as_ref().err().cloned();
                end(begun);
                begun = self.begin_of_common_run(name, version, of, copied);
                if let Some(failed) = failed {
                    end(std::mem::replace(&mut begun, Err(failed)));
                }
            }
            Err(error) => {
                end(begun);
                return Err(error);
            }
        }
        let ready = match &begun {
            Ok(Begun { prepared: Ok(_), .. }) => Ok(()),
            Ok(Begun { prepared: Err(error), .. }) | Err(error) => Err(error.clone()),
        };
        let ready = match (ready, why) {
            (ready, None) => ready,
            (Ok(()), Some(why)) => Err(why.within(format!("\"{name}\" version {version}"))),
            (Err(error), Some(why)) => {
                Err(error.followed_by(format!("it cannot be rebuilt: {why}")))
            }
        };
        if let Err(error) = self.all_or_none(ready) {
            end(begun);
            return Err(error);
        }
        let Begun { restoring, prepared, unread } = begun?;
        self.phase = Phase::Restart { restoring };
        if other.is_none() {
            self.engine.file_side().warn_of_backlog(name);
        }
        Ok((prepared?, unread))
    }

    /// Finds a checkpoint of the rank `of`, or else of this one, and checks that it can be
    /// restored, if a `wanted` run has made it. Where processes have to agree on that, the file that will be read
    /// is checked, too.
    fn begin_one(
        &self,
        name: &str,
        version: i32,
        of: Option<u32>,
        copied: Option<&Selection>,
        wanted: Identity,
    ) -> Result<Begun> {
        let part_of = |id| self.regions.of(name).part(id);
        let (other, agrees) = (self.other(of), self.has_others());
        let mut unread = None;
        if matches!(copied, Some(Selection::All)) && !agrees && other.is_none() {
            unread = self.engine.restores().begin_restore_unproven(name, version, part_of);
        }
        let is_unread = unread.is_some();
        let restoring = match (unread, other) {
            (Some(restoring), _) => restoring,
            (None, Some(rank)) => {
                self.engine.restores().begin_restore_of((rank, wanted), name, version, part_of)?
            }
            (None, None) => {
                let own =
                    self.engine.restores().begin_restore_of_run(wanted, name, version, part_of);
                // Who names a rank may restore what a job of any number of processes has left.
                match (own, of) {
                    (Err(error), Some(rank)) if error.kind() == Kind::OtherJob => self
                        .engine
                        .restores()
                        .begin_restore_of((rank, wanted), name, version, part_of)?,
                    (own, _) => own?,
                }
            }
        };
        let looked = if agrees { self.engine.restores().look_ahead(&restoring) } else { Ok(()) };
        if let Err(error) = looked {
            self.engine.restores().end_restore(restoring, false);
            return Err(error);
        }
        let prepare = |copied: &Selection| self.prepare(&restoring, copied, |_, _| false);
        let prepared = copied.map(prepare).transpose();
        Ok(Begun { restoring, prepared, unread: is_unread })
    }

    /// Finds the copy of a run that all processes have one of. Collective.
    fn begin_of_common_run(
        &self,
        name: &str,
        version: i32,
        of: Option<u32>,
        copied: Option<&Selection>,
    ) -> Result<Begun> {
        let Some(comm) = &self.comm else { return Err(of_several_runs(name, version)) };
        match self.common_run(comm, name, version, self.other(of))? {
            Some(run) => self.begin_one(name, version, of, copied, run),
            None => Err(of_several_runs(name, version)),
        }
    }

    /// Rebuilds the files of a version before it is restored, if a process lacks its file or the
    /// parities are not alike. `restorable`: this process has a good file. Returns `None` if there
    /// is nothing to rebuild, or if a process does not want its `own` checkpoint. Collective.
    ///
    /// # Errors
    /// MPI's. The inner error, on all processes, is why the files cannot be rebuilt.
    fn make_good(
        &self,
        name: &str,
        version: i32,
        own: bool,
        restorable: bool,
    ) -> Result<Option<Result<()>>> {
        let Some(comm) = self.comm.as_ref().filter(|_| self.can_rebuild()) else {
            return Ok(None);
        };
        // Parities of a version that this job itself has taken may still be on their way.
        let taken = self.engine.checkpoints().has_taken(name, version);
        let told = [own, restorable, taken].map(i64::from);
        let [own, good, taken] = comm.allreduce_min(told)?.map(|least| least == 1);
        if !own || good && (taken || self.parities_are_alike(comm, name, version)?) {
            return Ok(None);
        }
        Ok(Some(self.rebuild(name, version, restorable)?.map_or(Ok(()), Err)))
    }

    /// Bytes of a region in the checkpoint that is open for recovery.
    pub fn recover_size(&self, id: i32) -> Result<u64> {
        let restoring = self.restoring()?;
        self.sizes_asked.set(true);
        restoring.regions.iter().find(|region| region.id == id).map(|r| r.size).ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                format!(
                    "checkpoint \"{}\" version {} has no region {id}",
                    restoring.name, restoring.version
                ),
            )
        })
    }

    /// Bytes of a region in any checkpoint.
    pub fn recover_ckpt_size(&mut self, name: &str, version: i32, region: i32) -> Result<u64> {
        check_name(name, version)?;
        self.sizes_asked.set(true);
        let part_of = |id| self.regions.of(name).part(id);
        let id = self.engine.restores().find(name, version, part_of)?;
        let regions = self.engine.restores().regions_to_restore(id, name, version, part_of)?;
        regions.iter().find(|found| found.id == region).map(|found| found.size).ok_or_else(|| {
            Error::new(
                Kind::NotFound,
                format!("checkpoint \"{name}\" version {version} has no region {region}"),
            )
        })
    }

    /// Copies regions back to the protected memory. Everything is checked before the first byte is
    /// overwritten: each selected region of the checkpoint has memory that is large enough.
    pub fn recover(&mut self, selection: &Selection) -> Result<()> {
        let trace = self.engine.trace().clone();
        let _span = self.span(&trace, Activity::Restore);
        self.recover_selected(selection)
    }

    fn recover_selected(&mut self, selection: &Selection) -> Result<()> {
        self.recover_checked(selection, |_, _| false)
    }

    /// Copies regions back. Memory that is `known` to be writable for so many bytes is not checked.
    pub(super) fn recover_checked(
        &mut self,
        selection: &Selection,
        known: impl Fn(&Memory, u64) -> bool,
    ) -> Result<()> {
        let prepared = self.prepare(self.restoring()?, selection, known)?;
        self.recover_prepared(&prepared)
    }

    fn restoring(&self) -> Result<&Restoring> {
        match &self.phase {
            Phase::Restart { restoring } => Ok(restoring),
            _ => Err(Error::invalid("there is no open restart (VELOC_Restart_begin)")),
        }
    }

    /// Finds the memory and the objects that regions are to be copied back to.
    fn prepare(
        &self,
        restoring: &Restoring,
        selection: &Selection,
        known: impl Fn(&Memory, u64) -> bool,
    ) -> Result<Prepared> {
        let about = |text: String| {
            format!("checkpoint \"{}\" version {}: {text}", restoring.name, restoring.version)
        };
        if let Selection::Some(ids) = selection {
            if let Some(id) = ids.iter().find(|&&id| restoring.regions.iter().all(|r| r.id != id)) {
                return Err(Error::new(Kind::NotFound, about(format!("it has no region {id}"))));
            }
        }
        if restoring.regions.is_empty() {
            return Err(Error::invalid(about(
                "it is a file of its own (VELOC_Route_file) and has no memory regions".to_owned(),
            )));
        }
        let (mut places, mut of_host) = (Vec::new(), Vec::new());
        let mut objects: Vec<(i32, Arc<dyn Object>, Vec<u8>)> = Vec::new();
        // The message log of another rank is of no use to this one.
        let mut messages: Option<(MessageLog, Vec<u8>)> = None;
        let is_own =
            self.engine.restores().rank_of(restoring) == self.engine.files().places().rank();
        let bytes_of = |region: &Region| {
            let reading =
                |error: Error| error.within(about(format!("reading region {}", region.id)));
            zeros(region.size).map_err(reading)
        };
        let log = self.messages_of(&restoring.name, selection);
        for region in restoring.regions.iter().filter(|region| selection.has(region.id)) {
            if log.is_some() && is_chunk(region.id) {
                continue;
            }
            if let Some(log) = log.filter(|_| region.id == MESSAGES) {
                if is_own {
                    let (_, bytes) = messages.insert((log, bytes_of(region)?));
                    places.push(Place::plain(region.id, bytes.as_mut_ptr(), bytes.len()));
                }
                continue;
            }
            let regions = self.regions.of(&restoring.name);
            let mut read_by = |object: &Arc<dyn Object>| -> Result<()> {
                let mut bytes = bytes_of(region)?;
                places.push(Place::plain(region.id, bytes.as_mut_ptr(), bytes.len()));
                objects.push((region.id, object.clone(), bytes));
                Ok(())
            };
            if let Some(marker) = regions.marker().filter(|_| restoring.mark == Some(region.id)) {
                read_by(marker)?;
                continue;
            }
            let Some(protected) = regions.get(region.id) else {
                let why = match region.id {
                    MESSAGES => {
                        "it has a log of messages: libveloc-mpi.so has to be in this process \
                                 when VELOC_Init is called, and the name without regions of its own"
                            .to_owned()
                    }
                    id => format!("no memory is protected for its region {id}"),
                };
                return Err(Error::new(Kind::NotFound, about(why)));
            };
            let memory = match protected {
                Protected::Memory(memory) => memory,
                Protected::Object(object) => {
                    read_by(object)?;
                    continue;
                }
            };
            if memory.len < region.size {
                return Err(Error::invalid(about(format!(
                    "region {} has {} bytes, but only {} are protected",
                    region.id, region.size, memory.len
                ))));
            }
            self.look_at_size(|| about("restoring".to_owned()), region, memory);
            let place = self.place(region.id, memory, region.size);
            let place = place.map_err(|error| error.within(about("restoring".to_owned())))?;
            if place.part == Part::Host && !known(memory, region.size) {
                of_host.push((region.id, memory, region.size));
            }
            places.push(place);
        }
        check_writable(&of_host).map_err(|error| error.within(about("restoring".to_owned())))?;
        self.judge_lacking(restoring, selection)?;
        Ok(Prepared { places, objects, messages })
    }

    /// Warns of selected regions that are protected and that the checkpoint does not have.
    ///
    /// # Errors
    /// The checkpoint has none of the selected regions that are protected.
    fn judge_lacking(&self, restoring: &Restoring, selection: &Selection) -> Result<()> {
        let protected = || self.regions.of(&restoring.name).iter().map(|(id, _)| id);
        let has = |id: i32| restoring.regions.binary_search_by_key(&id, |r| r.id).is_ok();
        let lacking: Vec<String> = protected()
            .filter(|id| selection.has(*id) && !has(*id))
            .map(|id| id.to_string())
            .collect();
        if lacking.is_empty() {
            return Ok(());
        }
        let text = format!(
            "checkpoint \"{}\" version {} does not have the protected region{} {}",
            restoring.name,
            restoring.version,
            if lacking.len() == 1 { "" } else { "s" },
            lacking.join(", ")
        );
        if !protected().any(|id| selection.has(id) && has(id)) {
            return Err(Error::new(Kind::NotFound, text));
        }
        self.engine.files().warnings().once(format!("{text}: their memory stays as it is"));
        Ok(())
    }

    fn recover_prepared(&self, prepared: &Prepared) -> Result<()> {
        let restoring = self.restoring()?;
        let about = |text: String| {
            format!("checkpoint \"{}\" version {}: {text}", restoring.name, restoring.version)
        };
        self.engine.restores().recover(restoring, &prepared.places)?;
        self.allow_replacing(restoring);
        for (id, object, bytes) in &prepared.objects {
            let read = object.read(bytes);
            let hint = read.map_err(|error| error.within(about(format!("region {id}"))))?;
            if let Some(hint) = hint {
                self.engine.files().warnings().once(format!("region {id}: {hint}"));
            }
        }
        if let Some((log, bytes)) = &prepared.messages {
            self.recover_log(restoring, *log, bytes)
                .map_err(|error| error.within(about("restoring".to_owned())))?;
        }
        Ok(())
    }

    /// Who has restored what another job has left may replace it.
    fn allow_replacing(&self, restoring: &Restoring) {
        let (name, version) = (&restoring.name, restoring.version);
        if self.engine.restores().rank_of(restoring) != self.engine.files().places().rank()
            || !self.engine.checkpoints().has_taken(name, version)
        {
            self.engine.files().rights().allow_replacing(name);
        }
    }

    /// Restores the message log from a checkpoint.
    fn recover_log(&self, restoring: &Restoring, log: MessageLog, bytes: &[u8]) -> Result<()> {
        let chunks = restoring.regions.iter().filter(|region| is_chunk(region.id));
        for region in chunks.take(log.begin(bytes)?) {
            let place = log.place(region.id, region.size)?;
            self.engine.restores().recover(restoring, &[place])?;
        }
        log.read(bytes, self.regions.of(&restoring.name))
    }

    /// Closes the checkpoint that is open for recovery.
    pub fn restart_end(&mut self, success: bool) -> Result<()> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Restart { restoring } => {
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

/// A buffer of `len` zero bytes.
pub(super) fn zeros(len: u64) -> Result<Vec<u8>> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| Error::new(Kind::NoRoom, format!("there is no memory for {len} bytes")))?;
    bytes.resize(len, 0);
    Ok(bytes)
}
