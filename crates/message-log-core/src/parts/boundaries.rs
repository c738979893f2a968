//! The beginning and the end of parts and of their replays, and dropping logs.

use std::rc::Rc;

use super::{Fault, Instance, Instances, OpenPart, Parts, Replay, Stack, KEEP, RESEND};
use crate::log::Position;
use crate::memory::{self, NoMemory};
use crate::resend::closed::ClosedMessages;

impl Parts {
    /// Begins to record a part.
    ///
    /// # Errors
    /// Unknown flags, or out of memory.
    pub fn begin(&mut self, id: i32, flags: i32) -> Result<(), Fault> {
        if flags & !(RESEND | KEEP) != 0 {
            return Err(Fault::Text(format!(
                "part {id} begins with the flags {flags}; VELOC_PART_RESEND ({RESEND}) and VELOC_PART_KEEP \
                 ({KEEP}) exist"
            )));
        }
        self.can_repeat = false;
        let number = self.instances.now;
        let mut closed = None;
        let around = room_for_one(&mut self.instances, &mut self.open, id)?;
        let (begin, since, begun) = match self.open.replay() {
            Some(replay) => {
                closed = self.replace(id, replay.cursor);
                let replayed = self.instances.get(replay.instance);
                let since = replayed.map_or(number, |instance| instance.since);
                (replay.cursor, since, replay.begun)
            }
            None => (self.log.end(), number, self.begun),
        };
        self.instances.now += 1;
        let (end, broken, mark) = (None, None, None);
        let instance =
            Instance { id, flags, number, since, begin, begun, end, around, broken, mark, closed };
        self.unsettled.add(number, instance.closed.as_deref());
        self.instances.all.push(instance);
        self.open.0.push(OpenPart::Record(number));
        self.boundaries.pass(flags);
        Ok(())
    }

    /// Ends the recording of a part.
    ///
    /// # Errors
    /// It is not the innermost open one.
    pub fn end(&mut self, id: i32) -> Result<(), Fault> {
        let number = match self.open.innermost() {
            Some(OpenPart::Record(number)) if self.instances.is(*number, id) => *number,
            _ => return Err(not_innermost(self, "ends", id)),
        };
        self.open.0.pop();
        self.can_repeat = false;
        let end = self.open.replay().map_or(self.log.end(), |replay| replay.cursor);
        if let Some(instance) = self.instances.get_mut(number) {
            instance.end = Some(end);
            let flags = instance.flags;
            self.boundaries.pass(flags);
        }
        Ok(())
    }

    /// Begins to replay the newest instance of a part or, inside another replay, the instance that the
    /// first run had at this position.
    ///
    /// # Errors
    /// There is none, its data could not be logged, or out of memory.
    pub fn replay_begin(&mut self, id: i32) -> Result<(), Fault> {
        let (chosen, is_step) = self.chosen(id);
        let Some(instance) = chosen else {
            let open = self.instances.all.iter().any(|instance| instance.id == id);
            let why = if open { "it is still open" } else { "no run of it is logged" };
            return Err(Fault::Text(format!("part {id} cannot be replayed: {why}")));
        };
        if let Some(text) = &instance.broken {
            return Err(Fault::Text(format!("part {id} cannot be replayed: {text}")));
        }
        let flags = instance.flags;
        let (instance, cursor, begun) = (instance.number, instance.begin, instance.begun);
        let since = self.instances.now;
        if self.open.0.try_reserve(1).is_err() {
            return Err(Fault::Text(format!("part {id}: there is no memory for its replay")));
        }
        if is_step {
            self.open.pass_by(cursor, instance);
        }
        let passed = None;
        self.open.0.push(OpenPart::Replay(Replay {
            instance,
            cursor,
            begun,
            is_step,
            since,
            passed,
        }));
        self.can_repeat = false;
        self.boundaries.pass(flags);
        Ok(())
    }

    /// The run that a replay of this part would use.
    pub fn replayable(&self, id: i32) -> Option<&Instance> {
        self.chosen(id).0
    }

    /// The instance that a replay of this part would use, and whether it belongs to the enclosing
    /// replay.
    fn chosen(&self, id: i32) -> (Option<&Instance>, bool) {
        let is_ready = |instance: &&Instance| {
            instance.id == id && instance.end.is_some() && !self.open.is_replayed(instance.number)
        };
        let here = self.open.replay().and_then(|around| {
            let end = self.instances.get(around.instance)?.end;
            // Several can begin here if all but the last have no calls: they are replayed in order.
            let first = self.instances.all.partition_point(|one| one.number <= around.instance);
            let passed = around.passed.filter(|(at, _)| *at == around.cursor);
            let is_next = |one: &Instance| {
                one.was_at(around.cursor, &around)
                    && one.end <= end
                    && passed.is_none_or(|(_, passed)| one.number > passed)
            };
            self.instances.all[first..].iter().filter(is_ready).find(|one| is_next(one))
        });
        let newest = || self.instances.all.iter().rev().find(is_ready);
        (here.or_else(newest), here.is_some())
    }

    /// Ends a replay. Its instance is dropped, unless it is kept.
    ///
    /// # Errors
    /// It is not the innermost open part, it has failed, or calls are missing.
    pub fn replay_end(&mut self, id: i32) -> Result<(), Fault> {
        let (number, cursor) = match self.open.innermost() {
            Some(OpenPart::Replay(replay)) if self.instances.is(replay.instance, id) => {
                (replay.instance, replay.cursor)
            }
            _ => return Err(not_innermost(self, "ends its replay", id)),
        };
        let Some(instance) = self.instances.get(number) else {
            return Err(not_innermost(self, "ends its replay", id));
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
        let flags = instance.flags;
        self.open.0.pop();
        if self.open.replay().is_none() {
            self.replaced.clear();
        }
        self.can_repeat = false;
        if flags & KEEP == 0 {
            self.drop_instance(number);
        }
        self.boundaries.pass(flags);
        Ok(())
    }

    /// Drops all logged instances of a part, and abandons the part if it is the innermost open one.
    ///
    /// # Errors
    /// It is open with others inside it, or nothing of it is logged.
    pub fn free(&mut self, id: i32) -> Result<(), Fault> {
        let inner = self.open.0.len().saturating_sub(1);
        if self.open.0[..inner].iter().any(|open| self.instances.is(open.number(), id)) {
            return Err(Fault::Text(format!("part {id} is open, and others are open inside it")));
        }
        if !self.instances.all.iter().any(|instance| instance.id == id) {
            return Err(Fault::Text(format!("no run of part {id} is logged")));
        }
        if self.open.innermost().is_some_and(|open| self.instances.is(open.number(), id)) {
            self.open.0.pop();
        }
        self.can_repeat = false;
        // One by one, as there may be no memory for a list.
        while let Some(number) = self.instances.newest(id) {
            self.drop_instance(number);
        }
        Ok(())
    }

    /// Drops everything, at the end of the job.
    pub fn clear(&mut self) {
        self.open.0.clear();
        while let Some(last) = self.instances.all.last() {
            self.drop_instance(last.number);
        }
    }

    /// A run that begins inside a replay replaces the one that began there, inside the same part, in the
    /// first run. Returns the messages that that one receives again.
    fn replace(&mut self, id: i32, at: Position) -> Option<Rc<ClosedMessages>> {
        let replays: Vec<Replay> = self.open.replays().copied().collect();
        let oldest = replays.iter().map(|replay| replay.instance).min()?;
        let later = self.instances.all.iter().rev().take_while(|instance| instance.number > oldest);
        let same = later.filter(|instance| {
            instance.id == id
                && instance.end.is_some()
                && replays.iter().all(|replay| replay.instance != instance.number)
                && replays.iter().any(|replay| instance.was_at(at, replay))
        });
        let mut same: Vec<_> = same.map(|same| (same.number, same.closed.clone())).collect();
        // If several began there, all but the last are empty; the replay takes them in order.
        same.reverse();
        for (number, closed) in same {
            self.drop_instance(number);
            self.replaced.push((id, at, closed));
        }
        let first = self.replaced.iter().position(|(of, begin, _)| (*of, *begin) == (id, at))?;
        self.replaced.remove(first).2
    }

    /// Drops an instance, and what is no longer needed.
    fn drop_instance(&mut self, number: u64) {
        let Some(instance) = self.instances.remove(number) else { return };
        let cursor = self.open.replay().map_or(self.log.end(), |replay| replay.cursor);
        let closed = instance.given_up(self.unsettled.settled());
        self.log.disown(instance.begin, instance.end.unwrap_or(cursor), closed);
        self.log.trim();
    }
}

/// Reserves room for one more open part and instance. Returns the numbers of the open instances.
fn room_for_one(instances: &mut Instances, open: &mut Stack, id: i32) -> Result<Box<[u64]>, Fault> {
    let mut room = || {
        instances.all.try_reserve(1)?;
        open.0.try_reserve(1)?;
        let mut around = memory::room(open.0.len())?;
        around.extend(open.0.iter().map(OpenPart::number));
        Ok(around.into_boxed_slice())
    };
    room().map_err(|NoMemory| Fault::Text(format!("part {id}: there is no memory for it")))
}

/// The error that names the part that is open instead.
fn not_innermost(parts: &Parts, what: &str, id: i32) -> Fault {
    let inner = match (parts.open.innermost(), parts.innermost()) {
        (Some(OpenPart::Record(_)), Some(inner)) if inner == id => {
            return Fault::Text(format!("part {id} {what} but is recorded, not replayed"));
        }
        (Some(OpenPart::Replay(..)), Some(inner)) if inner == id => {
            return Fault::Text(format!("part {id} {what} but is replayed, not recorded"));
        }
        (Some(OpenPart::Record(_)), Some(id)) => format!("part {id} is, and it is recorded"),
        (Some(OpenPart::Replay(..)), Some(id)) => format!("part {id} is, and it is replayed"),
        _ => "none is".to_owned(),
    };
    Fault::Text(format!("part {id} {what} but is not the innermost open part: {inner}"))
}
