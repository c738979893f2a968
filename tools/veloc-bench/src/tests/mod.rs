//! Helpers of the tests of this program.

pub(crate) mod synthetic;
