//! Tracks which verdicts this process knows, and which all processes know.
//!
//! A checkpoint waits for no verdict, so the checkpoint of one process may have a verdict that another's
//! lacks. Both must draw the same conclusions after a restart. So each report contains the number of
//! verdicts that its process knew, and the minimum over an exchange is *settled*: all processes knew
//! these verdicts before they ended the part of that exchange, and so in every later checkpoint.
//! Payloads are only dropped below that number.
//!
//! Restarted processes exchange the settled numbers of their checkpoints. Messages below the maximum are
//! sent again, as some process may have dropped them and all know the verdict. Other messages are read
//! from the log, as nobody has dropped them and somebody may not know the verdict. Only a replay that
//! depends on it waits for this exchange.

/// The checkpoint that a process restarts from; all must use the same one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointOrigin {
    /// The number of the run that wrote it, the same on all its processes.
    pub run: u64,
    /// The number of beginnings and ends of parts whose messages may be sent again, and of their
    /// replays, before it.
    pub boundaries: u64,
    /// The number of exchanges begun.
    pub begun: u64,
}

/// The verdicts that are known.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// The number of this run, for its checkpoints.
    run: u64,
    /// The number of the next exchange.
    begun: u64,
    /// The number of verdicts that are known here.
    known: u64,
    /// The number of verdicts that all are known to know.
    settled: u64,
    /// The checkpoint of the restart, until all have agreed on it.
    origin: Option<CheckpointOrigin>,
    /// Whether it was sent to the others.
    is_reported: bool,
}

impl Verdicts {
    /// For a run with this number.
    pub fn new(run: u64) -> Verdicts {
        Verdicts { run, ..Verdicts::default() }
    }

    /// The number of the exchange that begins now, the same on all processes.
    pub fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun - 1
    }

    /// The number of verdicts that this process knows, for the next report.
    pub fn known(&self) -> u64 {
        self.known
    }

    /// How many verdicts all processes know.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// Records the verdict of an exchange. `least`: the minimum of the reported numbers; `None` if the
    /// reports do not match.
    pub fn record(&mut self, number: u64, least: Option<u64>) {
        self.known = number + 1;
        self.settled = self.settled.max(least.unwrap_or(0));
    }

    /// The state for a checkpoint after this many boundaries.
    pub fn origin(&self, boundaries: u64) -> CheckpointOrigin {
        CheckpointOrigin { run: self.run, boundaries, begun: self.begun }
    }

    /// Restarts from a checkpoint in which this many verdicts were settled. Later ones may not be valid.
    pub fn resume(&mut self, origin: CheckpointOrigin, settled: u64) {
        (self.begun, self.known, self.settled) = (origin.begun, settled, settled);
        // Without an exchange there is nothing to agree on.
        self.origin = Some(origin).filter(|origin| origin.begun > 0);
        self.is_reported = false;
    }

    /// The origin to report first after a restart, returned once.
    pub fn take_origin(&mut self) -> Option<CheckpointOrigin> {
        let origin = self.origin.filter(|_| !self.is_reported)?;
        self.is_reported = true;
        Some(origin)
    }

    /// Whether this process's restart was reported.
    pub fn is_reported(&self) -> bool {
        self.is_reported
    }

    /// Whether it is still undecided which messages from before the restart are sent again.
    pub fn is_open(&self) -> bool {
        self.origin.is_some()
    }

    /// The processes have compared their checkpoints. `settled`: the maximum of their numbers; `None` if they
    /// restart from different ones.
    pub fn agree(&mut self, settled: Option<u64>) {
        let Some(origin) = self.origin.take() else { return };
        self.known = origin.begun;
        self.settled = self.settled.max(settled.unwrap_or(0));
    }
}
