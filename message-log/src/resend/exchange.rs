//! The reports of all processes on a part. Each tells everybody at its end of the part and goes on;
//! only the replay of the part needs the reports of the others.
//!
//! To wait for them then is safe: all of them come from first runs, no first run waits for a replay
//! or for what comes after it, and a process that has come to its `MPI_Finalize` reports that it has
//! no more to tell. A checkpoint with the log waits for them, too, so that what is stored means the same
//! to all processes. That is safe behind parts that are right-tight.
//!
//! Each report is preceded by one word of every process, whether it has one. So processes that have
//! all come to `MPI_Finalize` tell each other no more than that.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::report::{words, Report, Subject};
use super::survey::{Survey, Verdict};
use crate::inside::SUCCESS;
use crate::mpi::Mpi;
use crate::pmpi;
use crate::refuse;

/// After so long a wait for others is said.
const PATIENCE: Duration = Duration::from_secs(5);

/// What waits for the reports of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiter {
    /// A replay, which may run any part of those that have ended.
    Replay,
    /// A checkpoint. It is no part of a first run that others do not wait for: what one waits for in
    /// its part may lie behind the checkpoint.
    Checkpoint,
}

impl Waiter {
    /// What is said of it, behind what this process has done.
    fn text(self) -> &'static str {
        match self {
            Waiter::Replay => "waiting for the others to have ended it as well (VELOC_PART_RESEND)",
            Waiter::Checkpoint => {
                "its checkpoint waits for the others to have ended it as well (VELOC_PART_RESEND); \
                 for ever, if one of them waits in it for what comes behind the checkpoint"
            }
        }
    }
}

/// The processes, and how they tell each other something.
#[derive(Clone, Copy, Debug)]
pub struct Channel {
    /// A communicator of all processes for this library alone.
    pub comm: usize,
    /// How many processes.
    pub processes: usize,
    /// How many entries a report has room for.
    pub room: usize,
}

/// A call that every process takes part in, without waiting for the others.
#[derive(Debug)]
struct Pending {
    request: usize,
    /// MPI could not do it.
    has_failed: bool,
}

impl Pending {
    /// What a call has begun that returned `code` and wrote its request there.
    ///
    /// # Safety
    /// It has written one if it has succeeded.
    unsafe fn new(mpi: &Mpi, code: c_int, request: &mut usize) -> Pending {
        let has_failed = code != SUCCESS;
        let request = match has_failed {
            true => mpi.request_null,
            // SAFETY: by the caller's promise.
            false => unsafe { mpi.read_handle((request as *mut usize).cast()) },
        };
        Pending { request, has_failed }
    }

    fn is_done(&mut self, mpi: &Mpi) -> bool {
        let (mut request, mut flag) = (0usize, 0);
        let at = (&raw mut request).cast();
        // SAFETY: a request of ours, or none any more; room for the widest handle.
        unsafe {
            mpi.write_handle(at, self.request);
            let code = pmpi::test(at, &mut flag, mpi.numbers.status_ignore as pmpi::Ptr);
            self.request = mpi.read_handle(at);
            self.has_failed |= code != SUCCESS;
        }
        flag != 0 || self.has_failed
    }
}

/// One word of each process: whether it has a report.
#[derive(Debug)]
struct News {
    /// What is sent and what is received: 0, or -1 for a report.
    words: Box<[i64; 2]>,
    pending: Pending,
}

impl News {
    fn begin(mpi: &Mpi, channel: &Channel, has_report: bool) -> News {
        let mut words = Box::new([-i64::from(has_report), 0]);
        let mut request = 0usize;
        let [from, to] = &mut *words;
        let (from, to) = ((from as *mut i64).cast(), (to as *mut i64).cast());
        // SAFETY: both words live until the request is done, on the heap, where they do not move; room
        // for the widest handle.
        let pending = unsafe {
            let at = (&raw mut request).cast();
            let code = pmpi::iallreduce(from, to, 1, mpi.int64, mpi.min, channel.comm, at);
            Pending::new(mpi, code, &mut request)
        };
        News { words, pending }
    }

    /// Whether some process has a report, when that is known of all.
    fn wait(mut self, mpi: &Mpi) -> bool {
        while !self.pending.is_done(mpi) {
            std::thread::yield_now();
        }
        !self.pending.has_failed && self.words[1] != 0
    }
}

/// A part of which not all reports are known to be there.
#[derive(Debug)]
pub struct Exchange {
    /// The number of its instance.
    pub instance: u64,
    of: Subject,
    /// Counts exchanges, the same on all processes.
    pub number: u64,
    /// What is sent has to stay until all is received.
    _own: Vec<u64>,
    all: Vec<u64>,
    /// Nobody looks at it, as this process has a report.
    news: Option<News>,
    pending: Pending,
}

impl Exchange {
    /// Tells this process's report of an instance of a part. Collective, but waits for nobody.
    pub fn begin(
        mpi: &Mpi,
        channel: &Channel,
        report: &Report,
        of: Subject,
        (instance, number): (u64, u64),
    ) -> Exchange {
        let news = News::begin(mpi, channel, true);
        let exchange = Exchange::gather(mpi, channel, report, of, (instance, number));
        Exchange { news: Some(news), ..exchange }
    }

    /// Tells that this process has no more reports. Waits until all processes have come to the same
    /// or have one to tell; then they get this one's.
    pub fn end(mpi: &Mpi, channel: &Channel, number: u64) -> Option<Exchange> {
        let nothing = Report::default();
        let has_more = News::begin(mpi, channel, false).wait(mpi);
        has_more
            .then(|| Exchange::gather(mpi, channel, &nothing, Subject::Nothing, (u64::MAX, number)))
    }

    fn gather(
        mpi: &Mpi,
        channel: &Channel,
        report: &Report,
        of: Subject,
        (instance, number): (u64, u64),
    ) -> Exchange {
        let mut own = report.pack(of, channel.room);
        let mut all = vec![0u64; words(channel.room) * channel.processes];
        let bytes = size_of_val(own.as_slice()) as c_int;
        let mut request = 0usize;
        // SAFETY: both buffers live in the exchange until the request is done, on the heap, where
        // they do not move; room for the widest handle.
        let pending = unsafe {
            let (from, to) = (own.as_mut_ptr().cast(), all.as_mut_ptr().cast());
            let at = (&raw mut request).cast();
            let (comm, byte) = (channel.comm, mpi.byte);
            let code = pmpi::iallgather(from, bytes, byte, to, bytes, byte, comm, at);
            Pending::new(mpi, code, &mut request)
        };
        Exchange { instance, of, number, _own: own, all, news: None, pending }
    }

    /// Whether all reports are there, or cannot come.
    pub fn is_done(&mut self, mpi: &Mpi) -> bool {
        let has_news = self.news.as_mut().is_none_or(|news| news.pending.is_done(mpi));
        // They are made in this order, and MPI may go on with each only when it is asked for.
        has_news && self.pending.is_done(mpi)
    }

    /// Waits until all reports are there, or cannot come. If that takes long, says who waits, if
    /// anybody is to be told of.
    pub fn wait(&mut self, mpi: &Mpi, mut waiter: Option<Waiter>) {
        let since = Instant::now();
        while !self.is_done(mpi) {
            if let Some(waiter) = waiter.take_if(|_| since.elapsed() > PATIENCE) {
                refuse::say(mpi, &format!("this process {}: {}", self.of, waiter.text()));
            }
            std::thread::yield_now();
        }
    }

    /// What follows from the reports. They are there.
    pub fn judge(&self, survey: &mut Survey, room: usize) -> Verdict {
        if self.pending.has_failed {
            let text = "MPI could not tell the counts of messages (VELOC_PART_RESEND)";
            return Verdict::Misused(text.into());
        }
        let reports: Vec<_> = self.all.chunks_exact(words(room)).map(Report::unpack).collect();
        survey.judge(&reports)
    }
}
