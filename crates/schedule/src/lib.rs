//! Schedules for adjoint computations: which states of a forward pass are stored, which are computed
//! again, and when, if only some of them fit.
//!
//! A sweep of `l` steps goes from state 0 to state `l`; the adjoint of step `i` needs state `i - 1`.
//! With `c` slots for states, one of which state 0 takes, [`binomial`] says what the least number of
//! repeated steps is, [`bound`] the same if no two stored states may be farther apart than a
//! resilience distance, and [`rule`] where the next state is stored. [`schedule`] makes actions of
//! that, one after the other, [`leap`] says what they have left at any place without going through them,
//! [`shots`] how many states they store, [`stretches`] goes through those of them that one wants to see,
//! and [`resume`] goes on after a crash with the slots that are left.
//! After a planned stop there is a state more than slots (`carry`).
//! [`online`] is for passes whose end is not known (`loss` says which state is given up, `pass` leaps in them), [`levels`] for slots in memory and on disk.
//! [`upkeep`] says when the adjoint is stored (`looks` how much there is to look at for that), [`outlook`], [`sums`], [`strategy`] and [`estimate`] what it costs,
//! and [`course`] is all of it as applications have it, [`refusal`] what is wrong with it, [`pack`] as bytes.
//!
//! Nothing here knows what a state is, where it is stored, or what time it is.
//!
//! Source: Walther, Narayanan, "Extending the binomial checkpointing technique for resilience", and
//! the works on revolve that it cites.

#![deny(clippy::disallowed_methods)]

pub mod binomial;
pub mod bound;
mod carry;
mod convex;
pub mod course;
pub mod disk;
pub mod error;
pub mod estimate;
pub mod leap;
pub mod levels;
mod looks;
mod loss;
pub mod online;
pub mod outlook;
pub mod pack;
mod pass;
pub mod refusal;
pub mod resume;
pub mod revolve;
pub mod rule;
pub mod schedule;
pub mod shots;
pub mod strategy;
pub mod stretches;
pub mod sums;
pub mod unpack;
pub mod upkeep;

#[cfg(test)]
mod oracle;
