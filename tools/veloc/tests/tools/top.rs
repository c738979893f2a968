//! `veloc top` on a job of the library.

use std::fs;
use std::time::{Duration, Instant};

use client::regions::ProtectedMemory;
use client::Client;
use config::Config;
use serde_json::{json, Value};

use crate::files::Job;

/// Catches a job that other processes do not see, figures under other names, and a timeline of a running job that is no
/// whole file.
#[test]
fn a_running_job_is_seen_with_its_levels_and_its_timeline() {
    let job = Job::new();
    let timeline = job.path("timeline.json");
    let text = fs::read_to_string(job.path("veloc.cfg")).unwrap().replace("sync", "async")
        + &format!("host_cache_size = 8M\ntrace = {}\n", timeline.display());
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    let mut client = Client::start_single(config, 0).unwrap();
    let field = vec![7u8; 1 << 20];
    let memory = ProtectedMemory::new(4, field.as_ptr() as u64, field.len(), 1).unwrap();
    client.protecting().protect(None, 4, memory).unwrap();
    client.checkpoint("wave", 5).unwrap();
    client.checkpoint_wait().unwrap();

    let own = |found: &Value| found["timeline"] == json!(timeline);
    // The thread that has made memory ready counts it behind that.
    let is_ready = |here: &Value| here["levels"][0]["ready_bytes"].as_u64() >= Some(1 << 20);
    let since = Instant::now();
    let here = loop {
        let found = job.veloc("top --json --every 0.1").json();
        let here = found.as_array().unwrap().iter().find(|found| own(found));
        let here = here.unwrap_or_else(|| panic!("{found:#}"));
        if is_ready(here) {
            break here.clone();
        }
        assert!(since.elapsed() < Duration::from_secs(120), "{here:#}");
    };
    assert_eq!(here["process"], json!(std::process::id()), "{here:#}");
    assert_eq!((&here["rank"], &here["ranks"]), (&json!(0), &json!(0)), "{here:#}");
    assert_eq!(here["checkpoint"], json!({ "name": "wave", "version": 5 }), "{here:#}");
    assert_eq!((&here["checkpoints"], &here["state"]), (&json!(1), &json!("computes")), "{here:#}");
    let host = &here["levels"].as_array().unwrap()[0];
    assert_eq!(
        (&host["name"], &host["bytes"]),
        (&json!("host buffer"), &json!(8 << 20)),
        "{here:#}"
    );
    let activities = here["activities"].as_array().unwrap();
    let wrote = activities.iter().find(|one| one["name"] == "write").unwrap();
    assert!(wrote["bytes"].as_u64() >= Some(1 << 20), "{here:#}");
    serde_json::from_slice::<Vec<Value>>(&fs::read(&timeline).unwrap()).unwrap();

    let lines = job.veloc("top --once --every 0.1").success();
    let line = lines.lines().find(|line| line.contains(&timeline.display().to_string()));
    let line = line.unwrap_or_else(|| panic!("{lines}"));
    assert!(
        line.contains(": rank 0; computes; 1 taken, 0 restored, now wave 5; host buffer "),
        "{line}"
    );

    client.finish(true).unwrap();
    let found = job.veloc("top --json --every 0.1").json();
    assert!(!found.as_array().unwrap().iter().any(own), "{found:#}");
}
