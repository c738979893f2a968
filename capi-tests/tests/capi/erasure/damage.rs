//! Changed bytes and missing parities.

use std::fs;

use super::{damage, damage_middle, Jobs};
use crate::mpi::MPICH;

/// A restart that was killed after it had rebuilt a file has made no parities: the next makes them.
#[test]
fn parities_that_are_missing_are_made_again() {
    let Some(jobs) = Jobs::new(&MPICH, 4, "mode = async\nec_interval = 0\n") else { return };
    jobs.good("case=take");
    let before = fs::read(jobs.parity(2, 3)).unwrap();
    fs::remove_file(jobs.parity(2, 3)).unwrap();
    jobs.good("case=restore expect=3");
    assert!(fs::read(jobs.parity(2, 3)).unwrap() == before);
}

/// A number is taken again whose file a delta needs, which becomes a file with everything. Catches parities of the
/// delta that stay, and a version that no other process can bring back from then on.
#[test]
fn a_delta_made_whole_is_protected_again() {
    for mode in ["sync", "async"] {
        let configuration = format!("mode = {mode}\nec_interval = 0\nincremental = true\n");
        let Some(jobs) = Jobs::new(&MPICH, 3, &configuration) else { return };
        jobs.good("case=turns");
        assert_eq!(jobs.protected(), [1, 2], "{mode}");
        jobs.lose(1);
        jobs.good("case=turned");
    }
}

/// Nothing is lost, but a byte has changed behind a good header: the damage is found before the
/// restore, and the file is rebuilt by the other processes, or else read from persistent.
#[test]
fn a_changed_byte_is_found() {
    let configuration = "mode = async\nec_interval = 0\n";
    let Some(jobs) = Jobs::new(&MPICH, 4, configuration) else { return };
    jobs.good("case=take");
    let good = fs::read(jobs.data(1, 3)).unwrap();
    damage_middle(&jobs.data(1, 3));
    let ended = jobs.good("case=restore expect=3");
    assert!(ended.stderr.contains("x-1-3.dat: its bytes have XXH3"), "{}", ended.stderr);
    assert!(fs::read(jobs.data(1, 3)).unwrap() == good, "the damaged file stays");
    for rank in [0, 2] {
        damage_middle(&jobs.data(rank, 3));
    }
    jobs.good("case=restore expect=2");

    let persistent = format!("{configuration}persistent = DIR/persistent\n");
    let Some(jobs) = Jobs::new(&MPICH, 4, &persistent) else { return };
    jobs.good("case=take");
    for rank in [0, 2] {
        damage_middle(&jobs.data(rank, 3));
    }
    jobs.good("case=restore expect=3");
}

/// Damaged files count as lost: a survivor's, and parities.
#[test]
fn damage_is_noticed_and_rebuilt() {
    let configuration = "mode = sync\nec_interval = 0\nec_parity = 2\n";
    let Some(jobs) = Jobs::new(&MPICH, 5, configuration) else { return };
    jobs.good("case=take");
    let good = fs::read(jobs.data(4, 3)).unwrap();
    damage(&jobs.data(4, 3), good.len() / 2);
    jobs.lose(2);
    jobs.good("case=restore expect=3");
    assert!(fs::read(jobs.data(4, 3)).unwrap() == good, "the damaged file stays");
    damage(&jobs.parity(0, 3), 2000);
    jobs.lose(1);
    jobs.good("case=restore expect=3");
    damage(&jobs.parity(0, 3), 20);
    damage(&jobs.parity(1, 3), 3000);
    jobs.lose(2);
    // Only the files of version 2 of processes 1 and 2 are lost.
    jobs.good("case=restore expect=2");
}
