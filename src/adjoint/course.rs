//! A schedule as applications have it: settings first, then actions, and errors for wrong use.

use super::binomial::MAX_STEPS;
use super::outlook::{Outlook, MOST_STATES};
use super::resume::{resume, Lost, Survivors};
use super::rule::Rule;
use super::schedule::{Action, Plan, Schedule, Unfit};
use crate::error::{Error, Kind, Result};

/// A plan, and the schedule once it has begun.
#[derive(Clone, Debug)]
pub struct Course {
    plan: Plan,
    schedule: Option<Schedule>,
    /// [`Action::Terminate`] was given.
    ended: bool,
}

impl Course {
    /// For `steps` steps and `slots` slots, without distances and with the optimal rule.
    pub fn new(steps: i64, slots: i64) -> Result<Course> {
        let plan = Plan {
            steps: u64::try_from(steps).unwrap_or(0),
            slots: u64::try_from(slots).unwrap_or(0),
            resilience: u64::MAX,
            adjoint: None,
            rule: Rule::default(),
        };
        plan.check().map_err(|unfit| match unfit {
            Unfit::Steps(_) => {
                Error::invalid(format!("steps = {steps}: 1 to {MAX_STEPS} are possible"))
            }
            Unfit::Slots(_) => {
                Error::invalid(format!("slots = {slots}: 1 to {MAX_STEPS} are possible"))
            }
            other => refusal(&plan, other),
        })?;
        Ok(Course { plan, schedule: None, ended: false })
    }

    /// How many steps stored states may be apart.
    pub fn set_resilience(&mut self, distance: i64) -> Result<()> {
        self.set(distance, "resilience", |plan, distance| plan.resilience = distance)
    }

    /// After how many steps of the adjoint it is stored.
    pub fn set_adjoint(&mut self, distance: i64) -> Result<()> {
        self.set(distance, "adjoint", |plan, distance| plan.adjoint = Some(distance))
    }

    fn set(&mut self, distance: i64, what: &str, set: impl FnOnce(&mut Plan, u64)) -> Result<()> {
        self.check_settings(&format!("the {what} distance"))?;
        let Some(distance) = u64::try_from(distance).ok().filter(|distance| *distance > 0) else {
            return Err(Error::invalid(format!("{what} distance {distance}: it is 1 or more")));
        };
        let mut plan = self.plan;
        set(&mut plan, distance);
        plan.check().map_err(|unfit| refusal(&plan, unfit))?;
        self.plan = plan;
        Ok(())
    }

    /// Where states are stored.
    pub fn set_rule(&mut self, rule: Rule) -> Result<()> {
        self.check_settings("the rule")?;
        self.plan.rule = rule;
        Ok(())
    }

    fn check_settings(&self, what: &str) -> Result<()> {
        match self.schedule {
            None => Ok(()),
            Some(_) => Err(Error::invalid(format!("{what} is set before the first action"))),
        }
    }

    /// Goes on after a crash with what is left.
    pub fn resume(&mut self, survivors: &Survivors) -> Result<()> {
        self.check_settings("what has survived")?;
        let schedule = resume(self.plan, survivors).map_err(|lost| match lost {
            Lost::Start => Error::new(
                Kind::NotFound,
                "state 0 is in none of the slots, and without it the first steps cannot be repeated",
            ),
        })?;
        self.schedule = Some(schedule);
        Ok(())
    }

    /// The next action.
    pub fn next_action(&mut self) -> Result<Action> {
        if self.ended {
            return Err(Error::invalid("the schedule has ended: the adjoint has come to state 0"));
        }
        let plan = self.plan;
        let action = self.schedule.get_or_insert_with(|| Schedule::new(plan)).next_action();
        self.ended = action == Action::Terminate;
        Ok(action)
    }

    /// Steps of the sweep.
    pub fn steps(&self) -> u64 {
        self.plan.steps
    }

    /// What it costs from beginning to end if nothing goes wrong.
    pub fn outlook(&self) -> Result<Outlook> {
        Outlook::of(&self.plan).ok_or_else(|| too_many(&self.plan))
    }
}

/// A plan with more states in the first sweep than are looked at.
pub fn too_many(plan: &Plan) -> Error {
    let states = plan.slots.min(plan.steps);
    Error::invalid(format!(
        "up to {states} states are stored in the first sweep; figures are for {MOST_STATES} at the most"
    ))
}

/// What is wrong with a plan, in words.
pub fn refusal(plan: &Plan, unfit: Unfit) -> Error {
    let Plan { steps, slots, resilience, .. } = *plan;
    Error::invalid(match unfit {
        Unfit::Steps(steps) => format!("{steps} steps: 1 to {MAX_STEPS} are possible"),
        Unfit::Slots(slots) => format!("{slots} slots: 1 to {MAX_STEPS} are possible"),
        Unfit::Resilience => "a resilience distance of 0: it is 1 or more".to_string(),
        Unfit::Adjoint => "an adjoint distance of 0: it is 1 or more".to_string(),
        Unfit::TooFewSlots(needed) => format!(
            "a resilience distance of {resilience} steps: {slots} slots hold states for {} of the \
             {steps} steps; {needed} slots would do, or a distance of {}",
            slots.saturating_mul(resilience),
            steps.div_ceil(slots)
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn wrong_use_is_refused_and_changes_nothing() {
        for (steps, slots, value) in
            [(0, 1, "steps = 0"), (-4, 1, "steps = -4"), (9, 0, "slots = 0")]
        {
            assert!(message(Course::new(steps, slots)).contains(value));
        }
        let mut course = Course::new(100, 5).unwrap();
        let before = course.outlook().unwrap();
        assert!(message(course.set_resilience(-1)).contains("resilience distance -1"));
        let text = message(course.set_resilience(19));
        assert!(text.contains("95 of the 100 steps; 6 slots") && text.contains("of 20"), "{text}");
        assert!(message(course.set_adjoint(0)).contains("adjoint distance 0"));
        assert_eq!(course.outlook().unwrap(), before);

        let text = message(Course::new(1 << 40, 1 << 40).unwrap().outlook());
        assert!(text.contains("1099511627776 states"), "{text}");

        while course.next_action().unwrap() != Action::Terminate {}
        assert!(message(course.next_action()).contains("has ended"));
        assert!(message(course.set_rule(Rule::Monotone)).contains("before the first action"));
    }
}
