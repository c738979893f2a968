//! Messages that are sent again instead of being logged: what the processes tell each other.
//!
//! | file | owns |
//! | --- | --- |
//! | [`exchange`] | the exchange of reports |
//! | [`part_order`] | whether all processes end and replay the same parts |
//!
//! What is counted, and the verdicts, are in `message_log_core`.

pub(crate) mod exchange;
pub(crate) mod part_order;

use std::collections::VecDeque;
use std::ffi::c_int;
use std::rc::Rc;

use message_log_core::counting::{Counting, MatchingNumbers};
use message_log_core::memory;
use message_log_core::parts::Parts;
use message_log_core::resend::judge::PartJudge;
use message_log_core::resend::report::Subject;
use message_log_core::resend::streams::PartStart;
use message_log_core::resend::MOST;
use message_log_core::status::SUCCESS;

use crate::mpi::MpiProperties;
use crate::pmpi;
use crate::refuse;
use exchange::{Channel, Exchange, Minimum};
use part_order::{PartEvent, PartOrder};

/// How many streams a process can report for a part, unless `VELOC_MPI_STREAMS` says otherwise.
const ROOM: usize = 64;

/// The state of sending messages again.
#[derive(Debug)]
pub(crate) struct Resend {
    /// All processes, on a copy of `MPI_COMM_WORLD`.
    channel: Channel,
    /// The ends and replays of parts that the processes have announced.
    pub part_order: PartOrder,
    /// The verdicts on parts.
    pub judge: PartJudge,
    under_way: VecDeque<Exchange>,
}

impl Resend {
    /// Starts right after MPI is initialised; collective. `None` if this is the only process, or the user has
    /// disabled it.
    pub(crate) fn start(mpi: &MpiProperties, counting: &mut Counting) -> Option<Resend> {
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
        let drawn = (draw()[0] >> 1) as i64;
        let [run] = Minimum::begin(mpi, comm, [drawn]).wait(mpi)?;
        let channel = Channel { comm, processes, room };
        let part_order = PartOrder::new(copy_of_world(mpi)?, mpi.rank);
        count_messages(mpi, counting);
        let judge = PartJudge::new(room, run as u64);
        Some(Resend { channel, part_order, judge, under_way: VecDeque::new() })
    }

    /// The communicator for messages that are sent again.
    pub(crate) fn comm(&self) -> usize {
        self.channel.comm
    }

    /// An instance of a part whose messages may be sent again has ended. `mark` is from its beginning.
    pub(crate) fn ended(
        &mut self,
        mpi: &MpiProperties,
        counting: &mut Counting,
        (instance, mark): (u64, PartStart),
        id: i32,
    ) {
        let Some(streams) = counting.streams() else { return };
        let (report, of, number) = self.judge.report(streams, id, mark);
        let exchange = Exchange::begin(mpi, &self.channel, &report, of, (instance, number));
        self.under_way.push_back(exchange);
        self.part_order.announce(mpi, PartEvent::End(id));
    }

    /// After a restart, sends the origin of the checkpoint to the other processes, once and before any other
    /// report.
    pub(crate) fn report_origin(&mut self, mpi: &MpiProperties) {
        let Some((report, of)) = self.judge.origin() else { return };
        let exchange = Exchange::begin(mpi, &self.channel, &report, of, (u64::MAX, u64::MAX));
        self.under_way.push_back(exchange);
    }

    /// Whether reports of others may be missing on a part that this process has ended.
    pub(crate) fn awaits_parts(&self) -> bool {
        self.under_way.iter().any(|exchange| matches!(exchange.of, Subject::Part { .. }))
    }

    /// Takes the verdicts that have arrived. With `waits` it waits for all of them, unless the processes are
    /// known to differ.
    pub(crate) fn take_verdicts(
        &mut self,
        mpi: &MpiProperties,
        counting: &mut Counting,
        parts: &mut Parts,
        waits: bool,
    ) {
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
                Subject::Resumed(_) => self.judge.agree(parts, reports),
                of => {
                    let Some(streams) = counting.streams() else { return };
                    let ended = (exchange.instance, exchange.number);
                    let why = self.judge.judge(mpi.rank, streams, parts, ended, reports);
                    // All processes find the same, so one reports it.
                    if let (Subject::Part { id, .. }, Some(why), 0) = (of, why, mpi.rank) {
                        if let Some(text) = self.judge.not_resent(id, &why) {
                            refuse::warn(mpi, &text);
                        }
                    }
                }
            }
        }
    }

    /// `MPI_Finalize` begins: announces that this process has no more reports, and waits until all have done
    /// so.
    pub(crate) fn finish(&mut self, mpi: &MpiProperties) {
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
fn copy_of_world(mpi: &MpiProperties) -> Option<usize> {
    let mut comm = 0usize;
    let at = (&raw mut comm).cast();
    // SAFETY: a buffer as wide as any handle; every process gets here.
    unsafe {
        let code = pmpi::comm_dup(mpi.comm_world, at);
        (code == SUCCESS).then(|| mpi.read_handle(at))
    }
}

/// Counts messages on the predefined communicators from now on.
fn count_messages(mpi: &MpiProperties, counting: &mut Counting) {
    counting.start(MatchingNumbers {
        any_source: mpi.numbers.any_source,
        any_tag: mpi.numbers.any_tag,
        proc_null: mpi.numbers.proc_null,
        no_message: mpi.message_no_proc,
        handle_bits: mpi.abi.truncate(usize::MAX),
        rank: mpi.rank as u32,
    });
    for comm in [mpi.comm_world, mpi.comm_self] {
        comm_made(mpi, counting, comm);
    }
}

/// Counts messages on a new communicator. Out of memory for its processes, it is not known.
pub(crate) fn comm_made(mpi: &MpiProperties, counting: &mut Counting, comm: usize) {
    if let Some(comms) = counting.comms() {
        if let Some(world) = processes(mpi, comm) {
            comms.made(comm, world);
        }
    }
}

/// The processes of an intracommunicator.
fn processes(mpi: &MpiProperties, comm: usize) -> Option<Rc<[u32]>> {
    if comm == mpi.comm_null {
        return None;
    }
    let (mut is_inter, mut size) = (0, 0);
    // SAFETY: a communicator that MPI returned, and integers of ours.
    unsafe {
        pmpi::comm_test_inter(comm, &mut is_inter);
        pmpi::comm_size(comm, &mut size);
    }
    if is_inter != 0 {
        return None;
    }
    let len = usize::try_from(size).ok()?;
    let mut ranks: Vec<c_int> = memory::room(len).ok()?;
    ranks.extend(0..size);
    let mut world: Vec<c_int> = memory::room(len).ok()?;
    world.resize(len, 0);
    let (mut group, mut all) = (0usize, 0usize);
    let (at_group, at_all) = ((&raw mut group).cast(), (&raw mut all).cast());
    // SAFETY: buffers as wide as any handle, and room for as many integers as processes.
    unsafe {
        pmpi::comm_group(comm, at_group);
        pmpi::comm_group(mpi.comm_world, at_all);
        pmpi::group_translate_ranks(
            mpi.read_handle(at_group),
            size,
            ranks.as_ptr().cast_mut(),
            mpi.read_handle(at_all),
            world.as_mut_ptr(),
        );
        pmpi::group_free(at_group);
        pmpi::group_free(at_all);
    }
    // Processes of another world, as after MPI_Comm_spawn, have no rank in this one.
    world.iter().map(|&process: &c_int| u32::try_from(process).ok()).collect()
}

/// A random number that identifies the job.
pub(crate) fn draw() -> [u64; 2] {
    let mut drawn = [0u64; 2];
    let len = size_of_val(&drawn);
    // SAFETY: room for this many bytes.
    let got = unsafe { libc::getrandom(drawn.as_mut_ptr().cast(), len, 0) };
    if usize::try_from(got) != Ok(len) {
        // Without random numbers in the system, the time and the process id are used.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_nanos() as u64);
        return [now, u64::from(std::process::id())];
    }
    drawn
}
