//! Checks that all processes end and replay the same parts whose messages may be sent again, in the same
//! order.
//!
//! A replay that sends messages again waits for the other ends. If another process replays another part,
//! or none, their messages never come. So each process announces each end of such a part and each such
//! replay, without waiting, by a reduction of two numbers to their minimum and maximum; a process that
//! waits in a replay checks whether all have announced the same.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::fmt;

use message_log_core::counting::Sender;

use super::exchange::Minimum;
use crate::mpi::MpiProperties;
use crate::pmpi;
use crate::status::{MpiStatus as _, StatusBytes};

/// An event that all processes must have in the same order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartEvent {
    /// The end of this part.
    End(i32),
    /// A replay of this part.
    Replay(i32),
    /// `MPI_Finalize`.
    Finalize,
}

impl fmt::Display for PartEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartEvent::End(id) => write!(f, "has ended part {id}"),
            PartEvent::Replay(id) => write!(f, "replays part {id}"),
            PartEvent::Finalize => f.write_str("has called MPI_Finalize"),
        }
    }
}

/// Bits of a rank.
const RANK: u32 = 24;

impl PartEvent {
    /// Encodes it as a number, with the process's rank.
    fn pack(self, rank: u32) -> i64 {
        let (kind, id) = match self {
            PartEvent::End(id) => (0, id),
            PartEvent::Replay(id) => (1, id),
            PartEvent::Finalize => (2, 0),
        };
        kind << (RANK + 32) | i64::from(id as u32) << RANK | i64::from(rank & ((1 << RANK) - 1))
    }

    /// Decodes what [`pack`](Self::pack) returned; with the rank.
    fn unpack(word: i64) -> (PartEvent, u32) {
        let id = (word >> RANK) as u32 as i32;
        let event = match word >> (RANK + 32) {
            0 => PartEvent::End(id),
            1 => PartEvent::Replay(id),
            _ => PartEvent::Finalize,
        };
        (event, word as u32 & ((1 << RANK) - 1))
    }
}

/// The events of all processes, in order.
#[derive(Debug)]
pub(crate) struct PartOrder {
    comm: usize,
    rank: u32,
    /// Events that some processes may not have reached yet.
    under_way: VecDeque<Minimum<2>>,
    /// Whether all have called `MPI_Finalize`.
    all_finalized: bool,
    /// How two processes differ.
    difference: Option<String>,
    /// Whether the warning that a replay waits was printed.
    pub wait_reported: bool,
}

impl PartOrder {
    /// For the process `rank`, on a communicator of its own.
    pub(crate) fn new(comm: usize, rank: c_int) -> PartOrder {
        let rank = u32::try_from(rank).unwrap_or(0);
        let under_way = VecDeque::new();
        PartOrder {
            comm,
            rank,
            under_way,
            all_finalized: false,
            difference: None,
            wait_reported: false,
        }
    }

    /// The communicator.
    pub(crate) fn comm(&self) -> usize {
        self.comm
    }

    /// Announces this process's event. Collective, but does not wait.
    pub(crate) fn announce(&mut self, mpi: &MpiProperties, event: PartEvent) {
        let own = event.pack(self.rank);
        self.under_way.push_back(Minimum::begin(mpi, self.comm, [own, -own]));
    }

    /// How two processes differ, if known.
    pub(crate) fn difference(&mut self, mpi: &MpiProperties) -> Option<&str> {
        while let Some(first) = self.under_way.front_mut() {
            if !first.is_done(mpi) {
                break;
            }
            match first.result() {
                Some([least, other]) => self.compare(least, -other),
                None => {
                    let text = "MPI failed to exchange which parts the processes end and replay";
                    self.difference.get_or_insert_with(|| text.to_owned());
                }
            }
            self.under_way.pop_front();
        }
        self.difference.as_deref()
    }

    /// Compares the minimum and the maximum of all processes.
    fn compare(&mut self, least: i64, greatest: i64) {
        let ((one, who), (other, whose)) = (PartEvent::unpack(least), PartEvent::unpack(greatest));
        self.all_finalized = (one, other) == (PartEvent::Finalize, PartEvent::Finalize);
        if one != other {
            self.difference.get_or_insert_with(|| {
                format!(
                    "process {who} {one}, and process {whose} {other} instead (VELOC_PART_RESEND)"
                )
            });
        }
    }

    /// Whether other processes are behind this one.
    pub(crate) fn is_ahead(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Waits until all processes have announced [`PartEvent::Finalize`]. Receives messages on `channel` that
    /// no replay wants any more, so that their senders can finish.
    pub(crate) fn finish(&mut self, mpi: &MpiProperties, channel: usize) {
        loop {
            self.difference(mpi);
            if self.under_way.is_empty() {
                if self.all_finalized {
                    return;
                }
                self.announce(mpi, PartEvent::Finalize);
            }
            take_any(mpi, channel);
            std::thread::yield_now();
        }
    }
}

/// Receives and drops a message, if there is one.
fn take_any(mpi: &MpiProperties, comm: usize) {
    let (mut status, mut flag) = (StatusBytes::default(), 0);
    let (source, tag) = (mpi.numbers.any_source, mpi.numbers.any_tag);
    // SAFETY: a communicator and an integer of ours, and room for a status.
    unsafe { pmpi::iprobe(source, tag, comm, &mut flag, status.as_mut_ptr()) };
    if flag == 0 {
        return;
    }
    let (bytes, ignored) = (status.received(mpi), mpi.numbers.status_ignore as pmpi::Ptr);
    let mut room = vec![0u8; usize::try_from(bytes).unwrap_or(0)];
    let Sender { rank: source, tag } = status.sender(mpi);
    // SAFETY: room for the whole message.
    unsafe {
        pmpi::recv(
            room.as_mut_ptr().cast(),
            room.len() as c_int,
            mpi.byte,
            source,
            tag,
            comm,
            ignored,
        )
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a difference that names the wrong process, and negative ids of parts that are decoded wrongly.
    #[test]
    fn a_difference_names_the_processes_and_their_events() {
        let all = [
            PartEvent::End(-3),
            PartEvent::End(7),
            PartEvent::Replay(i32::MIN),
            PartEvent::Finalize,
        ];
        for event in all {
            assert_eq!(PartEvent::unpack(event.pack(70_000)), (event, 70_000));
        }
        let words = all.map(|event| event.pack((1 << RANK) - 1));
        assert!(words.iter().all(|word| *word >= 0), "their opposites are told as well");
        let mut part_order = PartOrder::new(0, 0);
        let compare = |part_order: &mut PartOrder, told: [PartEvent; 3]| {
            let words = (0..).zip(told).map(|(rank, event)| event.pack(rank));
            let words: Vec<i64> = words.collect();
            part_order.compare(
                words.iter().copied().min().unwrap(),
                words.iter().copied().max().unwrap(),
            );
        };
        compare(&mut part_order, [PartEvent::Replay(5); 3]);
        assert_eq!(part_order.difference, None);
        compare(&mut part_order, [PartEvent::Replay(5), PartEvent::End(6), PartEvent::Replay(5)]);
        let text = part_order.difference.clone().unwrap();
        assert!(text.starts_with("process 1 has ended part 6, and process "), "{text}");
        compare(&mut part_order, [PartEvent::Finalize; 3]);
        assert!(part_order.all_finalized && part_order.difference == Some(text));
    }
}
