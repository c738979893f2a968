//! Serializes the log and the open parts.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use message_abi::log::CHUNKS;

use super::bytes::{NumberWriter, Result};
use super::chunks;
use super::comms::CommunicatorNumbers;
use super::layout::GappedTypes;
use super::settled::SettledPosition;
use super::targets::{self, ProtectedRanges};
use crate::log::{
    available, CallOutcome, CallShape, ChunkBytes, Item, Links, LogEvent, PayloadChunk, Position,
};
use crate::parts::{Instance, OpenPart, Parts};
use crate::resend::closed::{ClosedMessages, Route};
use crate::resend::streams::MessageLink;
use crate::status::MOST;
use crate::target::CallTarget;

/// The head: the job's properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The lineage: a random number drawn by its first process.
    pub lineage: [u64; 2],
    /// MPI's binary interface.
    pub abi: u8,
    /// The size of a status in bytes.
    pub status: u32,
    /// This process's rank in `MPI_COMM_WORLD`.
    pub rank: i32,
    /// The number of processes.
    pub processes: i32,
    /// The state of messages that are sent again, if possible.
    pub resend: Option<SettledPosition>,
}

impl Head {
    fn write(&self, to: &mut NumberWriter) {
        for word in self.lineage {
            to.u64(word);
        }
        to.u8(self.abi);
        to.u32(self.status);
        to.i32(self.rank);
        to.i32(self.processes);
        to.option(self.resend, |to, settled| settled.write(to));
    }
}

/// The serialized log, and what cannot be restored in another process.
#[derive(Debug)]
pub struct PackedLog {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// A call that completed a request which began before the part and received into unprotected memory.
    pub lost: Option<&'static str>,
    /// Chunks that are stored beside the bytes.
    pub chunks: Vec<ChunkBytes>,
}

/// The least size of a chunk that is worth a region of its own.
const WORTH: usize = 64 << 10;

/// From this size on, the memory is checked before it is allocated.
const LARGE: usize = 256 << 20;

/// The output, and the state of packing.
struct Packing<'a, T> {
    to: NumberWriter,
    types: &'a T,
    /// Bytes of a status.
    status: usize,
    regions: ProtectedRanges<'a>,
    numbers: &'a CommunicatorNumbers,
    names: HashMap<&'static str, u32>,
    /// The numbers of the messages that instances receive again, by address.
    closed: HashMap<*const ClosedMessages, u32>,
    lost: Option<&'static str>,
    chunk_index: ChunkIndex,
}

/// The chunks that are stored beside the bytes, with their indices.
#[derive(Debug, Default)]
struct ChunkIndex {
    chunks: Vec<ChunkBytes>,
    places: HashMap<*const PayloadChunk, u32>,
}

/// Chunks are stored as they are if at least half of their used bytes are needed.
fn chunk_index(parts: &Parts) -> ChunkIndex {
    let mut ends: HashMap<*const PayloadChunk, (Rc<PayloadChunk>, usize)> = HashMap::new();
    let mut order = Vec::new();
    for event in &parts.log.events {
        for item in event.outcome.items.as_slice() {
            let Some((chunk, at)) = item.payload.home() else { continue };
            let end = at + item.payload.len();
            let known = ends.entry(Rc::as_ptr(chunk)).or_insert_with(|| {
                order.push(Rc::as_ptr(chunk));
                (Rc::clone(chunk), 0)
            });
            known.1 = known.1.max(end);
        }
    }
    let mut chunk_index = ChunkIndex::default();
    for key in order {
        let Some((chunk, end)) = ends.get(&key) else { continue };
        let source = chunk.source(*end);
        if source.live() >= WORTH
            && 2 * source.live() >= source.bytes().len()
            && chunk_index.chunks.len() < CHUNKS
        {
            chunk_index.places.insert(key, chunk_index.chunks.len() as u32);
            chunk_index.chunks.push(source);
        }
    }
    chunk_index
}

/// Packs everything.
///
/// # Errors
/// Out of memory, or something in the log cannot be identified in another process.
pub fn pack(
    head: &Head,
    parts: &Parts,
    numbers: &CommunicatorNumbers,
    types: &impl GappedTypes,
    regions: ProtectedRanges<'_>,
) -> Result<PackedLog> {
    let chunk_index = chunk_index(parts);
    let carried: usize = chunk_index.chunks.iter().map(ChunkBytes::live).sum();
    let inside = (parts.log.figures.bytes as usize).saturating_sub(carried);
    let expected = inside + 192 * parts.log.len() + (64 << 10);
    // The system overcommits memory.
    let available = if expected > LARGE { available() } else { None };
    if let Some(available) = available.filter(|available| *available < expected) {
        return Err(format!(
            "there is no memory for a log of {expected} bytes: {available} are available"
        ));
    }
    let to = NumberWriter::new(expected)
        .ok_or_else(|| format!("there is no memory for a log of {expected} bytes"))?;
    let (names, closed, status) = (HashMap::new(), HashMap::new(), head.status as usize);
    let mut packing =
        Packing { to, types, status, regions, numbers, names, closed, lost: None, chunk_index };
    head.write(&mut packing.to);
    chunks::write(&packing.chunk_index.chunks, &mut packing.to);
    numbers.write(&mut packing.to);
    packing.parts(parts)?;
    Ok(PackedLog {
        bytes: packing.to.seal(),
        lost: packing.lost,
        chunks: packing.chunk_index.chunks,
    })
}

impl<T: GappedTypes> Packing<'_, T> {
    fn parts(&mut self, parts: &Parts) -> Result<()> {
        let to = &mut self.to;
        to.u64(parts.instances.now);
        to.u64(parts.begun);
        to.u64(parts.log.next);
        to.u64(parts.log.figures.peak);
        let instances = parts.instances.all.iter().map(|instance| &instance.closed);
        let replaced = parts.replaced.iter().map(|(_, _, closed)| closed);
        let all: Vec<Rc<ClosedMessages>> = instances.chain(replaced).flatten().cloned().collect();
        self.closed(&all);
        self.to.len(parts.log.events.len());
        let mut begins: Vec<_> = parts
            .instances
            .all
            .iter()
            .map(|instance| (instance.begin.event, instance.begun))
            .collect();
        begins.sort_unstable();
        let mut begins = begins.into_iter().peekable();
        // The number of operations begun before every part that may contain the event.
        let mut before = 0;
        for event in &parts.log.events {
            while let Some((_, begun)) = begins.next_if(|(begin, _)| *begin <= event.number) {
                before = before.max(begun);
            }
            self.event(event, before)?;
        }
        self.to.len(parts.instances.all.len());
        for instance in &parts.instances.all {
            self.instance(instance);
        }
        self.to.list(&parts.open.0, |to, open| match open {
            OpenPart::Record(number) => {
                to.u8(0);
                to.u64(*number);
            }
            OpenPart::Replay(replay) => {
                to.u8(1);
                to.u64(replay.instance);
                position(to, replay.cursor);
                to.u64(replay.begun);
                to.flag(replay.is_step);
                to.u64(replay.since);
                to.option(replay.passed, |to, (at, number)| {
                    position(to, at);
                    to.u64(number);
                });
            }
        });
        self.to.len(parts.replaced.len());
        for (id, at, closed) in &parts.replaced {
            self.to.i32(*id);
            position(&mut self.to, *at);
            self.closed_of(closed.as_ref());
        }
        Ok(())
    }

    fn closed(&mut self, all: &[Rc<ClosedMessages>]) {
        let mut different = Vec::new();
        for closed in all {
            let next = self.closed.len() as u32;
            self.closed.entry(Rc::as_ptr(closed)).or_insert_with(|| {
                different.push(Rc::clone(closed));
                next
            });
        }
        self.to.list(&different, |to, closed| {
            to.u64(closed.number);
            for table in [&closed.sent, &closed.received] {
                let mut rows: Vec<_> = table.iter().collect();
                rows.sort_unstable_by_key(|(stream, _)| **stream);
                to.list(&rows, |to, (stream, (numbers, route))| {
                    row(to, **stream, numbers, *route);
                });
            }
        });
    }

    fn closed_of(&mut self, closed: Option<&Rc<ClosedMessages>>) {
        let number = closed.and_then(|closed| self.closed.get(&Rc::as_ptr(closed)).copied());
        self.to.option(number, NumberWriter::u32);
    }

    fn event(&mut self, event: &LogEvent, before: u64) -> Result<()> {
        self.to.u64(event.number);
        self.to.u32(event.owners);
        self.to.u32(event.repeats);
        self.shape(&event.shape)?;
        let CallOutcome { code, number, index, handle, began, links, items } = &event.outcome;
        for number in [*code, *number, *index] {
            self.to.i32(number);
        }
        let given = self.numbers.given(event.shape.call.0, *handle);
        self.to.u32(given.map_err(|why| about(&event.shape, &why))?);
        self.to.u64(*began);
        match links {
            Links::None => self.to.u8(0),
            Links::One(link) => {
                self.to.u8(1);
                self.link(Some(*link));
            }
            Links::Many(links) => {
                self.to.u8(2);
                self.to.len(links.len());
                links.iter().for_each(|link| self.link(*link));
            }
        }
        self.to.len(items.as_slice().len());
        for item in items.as_slice() {
            self.item(item, &event.shape, before)?;
        }
        Ok(())
    }

    fn shape(&mut self, shape: &CallShape) -> Result<()> {
        let CallShape { call, comm, peer, tag, count, size, sum } = *shape;
        let next = self.names.len() as u32;
        let name = *self.names.entry(call.0).or_insert(next);
        self.to.u32(name);
        if name == next {
            self.to.bytes(call.0.as_bytes());
        }
        self.to.u32(self.numbers.comm(comm).map_err(|why| about(shape, &why))?);
        self.to.option(peer, NumberWriter::i32);
        self.to.option(tag, NumberWriter::i32);
        self.to.i64(count);
        self.to.i64(size);
        self.to.u64(sum);
        Ok(())
    }

    fn item(&mut self, item: &Item, shape: &CallShape, before: u64) -> Result<()> {
        self.to.i32(item.index);
        self.to.u64(item.began);
        self.to.flag(item.persistent);
        self.to.raw(&item.status.bytes()[..self.status.min(MOST)]);
        // A replay uses its own target, unless the request began before the part.
        let needed =
            is_completion(shape.call.0) && item.began <= before && !item.payload.is_empty();
        let target = if needed { &item.target } else { &CallTarget::Nothing };
        if !targets::write(&mut self.to, target, self.types, self.regions) {
            self.lost = Some(shape.call.0);
        }
        let to = &mut self.to;
        let home = item.payload.home();
        let home = home.and_then(|(chunk, at)| {
            Some((*self.chunk_index.places.get(&Rc::as_ptr(chunk))?, at as u64))
        });
        to.flag(home.is_some());
        match home {
            Some((nth, at)) => {
                to.u32(nth);
                to.u64(at);
                to.u64(item.payload.len() as u64);
            }
            None => to.bytes(item.payload.bytes()),
        }
        self.link(item.link);
        self.to.u32(item.given_up);
        self.to.flag(item.is_kept);
        Ok(())
    }

    fn link(&mut self, link: Option<MessageLink>) {
        self.to.option(link, |to, link| {
            to.u32(link.stream);
            to.u64(link.number);
        });
    }

    fn instance(&mut self, instance: &Instance) {
        let to = &mut self.to;
        to.i32(instance.id);
        to.i32(instance.flags);
        to.u64(instance.number);
        to.u64(instance.since);
        position(to, instance.begin);
        to.u64(instance.begun);
        to.option(instance.end, position);
        to.list(&instance.around, |to, number| to.u64(*number));
        to.option(instance.broken.as_deref(), |to, why| to.bytes(why.as_bytes()));
        to.flag(instance.end.is_none() && instance.mark.is_some());
        self.closed_of(instance.closed.as_ref());
    }
}

/// Whether a call completes requests.
fn is_completion(call: &str) -> bool {
    let waits = call.starts_with("MPI_Wait") || call.starts_with("MPI_Test");
    waits || call == "MPI_Request_get_status"
}

fn about(shape: &CallShape, why: &str) -> String {
    format!("{}: {why}", shape.call.0)
}

fn position(to: &mut NumberWriter, at: Position) {
    to.u64(at.event);
    to.u32(at.nth);
}

fn row(to: &mut NumberWriter, stream: u32, numbers: &Range<u64>, route: Route) {
    to.u32(stream);
    to.u64(numbers.start);
    to.u64(numbers.end);
    to.i32(route.peer);
    to.i32(route.tag);
}
