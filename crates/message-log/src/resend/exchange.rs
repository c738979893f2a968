//! The reports of all processes on a part. Each tells everybody at its end of the part and goes on;
//! only the replay of the part needs the reports of the others.
//!
//! To wait for them then is safe: all of them come from first runs, no first run waits for a replay
//! or for what comes after it, and a process that has come to its `MPI_Finalize` reports that it has
//! no more to tell. Nothing else waits for them.
//!
//! Each report is preceded by one word of every process, whether it has one. So processes that have
//! all come to `MPI_Finalize` tell each other no more than that.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use super::report::{words, Report, Subject};
use crate::calls::SUCCESS;
use crate::mpi::Mpi;
use crate::pmpi;
use crate::refuse;

/// After so long a wait for others is said.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// The processes, and how they tell each other something.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
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

/// The least of each of `N` numbers that each process tells.
#[derive(Debug)]
pub(crate) struct Least<const N: usize = 1> {
    /// What is sent and what is received.
    words: Box<[[i64; N]; 2]>,
    pending: Pending,
}

impl<const N: usize> Least<N> {
    /// Tells this process's numbers. Collective, but waits for nobody.
    pub(crate) fn begin(mpi: &Mpi, comm: usize, own: [i64; N]) -> Least<N> {
        let mut words = Box::new([own, [0; N]]);
        let mut request = 0usize;
        let [from, to] = &mut *words;
        let (from, to) = (from.as_mut_ptr().cast(), to.as_mut_ptr().cast());
        // SAFETY: all words live until the request is done, on the heap, where they do not move; room
        // for the widest handle.
        let pending = unsafe {
            let at = (&raw mut request).cast();
            let code = pmpi::iallreduce(from, to, N as c_int, mpi.int64, mpi.min, comm, at);
            Pending::new(mpi, code, &mut request)
        };
        Least { words, pending }
    }

    /// Whether those of all are there, or cannot come.
    pub(crate) fn is_done(&mut self, mpi: &Mpi) -> bool {
        self.pending.is_done(mpi)
    }

    /// The least, which are there. `None` if MPI could not tell them.
    pub(crate) fn result(&self) -> Option<[i64; N]> {
        (!self.pending.has_failed).then_some(self.words[1])
    }

    /// Waits for those of all. `None` if MPI could not tell them.
    pub(crate) fn wait(mut self, mpi: &Mpi) -> Option<[i64; N]> {
        while !self.is_done(mpi) {
            std::thread::yield_now();
        }
        self.result()
    }
}

/// What a process tells before each report: that it has one, or that it has none.
const REPORT: i64 = -1;
const NO_REPORT: i64 = 0;

/// A part of which not all reports are known to be there.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The number of its instance.
    pub instance: u64,
    /// What this process's report is of.
    pub of: Subject,
    /// Counts exchanges, the same on all processes.
    pub number: u64,
    /// What is sent has to stay until all is received.
    _own: Vec<u64>,
    all: Vec<u64>,
    /// Nobody looks at it, as this process has a report.
    news: Option<Least>,
    pending: Pending,
}

impl Exchange {
    /// Tells this process's report of an instance of a part. Collective, but waits for nobody.
    pub(crate) fn begin(
        mpi: &Mpi,
        channel: &Channel,
        report: &Report,
        of: Subject,
        (instance, number): (u64, u64),
    ) -> Exchange {
        let news = Least::begin(mpi, channel.comm, [REPORT]);
        let exchange = Exchange::gather(mpi, channel, report, of, (instance, number));
        Exchange { news: Some(news), ..exchange }
    }

    /// Tells that this process has no more reports. Waits until all processes have come to the same
    /// or have one to tell; then they get this one's.
    pub(crate) fn end(mpi: &Mpi, channel: &Channel) -> Option<Exchange> {
        let nothing = Report::default();
        let least = Least::begin(mpi, channel.comm, [NO_REPORT]).wait(mpi);
        (least == Some([REPORT])).then(|| {
            Exchange::gather(mpi, channel, &nothing, Subject::Nothing, (u64::MAX, u64::MAX))
        })
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
    pub(crate) fn is_done(&mut self, mpi: &Mpi) -> bool {
        let has_news = self.news.as_mut().is_none_or(|news| news.is_done(mpi));
        // They are made in this order, and MPI may go on with each only when it is asked for.
        has_news && self.pending.is_done(mpi)
    }

    /// Waits until all reports are there, or cannot come; or until `is_in_vain`. If that takes long, it is
    /// said, if anybody is to be told. Whether they are there.
    pub(crate) fn wait(
        &mut self,
        mpi: &Mpi,
        mut is_said: bool,
        mut is_in_vain: impl FnMut() -> bool,
    ) -> bool {
        let since = Instant::now();
        while !self.is_done(mpi) {
            if is_in_vain() {
                return false;
            }
            if is_said && since.elapsed() > PATIENCE {
                is_said = false;
                let of = self.of;
                let text = format!("this process {of}: waiting for the others to do so as well");
                refuse::say(mpi, &format!("{text} (VELOC_PART_RESEND)"));
            }
            std::thread::yield_now();
        }
        true
    }

    /// The reports, which are there, and what they are of.
    ///
    /// # Errors
    /// MPI could not tell them.
    pub(crate) fn reports(&self, room: usize) -> Result<Vec<(Report, Subject)>, String> {
        if self.pending.has_failed {
            return Err("MPI could not tell the counts of messages (VELOC_PART_RESEND)".into());
        }
        Ok(self.all.chunks_exact(words(room)).map(Report::unpack).collect())
    }
}
