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
//! | [`groups`] | which processes make a group |
//! | [`membership`] | what all processes know of each, and each one's place |
//! | [`progress`] | which version is encoded when |
//! | [`wire`] | the messages between processes |
//! | [`peer`], [`server`] | the calling and the called end of a connection |
//! | [`offers`] | the files that a process serves |
//! | [`remote`] | the pieces of an encoding, wherever they are |
//! | [`digest_votes`] | what parity files say the files of a version are |
//! | [`survey`] | what is left of a version, and who has to rebuild what |
//! | [`node`] | one process, with all of this |

#![deny(clippy::disallowed_methods)]

pub mod code;
pub mod digest_votes;
pub mod encoding;
pub mod groups;
pub mod layout;
pub mod membership;
pub mod node;
pub mod parity;
pub mod peer;
pub mod progress;
pub mod remote_pieces;
pub mod served;
pub mod server;
pub mod stream;
pub mod survey;
pub mod wire;

#[cfg(test)]
mod tests;
