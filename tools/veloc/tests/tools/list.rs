//! `veloc ls`.

use std::fs;
use std::os::unix::fs::{chown, lchown, symlink, MetadataExt as _};
use std::time::{Duration, SystemTime};

use serde_json::{json, Value};

use crate::files::{checkpoint, incremental, Job, GOLDEN};
use erasure::encoding::{Encoding, Member};
use erasure::parity::ParityWriter;
use format::checksum::Checksum;
use format::identity::Identity;

/// A job of 4 ranks: version 1 in scratch and persistent, 2 in scratch except for rank 2, 3 as an
/// aggregated file, and many other files.
fn job() -> Job {
    let job = Job::new();
    for rank in 0..4 {
        job.write(&format!("scratch/wave-{rank}-1.dat"), &GOLDEN);
        job.write(&format!("persistent/wave-{rank}-1.dat"), &GOLDEN);
        if rank != 2 {
            job.write(&format!("scratch/wave-{rank}-2.dat"), &GOLDEN);
        }
        parity(&job, rank);
    }
    job.aggregate("wave", 3, &[0, 1, 2, 3].map(|rank| checkpoint(&[rank])));
    for foreign in
        ["wave-0-2.dat.partial", ".wave-0-9.dat.tmp-1-2", "wave-0-99999999999.dat", "notes", "a-b"]
    {
        job.write(&format!("scratch/{foreign}"), b"foreign");
    }
    fs::create_dir(job.path("scratch/folder")).unwrap();
    job
}

/// The parity file that a rank keeps of version 2.
fn parity(job: &Job, own: usize) {
    let member = |rank| Member {
        rank,
        len: 40,
        digest: Checksum::of(&GOLDEN),
        identity: Identity::UNKNOWN,
        routed: None,
    };
    let members = (0..4).map(member).collect();
    let encoding = Encoding { name: "wave".into(), version: 2, parities: 1, members };
    let payload = vec![7; encoding.layout().payload() as usize];
    let path = job.path(&format!("scratch/.wave-{own}-2.dat.parity"));
    let mut writer = ParityWriter::create(&path, encoding, own).unwrap();
    writer.put(&payload).unwrap();
    writer.complete().unwrap();
}

fn version(found: &Value, number: i64) -> &Value {
    let versions = found["checkpoints"].as_array().unwrap();
    versions.iter().find(|version| version["version"] == number).expect("the version")
}

fn places(version: &Value) -> Vec<(u64, &str, &str)> {
    let text = |copy: &'_ Value, key: &str| -> &'static str {
        Box::leak(copy[key].as_str().unwrap().to_owned().into_boxed_str())
    };
    let copies = version["copies"].as_array().unwrap().iter();
    copies.map(|c| (c["rank"].as_u64().unwrap(), text(c, "place"), text(c, "condition"))).collect()
}

/// Catches copies that are overlooked or counted twice, other files taken for copies, and missing
/// ranks that are not named.
#[test]
fn every_copy_is_listed() {
    let job = job();
    let found = job.veloc("ls --config veloc.cfg --json").json();
    let parity = fs::metadata(job.path("scratch/.wave-0-2.dat.parity")).unwrap().len();
    assert_eq!(
        found["totals"],
        json!({"names": 1, "versions": 3, "copies": 8 + 3 + 4 + 4, "bytes": 11 * 40 + 4 * parity + 4 * 21,
            "bad": 0})
    );
    assert_eq!(found["restorable"], json!({"wave": [1, 3]}));
    assert_eq!(found["directories"]["scratch"], json!(job.path("scratch")));
    let two = version(&found, 2);
    assert_eq!((&two["restorable"], &two["missing_ranks"]), (&json!(false), &json!([2])));
    assert_eq!(
        places(two),
        [
            (0, "scratch", "good"),
            (0, "parity", "good"),
            (1, "scratch", "good"),
            (1, "parity", "good"),
            (2, "parity", "good"),
            (3, "scratch", "good"),
            (3, "parity", "good"),
        ]
    );
    let three = version(&found, 3);
    let copy = &three["copies"][1];
    assert_eq!((&copy["offset"], &copy["bytes"]), (&json!(21), &json!(21)));
    assert_eq!(copy["path"], json!(job.path("persistent/wave-agg-3.dat")));
    assert!(places(three).iter().all(|(_, place, is)| (*place, *is) == ("aggregated", "good")));

    let text = job.veloc("ls --config veloc.cfg").success();
    for part in ["rank 2 missing", "0-1,3", "0-3", "1 name, 3 versions, 19 copies"] {
        assert!(text.contains(part), "{text}");
    }
}

/// Catches damaged copies that are taken for good ones, and good ones for damaged.
#[test]
fn damage_is_named() {
    let job = job();
    job.write("persistent/wave-1-1.dat", &GOLDEN[..39]);
    job.write("scratch/.wave-3-2.dat.parity", b"VELOCEC1");
    job.write("scratch/wave-0-2.dat", &[0xff; 40]);
    let mut bytes = fs::read(job.path("persistent/wave-agg-3.dat")).unwrap();
    bytes[21] = 9;
    job.write("persistent/wave-agg-3.dat", &bytes);
    // Without a table, the headers say where the parts lie, if they are good.
    job.aggregate("other", 7, &[GOLDEN.to_vec(), vec![0; 8]]);
    job.aggregate("other", 8, &[GOLDEN.to_vec(), GOLDEN.to_vec()]);
    for version in [7, 8] {
        fs::remove_file(job.path(&format!("meta/other-agg-{version}.dat"))).unwrap();
    }
    let ran = job.veloc("ls --config veloc.cfg --json");
    let found = ran.json();
    assert_eq!(ran.code(), Some(0));
    assert_eq!(found["totals"]["bad"], 5);
    assert_eq!(found["restorable"], json!({"other": [8], "wave": [1]}));
    assert_eq!(version(&found, 2)["missing_ranks"], json!([0, 2]));
    assert_eq!(version(&found, 3)["missing_ranks"], json!([1]));
    let other = &found["checkpoints"][0];
    assert!(other["damaged"][0]["reason"].as_str().unwrap().contains("meta/other-agg-7.dat"));
    let text = job.veloc("ls wave --config veloc.cfg").success();
    assert!(text.contains("persistent/wave-1-1.dat: truncated: 39 of 40 bytes"), "{text}");
    assert!(text.contains("1 bad, others are good") && !text.contains("other "), "{text}");
    assert!(text.contains("wave-agg-3.dat: rank 1: truncated: "), "{text}");
}

/// Catches checkpoints of the application's own files that are taken for damaged ones.
#[test]
fn routed_files() {
    let job = Job::new();
    let original = job.write("result", b"my own bytes");
    job.write("scratch/own-0-1.dat", b"my own bytes");
    job.write("scratch/.own-0-1.dat.routed", original.to_str().unwrap().as_bytes());
    symlink(&original, job.path("persistent/own-0-1.dat")).unwrap();
    symlink(job.path("gone"), job.path("persistent/own-0-2.dat")).unwrap();
    let found = job.veloc("ls --config veloc.cfg --json").json();
    assert_eq!(places(version(&found, 1)), [(0, "scratch", "good"), (0, "persistent", "good")]);
    for copy in version(&found, 1)["copies"].as_array().unwrap() {
        assert_eq!((&copy["routed"], &copy["bytes"]), (&json!(original), &json!(12)));
    }
    assert_eq!(places(version(&found, 2)), [(0, "persistent", "bad")]);
    let text = job.veloc("ls --config veloc.cfg").success();
    assert!(text.contains("all (routed)") && text.contains("gone\", which is missing"), "{text}");
}

/// Catches deltas that are not told from whole checkpoints, one that counts though nobody can restore it, and a row for
/// each of a long chain.
#[test]
fn deltas_and_their_bases() {
    let job = Job::new();
    let path = |rank: u32, version: u8| format!("scratch/wave-{rank}-{version}.dat");
    for rank in 0..2 {
        job.write(&path(rank, 1), &incremental(1, 0, None));
        for version in 2..6 {
            let delta = incremental(version, u64::from(version) - 1, Some(version - 1));
            job.write(&path(rank, version), &delta);
        }
    }
    let found = job.veloc("ls --config veloc.cfg --json").json();
    assert_eq!(found["restorable"], json!({"wave": [1, 2, 3, 4, 5]}));
    assert_eq!(
        (&version(&found, 1)["delta_of"], &version(&found, 3)["delta_of"]),
        (&json!([]), &json!([2]))
    );
    assert_eq!(version(&found, 3)["copies"][0]["delta_of"], 2);
    assert_eq!(version(&found, 1)["copies"][0]["delta_of"], json!(null));
    let text = job.veloc("ls --config veloc.cfg").success();
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("wave")).collect();
    assert!(text.contains("delta of") && rows.len() == 2, "{text}");
    assert!(rows[1].contains("2-5 (4)") && rows[1].contains(" 1-4 "), "{text}");

    // What rank 1 has is of no use to rank 0, and neither is another checkpoint of the same version.
    fs::remove_file(job.path(&path(0, 2))).unwrap();
    let found = job.veloc("ls --config veloc.cfg --json").json();
    assert_eq!(found["restorable"], json!({"wave": [1]}));
    assert_eq!(version(&found, 3)["missing_ranks"], json!([0]));
    assert_eq!(
        version(&found, 5)["copies"][0]["reason"],
        "it is a delta of version 4, which needs version 2: there is no file of that"
    );
    for another in [incremental(9, 1, Some(1)), GOLDEN.to_vec()] {
        job.write(&path(0, 2), &another);
        let found = job.veloc("ls --config veloc.cfg --json").json();
        let reason = version(&found, 3)["copies"][0]["reason"].as_str().unwrap().to_owned();
        assert!(reason.contains("wave-0-2.dat: it is another checkpoint"), "{reason}");
    }
    // Numbers alone do not make a base.
    job.write(&path(0, 2), &incremental(2, 2, Some(1)));
    let text = job.veloc("ls --config veloc.cfg").success();
    assert!(text.contains("up to 2 deltas may lie below it, and 2 below its delta"), "{text}");
    // In any place, a base is one; in an aggregated file too.
    job.aggregate("wave", 2, &[incremental(2, 1, Some(1)), incremental(2, 1, Some(1))]);
    let found = job.veloc("ls --config veloc.cfg --json").json();
    assert_eq!(found["restorable"], json!({"wave": [1, 2, 3, 4, 5]}));
}

/// Catches a run that began anew, below the versions of an older one, of which nothing is said.
#[test]
fn versions_out_of_order_are_told() {
    let job = Job::new();
    let taken = |version: i32, seconds: u64| {
        let path = job.write(&format!("scratch/shot-0-{version}.dat"), &GOLDEN);
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000 + seconds);
        os::times::set_modified(&path, time).unwrap();
    };
    taken(2, 0);
    taken(5, 10);
    let told = "shot: version 2 was taken after version 5";
    assert!(!job.veloc("ls --scratch scratch").success().contains(told));
    taken(2, 20);
    assert!(job.veloc("ls --scratch scratch").success().contains(told));
}

/// Catches rows without end for jobs with many versions and ranks.
#[test]
fn many_files_are_few_rows() {
    let job = Job::new();
    for version in 0..100 {
        for rank in 0..4 {
            if (version, rank) != (50, 1) {
                job.write(&format!("scratch/shot-{rank}-{version}.dat"), &GOLDEN);
            }
        }
    }
    let text = job.veloc("ls --scratch scratch").success();
    for part in ["0-49 (50)", "51-99 (49)", "rank 1 missing", "399 copies"] {
        assert!(text.contains(part), "{text}");
    }
    let rows = text.lines().filter(|line| line.contains("shot")).count();
    assert_eq!(rows, 3, "{text}");
    let text = job.veloc("ls --scratch scratch --each").success();
    assert_eq!(text.lines().filter(|line| line.contains("shot")).count(), 100, "{text}");
    // A rank without any file is known only if the number of ranks is given.
    let text = job.veloc("ls --scratch scratch --ranks 6").success();
    assert!(text.contains("ranks 4-5 missing") && text.contains("ranks 1,4-5 missing"), "{text}");
}

#[test]
fn what_cannot_be_listed() {
    let job = Job::new();
    assert_eq!(job.veloc("ls --config veloc.cfg").success(), "no checkpoints\n");
    // Without directories, only checkpoints kept in memory can be shown.
    assert!(job.veloc("ls").success().contains("in memory on this host"));
    job.veloc("ls --config none.cfg").failure(&["none.cfg"]);
    job.veloc("ls --scratch none --persistent nothing").failure(&["none, nothing"]);
    job.veloc("ls --meta meta").failure(&["neither scratch nor persistent"]);
    assert_eq!(job.veloc("ls --scratch scratch --ranks 4000000000").code(), Some(2));
    job.veloc("ls a/b --scratch scratch").failure(&["a/b"]);
    // Keys that a job is refused for do not keep the tool from its files.
    job.write("axl.cfg", b"mode = async\nscratch = scratch\naxl_type = pthread\n");
    job.veloc("ls --config axl.cfg").success();
}

/// Catches parities of which only the header is looked at.
#[test]
fn parities_are_read_too() {
    let job = job();
    let path = job.path("scratch/.wave-1-2.dat.parity");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    assert_eq!(job.veloc("ls --config veloc.cfg --json").json()["totals"]["bad"], 0);
    let ran = job.veloc("verify --config veloc.cfg --json");
    assert_eq!((ran.code(), &ran.json()["totals"]["bad"]), (Some(1), &json!(1)));
}

/// Catches a file, or a link, of another user that is not reported.
#[test]
fn owners_are_named() {
    const NOBODY: u32 = 65534;
    let job = Job::new();
    let theirs = job.write("scratch/wave-0-9.dat", &GOLDEN);
    assert!(!job.veloc("ls --config veloc.cfg").success().contains("of user"));
    if fs::metadata(&theirs).unwrap().uid() != 0 {
        println!("skipped: owners_are_named needs root");
        return;
    }
    chown(&theirs, Some(NOBODY), None).unwrap();
    let own = job.write("own", &GOLDEN);
    let link = job.path("scratch/wave-1-9.dat");
    symlink(own, &link).unwrap();
    lchown(&link, Some(NOBODY), None).unwrap();
    job.write("scratch/wave-2-9.dat", &GOLDEN);
    for command in ["ls", "verify"] {
        let said = job.veloc(&format!("{command} --config veloc.cfg")).success();
        assert!(said.contains(", of user 65534: 0-1"), "{said}");
    }
    let found = job.veloc("ls --config veloc.cfg --json").json();
    let owners: Vec<_> = (0..3).map(|at| &found["checkpoints"][0]["copies"][at]["owner"]).collect();
    assert_eq!(owners, [65534, 65534, 0]);
}
