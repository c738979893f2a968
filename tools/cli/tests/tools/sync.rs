//! `veloc sync`.

use std::fs;
use std::time::{Duration, SystemTime};

use crate::files::{checkpoint, Job};

/// Checkpoints of each rank that persistent lacks are copied, with their time, and nothing else is
/// touched. Catches a rank that is passed over, a damaged file that is copied, an exit code that
/// hides it, and a copy of a name that was not asked for.
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
    job.veloc("sync --config veloc.cfg").failure(&["\"y\" version 1 of rank 0"]);
    assert!(!job.path("persistent/y-0-1.dat").exists());
}
