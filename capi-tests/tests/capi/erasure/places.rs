//! Files in the scratch directories of other processes, and old files that come back.

use std::fs;

use super::{damage_middle, Jobs};
use crate::mpi::MPICH;

/// After the loss of a host, processes are numbered anew: each finds the files of another.
#[test]
fn processes_may_change_places() {
    let Some(jobs) = Jobs::new(&MPICH, 4, "mode = async\nec_interval = 0\n") else { return };
    jobs.good("case=take");
    let before = jobs.all();
    jobs.lose(1);
    fs::rename(jobs.scratch(2), jobs.scratch(1)).unwrap();
    fs::rename(jobs.scratch(3), jobs.scratch(2)).unwrap();
    jobs.good("case=restore expect=3");
    let after = jobs.all();
    for rank in 0..4 {
        for name in [format!("x-{rank}-3.dat"), format!(".x-{rank}-3.dat.parity")] {
            assert!(before[rank][&name] == after[rank][&name], "{name}");
            let elsewhere = (0..4).filter(|other| *other != rank);
            assert!(!elsewhere.into_iter().any(|other| after[other].contains_key(&name)), "{name}");
        }
    }
}

/// A file that was brought home and left behind in its former place is an old one by now. Catches
/// an old file that is brought home again because it has the right name.
#[test]
fn an_old_file_elsewhere_is_not_brought_home() {
    let Some(jobs) = Jobs::new(&MPICH, 4, "mode = async\nec_interval = 0\n") else { return };
    jobs.good("case=take");
    let good = fs::read(jobs.data(1, 3)).unwrap();
    let elsewhere = |rank: usize| jobs.scratch(rank).join("x-1-3.dat");
    for rank in [0, 3] {
        fs::copy(jobs.data(1, 3), elsewhere(rank)).unwrap();
        damage_middle(&elsewhere(rank));
    }
    jobs.lose(1);
    let ended = jobs.good("case=restore expect=3");
    assert!(ended.stderr.contains("is an old one: it is not taken"), "{}", ended.stderr);
    assert!(fs::read(jobs.data(1, 3)).unwrap() == good);
}

/// Two files of one process: none is taken, unless checksums tell which is right.
#[test]
fn of_two_files_elsewhere_none_is_chosen_silently() {
    for chksum in [false, true] {
        let sums = if chksum { "meta = DIR/meta\nchksum = true\n" } else { "" };
        let configuration = format!("mode = async\nec_interval = 0\n{sums}");
        let Some(jobs) = Jobs::new(&MPICH, 4, &configuration) else { return };
        jobs.good("case=take");
        let elsewhere = |rank: usize| jobs.scratch(rank).join("x-1-3.dat");
        for rank in [0, 3] {
            fs::copy(jobs.data(1, 3), elsewhere(rank)).unwrap();
        }
        damage_middle(&elsewhere(0));
        jobs.lose(1);
        for rank in [0, 2, 3] {
            fs::remove_file(jobs.parity(rank, 3)).unwrap();
        }
        if chksum {
            jobs.good("case=restore expect=3");
            continue;
        }
        let both = [0, 3].map(|rank| format!("{} (SHA-256", jobs.scratch(rank).display()));
        jobs.refused(1, 3, &format!("cannot tell which is right|{}", both.join("|")));
        jobs.good("case=restore expect=2");
        assert!(elsewhere(0).exists() && elsewhere(3).exists());
    }
}

/// A directory that was away while its versions were taken again comes back: its files and parities
/// agree with each other, and not with those of the others.
#[test]
fn an_old_directory_that_comes_back_is_noticed() {
    // Whether the job first asks for its versions, and whether another directory is lost.
    for (asked, another) in [(true, false), (false, false), (false, true)] {
        let jobs = Jobs::new(&MPICH, 4, "mode = async\nec_interval = 0\nec_parity = 2\n");
        let Some(jobs) = jobs else { return };
        jobs.good("case=take to=1");
        fs::rename(jobs.scratch(2), jobs.job.path("away")).unwrap();
        jobs.good("case=take to=1 seed=100");
        jobs.lose(2);
        fs::rename(jobs.job.path("away"), jobs.scratch(2)).unwrap();
        if another {
            jobs.lose(1);
        }
        let first = if asked { "case=restore expect=1" } else { "case=begin to=1" };
        jobs.good(&format!("{first} seed=100"));
        jobs.good("case=restore expect=1 seed=100");
    }
}

/// Processes change places without a loss, and with files of the application's own.
#[test]
fn files_of_the_application_change_places() {
    let Some(jobs) = Jobs::new(&MPICH, 2, "mode = sync\nec_interval = 0\n") else { return };
    jobs.good("case=route to=1");
    fs::rename(jobs.scratch(0), jobs.job.path("other")).unwrap();
    fs::rename(jobs.scratch(1), jobs.scratch(0)).unwrap();
    fs::rename(jobs.job.path("other"), jobs.scratch(1)).unwrap();
    jobs.good("case=reroute expect=1");
}
