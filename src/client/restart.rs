//! The restart side of the protocol: begin, recover, end.

use std::sync::Arc;

use super::callbacks::Object;
use super::messages::{is_chunk, MessageLog};
use super::regions::{check_writable, Memory, Protected};
use super::{agree, check_name, Client, Phase, Selection};
use crate::catalog::entry::{Part, Region, MESSAGES};
use crate::engine::place::Place;
use crate::engine::restore::Restoring;
use crate::error::{Error, Kind, Result};
use crate::trace::Activity;

/// How a checkpoint was opened for recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Opened {
    /// It was not.
    Not = 0,
    /// By its header alone: it is compared with its checksum when it is read.
    Unread = 1,
    /// It is known to be good, as far as that can be known.
    Compared = 2,
}

impl Client {
    /// The rank to look for, if it is another one than this process's.
    pub(super) fn other(&self, rank: Option<u32>) -> Option<u32> {
        rank.filter(|&rank| rank != self.engine.files.rank())
    }

    /// Restores a whole checkpoint (`VELOC_Restart`); of another rank, if `of` says so. One of an earlier
    /// job is compared with its checksum while it is read, so that it is read once.
    pub fn restart(&mut self, name: &str, version: i32, of: Option<u32>) -> Result<()> {
        let trace = self.engine.trace.clone();
        let _span = trace.span(Activity::Restore).of(name, version);
        let (own, least) = self.open_restart(name, version, of, true)?;
        let recovered = self.recover_selected(&Selection::All);
        if least == Opened::Compared {
            let ended = self.restart_end(recovered.is_ok());
            return recovered.and(ended);
        }
        // Processes restore it all or none, and a file is good only when it was read.
        let all = self.all_agree(recovered.is_ok());
        let ended = self.restart_end(recovered.is_ok() && matches!(all, Ok(true)));
        if !all? {
            if self.comm.is_none() {
                return recovered.and(ended);
            }
            // Somebody's file may be one that can be rebuilt: that is for who looks before he reads.
            ended?;
            self.restart_begin(name, version, of)?;
            let recovered = self.recover_selected(&Selection::All);
            let ended = self.restart_end(recovered.is_ok());
            return recovered.and(ended);
        }
        if own == Opened::Unread {
            // From here on it is known, and known to be good.
            let part_of = |id| self.regions.of(name).part(id);
            if let Ok(known) = self.engine.begin_restore(name, version, part_of) {
                self.engine.end_restore(known, true);
            }
        }
        ended
    }

    /// Opens a checkpoint for recovery; a restart that is open has ended. Collective under MPI: opened
    /// on every process or on none, whichever rank's each of them wants.
    pub fn restart_begin(&mut self, name: &str, version: i32, of: Option<u32>) -> Result<()> {
        self.open_restart(name, version, of, false).map(drop)
    }

    /// The same. With `unread`, a file of an earlier job need not be read before to compare it with its
    /// checksum. How it was opened here, and how on the process that knows least.
    fn open_restart(
        &mut self,
        name: &str,
        version: i32,
        of: Option<u32>,
        unread: bool,
    ) -> Result<(Opened, Opened)> {
        let other = self.other(of);
        self.end_open_restart();
        // It restores into the memory of a computation under way, which does so by itself.
        let not_held = || self.check_not_held(name, &format!("version {version} of"));
        let proper = check_name(name, version).and_then(|()| self.must_be_idle());
        let proper = proper.and_then(|()| not_held());
        let part_of = |id| self.regions.of(name).part(id);
        let begin = || {
            if let Some(rank) = other {
                let begun = self.engine.begin_restore_of(rank, name, version, part_of);
                return begun.map(|restoring| (restoring, Opened::Compared));
            }
            let begun = if unread {
                self.engine.begin_restore_unproven(name, version, part_of)
            } else {
                None
            };
            match begun {
                Some(restoring) => Ok((restoring, Opened::Unread)),
                None => {
                    let begun = self.engine.begin_restore(name, version, part_of);
                    begun.map(|restoring| (restoring, Opened::Compared))
                }
            }
        };
        let mut begun = proper.clone().and_then(|()| begin());
        let mut least = self.least(&begun);
        let mut why = None;
        // Each process rebuilds its own file, and none that of another.
        let own = proper.is_ok() && other.is_none();
        let made = match &least {
            Ok(least) => self.make_good(name, version, own, *least, begun.is_ok()),
            Err(_) => Ok(None),
        };
        match made {
            Ok(None) => {}
            Ok(Some(made)) => {
                why = made.err();
                if why.is_none() {
                    // What was opened before may have been an old file.
                    if let Ok((restoring, _)) = begun {
                        self.engine.end_restore(restoring, false);
                    }
                    begun = begin();
                }
                least = self.least(&begun);
            }
            Err(error) => least = Err(error),
        }
        match (begun, least) {
            (Ok((restoring, opened)), Ok(least)) if least > Opened::Not && why.is_none() => {
                self.phase = Phase::Restart { restoring };
                if other.is_none() {
                    self.engine.asks_for(name, version, true);
                }
                Ok((opened, least))
            }
            (Ok((restoring, _)), other) => {
                self.engine.end_restore(restoring, false);
                other?;
                let what = format!("another process cannot restore \"{name}\" version {version}");
                Err(match why {
                    Some(why) => why.within(format!("\"{name}\" version {version}")),
                    None => Error::new(Kind::NotFound, what),
                })
            }
            (Err(error), _) => Err(match why {
                Some(why) => error.followed_by(format!("it cannot be rebuilt: {why}")),
                None => error,
            }),
        }
    }

    /// Has the files of a version rebuilt that are missing on a process, or that others know as other
    /// ones, before it is restored: `least` is how it was opened where least is known of it. `None`:
    /// there are none, or the processes do not all want their `own`. Collective.
    ///
    /// # Errors
    /// MPI's. Inside, why they cannot be rebuilt: on all processes.
    fn make_good(
        &self,
        name: &str,
        version: i32,
        own: bool,
        least: Opened,
        restorable: bool,
    ) -> Result<Option<Result<()>>> {
        let Some(comm) = self.comm.as_ref().filter(|_| self.can_rebuild()) else {
            return Ok(None);
        };
        if !agree(comm, own)? {
            return Ok(None);
        }
        // Of what this job itself has taken, parities may still be on their way.
        let taken = self.engine.catalog.look(|state| state.has_taken(name, version));
        let good = least > Opened::Not
            && (agree(comm, taken)? || self.parities_are_alike(comm, name, version)?);
        if good {
            return Ok(None);
        }
        Ok(Some(self.rebuild(name, version, restorable)?.map_or(Ok(()), Err)))
    }

    /// How the process that knows least has opened a checkpoint. Collective.
    fn least(&self, begun: &Result<(Restoring, Opened)>) -> Result<Opened> {
        let own = begun.as_ref().map_or(Opened::Not, |(_, opened)| *opened);
        let Some(comm) = &self.comm else { return Ok(own) };
        Ok(match comm.allreduce_min_i64(own as i64)? {
            0 => Opened::Not,
            1 => Opened::Unread,
            _ => Opened::Compared,
        })
    }

    /// Bytes of a region in the checkpoint that is open for recovery.
    pub fn recover_size(&self, id: i32) -> Result<u64> {
        let Phase::Restart { restoring } = &self.phase else {
            return Err(Error::invalid("there is no open restart (VELOC_Restart_begin)"));
        };
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
        let id = self.engine.find(name, version, |id| self.regions.of(name).part(id))?;
        let regions = self.engine.catalog.look(|state| state.regions(id));
        regions
            .iter()
            .flat_map(|regions| regions.iter())
            .find(|found| found.id == region)
            .map(|found| found.size)
            .ok_or_else(|| {
                Error::new(
                    Kind::NotFound,
                    format!("checkpoint \"{name}\" version {version} has no region {region}"),
                )
            })
    }

    /// Copies regions back to the protected memory. Everything is checked before the first byte is
    /// overwritten: each selected region of the checkpoint has memory that is large enough.
    pub fn recover(&mut self, selection: &Selection) -> Result<()> {
        let trace = self.engine.trace.clone();
        let _span = self.span(&trace, Activity::Restore);
        self.recover_selected(selection)
    }

    fn recover_selected(&mut self, selection: &Selection) -> Result<()> {
        self.recover_checked(selection, |_, _| false)
    }

    /// Copies regions back. Memory that is `known` to be writable for so many bytes is not looked at.
    pub(super) fn recover_checked(
        &mut self,
        selection: &Selection,
        known: impl Fn(&Memory, u64) -> bool,
    ) -> Result<()> {
        let Phase::Restart { restoring } = &self.phase else {
            return Err(Error::invalid("there is no open restart (VELOC_Restart_begin)"));
        };
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
        // The bytes of objects, which the application reads when all of them are there.
        let mut objects: Vec<(i32, Arc<dyn Object>, Vec<u8>)> = Vec::new();
        // The same of the log of messages. That of another rank says nothing to this one.
        let mut messages: Option<(MessageLog, Vec<u8>)> = None;
        let is_own = restoring.files(&self.engine).rank() == self.engine.files.rank();
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
            let place = self.place(region.id, memory, region.size);
            let place = place.map_err(|error| error.within(about("restoring".to_owned())))?;
            if place.part() == Part::Host && !known(memory, region.size) {
                of_host.push((region.id, memory, region.size));
            }
            places.push(place);
        }
        check_writable(&of_host).map_err(|error| error.within(about("restoring".to_owned())))?;
        self.engine.recover(restoring, &places)?;
        for (id, object, bytes) in &objects {
            object.read(bytes).map_err(|error| error.within(about(format!("region {id}"))))?;
        }
        if let Some((log, bytes)) = &messages {
            self.recover_log(restoring, *log, bytes)
                .map_err(|error| error.within(about("restoring".to_owned())))?;
        }
        Ok(())
    }

    /// Has the log of messages go on from a checkpoint. Its chunks are read one after the other, as it
    /// may have no memory for all of them.
    fn recover_log(&self, restoring: &Restoring, log: MessageLog, bytes: &[u8]) -> Result<()> {
        let chunks = restoring.regions.iter().filter(|region| is_chunk(region.id));
        for region in chunks.take(log.begin(bytes)?) {
            let place = log.place(region.id, region.size)?;
            self.engine.recover(restoring, &[place])?;
        }
        log.read(bytes, self.regions.of(&restoring.name))
    }

    /// Closes the checkpoint that is open for recovery.
    pub fn restart_end(&mut self, success: bool) -> Result<()> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Restart { restoring } => {
                self.engine.end_restore(restoring, success);
                Ok(())
            }
            other => {
                self.phase = other;
                Err(Error::invalid("there is no open restart (VELOC_Restart_begin)"))
            }
        }
    }
}

/// Memory for the bytes of an object.
pub(super) fn zeros(len: u64) -> Result<Vec<u8>> {
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    bytes
        .try_reserve_exact(len)
        .map_err(|_| Error::new(Kind::NoRoom, format!("there is no memory for {len} bytes")))?;
    bytes.resize(len, 0);
    Ok(bytes)
}
