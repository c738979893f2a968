//! Erasure coding: each member of a group of processes keeps parities of the others' scratch files, so
//! that the files of lost scratch directories can be rebuilt.
//!
//! | file | owns |
//! | --- | --- |
//! | `code` | computes parities from blocks, and blocks from parities |
//! | [`layout`] | which bytes of which member are in which stripe |
//! | [`encoding`] | what one encoding covers: members, lengths, digests |
//! | [`parity`] | parity files: header, payload, reading and verifying |
//! | [`stream`] | computes a parity payload, or rebuilds a lost file, from the members' pieces |
//! | `groups` | forms the groups |
//! | [`membership`] | what all processes know of each other: groups, leaders |
//! | [`progress`] | which version is encoded when |
//! | [`wire`] | the messages between processes |
//! | [`peer`], `server` | the client and the server end of a connection |
//! | [`served`] | the files that a process serves |
//! | [`remote_pieces`] | reads the pieces of an encoding from their processes |
//! | [`digest_votes`] | decides by vote of the parity files which files are right |
//! | [`survey`] | what is left of a version, and who must rebuild what |
//! | [`node`] | one process, using all of these |

#![deny(clippy::disallowed_methods)]

mod code;
pub mod digest_votes;
pub mod encoding;
mod groups;
pub mod layout;
pub mod membership;
pub mod node;
pub mod parity;
pub mod peer;
pub mod progress;
pub mod remote_pieces;
pub mod served;
mod server;
pub mod stream;
pub mod survey;
pub mod wire;

#[cfg(test)]
mod tests;
