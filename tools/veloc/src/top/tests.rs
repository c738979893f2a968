use std::ffi::CStr;
use std::path::PathBuf;

use ratatui::backend::TestBackend;
use ratatui::Terminal;
use trace::live::{ActivityNow, CauseNow, LevelNow, Present};
use trace::metrics::{Cause, CAUSES};
use trace::Activity;

use super::job::{shown, Job, JobNow};
use super::lines;
use super::screen::Picture;

const SECOND: u64 = 1_000_000_000;

fn present() -> Present {
    let level = |name: &str, size, ready, used| LevelNow { name: name.into(), size, ready, used };
    let activity = |(activity, name): &(Activity, &'static CStr)| ActivityNow {
        activity: *activity,
        name: name.to_str().unwrap(),
        under_way: 0,
        count: 0,
        bytes: 0,
        nanoseconds: 0,
    };
    let cause = |(cause, name): &(Cause, &'static str)| CauseNow {
        cause: *cause,
        name,
        waiting: 0,
        since: 0,
        count: 0,
        nanoseconds: 0,
    };
    Present {
        rank: (2, 4),
        since: 100 * SECOND,
        library: "0.2.0".into(),
        checkpoint: Some(("wave".into(), 312)),
        trace: Some(PathBuf::from("/scratch/trace.json")),
        levels: vec![
            level("device cache", 4 << 30, 3 << 30, 1 << 30),
            level("host buffer", 16 << 30, 16 << 30, 16 << 30),
        ],
        activities: trace::ACTIVITIES.iter().map(activity).collect(),
        causes: CAUSES.iter().map(cause).collect(),
    }
}

/// A second before 110 s, and then: it writes at 2 GB/s, and has waited for a quarter of the second, half of that in a
/// wait that goes on.
fn job() -> JobNow {
    let before = present();
    let mut now = present();
    now.activities[Activity::Write as usize].bytes = 2_000_000_000;
    now.activities[Activity::Write as usize].under_way = 1;
    now.activities[Activity::Checkpoint as usize].under_way = 1;
    now.activities[Activity::Checkpoint as usize].count = 312;
    now.causes[Cause::HostRoom as usize].nanoseconds = SECOND / 8;
    now.causes[Cause::HostRoom as usize].waiting = 1;
    now.causes[Cause::HostRoom as usize].since = 110 * SECOND - SECOND / 8;
    shown(&now, Some((&before, 109 * SECOND)), 110 * SECOND)
}

fn picture(jobs: Vec<Job>, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let mut picture = Picture { jobs, kept: "kept\n".into(), ..Picture::default() };
    terminal.draw(|frame| picture.draw(frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let cells: Vec<&str> = buffer.content.iter().map(|cell| cell.symbol()).collect();
    cells.chunks(usize::from(width).max(1)).map(|row| row.concat() + "\n").collect()
}

/// Catches rates since the start in place of those of the interval, a wait in progress that is not told of, and what it
/// waits for in turn.
#[test]
fn a_line_says_what_waits_for_what() {
    let job = Job { process: 77, command: "./rtm --steps 9".into(), now: Some(job()) };
    assert_eq!(
        lines::of(&[job]),
        "77 ./rtm --steps 9: rank 2 of 4; waits for room in the host buffer, and that for write (2.0 GB/s); \
         312 taken, 0 restored, now wave 312; device cache 1 GiB of 4 GiB; host buffer 16 GiB of 16 GiB; \
         write 2.0 GB/s; waited 25 % of the time; timeline /scratch/trace.json\n"
    );
    let other = Job { process: 78, command: "other".into(), now: None };
    assert_eq!(lines::of(&[other]), "78 other: has another version of the library\n");
    assert_eq!(lines::of(&[]), "no job of this user runs on this node\n");
}

/// Catches a new process whose bytes are all of the last interval.
#[test]
fn a_process_that_was_not_there_counts_from_its_start() {
    let mut now = present();
    now.activities[Activity::Flush as usize].bytes = 40_000_000_000;
    let job = shown(&now, None, 110 * SECOND);
    assert_eq!(job.activities[Activity::Flush as usize].bytes_per_second, 4e9);
    assert_eq!(job.state, "computes");
}

/// Catches a bar that is longer than its level, and parts that are not drawn.
#[test]
fn the_picture_has_levels_transfers_and_waits() {
    let jobs = vec![Job { process: 77, command: "./rtm".into(), now: Some(job()) }];
    let text = picture(jobs, 100, 30);
    for part in [
        "1 process",
        "waits for room in the host buffer",
        &format!(
            "device cache     {}{}{} 1 GiB of 4 GiB, 3 GiB ready",
            "█".repeat(10),
            "▒".repeat(19),
            "·".repeat(9)
        ),
        &format!("host buffer      {} 16 GiB of 16 GiB", "█".repeat(38)),
        "write             2.0 GB/s",
        "host room          waiting",
        "timeline, for ui.perfetto.dev: /scratch/trace.json",
        "q ends",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

/// Catches waits that a low screen has no room for, although it has room for transfers.
#[test]
fn a_low_screen_has_the_waits() {
    let jobs = vec![Job { process: 77, command: "./rtm".into(), now: Some(job()) }];
    let text = picture(jobs, 100, 14);
    assert!(text.contains("host room          waiting"), "{text}");
}

/// Catches a picture that ends the program where a terminal is small.
#[test]
fn a_terminal_may_have_any_size() {
    for width in [0, 1, 2, 7, 40, 61, 300] {
        for height in [0, 1, 2, 3, 5, 24, 90] {
            let job = |process| Job { process, command: "./rtm".into(), now: Some(job()) };
            picture((1..40).map(job).collect(), width, height);
            picture(Vec::new(), width, height);
        }
    }
}
