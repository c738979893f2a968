//! Detects whether the calling process is the one that created an object, or a forked child.
//!
//! This is checked in every call and must not cost a system call: it uses a page that the kernel clears
//! in forked children (`MADV_WIPEONFORK`, Linux 4.14), or else the process id.

use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use super::mapping::Mapping;

/// Remembers the process that created it.
#[derive(Debug)]
pub struct ForkDetector {
    process: u32,
    /// Holds the process id; zero in a forked child.
    page: Option<Mapping>,
}

impl ForkDetector {
    /// A detector for the calling process.
    pub fn for_this_process() -> ForkDetector {
        let process = process::id();
        let page = Mapping::reserve(size_of::<AtomicU32>()).and_then(|page| {
            page.wipe_on_fork()?;
            Ok(page)
        });
        let page = page.inspect_err(|error| log::debug!("each call asks for its process: {error}"));
        let detector = ForkDetector { process, page: page.ok() };
        if let Some(number) = detector.number() {
            number.store(process, Ordering::Relaxed);
        }
        detector
    }

    /// The process id of the creator.
    pub fn process(&self) -> u32 {
        self.process
    }

    /// Whether the calling process is the creator.
    pub fn is_owner(&self) -> bool {
        match self.number() {
            Some(number) => number.load(Ordering::Relaxed) == self.process,
            None => process::id() == self.process,
        }
    }

    fn number(&self) -> Option<&AtomicU32> {
        let page = self.page.as_ref()?;
        // SAFETY: the mapping is as long as that, begins at a multiple of a page, reads as zero at first,
        // and is only used as this.
        Some(unsafe { page.base().cast::<AtomicU32>().as_ref() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forks;

    /// Catches a page that is not cleared in a child, and one that is not used.
    #[test]
    fn a_forked_child_is_another_process() {
        let with_page = ForkDetector::for_this_process();
        assert!(
            with_page.page.is_some(),
            "no kernel before Linux 4.14 is supported by Rust's tests"
        );
        let without = ForkDetector { process: process::id(), page: None };
        for detector in [&with_page, &without] {
            assert!(detector.is_owner());
            assert_eq!(detector.process(), process::id());
            let forks = forks::none();
            // SAFETY: the child only looks at memory, and ends at once without running anything else.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "{}", std::io::Error::last_os_error());
            if child == 0 {
                // SAFETY: ends the child, and nothing of its parent's runs.
                unsafe { libc::_exit(i32::from(detector.is_owner())) };
            }
            let mut status = 0;
            // SAFETY: there is room for a status.
            assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
            drop(forks);
            assert!(libc::WIFEXITED(status));
            assert_eq!(libc::WEXITSTATUS(status), 0);
            assert!(detector.is_owner());
        }
    }
}
