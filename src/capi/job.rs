//! Beginning and ending a job.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::path::Path;
use std::time::Instant;

use log::LevelFilter;

use super::boundary::{end_client, print_errors, start_client, status, string, with_client};
use client::Client;
use config::Config;
use mpi::{Comm, Mpi};
use os::error::Result;
use os::logging;

/// Messages go to stderr unless the application has a logger of its own: warnings and errors, or
/// what `VELOC_LOG` says.
pub(super) fn start_logging() {
    logging::start(LevelFilter::Warn, |builder| {
        logging::with_name_and_rank(builder);
    });
}

/// Reads a configuration, which says how its own errors are told, too.
fn configuration(path: &str) -> Result<Config> {
    Config::load(Path::new(path)).inspect(|config| print_errors(config.print_errors))
}

/// Initialises the library for a process without MPI.
///
/// Reads the configuration, makes the directories and reserves the caches. Returns without waiting
/// for any memory to be mapped, touched or registered (HiPC'22, section IV). A scratch directory that
/// can only be read will do where persistent may take the new checkpoints.
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
    status("VELOC_Init_single", || {
        let since = Instant::now();
        start_logging();
        // SAFETY: the caller's promise.
        let path = unsafe { string("cfg_file", cfg_file) }?;
        start_client(|| {
            logging::set_process(id, 1);
            let client = Client::start_single(configuration(path)?, id)?;
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
/// @param comm      the communicator, an `MPI_Comm`; duplicated, so that it stays the caller's
/// @param cfg_file  path of the configuration; empty: the environment has all of it
/// @return VELOC_SUCCESS; VELOC_FAILURE as VELOC_Init_single, on every process if on one, if
///         processes that act together are configured differently (the reason names the keys), and
///         if there is no initialised MPI in the process
///
/// Source: VELOC_Init of VELOC 1.8.
///
/// # Safety
/// `comm` is a communicator of the process's MPI; `cfg_file` is NULL or a string that ends with NUL.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Init(comm: *mut c_void, cfg_file: *const c_char) -> c_int {
    status("VELOC_Init", || {
        let since = Instant::now();
        start_logging();
        let mpi = Mpi::find().ok_or_else(Mpi::not_found)?;
        start_client(|| {
            // SAFETY: the caller's promise.
            let comm = unsafe { mpi.comm(comm as usize) }?;
            // SAFETY: as above.
            start_over(comm, since, || unsafe { string("cfg_file", cfg_file) })
        })
    })
}

/// Starts a job over the application's communicator. What is wrong on one process is agreed on by
/// all: nobody waits for those that failed.
pub(super) fn start_over<'a>(
    comm: Comm,
    since: Instant,
    path: impl FnOnce() -> Result<&'a str>,
) -> Result<Client> {
    let client = Client::start_mpi(|| configuration(path()?), comm.dup()?)?;
    client.count_init(since);
    Ok(client)
}

/// Ends the job. Safe in any state, also twice and after `MPI_Finalize`. Afterwards the library can
/// be initialised again. Collective under MPI.
///
/// @param drain  not 0: first waits until everything that is to reach a file is there, and with
///         erasure coding (`ec_interval`) until all processes of the group have made their parities.
///         0: waits only until the host buffer has everything, from where veloc-backend writes it;
///         without a backend it waits for the files all the same. Nothing that was taken is lost,
///         unless `ephemeral = true`. The processes may pass different values; with erasure coding
///         all wait if one does
/// @return VELOC_SUCCESS; VELOC_FAILURE if there was nothing to finalize, if something could not be
///         written, or if an earlier failure in the background was not reported yet; the reason is
///         that of the oldest. The job has ended all the same, and veloc-backend writes what it can
///
/// Source: VELOC_Finalize of VELOC 1.8.
#[no_mangle]
pub extern "C" fn VELOC_Finalize(drain: c_int) -> c_int {
    status("VELOC_Finalize", || end_client(|client| client.finish(drain != 0)))
}

/// Hands over the stream in which the application computes.
///
/// From here on a capture or restore comes after what is queued in this stream, and in no other.
/// Without a stream (the default, and after NULL) it comes after everything that is queued in the
/// context, on non-blocking streams too, which may take longer.
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
        with_client(|client| unsafe { client.set_stream(stream) })
    })
}
