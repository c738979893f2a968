//! Collective calls of one kind, of which every process of a communicator begins as many, however it
//! fares with them.

use std::collections::VecDeque;

use super::comm::Comm;
use super::pending::Pending;
use crate::error::Result;

/// What is found in a call.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// The least at each place.
    Least,
    /// What each process passes.
    Gathered,
}

/// Calls that nobody waits for, on a communicator of their own.
///
/// MPI matches the n-th call of a process with the n-th of the others. So a call that could not be
/// begun is not left out: another one takes its place as soon as one can be begun, in which this
/// process passes the values that say that it has given up. The others get their results, and learn of
/// it; this process takes none any more, as it cannot know which call of the others is whose.
#[derive(Debug)]
pub struct Series {
    comm: Comm,
    kind: Kind,
    given_up_values: Box<[i64]>,
    given_up: bool,
    pending: VecDeque<Pending>,
    /// Calls that were begun, or are owed.
    count: u64,
    /// Calls that the others wait for.
    owed: u64,
}

impl Series {
    /// Calls that find the least at each place, over a communicator that nothing else uses. With
    /// `given_up` a process says that it has given up.
    pub fn of_least(comm: Comm, given_up: &[i64]) -> Series {
        Series::new(comm, Kind::Least, given_up)
    }

    /// Calls that give every process what each passes, in the order of their numbers.
    pub fn of_all(comm: Comm, given_up: &[i64]) -> Series {
        Series::new(comm, Kind::Gathered, given_up)
    }

    fn new(comm: Comm, kind: Kind, given_up: &[i64]) -> Series {
        Series {
            comm,
            kind,
            given_up_values: given_up.into(),
            given_up: false,
            pending: VecDeque::new(),
            count: 0,
            owed: 0,
        }
    }

    /// Begins the next call. One that has given up passes that instead of `values`.
    ///
    /// # Errors
    /// MPI's: this process has given up by it. Reported once.
    pub fn begin(&mut self, values: &[i64]) -> Result<()> {
        self.count += 1;
        let begun = if self.given_up { None } else { Some(self.start(values)) };
        if let Some(Ok(pending)) = begun {
            self.pending.push_back(pending);
            return Ok(());
        }
        self.owed += 1;
        self.give_up();
        self.make_up();
        begun.map_or(Ok(()), |begun| begun.map(drop))
    }

    /// The oldest result that was not taken, once it is there; never one after this process has given
    /// up.
    ///
    /// # Errors
    /// MPI's: this process has given up by it.
    pub fn poll(&mut self) -> Result<Option<Box<[i64]>>> {
        self.take(Pending::poll)
    }

    /// The same, which waits for it. `None`: there is none to come.
    ///
    /// # Errors
    /// As [`Series::poll`].
    pub fn wait(&mut self) -> Result<Option<Box<[i64]>>> {
        self.take(Pending::wait)
    }

    fn take(
        &mut self,
        mut result: impl FnMut(&mut Pending) -> Result<Option<Box<[i64]>>>,
    ) -> Result<Option<Box<[i64]>>> {
        if self.given_up {
            self.make_up();
            self.let_go();
            return Ok(None);
        }
        let Some(first) = self.pending.front_mut() else { return Ok(None) };
        let found = result(first);
        if !matches!(found, Ok(None)) {
            self.pending.pop_front();
        }
        if found.is_err() {
            self.give_up();
        }
        found
    }

    /// From here on this process says that it has given up, and takes no results.
    pub fn give_up(&mut self) {
        self.given_up = true;
        self.let_go();
    }

    /// Begins the calls that are owed, as far as MPI lets it.
    fn make_up(&mut self) {
        while self.owed > 0 {
            let values = std::mem::take(&mut self.given_up_values);
            let begun = self.start(&values);
            self.given_up_values = values;
            let Ok(pending) = begun else { return };
            self.pending.push_back(pending);
            self.owed -= 1;
        }
    }

    /// Has MPI free what is done and of no interest.
    fn let_go(&mut self) {
        self.pending.retain_mut(|pending| matches!(pending.poll(), Ok(None)));
    }

    fn start(&self, values: &[i64]) -> Result<Pending> {
        match self.kind {
            Kind::Least => self.comm.begin_least(values),
            Kind::Gathered => self.comm.begin_gather(values),
        }
    }

    /// How many calls have been begun here, or are owed.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether a result is still to come.
    pub fn is_waiting(&self) -> bool {
        !self.given_up && !self.pending.is_empty()
    }

    /// Whether this process takes its results, and has begun all of its calls.
    pub fn is_whole(&self) -> bool {
        !self.given_up && self.owed == 0
    }

    /// Frees the communicator. Collective.
    ///
    /// # Errors
    /// MPI's.
    pub fn free(self) -> Result<()> {
        self.comm.free()
    }
}
