//! What the processes of a job decide together, on the application's threads. Nothing here knows regions, memory or the
//! order of the application's calls; most of it is collective, and says so.
//!
//! | file | has |
//! | --- | --- |
//! | `processes` | [`Processes`]: the start of a job, and what its parts are made of |
//! | `end` | [`Ending`]: its end |
//! | [`alike`], `order` | whether all were given the same settings, in the same order |
//! | `agreement` | [`Agreement`]: which versions all have, which are copied to persistent, where parts of files begin |
//! | `search` | [`Search`]: the newest version that all can restore |
//! | `distribution` | [`Distribution`]: what another number of processes has left, and whether it is whole |
//! | [`one_run`] | whether all have it from one run |
//! | `protect` | [`Rebuilding`]: the erasure coding, and what it rebuilds |
//! | `relocate`, `regain`, `encoded` | files in other processes' directories; marked checkpoints; whether a file is what was encoded |
//! | `outcome`, `pass` | failures and values that pass between the processes |

#![deny(clippy::disallowed_methods)]

mod agreement;
pub mod alike;
mod distribution;
mod encoded;
mod end;
pub mod one_run;
mod order;
mod outcome;
mod pass;
mod processes;
mod protect;
mod regain;
mod relocate;
mod search;

pub use agreement::Agreement;
pub use distribution::Distribution;
pub use end::Ending;
pub use processes::Processes;
pub use protect::Rebuilding;
pub use search::Search;
