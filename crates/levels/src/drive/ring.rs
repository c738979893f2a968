//! Reads and writes of a drive by io_uring: one thread, many at a time.

use std::fmt::{self, Debug};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, IntoRawFd as _};
use std::thread::sleep;
use std::time::Duration;

use super::{no_bytes, piece_failed, Piece, Way, DEPTH};
use crate::store::GoOn;
use errors::{Error, Result};
use io_uring::squeue::Entry;
use io_uring::{opcode, types::Fd, IoUring, Probe};
use os::descriptors::with_high_number;
use os::sync::Mutex;

/// How often the end of what is under way is looked for once the system does not tell of it.
const LOOK: Duration = Duration::from_millis(1);

/// The rings of a drive: one for each thread that uses it at the same time. Without any, there is no io_uring.
#[derive(Debug, Default)]
pub(super) struct Rings(Option<Mutex<Vec<Ring>>>);

impl Rings {
    /// Rings, of which there is the first.
    ///
    /// # Errors
    /// The system refuses io_uring, or has one of before Linux 5.6.
    pub(super) fn new() -> io::Result<Rings> {
        Ok(Rings(Some(Mutex::new(vec![Ring::new()?]))))
    }

    /// Transfers these pieces by a ring that nobody else uses. `None`: there is none, and nothing was done.
    pub(super) fn transfer(
        &self,
        way: Way,
        file: &File,
        pieces: &mut dyn Iterator<Item = Piece>,
        go_on: &GoOn<'_>,
    ) -> Option<Result<()>> {
        let rings = self.0.as_ref()?;
        let there = rings.lock().pop();
        let mut ring = there.or_else(|| Ring::new().ok())?;
        let result = ring.transfer(way, file, pieces, go_on);
        if ring.works {
            rings.lock().push(ring);
        }
        Some(result)
    }

    /// The descriptors of those that nobody uses now.
    #[cfg(all(test, not(feature = "model-check")))]
    pub(super) fn descriptors(&self) -> Vec<i32> {
        let rings = self.0.iter().flat_map(|rings| {
            rings.lock().iter().map(|one| one.ring.as_raw_fd()).collect::<Vec<_>>()
        });
        rings.collect()
    }
}

/// A submission and a completion queue.
struct Ring {
    ring: IoUring,
    works: bool,
}

impl Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("works", &self.works).finish_non_exhaustive()
    }
}

impl Ring {
    fn new() -> io::Result<Ring> {
        let ring: IoUring = IoUring::builder().dontfork().build(DEPTH as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if ![opcode::Read::CODE, opcode::Write::CODE].iter().all(|code| probe.is_supported(*code)) {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        // Applications close low descriptors that they do not know.
        // SAFETY: duplicates a descriptor that the ring has open.
        let own = unsafe { BorrowedFd::borrow_raw(ring.as_raw_fd()) }.try_clone_to_owned()?;
        let own = with_high_number(own);
        // SAFETY: the descriptor of a ring with these parameters, which is given away.
        let ring = unsafe { IoUring::from_fd(own.into_raw_fd(), ring.params().clone())? };
        Ok(Ring { ring, works: true })
    }

    /// Transfers these pieces. None is under way when this returns.
    fn transfer(
        &mut self,
        way: Way,
        file: &File,
        pieces: &mut dyn Iterator<Item = Piece>,
        go_on: &GoOn<'_>,
    ) -> Result<()> {
        let mut slots: [Option<Piece>; DEPTH] = [None; DEPTH];
        // What was transferred in part, or not at all.
        let mut again = Vec::new();
        let mut failed = None;
        loop {
            if failed.is_none() {
                failed = go_on().err();
            }
            for (slot, place) in slots.iter_mut().enumerate().filter(|(_, place)| place.is_none()) {
                let next =
                    if failed.is_none() { again.pop().or_else(|| pieces.next()) } else { None };
                let Some(piece) = next else { break };
                let entry = entry(way, file, piece).user_data(slot as u64);
                // SAFETY: the caller lends memory and file until the piece has come back, for which this waits. The
                // queue has room for as many entries as there are slots.
                if unsafe { self.ring.submission().push(&entry) }.is_err() {
                    again.push(piece);
                    break;
                }
                *place = Some(piece);
            }
            let under_way = slots.iter().flatten().count();
            if under_way == 0 {
                return failed.map_or(Ok(()), Err);
            }
            if let Err(error) = self.submit_and_wait() {
                // As if an application had closed the ring: what has begun ends all the same.
                self.works = false;
                let submitted = under_way - self.ring.submission().len();
                self.await_end(submitted);
                return Err(Error::system("io_uring_enter", &error));
            }
            for completion in self.ring.completion() {
                let Some(piece) = slots[completion.user_data() as usize % DEPTH].take() else {
                    continue;
                };
                let done = completion.result();
                let error = match u64::try_from(done) {
                    Ok(0) => no_bytes(),
                    Ok(done) if done >= piece.len => continue,
                    Ok(done) => {
                        again.push(piece.behind(done));
                        continue;
                    }
                    Err(_) if [libc::EINTR, libc::EAGAIN].contains(&-done) => {
                        again.push(piece);
                        continue;
                    }
                    Err(_) => io::Error::from_raw_os_error(-done),
                };
                failed.get_or_insert(piece_failed(way, piece, &error));
            }
        }
    }

    /// Submits what is queued, and waits until something has ended.
    fn submit_and_wait(&self) -> io::Result<()> {
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // Something has to end first.
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => sleep(LOOK),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until this many have ended, without the system's help: the drive ends them.
    fn await_end(&mut self, mut under_way: usize) {
        while under_way > 0 {
            under_way -= self.ring.completion().count().min(under_way);
            sleep(LOOK);
        }
    }
}

fn entry(way: Way, file: &File, piece: Piece) -> Entry {
    let (file, len) = (Fd(file.as_raw_fd()), piece.len as u32);
    match way {
        Way::Read => opcode::Read::new(file, piece.memory, len).offset(piece.offset).build(),
        Way::Write => opcode::Write::new(file, piece.memory, len).offset(piece.offset).build(),
    }
}
