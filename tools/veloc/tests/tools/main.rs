//! The tools as their users run them, on files made by hand from the description of upstream's
//! formats.

// A test that cannot go on should end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod doctor;
mod files;
mod inspect;
mod library;
mod list;
mod programs;
mod schedule;
mod sync;
mod top;
mod verify;
