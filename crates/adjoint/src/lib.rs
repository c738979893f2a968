//! The sweeps of an adjoint computation, driven from beginning to end: a schedule
//! ([`adjoint`](schedule)) says what comes next, the application computes, and the
//! [`client`] keeps the states.
//!
//! | file | owns |
//! | --- | --- |
//! | [`settings`] | what is to be done, and whether it can be |
//! | `same_settings` | whether all processes were asked for the same |
//! | [`position`] | what stands with each state, so that a restart needs nothing but the store |
//! | [`store_contents`] | what the store has when a run starts, and what all processes have of it |
//! | `start` | what is protected and found when a run begins, all processes alike |
//! | `initial_state` | whether a restart has the state 0 of the job that it goes on from |
//! | [`run`] | action by action, to the end or to a stop |
//! | `storage` | what is stored and restored in between |
//! | [`adjoints`] | stored adjoints: which is the newest that all have, and which may go |
//! | [`replay`] | whether states that are computed again are what they were |
//! | `verify` | that comparison in a run |
//! | [`stored_hashes`] | the hashes of states, as they stand in the store |
//! | `stop` | a stop: what the next run needs goes to files |
//! | [`clock`] | when to look at the time, and whether to stop |
//! | `collective` | a run among the other processes, until all know that one has failed |
//! | [`progress_exchange`] | where the processes meet: to stop at the same step, to end together |
//! | [`message`] | what they tell each other there |
//!
//! A slot is a version of the checkpoints of the run's name, so that overwriting it is taking that
//! version again: at any moment the store has the old state or the new one, whole. Stored adjoints
//! are the versions of a second name, with ever higher numbers, and hashes those of a third.
//!
//! No lock is held while the application computes: the client is asked for ([`ClientAccess`]) call by call.

#![deny(clippy::disallowed_methods)]

pub mod adjoints;
pub mod clock;
pub mod message;
pub mod position;
pub mod progress_exchange;
pub mod replay;
pub mod run;
pub mod settings;
pub mod store_contents;
pub mod stored_hashes;

mod collective;
mod initial_state;
mod same_settings;
mod start;
mod stop;
mod storage;
mod verify;

use client::Client;
use os::error::{Error, Kind, Result};
use schedule::error as of_schedule;

/// A schedule's error as one of this library's.
pub fn schedule_error(error: of_schedule::Error) -> Error {
    let kind = match error.kind() {
        of_schedule::Kind::Invalid => Kind::Invalid,
        of_schedule::Kind::Missing => Kind::NotFound,
        of_schedule::Kind::Damaged => Kind::Corrupt,
    };
    Error::new(kind, error.to_string())
}

/// What the application does in a run. An error ends the run.
pub trait Problem {
    /// Protects the memory of the state and that of the adjoint under their names.
    fn protect(&mut self) -> Result<()>;

    /// Computes the states from `from`, which it has, to `to`.
    fn forward(&mut self, from: u64, to: u64) -> Result<()>;

    /// Computes step `step` from state `step - 1`, which it has, recording it, and takes the
    /// adjoint's step; before the last step of all it begins the adjoint.
    fn adjoint(&mut self, step: u64) -> Result<()>;

    /// A hash of the state that it has, which is this one. `None`: it leaves that to the library.
    fn hash(&mut self, state: u64) -> Result<Option<u64>>;
}

/// The way to the client, which is the application's between two uses.
pub trait ClientAccess {
    /// Has the client do something.
    ///
    /// # Errors
    /// That of `body`, or that there is no client.
    fn with<T>(&self, body: impl FnOnce(&mut Client) -> Result<T>) -> Result<T>;
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The adjoint has come to state 0.
    Finished,
    /// As it was asked to; the next run goes on.
    Stopped,
}
