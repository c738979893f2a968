//! Protected regions and the protocol of checkpoints and restarts: what the application sees.
//!
//! [`Client`] checks that calls come in order and that everything they name exists, then calls the
//! engine. [`regions`] keeps what is protected (`memory` finds out the kind of memory),
//! [`callbacks`] is what the application does for the library.

#![deny(clippy::disallowed_methods)]

pub mod alike;
pub mod callbacks;
pub mod compare;
pub mod managed;
pub mod message_files;
mod messages;
mod one_run;
mod order;
pub mod regions;

mod agreement;
mod checkpoint;
mod discard;
mod encoded;
mod guards;
mod hints;
mod incremental;
mod memory;
mod protect;
mod regain;
mod relocate;
mod restart;
mod routed;
mod search;
#[cfg(test)]
mod tests;
mod under_way;
mod way;

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::time::Instant;

use agreement::{Agreement, Standing};
use catalog::FileLevel;
pub use checkpoint::Verdict;
use config::Config;
use device::kinds;
use engine::restore::Restoring;
use engine::Engine;
use engine::Open;
use errors::{Error, Kind, Result};
use format::names;
use incremental::Incremental;
use message_files::Offered;
use messages::MessageLog;
use mpi::Comm;
use os::access;
use recovery::Process;
use regions::Regions;
use routed::Routed;
use trace::{Activity, Recorder, Span};
use under_way::UnderWay;

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

/// What is open: a checkpoint or a restart between its begin and its end.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a client has one, in its own memory")]
enum Phase {
    Idle,
    /// `failed`: regions that were asked for could not be captured.
    Checkpoint {
        open: Open,
        routed: Option<Routed>,
        failed: bool,
    },
    Restart {
        restoring: Restoring,
    },
}

/// One application, from `VELOC_Init` to `VELOC_Finalize`.
#[derive(Debug)]
pub struct Client {
    engine: Engine,
    regions: Regions,
    reader: access::Reader,
    phase: Phase,
    /// Bytes of the last file that the application has written by itself, by checkpoint name.
    routed_bytes: HashMap<String, u64>,
    /// An adjoint computation that is under way.
    under_way: Option<UnderWay>,
    comm: Option<Comm>,
    agreement: Option<Agreement>,
    messages: Option<MessageLog>,
    /// From the first incremental checkpoint on.
    incremental: Option<Incremental>,
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
            offered,
            engine,
            regions: Regions::default(),
            reader: access::Reader::default(),
            phase: Phase::Idle,
            routed_bytes: HashMap::new(),
            under_way: None,
            comm: None,
            agreement: None,
            messages,
            incremental: None,
            sizes_asked: Cell::new(false),
        })
    }

    /// Starts a job over an MPI communicator. Collective.
    pub fn start_mpi(config: impl FnOnce() -> Result<Config>, comm: Comm) -> Result<Client> {
        let (rank, ranks) = (comm.rank()?, comm.size()?);
        os::logging::set_process(rank, ranks);
        // Compared before anything that depends on the configuration.
        let (config, run) = alike::configured(config(), &comm)?;
        let config = given_up(config, &comm)?;
        given_up(order::look_at_order(&comm), &comm)?;
        let process = Process { rank, ranks, run };
        // A process that failed must not leave the others waiting in a later collective call.
        let started = all_or_none(&comm, Client::start(config, process))?;
        let mut client = given_up(started, &comm)?;
        let joined = protect::join(client.engine.config(), &comm)
            .and_then(|node| node.map_or(Ok(()), |node| client.engine.join(node)));
        given_up(all_or_none(&comm, joined)?, &comm)?;
        let agreement = all_or_none(&comm, Agreement::start(&comm, &client.engine))?;
        let agreement = given_up(agreement, &comm)?;
        client.agreement = agreement;
        client.comm = Some(comm);
        Ok(client)
    }

    /// Ends the job (`VELOC_Finalize`).
    ///
    /// # Errors
    /// Among others, a checkpoint was not ended; it is kept.
    pub fn finish(mut self, drain: bool) -> Result<()> {
        let ended = self.end_forgotten();
        self.tell_of_vain_hints();
        self.look_at_groups();
        drop(self.offered.take());
        // The next job gets what is in the host buffer, and need not wait until it is in files.
        let (drain, all_agree) = self.conclude(drain && !self.engine.config().hands_over());
        let engine = &self.engine;
        let drained = if drain { engine.drain() } else { engine.hand_over() };
        if drain {
            engine.await_parities();
        }
        let comm = self.comm.take();
        let mpi_works = all_agree.is_ok();
        if let Some(agreement) = self.agreement.take() {
            let asked = comm.as_ref().filter(|_| matches!(all_agree, Ok(true)));
            let finished = agreement.finish(engine, asked, drain && drained.is_ok());
            // A failure here loses nothing; old versions may stay.
            finished.unwrap_or_else(|error| log::warn!("{error}"));
            engine.file_side().prune_all();
        }
        let files = self.engine.files().clone();
        let finished = self.engine.finish();
        files.rights().end_work();
        let freed = comm.filter(|_| mpi_works).map_or(Ok(()), Comm::free);
        ended.and(drained).and(finished).and(freed)
    }

    /// Decides all that the processes still have to agree on. Returns whether the job ends with a
    /// drain, and whether all still agree. With erasure coding one process that asks for a drain is
    /// enough: parities are made by all members of a group or by none. Collective.
    fn conclude(&mut self, drain: bool) -> (bool, Result<bool>) {
        let erasure = self.engine.file_side().erasure().is_some();
        let Some(comm) = self.comm.as_ref().filter(|_| erasure || self.agreement.is_some()) else {
            return (drain, Ok(true));
        };
        let standing = self.agreement.as_ref().map(Agreement::standing);
        let own = standing.unwrap_or(Standing { rounds: 0, gathered: 0, agrees: true });
        let told = [own.rounds, own.gathered, u64::from(drain)].map(|most| -(most as i64));
        let least = comm.allreduce_min([told[0], told[1], told[2], i64::from(own.agrees)]);
        // If MPI has failed, each process decides alone: one that does not drain hangs up, and
        // processes that wait for its parities end.
        let anybody = least.as_ref().map_or(drain, |least| least[2] < 0);
        let most = least.map(|[rounds, gathered, _, agrees]| Standing {
            rounds: rounds.unsigned_abs(),
            gathered: gathered.unsigned_abs(),
            agrees: agrees == 1,
        });
        let all_agree = most.clone().map(|most| most.agrees);
        if let Some(agreement) = &mut self.agreement {
            agreement.conclude(&self.engine, most);
        }
        (if erasure { anybody } else { drain }, all_agree)
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
        if let Some(agreement) = &mut self.agreement {
            agreement.taken(&self.engine, None);
        }
    }

    fn leave_phase(&mut self) {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle => {}
            Phase::Checkpoint { open, routed, .. } => {
                if let Some(routed) = routed {
                    routed.remove_folder();
                }
                self.engine.capturing().abort(open);
                if let Some(incremental) = &mut self.incremental {
                    incremental.not_taken();
                }
                self.not_taken();
            }
            Phase::Restart { restoring } => self.engine.restores().end_restore(restoring, false),
        }
    }

    // ---- removal and figures -------------------------------------------------------------

    /// Removes a name's checkpoints from memory and scratch.
    pub fn cleanup(&mut self, name: &str) -> Result<()> {
        names::validate_name(name)?;
        self.check_not_held(name, "what is stored as")?;
        if let Phase::Restart { restoring } = &self.phase {
            if restoring.name == name {
                return Err(Error::invalid(format!(
                    "cleaning up \"{name}\" during its own restart"
                )));
            }
        }
        self.engine.files().rights().begin_work(name)?;
        self.engine.files().rights().allow_replacing(name);
        if let Some(incremental) = &mut self.incremental {
            incremental.begin_anew(name);
        }
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

    /// A span about the checkpoint or restart that is open.
    fn span<'a>(&self, trace: &'a Recorder, activity: Activity) -> Span<'a> {
        let span = trace.span(activity);
        match &self.phase {
            Phase::Idle => span,
            Phase::Checkpoint { open, .. } => span.of(&open.name, open.version),
            Phase::Restart { restoring } => span.of(&restoring.name, restoring.version),
        }
    }

    /// Collective agreement: whether `mine` is true on every process.
    fn all_agree(&self, mine: bool) -> Result<bool> {
        self.comm.as_ref().map_or(Ok(mine), |comm| agree(comm, mine))
    }

    /// This process's result, if all processes have succeeded. Collective.
    fn all_or_none<T>(&self, own: Result<T>) -> Result<T> {
        match &self.comm {
            Some(comm) => all_or_none(comm, own)?,
            None => own,
        }
    }

    /// Whether the job has other processes.
    fn has_others(&self) -> bool {
        self.comm.as_ref().is_some_and(|comm| comm.size().is_ok_and(|size| size > 1))
    }
}

/// Whether `mine` is true on every process of the communicator. Collective.
fn agree(comm: &Comm, mine: bool) -> Result<bool> {
    Ok(comm.allreduce_min_i64(i64::from(mine))? == 1)
}

/// This process's result, if all processes have succeeded. Collective.
///
/// # Errors
/// MPI's. The inner error is why a process has failed: this process's own reason, or the first
/// rank's that has one. Of reasons that differ in digits alone, the first rank tells the user.
fn all_or_none<T>(comm: &Comm, own: Result<T>) -> Result<Result<T>> {
    if agree(comm, own.is_ok())? {
        return Ok(own);
    }
    let why = own.as_ref().err().map(ToString::to_string);
    let whys: Vec<Option<String>> = protect::gather(comm, &why)?;
    let failed: Vec<usize> = (0..whys.len()).filter(|rank| whys[*rank].is_some()).collect();
    let words = |why: &Option<String>| why.as_ref().map(|why| why.replace(char::is_numeric, ""));
    let before = &whys[..(comm.rank()? as usize).min(whys.len())];
    let own = own.map_err(|error| match before.iter().any(|other| words(other) == words(&why)) {
        true => error.told_by_another(),
        false => error,
    });
    Ok(own.and_then(|_| {
        let (first, others) = failed.split_first().unwrap_or((&0, &[]));
        let why = whys.get(*first).and_then(Option::as_deref).unwrap_or("it has failed");
        let more = match others {
            [] => String::new(),
            [_] => format!("; {} has failed as well", alike::processes(others)),
            _ => format!("; {} have failed as well", alike::processes(others)),
        };
        let error = Error::new(Kind::Internal, format!("process {first}: {why}{more}"));
        Err(error.told_by_another())
    }))
}

/// Returns `started`. If the start has failed, nobody needs the communicator: it is freed.
fn given_up<T>(started: Result<T>, comm: &Comm) -> Result<T> {
    if started.is_err() {
        comm.clone().free()?;
    }
    started
}

/// Checks that a checkpoint can have this name and version.
fn check_name(name: &str, version: i32) -> Result<()> {
    names::validate_name(name)?;
    if version < 0 {
        return Err(Error::invalid(format!("version {version} of \"{name}\" is below 0")));
    }
    Ok(())
}
