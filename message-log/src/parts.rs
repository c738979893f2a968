//! Which parts are open, which are logged, and where a call's result comes from.
//!
//! The open parts are a stack. A call looks for the innermost replay: it gives the next event of its
//! range, and the parts that are recorded inside it become owners of that event, so their ranges are
//! ranges of the same events. Without a replay the call is real, and its event belongs to all parts
//! that are being recorded.
//!
//! The logged instances of one id are a stack too: a loop that runs a part many times is replayed
//! in reverse.

use std::fmt;

use crate::log::{Event, Log, Outcome, Position, Shape};

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
    begin: Position,
    /// Where it ended; `None` while it is recorded.
    end: Option<Position>,
    /// Why it cannot be replayed any further.
    broken: Option<String>,
}

/// An open part.
#[derive(Clone, Copy, Debug)]
enum Open {
    /// The instance with this number is recorded.
    Record(u64),
    /// The instance with this number is replayed, up to the cursor.
    Replay(u64, Position),
}

/// Where a call's result comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The log.
    Log,
    /// MPI, and then it is logged.
    Mpi,
}

/// Why a call of the application's on parts failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
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
    log: Log,
    instances: Vec<Instance>,
    open: Vec<Open>,
    numbers: u64,
    /// No part has begun or ended since the last event.
    can_repeat: bool,
}

impl Parts {
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

    /// The id of the innermost open part.
    pub fn innermost(&self) -> Option<i32> {
        let number = match self.open.last()? {
            Open::Record(number) | Open::Replay(number, _) => *number,
        };
        self.instance(number).map(|instance| instance.id)
    }

    /// Begins to record a part.
    ///
    /// # Errors
    /// Flags that are none.
    pub fn begin(&mut self, id: i32, flags: i32) -> Result<(), Fault> {
        if flags & !(RESEND | KEEP) != 0 {
            return Err(Fault(format!("part {id} begins with unknown flags: {flags:#x}")));
        }
        self.can_repeat = false;
        let number = self.numbers;
        let (begin, since) = match self.replay() {
            Some((replayed, cursor)) => {
                let since = self.instance(replayed).map_or(number, |instance| instance.since);
                // The first run recorded it too, and this one takes its place.
                self.drop_instances(|instance| {
                    (instance.id, instance.begin) == (id, cursor)
                        && instance.end.is_some()
                        && instance.number != replayed
                });
                (cursor, since)
            }
            None => (self.log.end(), number),
        };
        self.numbers += 1;
        self.instances.push(Instance { id, flags, number, since, begin, end: None, broken: None });
        self.open.push(Open::Record(number));
        Ok(())
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
        let end = self.replay().map_or(self.log.end(), |(_, cursor)| cursor);
        if let Some(instance) = self.instance_mut(number) {
            instance.end = Some(end);
        }
        Ok(())
    }

    /// Begins to replay the newest instance of a part.
    ///
    /// # Errors
    /// There is none.
    pub fn replay_begin(&mut self, id: i32) -> Result<(), Fault> {
        let is_replayed = |number| {
            self.open.iter().any(|open| matches!(open, Open::Replay(other, _) if *other == number))
        };
        let newest = self.instances.iter().rev().find(|instance| {
            instance.id == id && instance.end.is_some() && !is_replayed(instance.number)
        });
        let Some(instance) = newest else {
            let open = self.instances.iter().any(|instance| instance.id == id);
            let why = if open { "it is still open" } else { "no run of it is logged" };
            return Err(Fault(format!("part {id} cannot be replayed: {why}")));
        };
        let open = Open::Replay(instance.number, instance.begin);
        self.open.push(open);
        self.can_repeat = false;
        Ok(())
    }

    /// Ends a replay. Its instance goes, unless it is kept.
    ///
    /// # Errors
    /// It is not the innermost open part, it went wrong, or calls of it were not made again.
    pub fn replay_end(&mut self, id: i32) -> Result<(), Fault> {
        let (number, cursor) = match self.open.last() {
            Some(Open::Replay(number, cursor)) if self.is(*number, id) => (*number, *cursor),
            _ => return Err(self.not_innermost("ends its replay", id)),
        };
        let Some(instance) = self.instance(number) else {
            return Err(self.not_innermost("ends its replay", id));
        };
        if let Some(text) = &instance.broken {
            return Err(Fault(text.clone()));
        }
        if instance.end.is_some_and(|end| cursor < end) {
            let next = self.log.get(cursor).map_or("?", |event| event.shape.call.0);
            return Err(Fault(format!(
                "part {id} ends its replay too early: the logged {next} was not called again \
                 ({} calls before it were)",
                cursor.event - instance.begin.event
            )));
        }
        let keep = instance.flags & KEEP != 0;
        self.open.pop();
        self.can_repeat = false;
        if !keep {
            self.drop_instances(|instance| instance.number == number);
        }
        Ok(())
    }

    /// Drops all logged instances of a part, and gives it up if it is the innermost open one.
    ///
    /// # Errors
    /// It is open, with others inside it, or nothing of it is logged.
    pub fn free(&mut self, id: i32) -> Result<(), Fault> {
        let number = |open: &Open| match open {
            Open::Record(number) | Open::Replay(number, _) => *number,
        };
        let inner = self.open.len().saturating_sub(1);
        if self.open[..inner].iter().any(|open| self.is(number(open), id)) {
            return Err(Fault(format!("part {id} is open, and others are open inside it")));
        }
        if !self.instances.iter().any(|instance| instance.id == id) {
            return Err(Fault(format!("no run of part {id} is logged")));
        }
        if self.open.last().is_some_and(|open| self.is(number(open), id)) {
            self.open.pop();
        }
        self.can_repeat = false;
        self.drop_instances(|instance| instance.id == id);
        Ok(())
    }

    /// Drops everything, as at the end of the job.
    pub fn clear(&mut self) {
        self.open.clear();
        self.drop_instances(|_| true);
    }

    /// Logs what a real call gave.
    pub fn record(&mut self, shape: Shape, outcome: Outcome) {
        if self.can_repeat && self.log.repeat(&shape, &outcome) {
            return;
        }
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
        let Some((number, cursor)) = self.replay() else {
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
        let after = self.log.after(cursor);
        for open in self.open.iter_mut().rev() {
            match open {
                Open::Replay(_, cursor) => {
                    *cursor = after;
                    break;
                }
                Open::Record(number) => {
                    let begin = self
                        .instances
                        .iter()
                        .rev()
                        .find(|instance| instance.number == *number)
                        .map(|instance| instance.begin);
                    // Repetitions of one event count once.
                    if cursor.nth == 0 || begin == Some(cursor) {
                        self.log.own(cursor);
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
        if let Some((number, _)) = self.replay() {
            if let Some(instance) = self.instance_mut(number) {
                instance.broken.get_or_insert_with(|| text.to_owned());
            }
        }
    }

    /// The innermost replay: the instance's number and the cursor.
    fn replay(&self) -> Option<(u64, Position)> {
        self.open.iter().rev().find_map(|open| match open {
            Open::Replay(number, cursor) => Some((*number, *cursor)),
            Open::Record(_) => None,
        })
    }

    fn instance(&self, number: u64) -> Option<&Instance> {
        self.instances.iter().rev().find(|instance| instance.number == number)
    }

    fn instance_mut(&mut self, number: u64) -> Option<&mut Instance> {
        self.instances.iter_mut().rev().find(|instance| instance.number == number)
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
        Fault(format!("part {id} {what} but is not the innermost open part: {inner}"))
    }

    /// Drops the instances that `goes` picks, and what nobody needs after that.
    fn drop_instances(&mut self, goes: impl Fn(&Instance) -> bool) {
        let end = self.replay().map_or(self.log.end(), |(_, cursor)| cursor);
        let log = &mut self.log;
        self.instances.retain(|instance| {
            let stays = !goes(instance);
            if !stays {
                log.disown(instance.begin, instance.end.unwrap_or(end));
            }
            stays
        });
        let instances = &self.instances;
        let floor = self.open.iter().filter_map(|open| match open {
            Open::Record(number) => instances
                .iter()
                .find(|instance| instance.number == *number)
                .map(|instance| instance.begin),
            Open::Replay(_, cursor) => Some(*cursor),
        });
        let floor = floor.max();
        self.log.trim(floor);
    }
}
