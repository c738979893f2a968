//! The exchange of reports on a part. Each process sends its report at the part's end, without waiting; only
//! the replay of the part needs the reports of the others.
//!
//! A replay can wait for them without a deadlock: all reports come from first runs, no first run waits for a
//! replay or for anything after it, and a process in `MPI_Finalize` announces that it has no more reports.
//! Nothing else waits for them.
//!
//! Before each report, every process sends one word: whether it has a report. So if all processes are in
//! `MPI_Finalize`, they exchange one word only.

use std::ffi::c_int;
use std::time::{Duration, Instant};

use message_log_core::resend::report::{words, ProcessReport, Subject};
use message_log_core::status::SUCCESS;

use crate::mpi::MpiProperties;
use crate::pmpi;
use crate::refuse;

/// A wait for other processes is reported after this time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);

/// How the processes communicate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channel {
    /// A communicator of all processes, for this library only.
    pub comm: usize,
    /// The number of processes.
    pub processes: usize,
    /// The number of entries that fit in a report.
    pub room: usize,
}

/// A non-blocking collective call.
#[derive(Debug)]
struct Pending {
    request: usize,
    /// Whether MPI failed.
    has_failed: bool,
}

impl Pending {
    /// The request of a call that returned `code` and wrote its request to `request`.
    ///
    /// # Safety
    /// The call has written a request if it succeeded.
    unsafe fn new(mpi: &MpiProperties, code: c_int, request: &mut usize) -> Pending {
        let has_failed = code != SUCCESS;
        let request = match has_failed {
            true => mpi.request_null,
            // SAFETY: by the caller's promise.
            false => unsafe { mpi.read_handle((request as *mut usize).cast()) },
        };
        Pending { request, has_failed }
    }

    fn is_done(&mut self, mpi: &MpiProperties) -> bool {
        let (mut request, mut flag) = (0usize, 0);
        let at = (&raw mut request).cast();
        // SAFETY: a request of ours, or the null request; the buffer is as wide as any handle.
        unsafe {
            mpi.write_handle(at, self.request);
            let code = pmpi::test(at, &mut flag, mpi.numbers.status_ignore as pmpi::Ptr);
            self.request = mpi.read_handle(at);
            self.has_failed |= code != SUCCESS;
        }
        flag != 0 || self.has_failed
    }
}

/// The minimum over all processes of each of `N` numbers.
#[derive(Debug)]
pub(crate) struct Minimum<const N: usize = 1> {
    /// The send and the receive buffer.
    words: Box<[[i64; N]; 2]>,
    pending: Pending,
}

impl<const N: usize> Minimum<N> {
    /// Starts the reduction of this process's numbers. Collective, but does not wait.
    pub(crate) fn begin(mpi: &MpiProperties, comm: usize, own: [i64; N]) -> Minimum<N> {
        let mut words = Box::new([own, [0; N]]);
        let mut request = 0usize;
        let [from, to] = &mut *words;
        let (from, to) = (from.as_mut_ptr().cast(), to.as_mut_ptr().cast());
        // SAFETY: the buffers live on the heap until the request has completed, and do not move; the
        // request's buffer is as wide as any handle.
        let pending = unsafe {
            let at = (&raw mut request).cast();
            let code = pmpi::iallreduce(from, to, N as c_int, mpi.int64, mpi.min, comm, at);
            Pending::new(mpi, code, &mut request)
        };
        Minimum { words, pending }
    }

    /// Whether the result is known, or MPI has failed.
    pub(crate) fn is_done(&mut self, mpi: &MpiProperties) -> bool {
        self.pending.is_done(mpi)
    }

    /// The minima, after [`is_done`](Self::is_done). `None` if MPI has failed.
    pub(crate) fn result(&self) -> Option<[i64; N]> {
        (!self.pending.has_failed).then_some(self.words[1])
    }

    /// Waits for the minima. `None` if MPI has failed.
    pub(crate) fn wait(mut self, mpi: &MpiProperties) -> Option<[i64; N]> {
        while !self.is_done(mpi) {
            std::thread::yield_now();
        }
        self.result()
    }
}

/// The word before each report: the process has a report, or it has no more.
const REPORT: i64 = -1;
const NO_REPORT: i64 = 0;

/// An exchange of reports, some of which may be missing yet.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The number of the part's instance.
    pub instance: u64,
    /// The subject of this process's report.
    pub of: Subject,
    /// The exchange's number, the same on all processes.
    pub number: u64,
    /// The send buffer, which must stay until the exchange has completed.
    _own: Vec<u64>,
    all: Vec<u64>,
    /// The word before the report. Its value is not needed, as this process has a report.
    has_report: Option<Minimum>,
    pending: Pending,
}

impl Exchange {
    /// Sends this process's report of an instance of a part. Collective, but does not wait.
    pub(crate) fn begin(
        mpi: &MpiProperties,
        channel: &Channel,
        report: &ProcessReport,
        of: Subject,
        (instance, number): (u64, u64),
    ) -> Exchange {
        let has_report = Minimum::begin(mpi, channel.comm, [REPORT]);
        let exchange = Exchange::gather(mpi, channel, report, of, (instance, number));
        Exchange { has_report: Some(has_report), ..exchange }
    }

    /// Announces that this process has no more reports. Waits until all processes have done so, or one has a
    /// report; then an empty one takes part in its exchange.
    pub(crate) fn end(mpi: &MpiProperties, channel: &Channel) -> Option<Exchange> {
        let nothing = ProcessReport::default();
        let least = Minimum::begin(mpi, channel.comm, [NO_REPORT]).wait(mpi);
        (least == Some([REPORT])).then(|| {
            Exchange::gather(mpi, channel, &nothing, Subject::Nothing, (u64::MAX, u64::MAX))
        })
    }

    fn gather(
        mpi: &MpiProperties,
        channel: &Channel,
        report: &ProcessReport,
        of: Subject,
        (instance, number): (u64, u64),
    ) -> Exchange {
        let mut own = report.pack(of, channel.room);
        let mut all = vec![0u64; words(channel.room) * channel.processes];
        let bytes = size_of_val(own.as_slice()) as c_int;
        let mut request = 0usize;
        // SAFETY: both buffers live on the heap, in the exchange, until the request has completed, and do not
        // move; the request's buffer is as wide as any handle.
        let pending = unsafe {
            let (from, to) = (own.as_mut_ptr().cast(), all.as_mut_ptr().cast());
            let at = (&raw mut request).cast();
            let (comm, byte) = (channel.comm, mpi.byte);
            let code = pmpi::iallgather(from, bytes, byte, to, bytes, byte, comm, at);
            Pending::new(mpi, code, &mut request)
        };
        Exchange { instance, of, number, _own: own, all, has_report: None, pending }
    }

    /// Whether all reports are there, or MPI has failed.
    pub(crate) fn is_done(&mut self, mpi: &MpiProperties) -> bool {
        let is_announced = self.has_report.as_mut().is_none_or(|word| word.is_done(mpi));
        // Both are tested, as MPI may make progress on a request only when it is tested.
        is_announced && self.pending.is_done(mpi)
    }

    /// Waits until all reports are there, or MPI has failed, or `must_stop`. Prints a message after a long
    /// wait, if `warns`. Returns whether the reports are there.
    pub(crate) fn wait(
        &mut self,
        mpi: &MpiProperties,
        mut warns: bool,
        mut must_stop: impl FnMut() -> bool,
    ) -> bool {
        let since = Instant::now();
        while !self.is_done(mpi) {
            if must_stop() {
                return false;
            }
            if warns && since.elapsed() > PATIENCE {
                warns = false;
                let of = self.of;
                let text = format!("this process {of}: waiting for the others to do so as well");
                refuse::warn(mpi, &format!("{text} (VELOC_PART_RESEND)"));
            }
            std::thread::yield_now();
        }
        true
    }

    /// The reports, which are there, and their subjects.
    ///
    /// # Errors
    /// MPI has failed.
    pub(crate) fn reports(&self, room: usize) -> Result<Vec<(ProcessReport, Subject)>, String> {
        if self.pending.has_failed {
            return Err("MPI failed to exchange the counts of messages (VELOC_PART_RESEND)".into());
        }
        Ok(self.all.chunks_exact(words(room)).map(ProcessReport::unpack).collect())
    }
}
