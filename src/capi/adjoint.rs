//! Adjoint computations from beginning to end.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::{offset_of, size_of, MaybeUninit};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::LazyLock;
use std::time::Duration;

use super::boundary::{guarded, kept_meanwhile, status, string, with_client};
use super::regions::compression;
use super::schedule::VELOC_RULE_MIXED;
use super::{VELOC_FAILURE, VELOC_SUCCESS};
use adjoint::settings::{names_of, AdjointSettings};
use adjoint::{run, ClientAccess, Problem, RunOutcome};
use client::regions::ProtectedMemory;
use client::Client;
use errors::{Error, ErrorKind, Result};
use os::sync::Mutex;
use schedule::rule::Rule;

/// The run stopped as it was asked to. The same call goes on with it, also in a later job.
pub const VELOC_STOPPED: i32 = 1;
/// Memory of VELOC_Adjoint_protect: the state of the forward steps.
pub const VELOC_ADJOINT_STATE: i32 = 0;
/// Memory of VELOC_Adjoint_protect: the state of the adjoint, and what it computes.
pub const VELOC_ADJOINT_GRADIENT: i32 = 1;
/// A flag of VELOC_Adjoint: states that are computed again are compared with what they were.
pub const VELOC_VERIFY_REPLAY: u32 = 1;

/// An adjoint computation. Set everything to zero first, then set `size` and the members that you
/// need. The comment of each member says what zero means. Later versions of the library have more
/// members at the end; those that a program lacks count as zero. States are numbered from 0 to
/// `steps`; step `i` goes from state `i - 1` to state `i`.
///
/// The callbacks run in the thread of the call. They return VELOC_SUCCESS, or VELOC_FAILURE, which
/// ends the run. They may call the library, but must not take, restore or clean up checkpoints of
/// the run's names. They must return: after an exception or `longjmp` out of one the run stays
/// under way, and no other can begin.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VELOC_Adjoint {
    /// The size of this structure, `sizeof(VELOC_Adjoint)`.
    pub size: usize,
    /// The name of the stored states, as VELOC_Checkpoint, of at most 119 bytes; not `default`,
    /// which stands for the regions of VELOC_Mem_protect. Stored adjoints have the name
    /// `<name>.adjoint`, hashes of states `<name>.hashes`. A run fails if the application has
    /// checkpoints of its own under these names.
    pub name: *const c_char,
    /// Steps of the forward sweep; 1 or more.
    pub steps: i64,
    /// States that are stored at a time, state 0 among them; 1 or more. If they are compressed
    /// (VELOC_Adjoint_compress), the run stores more. A run that was stopped may have stored one
    /// more, the state at which it stopped.
    pub slots: i64,
    /// The resilience distance: how many steps stored states may be apart, so that no crash in the
    /// first forward sweep costs more; 0: any number.
    pub resilience_distance: i64,
    /// The adjoint distance: after how many of its steps the adjoint is stored; 0: as the
    /// resilience distance, and never if that is 0, too (but see `mtbf`).
    pub adjoint_distance: i64,
    /// Where states are stored: one of VELOC_RULE_*, but not VELOC_RULE_MIXED.
    pub rule: c_int,
    /// 0 or VELOC_VERIFY_REPLAY.
    pub flags: c_uint,
    /// After so many seconds the run stops, so that a later one can go on; 0: no limit. A run
    /// computes at least one step, and warns if the limit was over by then.
    pub time_limit: f64,
    /// A number that tells this computation from others of the same name, for example the iteration
    /// of an optimisation. The run fails if the stored states have another number.
    pub tag: u64,
    /// The first argument of the callbacks.
    pub user: *mut c_void,
    /// Protects the memory of the state and of the adjoint, by VELOC_Adjoint_protect. Called once,
    /// first.
    pub protect: Option<unsafe extern "C" fn(user: *mut c_void) -> c_int>,
    /// Computes the states from `from` to `to`, without recording. The application has state `from`
    /// before and state `to` after. The callback must compute the same states each time.
    pub forward: Option<unsafe extern "C" fn(user: *mut c_void, from: i64, to: i64) -> c_int>,
    /// Computes step `step` from state `step - 1`, which the application has, recording it, and
    /// takes the adjoint's step from state `step` to state `step - 1`. If `step` is `steps`, it
    /// begins the adjoint before that. The state may be anything after that.
    pub adjoint: Option<unsafe extern "C" fn(user: *mut c_void, step: i64) -> c_int>,
    /// Gives a hash of the state that the application has, for VELOC_VERIFY_REPLAY, and to compare
    /// state 0 when a run goes on. It must be the same function each time. NULL: for
    /// VELOC_VERIFY_REPLAY the library hashes the protected memory of the state (SHA-256), which
    /// must be host memory; it compares the bytes of state 0.
    pub hash: Option<unsafe extern "C" fn(user: *mut c_void, hash: *mut u64) -> c_int>,
    /// The mean time between failures, in forward steps. If it is not 0, the adjoint is stored
    /// where a failure would cost more work than the write (VELOC_Schedule_set_failures), and not
    /// at a fixed distance. Give this and the next two members together, or none of them.
    pub mtbf: f64,
    /// How long it takes to store the adjoint, in forward steps.
    pub write_cost: f64,
    /// How long it takes to record and reverse a step, in forward steps.
    pub turn_cost: f64,
}

/// Members of the first version, in bytes. No caller has fewer.
const FIRST_SIZE: usize = offset_of!(VELOC_Adjoint, mtbf);
/// No version has so many: what says so was not set.
const NO_SIZE: usize = 4096;

/// Computes an adjoint: it goes through the schedule, calls the application's callbacks, and keeps
/// the states and the adjoint as checkpoints. Called again after a crash or a stop, it goes on from
/// what is left with the least number of steps, in the same job or in a later one with as many
/// processes. Collective under MPI: all processes pass the same values, except `user` and the
/// callbacks.
///
/// The application has state 0 in memory when it calls this, the same state each time. A run that
/// goes on compares it with the stored one. If both jobs have given a `hash`, it compares the
/// hashes, and fails if they differ. Otherwise it compares the bytes, and warns if they differ.
/// When the run is finished, the adjoint is in the memory protected for it, and nothing of the run
/// stays stored. Until then everything stays, whatever `max_versions` and `scratch_versions` say.
/// Afterwards VELOC_Region_protect has no regions for the names of the run.
///
/// Each slot is a version of the name, and each stored adjoint a version of `<name>.adjoint`:
/// ordinary checkpoints, which are prefetched in the order in which the schedule reads them. With
/// VELOC_VERIFY_REPLAY each state is hashed when it is first computed, and compared when it is
/// computed or restored again, also by a later job. Of more than 1,048,576 states only so many are
/// hashed, at equal distances.
///
/// @param what  the computation
/// @return VELOC_SUCCESS: it is finished. VELOC_STOPPED: the time limit was reached, or
///         VELOC_Adjoint_stop was called; everything that was computed is in files, and the same
///         call goes on from there. VELOC_FAILURE: an argument is wrong; what is stored belongs to
///         another computation or, by `hash`, to another state 0 (then nothing was changed); a
///         callback failed; a state was not the same again (the reason names the step); or a state
///         could not be stored or read back (the reason names the state and its slot). What was
///         stored stays, and the same call goes on from there. A failure of one process ends the
///         run on all: that process gets its own error, and the error of the others names it. If
///         the others wait inside their callbacks for a process whose callback has failed, that
///         process gets its error after 10 s or some steps, and should end the job (MPI_Abort)
///
/// Source: an addition of this library, after Walther, Narayanan, "Extending the binomial
/// checkpointing technique for resilience".
///
/// # Safety
/// `what` is NULL or points to what its `size` says, with what its members are to have.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Adjoint_run(what: *const VELOC_Adjoint) -> c_int {
    let ended = guarded("VELOC_Adjoint_run", || {
        RunUnderWay::check(&UNDER_WAY.lock())?;
        // SAFETY: the caller's promise.
        let (settings, mut problem) =
            unsafe { understood(what) }.map_err(|error| run::decline(error, &Boundary))?;
        let _under_way = RunUnderWay::begin(&settings)?;
        run::run(&settings, &mut problem, &Boundary, &ASKED)
    });
    match ended {
        Ok(RunOutcome::Finished) => VELOC_SUCCESS,
        Ok(RunOutcome::Stopped) => {
            ASKED.store(false, Ordering::Relaxed);
            VELOC_STOPPED
        }
        Err(_) => VELOC_FAILURE,
    }
}

/// Protects memory of the computation under way. Call it in the callbacks of VELOC_Adjoint_run.
/// Once the callback `protect` has returned, ids and sizes are fixed until the run ends. If a
/// region moves, protect it again at its new address, with the same size. If the size of a state
/// varies, protect the largest size.
///
/// @param what       VELOC_ADJOINT_STATE: it is part of each stored state; VELOC_ADJOINT_GRADIENT:
///                   it is part of each stored adjoint
/// @param id         names the region; states and adjoints have ids of their own
/// @param ptr        as VELOC_Mem_protect
/// @param count      as VELOC_Mem_protect
/// @param base_size  as VELOC_Mem_protect
/// @return as VELOC_Mem_protect; VELOC_FAILURE also if no run is under way, `what` is neither of
///         the two, or, after `protect`, the id is new or has another size (then nothing changes)
///
/// Source: an addition of this library.
#[no_mangle]
pub extern "C" fn VELOC_Adjoint_protect(
    what: c_int,
    id: c_int,
    ptr: *mut c_void,
    count: usize,
    base_size: usize,
) -> c_int {
    status("VELOC_Adjoint_protect", || protect_part(what, id, ptr, count, base_size))
}

/// The body of VELOC_Adjoint_protect.
pub(super) fn protect_part(
    what: c_int,
    id: c_int,
    ptr: *mut c_void,
    count: usize,
    base_size: usize,
) -> Result<()> {
    let name = name_of(what, id)?;
    let memory = ProtectedMemory::new(id, ptr as u64, count, base_size)?;
    with_client(|client| client.protecting().protect(Some(&name), id, memory))
}

/// The name under which the computation under way stores its states or adjoints.
fn name_of(what: c_int, id: c_int) -> Result<String> {
    match (what, &*UNDER_WAY.lock()) {
        (_, None) => Err(Error::invalid(
            "no adjoint computation is under way: only the callbacks of VELOC_Adjoint_run can make this call",
        )),
        (VELOC_ADJOINT_STATE, Some([states, _])) => Ok(states.clone()),
        (VELOC_ADJOINT_GRADIENT, Some([_, adjoints])) => Ok(adjoints.clone()),
        _ => Err(Error::invalid(format!(
            "region {id}: what = {what}; it must be VELOC_ADJOINT_STATE (0) or VELOC_ADJOINT_GRADIENT (1)"
        ))),
    }
}

/// Compresses a region of floats or doubles in stored states, as VELOC_Mem_compress does. Call it
/// in the callback `protect` of VELOC_Adjoint_run, after the region is protected.
///
/// The run keeps as many compressed states as have room where `slots` uncompressed states would be;
/// a line of the log says how many, and how many forward steps that saves. A state that does not
/// fit its bits is stored uncompressed, and takes more than its share of that room. A restored
/// state is only within the bound of what it was, and so are the steps that are computed from it:
/// VELOC_VERIFY_REPLAY is not possible, and the gradient is that of such states. The adjoint is not
/// compressed, because it is the result. With VELOC_COMPRESS_LOSSLESS the states take less room,
/// but the run does not keep more of them, because it is not known beforehand how much less.
///
/// @param id     as VELOC_Adjoint_protect, of VELOC_ADJOINT_STATE
/// @param mode   as VELOC_Mem_compress
/// @param bound  as VELOC_Mem_compress
/// @return as VELOC_Mem_compress; VELOC_FAILURE also if no run is under way, or `protect` has
///         returned
///
/// Source: an addition of this library, after Kukreja et al., "Combining checkpointing and data
/// compression to accelerate adjoint-based optimization problems".
#[no_mangle]
pub extern "C" fn VELOC_Adjoint_compress(id: c_int, mode: c_int, bound: f64) -> c_int {
    status("VELOC_Adjoint_compress", || {
        let name = name_of(VELOC_ADJOINT_STATE, id)?;
        let how = compression(id, mode, bound)?;
        with_client(|client| client.protecting().set_compression(Some(&name), id, how))
    })
}

/// Asks the adjoint computation under way, or the next one, to stop as soon as a later one can go
/// on from there. One of several processes is enough to ask. The function may be called from any
/// thread, from a callback, and from a signal handler.
///
/// @return VELOC_SUCCESS
///
/// Source: an addition of this library.
#[no_mangle]
pub extern "C" fn VELOC_Adjoint_stop() -> c_int {
    ASKED.store(true, Ordering::Relaxed);
    VELOC_SUCCESS
}

/// Removes everything that VELOC_Adjoint_run has stored under a name, so that the next run of that
/// name begins anew: states, adjoints and hashes of states, from memory, scratch and persistent
/// (which VELOC_Cleanup leaves). Each process removes its own.
///
/// @param name  the name of the run
/// @return VELOC_SUCCESS, also if there is nothing; VELOC_FAILURE if the application has
///         checkpoints of its own under one of the names, or the run is under way (then nothing is
///         removed), or if something could not be removed
///
/// Source: an addition of this library.
///
/// # Safety
/// `name` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Adjoint_discard(name: *const c_char) -> c_int {
    status("VELOC_Adjoint_discard", || {
        // SAFETY: the caller's promise.
        let name = unsafe { string("name", name) }?;
        with_client(|client| client.marked().discard(&names_of(name)))
    })
}

/// Whether a run was asked to stop, and has not yet.
static ASKED: AtomicBool = AtomicBool::new(false);

/// The names of the run under way: of its states and of its adjoints.
static UNDER_WAY: LazyLock<Mutex<Option<[String; 2]>>> = LazyLock::new(|| Mutex::new(None));

/// A run under way, as long as it lives.
struct RunUnderWay;

impl RunUnderWay {
    /// Refuses a second one, from a callback. The others may not have come to this call.
    fn check(under_way: &Option<[String; 2]>) -> Result<()> {
        match under_way {
            None => Ok(()),
            Some([name, _]) => Err(Error::invalid(format!(
                "the adjoint computation \"{name}\" is under way: a process runs only one at a time"
            ))),
        }
    }

    fn begin(settings: &AdjointSettings) -> Result<RunUnderWay> {
        let mut under_way = UNDER_WAY.lock();
        RunUnderWay::check(&under_way)?;
        *under_way = Some([settings.name.clone(), settings.name_of_adjoints()]);
        Ok(RunUnderWay)
    }
}

impl Drop for RunUnderWay {
    fn drop(&mut self) {
        *UNDER_WAY.lock() = None;
    }
}

/// The process's client, between two calls of callbacks.
struct Boundary;

impl ClientAccess for Boundary {
    fn with<T>(&self, body: impl FnOnce(&mut Client) -> Result<T>) -> Result<T> {
        with_client(body)
    }
}

/// The application's callbacks.
struct Callbacks {
    user: *mut c_void,
    protect: unsafe extern "C" fn(*mut c_void) -> c_int,
    forward: unsafe extern "C" fn(*mut c_void, i64, i64) -> c_int,
    adjoint: unsafe extern "C" fn(*mut c_void, i64) -> c_int,
    hash: Option<unsafe extern "C" fn(*mut c_void, *mut u64) -> c_int>,
}

/// The structure of a caller that was compiled with an older version of it, or a newer one.
///
/// # Safety
/// As VELOC_Adjoint_run.
unsafe fn whole(what: *const VELOC_Adjoint) -> Result<VELOC_Adjoint> {
    const KNOWN: usize = size_of::<VELOC_Adjoint>();
    if what.is_null() {
        return Err(Error::invalid("what is NULL"));
    }
    // SAFETY: not NULL, and the first member is there whatever the size.
    let size = unsafe { (*what).size };
    if !(FIRST_SIZE..NO_SIZE).contains(&size) || size % size_of::<u64>() != 0 {
        return Err(Error::invalid(format!(
            "size = {size}; it must be sizeof(VELOC_Adjoint), {KNOWN} bytes in this version"
        )));
    }
    if size > KNOWN {
        // SAFETY: so many bytes are there, by the caller's promise.
        let more = unsafe { std::slice::from_raw_parts(what.add(1).cast::<u8>(), size - KNOWN) };
        if more.iter().any(|byte| *byte != 0) {
            return Err(Error::invalid(format!(
                "size = {size}, but this library knows only {KNOWN} bytes of VELOC_Adjoint, and members behind them \
                 are not zero: set those to 0, or use a newer library"
            )));
        }
    }
    let mut whole = MaybeUninit::<VELOC_Adjoint>::zeroed();
    let (from, to) = (what.cast::<u8>(), whole.as_mut_ptr().cast::<u8>());
    // SAFETY: so many bytes are there, by the caller's promise, and `whole` has room for them.
    unsafe { std::ptr::copy_nonoverlapping(from, to, size.min(KNOWN)) };
    // SAFETY: zero is a value of each member: a number, a null pointer, or no function.
    Ok(unsafe { whole.assume_init() })
}

/// The settings and callbacks that the caller has given.
///
/// # Safety
/// As VELOC_Adjoint_run.
unsafe fn understood(what: *const VELOC_Adjoint) -> Result<(AdjointSettings, Callbacks)> {
    // SAFETY: the caller's promise.
    let what = unsafe { whole(what) }?;
    // SAFETY: the caller's promise.
    let name = unsafe { string("name", what.name) }?.to_owned();
    let rule = usize::try_from(what.rule).ok().and_then(|rule| Rule::ALL.get(rule));
    let Some((rule, _)) = rule else {
        let text = match what.rule {
            VELOC_RULE_MIXED => {
                "VELOC_Adjoint_run does not take VELOC_RULE_MIXED: a crash would leave records of single steps, from \
                 which no run can go on"
                    .to_owned()
            }
            rule => format!("rule {rule}: it must be one of VELOC_RULE_*, 0 to 3"),
        };
        return Err(Error::invalid(text));
    };
    if what.flags & !VELOC_VERIFY_REPLAY != 0 {
        return Err(Error::invalid(format!(
            "the flags are {}; they must be 0 or VELOC_VERIFY_REPLAY (1)",
            what.flags
        )));
    }
    let limit = (what.time_limit != 0.0).then(|| Duration::try_from_secs_f64(what.time_limit));
    let limit = limit.transpose().map_err(|_| {
        let text = "it must be 0 (no limit) or more, and at most 1.8e19";
        Error::invalid(format!("time_limit = {} seconds: {text}", what.time_limit))
    })?;
    let failures = [what.mtbf, what.write_cost, what.turn_cost];
    let missing = |what: &str| Error::invalid(format!("the callback {what} is NULL"));
    let callbacks = Callbacks {
        user: what.user,
        protect: what.protect.ok_or_else(|| missing("protect"))?,
        forward: what.forward.ok_or_else(|| missing("forward"))?,
        adjoint: what.adjoint.ok_or_else(|| missing("adjoint"))?,
        hash: what.hash,
    };
    let settings = AdjointSettings {
        name,
        steps: what.steps,
        slots: what.slots,
        resilience: what.resilience_distance,
        adjoint: what.adjoint_distance,
        failures: (failures != [0.0; 3]).then_some(failures),
        rule: *rule,
        tag: what.tag,
        verify: what.flags & VELOC_VERIFY_REPLAY != 0,
        limit,
    };
    Ok((settings, callbacks))
}

/// Calls a callback. If it fails, its error is followed by that of the last failed call of the
/// library within it.
fn judged(callback: impl FnOnce() -> c_int, what: impl FnOnce() -> String) -> Result<()> {
    match kept_meanwhile(callback) {
        (VELOC_SUCCESS, _) => Ok(()),
        (other, said) => {
            let text = format!("the callback {} returned {other}", what());
            let error = Error::new(ErrorKind::Internal, text);
            Err(said.into_iter().fold(error, Error::followed_by))
        }
    }
}

impl Problem for Callbacks {
    fn protect(&mut self) -> Result<()> {
        // SAFETY: the caller of VELOC_Adjoint_run has given a function that takes this.
        judged(|| unsafe { (self.protect)(self.user) }, || "protect".to_owned())
    }

    // States are at most 2^48.
    fn forward(&mut self, from: u64, to: u64) -> Result<()> {
        // SAFETY: as above.
        let callback = || unsafe { (self.forward)(self.user, from as i64, to as i64) };
        judged(callback, || format!("forward, from state {from} to state {to},"))
    }

    fn adjoint(&mut self, step: u64) -> Result<()> {
        // SAFETY: as above.
        let callback = || unsafe { (self.adjoint)(self.user, step as i64) };
        judged(callback, || format!("adjoint, for step {step},"))
    }

    fn hash(&mut self, state: u64) -> Result<Option<u64>> {
        let Some(hash) = self.hash else { return Ok(None) };
        let mut word = 0;
        // SAFETY: as above; it gets a place for the hash.
        let callback = || unsafe { hash(self.user, &mut word) };
        judged(callback, || format!("hash, of state {state},")).map(|()| Some(word))
    }
}
