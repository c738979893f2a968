//! The tools on files that the library has written.

use std::fs;

use client::regions::ProtectedMemory;
use client::{Client, Selection, Verdict};
use config::Config;
use serde_json::json;

use crate::files::Job;

/// Catches tools that differ from the library in names, notes or formats.
#[test]
fn what_the_library_writes_is_good() {
    let job = Job::new();
    let text = fs::read_to_string(job.path("veloc.cfg")).unwrap();
    let original = job.path("result");
    let field: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
    for rank in 0..2 {
        let (config, _) = Config::from_text(&text, |_| None).unwrap();
        let mut client = Client::start_single(config, rank).unwrap();
        let memory = ProtectedMemory::new(4, field.as_ptr() as u64, field.len(), 1).unwrap();
        client.protecting().protect(None, 4, memory).unwrap();
        client.checkpoint("wave", 1).unwrap();
        client.checkpoint("wave", 2).unwrap();
        client.checkpoint_begin("own", 1).unwrap();
        let routed = client.route_file(original.to_str().unwrap()).unwrap();
        fs::write(routed, b"my own bytes").unwrap();
        client.checkpoint_end(Verdict::Taken).unwrap();
        client.checkpoint_begin("wave", 3).unwrap();
        client.checkpoint_mem(&Selection::All).unwrap();
        let verdict = if rank == 0 { Verdict::Taken } else { Verdict::Failed };
        client.checkpoint_end(verdict).unwrap();
        client.finish(true).unwrap();
    }
    let ran = job.veloc("verify --config veloc.cfg --json");
    let found = ran.json();
    ran.success();
    assert_eq!(found["restorable"], json!({"own": [1], "wave": [1, 2]}), "{found:#}");
    let versions = found["checkpoints"].as_array().unwrap();
    assert_eq!(versions.len(), 4);
    for version in versions {
        let copies = version["copies"].as_array().unwrap();
        // Copies in scratch and persistent of each rank that has ended its checkpoint well.
        assert_eq!(copies.len(), if version["version"] == 3 { 2 } else { 4 }, "{version:#}");
        for copy in copies {
            let routed = if version["name"] == "own" { json!(original) } else { json!(null) };
            assert_eq!(copy["routed"], routed, "{copy}");
        }
    }
    job.veloc("inspect persistent/wave-1-2.dat --extract 4 --output field").success();
    assert!(fs::read(job.path("field")).unwrap() == field);
}

/// Catches tools that read the files of an incremental job otherwise than the library writes them.
#[test]
fn what_an_incremental_job_writes_is_read() {
    let job = Job::new();
    let text = fs::read_to_string(job.path("veloc.cfg")).unwrap() + "incremental = true\n";
    let mut field: Vec<u8> = (0..1_000_000u32).map(|i| (i % 251) as u8).collect();
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let mut client = Client::start_single(config, 0).unwrap();
    let memory = ProtectedMemory::new(4, field.as_mut_ptr() as u64, field.len(), 1).unwrap();
    client.protecting().protect(None, 4, memory).unwrap();
    for version in 1..4 {
        field[version * 100_000..][..5000].fill(version as u8);
        client.checkpoint("wave", version as i32).unwrap();
    }
    client.finish(true).unwrap();
    let found = job.veloc("verify --config veloc.cfg --json").json();
    assert_eq!(found["restorable"], json!({"wave": [1, 2, 3]}), "{found:#}");
    let text = job.veloc("inspect persistent/wave-0-3.dat").success();
    assert!(text.contains("\nincremental: "), "{text}");
    if text.contains("it has everything") {
        println!("this system does not say what was written: there are no deltas to look at");
    }
    job.veloc("inspect persistent/wave-0-3.dat --extract 4 --output field").success();
    assert!(fs::read(job.path("field")).unwrap() == field);
}
