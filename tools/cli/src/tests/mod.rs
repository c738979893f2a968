//! Helpers of the tests of this program.

pub(crate) mod software_device;
pub(crate) mod synthetic;
