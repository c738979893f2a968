//! Erasure coding: parities of the scratch files of a group of processes, kept by the others of the
//! group, so that files of scratch directories that are lost can be made again.
//!
//! | file | owns |
//! | --- | --- |
//! | [`code`] | the parities of blocks, and blocks from parities |
//! | [`layout`] | which bytes of which member stand in which stripe |
//! | [`encoding`] | what one encoding covers: members, lengths, digests |
//! | [`parity`] | a parity file: its header, its payload, reading and checking it |
//! | [`stream`] | a whole parity payload, or a whole lost file, from pieces of the members |

pub mod code;
pub mod encoding;
pub mod layout;
pub mod parity;
pub mod stream;

#[cfg(test)]
mod tests;
