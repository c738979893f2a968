//! Messages that are sent again instead of being kept.
//!
//! | file | owns |
//! | --- | --- |
//! | [`streams`] | what this process has sent and received, counted |
//! | `table` | where each stream stands |
//! | [`report`] | what it tells the others of a part at its end |
//! | [`survey`] | what follows from the reports of all: whether a part is right-tight, and which messages are closed |
//! | [`comms`] | which communicator is which, for all processes |
//! | [`exchange`] | the reports on their way |
//! | [`closed`] | which messages of a part this process sends and receives again |
//!
//! The first four are without MPI. What calls do with all this stands in
//! `inside/again.rs`.

pub mod closed;
pub mod comms;
pub mod exchange;
pub mod report;
mod spread;
pub mod streams;
pub mod survey;
mod table;
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
use exchange::{Channel, Exchange, Waiter};
use report::{Report, Subject};
use streams::Streams;
use survey::{Survey, Verdict};

/// How many streams a process can report for a part, unless `VELOC_MPI_STREAMS` says otherwise.
const ROOM: usize = 64;

/// The most, so that the streams of a part have tags of their own.
pub const MOST: usize = 2047;

/// Everything that sending again needs.
#[derive(Debug)]
pub struct Resend {
    /// All processes, on a copy of `MPI_COMM_WORLD`.
    pub channel: Channel,
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
            channel: Channel { comm, processes, room },
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
    pub fn ended(&mut self, mpi: &Mpi, instance: u64, id: i32, mark: streams::Mark) {
        let report: Report = self.streams.end(mark, self.channel.room);
        let of = Subject::Part { id, nth: mark.nth() };
        let names = (instance, self.begun);
        self.begun += 1;
        self.under_way.push_back(Exchange::begin(mpi, &self.channel, &report, of, names));
    }

    /// Takes the verdicts that are there; all of them, if something waits for them.
    pub fn hear(&mut self, mpi: &Mpi, parts: &mut Parts, waiter: Option<Waiter>) {
        while let Some(first) = self.under_way.front_mut() {
            if waiter.is_some() {
                first.wait(mpi, waiter);
            } else if !first.is_done(mpi) {
                return;
            }
            let verdict = first.judge(&mut self.survey, self.channel.room);
            let (instance, number) = (first.instance, first.number);
            self.under_way.pop_front();
            match verdict {
                Verdict::RightTight(closed) => {
                    let own = u32::try_from(mpi.rank).unwrap_or(0);
                    let closed = Closed::new(&mut self.streams, own, number, &closed);
                    self.dropped += parts.close(instance, &Rc::new(closed));
                }
                Verdict::Logged(_) => {}
                Verdict::Misused(text) => parts.spoil(instance, &text),
            }
        }
    }

    /// MPI is about to end: the others are told that there is nothing more to wait for, until all have
    /// come to that.
    pub fn finish(&mut self, mpi: &Mpi) {
        while let Some(exchange) = Exchange::end(mpi, &self.channel, self.begun) {
            self.begun += 1;
            self.under_way.push_back(exchange);
        }
        for mut exchange in self.under_way.drain(..) {
            exchange.wait(mpi, None);
        }
        let mut comm = 0usize;
        let at = (&raw mut comm).cast();
        // SAFETY: a communicator of ours, and room for the widest handle.
        unsafe {
            mpi.write_handle(at, self.channel.comm);
            pmpi::comm_free(at);
        }
    }
}
