//! `veloc bench turns`: the turns in which the processes of a node register memory, with real
//! processes.
//!
//! They use a page of their own, so that no job of this machine is disturbed. Turns are held
//! asleep: it takes no more processors than there are.

mod member;
mod report;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{ensure, Context, Result};
use clap::Args;

use super::{Common, Figure, Judge, Report};
use crate::bench::child::Child;
use crate::bench::interrupt;
use crate::bench::options::distinct;
use crate::bench::temporary::Folder;
use member::{now_ns, Turn};

/// How long a holder that is to die or stop has had its turn before, at least.
const SETTLE: Duration = Duration::from_millis(30);

/// What the last repeat adds to that; the others add a part of it. Those who wait look every few
/// ms, and always the same moment between two looks would tell nothing of the others.
const SETTLE_SPREAD: Duration = Duration::from_millis(5);

/// Options of the command.
#[derive(Debug, Args)]
pub struct Options {
    /// Numbers of processes
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::value_parser!(u32).range(1..=200))]
    processes: Vec<u32>,
    /// Turns that each process takes
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// For how long a turn is held, in ms
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(..=600_000))]
    hold_ms: u64,
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    judge: Judge,
    /// What a process of this measurement is: the page that it shares with the others
    #[arg(long, hide = true)]
    member_of: Option<PathBuf>,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<()> {
    if let Some(page) = &options.member_of {
        return member::run(page, options.turns, options.hold_ms);
    }
    distinct("--processes", &options.processes)?;
    interrupt::watch()?;
    let mut report = Report::new("turns", options.common.out.as_deref())?;
    report.print_machine();
    println!(
        "turns of {} ms, {} of each process, {} repeats",
        options.hold_ms, options.turns, options.common.repeats
    );
    let folder = folder()?;
    let page = folder.path().join("turns");
    let mut contests: Vec<Vec<Vec<Vec<Turn>>>> = vec![Vec::new(); options.processes.len()];
    let (mut after_death, mut after_stop, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    for round in 1..=options.common.repeats {
        for (runs, &processes) in contests.iter_mut().zip(&options.processes) {
            runs.push(contest(&page, processes, options)?);
        }
        let settle = SETTLE + SETTLE_SPREAD * round / options.common.repeats;
        after_death.push(until_the_next_one_goes(&page, settle, libc::SIGKILL)?.0);
        let (seconds, noticed) = until_the_next_one_goes(&page, settle, libc::SIGSTOP)?;
        after_stop.push(seconds);
        lost.push(f64::from(u8::from(noticed)));
        report.points = options
            .processes
            .iter()
            .zip(&contests)
            .flat_map(|(&processes, runs)| report::contest(processes, runs))
            .chain(report::ends(&after_death, &after_stop, &lost))
            .collect();
        report.save()?;
        eprintln!("round {round} of {}", options.common.repeats);
    }
    Figure::print_title();
    report.points.iter().for_each(Figure::print);
    options.judge.judge(&report.points)
}

/// A folder like that of the library's own page: in memory, where there is such a place.
fn folder() -> Result<Folder> {
    let memory = Path::new("/dev/shm");
    let temporary = std::env::temp_dir();
    let parent = if memory.is_dir() { memory } else { &temporary };
    Folder::new(parent).context("making a folder for the page of turns")
}

/// The turns of each process.
fn contest(page: &Path, processes: u32, options: &Options) -> Result<Vec<Vec<Turn>>> {
    let mut members = (0..processes)
        .map(|_| member(page, options.turns, options.hold_ms))
        .collect::<Result<Vec<_>>>()?;
    members.iter_mut().try_for_each(Child::go)?;
    members.into_iter().map(|member| turns_of(member, options.turns)).collect()
}

/// One process holds the turn and, after `settle`, gets `signal`; another waits. Seconds until that
/// one goes, and whether the first, if it lives, then knows that its turn is over.
fn until_the_next_one_goes(page: &Path, settle: Duration, signal: i32) -> Result<(f64, bool)> {
    // A turn held until the process is told to end.
    let mut holder = member(page, 1, 600_000)?;
    holder.go()?;
    ensure!(holder.line()? == member::HELD, "a process did not get a free turn");
    let mut waiter = member(page, 1, 1)?;
    waiter.go()?;
    sleep(settle);
    let since = now_ns();
    holder.signal(signal)?;
    let turn = turns_of(waiter, 1)?.pop().context("a process took no turn")?;
    ensure!(turn.started > since, "two processes had the turn at once");
    let mut noticed = true;
    if signal == libc::SIGSTOP {
        holder.signal(libc::SIGCONT)?;
        noticed = holder.line()? == member::LOST;
    }
    Ok(((turn.started - since) as f64 / 1e9, noticed))
}

/// A process that takes turns.
fn member(page: &Path, turns: u32, hold_ms: u64) -> Result<Child> {
    Child::start([
        OsStr::new("bench"),
        OsStr::new("turns"),
        OsStr::new(&format!("--turns={turns}")),
        OsStr::new(&format!("--hold-ms={hold_ms}")),
        OsStr::new("--member-of"),
        page.as_os_str(),
    ])
}

/// The turns of a process, once it has had them all.
fn turns_of(mut member: Child, turns: u32) -> Result<Vec<Turn>> {
    let mut taken = Vec::new();
    while taken.len() < turns as usize {
        let line = member.line()?;
        if line != member::HELD {
            taken.push(line.parse()?);
        }
    }
    Ok(taken)
}
