//! The messages between the processes of a job. On a connection, each is preceded by its length in four
//! bytes, little-endian. The bytes of a file follow the reply that announces them.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::encoding::Member;
use errors::{Error, ErrorKind, Result};
use format::checksum::Checksum;

/// The version of the protocol: it changes with every change of the messages.
const PROTOCOL: u32 = 5;

/// The longest message in bytes; the longest ones contain paths.
const LONGEST: usize = 16 << 10;

/// The most bytes of a file in one request.
pub const LONGEST_READ: u32 = 1 << 20;

/// The secret that lets a process in. It is known only to the job's processes, which get it over MPI.
pub(crate) type Token = [u8; 32];

/// Identifies a served file by its version and content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FileId {
    /// The checkpoint's name.
    pub name: String,
    /// Its version.
    pub version: i32,
    /// The digest of the served bytes.
    pub digest: Checksum,
}

/// Length of the greeting that begins a connection: the protocol version, the called process's token,
/// and the caller's rank. The length is fixed, as strangers send it, too.
pub(crate) const GREETING: usize = 40;

/// The greeting of rank `from`.
pub(crate) fn greeting(token: &Token, from: u32) -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    bytes[..4].copy_from_slice(&PROTOCOL.to_le_bytes());
    bytes[4..36].copy_from_slice(token);
    bytes[36..].copy_from_slice(&from.to_le_bytes());
    bytes
}

/// The caller's rank, if the greeting has this token.
pub(crate) fn verify_greeting(bytes: &[u8; GREETING], token: &Token) -> Option<u32> {
    let mut from = [0; 4];
    from.copy_from_slice(&bytes[36..]);
    let from = u32::from_le_bytes(from);
    // Compares in constant time.
    let expected = greeting(token, from);
    (bytes.iter().zip(&expected).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0).then_some(from)
}

/// A message to a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The sender's file of this version is in scratch.
    Announced {
        /// The checkpoint's name.
        name: String,
        /// Its version.
        version: i32,
        /// How often the sender had taken this version before.
        round: u32,
        /// The file.
        file: Member,
    },
    /// The sender has finished or failed an encoding of this version.
    Ended {
        /// The checkpoint's name.
        name: String,
        /// Its version.
        version: i32,
        /// The round of that encoding.
        round: u32,
        /// The encoding's id ([`super::encoding::Encoding::id`]).
        id: Checksum,
    },
    /// A version was selected for encoding.
    Decided {
        /// The checkpoint's name.
        name: String,
        /// Its version.
        version: i32,
    },
    /// No more versions will be selected.
    DecidedAll,
    /// The sender takes no more files.
    Leaving,
    /// The sender announces no more files.
    Settled,
    /// The sender reads no more files.
    Finished,
    /// Requests bytes of a file; answered by a [`ReadReply`].
    Read {
        /// The file.
        file: FileId,
        /// The offset in bytes.
        offset: u64,
        /// The number of bytes, at most [`LONGEST_READ`].
        len: u32,
    },
}

/// The answer to [`Message::Read`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadReply {
    /// All requested bytes follow.
    Bytes,
    /// No bytes follow, for this reason.
    Refused(String),
    /// No bytes follow, as the checkpoint was taken again: the new file's announcement is on its way.
    TakenAgain,
}

/// A message preceded by its length.
///
/// # Errors
/// [`ErrorKind::Internal`] if the message is too long.
pub fn frame(message: &impl Serialize) -> Result<Vec<u8>> {
    let bytes = postcard::to_stdvec(message)
        .map_err(|error| Error::new(ErrorKind::Internal, format!("a message: {error}")))?;
    if bytes.len() > LONGEST {
        return Err(Error::new(ErrorKind::Internal, format!("a message of {} bytes", bytes.len())));
    }
    let mut framed = (bytes.len() as u32).to_le_bytes().to_vec();
    framed.extend(bytes);
    Ok(framed)
}

/// Sends a message.
///
/// # Errors
/// The errors of [`frame`], and the system's.
pub fn send(mut to: impl Write, message: &impl Serialize) -> Result<()> {
    let framed = frame(message)?;
    to.write_all(&framed).map_err(|error| Error::system("sending", &error))
}

/// Receives a message. `None`: the connection was closed between two messages.
///
/// # Errors
/// The system's; [`ErrorKind::Corrupt`] if the bytes are no message.
pub fn receive<T: DeserializeOwned>(mut from: impl Read) -> Result<Option<T>> {
    let failed = |error| Error::system("receiving", &error);
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(failed(error)),
    }
    let len = u32::from_le_bytes(len) as usize;
    if len > LONGEST {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("a message of {len} bytes was announced"),
        ));
    }
    let mut bytes = vec![0; len];
    from.read_exact(&mut bytes).map_err(failed)?;
    postcard::from_bytes(&bytes).map(Some).map_err(|error| {
        Error::new(ErrorKind::Corrupt, format!("a message cannot be read: {error}"))
    })
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

    /// An invalid length must allocate no memory, and invalid bytes must not panic.
    #[test]
    fn what_is_no_message() {
        for bytes in [&[255, 255, 255, 255, 0][..], &[1, 0, 0, 0, 99], &[9, 0, 0, 0, 1, 2]] {
            assert!(receive::<Message>(bytes).is_err(), "{bytes:?}");
        }
        assert!(frame(&ReadReply::Refused("x".repeat(LONGEST))).is_err());
    }
}
