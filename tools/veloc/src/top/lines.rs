//! A line for each process.

use os::size;

use super::job::{rate, Job, JobNow};

/// The processes, a line each.
pub(super) fn of(jobs: &[Job]) -> String {
    if jobs.is_empty() {
        return "no job of this user runs on this node\n".to_owned();
    }
    jobs.iter().map(|job| line(job) + "\n").collect()
}

fn line(job: &Job) -> String {
    let command: String = job.command.chars().take(60).collect();
    let head = format!("{} {command}", job.process);
    let Some(now) = &job.now else {
        return format!("{head}: has another version of the library");
    };
    let mut parts = vec![format!("{head}: {}", now.rank()), now.state.clone()];
    if now.checkpoint.is_some() {
        parts.push(checkpoints(now));
    }
    parts.extend(now.levels.iter().map(|level| {
        format!("{} {} of {}", level.name, size::show(level.used_bytes), size::show(level.bytes))
    }));
    let moving = now.activities.iter().filter(|activity| activity.bytes_per_second >= 1.0);
    parts.extend(moving.map(|one| format!("{} {}", one.name, rate(one.bytes_per_second))));
    parts.push(format!("waited {:.0} % of the time", now.waited() * 100.0));
    parts.extend(now.timeline.as_ref().map(|file| format!("timeline {}", file.display())));
    parts.join("; ")
}

/// How many checkpoints there were, and the last of them.
pub(super) fn checkpoints(now: &JobNow) -> String {
    let last = now.checkpoint.as_ref().map(|last| format!(", now {} {}", last.name, last.version));
    format!("{} taken, {} restored{}", now.checkpoints, now.restores, last.unwrap_or_default())
}
