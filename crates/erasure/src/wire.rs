//! What the processes of a job say to each other, and how it goes over a connection: four bytes,
//! little-endian, with the length of a message, and the message. The bytes of a file follow the
//! reply that announces them.

use std::io::{ErrorKind, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::encoding::Member;
use format::checksum::Checksum;
use os::error::{Error, Kind, Result};

/// Changes with every change of the messages.
const PROTOCOL: u32 = 2;

/// The most bytes of a message: paths are the longest that is in one.
const LONGEST: usize = 16 << 10;

/// The most bytes of a file that are asked for at a time.
pub const LONGEST_READ: u32 = 1 << 20;

/// What lets a process in: told to the job's processes over MPI, and to nobody else.
pub type Token = [u8; 32];

/// Names a file that a process serves: by what it is of, and by its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileId {
    /// The checkpoint's name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// The digest of the bytes that can be read.
    pub digest: Checksum,
}

/// The bytes that a connection begins with, of one length, as they are read of strangers too: of which
/// protocol it is, the token of the process that is called, and who calls.
pub const GREETING: usize = 40;

/// The greeting of the process `from`.
pub fn greeting(token: &Token, from: u32) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    bytes[..4].copy_from_slice(&PROTOCOL.to_le_bytes());
    bytes[4..36].copy_from_slice(token);
    bytes[36..].copy_from_slice(&from.to_le_bytes());
    bytes
}

/// Who calls the process with this token; `None` for strangers.
pub fn verify_greeting(bytes: &[u8; GREETING], token: &Token) -> Option<u32> {
    let mut from = [0; 4];
    from.copy_from_slice(&bytes[36..]);
    let from = u32::from_le_bytes(from);
    // Compares without saying by its time how much was right.
    let expected = greeting(token, from);
    (bytes.iter().zip(&expected).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0).then_some(from)
}

/// What is said to a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The caller's file of this version is in scratch.
    Announced {
        /// The checkpoint's name.
        name: String,
        /// Its version.
        version: i32,
        /// The file.
        file: Member,
    },
    /// The caller has made its parities of a version, or cannot.
    Ended {
        /// The checkpoint's name.
        name: String,
        /// Its version.
        version: i32,
        /// Of which encoding ([`super::encoding::Encoding::id`]).
        id: Checksum,
    },
    /// A version is to be encoded.
    Decided {
        /// The checkpoint's name.
        name: String,
        /// Its version.
        version: i32,
    },
    /// No more versions will be decided on.
    DecidedAll,
    /// The caller announces no more files.
    Leaving,
    /// Asks for bytes of a file; answered by a [`Reply`].
    Read {
        /// Which.
        file: FileId,
        /// From where on.
        offset: u64,
        /// How many, at most [`LONGEST_READ`].
        len: u32,
    },
}

/// The answer to [`Message::Read`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// All of the bytes follow.
    Bytes,
    /// No bytes follow, and why.
    Refused(String),
}

/// A message with its length, for a connection.
///
/// # Errors
/// [`Kind::Internal`] if it is too long.
pub fn frame(message: &impl Serialize) -> Result<Vec<u8>> {
    let bytes = postcard::to_stdvec(message)
        .map_err(|error| Error::new(Kind::Internal, format!("a message: {error}")))?;
    if bytes.len() > LONGEST {
        return Err(Error::new(Kind::Internal, format!("a message of {} bytes", bytes.len())));
    }
    let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
    framed.extend(bytes);
    Ok(framed)
}

/// Sends a message.
///
/// # Errors
/// As [`frame`], and the system's.
pub fn send(mut to: impl Write, message: &impl Serialize) -> Result<()> {
    let framed = frame(message)?;
    to.write_all(&framed).map_err(|error| Error::system("sending", &error))
}

/// Receives a message. `None`: the other end has closed the connection between two messages.
///
/// # Errors
/// The system's; [`Kind::Corrupt`] if it is no message.
pub fn receive<T: DeserializeOwned>(mut from: impl Read) -> Result<Option<T>> {
    let failed = |error| Error::system("receiving", &error);
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    let len = u32::from_le_bytes(len) as usize;
    if len > LONGEST {
        return Err(Error::new(Kind::Corrupt, format!("a message of {len} bytes was announced")));
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes).map_err(failed)?;
    postcard::from_bytes(&bytes)
        .map(Some)
        .map_err(|error| Error::new(Kind::Corrupt, format!("a message cannot be read: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive() {
        let message = Message::Decided { name: "x".repeat(127), version: i32::MAX };
        let mut sent = Vec::new();
        send(&mut sent, &message).unwrap();
        send(&mut sent, &Message::Leaving).unwrap();
        let mut from = &sent[..];
        assert_eq!(receive::<Message>(&mut from).unwrap(), Some(message));
        assert_eq!(receive::<Message>(&mut from).unwrap(), Some(Message::Leaving));
        assert_eq!(receive::<Message>(&mut from).unwrap(), None);
    }

    #[test]
    fn greetings() {
        let token = [9; 32];
        let bytes = greeting(&token, 70_000);
        assert_eq!(verify_greeting(&bytes, &token), Some(70_000));
        for at in 0..36 {
            let mut other = bytes;
            other[at] ^= 1;
            assert_eq!(verify_greeting(&other, &token), None, "{at}");
        }
    }

    /// A length that nobody sends must cost no memory, and nonsense no panic.
    #[test]
    fn what_is_no_message() {
        for bytes in [&[255, 255, 255, 255, 0][..], &[1, 0, 0, 0, 99], &[9, 0, 0, 0, 1, 2]] {
            assert!(receive::<Message>(bytes).is_err(), "{bytes:?}");
        }
        assert!(frame(&Reply::Refused("x".repeat(LONGEST))).is_err());
    }
}
