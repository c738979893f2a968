//! Runs adjoint computations: a [`schedule`] says what comes next, the application computes, and the
//! [`client`] stores the states.
//!
//! | file | owns |
//! | --- | --- |
//! | [`settings`] | the settings of a run, and whether they are possible |
//! | `same_settings` | checks that all processes have the same settings |
//! | `position` | what is stored with each state, so that a restart needs nothing but the store |
//! | `store_contents` | what the store has when a run starts, and what all processes have in common |
//! | `start` | the start of a run |
//! | `initial_state` | checks that a restart has the state 0 of its run |
//! | [`run`] | executes the schedule's actions, to the end or to a stop |
//! | `storage` | stores and restores states, adjoints and hashes |
//! | `adjoints` | which stored adjoint is kept, and which are removed |
//! | `replay` | checks that recomputed states are the same as before |
//! | `verify` | applies that check in a run |
//! | `stored_hashes` | the hashes of states in the store |
//! | `stop` | stores what the next run needs |
//! | `clock` | when to check the time, and whether to stop |
//! | `collective` | a run with several processes, and their failures |
//! | `progress_exchange` | the periodic exchange between the processes |
//! | `message` | what is exchanged |
//!
//! A slot is a version of the run's name, so storing a state in a slot takes that version again: at any
//! moment the store has the old state or the new one. Stored adjoints are versions of a second name,
//! with ascending numbers, and hashes those of a third.
//!
//! No lock is held while the application computes: the client is accessed call by call
//! ([`ClientAccess`]).

#![deny(clippy::disallowed_methods)]

mod adjoints;
mod clock;
mod message;
mod position;
mod probe;
mod progress_exchange;
mod replay;
pub mod run;
pub mod settings;
mod store_contents;
mod stored_hashes;

mod collective;
mod initial_state;
mod same_settings;
mod start;
mod state_hash;
mod stop;
mod storage;
mod verify;

use client::Client;
use errors::{Error, ErrorKind, Result};
use schedule::error as of_schedule;

/// Converts a schedule's error.
pub fn schedule_error(error: of_schedule::Error) -> Error {
    let kind = match error.kind() {
        of_schedule::Kind::Invalid => ErrorKind::Invalid,
        of_schedule::Kind::Missing => ErrorKind::NotFound,
        of_schedule::Kind::Damaged => ErrorKind::Corrupt,
    };
    Error::new(kind, error.to_string())
}

/// The application's part of a run. An error ends the run.
pub trait Problem {
    /// Protects the memory of the state and of the adjoint under their names.
    fn protect(&mut self) -> Result<()>;

    /// Computes the states from `from`, which the application has, to `to`.
    fn forward(&mut self, from: u64, to: u64) -> Result<()>;

    /// Computes step `step` from state `step - 1`, which the application has, with recording, and
    /// reverses it. The first step to be reversed also initializes the adjoint.
    fn adjoint(&mut self, step: u64) -> Result<()>;

    /// A hash of the application's current state. `None`: the library hashes the protected memory.
    fn hash(&mut self, state: u64) -> Result<Option<u64>>;
}

/// Access to the client, which the application may use between two calls.
pub trait ClientAccess {
    /// Calls `body` with the client.
    ///
    /// # Errors
    /// The errors of `body`, or there is no client.
    fn with<T>(&self, body: impl FnOnce(&mut Client) -> Result<T>) -> Result<T>;
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// The adjoint has come to state 0.
    Finished,
    /// The run was stopped; the next run goes on.
    Stopped,
}
