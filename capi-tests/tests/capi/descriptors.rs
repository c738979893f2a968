//! Applications that close descriptors of the library. The checks are in `programs/closed_descriptors.c`.

use capi_tests::job::Job;
use capi_tests::run::Ended;

const BOTH: &str = "mode = async\nscratch = DIR/scratch\npersistent = DIR/persistent\n\
                    host_cache_size = 4M\ntrace = DIR/trace\n";

fn ends(arguments: &str) -> Ended {
    let ended = Job::new(BOTH).run("closed_descriptors", arguments).succeed();
    assert!(ended.stdout.contains("restored"), "{}\n{}", ended.stdout, ended.stderr);
    ended
}

/// Catches descriptors in the way of programs that close what they have inherited: with as many as
/// the system usually grants, and with more.
#[test]
fn who_closes_low_descriptors_does_the_library_no_harm() {
    for arguments in ["limit=1024 upto=64", "limit=2048 upto=1024", "limit=2048 upto=1024 drain=0"]
    {
        let ended = ends(arguments);
        assert_eq!(ended.complaints(), [""; 0], "{arguments}");
    }
}

/// Catches a VELOC_Finalize that waits for a thread that nobody can wake any more.
#[test]
fn who_closes_all_descriptors_loses_nothing_and_hears_of_it() {
    for arguments in ["limit=1024 upto=1024", "limit=1024 upto=1024 drain=0"] {
        let ended = ends(arguments);
        assert!(ended.stderr.contains("closed by the application"), "{}", ended.stderr);
    }
}

/// Catches a library that uses or closes an application's descriptor with the number of its own.
#[test]
fn a_number_that_is_the_applications_by_now_is_left_alone() {
    for drain in 0..=1 {
        let ended = ends(&format!("replace=1 drain={drain}"));
        assert!(ended.stderr.contains("closed by the application"), "{}", ended.stderr);
    }
}
