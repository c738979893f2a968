//! Schedules for adjoint computations: which states of a forward pass are stored, which are computed
//! again, and when, if only some of them fit.
//!
//! A sweep of `l` steps goes from state 0 to state `l`; the adjoint of step `i` needs state `i - 1`. State 0
//! takes one of the slots for states.
//!
//! - [`binomial`] computes the least number of repeated steps, [`bound`] the same if no two stored states may
//!   be farther apart than a resilience distance; [`rule`] chooses where the next state is stored.
//! - [`schedule`] turns that into actions, one after the other. Without going through them, [`remaining`]
//!   computes its position at any place, `takeshots` how many states it stores, and [`stretches`] visits
//!   selected parts.
//! - [`resume`] continues after a crash with the states that are left, `planned_stop` after a planned stop,
//!   when there is one state more than slots.
//! - [`online`] is for passes whose end is not known (`loss` chooses the state to give up, `online_leap`
//!   skips states that need no decision), [`levels`] for slots in memory and on disk.
//! - [`mixed`] is for slots that have a state or the record of a step.
//! - `adjoint_interval` decides when the adjoint is stored (`visits` estimates how long it takes to find that
//!   out); [`cost`], [`two_level_cost`], [`strategy`] and [`estimate`] compute what a schedule costs.
//! - [`configured`] is the interface for applications, [`infeasible`] says why a schedule is refused, and
//!   [`pack`] writes a schedule as bytes.
//!
//! Nothing here knows what a state is, where it is stored, or what time it is.
//!
//! Source: Walther, Narayanan, "Extending the binomial checkpointing technique for resilience", and
//! the works on revolve that it cites.

#![deny(clippy::disallowed_methods)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
pub mod mixed;
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
#[cfg(test)]
mod read_again_tests;
