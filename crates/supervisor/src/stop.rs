//! The time for which the program stands still: the driver parks it, CRIU writes what it is to memory, and it goes on.

use std::fs;
use std::path::Path;
use std::time::Instant;

use errors::{Error, ErrorKind, Result};
use os::memory;
use os::size;
use serde::{Deserialize, Serialize};

use super::apart::apart;
use super::criu::Criu;
use super::driver::{Gpu, Users};
use super::given::External;
use super::mapped::mapped;
use super::space::Space;

/// A program that has stood still.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Stopped {
    /// For how long, in milliseconds.
    pub ms: f64,
    /// What it has of a GPU.
    pub gpu: Option<Gpu>,
    /// Why there is no image.
    pub failed: Option<String>,
    /// Why it does not go on.
    pub stuck: Option<String>,
}

impl Stopped {
    /// One that has not.
    fn not(error: Error) -> Stopped {
        Stopped { ms: 0.0, gpu: None, failed: Some(error.to_string()), stuck: None }
    }
}

/// Writes the processes from `root` on to the directory `images` of the space, while they stand still.
pub(crate) fn image(
    space: &Space,
    criu: &Criu,
    root: u32,
    images: &Path,
    externals: &[External],
) -> Stopped {
    let text = |result: Result<()>| result.err().map(|error| error.to_string());
    let stop = || {
        let found = refuse_mpi(space).and_then(|()| Users::of(space)).and_then(|users| {
            let gpu = users.as_ref().map(Users::gpu).transpose()?;
            Ok((users, gpu))
        });
        let (users, gpu) = match found {
            Ok(found) => found,
            Err(error) => return Ok(Stopped::not(error)),
        };
        let since = Instant::now();
        let parked = users.as_ref().map_or(Ok(()), Users::park);
        let made = parked
            .and_then(|()| check_room(space))
            .and_then(|()| criu.dump(space, root, images, externals));
        let goes_on = users.as_ref().map_or(Ok(()), Users::go_on);
        let ms = since.elapsed().as_secs_f64() * 1e3;
        Ok(Stopped { ms, gpu, failed: text(made), stuck: text(goes_on) })
    };
    // Where its process was killed, the program may stand still.
    apart("stopping the program", stop)
        .unwrap_or_else(|error| Stopped { stuck: Some(error.to_string()), ..Stopped::not(error) })
}

/// Has a program that the driver has parked go on.
///
/// # Errors
/// The driver's: it is as before.
pub(crate) fn go_on(space: &Space) -> Result<()> {
    apart("having the program go on", || Users::of(space)?.as_ref().map_or(Ok(()), Users::go_on))
}

/// Checks that a program of this GPU can go on here.
///
/// # Errors
/// What differs.
pub(crate) fn check_gpu(gpu: &Gpu) -> Result<()> {
    apart("looking at the GPU", || gpu.check_here())
}

/// A process of an MPI program goes back alone, and the messages of the others do not.
fn refuse_mpi(space: &Space) -> Result<()> {
    for (outside, inside) in space.processes()? {
        if let Some(library) = mapped(outside, "libmpi") {
            return Err(Error::invalid(format!("process {inside} uses MPI ({}), and veloc run does not make versions of MPI programs: call VELOC_Checkpoint in it", library.display())));
        }
    }
    Ok(())
}

/// An image is in memory until it is written.
fn check_room(space: &Space) -> Result<()> {
    let needed = space.processes()?.into_iter().map(|(process, _)| resident(process)).sum();
    let free = memory::physical()?.available;
    if needed <= free {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NoRoom,
        format!(
            "the program has {} in memory, and an image of it does not fit into the {} that are free",
            size::show(needed),
            size::show(free)
        ),
    ))
}

/// The bytes of a process that are in memory and no file's.
fn resident(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let of = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
    };
    1024 * (of("RssAnon:").unwrap_or(0) + of("RssShmem:").unwrap_or(0))
}
