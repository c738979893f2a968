//! Schedules for adjoint computations: which states of a forward pass are stored, which are computed
//! again, and when, if only some of them fit.
//!
//! A sweep of `l` steps goes from state 0 to state `l`; the adjoint of step `i` needs state `i - 1`.
//! With `c` slots for states, one of which state 0 takes, [`binomial`] says what the least number of
//! repeated steps is, [`bound`] the same if no two stored states may be farther apart than a
//! resilience distance, and [`rule`] where the next state is stored. [`schedule`] makes actions of
//! that, one after the other, [`remaining`] says what they have left at any place without going through them,
//! `takeshots` how many states they store, [`stretches`] goes through those of them that one wants to see,
//! and [`resume`] goes on after a crash with the slots that are left.
//! After a planned stop there is a state more than slots (`planned_stop`).
//! [`online`] is for passes whose end is not known (`loss` says which state is given up, `online_leap` leaps in them), [`levels`] for slots in memory and on disk.
//! `adjoint_interval` says when the adjoint is stored (`visits` how much there is to look at for that), [`cost`], [`two_level_cost`], [`strategy`] and [`estimate`] what it costs,
//! and [`configured`] is all of it as applications have it, [`infeasible`] what is wrong with it, [`pack`] as bytes.
//!
//! Nothing here knows what a state is, where it is stored, or what time it is.
//!
//! Source: Walther, Narayanan, "Extending the binomial checkpointing technique for resilience", and
//! the works on revolve that it cites.

#![deny(clippy::disallowed_methods)]

mod adjoint_interval;
pub mod binomial;
pub mod bound;
pub mod configured;
mod convex;
pub mod cost;
pub mod disk;
pub mod error;
pub mod estimate;
pub mod infeasible;
pub mod levels;
mod loss;
pub mod online;
mod online_leap;
pub mod pack;
mod planned_stop;
pub mod remaining;
pub mod resume;
pub mod revolve;
pub mod rule;
pub mod schedule;
pub mod strategy;
pub mod stretches;
mod takeshots;
pub mod two_level_cost;
mod unpack;
mod visits;

#[cfg(test)]
mod brute_force;
