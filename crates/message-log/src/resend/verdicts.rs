//! Which verdicts this process has heard, and which all have.
//!
//! A checkpoint waits for no verdict, so one process may be stored with a verdict that another is stored
//! without. What follows from a verdict must then be the same for both when they go on. So each report
//! says how many verdicts its process had heard, and the least of an exchange is *settled*: all processes
//! had heard so many before they ended the part of that exchange, and so in every checkpoint that lies
//! behind. Payloads are given up below it, and nowhere else.
//!
//! Processes that go on tell each other what is settled in what each has read. Messages below the
//! largest are sent again, as some process may have given them up, and everybody knows the verdict. All
//! others are read from the log, as nobody has given them up, and somebody may not know the verdict.
//! Nobody waits for that but a replay that depends on it.

/// The checkpoint that a process goes on from: all must go on from the same place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointOrigin {
    /// The run of the job that wrote it: the same number on all its processes.
    pub run: u64,
    /// How many beginnings and ends of parts whose messages may be sent again, and of their replays,
    /// lay before it.
    pub boundaries: u64,
    /// How many exchanges had begun.
    pub begun: u64,
}

/// What has been heard.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// Of this job, for the checkpoints that it writes.
    run: u64,
    /// The number of the next exchange.
    begun: u64,
    /// What becomes of the messages of so many is known, whatever happens.
    heard: u64,
    /// So many are known to be heard by all.
    settled: u64,
    /// What this process goes on from, until all have agreed on it.
    origin: Option<CheckpointOrigin>,
    /// The others are told of that.
    is_told: bool,
}

impl Verdicts {
    /// Of a job with this number.
    pub fn new(run: u64) -> Verdicts {
        Verdicts { run, ..Verdicts::default() }
    }

    /// The number of the exchange that begins now, the same on all processes.
    pub fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.begun - 1
    }

    /// How many have been heard: what the next report says.
    pub fn heard(&self) -> u64 {
        self.heard
    }

    /// How many all are known to have heard.
    pub fn settled(&self) -> u64 {
        self.settled
    }

    /// The verdict of an exchange is there. `least`: what its reports say that each process had heard, at
    /// the least; `None` if they do not belong together.
    pub fn record(&mut self, number: u64, least: Option<u64>) {
        self.heard = number + 1;
        self.settled = self.settled.max(least.unwrap_or(0));
    }

    /// What a checkpoint has of this, which is taken behind so many borders.
    pub fn origin(&self, boundaries: u64) -> CheckpointOrigin {
        CheckpointOrigin { run: self.run, boundaries, begun: self.begun }
    }

    /// This process goes on from a checkpoint in which so many verdicts were settled. Those that it had
    /// heard beyond may not hold.
    pub fn resume(&mut self, origin: CheckpointOrigin, settled: u64) {
        (self.begun, self.heard, self.settled) = (origin.begun, settled, settled);
        // Without an exchange there is nothing to agree on, for nobody.
        self.origin = Some(origin).filter(|origin| origin.begun > 0);
        self.is_told = false;
    }

    /// What the others have to be told before anything else, if they have not been: once.
    pub fn tell(&mut self) -> Option<CheckpointOrigin> {
        let origin = self.origin.filter(|_| !self.is_told)?;
        self.is_told = true;
        Some(origin)
    }

    /// Whether the others have been told what this process goes on from.
    pub fn is_told(&self) -> bool {
        self.is_told
    }

    /// Whether it is not agreed yet what becomes of messages of before.
    pub fn is_open(&self) -> bool {
        self.origin.is_some()
    }

    /// All processes go on from the same place. `settled`: the most that is settled for any of them;
    /// `None` if they do not.
    pub fn agree(&mut self, settled: Option<u64>) {
        let Some(origin) = self.origin.take() else { return };
        self.heard = origin.begun;
        self.settled = self.settled.max(settled.unwrap_or(0));
    }
}
