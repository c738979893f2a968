//! Schedules of adjoint computations, from C. The checks are in `programs/adjoint.c`.

use capi_tests::job::Job;

/// Every rule, with and without distances; crashes in the first sweep, in the reverse one, and twice. Of all
/// combinations every second one, so that each two of them meet.
#[test]
fn schedules_with_crashes() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    let plans =
        ["1 1 0 0", "100 5 30 12", "100 5 0 0", "97 1 0 7", "50 60 1 1", "1000 12 0 40", "9 2 0 0"];
    let crashes = ["", "1", "20", "60 20", "140 3 3 3", "230 100 100"];
    for rule in 0..4 {
        for (nth, plan) in plans.iter().enumerate() {
            for crashes in crashes.iter().skip((rule + nth) % 2).step_by(2) {
                job.run("adjoint", &format!("{rule} {plan} {crashes}")).succeed();
            }
        }
    }
}

/// A pass whose end is not known, slots on disk, and slots with states and records, each packed to
/// bytes and restored at every action. The checks are in `programs/schedules.c`.
#[test]
fn schedules_of_other_kinds() {
    let job = Job::new("mode = sync\nscratch = DIR/scratch\n");
    for plan in ["online 1 1 0", "online 2 9 0", "online 90 1 0", "online 300 6 0"] {
        job.run("schedules", plan).succeed();
    }
    for plan in ["last 1 1 0", "last 2 1 0", "last 9 9 0", "last 20 5 0", "last 300 6 0"] {
        job.run("schedules", plan).succeed();
    }
    for plan in ["disk 1 1 1", "disk 2 1 1", "disk 300 1 5", "disk 300 4 6", "disk 500 3 20"] {
        job.run("schedules", plan).succeed();
    }
    for plan in ["mixed 1 1 0", "mixed 2 1 0", "mixed 40 1 0", "mixed 9 20 0", "mixed 300 6 0"] {
        job.run("schedules", plan).succeed();
    }
}
