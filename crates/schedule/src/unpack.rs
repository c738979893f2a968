//! Reads a schedule from bytes, which [`super::pack`] or anybody else may have written.
//!
//! The checksum refuses bytes that have changed since they were written. The rest is checked until no action
//! can go wrong: states ascend, slots differ and exist, nothing lies beyond the adjoint. So bytes are either
//! refused or are a schedule that runs to its end. Each value has exactly one encoding.

use std::cell::OnceCell;

use super::adjoint_interval::{AdjointInterval, Threshold};
use super::binomial::MAX_STEPS;
use super::configured::{ActiveSchedule, ConfiguredSchedule};
use super::disk::{Disk, MAX_COST};
use super::error::{Error, Kind, Result};
use super::levels::{Transfers, TwoLevel};
use super::mixed::{Mixed, SlotContent};
use super::online::Online;
use super::pack::{checksum, MARK, MIXED, VERSION};
use super::rule::Rule;
use super::schedule::{Done, Plan, Schedule, Stored};

/// Counters are at most this, so that they cannot overflow.
const MOST_COUNTED: u64 = 1 << 62;

impl ConfiguredSchedule {
    /// What [`ConfiguredSchedule::pack`] has written.
    pub fn unpack(bytes: &[u8]) -> Result<ConfiguredSchedule> {
        let wrong = |what: &str| Err(Error::new(Kind::Damaged, format!("{what} of a schedule")));
        let Some((mark, rest)) = bytes.split_first_chunk::<4>() else {
            return wrong(&format!("{} bytes are not those", bytes.len()));
        };
        let Some((version, rest)) = rest.split_first().filter(|_| *mark == MARK) else {
            return wrong("the bytes do not begin as those");
        };
        if *version != VERSION {
            let text = format!(
                "the bytes of a schedule are of version {version}, and this library reads version \
                 {VERSION}"
            );
            return Err(Error::new(Kind::Damaged, text));
        }
        let Some((rest, expected)) = rest.split_last_chunk::<8>() else {
            return wrong(&format!("{} bytes are too few for those", bytes.len()));
        };
        let sealed = &bytes[..bytes.len() - expected.len()];
        if checksum(sealed) != *expected {
            return wrong("the checksum does not fit: something has changed in the bytes");
        }
        let mut from = ScheduleReader(rest);
        match from.course().filter(|_| from.0.is_empty()) {
            Some(course) => Ok(course),
            None => {
                let at = sealed.len() - from.0.len();
                wrong(&format!("up to byte {at} of {} these are no bytes", bytes.len()))
            }
        }
    }
}

/// The bytes still to be read. Each function returns `None` if they are not what it expects.
struct ScheduleReader<'a>(&'a [u8]);

impl ScheduleReader<'_> {
    fn wide(&mut self) -> Option<u128> {
        let (mut number, mut shift) = (0_u128, 0);
        loop {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let digit = u128::from(byte & 0x7f);
            if digit.leading_zeros() < shift || (*byte == 0 && shift > 0) {
                // Too large, or longer than necessary: each number has exactly one encoding.
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

    /// A list that begins with its length; each element takes at least a byte.
    fn list<T>(&mut self, read: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let length = self.up_to(self.0.len() as u64)?;
        (0..length).map(|_| read(self)).collect()
    }

    fn stored(&mut self) -> Option<Vec<Stored>> {
        self.list(|from| Some(Stored { state: from.number()?, slot: from.number()? }))
    }

    /// The plan, and whether it is mixed.
    fn plan(&mut self) -> Option<(Plan, bool)> {
        let (steps, slots) = (self.up_to(MAX_STEPS)?, self.up_to(MAX_STEPS)?);
        let resilience = self.number()?;
        let adjoint = Some(self.number()?).filter(|distance| *distance > 0);
        let number = self.up_to(MIXED)?;
        let mixed = number == MIXED;
        let (rule, _) = *Rule::ALL.get(if mixed { 0 } else { number as usize })?;
        let plan = Plan { steps, slots, resilience, adjoint, rule };
        let fits = match steps {
            // The number of steps is not known.
            0 => slots > 0 && resilience == u64::MAX && rule == Rule::default() && !mixed,
            _ => plan.check().is_ok() && !(mixed && (resilience < u64::MAX || adjoint.is_some())),
        };
        fits.then_some((plan, mixed))
    }

    fn course(&mut self) -> Option<ConfiguredSchedule> {
        let (plan, mixed) = self.plan()?;
        let disk = self.option(|from| {
            let slots = from.up_to(MAX_STEPS).filter(|slots| *slots > 0)?;
            Some(Disk { slots, write: from.up_to(MAX_COST)?, read: from.up_to(MAX_COST)? })
        })?;
        let threshold =
            self.option(|from| Some(Threshold { work: from.float()?, turn: from.float()? }))?;
        let ended = self.flag()?;
        let way = match (self.number()?, disk) {
            (4, None) if mixed => ActiveSchedule::Mixed(self.mixed(&plan)?),
            (1.., _) if mixed => return None,
            (0, None) => ActiveSchedule::Before,
            (0, Some(_)) if !mixed && plan.steps > 0 && plan.resilience == u64::MAX => {
                ActiveSchedule::Before
            }
            (1, None) if plan.steps > 0 => ActiveSchedule::Known(self.schedule(plan, threshold)?),
            (2, None) if plan.steps == 0 => ActiveSchedule::Open(self.online(plan.slots)?),
            (3, Some(disk)) if plan.steps > 0 && plan.resilience == u64::MAX => {
                ActiveSchedule::Levels(self.two_level(plan, disk, threshold)?)
            }
            _ => return None,
        };
        let fine = match &way {
            ActiveSchedule::Known(schedule) => schedule.fine,
            ActiveSchedule::Levels(schedule) => schedule.fine,
            ActiveSchedule::Mixed(schedule) => schedule.fine,
            _ => 1,
        };
        let is_early = ended && fine > 0;
        let is_twice = threshold.is_some() && (plan.adjoint.is_some() || mixed);
        let course = ConfiguredSchedule { plan, disk, threshold, mixed, way, ended };
        (!is_early && !is_twice).then_some(course)
    }

    fn done(&mut self) -> Option<Done> {
        let advances = self.wide().filter(|number| *number < 1 << 100)?;
        let [takeshots, turns, adjoints] = [(); 3].map(|()| self.up_to(MOST_COUNTED));
        Some(Done { advances, takeshots: takeshots?, turns: turns?, adjoints: adjoints? })
    }

    fn interval(&mut self, threshold: Option<Threshold>) -> Option<(AdjointInterval, Done)> {
        let since = self.option(ScheduleReader::done)?;
        let done = self.done()?;
        let fits =
            since.is_none_or(|since| since.advances <= done.advances && since.turns <= done.turns);
        fits.then_some((AdjointInterval { threshold, since }, done))
    }

    fn schedule(&mut self, plan: Plan, threshold: Option<Threshold>) -> Option<Schedule> {
        let (stored, free) = (self.stored()?, self.stored()?);
        let unused = self.up_to(plan.slots)?;
        let at = self.option(ScheduleReader::number)?;
        let moves = self.stored()?.iter().map(|pair| (pair.state, pair.slot)).collect::<Vec<_>>();
        let target = self.option(ScheduleReader::number)?;
        let fine = self.up_to(plan.steps)?;
        let (interval, done) = self.interval(threshold)?;
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
            interval,
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
        let (in_memory, free) =
            (self.list(ScheduleReader::number)?, self.list(ScheduleReader::number)?);
        let unused = self.up_to(plan.slots + disk.slots)?;
        let at = self.option(ScheduleReader::number)?;
        let fine = self.up_to(plan.steps)?;
        let (interval, done) = self.interval(threshold)?;
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
            interval,
            done,
            transfers,
        })
    }

    fn mixed(&mut self, &Plan { steps, slots, .. }: &Plan) -> Option<Mixed> {
        let kept = self.list(|from| {
            let state = from.up_to(steps)?;
            Some(SlotContent { state, slot: from.number()?, is_record: from.flag()? })
        })?;
        let (free, unused) = (self.list(ScheduleReader::number)?, self.up_to(slots)?);
        let at = self.option(ScheduleReader::number)?;
        let (fine, done) = (self.up_to(steps)?, self.done()?);
        let used = kept.iter().map(|kept| kept.slot).chain(free.iter().copied()).collect();
        let mixed = Mixed { steps, slots, kept, free, unused, at, fine, done };
        (are_all(used, 0..unused) && mixed.runs_to_its_end()).then_some(mixed)
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
        let begun = stored[0].state == 0;
        let ascend =
            stored.windows(2).all(|pair| pair[0].state < pair[1].state) && last <= MAX_STEPS;
        let decided = match (at, is_decided) {
            // After a crash that has left others; there is a slot for state 0.
            (Some(0), true) if !begun && (stored.len() as u64) < slots => {
                let mut online = Online::at_some_point(slots, stored, None, last);
                online.at = at;
                return (differ && there && ascend).then_some(online);
            }
            _ if !begun => return None,
            (None, true) => last,
            (Some(at), true) if at >= last => at,
            (Some(at), false) if at > last => at - 1,
            _ => return None,
        };
        (differ && there && ascend).then(|| Online::at_some_point(slots, stored, at, decided))
    }
}

/// Whether `slots` are exactly those of `range`, each once.
fn are_all(mut slots: Vec<u64>, range: std::ops::Range<u64>) -> bool {
    slots.sort_unstable();
    slots.len() as u64 == range.end - range.start && slots.into_iter().eq(range)
}

/// Whether the states ascend to below `fine`, from state 0 on unless the application has that one, and the
/// state of the application lies neither below the last nor beyond the adjoint.
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

/// Whether stored states other than state 0 are moved, each to below the place of the next one.
fn are_moves(
    moves: &[(u64, u64)],
    states: &[u64],
    (at, target): (Option<u64>, Option<u64>),
    fine: u64,
) -> bool {
    // Before state 0 is stored nothing was restored. Later the application is behind the last state, and
    // stores next what it has or advances to; or it has just restored that state, which is moved no more.
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
