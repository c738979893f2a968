//! What tests of this program have in common.

pub(crate) mod software_device;
pub(crate) mod synthetic;
