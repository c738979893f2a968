//! Reads a serialized log with its open parts. The result is as written, or an error; nothing is used before
//! everything was checked.

use std::collections::VecDeque;
use std::rc::Rc;

use super::bytes::{NumberReader, Result};
use super::chunks::LogChunks;
use super::comms::CommunicatorHandles;
use super::layout::GappedTypes;
use super::pack::Head;
use super::settled::SettledPosition;
use super::targets::{self, ProtectedRanges};
use crate::log::{
    Arena, Call, CallOutcome, CallShape, Figures, Item, Items, Links, Log, LogEvent, Payload,
    Position,
};
use crate::parts::{Instance, OpenPart, Parts, Replay, KEEP, RESEND};
use crate::resend::closed::{ClosedMessages, Route};
use crate::resend::judge::PartJudge;
use crate::resend::streams::{MessageLink, Streams};
use crate::status::StatusBytes;

/// Larger counts are invalid, so that incrementing a count cannot overflow.
const MOST: u64 = 1 << 62;

/// The longest name of a function.
const NAME: usize = 64;

/// The log, in its own memory.
#[derive(Debug)]
pub struct Unpacked {
    /// The parts and their log.
    pub parts: Parts,
    /// The memory of the log.
    pub arena: Arena,
    /// The open parts whose messages might be sent again, outermost first.
    pub marked: Vec<u64>,
}

impl Unpacked {
    /// The parts in a process that has `own` parts from an earlier attempt, and the memory of their log.
    /// `settled` is the head's. Changes nothing on failure. `again` is what decides which messages are sent
    /// again, if this process can do that.
    ///
    /// # Errors
    /// Some messages are to be sent again, and this process cannot do that; or the log is damaged.
    pub fn continued(
        self,
        own: &Parts,
        settled: Option<SettledPosition>,
        again: Option<(&mut Streams, &mut PartJudge)>,
    ) -> Result<(Parts, Arena)> {
        let Unpacked { mut parts, arena, marked } = self;
        let is_closed = parts.instances.all.iter().any(|instance| instance.closed.is_some());
        let Some((streams, judge)) = again else {
            if is_closed || !marked.is_empty() {
                return Err("some messages of the log are to be sent again, which this process \
                            cannot do: VELOC_MPI_STREAMS is 0, or the library was not there in \
                            MPI_Init"
                    .into());
            }
            return Ok((parts, arena));
        };
        if is_closed && settled.is_none() {
            return Err(
                "the log of messages is damaged: it does not say which of those that are sent \
                        again are kept"
                    .into(),
            );
        }
        // Parts that an earlier attempt has opened are not open any more.
        let is_marked = |one: &&Instance| one.end.is_none() && one.mark.is_some();
        for _ in own.instances.all.iter().filter(is_marked) {
            streams.forget();
        }
        for instance in parts.instances.all.iter_mut() {
            if marked.contains(&instance.number) {
                instance.mark = Some(streams.reopen());
            }
        }
        if let Some(settled) = settled {
            settled.resume(judge, &mut parts);
        }
        Ok((parts, arena))
    }
}

impl Head {
    /// Reads the head, which comes first.
    ///
    /// # Errors
    /// It is invalid.
    pub fn read(from: &mut NumberReader<'_>) -> Result<Head> {
        Ok(Head {
            lineage: [from.u64()?, from.u64()?],
            abi: from.u8()?,
            status: from.u32()?,
            rank: from.i32()?,
            processes: from.i32()?,
            resend: from.option(SettledPosition::read)?,
        })
    }
}

/// The input, and the state of unpacking.
struct Unpacking<'a, 'b, T> {
    from: &'b mut NumberReader<'a>,
    types: &'b T,
    /// Bytes of a status.
    status: usize,
    regions: ProtectedRanges<'b>,
    handles: &'b CommunicatorHandles,
    chunks: LogChunks,
    names: Vec<Call>,
    closed: Vec<Rc<ClosedMessages>>,
    marked: Vec<u64>,
}

/// Unpacks everything after the communicators, into the arena of these chunks.
///
/// # Errors
/// It is invalid, a communicator is missing, or out of memory.
pub fn unpack(
    mut from: NumberReader<'_>,
    head: &Head,
    handles: &CommunicatorHandles,
    types: &impl GappedTypes,
    regions: ProtectedRanges<'_>,
    chunks: LogChunks,
) -> Result<Unpacked> {
    let (names, closed, marked) = (Vec::new(), Vec::new(), Vec::new());
    let (from_bytes, status) = (&mut from, head.status as usize);
    let mut unpacking = Unpacking {
        from: from_bytes,
        types,
        status,
        regions,
        handles,
        chunks,
        names,
        closed,
        marked,
    };
    let parts = unpacking.parts()?;
    let Unpacking { chunks, marked, .. } = unpacking;
    from.close()?;
    check(&parts)?;
    Ok(Unpacked { parts, arena: chunks.arena, marked })
}

/// A count that can be incremented.
pub(super) fn count(from: &mut NumberReader<'_>) -> Result<u64> {
    let count = from.u64()?;
    let is_one = count < MOST;
    is_one.then_some(count).ok_or_else(|| "a count that is too large".to_owned())
}

impl<T: GappedTypes> Unpacking<'_, '_, T> {
    fn count(&mut self) -> Result<u64> {
        count(self.from)
    }

    fn parts(&mut self) -> Result<Parts> {
        let (numbers, begun) = (self.count()?, self.count()?);
        let (next, peak) = (self.count()?, self.count()?);
        self.closed = self.from.list(24, closed)?.into_iter().map(Rc::new).collect();
        let events: VecDeque<LogEvent> = self.list(40, Self::event)?.into();
        let bytes = events.iter().map(|event| event.outcome.bytes()).sum();
        let log = Log { events, next, figures: Figures { bytes, peak: peak.max(bytes) } };
        let instances = self.list(60, Self::instance)?;
        let open = self.list(9, Self::open)?;
        let replaced =
            self.list(17, |own| Ok((own.from.i32()?, own.position()?, own.closed()?)))?;
        Ok(Parts::continued(log, instances, open, replaced, (numbers, begun)))
    }

    fn list<E>(
        &mut self,
        least: usize,
        mut read: impl FnMut(&mut Self) -> Result<E>,
    ) -> Result<Vec<E>> {
        let len = self.from.len(least)?;
        (0..len).map(|_| read(self)).collect()
    }

    fn position(&mut self) -> Result<Position> {
        Ok(Position { event: self.count()?, nth: self.from.u32()? })
    }

    fn closed(&mut self) -> Result<Option<Rc<ClosedMessages>>> {
        let Some(number) = self.from.option(NumberReader::u32)? else { return Ok(None) };
        let closed = self.closed.get(number as usize).cloned();
        closed.map(Some).ok_or_else(|| format!("closed messages {number} of {}", self.closed.len()))
    }

    fn event(&mut self) -> Result<LogEvent> {
        let (number, owners, repeats) = (self.count()?, self.from.u32()?, self.from.u32()?);
        let shape = self.shape()?;
        let outcome = self.outcome()?;
        Ok(LogEvent { shape, outcome, number, owners, repeats })
    }

    fn shape(&mut self) -> Result<CallShape> {
        let name = self.from.u32()? as usize;
        if name == self.names.len() {
            let call = call(self.from.bytes()?)?;
            self.names.push(call);
        }
        let call = self.names.get(name).copied();
        let call = call.ok_or_else(|| format!("call {name} of {}", self.names.len()))?;
        Ok(CallShape {
            call,
            comm: self.handle()?,
            peer: self.from.option(NumberReader::i32)?,
            tag: self.from.option(NumberReader::i32)?,
            count: self.from.i64()?,
            size: self.from.i64()?,
            sum: self.from.u64()?,
        })
    }

    fn handle(&mut self) -> Result<usize> {
        self.handles.get(self.from.u32()?)
    }

    fn outcome(&mut self) -> Result<CallOutcome> {
        let [code, number, index] = [self.from.i32()?, self.from.i32()?, self.from.i32()?];
        let (handle, began) = (self.handle()?, self.count()?);
        let links = self.links()?;
        let mut items = self.list(35, Self::item)?;
        let items = match (items.pop(), items.is_empty()) {
            (None, _) => Items::None,
            (Some(one), true) => Items::One(one),
            (Some(last), false) => {
                items.push(last);
                Items::Many(items.into())
            }
        };
        Ok(CallOutcome { code, number, index, handle, began, links, items })
    }

    fn item(&mut self) -> Result<Item> {
        let (index, began) = (self.from.i32()?, self.count()?);
        let persistent = self.from.flag()?;
        let status = StatusBytes::of_slice(self.from.raw(self.status)?);
        let target = targets::read(self.from, self.types, self.regions)?;
        let payload = match self.from.flag()? {
            true => {
                let (nth, at, len) = (self.from.u32()?, self.from.u64()?, self.from.u64()?);
                self.chunks.payload(nth, at, len)?
            }
            false => {
                let bytes = self.from.bytes()?;
                self.payload(bytes)?
            }
        };
        let link = self.link()?;
        let (given_up, is_kept) = (self.from.u32()?, self.from.flag()?);
        if !is_kept && !payload.is_empty() {
            return Err(format!("{} bytes of a payload that was dropped", payload.len()));
        }
        let item = Item::new(status, target, payload);
        Ok(Item { index, began, persistent, link, given_up, is_kept, ..item })
    }

    fn payload(&mut self, bytes: &[u8]) -> Result<Payload> {
        self.chunks.arena.keep(bytes.len(), |into| {
            into.copy_from_slice(bytes);
            Ok(())
        })
    }

    fn links(&mut self) -> Result<Links> {
        Ok(match self.from.u8()? {
            0 => Links::None,
            1 => self.link()?.into(),
            2 => Links::Many(self.list(1, Self::link)?.into()),
            other => return Err(format!("messages of kind {other}")),
        })
    }

    fn link(&mut self) -> Result<Option<MessageLink>> {
        self.from.option(|from| Ok(MessageLink { stream: from.u32()?, number: from.u64()? }))
    }

    fn instance(&mut self) -> Result<Instance> {
        let (id, flags) = (self.from.i32()?, self.from.i32()?);
        let (number, since) = (self.count()?, self.count()?);
        let (begin, begun) = (self.position()?, self.count()?);
        let end = match self.from.flag()? {
            true => Some(self.position()?),
            false => None,
        };
        let around = self.from.list(8, NumberReader::u64)?.into();
        let broken = self.from.option(NumberReader::bytes)?;
        let broken = broken.map(|why| String::from_utf8_lossy(why).into_owned());
        if self.from.flag()? {
            self.marked.push(number);
        }
        let closed = self.closed()?;
        if flags & !(RESEND | KEEP) != 0 {
            return Err(format!("part {id} with flags {flags:#x}"));
        }
        let mark = None;
        Ok(Instance { id, flags, number, since, begin, begun, end, around, broken, mark, closed })
    }

    fn open(&mut self) -> Result<OpenPart> {
        Ok(match self.from.u8()? {
            0 => OpenPart::Record(self.count()?),
            1 => OpenPart::Replay(Replay {
                instance: self.count()?,
                cursor: self.position()?,
                begun: self.count()?,
                is_step: self.from.flag()?,
                since: self.count()?,
                passed: match self.from.flag()? {
                    true => Some((self.position()?, self.count()?)),
                    false => None,
                },
            }),
            other => return Err(format!("an open part of kind {other}")),
        })
    }
}

/// An MPI function by its name.
fn call(name: &[u8]) -> Result<Call> {
    let is_one = |name: &&str| {
        let letters = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        name.len() <= NAME && name.starts_with("MPI_") && name.bytes().all(letters)
    };
    let name = std::str::from_utf8(name).ok().filter(is_one);
    let name = name.ok_or("a call that is not MPI's")?;
    // Leaked, once per function when another process's log is read, as the names of this process's calls are
    // static too.
    Ok(Call(Box::leak(name.to_owned().into_boxed_str())))
}

fn closed(from: &mut NumberReader<'_>) -> Result<ClosedMessages> {
    let mut closed = ClosedMessages { number: count(from)?, ..ClosedMessages::default() };
    for table in [&mut closed.sent, &mut closed.received] {
        let rows = from.list(28, |from| {
            let (stream, start, end) = (from.u32()?, from.u64()?, from.u64()?);
            Ok((stream, (start..end, Route { peer: from.i32()?, tag: from.i32()? })))
        })?;
        table.extend(rows);
    }
    Ok(closed)
}

/// Checks the invariants that the parts and the log rely on.
fn check(parts: &Parts) -> Result<()> {
    let wrong = |what: String| Err(format!("{what} in a log of messages"));
    let (log, instances) = (&parts.log, &parts.instances.all);
    let behind =
        |last: &mut Option<u64>, number: u64| last.replace(number).is_none_or(|l| l < number);
    let mut last = None;
    for event in &log.events {
        let number = event.number;
        let owners = event.owners as usize <= instances.len();
        let given_up = event.outcome.items.as_slice().iter().all(|i| i.given_up <= event.owners);
        if !behind(&mut last, number) || number >= log.next || event.repeats == 0 {
            return wrong(format!("event {number}, {} times, of {}", event.repeats, log.next));
        }
        if !owners || !given_up || event.outcome.began > parts.begun {
            return wrong(format!("event {number} of {} parts", event.owners));
        }
    }
    let is_place = |at: Position| match log.get(at) {
        Some(event) => at.nth < event.repeats,
        // No part needs it, or its bytes are not read yet.
        None => at.event <= log.next,
    };
    let mut last = None;
    for instance in instances {
        let Instance { id, number, begin, end, .. } = *instance;
        let is_range = is_place(begin) && end.is_none_or(|end| begin <= end && is_place(end));
        let known = number < parts.instances.now && instance.since <= number;
        let known = known && instance.begun <= parts.begun;
        let is_open =
            parts.open.0.iter().any(|open| matches!(open, OpenPart::Record(n) if *n == number));
        if !behind(&mut last, number) || !known || !is_range || is_open == end.is_some() {
            return wrong(format!("run {number} of part {id}"));
        }
    }
    let find = |number: u64| {
        let place = instances.binary_search_by_key(&number, |instance| instance.number);
        place.ok().map(|place| &instances[place])
    };
    for open in &parts.open.0 {
        let fits = match (open, find(open.number())) {
            (OpenPart::Record(_), Some(instance)) => instance.end.is_none(),
            (OpenPart::Replay(replay), Some(Instance { begin, end: Some(end), .. })) => {
                let inside = *begin <= replay.cursor && replay.cursor <= *end;
                inside && is_place(replay.cursor) && replay.begun <= parts.begun
            }
            _ => false,
        };
        if !fits {
            return wrong(format!("the open run {}", open.number()));
        }
    }
    Ok(())
}
