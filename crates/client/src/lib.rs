//! Protected regions and the protocol of checkpoints and restarts: what the application sees.
//!
//! [`Client`] checks that calls come in order and that everything they name exists, then calls the
//! engine, and tells the other processes ([`collective`]).
//!
//! | file | has |
//! | --- | --- |
//! | `checkpoint`, `restart`, `routed` | the order of calls; `phase`: what is open |
//! | [`protection`], [`regions`], [`terms`] | what is protected, on which terms; `under_way`: what must stay so; [`memory`]: of which kind it is |
//! | `capture`, `way`, `guards` | captures what is protected, in which way, and what can hardly be meant |
//! | `deltas`, `incremental` | what has changed, in place of whole regions |
//! | `encoding` | encoded bytes, in place of whole regions |
//! | `opening`, `recovering`, `distributed` | opens a checkpoint on all processes, and copies it back; also from the files of other ranks |
//! | [`marked`], `discard`, [`compare`] | checkpoints whose versions a caller manages; [`versions`]: what is there of them |
//! | [`hints`] | the order of the next reads |
//! | [`callbacks`] | what the application does for the library |
//! | `messages`, [`message_files`] | the log of messages |

#![deny(clippy::disallowed_methods)]

pub mod callbacks;
pub mod compare;
pub mod hints;
pub mod marked;
pub mod memory;
pub mod message_files;
pub mod protection;
pub mod regions;
pub mod terms;
pub mod versions;

mod capture;
mod checkpoint;
mod deltas;
mod discard;
mod distributed;
mod encoding;
mod guards;
mod incremental;
mod messages;
mod opening;
mod phase;
mod recovering;
mod restart;
mod routed;
#[cfg(test)]
mod tests;
mod under_way;
mod way;

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::time::Instant;

use catalog::FileLevel;
pub use checkpoint::Verdict;
use collective::{Processes, Search};
use config::Config;
use deltas::Deltas;
use device::kinds;
use encoding::Buffers;
use engine::Engine;
use errors::{Error, Result};
use format::names;
use guards::look_at_groups;
use hints::Hints;
use marked::Marked;
use message_files::Offered;
use messages::MessageLog;
use mpi::Comm;
use phase::Phase;
use protection::{Protecting, Protection};
use recovery::Process;
use trace::Activity;
use versions::Versions;

/// Which regions a call is about (`VELOC_CKPT_*`, `VELOC_RECOVER_*`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// All regions.
    All,
    /// The regions with these ids.
    Some(Vec<i32>),
    /// The regions with other ids.
    Rest(Vec<i32>),
}

impl Selection {
    /// Whether a region of this id is selected.
    fn has(&self, id: i32) -> bool {
        match self {
            Selection::All => true,
            Selection::Some(ids) => ids.contains(&id),
            Selection::Rest(ids) => !ids.contains(&id),
        }
    }
}

/// One application, from `VELOC_Init` to `VELOC_Finalize`.
#[derive(Debug)]
pub struct Client {
    engine: Engine,
    /// All processes of the job.
    processes: Processes,
    protection: Protection,
    phase: Phase,
    deltas: Deltas,
    /// For encoded regions.
    buffers: Buffers,
    /// Bytes of the last file that the application has written by itself, by checkpoint name.
    routed_bytes: HashMap<String, u64>,
    /// The application has asked for the size of a region in a checkpoint.
    sizes_asked: Cell<bool>,
    /// While this is alive, files of the message log go to scratch.
    offered: Option<Offered>,
}

impl Client {
    /// Starts a job without MPI; `rank` is the number in its file names.
    pub fn start_single(config: Config, rank: u32) -> Result<Client> {
        if config.aggregated {
            log::warn!(
                "aggregated has no effect with VELOC_Init_single: the process has no others to \
                 share its files with"
            );
        }
        if config.protects_scratch() {
            log::warn!("ec_interval has no effect without MPI (VELOC_Init)");
        }
        Client::start(config, Process::single(rank))
    }

    fn start(config: Config, process: Process) -> Result<Client> {
        let device = match kinds::is_there() {
            // Without `gpu_cache_size`, a device is used only if device memory turns up.
            Ok(true) if config.gpu_cache_size.is_some() => kinds::current()?,
            Ok(_) => None,
            Err(error) => {
                log::warn!("going on without a device: {error}");
                None
            }
        };
        let engine = Engine::start(config, process, device)?;
        let messages = MessageLog::find();
        let scratch = messages.and_then(|_| engine.files().places().directory(FileLevel::Scratch));
        let offered = scratch.map(Offered::begin).transpose()?;
        Ok(Client {
            engine,
            processes: Processes::default(),
            protection: Protection::new(messages),
            phase: Phase::Idle,
            deltas: Deltas::default(),
            buffers: Buffers::default(),
            routed_bytes: HashMap::new(),
            sizes_asked: Cell::new(false),
            offered,
        })
    }

    /// Starts a job over an MPI communicator. Collective.
    pub fn start_mpi(config: impl FnOnce() -> Result<Config>, comm: Comm) -> Result<Client> {
        let (mut processes, config, process) = Processes::meet(config, comm)?;
        // A process that failed must not leave the others waiting in a later collective call.
        let mut client = processes.all_started(Client::start(config, process))?;
        processes.join(&client.engine)?;
        client.processes = processes;
        Ok(client)
    }

    /// Ends the job (`VELOC_Finalize`).
    ///
    /// # Errors
    /// Among others, a checkpoint was not ended; it is kept.
    pub fn finish(mut self, drain: bool) -> Result<()> {
        let ended = self.end_forgotten();
        self.hints().tell_of_vain();
        look_at_groups(&self.protection.regions);
        drop(self.offered.take());
        let engine = self.engine;
        engine.await_ordered();
        // The next job gets what is in the host buffer, and need not wait until it is in files.
        let drain = drain && !engine.config().hands_over();
        let mut ending = self.processes.conclude(&engine, drain);
        let drain = ending.drains();
        let drained = if drain { engine.drain() } else { engine.hand_over() };
        if drain {
            engine.await_parities();
        }
        ending.settle(&engine, drain && drained.is_ok());
        let files = engine.files().clone();
        let finished = engine.finish();
        files.rights().end_work();
        ended.and(drained).and(finished).and(ending.free())
    }

    /// Runs the body of a call. If it panics, a checkpoint or restart that it has opened is closed,
    /// and the other processes hear that a checkpoint which it was to complete is not taken here.
    pub fn call<T>(&mut self, body: impl FnOnce(&mut Client) -> Result<T>) -> Result<T> {
        let was_idle = matches!(self.phase, Phase::Idle);
        let done = catch_unwind(AssertUnwindSafe(|| body(self)));
        done.unwrap_or_else(|panic| {
            if was_idle {
                self.leave_phase();
            }
            if matches!(self.phase, Phase::Idle) {
                self.not_taken();
            }
            resume_unwind(panic)
        })
    }

    /// Tells the agreement that this process does not take the checkpoint that was begun.
    fn not_taken(&mut self) {
        if let Some(agreement) = self.processes.agreement_mut() {
            agreement.taken(&self.engine, None);
        }
    }

    fn leave_phase(&mut self) {
        match self.phase.take() {
            Phase::Idle => {}
            Phase::Checkpoint { open, routed, .. } => {
                if let Some(routed) = routed {
                    routed.remove_folder();
                }
                self.engine.capturing().abort(open);
                self.deltas.end(false);
                self.not_taken();
            }
            Phase::Restart { restoring, .. } => {
                self.engine.restores().end_restore(restoring, false)
            }
        }
    }

    // ---- removal and figures -------------------------------------------------------------

    /// Removes a name's checkpoints from memory and scratch.
    pub fn cleanup(&mut self, name: &str) -> Result<()> {
        names::validate_name(name)?;
        self.protection.under_way.check_not_held(name, format_args!("what is stored as"))?;
        if let Phase::Restart { restoring, .. } = &self.phase {
            if restoring.name == name {
                return Err(Error::invalid(format!(
                    "\"{name}\" cannot be cleaned up during its own restart: end that first (VELOC_Restart_end)"
                )));
            }
        }
        self.engine.files().rights().begin_work(name)?;
        self.engine.files().rights().allow_replacing(name);
        self.deltas.begin_anew(name);
        self.engine.file_side().cleanup(name)
    }

    /// The engine, for its figures.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Counts the time since `since` as initialisation.
    pub fn count_init(&self, since: Instant) {
        let time = since.elapsed();
        self.engine.metrics().init.add(0, time);
        self.engine.trace().spent(Activity::Init, since, time, 0);
    }

    /// All processes of the job.
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// What the processes of the job can restore.
    pub fn search(&self) -> Search<'_> {
        self.processes.search(&self.engine)
    }

    /// What is protected, to be changed.
    pub fn protecting(&mut self) -> Protecting<'_> {
        Protecting { protection: &mut self.protection, engine: &self.engine, phase: &self.phase }
    }

    /// The order of the next reads.
    pub fn hints(&self) -> Hints<'_> {
        Hints { engine: &self.engine, regions: &self.protection.regions }
    }

    /// The versions that this process has.
    pub fn versions(&self) -> Versions<'_> {
        Versions { engine: &self.engine }
    }

    /// Checkpoints whose versions the caller manages.
    pub fn marked(&mut self) -> Marked<'_> {
        Marked { client: self }
    }
}
