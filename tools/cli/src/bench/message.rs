//! What the bench and its measuring processes say to each other: a line of JSON each.
//!
//! A process is asked once, on its standard input. It answers on its standard output, and stops at
//! each [`Barrier`] until a line comes in, so that all processes go on together.

use serde::{Deserialize, Serialize};

use super::plan::Plan;
use super::results::Figures;

/// What a measuring process is to measure.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    /// What.
    pub plan: Box<Plan>,
    /// As which of the plan's processes.
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

/// What a measuring process says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Message {
    /// It waits for the others.
    At(Barrier),
    /// So many checkpoints and restores are done.
    Progress(u64),
    /// How long bare copies took, by pass, in seconds.
    Copies(Vec<Vec<f64>>),
    /// It is done.
    Done(Box<Figures>),
    /// It cannot go on.
    Failed(String),
}
