//! Several files as one: what was measured on one device, with the runs of equal plans together.

use std::path::PathBuf;

use anyhow::Result;

use crate::bench::results::{Initialisation, Measurement, Results};

/// Everything that was measured on one device.
#[derive(Debug, Default)]
pub struct Pool {
    /// The device's name, or what stands for it in a picture.
    pub device: String,
    /// What the files say of their times, if they say anything.
    pub warnings: Vec<String>,
    /// The files, as they were named.
    pub files: Vec<PathBuf>,
    /// Commits that the program was built from.
    pub commits: Vec<String>,
    /// One for each plan.
    pub measurements: Vec<Measurement>,
    /// One for each thing that was initialised, in each size and number of processes.
    pub initialisation: Vec<Initialisation>,
}

/// Reads all files, and puts together those of the same device.
pub fn read(paths: &[PathBuf]) -> Result<Vec<Pool>> {
    let mut pools: Vec<Pool> = Vec::new();
    for path in paths {
        let results = Results::read(path)?;
        let device = device(&results);
        let pool = match pools.iter().position(|pool| pool.device == device) {
            Some(at) => &mut pools[at],
            None => {
                pools.push(Pool { device, ..Pool::default() });
                let last = pools.len() - 1;
                &mut pools[last]
            }
        };
        pool.files.push(path.clone());
        pool.add(results);
    }
    Ok(pools)
}

/// What a picture says of the device.
fn device(results: &Results) -> String {
    match &results.device {
        Some(device) if device.software => format!("{} (software)", device.name),
        Some(device) => device.name.clone(),
        None if results.machine.processor.is_empty() => "no device".to_owned(),
        None => format!("no device, {}", results.machine.processor),
    }
}

impl Pool {
    /// Takes one file in.
    pub fn add(&mut self, results: Results) {
        self.warnings.extend(results.warning.filter(|text| !self.warnings.contains(text)));
        let commit = results.program.commit;
        if !self.commits.contains(&commit) {
            self.commits.push(commit);
        }
        for new in results.measurements {
            match self.measurements.iter_mut().find(|known| known.plan == new.plan) {
                Some(known) => {
                    known.runs.extend(new.runs);
                    known.failures.extend(new.failures);
                }
                None => self.measurements.push(new),
            }
        }
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
        let folder = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (name, software) in [("H200", false), ("soft", true), ("H200", true), ("H200", false)] {
            let mut results = synthetic::results(Vec::new());
            results.device = Some(synthetic::device(name, software));
            paths.push(folder.path().join(format!("{}.json", paths.len())));
            results.write(&paths[paths.len() - 1]).unwrap();
        }
        let pools = read(&paths).unwrap();
        let devices: Vec<(&str, usize)> =
            pools.iter().map(|pool| (pool.device.as_str(), pool.files.len())).collect();
        assert_eq!(devices, [("H200", 2), ("soft (software)", 1), ("H200 (software)", 1)]);
    }

    #[test]
    fn a_file_that_holds_no_results_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("other.json");
        std::fs::write(&path, r#"{"schema": 1}"#).unwrap();
        let error = format!("{:#}", read(&[path]).unwrap_err());
        assert!(error.contains("other.json holds no results"), "{error}");
    }
}
