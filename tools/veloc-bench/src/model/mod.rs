//! `veloc-bench model`: a node in virtual time, on which the library's own code decides.
//!
//! | file | is |
//! | --- | --- |
//! | `node` | the figures of a node, each with its source |
//! | `flow` | flows that share resources |
//! | `motion` | the kinds of flows, and how fast each is by itself |
//! | `machine` | the node: time, arrivals, the driver's locks; `node_lock`: the node lock |
//! | `scenario` | the processes on it, and the outcome |
//! | `cached` | a process with this library's decisions |
//! | `simulation` | a run |
//! | `paper`, `predict` | questions to the model; `report`: the answers as text |
//!
//! Nothing here decides what the library decides: that is `policy`, `catalog::state` and
//! `catalog::pages`. Nothing sleeps, nothing is random.

mod cached;
mod command;
mod flow;
mod machine;
mod motion;
mod node;
mod node_lock;
mod paper;
mod predict;
mod report;
mod scenario;
mod simulation;
#[cfg(test)]
mod tests;

pub(crate) use command::{run, ModelCommand};
