//! Messages that are sent again instead of being kept.
//!
//! | file | owns |
//! | --- | --- |
//! | [`streams`] | what this process has sent and received, counted |
//! | [`report`] | what it tells the others of a part at its end |
//! | [`survey`] | what follows from the reports of all: whether a part is right-tight, and which messages are closed |
//! | [`comms`] | which communicator is which, for all processes |
//! | [`exchange`] | the reports on their way |
//! | [`closed`] | which messages of a part this process sends and receives again |
//!
//! The first three are without MPI. What calls do with all this stands in
//! `inside/again.rs`.

pub mod closed;
pub mod comms;
pub mod exchange;
pub mod report;
mod spread;
pub mod streams;
pub mod survey;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::ffi::c_int;
use std::rc::Rc;

use crate::mpi::Mpi;
use crate::parts::Parts;
use crate::pmpi;
use closed::Closed;
use comms::Comms;
use exchange::Exchange;
use report::Report;
use streams::Streams;
use survey::{Survey, Verdict};

/// How many streams a process can report for a part, unless `VELOC_MPI_STREAMS` says otherwise.
const ROOM: usize = 64;

/// The most, so that the streams of a part have tags of their own.
pub const MOST: usize = 2047;

/// Everything that sending again needs.
#[derive(Debug)]
pub struct Resend {
    /// A copy of `MPI_COMM_WORLD` for this library alone.
    pub comm: usize,
    processes: usize,
    room: usize,
    /// The application's communicators.
    pub comms: Comms,
    /// Its messages, counted.
    pub streams: Streams,
    survey: Survey,
    under_way: VecDeque<Exchange>,
    /// How many exchanges have begun.
    pub(crate) begun: u64,
    /// Bytes that were given up.
    pub dropped: u64,
    /// Bytes that were sent again.
    pub resent: u64,
}

impl Resend {
    /// Right after MPI was initialised: collective. `None` if there is nobody to send to, or the
    /// user does not want it.
    pub fn start(mpi: &Mpi) -> Option<Resend> {
        let wanted = std::env::var("VELOC_MPI_STREAMS");
        let room = match wanted.as_deref().map(str::parse::<usize>) {
            Ok(Ok(room)) if room <= MOST => room,
            Ok(_) => {
                let wanted = wanted.unwrap_or_default();
                let text = format!(
                    "VELOC_MPI_STREAMS is \"{wanted}\": it must be a number up to {MOST}; {ROOM} is \
                     taken"
                );
                crate::refuse::say(mpi, &text);
                ROOM
            }
            Err(_) => ROOM,
        };
        let mut processes: c_int = 0;
        // SAFETY: a number of ours, and a communicator that is always there.
        unsafe { pmpi::comm_size(mpi.comm_world, &mut processes) };
        let processes = usize::try_from(processes).unwrap_or(0);
        // The user's variable is the same everywhere, or the job does not start as one.
        if processes < 2 || room == 0 {
            return None;
        }
        let mut comm = 0usize;
        let at = (&raw mut comm).cast();
        // SAFETY: room for the widest handle; every process comes here from its MPI_Init.
        let comm = unsafe {
            if pmpi::comm_dup(mpi.comm_world, at) != crate::inside::SUCCESS {
                return None;
            }
            mpi.read_handle(at)
        };
        Some(Resend {
            comm,
            processes,
            room,
            comms: Comms::new(mpi),
            streams: Streams::default(),
            survey: Survey::default(),
            under_way: VecDeque::new(),
            begun: 0,
            dropped: 0,
            resent: 0,
        })
    }

    /// An instance of a part that may be sent again has ended, with this mark at its begin.
    pub fn ended(&mut self, mpi: &Mpi, instance: u64, part: i32, mark: streams::Mark) {
        let report: Report = self.streams.end(mark, self.room);
        let number = self.begun;
        self.begun += 1;
        let names = (instance, part, number);
        let exchange = Exchange::begin(mpi, self.comm, self.processes, self.room, &report, names);
        self.under_way.push_back(exchange);
    }

    /// Takes the verdicts that are there. With `all` it waits for all of them: before a replay, which
    /// may run parts inside of which the verdict is not known yet.
    pub fn hear(&mut self, mpi: &Mpi, parts: &mut Parts, all: bool) {
        while let Some(first) = self.under_way.front_mut() {
            if !first.is_done(mpi, all) {
                return;
            }
            let verdict = first.judge(&mut self.survey, self.room);
            let (instance, number) = (first.instance, first.number);
            self.under_way.pop_front();
            if let Verdict::RightTight(closed) = verdict {
                let own = u32::try_from(mpi.rank).unwrap_or(0);
                let closed = Closed::new(&mut self.streams, own, number, &closed);
                self.dropped += parts.close(instance, &Rc::new(closed));
            }
        }
    }

    /// MPI is about to end: what was told is heard, as the others may wait for it.
    pub fn finish(&mut self, mpi: &Mpi) {
        for mut exchange in self.under_way.drain(..) {
            exchange.is_done(mpi, true);
        }
        let mut comm = 0usize;
        let at = (&raw mut comm).cast();
        // SAFETY: a communicator of ours, and room for the widest handle.
        unsafe {
            mpi.write_handle(at, self.comm);
            pmpi::comm_free(at);
        }
    }
}
