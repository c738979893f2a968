//! The options of `veloc schedule`.

use anyhow::{ensure, Result};
use clap::{Args, ValueEnum};
use os::size;
use schedule::binomial::MAX_STEPS;
use schedule::disk::{Disk, MAX_COST, UNIT};
use schedule::estimate::Times;
use schedule::infeasible::{check_rule, mixed_and, refusal};
use schedule::rule;
use schedule::schedule::Plan;
use serde::Serialize;

use super::plan::ScheduleProblem;

/// Up to here a whole number can be written with an exponent as well.
const EXACT: u64 = 1 << 53;

/// A number up to the largest of its type; it may be written with an exponent.
pub(super) fn count(text: &str) -> std::result::Result<u64, String> {
    let most = format!("at most {}, or {EXACT} if it has an exponent", u64::MAX);
    up_to(u64::MAX, &most, text)
}

/// A number of steps, or of slots.
fn steps(text: &str) -> std::result::Result<u64, String> {
    up_to(MAX_STEPS, &format!("at most {MAX_STEPS}"), text)
}

/// The number of a state that the adjoint comes to.
pub(super) fn state(text: &str) -> std::result::Result<u64, String> {
    up_to(u64::MAX, "less than the number of --steps", text)
}

/// A part of a whole.
fn part(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number| (1e-6..=1.0).contains(number));
    number.ok_or_else(|| "it is a number from 1e-6 to 1".to_owned())
}

/// A size in bytes: a number as any other, or one with a unit.
fn state_size(text: &str) -> std::result::Result<u64, String> {
    match text.trim().chars().last() {
        Some(unit) if "bkmgt".contains(unit.to_ascii_lowercase()) => {
            size::parse(text).map_err(|wrong| wrong.to_string())
        }
        _ => count(text).map_err(|wrong| format!("{wrong}; a unit may follow, as in 1.5G")),
    }
}

/// A whole number from 0 to `limit`; a larger one is refused, with `most` as the bound.
fn up_to(limit: u64, most: &str, text: &str) -> std::result::Result<u64, String> {
    let wrong = match (text.parse::<u64>(), text.parse::<f64>()) {
        (Ok(number), _) if number <= limit => return Ok(number),
        (Err(_), Ok(number)) if number < 0.0 => "it is negative",
        (Err(_), Ok(number)) if number.is_finite() && number.fract() != 0.0 => {
            "it is not a whole number"
        }
        (Err(_), Ok(number)) if number <= limit.min(EXACT) as f64 => return Ok(number as u64),
        (_, Ok(number)) if !number.is_nan() => return Err(format!("it is too large: {most}")),
        _ => "it is a whole number that is not negative, as 1000 or 1e12",
    };
    Err(wrong.to_owned())
}

/// Where states are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RuleName {
    /// The least number of steps under the resilience distance
    Optimal,
    /// Revolve's distance, or the resilience distance if that is less (the paper's rule)
    #[value(aliases = ["paper", "revolve"])]
    Resilient,
    /// Distances that never grow (Theorem 4.2)
    Monotone,
    /// The shortest distances that repeat no more (section 4.2)
    #[value(alias = "alternative")]
    Shortest,
    /// A slot has a state, or the record of a step: what its adjoint needs
    Mixed,
}

/// The options that say which plan is meant.
#[derive(Debug, Args)]
pub(super) struct PlanOptions {
    /// Steps of the forward pass
    #[arg(long, value_name = "L", value_parser = steps)]
    steps: u64,
    /// States that can be stored at a time, the first one among them; with --disk-slots in memory
    #[arg(long, value_name = "C", value_parser = steps)]
    slots: u64,
    /// A stored state takes this part of its room, as 0.26 with 8 of 32 bits: the same room has more slots
    #[arg(long, value_name = "PART", value_parser = part)]
    compressed_to: Option<f64>,
    /// Stored states are at most D steps apart [default: any number]
    #[arg(long, value_name = "D", value_parser = count)]
    resilience: Option<u64>,
    /// The adjoint is stored every A of its steps [default: never; where it is best with --mtbf]
    #[arg(long, value_name = "A", value_parser = count)]
    adjoint: Option<u64>,
    /// Where states are stored
    #[arg(long, value_enum, default_value = "optimal")]
    rule: RuleName,
    /// The number of steps is not known before the pass ends, which stores at most 2e7 states; these are
    /// gone through
    #[arg(long, conflicts_with_all = ["resilience", "disk_slots"])]
    online: bool,
    /// States that disk can have at a time, beside those in memory
    #[arg(long, value_name = "N", value_parser = steps, conflicts_with = "resilience")]
    disk_slots: Option<u64>,
    /// How long a write to disk takes, in forward steps
    #[arg(long, value_name = "STEPS", default_value_t = 1.0, requires = "disk_slots")]
    write_cost: f64,
    /// How long a read from disk takes, in forward steps
    #[arg(long, value_name = "STEPS", default_value_t = 1.0, requires = "disk_slots")]
    read_cost: f64,
}

impl PlanOptions {
    /// The problem, if the options can be met.
    pub(super) fn problem(&self) -> Result<ScheduleProblem> {
        self.with_states_of(self.compressed_to.unwrap_or(1.0))
    }

    /// The problem with states as they are, if they are to be compressed.
    pub(super) fn uncompressed(&self) -> Option<Result<ScheduleProblem>> {
        self.compressed_to.map(|_| self.with_states_of(1.0))
    }

    /// The problem with states that take this part of their room.
    fn with_states_of(&self, part: f64) -> Result<ScheduleProblem> {
        // A little more, as 0.1 is no number of the machine's.
        let in_room = |slots: u64| ((slots as f64 / part + 1e-9) as u64).clamp(slots, MAX_STEPS);
        let plan = Plan {
            steps: self.steps,
            slots: in_room(self.slots),
            resilience: self.resilience.unwrap_or(u64::MAX),
            adjoint: self.adjoint,
            rule: match self.rule {
                RuleName::Optimal | RuleName::Mixed => rule::Rule::Optimal,
                RuleName::Resilient => rule::Rule::Resilient,
                RuleName::Monotone => rule::Rule::Monotone,
                RuleName::Shortest => rule::Rule::Shortest,
            },
        };
        plan.check().map_err(|unfit| refusal(&plan, unfit))?;
        ensure!(
            !self.online || self.rule == RuleName::Optimal,
            "--online has a rule of its own: leave out --rule"
        );
        let disk = self.disk_slots.map(|slots| {
            ensure!(
                (1..=MAX_STEPS).contains(&slots),
                "--disk-slots {slots}: 1 to {MAX_STEPS} are possible"
            );
            let slots = in_room(slots);
            let cost = |name: &str, steps: f64| {
                let most = (MAX_COST / UNIT) as f64;
                ensure!(
                    (0.0..=most).contains(&steps),
                    "{name} {steps}: 0 to {most} steps are possible"
                );
                // At most MAX_COST.
                Ok((steps * UNIT as f64).round() as u64)
            };
            let write = cost("--write-cost", self.write_cost)?;
            Ok(Disk { slots, write, read: cost("--read-cost", self.read_cost)? })
        });
        let disk = disk.transpose()?;
        check_rule(plan.rule, disk)?;
        let mixed = self.rule == RuleName::Mixed;
        for (option, is_set) in [
            ("--disk-slots", disk.is_some()),
            ("--resilience", self.resilience.is_some()),
            ("--adjoint", self.adjoint.is_some()),
            ("--compressed-to", self.compressed_to.is_some()),
        ] {
            ensure!(!mixed || !is_set, mixed_and(option));
        }
        Ok(ScheduleProblem { plan, disk, online: self.online, mixed })
    }
}

/// Times of the parts, for an estimate.
#[derive(Debug, Args)]
pub(super) struct TimeOptions {
    /// How long a forward step takes, in seconds: asks for an estimate of the run time
    #[arg(long, value_name = "SECONDS")]
    step_time: Option<f64>,
    /// How much longer than a forward step one takes that is recorded and reversed
    #[arg(long, value_name = "FACTOR", default_value_t = 3.0, requires = "step_time")]
    turn_factor: f64,
    /// How long the application waits when it stores a state
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, requires = "step_time")]
    write_time: f64,
    /// How long the application waits when it reads a state
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, requires = "step_time")]
    read_time: f64,
    /// How long the application waits when it stores the adjoint [default: as a state]
    #[arg(long, value_name = "SECONDS", requires = "step_time")]
    adjoint_time: Option<f64>,
    /// How long a restart takes, from the failure on
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, requires = "step_time")]
    restart_time: f64,
    /// The mean time between failures [default: there are none]
    #[arg(long, value_name = "SECONDS", requires = "step_time")]
    mtbf: Option<f64>,
    /// The size of a state, for the storage that is needed: bytes, or a number with K, M, G or T (powers of
    /// 1024)
    #[arg(long, value_name = "SIZE", value_parser = state_size, requires = "step_time")]
    state_size: Option<u64>,
}

impl TimeOptions {
    /// The times, if they are given.
    pub(super) fn times(&self) -> Result<Option<Times>> {
        let Some(step) = self.step_time else { return Ok(None) };
        let times = Times {
            step,
            turn: step * self.turn_factor,
            write: self.write_time,
            read: self.read_time,
            adjoint: self.adjoint_time.unwrap_or(self.write_time),
            restart: self.restart_time,
            mtbf: self.mtbf.unwrap_or(f64::INFINITY),
        };
        for (name, value) in [("--step-time", step), ("--turn-factor", self.turn_factor)] {
            ensure!(
                value.is_finite() && value > 0.0,
                "{name} {value}: it is a finite number above 0"
            );
        }
        ensure!(
            times.turn.is_finite() && times.turn > 0.0,
            "--step-time {step:e} and --turn-factor {:e}: their product, {:e}, is no finite number \
             above 0",
            self.turn_factor,
            times.turn
        );
        ensure!(times.mtbf > 0.0, "--mtbf {}: it is a number above 0", times.mtbf);
        for (name, value) in [
            ("--write-time", times.write),
            ("--read-time", times.read),
            ("--adjoint-time", times.adjoint),
            ("--restart-time", times.restart),
        ] {
            ensure!(
                value.is_finite() && value >= 0.0,
                "{name} {value}: it is a finite number, 0 or more"
            );
        }
        Ok(Some(times))
    }

    /// The bytes of a state.
    pub(super) fn state_size(&self) -> Option<u64> {
        self.state_size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_may_have_a_unit() {
        for (text, bytes) in [
            ("1000", 1000),
            ("1e9", 1_000_000_000),
            ("1G", 1 << 30),
            ("1.5m", 3 << 19),
            ("20B", 20),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(state_size(text), Ok(bytes));
        }
        for (text, words) in [("1Q", "a unit may follow"), ("-1G", "not a size"), ("", "as 1000")] {
            let wrong = state_size(text).unwrap_err();
            assert!(wrong.contains(words), "{text}: {wrong}");
        }
    }

    /// Catches slots that are lost by rounding, and a room in which there are fewer than without.
    #[test]
    fn compressed_states_have_more_slots() {
        let options = PlanOptions {
            steps: 1000,
            slots: 30,
            compressed_to: None,
            resilience: None,
            adjoint: None,
            rule: RuleName::Optimal,
            online: false,
            disk_slots: None,
            write_cost: 1.0,
            read_cost: 1.0,
        };
        for (part, slots) in [(1.0, 30), (0.1, 300), (0.262, 114), (1e-6, 30_000_000)] {
            assert_eq!(options.with_states_of(part).unwrap().plan.slots, slots, "{part}");
        }
        assert!(part("0").is_err() && part("NaN").is_err() && part("3.8").is_err());
        assert_eq!(part("0.5"), Ok(0.5));
    }

    #[test]
    fn numbers_with_and_without_an_exponent() {
        for (text, number) in
            [("0", 0), ("1000", 1000), ("1e12", 1_000_000_000_000), ("2.5e3", 2500)]
        {
            assert_eq!(count(text), Ok(number));
        }
        assert_eq!(count("18446744073709551615"), Ok(u64::MAX));
        // Each bound itself, and the number above it.
        assert_eq!(count("9007199254740992e0"), Ok(EXACT));
        assert_eq!(count("9007199254740994e0").unwrap_err(), {
            "it is too large: at most 18446744073709551615, or 9007199254740992 if it has an exponent"
        });
        for most in ["281474976710656", "2.81474976710656e14"] {
            assert_eq!(steps(most), Ok(MAX_STEPS));
        }
        for more in ["281474976710657", "2.81474976710657e14", "1e30", "18446744073709551616"] {
            let wrong = steps(more).unwrap_err();
            assert_eq!(wrong, "it is too large: at most 281474976710656", "{more}");
        }
        for (text, word) in [
            ("-4", "negative"),
            ("-1e3", "negative"),
            ("2.5", "not a whole number"),
            ("1e-3", "not a whole number"),
            ("1e30", "too large"),
            ("18446744073709551616", "too large"),
            ("inf", "too large"),
            ("NaN", "as 1000 or 1e12"),
            ("", "as 1000 or 1e12"),
            ("12 steps", "as 1000 or 1e12"),
        ] {
            let wrong = count(text).unwrap_err();
            assert!(wrong.contains(word), "{text}: {wrong}");
        }
    }
}
