//! Memory, its limits and its pages.

use std::path::{Path, PathBuf};

use errors::Error;
use levels::host_buffer::TouchMethod;
use os::memory::{self, HugePages};
use os::shared::SharedMemory;
use os::size;
use os::write_protection::WriteProtection;
use os::written::{unnoticed, WriteWatch};
use os::{files, numa};

use super::Finding;

const AREA: &str = "memory";

/// Shared memory, which MPI libraries and the node lock use.
const SHARED: &str = "/dev/shm";

/// Containers have less than this by default, which is too little for MPI on a whole node.
const LITTLE_SHARED: u64 = 64 << 20;

/// Systems have less than this by default, which is too little for RDMA.
const LITTLE_LOCKED: u64 = 1 << 30;

/// Looks at memory, limits and pages.
pub(super) fn look() -> Vec<Finding> {
    let mut findings = vec![physical()];
    findings.push(transparent(
        "huge pages",
        memory::huge_pages(),
        "the host buffer's pages come more slowly; as root: echo madvise > \
         /sys/kernel/mm/transparent_hugepage/enabled",
    ));
    findings.push(transparent(
        "huge pages, shared",
        memory::shared_huge_pages(),
        "the host buffer of an async job with files is shared memory, and its pages come more \
         slowly; as root: echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled",
    ));
    findings.extend(memory::reserved_huge_pages().map(|(pages, bytes)| reserved(pages, bytes)));
    findings.push(touching(TouchMethod::here()));
    findings.push(protection(WriteProtection::open().err()));
    findings.push(changes(unnoticed(), || WriteWatch::open().err()));
    findings.push(locked(memory::locked_limit()));
    let nodes = numa::node_count();
    findings.push(Finding::ok(AREA, "memory nodes", nodes.to_string()));
    findings.push(shared_memory());
    findings.push(shared_directory(files::free_space(Path::new(SHARED)).ok()));
    findings
}

/// Whether memory can be protected against writes while it is copied (`host_capture`).
fn protection(refused: Option<Error>) -> Finding {
    let finding = |found: String| Finding::ok(AREA, "host_capture = protect", found);
    match refused {
        None => finding("possible".to_owned()),
        Some(why) => finding(why.to_string()).note(
            "with protect or auto a forked process copies, or the call does; with Linux 6.4 or newer, as root: sysctl \
             vm.unprivileged_userfaultfd=1, or give users the file /dev/userfaultfd",
        ),
    }
}

/// Whether the system tells which memory was written, and nothing writes past it (`incremental`).
fn changes(card: Option<PathBuf>, refused: impl FnOnce() -> Option<Error>) -> Finding {
    let finding = |found: String| Finding::ok(AREA, "incremental", found);
    let why = match card {
        Some(card) => format!("{} may write to memory unnoticed", card.display()),
        None => match refused() {
            None => return finding("the system tells what was written".to_owned()),
            Some(why) => why.to_string(),
        },
    };
    finding(why).note(
        "regions are captured whole, and workers compare blocks of 64 KiB: files have what has changed, captures are no \
         shorter",
    )
}

fn physical() -> Finding {
    let finding = |found: String| Finding::ok(AREA, "memory", found);
    let memory = match memory::physical() {
        Ok(memory) => memory,
        Err(error) => {
            return finding(error.to_string())
                .problem("the library cannot tell how much it may use; give host_cache_size");
        }
    };
    let found = format!("{}, {} free", size::show(memory.total), size::show(memory.available));
    match memory::machine_total() {
        Ok(machine) if memory.total < machine => finding(format!(
            "{found}; a control group limits it, the machine has {}",
            size::show(machine)
        )),
        _ => finding(found),
    }
}

fn transparent(what: &str, pages: HugePages, never: &str) -> Finding {
    let bytes = size::show(memory::huge_page_size() as u64);
    let finding = |found: String| Finding::ok(AREA, what, found);
    match pages {
        HugePages::Always => finding(format!("always, {bytes}")),
        HugePages::OnAdvice => finding(format!("for who asks, {bytes}")),
        HugePages::Never => finding("never".to_owned()).note(never),
    }
}

fn reserved(pages: u64, bytes: u64) -> Finding {
    let finding = |found: String| Finding::ok(AREA, "huge pages, reserved", found);
    match pages {
        0 => finding("none".to_owned()),
        _ => finding(format!(
            "{} in pages of {}, for the host buffers of async jobs with files, as far as whole ones \
             fit (huge_pages)",
            size::show(pages * bytes),
            size::show(bytes)
        )),
    }
}

fn touching(method: TouchMethod) -> Finding {
    let finding = |found: &str| Finding::ok(AREA, "touching pages", found);
    match method {
        TouchMethod::Write(_) => finding("by a write to each"),
        TouchMethod::Populate => finding("by the kernel (MADV_POPULATE_WRITE)").note(
            "it can refuse them (vm.overcommit_memory = 2); threads of the application that map \
             memory meanwhile wait",
        ),
    }
}

fn locked(limit: Option<u64>) -> Finding {
    let finding = |found: String| Finding::ok(AREA, "locked memory", found);
    match limit {
        None => finding("unlimited".to_owned()),
        Some(limit) if limit >= LITTLE_LOCKED => finding(format!("at most {}", size::show(limit))),
        Some(limit) => finding(format!("at most {}", size::show(limit)))
            .note("drivers do not go by it, but MPI over RDMA does: ulimit -l unlimited"),
    }
}

/// The finding on shared memory, which holds the host buffer of an async job with files.
fn shared_memory() -> Finding {
    match SharedMemory::create("veloc-doctor", 4096) {
        Ok(_) => Finding::ok(AREA, "shared memory", "yes"),
        Err(error) => Finding::ok(AREA, "shared memory", error.to_string()).problem(
            "mode = async with files needs it (memfd_create); threaded = true does without",
        ),
    }
}

fn shared_directory(free: Option<u64>) -> Finding {
    let finding = |found: String| Finding::ok(AREA, SHARED, found);
    match free {
        None => finding("missing".to_owned()).note(
            "the processes of a node take turns over it, and MPI libraries need it: mount it",
        ),
        Some(free) if free < LITTLE_SHARED => finding(format!("{} free", size::show(free)))
            .note("MPI libraries may fail for want of it; in a container: --shm-size"),
        Some(free) => finding(format!("{} free", size::show(free))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    #[test]
    fn what_is_a_note() {
        for (finding, state) in [
            (transparent("huge pages", HugePages::Never, "as root"), Severity::Note),
            (transparent("huge pages", HugePages::OnAdvice, "as root"), Severity::Ok),
            (reserved(512, 2 << 20), Severity::Ok),
            (reserved(0, 2 << 20), Severity::Ok),
            (touching(TouchMethod::Populate), Severity::Note),
            (touching(TouchMethod::Write(4096)), Severity::Ok),
            (locked(Some(8 << 20)), Severity::Note),
            (locked(Some(1 << 40)), Severity::Ok),
            (locked(None), Severity::Ok),
            (changes(None, || None), Severity::Ok),
            (changes(None, || Some(Error::invalid("no"))), Severity::Note),
            (changes(Some("/dev/xpmem".into()), || None), Severity::Note),
            (shared_directory(None), Severity::Note),
            (shared_directory(Some(1 << 20)), Severity::Note),
            (shared_directory(Some(1 << 30)), Severity::Ok),
        ] {
            assert_eq!(finding.state, state, "{finding:?}");
            assert_eq!(finding.advice.is_some(), state != Severity::Ok, "{finding:?}");
        }
        assert!(reserved(512, 2 << 20).found.contains("1 GiB"));
    }
}
