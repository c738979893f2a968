//! Host buffers that ended jobs have left for the next one of their name (`hand_over`).

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use catalog::ledger::{self, Left};
use errors::Result;
use os::shared::SharedMemory;
use os::sync::Mutex;
use recovery::handover::Kept;
use recovery::protocol::Hello;

/// The most names of checkpoints that are told of one process.
const MOST_NAMES: usize = 64;

/// The memory that one process has left.
#[derive(Debug)]
pub(super) struct LeftMemory {
    /// The process and its configuration.
    pub hello: Box<Hello>,
    pub ledger: SharedMemory,
    pub host: SharedMemory,
}

/// The memory of a process while it is kept.
#[derive(Debug)]
struct KeptMemory {
    memory: LeftMemory,
    kept: Kept,
    until: Instant,
}

/// All memory that is kept.
#[derive(Debug, Default)]
pub(super) struct Keeper(Mutex<Vec<KeptMemory>>);

impl Keeper {
    /// Keeps `memory`, unless it is empty or a job that ended normally has restored all of it. If
    /// writing was `interrupted`, another job is about to take it and goes on.
    pub(super) fn keep(
        &self,
        memory: LeftMemory,
        ended_normally: bool,
        interrupted: bool,
    ) -> Result<()> {
        let left = ledger::read(memory.ledger.words()?)?;
        let wanted = |(_, standing, _): &Left| {
            let unread = !(ended_normally && standing.consumed || standing.doomed);
            standing.in_host && (unread || standing.is_due()) || interrupted && standing.is_due()
        };
        if !left.iter().any(wanted) {
            return Ok(());
        }
        let time = Duration::from_secs(memory.hello.config.hand_over_time);
        let kept = describe(&memory.hello, &left);
        log::info!("{} are kept for {} s", kept.shown(), time.as_secs());
        let newer = |held: &KeptMemory| fits(&held.memory.hello, &memory.hello).is_ok();
        self.free_if("a later job of this name has left its own", newer);
        self.0.lock().push(KeptMemory { memory, kept, until: Instant::now() + time });
        Ok(())
    }

    /// The memory of the last process that `asks` can go on for. An error says why there is none.
    pub(super) fn take(&self, asks: &Hello) -> std::result::Result<LeftMemory, String> {
        let mut held = self.0.lock();
        let rank = asks.process.rank;
        let of_rank = |held: &KeptMemory| held.memory.hello.process.rank == rank;
        let fits =
            held.iter().rposition(|held| of_rank(held) && fits(&held.memory.hello, asks).is_ok());
        if let Some(at) = fits {
            return Ok(held.remove(at).memory);
        }
        match held.iter().rfind(|held| of_rank(held)) {
            Some(other) => Err(fits_not(&other.memory.hello, asks)),
            None if held.is_empty() => Err("veloc-backend keeps nothing of this name".to_owned()),
            None => {
                let others: Vec<String> =
                    held.iter().map(|held| held.memory.hello.process.rank.to_string()).collect();
                let others = others.join(", ");
                Err(format!("veloc-backend keeps rank {others} here, and not rank {rank}"))
            }
        }
    }

    /// Descriptions of all memory that is kept.
    pub(super) fn list(&self) -> Vec<Kept> {
        self.0.lock().iter().map(|held| held.kept.clone()).collect()
    }

    /// Whether no memory is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Frees all memory, because of `why`. Returns what it was.
    pub(super) fn free(&self, why: &str) -> Vec<Kept> {
        self.free_if(why, |_| true)
    }

    /// Frees memory whose time is over.
    pub(super) fn expire(&self) {
        let now = Instant::now();
        self.free_if("its time is over (hand_over_time)", |held| held.until <= now);
    }

    fn free_if(&self, why: &str, goes: impl Fn(&KeptMemory) -> bool) -> Vec<Kept> {
        let mut held = self.0.lock();
        let (gone, stays) = std::mem::take(&mut *held).into_iter().partition(|held| goes(held));
        *held = stays;
        drop(held);
        let gone: Vec<KeptMemory> = gone;
        for KeptMemory { kept, .. } in &gone {
            let what = kept.shown();
            match kept.ephemeral {
                true => log::error!("what was kept is lost, as {why}: {what}"),
                false => log::info!("what was kept is in files alone, as {why}: {what}"),
            }
        }
        gone.into_iter().map(|held| held.kept).collect()
    }
}

/// Whether the job that `asks` can go on for one that has `left` its memory.
///
/// # Errors
/// Why not, and whether that is the user's error.
pub(super) fn fits(left: &Hello, asks: &Hello) -> std::result::Result<(), String> {
    match left.process.stands_for(&asks.process)
        && left.config.scratch == asks.config.scratch
        && left.config.persistent == asks.config.persistent
        && left.config.ephemeral == asks.config.ephemeral
    {
        true => Ok(()),
        false => Err(fits_not(left, asks)),
    }
}

fn fits_not(left: &Hello, asks: &Hello) -> String {
    let (there, here) = (left.process.ranks.max(1), asks.process.ranks.max(1));
    if there != here {
        return format!("the job that left it had {there} processes, and this one has {here}");
    }
    if !left.process.stands_for(&asks.process) {
        return "one of the jobs has MPI and the other has not".to_owned();
    }
    let (there, here) = (&left.config, &asks.config);
    if there.ephemeral != here.ephemeral {
        let (there, here) = (there.ephemeral, here.ephemeral);
        return format!("the job that left it had ephemeral = {there}, and this one has {here}");
    }
    let shown = |config: &config::Config| {
        let one = |path: &Option<std::path::PathBuf>| {
            path.as_ref().map_or("none".to_owned(), |path| path.display().to_string())
        };
        format!("scratch {} and persistent {}", one(&config.scratch), one(&config.persistent))
    };
    format!("the job that left it had {}, and this one has {}", shown(there), shown(here))
}

fn describe(hello: &Hello, left: &[Left]) -> Kept {
    let mut by_name: BTreeMap<&str, (i32, i32, u64)> = BTreeMap::new();
    let mut bytes = 0;
    for (record, ..) in left.iter().filter(|(_, standing, _)| standing.in_host) {
        let of = by_name.entry(&record.name).or_insert((record.version, record.version, 0));
        *of = (of.0.min(record.version), of.1.max(record.version), of.2 + 1);
        bytes += record.parts.iter().map(|(len, _)| len).sum::<u64>();
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let checkpoints = by_name.into_iter().take(MOST_NAMES);
    Kept {
        name: hello.config.hand_over.clone().unwrap_or_default(),
        process: hello.process,
        checkpoints: checkpoints
            .map(|(name, (first, last, count))| (name.to_owned(), first, last, count))
            .collect(),
        bytes,
        ephemeral: hello.config.ephemeral,
        scratch: hello.config.scratch.clone(),
        persistent: hello.config.persistent.clone(),
        since,
        until: since + hello.config.hand_over_time,
    }
}
