//! A job as it is now, for `veloc top`: a page of shared memory that the process writes and others read.
//!
//! The page is a memfd, which its reader finds among the descriptors of this user's processes in `/proc`. So there is
//! no socket, no thread and no file to remove: the page is gone when the process is. The process writes it by atomic
//! words, without a system call; a reader gets a copy by one `pread`, in which each word is whole.
//!
//! | file | owns |
//! | --- | --- |
//! | `page` | the words, and writing them |
//! | `processes` | finding the pages of others, and reading them |

mod page;
mod processes;

pub(crate) use page::Page;
pub use processes::{processes, ActivityNow, CauseNow, LevelNow, Present, ProcessNow};

#[cfg(test)]
mod tests;
