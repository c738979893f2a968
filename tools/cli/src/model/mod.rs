//! `veloc bench model`: a node in virtual time, on which the library's own code decides.
//!
//! | file | is |
//! | --- | --- |
//! | `node` | what a node is like, each figure with its source |
//! | `flow` | flows that share resources |
//! | `motion` | what moves, and how fast it would by itself |
//! | `machine` | the node: time, arrivals, the driver's locks; `turns`: the lock of turns |
//! | `scenario` | what runs on it, and what comes out |
//! | `cached` | a process with this library's decisions |
//! | `simulation` | a run |
//! | `paper`, `predict` | what is asked of it; `report`: how it is said |
//!
//! Nothing here decides what the library decides: that is `policy`, `catalog::state` and
//! `tier::pages` of the library. Nothing sleeps, nothing is random.

mod cached;
mod command;
mod flow;
mod machine;
mod motion;
mod node;
mod paper;
mod predict;
mod report;
mod scenario;
mod simulation;
#[cfg(test)]
mod tests;
mod turns;

pub(crate) use command::{run, Model};
