//! The settings of a run.

use std::time::Duration;

use super::schedule_error;
use client::regions::COMMON;
use errors::{Error, Result};
use format::names;
use schedule::configured::ConfiguredSchedule;
use schedule::rule::Rule;

/// The suffix of the name of a run's adjoints; the longest suffix.
const ADJOINTS: &str = ".adjoint";
/// The suffix of the name of a run's hashes.
const HASHES: &str = ".hashes";
/// The longest name of a run in bytes.
const LONGEST_NAME: usize = names::LONGEST_NAME - ADJOINTS.len();

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct AdjointSettings {
    /// The name of the run's states; the names of its adjoints and hashes are derived from it.
    pub name: String,
    /// Steps of the forward sweep.
    pub steps: i64,
    /// The number of states that can be stored at a time.
    pub slots: i64,
    /// The largest distance of stored states in steps; 0: any.
    pub resilience: i64,
    /// After how many of its steps the adjoint is stored; 0: after the resilience distance.
    pub adjoint: i64,
    /// Stores the adjoint when a failure would cost more than the write: mean time between failures,
    /// cost of a write, and cost of a recorded and reversed step, in forward steps.
    pub failures: Option<[f64; 3]>,
    /// The rule by which states are stored.
    pub rule: Rule,
    /// Distinguishes this computation from others of its name.
    pub tag: u64,
    /// Whether recomputed states are checked.
    pub verify: bool,
    /// The time limit.
    pub limit: Option<Duration>,
}

/// The names of a run's states, its adjoints and its hashes.
pub fn names_of(name: &str) -> [String; 3] {
    ["", ADJOINTS, HASHES].map(|ending| format!("{name}{ending}"))
}

impl AdjointSettings {
    /// The same with another number of slots.
    pub(crate) fn with_slots(&self, slots: i64) -> AdjointSettings {
        AdjointSettings { slots, ..self.clone() }
    }

    /// The name of the stored adjoints.
    pub fn name_of_adjoints(&self) -> String {
        format!("{}{ADJOINTS}", self.name)
    }

    /// The name of the stored hashes.
    pub(crate) fn name_of_hashes(&self) -> String {
        format!("{}{HASHES}", self.name)
    }

    /// The settings that all processes must have in common, with their names in the C interface.
    pub(crate) const LABELS: [&str; 12] = [
        "name",
        "steps",
        "slots",
        "resilience_distance",
        "adjoint_distance",
        "rule",
        "VELOC_VERIFY_REPLAY",
        "tag",
        "time_limit",
        "mtbf",
        "write_cost",
        "turn_cost",
    ];

    /// The values of the settings in `LABELS`.
    pub fn texts(&self) -> Vec<String> {
        let rule = Rule::ALL.iter().position(|(rule, _)| *rule == self.rule).unwrap_or(0);
        let [mtbf, write, turn] = self.failures.unwrap_or_default();
        vec![
            format!("{:?}", self.name),
            self.steps.to_string(),
            self.slots.to_string(),
            self.resilience.to_string(),
            self.adjoint.to_string(),
            rule.to_string(),
            u8::from(self.verify).to_string(),
            self.tag.to_string(),
            self.limit.map_or(0.0, |limit| limit.as_secs_f64()).to_string(),
            mtbf.to_string(),
            write.to_string(),
            turn.to_string(),
        ]
    }

    fn check_name(&self) -> Result<()> {
        let name = &self.name;
        if name.len() > LONGEST_NAME {
            return Err(Error::invalid(format!(
                "the name {name:?} has {} bytes; with \"{ADJOINTS}\" behind it, for stored adjoints, \
                 {LONGEST_NAME} are possible",
                name.len()
            )));
        }
        if names::validate_name(name).is_err() {
            return Err(Error::invalid(format!(
                "the name {name:?} of an adjoint computation is not allowed; it takes 1 to \
                 {LONGEST_NAME} of the letters a-z A-Z 0-9 _ ."
            )));
        }
        if name == COMMON {
            return Err(Error::invalid(format!(
                "the name {name:?} of an adjoint computation is not allowed; it stands for what \
                 VELOC_Mem_protect has"
            )));
        }
        Ok(())
    }

    /// 0 stands for a default in the C structure; negative numbers are errors.
    fn check_distances(&self) -> Result<()> {
        for (what, distance, zero) in [
            ("resilience_distance", self.resilience, "0 (any number of steps) or more"),
            ("adjoint_distance", self.adjoint, "0 (the resilience distance) or more"),
        ] {
            if distance < 0 {
                return Err(Error::invalid(format!("{what} = {distance}: it must be {zero}")));
            }
        }
        let Some(failures) = self.failures else { return Ok(()) };
        for (what, value) in AdjointSettings::LABELS[9..].iter().zip(failures) {
            if !(value.is_finite() && value > 0.0) {
                return Err(Error::invalid(format!(
                    "{what} = {value}: mtbf, write_cost and turn_cost must be finite numbers of steps above 0, or \
                     all three 0"
                )));
            }
        }
        Ok(())
    }

    /// The schedule for these settings. Without files that survive the job (`durable` is false) it
    /// stores no adjoint.
    ///
    /// # Errors
    /// An impossible setting, with its value.
    pub fn course(&self, durable: bool) -> Result<ConfiguredSchedule> {
        self.check_name()?;
        self.check_distances()?;
        let mut course = ConfiguredSchedule::new(self.steps, self.slots).map_err(schedule_error)?;
        if self.slots > i64::from(i32::MAX) {
            return Err(Error::invalid(format!(
                "slots = {}: each slot is a version, and at most {} are possible",
                self.slots,
                i32::MAX
            )));
        }
        course.set_rule(self.rule).map_err(schedule_error)?;
        if self.resilience != 0 {
            course.set_resilience(self.resilience).map_err(schedule_error)?;
        }
        let mut storing = course.clone();
        let adjoint = if self.adjoint == 0 { self.resilience } else { self.adjoint };
        match self.failures {
            Some([mtbf, ..]) if self.adjoint != 0 => {
                return Err(Error::invalid(format!(
                    "adjoint_distance = {} and mtbf = {mtbf}: one of them must be 0, as only one says where the \
                     adjoint is stored",
                    self.adjoint
                )));
            }
            Some([mtbf, write, turn]) => {
                storing.set_failures(mtbf, write, turn).map_err(schedule_error)?;
            }
            None if adjoint != 0 => storing.set_adjoint(adjoint).map_err(schedule_error)?,
            None => {}
        }
        if !durable && self.limit.is_some() {
            return Err(Error::invalid(
                "time_limit is given, but an ephemeral job (ephemeral = true) leaves nothing to go on from",
            ));
        }
        Ok(if durable { storing } else { course })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl AdjointSettings {
        /// The settings of a small run.
        pub(crate) fn example() -> AdjointSettings {
            AdjointSettings {
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
    }

    fn settings() -> AdjointSettings {
        AdjointSettings::example()
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_value() {
        let schedule_error =
            |settings: &AdjointSettings, durable| settings.course(durable).unwrap_err();
        assert!(settings().course(true).is_ok());
        for (change, text) in [
            ((|s| s.steps = 0) as fn(&mut AdjointSettings), "steps = 0"),
            (|s| s.slots = -2, "slots = -2"),
            (|s| s.slots = 1 << 40, "slots = 1099511627776"),
            (|s| s.resilience = 19, "95 of the 100 steps"),
            (|s| s.steps = i64::MAX, "steps = 9223372036854775807: 1 to 281474976710656"),
            (|s| s.slots = i64::MIN, "slots = -9223372036854775808"),
            (
                |s| s.resilience = -1,
                "resilience_distance = -1: it must be 0 (any number of steps) or",
            ),
            (
                |s| s.adjoint = -7,
                "adjoint_distance = -7: it must be 0 (the resilience distance) or",
            ),
            (|s| s.adjoint = i64::MIN, "adjoint_distance = -9223372036854775808"),
            (|s| s.failures = Some([-2.0, 1.0, 1.0]), "mtbf = -2"),
            (|s| s.failures = Some([f64::INFINITY, 1.0, 1.0]), "mtbf = inf: mtbf, write_cost and"),
            (|s| s.failures = Some([100.0, 0.0, 1.0]), "write_cost = 0: mtbf, write_cost and"),
            (|s| s.failures = Some([100.0, 1.0, f64::NAN]), "turn_cost = NaN"),
            (
                |s| (s.failures, s.adjoint) = (Some([100.0, 1.0, 1.0]), 9),
                "adjoint_distance = 9 and mtbf = 100",
            ),
            (|s| s.name = "a b".into(), "the name \"a b\" of an adjoint"),
            (|s| s.name = String::new(), "the name \"\" of an adjoint"),
            (|s| s.name = "default".into(), "the name \"default\" of an adjoint"),
            (|s| s.name = "x".repeat(120), "has 120 bytes; with \".adjoint\" behind it"),
            (|s| s.name = "x".repeat(500), "has 500 bytes; with"),
        ] {
            let mut settings = settings();
            change(&mut settings);
            for durable in [true, false] {
                let error = schedule_error(&settings, durable).to_string();
                assert!(error.contains(text), "{error}");
            }
        }
        let longest = AdjointSettings { name: "x".repeat(119), ..settings() };
        assert!(longest.course(true).is_ok());
        let limited = AdjointSettings { limit: Some(Duration::from_secs(1)), ..settings() };
        assert!(limited.course(true).is_ok());
        assert!(schedule_error(&limited, false).to_string().contains("ephemeral"));
    }
}
