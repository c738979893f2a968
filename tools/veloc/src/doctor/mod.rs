//! `veloc doctor`: what this node offers, what will be slow on it, and how to mend it.
//!
//! | file | looks at |
//! | --- | --- |
//! | [`configuration`] | the configuration: can it be read, does the node have what it asks for |
//! | [`gpu`] | devices and their driver |
//! | [`memory`] | memory, its limits and its pages |
//! | [`storage`] | the directories and their file systems |
//! | [`arrays`] | what a crash leaves of arrays in files |
//! | [`programs`] | MPI, and the backend |
//! | [`running`] | what `veloc run` needs |

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;

use crate::output;

mod arrays;
mod configuration;
mod gpu;
mod memory;
mod programs;
mod running;
mod storage;

/// Say what this node lacks or will be slow at, and how to mend it
///
/// Each finding is ok, a note (it works, but slower or with less) or a problem. Ends with exit code
/// 1 if there is a problem. Nothing on the node is changed.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// A configuration whose directories and sizes are to be looked at
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// As it should be.
    Ok,
    /// Works, but slower than it could, or with less.
    Note,
    /// Does not work.
    Problem,
}

/// A finding about the node. The field names of the JSON are part of the interface.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    /// The part of the node: `gpu`, `memory`, `storage`, ...
    pub area: &'static str,
    /// The thing in that part of the node.
    pub what: String,
    /// How bad it is.
    pub state: Severity,
    /// The finding in a few words.
    pub found: String,
    /// What the finding means and how to mend it; `None` if all is well.
    pub advice: Option<String>,
}

impl Finding {
    /// A finding that all is well.
    fn ok(area: &'static str, what: impl Into<String>, found: impl Into<String>) -> Finding {
        Finding { area, what: what.into(), state: Severity::Ok, found: found.into(), advice: None }
    }

    /// Makes the finding a note.
    fn note(self, advice: impl Into<String>) -> Finding {
        Finding { state: Severity::Note, advice: Some(advice.into()), ..self }
    }

    /// Makes the finding a problem.
    fn problem(self, advice: impl Into<String>) -> Finding {
        Finding { state: Severity::Problem, advice: Some(advice.into()), ..self }
    }
}

#[derive(Debug, Serialize)]
struct DoctorReport {
    /// The worst state of all findings.
    state: Severity,
    /// The findings, by area.
    findings: Vec<Finding>,
}

/// Looks at the node, and prints the findings.
pub(crate) fn run(doctor: &Doctor) -> Result<ExitCode> {
    let (config, mut findings) = configuration::look(doctor.config.as_deref());
    findings.extend(gpu::look(config.as_ref()));
    findings.extend(memory::look());
    findings.extend(storage::look(doctor.config.as_deref()));
    findings.push(arrays::look());
    findings.extend(programs::look(config.as_ref()));
    findings.extend(running::look());
    let state = findings.iter().map(|finding| finding.state).max().unwrap_or(Severity::Ok);
    let report = DoctorReport { state, findings };
    if doctor.json { output::print_json(&report) } else { output::print(&report.text()) }?;
    Ok(if state == Severity::Problem { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl DoctorReport {
    /// The findings as text: a line for each, and below it what to do.
    fn text(&self) -> String {
        let width = self.findings.iter().map(|finding| finding.what.chars().count()).max();
        let width = width.unwrap_or(0);
        let mut text = String::new();
        let mut area = "";
        for finding in &self.findings {
            if finding.area != area {
                area = finding.area;
                text += &format!("{area}\n");
            }
            let state = match finding.state {
                Severity::Ok => "ok",
                Severity::Note => "note",
                Severity::Problem => "PROBLEM",
            };
            text += &format!("  {state:<7}  {:<width$}  {}\n", finding.what, finding.found);
            if let Some(advice) = &finding.advice {
                text += &format!("           {:<width$}  -> {advice}\n", "");
            }
        }
        let count = |state| self.findings.iter().filter(|finding| finding.state == state).count();
        text + &format!(
            "{}, {}\n",
            output::count(count(Severity::Problem), "problem", "problems"),
            output::count(count(Severity::Note), "note", "notes")
        )
    }
}
