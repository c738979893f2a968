//! Which parts are open, which are logged, and where a call's result comes from.
//!
//! The open parts are a stack. A call looks for the innermost replay: it gives the next event of its
//! range, and the parts that are recorded inside it become owners of that event, so their ranges are
//! ranges of the same events. Without a replay the call is real, and its event belongs to all parts
//! that are being recorded.
//!
//! The logged instances of one id are a stack too: a loop that runs a part many times is replayed
//! in reverse.

use std::rc::Rc;

use crate::log::{Event, Log, Outcome, Payload, Position, Shape};
use crate::resend::closed::Closed;
use crate::resend::streams::{Link, Mark};
use crate::stand_ins::Origin;

/// `VELOC_PART_RESEND`: messages closed inside the part may be sent again instead of kept.
pub const RESEND: i32 = 1;
/// `VELOC_PART_KEEP`: the log stays after a replay.
pub const KEEP: i32 = 2;

/// One run of a part that is logged or being logged.
#[derive(Debug)]
pub struct Instance {
    /// What the application calls the part.
    pub id: i32,
    /// `RESEND` and `KEEP`.
    pub flags: i32,
    /// Counts up with every instance, so that it names this one.
    pub number: u64,
    /// When the first run of its events began: what the application freed later is still used by its
    /// replay. In numbers of instances.
    pub since: u64,
    pub(crate) begin: Position,
    /// What its first run had begun before, in numbers of [`Outcome::began`].
    pub(crate) begun: u64,
    /// Where it ended; `None` while it is recorded.
    pub(crate) end: Option<Position>,
    /// The instances that were open around it when it began, recorded or replayed.
    pub(crate) around: Box<[u64]>,
    /// Why it cannot be replayed any further.
    pub(crate) broken: Option<String>,
    /// Where it began among the messages of the process, if they may be sent again.
    pub(crate) mark: Option<Mark>,
    /// The messages that its replay sends and receives again.
    pub(crate) closed: Option<Rc<Closed>>,
}

impl Instance {
    /// Whether it began at this place, inside what this replay is of, and before that replay.
    fn was_at(&self, at: Position, replay: &Replay) -> bool {
        self.begin == at && self.number < replay.since && self.around.contains(&replay.instance)
    }
}

/// An open part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Open {
    /// The instance with this number is recorded.
    Record(u64),
    /// The instance with this number is replayed.
    Replay(Replay),
}

impl Open {
    /// The instance's number.
    pub(crate) fn number(&self) -> u64 {
        match self {
            Open::Record(number) => *number,
            Open::Replay(replay) => replay.instance,
        }
    }
}

/// How far a replay is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replay {
    /// The instance's number.
    pub(crate) instance: u64,
    /// The next event.
    pub(crate) cursor: Position,
    /// What the first run had begun at that place, in numbers of [`Outcome::began`].
    pub(crate) begun: u64,
    /// The replay around it goes on with it: the first run had the part at that place, too.
    pub(crate) is_step: bool,
    /// The number that instances have from its beginning on.
    pub(crate) since: u64,
}

/// Where a call's result comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The log.
    Log,
    /// MPI, and then it is logged.
    Mpi,
}

/// Who needs a communicator that the application has freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// No run that is logged has it.
    Nobody,
    /// Replays that make it: which one that is makes no difference.
    Replays,
    /// Replays that begin when it is there: the application's snapshots have its handle.
    Snapshots,
}

/// Why a call of the application's on parts failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// This is why.
    Text(String),
    /// A replay ends too early.
    Early {
        /// The part's id.
        part: i32,
        /// How many calls were made again, equal polls counted as one.
        made: u64,
        /// The logged call that was not.
        logged: Shape,
    },
}

/// A call that the replayed part did not make when it was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    /// The part's id.
    pub part: i32,
    /// How many calls of the part lie before this one, equal polls counted as one.
    pub place: u64,
    /// What the log has there; `None` at the part's end.
    pub logged: Option<Shape>,
    /// What was said before, if the replay had gone wrong already.
    pub earlier: Option<String>,
}

/// The parts and their log.
#[derive(Debug, Default)]
pub struct Parts {
    pub(crate) log: Log,
    /// By number.
    pub(crate) instances: Vec<Instance>,
    pub(crate) open: Vec<Open>,
    pub(crate) numbers: u64,
    /// Of what was begun, the highest number.
    pub(crate) begun: u64,
    /// No part has begun or ended since the last event.
    can_repeat: bool,
    /// Some instance was broken off while it was recorded.
    has_lost: bool,
    /// What those get again whose place is not taken yet: the id, the place, the messages.
    pub(crate) replaced: Vec<(i32, Position, Option<Rc<Closed>>)>,
}

impl Parts {
    /// Those of another process. What is polled next is another event. `counts`: how many instances
    /// and things there have been.
    pub(crate) fn gone_on(
        log: Log,
        instances: Vec<Instance>,
        open: Vec<Open>,
        replaced: Vec<(i32, Position, Option<Rc<Closed>>)>,
        (numbers, begun): (u64, u64),
    ) -> Parts {
        let has_lost = instances.iter().any(|instance| instance.broken.is_some());
        Parts { log, instances, open, numbers, begun, replaced, has_lost, can_repeat: false }
    }

    /// The log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// How many instances are logged or being logged.
    pub fn live(&self) -> usize {
        self.instances.len()
    }

    /// Whether a part is open.
    pub fn is_any_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Where the result of a call made now comes from. `None` outside parts.
    pub fn source(&self) -> Option<Source> {
        if self.open.is_empty() {
            return None;
        }
        match self.replay() {
            Some(_) => Some(Source::Log),
            None => Some(Source::Mpi),
        }
    }

    /// A number that counts instances: what is freed now is used by replays of those before it.
    pub fn now(&self) -> u64 {
        self.numbers
    }

    /// The oldest first run that some instance has events of. `None` if none is live.
    pub fn oldest(&self) -> Option<u64> {
        self.instances.iter().map(|instance| instance.since).min()
    }

    /// The same of the first instance that is live, which others may share older events with.
    pub fn first(&self) -> Option<u64> {
        self.instances.first().map(|instance| instance.since)
    }

    /// The id of the innermost open part.
    pub fn innermost(&self) -> Option<i32> {
        self.instance(self.open.last()?.number()).map(|instance| instance.id)
    }

    /// Begins to record a part.
    ///
    /// # Errors
    /// Flags that are none.
    pub fn begin(&mut self, id: i32, flags: i32) -> Result<(), Fault> {
        if flags & !(RESEND | KEEP) != 0 {
            return Err(Fault::Text(format!("part {id} begins with unknown flags: {flags:#x}")));
        }
        self.can_repeat = false;
        let number = self.numbers;
        let mut closed = None;
        let around = self.open.iter().map(Open::number).collect();
        let (begin, since, begun) = match self.replay() {
            Some(replay) => {
                closed = self.replace(id, replay.cursor);
                let replayed = self.instance(replay.instance);
                let since = replayed.map_or(number, |instance| instance.since);
                (replay.cursor, since, replay.begun)
            }
            None => (self.log.end(), number, self.begun),
        };
        self.numbers += 1;
        let (end, broken, mark) = (None, None, None);
        let instance =
            Instance { id, flags, number, since, begin, begun, end, around, broken, mark, closed };
        self.instances.push(instance);
        self.open.push(Open::Record(number));
        Ok(())
    }

    /// The innermost open part, which has begun, has this mark among the messages of the process.
    pub fn mark(&mut self, mark: Mark) {
        if let Some(Open::Record(number)) = self.open.last().copied() {
            if let Some(instance) = self.instance_mut(number) {
                instance.mark = Some(mark);
            }
        }
    }

    /// The mark of the innermost open part, with the number of its instance.
    pub fn marked(&self) -> Option<(u64, Mark)> {
        let Some(Open::Record(number)) = self.open.last() else { return None };
        Some((*number, self.instance(*number)?.mark?))
    }

    /// A replay of the instance with this number will send and receive these messages again. How
    /// many bytes nobody needs now.
    pub fn close(&mut self, number: u64, closed: &Rc<Closed>) -> u64 {
        let Some(instance) = self.instance_mut(number) else { return 0 };
        instance.closed = Some(Rc::clone(closed));
        let (begin, end) = (instance.begin, instance.end);
        end.map_or(0, |end| self.log.give_up(begin, end, closed))
    }

    /// The messages that the innermost replay sends and receives again.
    pub fn closed(&self) -> Option<&Closed> {
        self.instance(self.replay()?.instance)?.closed.as_deref()
    }

    /// The event that a call of this shape would get from the innermost replay.
    pub fn peek(&self, shape: &Shape) -> Option<&Event> {
        let replay = self.replay()?;
        let instance = self.instance(replay.instance)?;
        let at_end = instance.end.is_some_and(|end| replay.cursor >= end);
        let event = self.log.get(replay.cursor).filter(|_| !at_end)?;
        (instance.broken.is_none() && event.shape == *shape).then_some(event)
    }

    /// Whether some part needs bytes that are not there: see [`Log::lacks`].
    pub fn lacks(&self, at: Position, nth: usize) -> bool {
        self.log.lacks(at, nth)
    }

    /// The bytes that are lacking are these.
    pub fn keep(&mut self, at: Position, nth: usize, payload: Payload) {
        self.log.keep(at, nth, payload);
    }

    /// The number that the next event gets in the log.
    pub fn next_event(&self) -> u64 {
        self.log.end().event
    }

    /// Whether an instance is live that has begun when so many had: what was there then is in the
    /// application's snapshot.
    pub fn has_since(&self, numbers: u64) -> bool {
        self.instances.last().is_some_and(|last| last.number >= numbers)
    }

    /// The event with this number began what was found to be this message.
    pub fn link(&mut self, event: u64, link: Link) {
        self.log.link(event, link);
    }

    /// The communicator that the event with this number has made is called otherwise.
    pub fn rename(&mut self, made: u64, from: usize, to: usize) {
        self.log.rename(made, from, to);
    }

    /// Who needs a communicator that is freed now, by what is known of its origin.
    pub fn need(&self, origin: &Origin) -> Need {
        let is_in = |place: &Position, of: &Instance| of.end.is_none_or(|end| end > *place);
        let made = origin.made.map(|(_, event)| Position { event, nth: 0 });
        let mut need = Need::Nobody;
        for instance in self.instances.iter().rev() {
            if instance.begin.event >= origin.first {
                return Need::Snapshots;
            }
            if made.is_some_and(|made| is_in(&made, instance)) {
                need = Need::Replays;
            }
            // First runs began in their order, and those around each other ended behind them. What
            // replays have recorded before it lies before it.
            let is_first = instance.since == instance.number;
            if is_first && (need == Need::Replays || instance.around.is_empty()) {
                break;
            }
        }
        need
    }

    /// Ends the recording of a part.
    ///
    /// # Errors
    /// It is not the innermost open one.
    pub fn end(&mut self, id: i32) -> Result<(), Fault> {
        let number = match self.open.last() {
            Some(Open::Record(number)) if self.is(*number, id) => *number,
            _ => return Err(self.not_innermost("ends", id)),
        };
        self.open.pop();
        self.can_repeat = false;
        let end = self.replay().map_or(self.log.end(), |replay| replay.cursor);
        if let Some(instance) = self.instance_mut(number) {
            instance.end = Some(end);
        }
        Ok(())
    }

    /// Begins to replay the newest instance of a part; inside another replay, the one that the first
    /// run had at this place, if it had one.
    ///
    /// # Errors
    /// There is none, or what it received could not be kept.
    pub fn replay_begin(&mut self, id: i32) -> Result<(), Fault> {
        let is_ready = |instance: &&Instance| {
            instance.id == id && instance.end.is_some() && !self.is_replayed(instance.number)
        };
        let here = self.replay().and_then(|around| {
            let end = self.instance(around.instance)?.end;
            self.instances
                .iter()
                .rev()
                .filter(is_ready)
                .find(|instance| instance.was_at(around.cursor, &around) && instance.end <= end)
        });
        let is_step = here.is_some();
        let newest = || self.instances.iter().rev().find(is_ready);
        let Some(instance) = here.or_else(newest) else {
            let open = self.instances.iter().any(|instance| instance.id == id);
            let why = if open { "it is still open" } else { "no run of it is logged" };
            return Err(Fault::Text(format!("part {id} cannot be replayed: {why}")));
        };
        if let Some(text) = &instance.broken {
            return Err(Fault::Text(format!("part {id} cannot be replayed: {text}")));
        }
        let (instance, cursor, begun) = (instance.number, instance.begin, instance.begun);
        let since = self.numbers;
        self.open.push(Open::Replay(Replay { instance, cursor, begun, is_step, since }));
        self.can_repeat = false;
        Ok(())
    }

    /// Ends a replay. Its instance goes, unless it is kept.
    ///
    /// # Errors
    /// It is not the innermost open part, it went wrong, or calls of it were not made again.
    pub fn replay_end(&mut self, id: i32) -> Result<(), Fault> {
        let (number, cursor) = match self.open.last() {
            Some(Open::Replay(replay)) if self.is(replay.instance, id) => {
                (replay.instance, replay.cursor)
            }
            _ => return Err(self.not_innermost("ends its replay", id)),
        };
        let Some(instance) = self.instance(number) else {
            return Err(self.not_innermost("ends its replay", id));
        };
        if let Some(text) = &instance.broken {
            return Err(Fault::Text(text.clone()));
        }
        if instance.end.is_some_and(|end| cursor < end) {
            let made = cursor.event - instance.begin.event;
            if let Some(event) = self.log.get(cursor) {
                return Err(Fault::Early { part: id, made, logged: event.shape });
            }
        }
        let keep = instance.flags & KEEP != 0;
        self.open.pop();
        if self.replay().is_none() {
            self.replaced.clear();
        }
        self.can_repeat = false;
        if !keep {
            self.drop_instance(number);
        }
        Ok(())
    }

    /// Drops all logged instances of a part, and gives it up if it is the innermost open one.
    ///
    /// # Errors
    /// It is open, with others inside it, or nothing of it is logged.
    pub fn free(&mut self, id: i32) -> Result<(), Fault> {
        let inner = self.open.len().saturating_sub(1);
        if self.open[..inner].iter().any(|open| self.is(open.number(), id)) {
            return Err(Fault::Text(format!("part {id} is open, and others are open inside it")));
        }
        if !self.instances.iter().any(|instance| instance.id == id) {
            return Err(Fault::Text(format!("no run of part {id} is logged")));
        }
        if self.open.last().is_some_and(|open| self.is(open.number(), id)) {
            self.open.pop();
        }
        self.can_repeat = false;
        let of_id = self.instances.iter().filter(|instance| instance.id == id);
        for number in of_id.map(|instance| instance.number).collect::<Vec<_>>() {
            self.drop_instance(number);
        }
        Ok(())
    }

    /// A number for something that begins now.
    pub fn begin_number(&mut self) -> u64 {
        self.begin_numbers(1)
    }

    /// As many numbers, of which this is the first.
    pub fn begin_numbers(&mut self, count: u64) -> u64 {
        let first = self.begun + 1;
        self.begun += count;
        first
    }

    /// Drops everything, as at the end of the job.
    pub fn clear(&mut self) {
        self.open.clear();
        while let Some(last) = self.instances.last() {
            self.drop_instance(last.number);
        }
    }

    /// Logs what a real call gave.
    pub fn record(&mut self, shape: Shape, outcome: Outcome) {
        if self.can_repeat && self.log.repeat(&shape, &outcome) {
            return;
        }
        self.begun = self.begun.max(outcome.began);
        let owners = self.open.len() as u32;
        self.log.push(shape, outcome, owners);
        self.can_repeat = true;
    }

    /// The next event of the innermost replay, if it is of the same shape: then the replay goes on
    /// behind it.
    ///
    /// # Errors
    /// It is not, or the part has ended there, or the replay had gone wrong before.
    pub fn next(&mut self, shape: &Shape) -> Result<Position, Divergence> {
        let Some(Replay { instance: number, cursor, .. }) = self.replay() else {
            return Err(Divergence { part: -1, place: 0, logged: None, earlier: None });
        };
        let Some(instance) = self.instance(number) else {
            return Err(Divergence { part: -1, place: 0, logged: None, earlier: None });
        };
        let divergence = |logged| Divergence {
            part: instance.id,
            place: cursor.event - instance.begin.event,
            logged,
            earlier: instance.broken.clone(),
        };
        let at_end = instance.end.is_some_and(|end| cursor >= end);
        let event = self.log.get(cursor).filter(|_| !at_end);
        if instance.broken.is_some() || event.is_none_or(|event| event.shape != *shape) {
            return Err(divergence(event.map(|event| event.shape)));
        }
        let began = event.map_or(0, |event| event.outcome.began);
        let after = self.log.after(cursor);
        for open in self.open.iter_mut().rev() {
            match open {
                Open::Replay(replay) => {
                    replay.cursor = after;
                    replay.begun = replay.begun.max(began);
                    if !replay.is_step {
                        break;
                    }
                }
                Open::Record(number) => {
                    let instance =
                        self.instances.iter().rev().find(|instance| instance.number == *number);
                    // Repetitions of one event count once.
                    if cursor.nth == 0 || instance.map(|instance| instance.begin) == Some(cursor) {
                        self.log.own(cursor, instance.and_then(|one| one.closed.as_deref()));
                    }
                }
            }
        }
        Ok(cursor)
    }

    /// The event behind a place that [`next`](Self::next) gave.
    pub fn event(&self, at: Position) -> Option<&Event> {
        self.log.get(at)
    }

    /// The innermost replay cannot go on.
    pub fn break_off(&mut self, text: &str) {
        if let Some(replay) = self.replay() {
            self.spoil(replay.instance, text);
        }
    }

    /// What the parts need that are recorded now cannot be kept: none of them can be replayed.
    pub fn lose(&mut self, text: &str) {
        self.has_lost = true;
        for number in self.recorded().collect::<Vec<_>>() {
            self.spoil(number, text);
        }
    }

    /// The instance with this number cannot be replayed.
    pub fn spoil(&mut self, number: u64, text: &str) {
        if let Some(instance) = self.instance_mut(number) {
            instance.broken.get_or_insert_with(|| text.to_owned());
        }
    }

    /// Whether some part that is recorded now can still be replayed.
    pub fn can_log(&self) -> bool {
        let is_whole = |number| self.instance(number).is_some_and(|one| one.broken.is_none());
        !self.has_lost || self.recorded().any(is_whole)
    }

    /// The instances that get what is called now.
    fn recorded(&self) -> impl Iterator<Item = u64> + '_ {
        let goes_on = |open: &&Open| !matches!(open, Open::Replay(replay) if !replay.is_step);
        self.open.iter().rev().take_while(goes_on).filter_map(|open| match open {
            Open::Record(number) => Some(*number),
            Open::Replay(_) => None,
        })
    }

    /// The number of the instance that is replayed: of the outermost replay that goes on with what
    /// is called now.
    pub fn replayed(&self) -> Option<u64> {
        let mut replays = self.open.iter().rev().filter_map(|open| match open {
            Open::Replay(replay) => Some(replay),
            Open::Record(_) => None,
        });
        let innermost = replays.next()?;
        let mut replay = innermost;
        while replay.is_step {
            let Some(around) = replays.next() else { break };
            replay = around;
        }
        Some(replay.instance)
    }

    /// Whether the instance with this number is being replayed.
    pub fn is_replayed(&self, number: u64) -> bool {
        self.open
            .iter()
            .any(|open| matches!(open, Open::Replay(replay) if replay.instance == number))
    }

    /// What was begun before the part that is replayed: what has a higher number is begun again.
    pub fn replayed_since(&self) -> u64 {
        let replayed = self.replayed().and_then(|number| self.instance(number));
        replayed.map_or(0, |instance| instance.begun)
    }

    /// The innermost replay.
    fn replay(&self) -> Option<Replay> {
        self.open.iter().rev().find_map(|open| match open {
            Open::Replay(replay) => Some(*replay),
            Open::Record(_) => None,
        })
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.instances.binary_search_by_key(&number, |instance| instance.number).ok()
    }

    fn instance(&self, number: u64) -> Option<&Instance> {
        self.place(number).map(|place| &self.instances[place])
    }

    fn instance_mut(&mut self, number: u64) -> Option<&mut Instance> {
        self.place(number).map(|place| &mut self.instances[place])
    }

    fn is(&self, number: u64, id: i32) -> bool {
        self.instance(number).is_some_and(|instance| instance.id == id)
    }

    /// An error that says what is open instead.
    fn not_innermost(&self, what: &str, id: i32) -> Fault {
        let inner = match (self.open.last(), self.innermost()) {
            (Some(Open::Record(_)), Some(id)) => format!("part {id} is, and it is recorded"),
            (Some(Open::Replay(..)), Some(id)) => format!("part {id} is, and it is replayed"),
            _ => "none is".to_owned(),
        };
        Fault::Text(format!("part {id} {what} but is not the innermost open part: {inner}"))
    }

    /// A run that begins inside a replay takes the place of the one that began there, inside the
    /// same part, in the first run. What that one gets again.
    fn replace(&mut self, id: i32, at: Position) -> Option<Rc<Closed>> {
        let replays = self.open.iter().filter_map(|open| match open {
            Open::Replay(replay) => Some(replay),
            Open::Record(_) => None,
        });
        let replays: Vec<Replay> = replays.copied().collect();
        let oldest = replays.iter().map(|replay| replay.instance).min()?;
        let later = self.instances.iter().rev().take_while(|instance| instance.number > oldest);
        let same = later.filter(|instance| {
            instance.id == id
                && instance.end.is_some()
                && replays.iter().all(|replay| replay.instance != instance.number)
                && replays.iter().any(|replay| instance.was_at(at, replay))
        });
        let mut same: Vec<_> = same.map(|same| (same.number, same.closed.clone())).collect();
        // Of several that began there all but the last are empty; the replay has them in turn.
        same.reverse();
        for (number, closed) in same {
            self.drop_instance(number);
            self.replaced.push((id, at, closed));
        }
        let first = self.replaced.iter().position(|(of, begin, _)| (*of, *begin) == (id, at))?;
        self.replaced.remove(first).2
    }

    /// Drops an instance, and what nobody needs after that.
    fn drop_instance(&mut self, number: u64) {
        let Some(place) = self.place(number) else { return };
        let cursor = self.replay().map_or(self.log.end(), |replay| replay.cursor);
        let instance = self.instances.remove(place);
        let closed = instance.closed.as_deref();
        self.log.disown(instance.begin, instance.end.unwrap_or(cursor), closed);
        self.log.trim();
    }
}

#[cfg(test)]
#[path = "parts_tests.rs"]
mod tests;
