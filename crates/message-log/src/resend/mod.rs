//! Messages that are sent again instead of being logged.
//!
//! | file | owns |
//! | --- | --- |
//! | [`streams`] | counts what this process has sent and received |
//! | `table` | an index of streams |
//! | [`shortcuts`] | a cache from a call's arguments to its stream |
//! | [`report`] | a process's report to the others at a part's end |
//! | [`tightness`] | whether a part is right-tight, and which messages are closed |
//! | [`comms`] | numbers of communicators, common to all processes |
//! | [`exchange`] | the exchange of reports |
//! | [`part_order`] | whether all processes end and replay the same parts |
//! | [`verdicts`] | which verdicts all processes know |
//! | `not_resent` | reports why a part's messages are not sent again |
//! | [`closed`] | which messages of a part this process sends and receives again |
//!
//! The first four and `verdicts` do not use MPI. The calls that use them are in
//! `calls/counted.rs` and `calls/resending.rs`.

pub(crate) mod closed;
pub(crate) mod comms;
pub(crate) mod exchange;
mod key_hasher;
mod not_resent;
pub(crate) mod part_order;
pub(crate) mod report;
#[cfg(test)]
mod restart_tests;
pub(crate) mod shortcuts;
pub(crate) mod streams;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod tightness;
pub(crate) mod verdicts;

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::hash::BuildHasherDefault;
use std::rc::Rc;

use crate::mpi::Mpi;
use crate::parts::Parts;
use crate::pmpi;
use crate::refuse;
use crate::store;
use closed::Closed;
use comms::Comms;
use exchange::{Channel, Exchange, Minimum};
use key_hasher::KeyHasher;
use not_resent::NotResent;
use part_order::{PartEvent, PartOrder};
use report::{Report, Subject};
use streams::{Link, Streams};
use tightness::{TightnessCheck, Verdict};
use verdicts::Verdicts;

/// How many streams a process can report for a part, unless `VELOC_MPI_STREAMS` says otherwise.
const ROOM: usize = 64;

/// The most, so that the streams of a part have tags of their own.
pub(crate) const MOST: usize = 2047;

/// The state of sending messages again.
#[derive(Debug)]
pub(crate) struct Resend {
    /// All processes, on a copy of `MPI_COMM_WORLD`.
    pub channel: Channel,
    /// The ends and replays of parts that the processes have announced.
    pub part_order: PartOrder,
    /// The application's communicators.
    pub comms: Comms,
    /// The streams of messages, with counts.
    pub streams: Streams,
    /// Messages of matched probes that are not received yet, by handle.
    pub matched: HashMap<usize, Link, BuildHasherDefault<KeyHasher>>,
    tightness: TightnessCheck,
    not_resent: NotResent,
    under_way: VecDeque<Exchange>,
    /// The verdicts that this process and all processes know.
    pub verdicts: Verdicts,
    /// Whether the next call inside a part is the first one after a restart.
    pub is_resumed: bool,
    /// Bytes that were dropped from the log.
    pub dropped: u64,
    /// Bytes that were sent again.
    pub resent: u64,
}

impl Resend {
    /// Starts right after MPI is initialised; collective. `None` if this is the only process, or the user has
    /// disabled it.
    pub(crate) fn start(mpi: &Mpi) -> Option<Resend> {
        let wanted = os::environment::var("VELOC_MPI_STREAMS");
        let room = match wanted.as_deref().map(str::parse::<usize>) {
            Ok(Ok(room)) if room <= MOST => room,
            Ok(_) => {
                let wanted = wanted.unwrap_or_default();
                let text = format!(
                    "VELOC_MPI_STREAMS is \"{wanted}\": it must be a number up to {MOST}; {ROOM} is \
                     taken"
                );
                refuse::warn(mpi, &text);
                ROOM
            }
            Err(_) => ROOM,
        };
        let mut processes: c_int = 0;
        // SAFETY: an integer of ours, and a communicator that always exists.
        unsafe { pmpi::comm_size(mpi.comm_world, &mut processes) };
        let processes = usize::try_from(processes).unwrap_or(0);
        // The variable is the same on all processes of a job.
        if processes < 2 || room == 0 {
            return None;
        }
        let comm = copy_of_world(mpi)?;
        // A number, common to all processes, that identifies the checkpoints of this run.
        let drawn = (store::draw()[0] >> 1) as i64;
        let [run] = Minimum::begin(mpi, comm, [drawn]).wait(mpi)?;
        let channel = Channel { comm, processes, room };
        let part_order = PartOrder::new(copy_of_world(mpi)?, mpi.rank);
        Some(Resend::of(channel, part_order, Comms::new(mpi), run as u64))
    }

    /// The state before anything was sent.
    fn of(channel: Channel, part_order: PartOrder, comms: Comms, run: u64) -> Resend {
        Resend {
            channel,
            part_order,
            comms,
            streams: Streams::default(),
            matched: HashMap::default(),
            tightness: TightnessCheck::default(),
            not_resent: NotResent::default(),
            under_way: VecDeque::new(),
            verdicts: Verdicts::new(run),
            is_resumed: false,
            dropped: 0,
            resent: 0,
        }
    }

    /// An instance of a part whose messages may be sent again has ended. `mark` is from its beginning.
    pub(crate) fn ended(&mut self, mpi: &Mpi, instance: u64, id: i32, mark: streams::Mark) {
        let (report, of, number) = self.report(id, mark);
        let exchange = Exchange::begin(mpi, &self.channel, &report, of, (instance, number));
        self.under_way.push_back(exchange);
        self.part_order.announce(mpi, PartEvent::End(id));
    }

    /// After a restart, sends the origin of the checkpoint to the other processes, once and before any other
    /// report.
    pub(crate) fn report_origin(&mut self, mpi: &Mpi) {
        let Some((report, of)) = self.origin() else { return };
        let exchange = Exchange::begin(mpi, &self.channel, &report, of, (u64::MAX, u64::MAX));
        self.under_way.push_back(exchange);
    }

    /// The report on a part, its subject, and the number of the exchange.
    fn report(&mut self, id: i32, mark: streams::Mark) -> (Report, Subject, u64) {
        let known = self.verdicts.known();
        let report = Report { known, ..self.streams.end(mark, self.channel.room) };
        (report, Subject::Part { id, nth: mark.nth() }, self.verdicts.begin())
    }

    /// The report on a restart, once.
    fn origin(&mut self) -> Option<(Report, Subject)> {
        let origin = self.verdicts.take_origin()?;
        let report = Report { known: self.verdicts.settled(), ..Report::default() };
        Some((report, Subject::Resumed(origin)))
    }

    /// Whether reports of others may be missing on a part that this process has ended.
    pub(crate) fn awaits_parts(&self) -> bool {
        self.under_way.iter().any(|exchange| matches!(exchange.of, Subject::Part { .. }))
    }

    /// Takes the verdicts that have arrived. With `waits` it waits for all of them, unless the processes are
    /// known to differ.
    pub(crate) fn take_verdicts(&mut self, mpi: &Mpi, parts: &mut Parts, waits: bool) {
        while let Some(first) = self.under_way.front_mut() {
            let is_there = match waits {
                true => first.wait(mpi, true, || self.part_order.difference(mpi).is_some()),
                false => first.is_done(mpi),
            };
            if !is_there {
                return;
            }
            let Some(exchange) = self.under_way.pop_front() else { return };
            let reports = exchange.reports(self.channel.room);
            match exchange.of {
                Subject::Resumed(_) => self.agree(parts, reports),
                of => {
                    let ended = (exchange.instance, exchange.number);
                    let why = self.judge(mpi.rank, parts, ended, reports);
                    // All processes find the same, so one reports it.
                    if let (Subject::Part { id, .. }, Some(why), 0) = (of, why, mpi.rank) {
                        if let Some(text) = self.not_resent.message(id, &why) {
                            refuse::warn(mpi, &text);
                        }
                    }
                }
            }
        }
    }

    /// Finds the verdict on a part. Returns the reason if all of its messages are logged.
    fn judge(
        &mut self,
        rank: c_int,
        parts: &mut Parts,
        (instance, number): (u64, u64),
        reports: Result<Vec<(Report, Subject)>, String>,
    ) -> Option<String> {
        let (verdict, least) = match reports {
            Ok(reports) => (self.tightness.judge(&reports), least_known(&reports)),
            Err(text) => (Verdict::Misused(text), None),
        };
        self.verdicts.record(number, least);
        let mut why = None;
        match verdict {
            Verdict::RightTight(closed) => {
                let own = u32::try_from(rank).unwrap_or(0);
                let closed = Closed::new(&mut self.streams, own, number, &closed);
                parts.close(instance, &Rc::new(closed));
            }
            Verdict::Logged(reason) => why = Some(reason),
            Verdict::Misused(text) => parts.invalidate(instance, &text),
        }
        self.dropped += parts.drop_settled(self.verdicts.settled());
        why
    }

    /// All processes have reported what they restart from: decides which earlier messages are sent again.
    fn agree(&mut self, parts: &mut Parts, reports: Result<Vec<(Report, Subject)>, String>) {
        let different = match &reports {
            Ok(reports) => tightness::difference(reports),
            Err(text) => Some(text.clone()),
        };
        if let Some(text) = different {
            self.verdicts.agree(None);
            parts.invalidate_closed(&text);
            return;
        }
        let reports = reports.unwrap_or_default();
        self.verdicts.agree(reports.iter().map(|(report, _)| report.known).max());
        self.dropped += parts.drop_settled(self.verdicts.settled());
        parts.log_unsettled();
    }

    /// `MPI_Finalize` begins: announces that this process has no more reports, and waits until all have done
    /// so.
    pub(crate) fn finish(&mut self, mpi: &Mpi) {
        // First, so that no replay waits for this process any more.
        self.part_order.announce(mpi, PartEvent::Finalize);
        self.report_origin(mpi);
        while let Some(exchange) = Exchange::end(mpi, &self.channel) {
            self.under_way.push_back(exchange);
        }
        for mut exchange in self.under_way.drain(..) {
            exchange.wait(mpi, false, || false);
        }
        self.part_order.finish(mpi, self.channel.comm);
        for comm in [self.channel.comm, self.part_order.comm()] {
            let mut handle = 0usize;
            let at = (&raw mut handle).cast();
            // SAFETY: a communicator of ours, and a buffer as wide as any handle.
            unsafe {
                mpi.write_handle(at, comm);
                pmpi::comm_free(at);
            }
        }
    }
}

/// A communicator of all processes, for this library only. Collective, in `MPI_Init`. `None` if MPI failed.
fn copy_of_world(mpi: &Mpi) -> Option<usize> {
    let mut comm = 0usize;
    let at = (&raw mut comm).cast();
    // SAFETY: a buffer as wide as any handle; every process gets here.
    unsafe {
        let code = pmpi::comm_dup(mpi.comm_world, at);
        (code == crate::calls::SUCCESS).then(|| mpi.read_handle(at))
    }
}

/// The minimum of the numbers of verdicts that the processes knew; `None` if their reports do not match.
fn least_known(reports: &[(Report, Subject)]) -> Option<u64> {
    if tightness::difference(reports).is_some() {
        return None;
    }
    reports.iter().map(|(report, _)| report.known).min()
}
