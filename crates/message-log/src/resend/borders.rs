//! Whether all processes end and replay the same parts whose messages may be sent again, in the same order.
//!
//! A replay that sends messages again waits for the other ends. If another process replays another part
//! instead, or none any more, these never come. So each process tells all others of each end of such a part and
//! each replay in which messages are sent again, without waiting for anybody, and who waits in a replay looks whether all have told the same: two numbers
//! of each process, of which the least and the greatest are found.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::fmt;

use super::exchange::Least;
use crate::mpi::Mpi;
use crate::pmpi;
use crate::status::Status;

/// What a process has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Border {
    /// The end of this part.
    End(i32),
    /// A replay of this part.
    Replay(i32),
    /// `MPI_Finalize`.
    Finalize,
}

impl fmt::Display for Border {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Border::End(id) => write!(f, "has ended part {id}"),
            Border::Replay(id) => write!(f, "replays part {id}"),
            Border::Finalize => f.write_str("has called MPI_Finalize"),
        }
    }
}

/// Bits of a process's number.
const RANK: u32 = 24;

impl Border {
    /// As a number, with who has come to it.
    fn pack(self, rank: u32) -> i64 {
        let (kind, id) = match self {
            Border::End(id) => (0, id),
            Border::Replay(id) => (1, id),
            Border::Finalize => (2, 0),
        };
        kind << (RANK + 32) | i64::from(id as u32) << RANK | i64::from(rank & ((1 << RANK) - 1))
    }

    /// From what [`pack`](Self::pack) gave, and whose it is.
    fn unpack(word: i64) -> (Border, u32) {
        let id = (word >> RANK) as u32 as i32;
        let border = match word >> (RANK + 32) {
            0 => Border::End(id),
            1 => Border::Replay(id),
            _ => Border::Finalize,
        };
        (border, word as u32 & ((1 << RANK) - 1))
    }
}

/// What each process has come to, one after the other.
#[derive(Debug)]
pub struct Borders {
    comm: usize,
    rank: u32,
    /// Those that not all are known to have come to.
    under_way: VecDeque<Least<2>>,
    /// All have come to `MPI_Finalize`.
    is_over: bool,
    /// How two processes differ.
    difference: Option<String>,
    /// It was said that a replay waits.
    pub is_wait_said: bool,
}

impl Borders {
    /// Of this process, on a communicator of its own.
    pub fn new(comm: usize, rank: c_int) -> Borders {
        let rank = u32::try_from(rank).unwrap_or(0);
        let under_way = VecDeque::new();
        Borders { comm, rank, under_way, is_over: false, difference: None, is_wait_said: false }
    }

    /// The communicator.
    pub fn comm(&self) -> usize {
        self.comm
    }

    /// Tells the others what this process has come to. Collective, but waits for nobody.
    pub fn tell(&mut self, mpi: &Mpi, border: Border) {
        let own = border.pack(self.rank);
        self.under_way.push_back(Least::begin(mpi, self.comm, [own, -own]));
    }

    /// How two processes differ, if that is known by now.
    pub fn look(&mut self, mpi: &Mpi) -> Option<&str> {
        while let Some(first) = self.under_way.front_mut() {
            if !first.is_done(mpi) {
                break;
            }
            match first.result() {
                Some([least, other]) => self.hear(least, -other),
                None => {
                    let text = "MPI could not tell what the processes do with their parts";
                    self.difference.get_or_insert_with(|| text.to_owned());
                }
            }
            self.under_way.pop_front();
        }
        self.difference.as_deref()
    }

    /// Of all processes these are the least and the greatest.
    fn hear(&mut self, least: i64, greatest: i64) {
        let ((one, who), (other, whose)) = (Border::unpack(least), Border::unpack(greatest));
        self.is_over = (one, other) == (Border::Finalize, Border::Finalize);
        if one != other {
            self.difference.get_or_insert_with(|| {
                format!(
                    "process {who} {one}, and process {whose} {other} instead (VELOC_PART_RESEND)"
                )
            });
        }
    }

    /// Whether others have not come to where this process is.
    pub fn is_ahead(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// After [`Border::Finalize`] was told: until all have come to that. What was sent to this process on
    /// `channel` and nobody wants any more is taken, so that its sender can end.
    pub fn finish(&mut self, mpi: &Mpi, channel: usize) {
        loop {
            self.look(mpi);
            if self.under_way.is_empty() {
                if self.is_over {
                    return;
                }
                self.tell(mpi, Border::Finalize);
            }
            take_any(mpi, channel);
            std::thread::yield_now();
        }
    }
}

/// Receives a message that is there, for nobody.
fn take_any(mpi: &Mpi, comm: usize) {
    let (mut status, mut flag) = (Status::default(), 0);
    let (source, tag) = (mpi.numbers.any_source, mpi.numbers.any_tag);
    // SAFETY: a communicator of ours, a number of ours, and room for a status.
    unsafe { pmpi::iprobe(source, tag, comm, &mut flag, status.as_mut_ptr()) };
    if flag == 0 {
        return;
    }
    let (bytes, ignored) = (status.bytes(mpi), mpi.numbers.status_ignore as pmpi::Ptr);
    let mut room = vec![0u8; usize::try_from(bytes).unwrap_or(0)];
    let (source, tag) = (status.source(mpi), status.tag(mpi));
    // SAFETY: room for as much as there is.
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

    /// Catches a process that is named with what another has done, and parts with negative numbers that
    /// are taken for something else.
    #[test]
    fn who_has_come_to_what_is_said() {
        let all = [Border::End(-3), Border::End(7), Border::Replay(i32::MIN), Border::Finalize];
        for border in all {
            assert_eq!(Border::unpack(border.pack(70_000)), (border, 70_000));
        }
        let words = all.map(|border| border.pack((1 << RANK) - 1));
        assert!(words.iter().all(|word| *word >= 0), "their opposites are told as well");
        let mut borders = Borders::new(0, 0);
        let hear = |borders: &mut Borders, told: [Border; 3]| {
            let words = (0..).zip(told).map(|(rank, border)| border.pack(rank));
            let words: Vec<i64> = words.collect();
            borders
                .hear(words.iter().copied().min().unwrap(), words.iter().copied().max().unwrap());
        };
        hear(&mut borders, [Border::Replay(5); 3]);
        assert_eq!(borders.difference, None);
        hear(&mut borders, [Border::Replay(5), Border::End(6), Border::Replay(5)]);
        let text = borders.difference.clone().unwrap();
        assert!(text.starts_with("process 1 has ended part 6, and process "), "{text}");
        hear(&mut borders, [Border::Finalize; 3]);
        assert!(borders.is_over && borders.difference == Some(text));
    }
}
