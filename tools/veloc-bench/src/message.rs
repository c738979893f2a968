//! The messages between the bench and its measuring processes, each a line of JSON.
//!
//! A process gets one request, on its standard input. It answers on its standard output, and stops
//! at each [`Barrier`] until a line comes in, so that all processes go on together.

use serde::{Deserialize, Serialize};

use super::plan::PointPlan;
use super::results::ProcessFigures;

/// A request to a measuring process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkerRequest {
    /// The plan to measure.
    pub plan: Box<PointPlan>,
    /// The number of the process in the plan.
    pub process: u32,
}

/// Where processes wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Barrier {
    /// Before compute intervals are measured with nothing in the background.
    Quiet,
    /// Before each pass of bare copies.
    Copies,
    /// Before the approach starts.
    Start,
}

/// A message of a measuring process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerMessage {
    /// The process waits for the others.
    At(Barrier),
    /// The number of checkpoints and restores that are done.
    Progress(u64),
    /// How long bare copies took, by pass, in seconds.
    Copies(Vec<Vec<f64>>),
    /// The process is done.
    Done(Box<ProcessFigures>),
    /// The process cannot go on, for this reason.
    Failed(String),
}
