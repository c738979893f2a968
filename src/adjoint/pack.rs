//! Where a schedule stands, as bytes.
//!
//! Four letters, a version, and then numbers: 7 bits to a byte, the lowest first, with the highest bit
//! set in all but the last byte. What is read is looked at until no action can go wrong: states
//! ascend, slots differ and are there, nothing lies beyond the adjoint. So bytes are either refused, or
//! those of a schedule that goes on to its end.

use std::cell::OnceCell;

use super::binomial::MAX_STEPS;
use super::course::{Course, Way};
use super::disk::{Disk, MAX_COST};
use super::levels::{Transfers, TwoLevel};
use super::online::Online;
use super::rule::Rule;
use super::schedule::{Done, Plan, Schedule, Stored};
use super::upkeep::{Threshold, Upkeep};
use crate::error::{Error, Kind, Result};

/// The first bytes.
const MARK: [u8; 4] = *b"VSch";

/// The version that is written and read.
const VERSION: u8 = 1;

/// Counts are no more than this, so that they can go on for ever.
const MOST_COUNTED: u64 = 1 << 62;

impl Course {
    /// Where it stands.
    pub fn pack(&self) -> Vec<u8> {
        let mut to = Writer(MARK.to_vec());
        to.0.push(VERSION);
        to.plan(&self.plan);
        to.option(self.disk, |to, disk| {
            to.all([disk.slots, disk.write, disk.read]);
        });
        to.option(self.threshold, |to, Threshold { work, turn }| {
            to.0.extend([work, turn].map(f64::to_le_bytes).as_flattened());
        });
        to.number(self.ended.into());
        match &self.way {
            Way::Before => to.number(0),
            Way::Known(schedule) => {
                to.number(1);
                to.schedule(schedule);
            }
            Way::Open(online) => {
                to.number(2);
                to.stored(online.stored());
                to.option(online.at, Writer::number);
                to.number(online.decided.into());
            }
            Way::Levels(schedule) => {
                to.number(3);
                to.two_level(schedule);
            }
        }
        to.0
    }

    /// What [`Course::pack`] has written.
    pub fn unpack(bytes: &[u8]) -> Result<Course> {
        let wrong = |what: &str| Err(Error::new(Kind::Corrupt, format!("{what} of a schedule")));
        let Some((mark, rest)) = bytes.split_first_chunk::<4>() else {
            return wrong(&format!("{} bytes are not those", bytes.len()));
        };
        let Some((version, rest)) = rest.split_first().filter(|_| *mark == MARK) else {
            return wrong("the bytes do not begin as those");
        };
        if *version != VERSION {
            return wrong(&format!("version {version}, not {VERSION}, of the bytes"));
        }
        let mut from = Reader(rest);
        match from.course().filter(|_| from.0.is_empty()) {
            Some(course) => Ok(course),
            None => {
                let at = bytes.len() - from.0.len();
                wrong(&format!("up to byte {at} of {} these are no bytes", bytes.len()))
            }
        }
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn number(&mut self, number: u64) {
        self.wide(number.into());
    }

    fn all(&mut self, numbers: impl IntoIterator<Item = u64>) {
        numbers.into_iter().for_each(|number| self.number(number));
    }

    fn wide(&mut self, mut number: u128) {
        while number > 0x7f {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Writer, T)) {
        self.number(value.is_some().into());
        if let Some(value) = value {
            write(self, value);
        }
    }

    fn plan(&mut self, plan: &Plan) {
        let rule = Rule::ALL.iter().zip(0..).find(|((rule, _), _)| *rule == plan.rule);
        let rule = rule.map_or(0, |(_, number)| number);
        let adjoint = plan.adjoint.unwrap_or(0);
        self.all([plan.steps, plan.slots, plan.resilience, adjoint, rule]);
    }

    fn stored(&mut self, states: &[Stored]) {
        self.number(states.len() as u64);
        for stored in states {
            self.number(stored.state);
            self.number(stored.slot);
        }
    }

    fn pairs(&mut self, pairs: &[(u64, u64)]) {
        let states = pairs.iter().map(|&(state, slot)| Stored { state, slot });
        self.stored(&states.collect::<Vec<_>>());
    }

    fn done(&mut self, done: Done) {
        self.wide(done.advances);
        self.all([done.takeshots, done.turns, done.adjoints]);
    }

    fn schedule(&mut self, schedule: &Schedule) {
        self.stored(&schedule.stored);
        self.stored(&schedule.free);
        self.number(schedule.unused);
        self.option(schedule.at, Writer::number);
        self.pairs(&schedule.moves);
        self.option(schedule.target, Writer::number);
        self.number(schedule.fine);
        self.option(schedule.upkeep.since, Writer::done);
        self.done(schedule.done);
    }

    fn two_level(&mut self, schedule: &TwoLevel) {
        self.stored(&schedule.on_disk);
        self.numbers(&schedule.in_memory);
        self.numbers(&schedule.free);
        self.number(schedule.unused);
        self.option(schedule.at, Writer::number);
        self.number(schedule.fine);
        self.option(schedule.upkeep.since, Writer::done);
        self.done(schedule.done);
        self.all([schedule.transfers.writes, schedule.transfers.reads]);
    }

    fn numbers(&mut self, numbers: &[u64]) {
        self.number(numbers.len() as u64);
        self.all(numbers.iter().copied());
    }
}

/// Bytes that are still to be read. Each function gives nothing if they are not what it should be.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn wide(&mut self) -> Option<u128> {
        let (mut number, mut shift) = (0_u128, 0);
        loop {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let digit = u128::from(byte & 0x7f);
            if digit.leading_zeros() < shift || (*byte == 0 && shift > 0) {
                // Too large, or longer than it need be: there is one way to write a number.
                return None;
            }
            number |= digit << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
            shift += 7;
            if shift > 127 {
                return None;
            }
        }
    }

    fn number(&mut self) -> Option<u64> {
        self.wide()?.try_into().ok()
    }

    fn up_to(&mut self, most: u64) -> Option<u64> {
        self.number().filter(|number| *number <= most)
    }

    fn flag(&mut self) -> Option<bool> {
        Some(self.up_to(1)? == 1)
    }

    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<Option<T>> {
        match self.flag()? {
            true => Some(Some(read(self)?)),
            false => Some(None),
        }
    }

    fn float(&mut self) -> Option<f64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(f64::from_le_bytes(*number)).filter(|number| number.is_finite() && *number > 0.0)
    }

    /// As many as it says; each takes a byte at least.
    fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.up_to(self.0.len() as u64)?;
        (0..length).map(|_| read(self)).collect()
    }

    fn stored(&mut self) -> Option<Vec<Stored>> {
        self.list(|from| Some(Stored { state: from.number()?, slot: from.number()? }))
    }

    fn plan(&mut self) -> Option<Plan> {
        let (steps, slots) = (self.up_to(MAX_STEPS)?, self.up_to(MAX_STEPS)?);
        let resilience = self.number()?;
        let adjoint = Some(self.number()?).filter(|distance| *distance > 0);
        let (rule, _) = *Rule::ALL.get(usize::try_from(self.number()?).ok()?)?;
        let plan = Plan { steps, slots, resilience, adjoint, rule };
        let fits = match steps {
            // Not known.
            0 => slots > 0 && resilience == u64::MAX && rule == Rule::default(),
            _ => plan.check().is_ok(),
        };
        fits.then_some(plan)
    }

    fn course(&mut self) -> Option<Course> {
        let plan = self.plan()?;
        let disk = self.option(|from| {
            let slots = from.up_to(MAX_STEPS).filter(|slots| *slots > 0)?;
            Some(Disk { slots, write: from.up_to(MAX_COST)?, read: from.up_to(MAX_COST)? })
        })?;
        let threshold =
            self.option(|from| Some(Threshold { work: from.float()?, turn: from.float()? }))?;
        let ended = self.flag()?;
        let way = match (self.number()?, disk) {
            (0, None) => Way::Before,
            (0, Some(_)) if plan.steps > 0 && plan.resilience == u64::MAX => Way::Before,
            (1, None) if plan.steps > 0 => Way::Known(self.schedule(plan, threshold)?),
            (2, None) if plan.steps == 0 => Way::Open(self.online(plan.slots)?),
            (3, Some(disk)) if plan.steps > 0 && plan.resilience == u64::MAX => {
                Way::Levels(self.two_level(plan, disk, threshold)?)
            }
            _ => return None,
        };
        let fine = match &way {
            Way::Known(schedule) => schedule.fine,
            Way::Levels(schedule) => schedule.fine,
            _ => 1,
        };
        let is_early = ended && fine > 0;
        let is_twice = threshold.is_some() && plan.adjoint.is_some();
        (!is_early && !is_twice).then_some(Course { plan, disk, threshold, way, ended })
    }

    fn done(&mut self) -> Option<Done> {
        let advances = self.wide().filter(|number| *number < 1 << 100)?;
        let [takeshots, turns, adjoints] = [(); 3].map(|()| self.up_to(MOST_COUNTED));
        Some(Done { advances, takeshots: takeshots?, turns: turns?, adjoints: adjoints? })
    }

    fn upkeep(&mut self, threshold: Option<Threshold>) -> Option<(Upkeep, Done)> {
        let since = self.option(Reader::done)?;
        let done = self.done()?;
        let fits =
            since.is_none_or(|since| since.advances <= done.advances && since.turns <= done.turns);
        fits.then_some((Upkeep { threshold, since }, done))
    }

    fn schedule(&mut self, plan: Plan, threshold: Option<Threshold>) -> Option<Schedule> {
        let (stored, free) = (self.stored()?, self.stored()?);
        let unused = self.up_to(plan.slots)?;
        let at = self.option(Reader::number)?;
        let moves = self.stored()?.iter().map(|pair| (pair.state, pair.slot)).collect::<Vec<_>>();
        let target = self.option(Reader::number)?;
        let fine = self.up_to(plan.steps)?;
        let (upkeep, done) = self.upkeep(threshold)?;
        let used = stored.iter().chain(&free).map(|stored| stored.slot).collect();
        let states: Vec<u64> = stored.iter().map(|stored| stored.state).collect();
        let has_room = states.first() == Some(&0) || (states.len() as u64) < plan.slots;
        let fits = has_room
            && are_all(used, 0..unused)
            && is_place(&states, at, fine, fine == 0)
            && target.is_none_or(|target| at.is_some() && target < fine)
            && are_moves(&moves, &states, (at, target), fine);
        fits.then_some(Schedule {
            plan,
            stored,
            free,
            unused,
            at,
            moves,
            target,
            fine,
            upkeep,
            done,
        })
    }

    fn two_level(
        &mut self,
        plan: Plan,
        disk: Disk,
        threshold: Option<Threshold>,
    ) -> Option<TwoLevel> {
        let on_disk = self.stored()?;
        let (in_memory, free) = (self.list(Reader::number)?, self.list(Reader::number)?);
        let unused = self.up_to(plan.slots + disk.slots)?;
        let at = self.option(Reader::number)?;
        let fine = self.up_to(plan.steps)?;
        let (upkeep, done) = self.upkeep(threshold)?;
        let [writes, reads] = [(); 2].map(|()| self.up_to(MOST_COUNTED));
        let transfers = Transfers { writes: writes?, reads: reads? };
        let used = on_disk.iter().map(|stored| stored.slot).chain(free.iter().copied()).collect();
        let mut states: Vec<u64> = on_disk.iter().map(|stored| stored.state).collect();
        // The lowest in memory may be the highest on disk.
        let twice = in_memory.first().is_some_and(|lowest| states.last() == Some(lowest));
        states.extend(&in_memory[usize::from(twice)..]);
        let fits = (states.is_empty() || states[0] == 0)
            && unused >= plan.slots
            && are_all(used, plan.slots..unused)
            && in_memory.len() as u64 <= plan.slots
            && is_place(&states, at, fine, fine == 0);
        fits.then(|| TwoLevel {
            plan,
            disk,
            levels: OnceCell::new(),
            on_disk,
            in_memory,
            free,
            unused,
            at,
            fine,
            upkeep,
            done,
            transfers,
        })
    }

    fn online(&mut self, slots: u64) -> Option<Online> {
        let stored = self.stored()?;
        let at = self.option(|from| from.up_to(MAX_STEPS))?;
        let is_decided = self.flag()?;
        let mut used: Vec<u64> = stored.iter().map(|stored| stored.slot).collect();
        used.sort_unstable();
        let differ = used.windows(2).all(|pair| pair[0] < pair[1]);
        let there = used.last().is_none_or(|last| *last < slots);
        let Some(last) = stored.last().map(|last| last.state) else {
            let is_new = at == Some(0) && !is_decided;
            return is_new.then(|| Online::new(slots));
        };
        let ascend = stored[0].state == 0
            && stored.windows(2).all(|pair| pair[0].state < pair[1].state)
            && last <= MAX_STEPS;
        let decided = match (at, is_decided) {
            (None, true) => last,
            (Some(at), true) if at >= last => at,
            (Some(at), false) if at > last => at - 1,
            _ => return None,
        };
        (differ && there && ascend).then(|| Online::at_some_point(slots, stored, at, decided))
    }
}

/// Whether `slots` are those of `range`, each once.
fn are_all(mut slots: Vec<u64>, range: std::ops::Range<u64>) -> bool {
    slots.sort_unstable();
    slots.len() as u64 == range.end - range.start && slots.into_iter().eq(range)
}

/// Whether the states ascend to below `fine`, from state 0 on if the application has not that one, and
/// the application has none that lies below the last, or beyond the adjoint.
fn is_place(states: &[u64], at: Option<u64>, fine: u64, ended: bool) -> bool {
    if ended {
        return states.is_empty() && at.is_none_or(|at| at == 0);
    }
    let ascend = states.windows(2).all(|pair| pair[0] < pair[1]);
    let below = states.last().is_none_or(|last| *last < fine);
    let begun = states.first() == Some(&0);
    let lies = match at {
        None => begun,
        Some(at) if begun => at < fine && states.last().is_none_or(|last| *last <= at),
        Some(at) => at == 0,
    };
    ascend && below && lies
}

/// Whether stored states other than state 0 are moved on, each to below where the next one will be.
fn are_moves(
    moves: &[(u64, u64)],
    states: &[u64],
    (at, target): (Option<u64>, Option<u64>),
    fine: u64,
) -> bool {
    // Before state 0 is stored nothing was restored. Later the application is behind the last one, and
    // what it has or goes to is stored next; or it has just that, which is moved no more.
    let has = at.filter(|_| states.first() == Some(&0));
    let restored = has.filter(|at| states.last() == Some(at));
    let mut end = match has.filter(|_| restored.is_none()) {
        Some(at) => target.map_or(at, |target| target.max(at)),
        None => fine,
    };
    let mut left = moves.iter().rev().peekable();
    for &state in states.iter().rev() {
        let mut place_then = state;
        if let Some(&&(_, to)) = left.peek().filter(|(moved, _)| *moved == state) {
            left.next();
            if restored == Some(state) || state == 0 || to <= state || to >= end {
                return false;
            }
            place_then = to;
        }
        end = place_then;
    }
    left.peek().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::adjoint::resume::Survivors;
    use crate::adjoint::schedule::Action;

    /// Courses of all kinds, with and without what can be set.
    fn courses() -> Vec<Course> {
        let mut courses: Vec<Course> =
            [(1, 1), (50, 1), (100, 5), (90, 200)].map(|(l, c)| Course::new(l, c).unwrap()).into();
        let mut course = Course::new(100, 5).unwrap();
        course.set_resilience(30).unwrap();
        course.set_adjoint(12).unwrap();
        course.set_rule(Rule::Resilient).unwrap();
        courses.push(course.clone());
        let states = [(0, 0), (30, 1), (44, 2), (51, 3), (56, 4)];
        let states = states.map(|(state, slot)| Stored { state, slot }).to_vec();
        let survivors = Survivors { states, adjoint: Some(64), at_start: false };
        course.resume(&survivors).unwrap();
        courses.push(course);
        let mut course = Course::new(120, 3).unwrap();
        course.set_disk(4, 2.0, 1.5).unwrap();
        course.set_failures(300.0, 2.0, 3.0).unwrap();
        courses.push(course);
        courses.push(Course::online(4).unwrap());
        courses
    }

    /// At each action of each: what is unpacked says the same up to the end, and packs the same.
    #[test]
    fn it_goes_on_as_if_nothing_had_happened() {
        for mut course in courses() {
            loop {
                let bytes = course.pack();
                let mut same = Course::unpack(&bytes).unwrap();
                assert_eq!(same.pack(), bytes, "{course:?}");
                let action = course.next_action().unwrap();
                assert_eq!(same.next_action().unwrap(), action);
                assert_eq!(same.pack(), course.pack(), "{action:?} of {course:?}");
                match action {
                    Action::Advance { to: 70, .. } if course.steps() == 0 => course.end().unwrap(),
                    Action::Terminate => break,
                    _ => {}
                }
            }
            let mut ended = Course::unpack(&course.pack()).unwrap();
            assert!(ended.next_action().is_err());
        }
    }

    /// After crashes with whatever is left, and states that are moved before they are used: what is
    /// looked at is not too much.
    #[test]
    fn what_goes_on_after_a_crash_is_not_refused() {
        let mut seed = 5_u64;
        let mut random = |below: u64| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % below
        };
        let mut moved = 0;
        for _ in 0..400 {
            let (steps, slots) = (1 + random(70), 1 + random(7));
            let mut course = Course::new(steps as i64, slots as i64).unwrap();
            if random(2) == 0 {
                course.set_resilience((steps.div_ceil(slots) + random(9)) as i64).unwrap();
            }
            let states = (0..slots).filter(|_| random(3) > 0);
            let states =
                states.map(|slot| (slot, if slot == 0 { 0 } else { slot })).collect::<Vec<_>>();
            let states = states.into_iter().map(|(slot, low)| Stored {
                state: if low == 0 { 0 } else { random(steps) },
                slot,
            });
            let states = states.collect();
            let adjoint = Some(random(steps + 1));
            course.resume(&Survivors { states, adjoint, at_start: true }).unwrap();
            if let Way::Known(schedule) = &course.way {
                moved += schedule.moves.len();
            }
            loop {
                let mut same = Course::unpack(&course.pack()).unwrap();
                let action = course.next_action().unwrap();
                assert_eq!(same.next_action().unwrap(), action);
                if action == Action::Terminate {
                    break;
                }
            }
        }
        assert!(moved > 20, "{moved}");
    }

    #[test]
    fn other_bytes_are_refused() {
        let bytes = Course::new(100, 5).unwrap().pack();
        for (bytes, words) in [
            (&b""[..], "0 bytes"),
            (b"VSc", "3 bytes"),
            (b"VSCH\x01\x00", "do not begin"),
            (b"VSch\x02\x00", "version 2, not 1"),
            (&bytes[..bytes.len() - 1], "up to byte"),
        ] {
            let message = Course::unpack(bytes).unwrap_err().to_string();
            assert!(message.contains(words), "{message}");
        }
        let longer = [&bytes[..], b"\0"].concat();
        assert!(Course::unpack(&longer).is_err());
    }
}
