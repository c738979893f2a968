//! The log in checkpoints: an object that the checkpoint library, if present, writes with every
//! checkpoint and reads at a restart ([`VELOC_Part_log`]).
//!
//! | file | owns |
//! | --- | --- |
//! | `object` | the functions for the checkpoint library |
//! | [`bytes`] | serialized numbers with a digest |
//! | [`chunks`] | chunks of the log as regions of their own |
//! | [`comms`] | communicators by the order of their creation |
//! | [`layout`] | types by their layout |
//! | [`targets`] | addresses by protected regions |
//! | [`settled`] | the state of messages that are sent again |
//! | [`pack`], [`unpack`] | the log and the open parts, serialized |
//!
//! A program may restore checkpoints all the time, as snapshots of its adjoint, and its log must not be
//! rolled back. So a checkpoint's log is only read by a process without a log: logs written by this
//! process, or by one that it continues (its *lineage*), are ignored.

mod bytes;
pub(crate) mod chunks;
mod comms;
mod layout;
mod object;
mod pack;
pub(crate) mod settled;
mod targets;
#[cfg(test)]
pub(crate) mod tests;
mod unpack;

use crate::device;
use crate::interposition;
use crate::log::{Position, Source};
use crate::mpi::Mpi;
use crate::parts::{Instance, Open, Parts};
use crate::pmpi;
use crate::refuse;
use crate::requests::{Life, Request};
use crate::state::State;
use bytes::{Reader, Result};
use chunks::Incoming;
use comms::{Communicators, Handles, Numbers, Predefined};
use pack::{Head, Packed};
use settled::Settled;
use targets::Regions;
use unpack::Unpacked;

/// The state for continuing in another process.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// The communicators of the application.
    pub comms: Communicators,
    /// The lineage: which processes continue each other's parts.
    lineage: Option<[u64; 2]>,
    /// The progress of the parts when they were read.
    read: Option<Progress>,
    /// Chunks of a log that is being read.
    incoming: Option<Incoming>,
    is_loss_said: bool,
}

/// The log as regions of a checkpoint.
#[derive(Debug)]
struct Packaged {
    bytes: Vec<u8>,
    chunks: Vec<Source>,
}

/// The progress of the parts.
#[derive(Debug, PartialEq, Eq)]
struct Progress {
    numbers: u64,
    begun: u64,
    next: u64,
    live: usize,
    cursors: Vec<Option<Position>>,
}

impl Progress {
    fn of(parts: &Parts) -> Progress {
        let cursor = |open: &Open| match open {
            Open::Record(_) => None,
            Open::Replay(replay) => Some(replay.cursor),
        };
        Progress {
            numbers: parts.numbers,
            begun: parts.begun,
            next: parts.next_event(),
            live: parts.live(),
            cursors: parts.open.iter().map(cursor).collect(),
        }
    }
}

impl State {
    /// The log as regions. `None`: no part was ever begun.
    fn write_log(&mut self, regions: Regions<'_>) -> Result<Option<Packaged>> {
        if self.store.lineage.is_none() && self.parts.now() == 0 {
            return Ok(None);
        }
        if let Some(text) = self.under_way() {
            return Err(text);
        }
        if let Some(resend) = &mut self.resend {
            resend.take_verdicts(&self.mpi, &mut self.parts, false);
        }
        let lineage = *self.store.lineage.get_or_insert_with(draw);
        let resend = self.resend.as_ref().map(|resend| Settled::of(resend, &self.parts));
        let head = Head { lineage, resend, ..here(&self.mpi) };
        let numbers = Numbers::new(Predefined::of(&self.mpi), &self.store.comms);
        let Packed { bytes, lost, chunks } =
            pack::pack(&head, &self.parts, &numbers, &self.mpi, regions)?;
        if let Some(call) = lost.filter(|_| !self.store.is_loss_said) {
            self.store.is_loss_said = true;
            refuse::warn(
                &self.mpi,
                &format!(
                    "{call} in a logged part has received into memory that is not protected, by a \
                     request begun before the part: a process that goes on from this checkpoint \
                     cannot replay it"
                ),
            );
        }
        Ok(Some(Packaged { bytes, chunks }))
    }

    /// Describes an incomplete request that began inside an open part.
    fn under_way(&mut self) -> Option<String> {
        let parts = &self.parts;
        let find = |number| parts.instances.iter().find(|instance| instance.number == number);
        let outermost = find(parts.open.first()?.number())?;
        let is_real = parts.open.iter().all(|open| matches!(open, Open::Record(_)));
        let pending = |request: &Request| {
            let inside = request.began > outermost.begun;
            match request.life {
                Life::Replayed(_) => true,
                Life::Real if request.general.is_some() => inside,
                Life::Real if request.persistent => request.active && inside,
                Life::Real => is_real && inside,
                Life::Idle | Life::Foreign => false,
            }
        };
        let (id, begun) = (outermost.id, outermost.begun);
        if self.messages.is_any_since(begun) {
            return Some(format!(
                "a message that was probed for inside part {id} (MPI_Mprobe) is not received: another \
                 process could not receive it"
            ));
        }
        let (_, request) = self.requests.iter_mut().find(|(_, request)| pending(request))?;
        Some(format!(
            "a request of {} is not completed that was begun inside part {}: another process could \
             not complete it",
            request.shape.call.0, id
        ))
    }

    /// The head of a log, if this process needs it because it has none.
    fn wants(&self, from: &mut Reader<'_>) -> Result<Option<Head>> {
        let damaged = |why| format!("the log of messages is damaged: {why}");
        let head = Head::read(from).map_err(damaged)?;
        // Nothing has happened since, and the restart was not reported to others.
        let is_reported = self.resend.as_ref().is_some_and(|resend| resend.verdicts.is_reported());
        let as_read = self.store.read.as_ref() == Some(&Progress::of(&self.parts)) && !is_reported;
        if self.store.lineage == Some(head.lineage) && !as_read {
            return Ok(None);
        }
        if self.parts.now() > 0 && !as_read {
            return Err("the checkpoint has a log of messages of other processes, and parts were \
                        begun in this one: a program restarts before it begins its first part"
                .into());
        }
        self.check_head(&head)?;
        Ok(Some(head))
    }

    /// Starts to read a checkpoint's log. Returns how many of its chunks are wanted, all or none.
    fn begin_reading(&mut self, sealed: &[u8]) -> Result<usize> {
        self.store.incoming = None;
        let mut from = Reader::open(sealed)?;
        if self.wants(&mut from)?.is_none() {
            return Ok(0);
        }
        let incoming = Incoming::expected(&mut from, self.arena.another())?;
        let count = incoming.count();
        self.store.incoming = Some(incoming);
        Ok(count)
    }

    /// Reads a checkpoint's log, if this process has none and the chunks are there.
    fn read_log(&mut self, sealed: &[u8], regions: Regions<'_>) -> Result<()> {
        let incoming = self.store.incoming.take();
        let mut from = Reader::open(sealed)?;
        let Some(head) = self.wants(&mut from)? else { return Ok(()) };
        // Open parts continue here, so the checks of a part's beginning apply.
        interposition::check()?;
        device::get_or_find()?;
        let incoming = incoming.ok_or("the chunks of the log of messages are missing")?;
        let chunks = incoming.complete(&mut from)?;
        let predefined = Predefined::of(&self.mpi);
        let handles = Handles::read(&mut from, predefined, &self.store.comms)?;
        let unpacked = unpack::unpack(from, &handles, &self.mpi, regions, chunks)?;
        self.continue_parts(&head, unpacked)
    }

    fn check_head(&self, head: &Head) -> Result<()> {
        let here = here(&self.mpi);
        if (head.abi, head.status) != (here.abi, here.status) {
            return Err(
                "the log of messages was written by processes with another MPI library".into()
            );
        }
        if (head.rank, head.processes) != (here.rank, here.processes) {
            return Err(format!(
                "the log of messages is that of process {} of {}, and this is process {} of {}",
                head.rank, head.processes, here.rank, here.processes
            ));
        }
        Ok(())
    }

    /// Continues the parts of the process that wrote the log. Changes nothing on failure.
    fn continue_parts(&mut self, head: &Head, unpacked: Unpacked) -> Result<()> {
        let Unpacked { mut parts, arena, marked } = unpacked;
        let is_closed = parts.instances.iter().any(|instance| instance.closed.is_some());
        let Some(resend) = &mut self.resend else {
            if is_closed || !marked.is_empty() {
                return Err("some messages of the log are to be sent again, which this process \
                            cannot do: VELOC_MPI_STREAMS is 0, or the library was not there in \
                            MPI_Init"
                    .into());
            }
            self.take(head, parts, arena);
            return Ok(());
        };
        if is_closed && head.resend.is_none() {
            return Err(
                "the log of messages is damaged: it does not say which of those that are sent \
                        again are kept"
                    .into(),
            );
        }
        // Parts that an earlier attempt has opened are not open any more.
        for _ in self.parts.instances.iter().filter(|instance| is_marked(instance)) {
            resend.streams.forget();
        }
        for instance in parts.instances.iter_mut() {
            if marked.contains(&instance.number) {
                instance.mark = Some(resend.streams.reopen());
            }
        }
        if let Some(settled) = head.resend {
            settled.resume(resend, &mut parts);
        }
        self.take(head, parts, arena);
        Ok(())
    }

    fn take(&mut self, head: &Head, parts: Parts, arena: crate::log::Arena) {
        (self.parts, self.arena) = (parts, arena);
        self.store.lineage = Some(head.lineage);
        self.store.read = Some(Progress::of(&self.parts));
    }
}

fn is_marked(instance: &Instance) -> bool {
    instance.end.is_none() && instance.mark.is_some()
}

/// The head for this process.
fn here(mpi: &Mpi) -> Head {
    let mut processes = 0;
    // SAFETY: an integer of ours, and a communicator that always exists.
    unsafe { pmpi::comm_size(mpi.comm_world, &mut processes) };
    let (status, rank) = (mpi.status.size as u32, mpi.rank);
    Head { lineage: [0; 2], abi: mpi.abi as u8, status, rank, processes, resend: None }
}

/// A random number that identifies the job.
pub(crate) fn draw() -> [u64; 2] {
    let mut drawn = [0u64; 2];
    let len = size_of_val(&drawn);
    // SAFETY: room for this many bytes.
    let got = unsafe { libc::getrandom(drawn.as_mut_ptr().cast(), len, 0) };
    if usize::try_from(got) != Ok(len) {
        // Without random numbers in the system, the time and the process id are used.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_nanos() as u64);
        return [now, u64::from(std::process::id())];
    }
    drawn
}
