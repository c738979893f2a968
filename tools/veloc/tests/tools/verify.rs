//! `veloc verify`.

use std::fs;

use format::header::Header;
use format::identity::Identity;
use format::subarray::{self, Subarray};
use os::memory;
use serde_json::json;

use crate::files::{checkpoint, incremental, Job, GOLDEN};

/// Two ranks; version 1 in scratch and persistent, 2 aggregated, all with checksums.
fn job() -> Job {
    let job = Job::new();
    let part = |rank: u8| checkpoint(&[rank; 3]);
    for rank in 0..2u8 {
        for place in ["scratch", "persistent"] {
            job.write(&format!("{place}/wave-{rank}-1.dat"), &GOLDEN);
        }
        job.keep_checksum(&format!("wave-{rank}-1.dat"), &GOLDEN);
        job.keep_checksum(&format!("wave-{rank}-2.dat"), &part(rank));
    }
    job.aggregate("wave", 2, &[part(0), part(1)]);
    job
}

/// Changes the last byte of a file.
fn flip(job: &Job, name: &str) {
    let mut bytes = fs::read(job.path(name)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    job.write(name, &bytes);
}

#[test]
fn all_is_well() {
    let job = job();
    let ran = job.veloc("verify --config veloc.cfg --json");
    let found = ran.json();
    ran.success();
    assert_eq!(found["restorable"], json!({"wave": [1, 2]}));
    for version in found["checkpoints"].as_array().unwrap() {
        for copy in version["copies"].as_array().unwrap() {
            assert_eq!((&copy["condition"], &copy["checksum"]), (&json!("good"), &json!("good")));
        }
    }
    let text = job.veloc("verify --config veloc.cfg").success();
    assert!(text.contains("wave: all ranks can restore 1-2"), "{text}");
}

/// Catches a flipped bit that is overlooked, wherever it is, and a version that is given up though
/// another copy of it is good.
#[test]
fn flipped_bits_are_found() {
    let job = job();
    flip(&job, "scratch/wave-0-1.dat");
    let ran = job.veloc("verify --config veloc.cfg");
    assert_eq!((ran.code(), ran.stderr().as_str()), (Some(1), ""));
    for part in
        ["scratch/wave-0-1.dat: its bytes have SHA-256", "all ranks can restore 1-2", "1 bad"]
    {
        assert!(ran.stdout().contains(part), "{}", ran.stdout());
    }
    flip(&job, "persistent/wave-0-1.dat");
    flip(&job, "persistent/wave-agg-2.dat");
    let ran = job.veloc("verify --config veloc.cfg --json");
    assert_eq!(ran.code(), Some(1));
    let found = ran.json();
    assert_eq!(found["restorable"], json!({"wave": []}));
    assert_eq!(found["checkpoints"][0]["missing_ranks"], json!([0]));
    // Rank 1 has the last part.
    assert_eq!(found["checkpoints"][1]["missing_ranks"], json!([1]));
    assert_eq!(found["totals"]["bad"], 3);
    let text = job.veloc("verify --config veloc.cfg").stdout();
    assert!(text.contains("wave: no version can be restored by all ranks"), "{text}");
    // ls sees the flipped bit only if it reads the whole file.
    assert!(!job.veloc("ls --config veloc.cfg").success().contains("wave-0-1.dat"));
    assert!(job.veloc("ls --config veloc.cfg --verify").success().contains("wave-0-1.dat"));
}

#[test]
fn only_what_is_asked_for() {
    let job = job();
    flip(&job, "scratch/wave-0-1.dat");
    job.write("scratch/other-0-1.dat", &GOLDEN);
    let ran = job.veloc("verify wave 2 --config veloc.cfg --json");
    assert_eq!(ran.code(), Some(0), "{}", ran.stdout());
    assert_eq!(ran.json()["restorable"], json!({"wave": [2]}));
    assert_eq!(job.veloc("verify wave --config veloc.cfg").code(), Some(1));
    assert_eq!(job.veloc("verify other --config veloc.cfg").code(), Some(0));
    assert_eq!(job.veloc("verify wave -1 --config veloc.cfg").code(), Some(2));
    // A version that nobody can restart from is no success, though no copy is bad.
    let ran = job.veloc("verify other --ranks 3 --config veloc.cfg");
    assert_eq!(ran.code(), Some(1), "{}", ran.stdout());
    assert!(ran.stdout().contains("other: no version can be restored"), "{}", ran.stdout());
    job.veloc("verify wave 9 --config veloc.cfg").failure(&["\"wave\" version 9"]);
    job.veloc("verify waves --config veloc.cfg").failure(&["\"waves\""]);
    // A version of one rank alone cannot be restored by all.
    job.write("scratch/wave-0-3.dat", &GOLDEN);
    let found = job.veloc("verify wave 3 --config veloc.cfg --json").json();
    assert_eq!(found["checkpoints"][0]["missing_ranks"], json!([1]));
}

/// Catches copies that differ and pass, because none of them has a checksum.
#[test]
fn copies_without_checksums_are_compared() {
    let job = Job::new();
    job.write("scratch/x-0-1.dat", &GOLDEN);
    job.write("persistent/x-0-1.dat", &GOLDEN);
    let found = job.veloc("verify --config veloc.cfg --json").json();
    let copy = &found["checkpoints"][0]["copies"][0];
    assert_eq!((&copy["condition"], &copy["checksum"]), (&json!("good"), &json!("none")));
    flip(&job, "persistent/x-0-1.dat");
    let ran = job.veloc("verify --config veloc.cfg");
    assert_eq!(ran.code(), Some(1));
    assert_eq!(ran.stdout().matches("copies of this rank differ").count(), 2, "{}", ran.stdout());
    // A checksum tells which copy is right.
    job.keep_checksum("x-0-1.dat", &GOLDEN);
    let ran = job.veloc("verify --config veloc.cfg");
    assert!(ran.stdout().contains("x: all ranks can restore 1"), "{}", ran.stdout());
    job.write("meta/x-0-1.dat.chksum", b"");
    let ran = job.veloc("verify --config veloc.cfg");
    assert!(ran.stdout().contains("x-0-1.dat.chksum has 0 bytes"), "{}", ran.stdout());
}

/// Catches a delta that is good though its base is damaged, a base that is not read as nobody asked for its version, and
/// a version that is given up though another copy of its base is good.
#[test]
fn a_delta_is_as_good_as_its_base() {
    let job = Job::new();
    let whole = incremental(1, 0, None);
    job.write("scratch/wave-0-1.dat", &whole);
    job.keep_checksum("wave-0-1.dat", &whole);
    job.write("scratch/wave-0-2.dat", &incremental(2, 1, Some(1)));
    job.write("scratch/wave-0-3.dat", &incremental(3, 2, Some(2)));
    job.write("scratch/wave-0-4.dat", &incremental(4, 0, None));
    let said = job.veloc("verify --config veloc.cfg").success();
    assert!(said.contains("wave: all ranks can restore 1-4\n"), "{said}");
    flip(&job, "scratch/wave-0-1.dat");
    assert_eq!(
        job.veloc("ls --config veloc.cfg --json").json()["restorable"],
        json!({"wave": [1, 2, 3, 4]})
    );
    let ran = job.veloc("verify --config veloc.cfg");
    assert_eq!(ran.code(), Some(1));
    for part in [
        "wave-0-1.dat: its bytes have SHA-256",
        "wave-0-2.dat: it is a delta of version 1: ",
        "wave-0-3.dat: it is a delta of version 2, which needs version 1: ",
        "wave: all ranks can restore 4\n",
    ] {
        assert!(ran.stdout().contains(part), "{part}: {}", ran.stdout());
    }
    let ran = job.veloc("verify wave 3 --config veloc.cfg");
    assert_eq!(ran.code(), Some(1));
    assert!(ran.stdout().contains("wave-0-1.dat: its bytes have"), "{}", ran.stdout());
    assert!(ran.stdout().contains("1 name, 1 version, 1 copy"), "{}", ran.stdout());
    job.write("persistent/wave-0-1.dat", &whole);
    let ran = job.veloc("verify --config veloc.cfg");
    assert!(ran.stdout().contains("wave: all ranks can restore 1-4\n"), "{}", ran.stdout());
    job.veloc("verify wave 3 --config veloc.cfg").success();
}

/// Catches versions whose arrays are cut and that count as another job's, and a gap or a missing file that goes unseen.
#[test]
fn arrays_that_are_cut_can_be_restored_by_any_number_of_ranks() {
    let job = Job::new();
    // The second version has a gap, and the third lacks a file in persistent.
    for (version, rank, first, size) in
        [(1, 0, 0, 2), (1, 1, 2, 3), (2, 0, 0, 2), (2, 1, 3, 2), (3, 0, 0, 2)]
    {
        let part = Subarray::new(&[5, 7], &[first, 0], &[size, 7], 1).unwrap();
        let table = subarray::encode(&[(3, part)]);
        let sizes = vec![(subarray::REGION, table.len() as u64), (3, part.len())];
        let content = vec![1; part.len() as usize];
        let file = [Header::new(sizes).unwrap().encode(), table, content].concat();
        let of = Identity { run: 7, generation: 1 };
        if !job.write_bytes_of_run("persistent", version, (rank, 2), of, &file) {
            return;
        }
    }
    let verify = |options: &str| job.veloc(&format!("verify --config veloc.cfg {options}"));
    let ran = verify("--ranks 3").success();
    let gap =
        "version 2 can be restored by 2 ranks alone: region 3: no rank has 7 of the 35 elements";
    for part in ["wave: all ranks can restore 1\n", "good, for any number of ranks", gap] {
        assert!(ran.contains(part), "{ran}");
    }
    assert!(!ran.contains("version 3 can be"), "{ran}");
    assert!(verify("--ranks 2").success().contains("wave: all ranks can restore 1-2\n"));
    let found = verify("--json").json();
    let any: Vec<_> = (0..3).map(|at| found["checkpoints"][at]["any_ranks"].clone()).collect();
    assert_eq!(any, [json!(true), json!(false), json!(false)]);
}

/// Four ranks took versions 1 and 2. Catches numbers of ranks in proofs that are not looked at, or
/// compared where the library does not compare them.
#[test]
fn jobs_of_other_numbers_of_ranks_are_told() {
    let job = Job::new();
    for (version, rank) in [1, 2].into_iter().flat_map(|v| (0..4).map(move |rank| (v, rank))) {
        if !job.write_proven("scratch", version, rank, 4) {
            return;
        }
    }
    let verify = |options: &str| job.veloc(&format!("verify --config veloc.cfg {options}"));
    assert!(verify("--ranks 4").success().contains("wave: all ranks can restore 1-2\n"));
    let ran = verify("--ranks 3");
    assert_eq!(ran.code(), Some(1));
    let said = "wave: the files of 1-2 are of a job of 4 ranks, and this one has 3 (";
    assert!(ran.stdout().contains(said), "{}", ran.stdout());
    let found = verify("--ranks 3 --json").json();
    assert_eq!(found["restorable"], json!({"wave": []}));
    assert_eq!(found["checkpoints"][0]["jobs"], json!([4]));
    let given = fs::read_to_string(job.path("veloc.cfg")).unwrap();
    for proof in ["accept", "off"] {
        job.write("veloc.cfg", format!("{given}proof = {proof}\n").as_bytes());
        assert!(verify("--ranks 3").success().contains("wave: all ranks can restore 1-2\n"));
    }
    job.write("veloc.cfg", given.as_bytes());

    // Three ranks take version 1 again.
    (0..3).for_each(|rank| assert!(job.write_proven("scratch", 1, rank, 3)));
    let said = verify("").success();
    for part in ["all ranks can restore 2\n", "the files of 1 are of jobs of 3 and 4 ranks; "] {
        assert!(said.contains(part), "{said}");
    }
    assert!(verify("--ranks 3").success().contains("wave: all ranks can restore 1\n"));
    assert!(verify("--ranks 4").success().contains("wave: all ranks can restore 2\n"));

    // A copy that does not say how many ranks there are is no objection, and any copy of the right
    // job is enough.
    assert!(job.write_proven("scratch", 1, 3, 0));
    assert!(verify("").success().contains("wave: all ranks can restore 1-2\n"));
    (0..3).for_each(|rank| assert!(job.write_proven("persistent", 1, rank, 4)));
    assert!(verify("--ranks 4").success().contains("wave: all ranks can restore 1-2\n"));
}

/// Two ranks have a version of two runs, and then one of them a copy of the other's. Catches a version that is said to
/// be restorable and that no restart takes, and one that a restart takes.
#[test]
fn versions_of_different_runs_are_told() {
    let job = Job::new();
    let of = |run| Identity { run, generation: 0 };
    for (rank, run) in [(0, 7), (1, 8)] {
        if !job.write_of_run("scratch", 1, (rank, 2), of(run)) {
            return;
        }
    }
    let verify = || job.veloc("verify --config veloc.cfg --ranks 2");
    assert_eq!(verify().code(), Some(1));
    let listed = job.veloc("ls --config veloc.cfg --ranks 2");
    assert!(listed.stdout().contains("of different runs"), "{}", listed.stdout());
    let given = fs::read_to_string(job.path("veloc.cfg")).unwrap();
    job.write("veloc.cfg", format!("{given}proof = off\n").as_bytes());
    assert!(verify().success().contains("wave: all ranks can restore 1\n"));
    job.write("veloc.cfg", given.as_bytes());
    assert!(job.write_of_run("persistent", 1, (0, 2), of(8)));
    assert!(verify().success().contains("wave: all ranks can restore 1\n"));
}

/// A header that is good and would take hours. Catches a tool that reads holes to their end.
#[test]
fn what_is_mostly_holes_is_no_checkpoint() {
    let job = Job::new();
    let len = 5 * memory::machine_total().unwrap();
    let mut header = checkpoint(&[]);
    let at = header.len() - 8;
    header[at..].copy_from_slice(&len.to_le_bytes());
    let path = job.write("scratch/wave-0-1.dat", &header);
    let file = fs::File::options().write(true).open(path).unwrap();
    if file.set_len(header.len() as u64 + len).is_err() {
        println!("skipped: the folder for temporary files has no files of {len} bytes");
        return;
    }
    let ran = job.veloc("verify --config veloc.cfg");
    assert_eq!(ran.code(), Some(1));
    for part in ["it is no checkpoint", "wave: no version can be restored"] {
        assert!(ran.stdout().contains(part), "{}", ran.stdout());
    }
    job.veloc("inspect scratch/wave-0-1.dat").failure(&["wave-0-1.dat", "it is no checkpoint"]);
    let shown = job.veloc("inspect scratch/wave-0-1.dat --no-checksum").success();
    assert!(shown.contains(&len.to_string()), "{shown}");
}
