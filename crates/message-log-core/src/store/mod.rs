//! The log in checkpoints, as bytes that are valid in any process.
//!
//! | file | owns |
//! | --- | --- |
//! | [`bytes`] | serialized numbers with a digest |
//! | [`chunks`] | chunks of the log as regions of their own |
//! | [`comms`] | communicators by the order of their creation |
//! | [`layout`] | types by their layout |
//! | [`targets`] | addresses by protected regions |
//! | [`settled`] | the state of messages that are sent again |
//! | [`progress`] | how far the parts are |
//! | [`pack`], [`unpack`] | the log and the open parts, serialized |

pub mod bytes;
pub mod chunks;
pub mod comms;
pub mod layout;
pub mod pack;
pub mod progress;
pub mod settled;
pub mod targets;
#[cfg(test)]
pub mod tests;
pub mod unpack;
