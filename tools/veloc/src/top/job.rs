//! What is shown of a process, from two looks at it.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Result;
use os::clock::Clock;
use serde::Serialize;
use trace::live::{self, ActivityNow, CauseNow, LevelNow, Present, ProcessNow};
use trace::metrics::Cause;
use trace::Activity;

use crate::output;

/// Activities of the application's calls. The others are those of workers, and parts of calls.
const CALLS: [(Activity, &str); 4] = [
    (Activity::Checkpoint, "takes a checkpoint"),
    (Activity::Restore, "restores a checkpoint"),
    (Activity::Drain, "waits for the end of what is under way"),
    (Activity::Init, "starts"),
];

/// What the application waits for, by its cause, and the activities that end the wait. See `docs/design/waiting.md`.
const WAITS: [(Cause, &str, &[Activity]); 8] = [
    (
        Cause::HostRoom,
        "room in the host buffer",
        &[Activity::Write, Activity::Persist, Activity::Flush],
    ),
    (Cause::DeviceRoom, "room in the device cache", &[Activity::Flush]),
    (Cause::Map, "mapping of the device cache", &[Activity::Map]),
    (Cause::Fetch, "a copy on its way up", &[Activity::Fetch, Activity::Read]),
    (Cause::File, "files", &[Activity::Write, Activity::Read]),
    (
        Cause::Drain,
        "the end of what is under way",
        &[Activity::Flush, Activity::Write, Activity::Persist, Activity::Encode],
    ),
    (Cause::Order, "its own work on the device", &[]),
    (Cause::Copy, "its own copy", &[]),
];

/// A process of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Job {
    pub(super) process: u32,
    pub(super) command: String,
    /// `None`: it has a version of the library that says it otherwise.
    #[serde(flatten)]
    pub(super) now: Option<JobNow>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct JobNow {
    pub(super) rank: u32,
    /// 0: unknown.
    pub(super) ranks: u32,
    pub(super) library: String,
    /// Since the job has started.
    pub(super) seconds: f64,
    pub(super) checkpoint: Option<Checkpoint>,
    /// Checkpoints taken and restored.
    pub(super) checkpoints: u64,
    pub(super) restores: u64,
    /// What the application does now, in words.
    pub(super) state: String,
    pub(super) levels: Vec<LevelShown>,
    pub(super) activities: Vec<ActivityShown>,
    pub(super) waits: Vec<WaitShown>,
    /// The file of its timeline.
    #[serde(serialize_with = "output::optional_path")]
    pub(super) timeline: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Checkpoint {
    pub(super) name: String,
    pub(super) version: i32,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct LevelShown {
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) ready_bytes: u64,
    pub(super) used_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct ActivityShown {
    pub(super) name: &'static str,
    pub(super) under_way: u64,
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// In the last interval.
    pub(super) bytes_per_second: f64,
    /// Whether it is a call of the application's, and no transfer.
    #[serde(skip)]
    pub(super) is_call: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct WaitShown {
    pub(super) cause: &'static str,
    /// Threads that wait for it now.
    pub(super) waiting: u64,
    pub(super) count: u64,
    pub(super) seconds: f64,
    /// Of the last interval.
    pub(super) share: f64,
}

impl JobNow {
    /// The share of the last interval for which the application has waited.
    pub(super) fn waited(&self) -> f64 {
        self.waits.iter().map(|wait| wait.share).sum::<f64>().min(1.0)
    }

    /// The rank, and the number of ranks where that is known.
    pub(super) fn rank(&self) -> String {
        match self.ranks {
            0 => format!("rank {}", self.rank),
            ranks => format!("rank {} of {ranks}", self.rank),
        }
    }
}

/// The processes of this user, looked at again and again.
pub(crate) struct Watch {
    clock: Clock,
    last: (u64, Vec<ProcessNow>),
}

impl Watch {
    /// A first look.
    pub(crate) fn begin() -> Result<Watch> {
        let clock = Clock::new();
        Ok(Watch { clock, last: (clock.nanoseconds(Instant::now()), live::processes()?) })
    }

    /// Whether there was nobody.
    pub(crate) fn is_empty(&self) -> bool {
        self.last.1.is_empty()
    }

    /// The next look.
    pub(crate) fn look(&mut self) -> Result<Vec<Job>> {
        let (at, found) = (self.clock.nanoseconds(Instant::now()), live::processes()?);
        let last = self.last.0;
        let jobs = found.iter().map(|found| {
            let present = found.present.as_ref();
            // A process may have several jobs, and a number may be another process by now.
            let before = self.last.1.iter().filter(|last| last.process == found.process);
            let mut before = before.filter_map(|last| last.present.as_ref());
            let before = before.find(|before| present.is_some_and(|now| now.since == before.since));
            Job {
                process: found.process,
                command: found.command.clone(),
                now: present.map(|present| shown(present, before.map(|before| (before, last)), at)),
            }
        });
        let jobs = jobs.collect();
        self.last = (at, found);
        Ok(jobs)
    }
}

/// What is shown of a process at this time, and what it was at an earlier one. A process that was not there counts from
/// its start. Times are nanoseconds of `CLOCK_MONOTONIC`.
pub(super) fn shown(now: &Present, before: Option<(&Present, u64)>, at: u64) -> JobNow {
    let seconds = at.saturating_sub(now.since) as f64 / 1e9;
    let since = before.map_or(now.since, |(_, then)| then);
    let interval = (at.saturating_sub(since) as f64 / 1e9).max(1e-3);
    let before = before.map(|(before, _)| before);
    let activities: Vec<ActivityShown> = now
        .activities
        .iter()
        .map(|activity| {
            let of = |before: &Present| before.activities[activity.activity as usize].bytes;
            let bytes = activity.bytes.saturating_sub(before.map_or(0, of));
            activity_shown(activity, bytes as f64 / interval)
        })
        .collect();
    let waits = now.causes.iter().map(|cause| {
        let of = |before: &Present| waited_until(&before.causes[cause.cause as usize], since);
        let all = waited_until(cause, at);
        let waited = all.saturating_sub(before.map_or(0, of));
        WaitShown {
            cause: cause.name,
            waiting: cause.waiting,
            count: cause.count,
            seconds: all as f64 / 1e9,
            share: (waited as f64 / 1e9 / interval).min(1.0),
        }
    });
    let (rank, ranks) = now.rank;
    let number = |activity: Activity| now.activities[activity as usize].count;
    JobNow {
        rank,
        ranks,
        library: now.library.clone(),
        seconds,
        checkpoint: now
            .checkpoint
            .as_ref()
            .map(|(name, version)| Checkpoint { name: name.clone(), version: *version }),
        checkpoints: number(Activity::Checkpoint),
        restores: number(Activity::Restore),
        state: state(now, &activities),
        levels: now.levels.iter().map(level_shown).collect(),
        waits: waits.collect(),
        activities,
        timeline: now.trace.clone(),
    }
}

/// The nanoseconds that were waited up to this time, with those of the wait in progress that has begun last.
fn waited_until(cause: &CauseNow, at: u64) -> u64 {
    let begun = if cause.waiting > 0 { at.saturating_sub(cause.since) } else { 0 };
    cause.nanoseconds + begun
}

fn level_shown(level: &LevelNow) -> LevelShown {
    let (name, bytes) = (level.name.clone(), level.size);
    LevelShown { name, bytes, ready_bytes: level.ready, used_bytes: level.used }
}

fn activity_shown(activity: &ActivityNow, bytes_per_second: f64) -> ActivityShown {
    ActivityShown {
        name: activity.name,
        under_way: activity.under_way,
        count: activity.count,
        bytes: activity.bytes,
        seconds: activity.nanoseconds as f64 / 1e9,
        bytes_per_second,
        is_call: CALLS.iter().any(|(call, _)| *call == activity.activity),
    }
}

/// What the application does now, and what it waits for, which waits for something in turn.
fn state(now: &Present, activities: &[ActivityShown]) -> String {
    let is_under_way = |activity: &Activity| now.activities[*activity as usize].under_way > 0;
    for (cause, what, ended_by) in WAITS {
        if now.causes[cause as usize].waiting == 0 {
            continue;
        }
        let behind: Vec<String> = ended_by
            .iter()
            .filter(|activity| is_under_way(activity))
            .map(|activity| &activities[*activity as usize])
            .map(|activity| format!("{} ({})", activity.name, rate(activity.bytes_per_second)))
            .collect();
        return match &behind[..] {
            [] => format!("waits for {what}"),
            behind => format!("waits for {what}, and that for {}", behind.join(" and ")),
        };
    }
    let call = CALLS.into_iter().find(|(activity, _)| is_under_way(activity));
    call.map_or("computes", |(_, what)| what).to_owned()
}

/// A rate for people.
pub(super) fn rate(bytes_per_second: f64) -> String {
    match bytes_per_second {
        rate if rate >= 1e9 => format!("{:.1} GB/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.0} MB/s", rate / 1e6),
        rate if rate >= 1.0 => format!("{:.0} kB/s", (rate / 1e3).ceil()),
        _ => "0 B/s".to_owned(),
    }
}
