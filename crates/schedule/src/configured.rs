//! A schedule as applications use it: first settings, then actions, with errors for wrong use.

use super::adjoint_interval::Threshold;
use super::binomial::MAX_STEPS;
use super::bound;
use super::cost::{PlanCost, MOST_ACTIONS};
use super::disk::{Disk, MAX_COST, UNIT};
use super::error::{Error, Kind, Result};
use super::infeasible::{both, check_rule, mixed_and, refusal, too_many, wrong_slots};
use super::levels::TwoLevel;
use super::mixed::Mixed;
use super::online::Online;
use super::planned_stop;
use super::resume::{resume, Lost, Survivors};
use super::rule::Rule;
use super::schedule::{Action, Plan, Schedule, Stored, Unfit};
use super::two_level_cost::MOST_PAIRS;

/// A plan, and the schedule once it has begun.
#[derive(Clone, Debug)]
pub struct ConfiguredSchedule {
    /// Its steps are 0 while they are not known.
    pub(super) plan: Plan,
    pub(super) disk: Option<Disk>,
    /// If set, the adjoint is stored by the work that a crash would lose.
    pub(super) threshold: Option<Threshold>,
    /// Whether slots have states or records, instead of the plan's rule.
    pub(super) mixed: bool,
    pub(super) way: ActiveSchedule,
    /// Whether [`Action::Terminate`] was returned.
    pub(super) ended: bool,
}

/// The schedule in progress, by its kind.
#[derive(Clone, Debug)]
pub(super) enum ActiveSchedule {
    /// No action was returned yet.
    Before,
    /// All slots are alike.
    Known(Schedule),
    /// The number of steps is not known.
    Open(Online),
    /// Some slots are on disk.
    Levels(TwoLevel),
    /// Slots have states or records.
    Mixed(Mixed),
}

impl ConfiguredSchedule {
    /// For `steps` steps and `slots` slots, without distances and with the optimal rule.
    pub fn new(steps: i64, slots: i64) -> Result<ConfiguredSchedule> {
        let plan = plan(u64::try_from(steps).unwrap_or(0), slots);
        plan.check().map_err(|unfit| match unfit {
            Unfit::Steps(_) => {
                Error::invalid(format!("steps = {steps}: 1 to {MAX_STEPS} are possible"))
            }
            Unfit::Slots(_) => wrong_slots(slots),
            other => refusal(&plan, other),
        })?;
        Ok(ConfiguredSchedule::of(plan))
    }

    /// For an unknown number of steps and `slots` slots.
    pub fn online(slots: i64) -> Result<ConfiguredSchedule> {
        let plan = plan(0, slots);
        match (1..=MAX_STEPS).contains(&plan.slots) {
            true => Ok(ConfiguredSchedule::of(plan)),
            false => Err(wrong_slots(slots)),
        }
    }

    fn of(plan: Plan) -> ConfiguredSchedule {
        let (disk, threshold, way) = (None, None, ActiveSchedule::Before);
        ConfiguredSchedule { plan, disk, threshold, mixed: false, way, ended: false }
    }

    /// Sets how many steps stored states may be apart.
    pub fn set_resilience(&mut self, distance: i64) -> Result<()> {
        self.check_known("a resilience distance")?;
        if let Some(Disk { slots, .. }) = self.disk {
            return Err(both(slots, distance));
        }
        self.set(distance, "resilience", |plan, distance| plan.resilience = distance)
    }

    /// Sets after how many of its steps the adjoint is stored.
    pub fn set_adjoint(&mut self, distance: i64) -> Result<()> {
        self.set(distance, "adjoint", |plan, distance| plan.adjoint = Some(distance))?;
        self.threshold = None;
        Ok(())
    }

    /// Stores the adjoint where the expected loss in a failure outweighs the write. All times are in forward
    /// steps: `mtbf` between two failures on average, `write_cost` for a write of the adjoint, and
    /// `turn_cost` for a step that is recorded and reversed.
    pub fn set_failures(&mut self, mtbf: f64, write_cost: f64, turn_cost: f64) -> Result<()> {
        self.check_settings("how often it fails")?;
        self.check_not_mixed("a mean time between failures")?;
        for (what, value) in [("mtbf", mtbf), ("write_cost", write_cost), ("turn_cost", turn_cost)]
        {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::invalid(format!(
                    "{what} = {value}: it is a finite number of steps above 0"
                )));
            }
        }
        let threshold = Threshold::new(write_cost, mtbf, turn_cost);
        if !(threshold.work.is_finite() && threshold.work > 0.0) {
            return Err(Error::invalid(format!(
                "mtbf = {mtbf:e} and write_cost = {write_cost:e}: their product is no number that can be \
                 computed with"
            )));
        }
        self.threshold = Some(threshold);
        self.plan.adjoint = None;
        Ok(())
    }

    /// Adds slots on disk; `write` and `read` are the times of these transfers in forward steps.
    pub fn set_disk(&mut self, slots: i64, write: f64, read: f64) -> Result<()> {
        self.check_settings("disk")?;
        self.check_known("disk")?;
        self.check_not_mixed(&format!("{slots} slots on disk"))?;
        if self.plan.resilience < u64::MAX {
            return Err(both(slots, self.plan.resilience));
        }
        let Some(slots) = u64::try_from(slots).ok().filter(|n| (1..=MAX_STEPS).contains(n)) else {
            return Err(Error::invalid(format!(
                "{slots} slots on disk: 1 to {MAX_STEPS} are possible"
            )));
        };
        let most = (MAX_COST / UNIT) as f64;
        let cost = |what: &str, steps: f64| match (0.0..=most).contains(&steps) {
            // At most MAX_COST.
            true => Ok((steps * UNIT as f64).round() as u64),
            false => {
                Err(Error::invalid(format!("{what} cost {steps}: 0 to {most} steps are possible")))
            }
        };
        let disk = Disk { slots, write: cost("write", write)?, read: cost("read", read)? };
        check_rule(self.plan.rule, Some(disk))?;
        self.disk = Some(disk);
        Ok(())
    }

    fn set(&mut self, distance: i64, what: &str, set: impl FnOnce(&mut Plan, u64)) -> Result<()> {
        self.check_settings(&format!("the {what} distance"))?;
        self.check_not_mixed(&format!("the {what} distance {distance}"))?;
        let Some(distance) = u64::try_from(distance).ok().filter(|distance| *distance > 0) else {
            return Err(Error::invalid(format!("{what} distance {distance}: it is 1 or more")));
        };
        let mut plan = self.plan;
        set(&mut plan, distance);
        if plan.steps > 0 {
            plan.check().map_err(|unfit| refusal(&plan, unfit))?;
        }
        self.plan = plan;
        Ok(())
    }

    /// Sets where states are stored.
    pub fn set_rule(&mut self, rule: Rule) -> Result<()> {
        self.check_settings("the rule")?;
        self.check_known("a rule")?;
        check_rule(rule, self.disk)?;
        self.plan.rule = rule;
        self.mixed = false;
        Ok(())
    }

    /// Has each slot take a state or the record of a step, whichever takes fewer advances, instead of following
    /// a rule for the distances between states.
    pub fn set_mixed(&mut self) -> Result<()> {
        self.check_settings("the rule")?;
        self.check_known("the rule mixed")?;
        let Plan { resilience, adjoint, .. } = self.plan;
        if let Some(Disk { slots, .. }) = self.disk {
            return Err(mixed_and(&format!("{slots} slots on disk")));
        }
        if resilience < u64::MAX {
            return Err(mixed_and(&format!("the resilience distance {resilience}")));
        }
        if let Some(distance) = adjoint {
            return Err(mixed_and(&format!("the adjoint distance {distance}")));
        }
        if self.threshold.is_some() {
            return Err(mixed_and("a mean time between failures"));
        }
        self.plan.rule = Rule::default();
        self.mixed = true;
        Ok(())
    }

    fn check_not_mixed(&self, what: &str) -> Result<()> {
        match self.mixed {
            true => Err(mixed_and(what)),
            false => Ok(()),
        }
    }

    fn check_settings(&self, what: &str) -> Result<()> {
        match self.way {
            ActiveSchedule::Before => Ok(()),
            _ => Err(Error::invalid(format!("{what} is set before the first action"))),
        }
    }

    fn check_known(&self, what: &str) -> Result<()> {
        match self.plan.steps {
            0 => Err(Error::invalid(format!("{what}: the number of steps is not known"))),
            _ => Ok(()),
        }
    }

    /// Continues after a crash with the states that are left.
    pub fn resume(&mut self, survivors: &Survivors) -> Result<()> {
        self.check_settings("what has survived")?;
        self.check_not_mixed("going on after a crash")?;
        let fine = survivors.adjoint.unwrap_or(self.plan.steps).min(self.plan.steps);
        let lost = || {
            Error::new(
                Kind::Missing,
                "state 0 is in none of the slots, and without it the first steps cannot be repeated",
            )
        };
        self.way = match self.disk {
            _ if self.plan.steps == 0 => {
                if let Some(adjoint) = survivors.adjoint {
                    return Err(Error::invalid(format!(
                        "the adjoint was stored at state {adjoint}, when the number of steps was \
                         known: go on with a schedule for that number"
                    )));
                }
                let (slots, states) = (self.plan.slots, &survivors.states);
                ActiveSchedule::Open(match survivors.at_start {
                    true => Online::resumed_at_start(slots, states),
                    false => Online::resumed(slots, states).ok_or_else(lost)?,
                })
            }
            Some(disk) => {
                let way = TwoLevel::resumed(self.plan, disk, &survivors.states, fine);
                if !survivors.at_start && way.on_disk().is_empty() {
                    return Err(lost());
                }
                ActiveSchedule::Levels(way)
            }
            None => match resume(self.plan, survivors) {
                Ok(schedule) => ActiveSchedule::Known(schedule),
                Err(Lost::Start) => return Err(lost()),
            },
        };
        self.set_threshold();
        Ok(())
    }

    /// Continues after a planned stop, or a crash after one: with the states in all slots and in one
    /// additional place, whose number follows theirs. All slots are alike.
    pub fn resume_stopped(&mut self, survivors: &Survivors) -> Result<()> {
        self.check_settings("what has survived")?;
        if self.disk.is_some() || self.plan.steps == 0 || self.mixed {
            return self.resume(survivors);
        }
        let Ok(schedule) = planned_stop::resume(self.plan, survivors) else {
            // `resume` says what is lost.
            return self.resume(&Survivors { states: Vec::new(), ..survivors.clone() });
        };
        self.way = ActiveSchedule::Known(schedule);
        self.set_threshold();
        Ok(())
    }

    /// Returns the next action.
    pub fn next_action(&mut self) -> Result<Action> {
        if self.ended {
            return Err(Error::invalid("the schedule has ended: the adjoint has come to state 0"));
        }
        if matches!(self.way, ActiveSchedule::Before) {
            self.way = match self.disk {
                _ if self.plan.steps == 0 => ActiveSchedule::Open(Online::new(self.plan.slots)),
                _ if self.mixed => {
                    ActiveSchedule::Mixed(Mixed::new(self.plan.steps, self.plan.slots))
                }
                Some(disk) => ActiveSchedule::Levels(TwoLevel::new(self.plan, disk)),
                None => ActiveSchedule::Known(Schedule::new(self.plan)),
            };
            self.set_threshold();
        }
        let action = match &mut self.way {
            // It was set above.
            ActiveSchedule::Before => Action::Terminate,
            ActiveSchedule::Known(schedule) => schedule.next_action(),
            ActiveSchedule::Levels(schedule) => schedule.next_action(),
            ActiveSchedule::Mixed(schedule) => schedule.next_action(),
            ActiveSchedule::Open(online) if online.at() >= Some(MAX_STEPS) => {
                return Err(Error::invalid(format!(
                    "the pass has come to state {MAX_STEPS}, and cannot go on"
                )))
            }
            ActiveSchedule::Open(online) => online.next_action(),
        };
        self.ended = action == Action::Terminate;
        Ok(action)
    }

    /// Ends the pass: the state that the application has is the last one.
    pub fn end(&mut self) -> Result<()> {
        let Some(schedule) = self.pass()?.end(self.plan.adjoint) else {
            return Err(Error::invalid("no step was made, so that there is nothing to reverse"));
        };
        self.go_back(schedule);
        Ok(())
    }

    /// Ends the pass with the next step, which is the last one.
    pub fn end_after_next(&mut self) -> Result<()> {
        if matches!(self.way, ActiveSchedule::Before) && self.plan.steps == 0 {
            // It is the only step.
            self.way = ActiveSchedule::Open(Online::new(self.plan.slots));
        }
        let Some(schedule) = self.pass()?.end_after_next(self.plan.adjoint) else {
            return Err(Error::invalid(
                "the application has no state from which a step can be made: the next action restores it",
            ));
        };
        self.go_back(schedule);
        Ok(())
    }

    fn pass(&self) -> Result<&Online> {
        match (&self.way, self.plan.steps) {
            (ActiveSchedule::Open(online), _) => Ok(online),
            (_, 0) => Err(Error::invalid("the pass has not begun")),
            (_, steps) => Err(Error::invalid(format!("the number of steps is known: {steps}"))),
        }
    }

    /// Ends the pass and begins the way back.
    fn go_back(&mut self, schedule: Schedule) {
        self.plan = *schedule.plan();
        self.way = ActiveSchedule::Known(schedule);
        self.set_threshold();
    }

    fn set_threshold(&mut self) {
        match (self.threshold, &mut self.way) {
            (Some(threshold), ActiveSchedule::Known(schedule)) => {
                schedule.store_adjoint_by_work(threshold)
            }
            (Some(threshold), ActiveSchedule::Levels(schedule)) => {
                schedule.store_adjoint_by_work(threshold)
            }
            _ => {}
        }
    }

    /// The states that are stored and will be restored, ascending; none for an online, a two-level or a mixed
    /// schedule.
    pub fn stored(&self) -> &[Stored] {
        match &self.way {
            ActiveSchedule::Known(schedule) => schedule.stored(),
            ActiveSchedule::Before
            | ActiveSchedule::Open(_)
            | ActiveSchedule::Levels(_)
            | ActiveSchedule::Mixed(_) => &[],
        }
    }

    /// The number of steps of the sweep; 0 if it is not known.
    pub fn steps(&self) -> u64 {
        self.plan.steps
    }

    /// The cost from beginning to end if nothing fails. For a pass whose end was not known at its beginning,
    /// it is the cost of a schedule that knows the end.
    pub fn cost(&self) -> Result<PlanCost> {
        self.check_known("the cost")?;
        let Plan { steps, slots, .. } = self.plan;
        match self.disk {
            _ if self.mixed => Mixed::cost(steps, slots).ok_or_else(|| too_many(&self.plan)),
            Some(disk) => PlanCost::of_levels(&self.plan, disk).ok_or_else(|| {
                Error::invalid(format!(
                    "{} steps with {} slots on disk: figures are for {MOST_PAIRS} stretches that are not alike, \
                     or {MOST_ACTIONS} actions, at the most",
                    self.plan.steps, disk.slots
                ))
            }),
            None => PlanCost::of(&self.plan).ok_or_else(|| too_many(&self.plan)),
        }
    }

    /// The least resilience distance that costs no advances.
    pub fn least_distance(&self) -> Result<u64> {
        self.check_known("the least distance")?;
        Ok(bound::least_free(self.plan.steps, self.plan.slots))
    }
}

/// A plan for this many steps and slots, without distances and with the optimal rule.
fn plan(steps: u64, slots: i64) -> Plan {
    Plan {
        steps,
        slots: u64::try_from(slots).unwrap_or(0),
        resilience: u64::MAX,
        adjoint: None,
        rule: Rule::default(),
    }
}

#[cfg(test)]
#[path = "configured_tests.rs"]
mod tests;
