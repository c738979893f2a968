//! `veloc sync`.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::files::{checkpoint, incremental, Job};

/// Checkpoints of each rank that persistent lacks are copied, with their time, and nothing else is
/// touched. Catches a rank that is passed over, a damaged file that is copied, an exit code that
/// hides it, a copy of a name that was not asked for, and an open that waits for a pipe's other end.
#[test]
fn what_persistent_lacks_is_copied() {
    let job = Job::new();
    let taken = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    for (rank, version) in [(0, 1), (0, 2), (1, 2)] {
        let path = job.write(&format!("scratch/x-{rank}-{version}.dat"), &checkpoint(&[rank; 9]));
        fs::File::options().write(true).open(path).unwrap().set_modified(taken).unwrap();
    }
    job.write("persistent/x-0-1.dat", &checkpoint(&[7; 9]));
    job.write("scratch/y-0-1.dat", &checkpoint(&[0; 9])[..20]);
    let said = job.veloc("sync x --config veloc.cfg").success();
    for line in ["\"x\" version 2 of rank 0: 29 bytes", "\"x\" version 2 of rank 1: 29 bytes"] {
        assert!(said.contains(line), "{said}");
    }
    assert_eq!(said.lines().count(), 2, "{said}");
    assert_eq!(fs::read(job.path("persistent/x-1-2.dat")).unwrap(), checkpoint(&[1; 9]));
    assert_eq!(fs::metadata(job.path("persistent/x-1-2.dat")).unwrap().modified().unwrap(), taken);
    assert_eq!(fs::read(job.path("persistent/x-0-1.dat")).unwrap(), checkpoint(&[7; 9]));
    let said = job.veloc("sync x --config veloc.cfg").success();
    assert_eq!(said, "persistent lacks nothing that is due\n");
    // Named as for the other tools.
    let said = job.veloc("sync x --scratch scratch --persistent persistent").success();
    assert_eq!(said, "persistent lacks nothing that is due\n");
    fs::remove_file(job.path("persistent/x-1-2.dat")).unwrap();
    let said = job.veloc("sync x --config veloc.cfg --persistent other").success();
    assert_eq!(said.lines().count(), 3, "{said}");
    let said = job.veloc("sync x --scratch scratch --persistent persistent").success();
    assert!(said.contains("\"x\" version 2 of rank 1: 29 bytes"), "{said}");
    job.veloc("sync --config veloc.cfg").failure(&["\"y\" version 1 of rank 0"]);
    assert!(!job.path("persistent/y-0-1.dat").exists());
    let pipe = std::ffi::CString::new(job.path("scratch/x-0-3.dat").to_str().unwrap()).unwrap();
    // SAFETY: a string that ends with a null byte.
    assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
    job.veloc("sync x --config veloc.cfg").failure(&["version 3 of rank 0", "a pipe"]);
}

/// More versions are kept than `max_versions` if deltas need them. Catches a delta that is copied without its base, one
/// that is copied twice, and a base that is sought in the wrong directory.
#[test]
fn what_a_delta_needs_is_copied_first() {
    let job = Job::new();
    let config = fs::read_to_string(job.path("veloc.cfg")).unwrap() + "max_versions = 2\n";
    job.write("veloc.cfg", config.as_bytes());
    let write = |version: u8, bytes: &[u8]| {
        let path = job.write(&format!("scratch/x-0-{version}.dat"), bytes);
        let taken =
            SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + u64::from(version));
        fs::File::options().write(true).open(path).unwrap().set_modified(taken).unwrap();
    };
    write(1, &incremental(1, 0, None));
    for version in 2..5 {
        write(version, &incremental(version, u64::from(version) - 1, Some(version - 1)));
    }
    let said = job.veloc("sync --config veloc.cfg").success();
    let copied: Vec<&str> = said.lines().map(|line| &line[..24]).collect();
    let expected = [1, 2, 3, 4].map(|version| format!("checkpoint \"x\" version {version}"));
    assert_eq!(copied, expected, "{said}");
    assert_eq!(job.veloc("verify --persistent persistent").code(), Some(0));

    // Bases that persistent has are copied no second time, whoever else lacks one is told.
    fs::remove_file(job.path("scratch/x-0-4.dat")).unwrap();
    write(5, &incremental(5, 4, Some(4)));
    assert_eq!(job.veloc("sync --config veloc.cfg").success().lines().count(), 1);
    write(9, &incremental(9, 1, Some(8)));
    job.veloc("sync --config veloc.cfg").failure(&["version 9 of rank 0", "a delta of version 8"]);
    assert!(!job.path("persistent/x-0-9.dat").exists());
}
