//! Reads the pieces of an encoding from other processes, and from this one.

use std::collections::{BTreeMap, VecDeque};

use super::encoding::Encoding;
use super::peer::Peer;
use super::served::ServedFiles;
use super::stream::{MemberPieces, Piece};
use super::wire::FileId;
use errors::{Error, ErrorKind, Result};
use format::checksum::Checksum;

/// Reads the pieces of one encoding.
#[derive(Debug)]
pub struct RemotePieces<'a> {
    encoding: &'a Encoding,
    /// The digests of the members' parities, where needed.
    parities: Vec<Option<Checksum>>,
    peers: &'a mut BTreeMap<u32, Peer>,
    own: u32,
    served: &'a ServedFiles,
    /// Requests to this process itself.
    requested: VecDeque<(FileId, u64)>,
}

impl<'a> RemotePieces<'a> {
    /// Reads from these peers, and from the files that rank `own` serves itself.
    pub fn new(
        encoding: &'a Encoding,
        parities: Vec<Option<Checksum>>,
        peers: &'a mut BTreeMap<u32, Peer>,
        own: u32,
        served: &'a ServedFiles,
    ) -> Self {
        RemotePieces { encoding, parities, peers, own, served, requested: VecDeque::new() }
    }

    fn peer(&mut self, rank: u32) -> Result<&mut Peer> {
        let gone = || Error::new(ErrorKind::System, format!("rank {rank} is gone"));
        self.peers.get_mut(&rank).ok_or_else(gone)
    }
}

impl MemberPieces for RemotePieces<'_> {
    fn request(&mut self, member: usize, piece: Piece, offset: u64, len: usize) -> Result<()> {
        let file = &self.encoding.members[member];
        let digest = match piece {
            Piece::Data => Some(file.digest),
            Piece::Parity => self.parities.get(member).copied().flatten(),
        };
        let digest = digest.ok_or_else(|| Error::new(ErrorKind::Internal, "no such parities"))?;
        let (name, version) = (self.encoding.name.clone(), self.encoding.version);
        let id = FileId { name, version, digest };
        if file.rank == self.own {
            self.requested.push_back((id, offset));
            return Ok(());
        }
        self.peer(file.rank)?.request(id, offset, len)
    }

    fn receive_into(&mut self, member: usize, into: &mut [u8]) -> Result<()> {
        let rank = self.encoding.members[member].rank;
        if rank != self.own {
            return self.peer(rank)?.receive_into(into);
        }
        let requested = self.requested.pop_front();
        let (id, offset) =
            requested.ok_or_else(|| Error::new(ErrorKind::Internal, "not asked for"))?;
        self.served.read(&id, offset, into)
    }
}
