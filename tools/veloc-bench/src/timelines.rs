//! Where the timelines of a series go: `VELOC_TRACE` names one file, and each run gets one of its
//! own.

use std::env;
use std::ffi::OsStr;
use std::path::PathBuf;

use super::plan::ApproachName;

/// The variable that names the file, in the environment of the bench as in that of any job.
pub(super) const VARIABLE: &str = "VELOC_TRACE";

/// The file named by the variable.
#[derive(Clone, Debug)]
pub(super) struct Timelines {
    file: PathBuf,
    series: Option<String>,
}

impl Timelines {
    /// The timelines that the environment asks for. `series` tells this series from the others of
    /// the command, if there are more.
    pub(super) fn wanted(series: Option<String>) -> Option<Timelines> {
        let file = env::var_os(VARIABLE).filter(|file| !file.is_empty())?;
        Some(Timelines { file: PathBuf::from(file), series })
    }

    /// The file of one run: the name that was given, with what tells this run from the others of
    /// its series before the extension, as `trace-02-ours-3.json`: the number of the point (of so
    /// many) in the order of the table, the approach, the number of the repeat (of so many). Each
    /// process adds its rank behind that.
    pub(super) fn of(
        &self,
        (point, points): (usize, usize),
        approach: ApproachName,
        (repeat, repeats): (u32, u32),
    ) -> PathBuf {
        let mut parts: Vec<String> = self.series.iter().cloned().collect();
        if points > 1 {
            parts.extend([format!("{point:02}"), approach.text().to_owned()]);
        }
        if repeats > 1 {
            parts.push(repeat.to_string());
        }
        if parts.is_empty() {
            return self.file.clone();
        }
        self.with_suffix(&parts.join("-"))
    }

    /// The names of the files of so many runs.
    pub(super) fn names(&self, runs: usize) -> String {
        if runs == 1 && self.series.is_none() {
            return self.file.display().to_string();
        }
        let series = self.series.as_ref().map_or_else(String::new, |series| format!("{series}-"));
        self.with_suffix(&format!("{series}*")).display().to_string()
    }

    /// The name of the file with `suffix` before its extension.
    fn with_suffix(&self, suffix: &str) -> PathBuf {
        let text = |part: &OsStr| part.to_string_lossy().into_owned();
        let mut name = self.file.file_stem().map_or_else(String::new, text);
        name += &format!("-{suffix}");
        if let Some(extension) = self.file.extension() {
            name += &format!(".{}", text(extension));
        }
        self.file.with_file_name(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_has_a_name_of_its_own_and_a_single_one_the_name_given() {
        let of = |series: Option<&str>, file: &str, points, repeats| {
            let series = series.map(str::to_owned);
            let timelines = Timelines { file: PathBuf::from(file), series };
            let path = timelines.of((2, points), ApproachName::DirectPin, (3, repeats));
            path.to_str().unwrap().to_owned()
        };
        assert_eq!(of(None, "a/t.json", 2, 3), "a/t-02-direct-pin-3.json");
        assert_eq!(of(None, "a/t.json", 2, 1), "a/t-02-direct-pin.json");
        assert_eq!(of(None, "t-%r", 1, 3), "t-%r-3");
        assert_eq!(of(Some("5ab"), "t.json", 1, 1), "t-5ab.json");
        assert_eq!(of(None, "a/t.json", 1, 1), "a/t.json");
        let timelines = Timelines { file: PathBuf::from("a/t.json"), series: None };
        assert_eq!([timelines.names(1), timelines.names(6)], ["a/t.json", "a/t-*.json"]);
    }
}
