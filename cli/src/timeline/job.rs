//! What the events tell, process by process. Times are in ms since the machine's start.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::Value;

use super::read::Event;

/// Something that took time.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The activity, or for a wait of the application its cause.
    pub name: String,
    /// The application waited.
    pub blocked: bool,
    /// When it began.
    pub start: f64,
    /// When it ended.
    pub end: f64,
    /// The thread's number.
    pub thread: u64,
    /// The checkpoint's version.
    pub version: Option<i64>,
    /// At least half of its bytes went to untouched pages.
    pub untouched: bool,
}

/// What the application calls.
const CALLS: [&str; 4] = ["init", "checkpoint", "restore", "drain"];

impl Span {
    /// Whether it is a call of the application's.
    pub fn is_call(&self) -> bool {
        !self.blocked && CALLS.contains(&self.name.as_str())
    }
}

/// Something that took no time.
#[derive(Clone, Debug)]
pub struct Mark {
    /// `evict` or `touch mode`.
    pub name: String,
    /// When.
    pub at: f64,
    /// The tier that was left, or the mode that was chosen.
    pub detail: String,
}

/// The activity that is the time from one decision of `touch = auto` to the next, by its outcome.
pub const SEQUENTIAL: &str = "sequential";
/// The other outcome.
pub const CONCURRENT: &str = "concurrent";

/// One process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Its number in the system.
    pub id: u64,
    /// What it says of itself.
    pub facts: BTreeMap<String, String>,
    /// The names of its threads.
    pub threads: HashMap<u64, String>,
    /// Ascending by start.
    pub spans: Vec<Span>,
    /// Ascending by time.
    pub marks: Vec<Mark>,
    /// Each with its values over time, ascending.
    pub counters: BTreeMap<String, Vec<(f64, f64)>>,
    /// What it is called beside others of its kind.
    pub compared_as: Option<String>,
}

impl Process {
    /// Its rank, if it said one.
    pub fn rank(&self) -> Option<u64> {
        self.facts.get("rank")?.parse().ok()
    }

    /// Whether it has this rank or this process id.
    pub fn is(&self, number: u64) -> bool {
        self.rank() == Some(number) || self.id == number
    }

    /// The copies that left a tier, ascending by time.
    pub fn evictions(&self) -> impl Iterator<Item = &Mark> {
        self.marks.iter().filter(|mark| mark.name == "evict")
    }

    /// The time that each decision of `touch = auto` held: until the next one, or until nothing
    /// was touched any more.
    fn modes(&self) -> Vec<Span> {
        let decisions: Vec<&Mark> = self.marks.iter().filter(|m| m.name == "touch mode").collect();
        let touches = self.spans.iter().filter(|span| span.name == "touch");
        let over = touches.map(|span| span.end).fold(f64::NEG_INFINITY, f64::max);
        let ends = decisions.iter().skip(1).map(|next| next.at).chain([over]);
        let span = |(mark, end): (&&Mark, f64)| Span {
            name: mark.detail.clone(),
            blocked: false,
            start: mark.at,
            end: end.min(over).max(mark.at),
            thread: 0,
            version: None,
            untouched: false,
        };
        decisions.iter().zip(ends).map(span).collect()
    }

    /// The waits for the application's copies, of a program that records the copies alone: what
    /// its calling threads copy, they wait for.
    fn copy_waits(&self) -> Vec<Span> {
        if self.spans.iter().any(|span| span.blocked && span.name == "copy") {
            return Vec::new();
        }
        let calls = self.spans.iter().filter(|span| span.is_call());
        let calling: HashSet<u64> = calls.map(|call| call.thread).collect();
        let copies =
            self.spans.iter().filter(|s| ["capture", "recover"].contains(&s.name.as_str()));
        let waits = copies.filter(|span| !span.blocked && calling.contains(&span.thread));
        waits.map(|s| Span { name: "copy".to_owned(), blocked: true, ..s.clone() }).collect()
    }

    /// What it is called: `rank 3 (process 17)`, or as it is compared with others.
    pub fn title(&self) -> String {
        if let Some(name) = &self.compared_as {
            return name.clone();
        }
        match self.rank() {
            Some(rank) => format!("rank {rank} (process {})", self.id),
            None => format!("process {}", self.id),
        }
    }

    /// How it keeps checkpoints, in words. Beside others of the bench, the library is one approach.
    fn strategy(&self, of_bench: bool) -> String {
        if of_bench && !self.facts.contains_key("approach") {
            return format!("approach = ours ({})", self.strategy(false));
        }
        let fact = |key: &str| self.facts.get(key).map(|value| format!("{key} = {value}"));
        let known: Vec<String> =
            ["approach", "touch", "pin"].into_iter().filter_map(fact).collect();
        known.join(", ")
    }

    fn earlier_by(&mut self, time: f64) {
        for span in &mut self.spans {
            (span.start, span.end) = (span.start - time, span.end - time);
        }
        self.marks.iter_mut().for_each(|mark| mark.at -= time);
        self.counters.values_mut().flatten().for_each(|(at, _)| *at -= time);
    }

    /// Records that its file lacks.
    pub fn dropped(&self) -> u64 {
        self.facts.get("dropped").and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// The processes of a file, ascending by rank and process id.
pub fn by_process(events: &[Event]) -> Vec<Process> {
    let mut processes: BTreeMap<u64, Process> = BTreeMap::new();
    for event in events {
        let process = processes.entry(event.pid).or_default();
        process.id = event.pid;
        let text = |key: &str| event.args.get(key).and_then(Value::as_str).map(str::to_owned);
        let start = event.ts / 1000.0;
        match (event.ph.as_str(), event.name.as_str()) {
            ("M", "thread_name") => {
                process.threads.insert(event.tid, text("name").unwrap_or_default());
            }
            ("M", "veloc") => {
                let facts = event.args.iter();
                let facts = facts.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_owned())));
                process.facts.extend(facts);
            }
            ("X", name) => {
                let count = |key: &str| event.args.get(key).and_then(Value::as_u64).unwrap_or(0);
                process.spans.push(Span {
                    name: name.to_owned(),
                    blocked: event.cat == "blocked",
                    start,
                    end: start + event.dur / 1000.0,
                    thread: event.tid,
                    version: event.args.get("version").and_then(Value::as_i64),
                    untouched: count("untouched_bytes") * 2 > count("bytes"),
                });
            }
            ("i", name) => process.marks.push(Mark {
                name: name.to_owned(),
                at: start,
                detail: text("tier").or_else(|| text("mode")).unwrap_or_default(),
            }),
            ("C", name) => {
                let bytes = event.args.get("bytes").and_then(Value::as_f64).unwrap_or(0.0);
                process.counters.entry(name.to_owned()).or_default().push((start, bytes));
            }
            _ => {}
        }
    }
    let mut processes: Vec<Process> =
        processes.into_values().filter(|process| !process.spans.is_empty()).collect();
    for process in &mut processes {
        process.marks.sort_by(|a, b| a.at.total_cmp(&b.at));
        let told = [process.modes(), process.copy_waits()].concat();
        process.spans.extend(told);
        // Each thread's stand in the order of their ends.
        process.spans.sort_by(|a, b| a.start.total_cmp(&b.start).then(b.end.total_cmp(&a.end)));
        process.counters.values_mut().for_each(|line| line.sort_by(|a, b| a.0.total_cmp(&b.0)));
    }
    processes.sort_by_key(|process| (process.rank(), process.id));
    processes
}

/// The processes of several files, ascending by rank and process id. A process id says nothing
/// beyond its file.
pub fn of_files(files: &[Vec<Event>]) -> Vec<Process> {
    let mut all: Vec<Process> = files.iter().flat_map(|events| by_process(events)).collect();
    all.sort_by_key(|process| (process.rank(), process.id));
    all
}

/// The processes of several files, each of which begins at 0 and is called by a letter and what it
/// says of its strategy.
pub fn side_by_side(files: &[Vec<Event>]) -> Vec<Process> {
    let files: Vec<Vec<Process>> = files.iter().map(|events| by_process(events)).collect();
    let of_bench = files.iter().flatten().any(|process| process.facts.contains_key("approach"));
    let mut all = Vec::new();
    for (letter, mut processes) in ('A'..).zip(files) {
        let (first, _) = extent(&processes);
        for process in &mut processes {
            process.earlier_by(first);
            process.compared_as = Some(format!("({letter}) {}", process.strategy(of_bench)));
        }
        all.extend(processes);
    }
    all
}

/// When the first span of all begins, and when the last one ends.
pub fn extent(processes: &[Process]) -> (f64, f64) {
    let spans = || processes.iter().flat_map(|process| &process.spans);
    let first = spans().map(|span| span.start).fold(f64::INFINITY, f64::min);
    let last = spans().map(|span| span.end).fold(f64::NEG_INFINITY, f64::max);
    (first, last)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A job of rank 3, process 17: two checkpoints, of which the second waits.
    pub const SMALL: &str = r#"[
{"name":"veloc","ph":"M","pid":17,"tid":0,"args":{"rank":"3"}},
{"name":"veloc","ph":"M","pid":17,"tid":0,"args":{"warning":"it is software <no GPU>"}},
{"name":"thread_name","ph":"M","pid":17,"tid":1,"args":{"name":"application"}},
{"name":"thread_name","ph":"M","pid":17,"tid":2,"args":{"name":"flush"}},
{"name":"copy","cat":"blocked","ph":"X","ts":1000.0,"dur":400,"pid":17,"tid":1,"args":{"version":1}},
{"name":"checkpoint","cat":"veloc","ph":"X","ts":1000.0,"dur":500,"pid":17,"tid":1,"args":{"version":1}},
{"name":"device room","cat":"blocked","ph":"X","ts":3000.0,"dur":400,"pid":17,"tid":1,"args":{"version":2}},
{"name":"checkpoint","cat":"veloc","ph":"X","ts":3000.0,"dur":500,"pid":17,"tid":1,"args":{"version":2}},
{"name":"flush","cat":"veloc","ph":"X","ts":1500.0,"dur":1900,"pid":17,"tid":2,"args":{"version":1,"bytes":100,"untouched_bytes":60}},
{"name":"touch","cat":"veloc","ph":"X","ts":1000.0,"dur":900,"pid":17,"tid":3,"args":{"bytes":100}},
{"name":"touch","cat":"veloc","ph":"X","ts":1000.0,"dur":600,"pid":17,"tid":4,"args":{"bytes":100}},
{"name":"evict","cat":"veloc","ph":"i","ts":3400.0,"s":"t","pid":17,"tid":1,"args":{"tier":"device"}},
{"name":"host touched","cat":"room","ph":"C","ts":1900.0,"pid":17,"tid":3,"args":{"bytes":1048576}}
"#;

    pub fn small() -> Vec<Process> {
        by_process(&events(SMALL))
    }

    fn events(text: &str) -> Vec<Event> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t");
        std::fs::write(&path, text).unwrap();
        super::super::read::events(&path).unwrap().0
    }

    #[test]
    fn a_process_is_read() {
        let jobs = small();
        let [process] = &jobs[..] else { panic!("{jobs:?}") };
        assert_eq!(process.title(), "rank 3 (process 17)");
        assert!(process.is(3) && process.is(17) && !process.is(4));
        assert_eq!(process.threads[&2], "flush");
        let flush = process.spans.iter().find(|span| span.name == "flush").unwrap();
        assert_eq!(
            (flush.start, flush.end, flush.version, flush.untouched),
            (1.5, 3.4, Some(1), true)
        );
        assert_eq!(extent(&jobs), (1.0, 3.5));
        assert_eq!(process.counters["host touched"], [(1.9, 1048576.0)]);
    }

    #[test]
    fn a_decision_holds_until_the_next_or_until_all_is_touched() {
        let decide = |ts: f64, mode: &str| {
            format!(
                r#"{{"name":"touch mode","ph":"i","ts":{ts},"pid":17,"tid":3,"args":{{"mode":"{mode}"}}}},"#
            )
        };
        let text = format!(
            "[\n{}\n{}\n{}",
            decide(1100.0, SEQUENTIAL),
            decide(1150.0, CONCURRENT),
            SMALL.trim_start_matches('[')
        );
        let jobs = by_process(&events(&text));
        let held = |name: &str| {
            let span = jobs[0].spans.iter().find(|span| span.name == name).unwrap();
            (span.start, span.end)
        };
        assert_eq!((held(SEQUENTIAL), held(CONCURRENT)), ((1.1, 1.15), (1.15, 1.9)));
    }

    #[test]
    fn copies_on_a_calling_thread_are_waited_for_unless_waits_are_recorded() {
        let waits = |text: &str| {
            let jobs = by_process(&events(text));
            let copies = jobs[0].spans.iter().filter(|s| s.blocked && s.name == "copy");
            copies.map(|span| (span.start, span.end, span.version)).collect::<Vec<_>>()
        };
        assert_eq!(waits(SMALL), [(1.0, 1.4, Some(1))]);
        let alone = SMALL.replace(r#""copy","cat":"blocked""#, r#""capture","cat":"veloc""#);
        assert_eq!(waits(&alone), [(1.0, 1.4, Some(1))]);
        let elsewhere =
            alone.replace(r#""dur":400,"pid":17,"tid":1"#, r#""dur":400,"pid":17,"tid":7"#);
        assert_eq!(waits(&elsewhere), []);
    }

    /// Files of several processes are one picture, in the order of the ranks.
    #[test]
    fn files_side_by_side_begin_together_and_keep_their_order() {
        let later = SMALL.replace("\"pid\":17", "\"pid\":5").replace("\"ts\":", "\"ts\":90");
        let both = side_by_side(&[events(&later), events(SMALL)]);
        assert_eq!(both.iter().map(|p| p.id).collect::<Vec<_>>(), [5, 17]);
        assert!(both[0].title().starts_with("(A)") && both[1].title().starts_with("(B)"));
        for process in &both {
            assert_eq!(process.spans[0].start, 0.0);
        }
        assert!((both[1].counters["host touched"][0].0 - 0.9).abs() < 1e-9);
    }

    #[test]
    fn beside_an_approach_of_the_bench_the_library_is_called_ours() {
        let with = |facts: &str| SMALL.replace(r#""rank":"3""#, facts);
        let (ours, ring) = (with(r#""touch":"auto","pin":"off""#), with(r#""approach":"ring""#));
        let titles = |files: &[Vec<Event>]| {
            side_by_side(files).iter().map(Process::title).collect::<Vec<_>>()
        };
        let both = titles(&[events(&ours), events(&ring)]);
        assert_eq!(both, ["(A) approach = ours (touch = auto, pin = off)", "(B) approach = ring"]);
        assert_eq!(titles(&[events(&ours)]), ["(A) touch = auto, pin = off"]);
    }

    /// In containers, and on different nodes, processes have the same numbers; and two jobs of one
    /// process number their threads alike.
    #[test]
    fn equal_numbers_in_different_files_are_different_processes() {
        let other = SMALL.replace("\"rank\":\"3\"", "\"rank\":\"12\"");
        let jobs = of_files(&[events(&other), events(SMALL)]);
        let titles: Vec<String> = jobs.iter().map(Process::title).collect();
        assert_eq!(titles, ["rank 3 (process 17)", "rank 12 (process 17)"]);
        assert!(jobs.iter().all(|job| job.spans == small()[0].spans));
    }

    #[test]
    fn files_are_merged() {
        let other =
            SMALL.replace("\"pid\":17", "\"pid\":9").replace("\"rank\":\"3\"", "\"rank\":\"12\"");
        let jobs = of_files(&[events(&other), events(SMALL)]);
        let titles: Vec<String> = jobs.iter().map(Process::title).collect();
        assert_eq!(titles, ["rank 3 (process 17)", "rank 12 (process 9)"]);
    }
}
