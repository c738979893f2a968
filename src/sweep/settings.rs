//! What a run is to do.

use std::time::Duration;

use crate::adjoint::course::Course;
use crate::adjoint::rule::Rule;
use crate::error::{Error, Result};
use crate::format::names;

/// What stands behind a run's name in that of its adjoints.
const ADJOINTS: &str = ".adjoint";

/// What a run is to do.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of its states; that of its adjoints is made of it.
    pub name: String,
    /// Steps of the forward sweep.
    pub steps: i64,
    /// States that may be stored at a time.
    pub slots: i64,
    /// How many steps stored states may be apart; 0: any number.
    pub resilience: i64,
    /// After how many of its steps the adjoint is stored; 0: as the resilience distance.
    pub adjoint: i64,
    /// It is stored where a failure would cost more than the write instead: the time between failures,
    /// of a write, and of a step that is recorded and reversed, in forward steps.
    pub failures: Option<[f64; 3]>,
    /// Where states are stored.
    pub rule: Rule,
    /// Tells this computation from others of its name.
    pub tag: u64,
    /// Whether states that are computed again are compared with what they were.
    pub verify: bool,
    /// When to stop, if the run has not come to its end.
    pub limit: Option<Duration>,
}

impl Settings {
    /// The name of the adjoints that are stored.
    pub fn name_of_adjoints(&self) -> String {
        format!("{}{ADJOINTS}", self.name)
    }

    /// Everything that all processes must have been given alike, in numbers.
    pub fn numbers(&self) -> Vec<u64> {
        let Settings { steps, slots, resilience, adjoint, tag, verify, .. } = *self;
        let rule = Rule::ALL.iter().position(|(rule, _)| *rule == self.rule).unwrap_or(0) as u64;
        let limit = self.limit.map_or(u64::MAX, |limit| limit.as_millis() as u64);
        let distances = [resilience, adjoint].map(|distance| distance as u64);
        let [resilience, adjoint] = distances;
        let mut numbers = vec![
            steps as u64,
            slots as u64,
            resilience,
            adjoint,
            rule,
            u64::from(verify),
            tag,
            limit,
        ];
        numbers.extend(self.failures.unwrap_or_default().map(f64::to_bits));
        numbers
    }

    /// The schedule, if there is one. Where nothing outlives the job, no adjoint is stored:
    /// `lasting` is false.
    ///
    /// # Errors
    /// A setting that cannot be, with its value.
    pub fn course(&self, lasting: bool) -> Result<Course> {
        names::validate_name(&self.name_of_adjoints())?;
        let mut course = Course::new(self.steps, self.slots)?;
        if self.slots > i64::from(i32::MAX) {
            return Err(Error::invalid(format!(
                "slots = {}: each is a version, and at most {} can be",
                self.slots,
                i32::MAX
            )));
        }
        course.set_rule(self.rule)?;
        if self.resilience != 0 {
            course.set_resilience(self.resilience)?;
        }
        let mut storing = course.clone();
        let adjoint = if self.adjoint == 0 { self.resilience } else { self.adjoint };
        match self.failures {
            Some([mtbf, ..]) if self.adjoint != 0 => {
                return Err(Error::invalid(format!(
                    "adjoint distance {} and mtbf = {mtbf}: the adjoint is stored by one or the other",
                    self.adjoint
                )));
            }
            Some([mtbf, write, turn]) => storing.set_failures(mtbf, write, turn)?,
            None if adjoint != 0 => storing.set_adjoint(adjoint)?,
            None => {}
        }
        if !lasting && self.limit.is_some() {
            return Err(Error::invalid(
                "a time limit, but nothing to go on from later: the job is ephemeral \
                 (ephemeral = true)",
            ));
        }
        Ok(if lasting { storing } else { course })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            name: "shot".into(),
            steps: 100,
            slots: 5,
            resilience: 30,
            adjoint: 0,
            failures: None,
            rule: Rule::default(),
            tag: 0,
            verify: false,
            limit: None,
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_value() {
        let refused = |settings: &Settings, lasting| settings.course(lasting).unwrap_err();
        assert!(settings().course(true).is_ok());
        for (change, text) in [
            ((|s| s.steps = 0) as fn(&mut Settings), "steps = 0"),
            (|s| s.slots = -2, "slots = -2"),
            (|s| s.slots = 1 << 40, "slots = 1099511627776"),
            (|s| s.resilience = 19, "95 of the 100 steps"),
            (|s| s.resilience = -1, "resilience distance -1"),
            (|s| s.adjoint = -7, "adjoint distance -7"),
            (|s| s.failures = Some([-2.0, 1.0, 1.0]), "mtbf = -2"),
            (|s| s.failures = Some([100.0, 0.0, 1.0]), "write = 0"),
            (|s| s.failures = Some([100.0, 1.0, f64::NAN]), "turn = NaN"),
            (
                |s| (s.failures, s.adjoint) = (Some([100.0, 1.0, 1.0]), 9),
                "distance 9 and mtbf = 100",
            ),
            (|s| s.name = "a b".into(), "a b"),
        ] {
            let mut settings = settings();
            change(&mut settings);
            for lasting in [true, false] {
                let error = refused(&settings, lasting).to_string();
                assert!(error.contains(text), "{error}");
            }
        }
        let limited = Settings { limit: Some(Duration::from_secs(1)), ..settings() };
        assert!(limited.course(true).is_ok());
        assert!(refused(&limited, false).to_string().contains("ephemeral"));
    }
}
