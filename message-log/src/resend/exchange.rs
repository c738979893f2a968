//! The reports of all processes on a part. Each tells everybody at its end of the part and goes on;
//! only the replay of the part needs the reports of the others.
//!
//! To wait for them then is safe: all of them come from first runs, and no first run waits for a
//! replay or for what comes after it.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::report::{words, Report};
use super::survey::{Survey, Verdict};
use crate::mpi::Mpi;
use crate::pmpi;
use crate::refuse;

/// After so long a wait for others is said.
const PATIENCE: Duration = Duration::from_secs(10);

/// A part of which not all reports are known to be there.
#[derive(Debug)]
pub struct Exchange {
    /// The number of its instance.
    pub instance: u64,
    /// What the application calls the part.
    pub part: i32,
    /// Counts exchanges, the same on all processes.
    pub number: u64,
    /// What is sent has to stay until all is received.
    _own: Vec<u64>,
    all: Vec<u64>,
    request: usize,
}

impl Exchange {
    /// Tells this process's report of a part. Collective, but waits for nobody.
    pub fn begin(
        mpi: &Mpi,
        comm: usize,
        processes: usize,
        room: usize,
        report: &Report,
        (instance, part, number): (u64, i32, u64),
    ) -> Exchange {
        let mut own = report.pack(part, room);
        let mut all = vec![0u64; words(room) * processes];
        let bytes = size_of_val(own.as_slice()) as c_int;
        let mut request = 0usize;
        // SAFETY: both buffers live in the exchange until the request is done, on the heap, where
        // they do not move; room for the widest handle.
        let request = unsafe {
            let (from, to) = (own.as_mut_ptr().cast(), all.as_mut_ptr().cast());
            let at = (&raw mut request).cast();
            pmpi::iallgather(from, bytes, mpi.byte, to, bytes, mpi.byte, comm, at);
            mpi.read_handle(at)
        };
        Exchange { instance, part, number, _own: own, all, request }
    }

    /// Whether all reports are there; if not, and `wait`, when they are.
    pub fn is_done(&mut self, mpi: &Mpi, wait: bool) -> bool {
        let (since, mut is_said) = (Instant::now(), false);
        loop {
            let (mut request, mut flag) = (0usize, 0);
            let at = (&raw mut request).cast();
            // SAFETY: the request of `begin`, once until it is done.
            unsafe {
                mpi.write_handle(at, self.request);
                pmpi::test(at, &mut flag, mpi.numbers.status_ignore as pmpi::Ptr);
            }
            if flag != 0 {
                return true;
            }
            if !wait {
                return false;
            }
            if !is_said && since.elapsed() > PATIENCE {
                let part = self.part;
                let text = "waiting for other processes to end their first run of part";
                refuse::say(mpi, &format!("{text} {part} (VELOC_PART_RESEND)"));
                is_said = true;
            }
            std::thread::yield_now();
        }
    }

    /// What follows from the reports. They are there.
    pub fn judge(&self, survey: &mut Survey, room: usize) -> Verdict {
        let reports: Vec<_> = self.all.chunks_exact(words(room)).map(Report::unpack).collect();
        survey.judge(self.part, &reports)
    }
}
