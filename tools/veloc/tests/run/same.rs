//! That a restarted program is what it was, as `/proc` shows it.

use std::collections::BTreeMap;

use super::*;

/// Lines of `status` that are the process's own, rather than what it uses at the time.
const STATUS: [&str; 19] = [
    "Name",
    "Umask",
    "Tgid",
    "Uid",
    "Gid",
    "Groups",
    "NSpid",
    "NSpgid",
    "NSsid",
    "Threads",
    "SigBlk",
    "SigIgn",
    "SigCgt",
    "CapInh",
    "CapPrm",
    "CapEff",
    "CapBnd",
    "CapAmb",
    "NoNewPrivs",
];

/// What is known of the processes and threads of a program, whose first process is `program`.
fn known(program: u32) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    let mut processes = vec![program];
    while let Some(process) = processes.pop() {
        let folder = PathBuf::from(format!("/proc/{process}"));
        let text = |name: &str| {
            let bytes = fs::read(folder.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let number = text("status")
            .lines()
            .find_map(|line| {
                Some(line.strip_prefix("NSpid:")?.split_whitespace().last()?.to_owned())
            })
            .unwrap();
        let mut note = |name: &str, value: String| {
            known.insert(format!("{number} {name}"), value);
        };
        for name in [
            "comm",
            "cmdline",
            "environ",
            "limits",
            "personality",
            "timerslack_ns",
            "oom_score_adj",
            "coredump_filter",
        ] {
            note(name, text(name));
        }
        for line in text("status").lines() {
            let (name, value) = line.split_once(':').unwrap();
            if STATUS.contains(&name) {
                // Numbers outside are others.
                let value = if name.starts_with("NS") {
                    value.split_whitespace().last().unwrap_or_default()
                } else {
                    value
                };
                if name != "Tgid" {
                    note(name, value.trim().to_owned());
                }
            }
        }
        for name in ["cwd", "exe", "root"] {
            note(name, fs::read_link(folder.join(name)).unwrap().display().to_string());
        }
        for entry in fs::read_dir(folder.join("fd")).unwrap() {
            let entry = entry.unwrap();
            let fd = entry.file_name().into_string().unwrap();
            let link = fs::read_link(entry.path()).unwrap().display().to_string();
            let info = text(&format!("fdinfo/{fd}"));
            let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
            // CRIU opens all with O_LARGEFILE, which means nothing here.
            let flags = u32::from_str_radix(flags.trim(), 8).unwrap() & !0o100_000;
            // Pipes are new ones, and files without a name have another one in between.
            let link = link.split([':', '#']).next().unwrap().to_owned();
            note(&format!("descriptor {fd}"), format!("{link} {flags:o}"));
        }
        let mut mappings: Vec<(u64, u64, String)> = Vec::new();
        for line in text("maps").lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (start, end) = words[0].split_once('-').unwrap();
            let [start, end] = [start, end].map(|at| u64::from_str_radix(at, 16).unwrap());
            // Shared memory without a name is a file of that name afterwards.
            let path = words.get(5).unwrap_or(&"").trim_start_matches("/memfd:");
            let what = format!("{} {path}", words[1]);
            match mappings.last_mut() {
                // One that was cut in pieces may be whole again.
                Some(last) if last.1 == start && last.2 == what => last.1 = end,
                _ => mappings.push((start, end, what)),
            }
        }
        for (start, end, what) in mappings {
            note(&format!("mapping {start:x}-{end:x}"), what);
        }
        let sched = text("sched");
        for line in
            sched.lines().filter(|line| line.starts_with("policy") || line.starts_with("prio"))
        {
            let (name, value) = line.split_once(':').unwrap();
            note(name.trim(), value.trim().to_owned());
        }
        for entry in fs::read_dir(folder.join("task")).unwrap() {
            let thread = entry.unwrap().file_name().into_string().unwrap();
            processes.extend(
                text(&format!("task/{thread}/children"))
                    .split_whitespace()
                    .map(|child| child.parse::<u32>().unwrap()),
            );
        }
    }
    known
}

/// Catches whatever a process has before a restart and not behind it, or the other way round.
#[test]
fn a_restarted_program_is_what_it_was() {
    let Some(job) = Job::new() else { return };
    let running = job.start("run --dir D ./steps 1000000 written", "printed");
    job.wait_for_lines("printed", 3);
    let before = known(children(running.child.id())[1]);
    assert_eq!(job.checkpoint(), Ok(1));
    running.kill();
    let mut running = job.start("restart D", "other");
    let lines = job.text("printed").lines().count();
    running.wait_for_lines(&job, lines + 1);
    let program = children(running.child.id())
        .into_iter()
        .find(|child| fs::read_to_string(format!("/proc/{child}/comm")).unwrap().trim() == "steps");
    let after = known(program.unwrap());
    running.kill();
    let differs: Vec<_> = before
        .keys()
        .chain(after.keys())
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| format!("{key}: {:?}, then {:?}", before.get(key), after.get(key)))
        .collect();
    assert!(differs.is_empty(), "{differs:#?}");
}
