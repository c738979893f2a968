//! Beginning and ending a job.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::time::Instant;

use log::LevelFilter;

use super::boundary::{end_client, print_errors, start_client, status, string, with_client};
use client::{memory, Client};
use config::Config;
use errors::{Error, Result};
use mpi::{Comm, Mpi};
use os::logging;

/// Messages go to stderr unless the application has a logger of its own: warnings and errors, or
/// what `VELOC_LOG` says.
pub(super) fn start_logging() {
    logging::start(LevelFilter::Warn, |builder| {
        logging::with_name_and_rank(builder);
    });
}

/// The configuration at `cfg_file`, which says how its own errors are told, too.
///
/// # Safety
/// `cfg_file` is NULL or a string that ends with NUL.
pub(super) unsafe fn by_file(cfg_file: *const c_char) -> Result<Config> {
    // SAFETY: the caller's promise.
    let path = unsafe { string("cfg_file", cfg_file) }?;
    Config::load(Path::new(path)).inspect(|config| print_errors(config.print_errors))
}

/// The most options of a call: many more than there are keys.
const MOST_OPTIONS: usize = 4096;

/// A configuration from options.
///
/// # Safety
/// `options` is NULL or points to `n` options, whose texts are NULL or strings that end with NUL.
pub(super) unsafe fn by_options(options: *const VELOC_Option, n: usize) -> Result<Config> {
    if n > MOST_OPTIONS {
        return Err(Error::invalid(format!(
            "n is {}; a call takes at most {MOST_OPTIONS} options",
            // A negative number of the caller's, as the caller wrote it.
            n as isize
        )));
    }
    if options.is_null() && n > 0 {
        return Err(Error::invalid(format!("options is NULL, and n is {n}")));
    }
    let options: &[VELOC_Option] = match n {
        0 => &[],
        // SAFETY: not NULL; the rest is the caller's promise.
        _ => unsafe { std::slice::from_raw_parts(options, n) },
    };
    let pairs = options.iter().enumerate().map(|(index, option)| {
        // SAFETY: the caller's promise.
        let key = unsafe { string(&format!("the key of option {}", index + 1), option.key) }?;
        // SAFETY: as above.
        Ok((key, unsafe { string(&format!("option: the value of {key}"), option.value) }?))
    });
    let pairs: Vec<(&str, &str)> = pairs.collect::<Result<_>>()?;
    Config::from_options(&pairs).inspect(|config| print_errors(config.print_errors))
}

/// A key of the configuration and its value, as they would stand in the file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct VELOC_Option {
    /// The key. Case does not matter.
    pub key: *const c_char,
    /// The value, as text. An empty value counts as none; NULL is an error.
    pub value: *const c_char,
}

/// Initialises the library for a process without MPI.
///
/// Reads the configuration, makes the directories and reserves the caches. Returns without waiting
/// for any memory to be mapped, touched or registered (HiPC'22, section IV). A read-only scratch
/// directory suffices if new checkpoints can go straight to persistent.
///
/// @param id        number of this process in file names (`<name>-<id>-<version>.dat`)
/// @param cfg_file  path of the configuration; empty: the environment has all of it
/// @return VELOC_SUCCESS; VELOC_FAILURE if the configuration is missing or wrong, a size does not
///         fit the machine, a directory cannot be made or written to, or the library is initialised
///         already
///
/// Source: VELOC_Init_single of VELOC 1.8.
///
/// # Safety
/// `cfg_file` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Init_single(id: c_uint, cfg_file: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    start_single("VELOC_Init_single", id, || unsafe { by_file(cfg_file) })
}

/// VELOC_Init_single with options in place of a file.
///
/// The keys are those of a file; docs/configuration.md lists them. The environment (`VELOC_<KEY>`)
/// overrides the options.
///
/// @param id       as for VELOC_Init_single
/// @param options  keys and values; NULL if there are none. Not used after the call
/// @param n        how many; 0: the environment has all of the configuration
/// @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Init_single, or if a key or value is NULL, a key
///         is given twice, or a key is unknown (which is a warning in a file)
///
/// Source: an addition of this library.
///
/// # Safety
/// `options` is NULL or points to `n` of them, whose texts are NULL or strings that end with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Init_single_options(
    id: c_uint,
    options: *const VELOC_Option,
    n: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    start_single("VELOC_Init_single_options", id, || unsafe { by_options(options, n) })
}

/// Starts a job of one process.
fn start_single(call: &str, id: c_uint, config: impl FnOnce() -> Result<Config>) -> c_int {
    status(call, || {
        let since = Instant::now();
        start_logging();
        start_client(|| {
            logging::set_process(id, 1);
            let client = Client::start_single(config()?, id)?;
            client.count_init(since);
            Ok(client)
        })
    })
}

/// Initialises the library over an MPI communicator. Collective.
///
/// MPI is not linked: its functions are found in the process. Open MPI, MPICH and the standard ABI
/// of MPI 5 are recognised.
///
/// @param comm      the communicator, an `MPI_Comm`. The library duplicates it
/// @param cfg_file  path of the configuration; empty: the environment has all of it
/// @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Init_single, or if processes that act together are
///         configured differently (the reason names the keys): if one process fails, all do.
///         VELOC_FAILURE also if there is no initialised MPI in the process
///
/// Source: VELOC_Init of VELOC 1.8.
///
/// # Safety
/// `comm` is a communicator of the process's MPI; `cfg_file` is NULL or a string that ends with
/// NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Init(comm: *mut c_void, cfg_file: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let comm = |mpi: &Mpi| unsafe { mpi.comm(comm as usize) };
    // SAFETY: as above.
    start_over("VELOC_Init", comm, || unsafe { by_file(cfg_file) })
}

/// VELOC_Init with options in place of a file. Collective.
///
/// @param comm     as for VELOC_Init
/// @param options  as for VELOC_Init_single_options, those of this process
/// @param n        how many
/// @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Init and VELOC_Init_single_options
///
/// Source: an addition of this library.
///
/// # Safety
/// `comm` is a communicator of the process's MPI; `options` as for VELOC_Init_single_options.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Init_options(
    comm: *mut c_void,
    options: *const VELOC_Option,
    n: usize,
) -> c_int {
    // SAFETY: the caller's promise.
    let comm = |mpi: &Mpi| unsafe { mpi.comm(comm as usize) };
    // SAFETY: as above.
    start_over("VELOC_Init_options", comm, || unsafe { by_options(options, n) })
}

/// Starts a job over the application's communicator. The processes agree on an error of any of
/// them, so that none waits for those that failed.
pub(super) fn start_over(
    call: &str,
    comm: impl FnOnce(&Mpi) -> Result<Comm>,
    config: impl FnOnce() -> Result<Config>,
) -> c_int {
    status(call, || {
        let since = Instant::now();
        start_logging();
        let mpi = Mpi::find().ok_or_else(Mpi::not_found)?;
        start_client(|| {
            let client = Client::start_mpi(config, comm(&mpi)?.dup()?)?;
            client.count_init(since);
            Ok(client)
        })
    })
}

/// Ends the job. It may be called in any state, also twice or after `MPI_Finalize`. Afterwards the
/// library can be initialised again. Collective under MPI.
///
/// @param drain  not 0: first waits until the files of all checkpoints are written, and with
///         erasure coding (`ec_interval`) until all processes of the group have made their
///         parities. 0: waits only until the host buffer has everything; veloc-backend then writes
///         the files. Without a backend it waits for the files even with 0. No checkpoint is lost,
///         unless `ephemeral = true`. The processes may pass different values; with erasure coding
///         all wait if one does
/// @return VELOC_SUCCESS; VELOC_FAILURE if there was nothing to finalize, something could not be
///         written, or an earlier failure in the background was not reported yet (the reason is
///         that of the oldest). Even then the job has ended, and veloc-backend writes what it can
///
/// Source: VELOC_Finalize of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Finalize(drain: c_int) -> c_int {
    status("VELOC_Finalize", || end_client(|client| client.finish(drain != 0)))
}

/// Tells the library in which stream the application computes.
///
/// From now on a capture or restore comes after the work that is queued in this stream; work in
/// other streams does not count. Without a stream (the default, and after NULL) it comes after all
/// work that is queued in the context, in non-blocking streams, too. That may take longer.
///
/// With `stream_ordered = true` the copies also come before the work that this stream gets later,
/// and VELOC_Checkpoint and VELOC_Restart do not wait for them. Other streams must then wait for an
/// event of this one. A region has to live until its copies have run.
///
/// @param stream  a `CUstream` or `cudaStream_t`; must stay alive until another one is set
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is no stream of the context in use
///
/// Source: an addition of this library.
///
/// # Safety
/// `stream` is NULL or a stream that stays alive until another one is set.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Set_stream(stream: *mut c_void) -> c_int {
    status("VELOC_Set_stream", || {
        // SAFETY: the caller's promise.
        with_client(|client| unsafe { memory::set_stream(client.engine(), stream) })
    })
}
