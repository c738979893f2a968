//! Programs that cannot be changed: a supervisor starts them, stops them for an instant, and has CRIU write what
//! they are to files, from which it starts them again (transparent checkpointing as in CRUM, with CRIU for the process).
//!
//! | file | subject |
//! | --- | --- |
//! | `directory` | the directory of a job |
//! | `space` | the name spaces that a program runs in |
//! | `given` | the descriptors that it is given |
//! | `criu` | calls of CRIU |
//! | `image` | versions in files |
//! | `written` | the files of the program, at a restart |
//! | `signals` | signals that are the program's |
//! | `supervise` | what the supervisor does from the program's start to its end |
//! | `ask` | what others ask of it |

mod ask;
pub mod criu;
mod directory;
mod given;
pub mod image;
mod signals;
mod space;
mod supervise;
mod written;

pub use ask::{checkpoint, is_job, is_running};
pub use supervise::{restart, run, Pace};
