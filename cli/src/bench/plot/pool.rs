//! Several files as one: what was measured on one device, with the runs of equal plans together.

use std::path::PathBuf;

use crate::bench::plan::Plan;
use crate::bench::results::{Device, Floor, Initialisation, Machine, Measurement, Results};

use super::scale::bytes;

/// Everything that was measured on one device.
#[derive(Debug, Default)]
pub struct Pool {
    /// The device's name, or what stands for it in a picture.
    pub device: String,
    /// What the files say of their times, if they say anything.
    pub warnings: Vec<String>,
    /// The files, as they were named.
    pub files: Vec<PathBuf>,
    /// The machines.
    pub machines: Vec<String>,
    /// The drivers.
    pub drivers: Vec<String>,
    /// Commits that the program was built from.
    pub commits: Vec<String>,
    /// One for each plan.
    pub measurements: Vec<Measurement>,
    /// Bare copies of the bytes of the points.
    pub floors: Vec<Floor>,
    /// Combinations that were asked for and cannot be.
    pub left_out: Vec<String>,
    /// One for each thing that was initialised, in each size and number of processes.
    pub initialisation: Vec<Initialisation>,
}

/// Puts together the files of the same device.
pub fn by_device(files: Vec<(PathBuf, Results)>) -> Vec<Pool> {
    let mut pools: Vec<Pool> = Vec::new();
    for (path, results) in files {
        let device = device(&results);
        let pool = match pools.iter().position(|pool| pool.device == device) {
            Some(at) => &mut pools[at],
            None => {
                pools.push(Pool { device, ..Pool::default() });
                let last = pools.len() - 1;
                &mut pools[last]
            }
        };
        pool.files.push(path);
        pool.add(results);
    }
    pools
}

/// What a picture says of the device.
fn device(results: &Results) -> String {
    match &results.device {
        Some(device) if device.software && !device.name.contains("software") => {
            format!("{} (software)", device.name)
        }
        Some(device) => device.name.clone(),
        None if results.machine.processor.is_empty() => "no device".to_owned(),
        None => format!("no device, {}", results.machine.processor),
    }
}

/// What a picture says of the machine.
fn machine(machine: &Machine) -> String {
    let nodes = match machine.memory_nodes {
        0 | 1 => String::new(),
        nodes => format!(" in {nodes} nodes"),
    };
    format!(
        "{}, {} processors, {}{nodes}, Linux {}, huge pages: {}",
        machine.processor,
        machine.processors,
        bytes(machine.memory),
        machine.kernel,
        machine.huge_pages
    )
}

/// What a picture says of the driver: `driver 550.54.15, CUDA 12.8`.
fn driver(device: &Device) -> String {
    let cuda = format!("CUDA {}.{}", device.cuda / 1000, device.cuda % 1000 / 10);
    match device.driver.is_empty() {
        true => cuda,
        false => format!("driver {}, {cuda}", device.driver),
    }
}

impl Pool {
    /// Takes one file in.
    pub fn add(&mut self, results: Results) {
        self.warnings.extend(results.warning.filter(|text| !self.warnings.contains(text)));
        keep(&mut self.machines, machine(&results.machine));
        if let Some(device) = &results.device {
            keep(&mut self.drivers, driver(device));
        }
        keep(&mut self.commits, results.program.commit);
        for new in results.measurements {
            match self.measurements.iter_mut().find(|known| known.plan == new.plan) {
                Some(known) => {
                    known.runs.extend(new.runs);
                    known.failures.extend(new.failures);
                    known.not_begun = known.not_begun.take().and(new.not_begun);
                    new.notes.into_iter().for_each(|note| keep(&mut known.notes, note));
                }
                None => self.measurements.push(new),
            }
        }
        results.floors.into_iter().for_each(|new| Floor::merge(&mut self.floors, new));
        results.left_out.into_iter().for_each(|new| keep(&mut self.left_out, new));
        for new in results.initialisation {
            let same = |known: &&mut Initialisation| {
                (&known.what, known.processes, known.bytes, known.step)
                    == (&new.what, new.processes, new.bytes, new.step)
            };
            match self.initialisation.iter_mut().find(same) {
                Some(known) => known.seconds.extend(new.seconds),
                None => self.initialisation.push(new),
            }
        }
    }
}

/// Adds what is not there yet.
fn keep(known: &mut Vec<String>, new: String) {
    if !known.contains(&new) {
        known.push(new);
    }
}

impl Pool {
    /// The bare copies of the bytes of a plan.
    pub fn floor(&self, plan: &Plan) -> Option<&Floor> {
        Floor::of(&self.floors, plan)
    }

    /// Where and with what all of it was measured.
    pub fn origin(&self) -> Vec<String> {
        let several = |what: &str, all: &[String]| match all {
            [one] => format!("{what} {one}"),
            all => format!("{what}s {}", all.join(", ")),
        };
        let mut origin = self.machines.clone();
        origin.extend(self.drivers.iter().cloned());
        origin.push(several("commit", &self.commits));
        origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::ApproachName;
    use crate::bench::plot::synthetic;

    #[test]
    fn runs_of_equal_plans_are_pooled_and_others_kept_apart() {
        let mut pool = Pool::default();
        pool.add(synthetic::results(vec![synthetic::point(ApproachName::Ours, 20.0, 0.5)]));
        pool.add(synthetic::results(vec![
            synthetic::point(ApproachName::Ours, 20.0, 0.7),
            synthetic::point(ApproachName::Ours, 10.0, 0.9),
        ]));
        let runs: Vec<usize> = pool.measurements.iter().map(|point| point.runs.len()).collect();
        assert_eq!(runs, [6, 3]);
        assert_eq!(pool.warnings.len(), 0);
        assert_eq!(pool.commits, ["0123456"]);
    }

    #[test]
    fn files_of_different_devices_stay_apart() {
        let devices = [("H200", false), ("soft", true), ("H200", true), ("H200", false)];
        let files = devices.map(|(name, software)| {
            let mut results = synthetic::results(Vec::new());
            results.device = Some(synthetic::device(name, software));
            (PathBuf::from(name), results)
        });
        let pools = by_device(files.to_vec());
        let devices: Vec<(&str, usize)> =
            pools.iter().map(|pool| (pool.device.as_str(), pool.files.len())).collect();
        assert_eq!(devices, [("H200", 2), ("soft (software)", 1), ("H200 (software)", 1)]);
    }

    #[test]
    fn the_origin_names_all_that_took_part() {
        let mut pool = Pool::default();
        pool.add(synthetic::results(Vec::new()));
        let mut other = synthetic::results(Vec::new());
        other.program.commit = "89abcde".to_owned();
        other.machine.processor = "Another".to_owned();
        if let Some(device) = &mut other.device {
            (device.driver, device.cuda) = ("550.54.15".to_owned(), 12080);
        }
        pool.add(other);
        let origin = pool.origin();
        assert_eq!(origin.len(), 5, "{origin:?}");
        assert!(origin[1].starts_with("Another, "), "{origin:?}");
        assert_eq!(origin[3], "driver 550.54.15, CUDA 12.8");
        assert_eq!(origin[4], "commits 0123456, 89abcde");
    }
}
