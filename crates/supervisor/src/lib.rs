//! Programs that cannot be changed: a supervisor starts them, stops them for an instant, and has CRIU write what
//! they are to files, from which it starts them again (transparent checkpointing as in CRUM, with CRIU for the process).
//!
//! | file | subject |
//! | --- | --- |
//! | `directory` | the directory of a job |
//! | `space` | the name spaces that a program runs in |
//! | `given` | the descriptors that it is given |
//! | `stop` | the time for which the program stands still |
//! | `driver` | the CUDA driver, which parks it |
//! | `mapped` | the libraries that a process has loaded |
//! | `criu` | calls of CRIU |
//! | `apart` | work in a process apart |
//! | `image` | versions in files |
//! | `written` | the files of the program, at a restart |
//! | `signals` | signals that are the program's |
//! | `supervise` | what the supervisor does from the program's start to its end |
//! | `ask` | what others ask of it |

mod apart;
mod ask;
pub mod criu;
mod directory;
mod driver;
mod given;
pub mod image;
mod mapped;
mod signals;
mod space;
mod stop;
mod supervise;
mod written;

pub use ask::{checkpoint, is_job, is_running};
pub use driver::can_park;
pub use supervise::{restart, run, Pace};
