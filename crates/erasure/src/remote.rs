//! The pieces of an encoding where they are: at the other processes, or here.

use std::collections::{BTreeMap, VecDeque};

use super::encoding::Encoding;
use super::offers::Offers;
use super::peer::Peer;
use super::stream::{Piece, Pieces};
use super::wire::FileId;
use format::checksum::Checksum;
use os::error::{Error, Kind, Result};

/// Reads the pieces of one encoding.
#[derive(Debug)]
pub struct Remote<'a> {
    encoding: &'a Encoding,
    /// The digests of the members' parities, where they are needed.
    parities: Vec<Option<Checksum>>,
    peers: &'a mut BTreeMap<u32, Peer>,
    own: u32,
    offers: &'a Offers,
    /// What was asked of this process itself.
    asked: VecDeque<(FileId, u64)>,
}

impl<'a> Remote<'a> {
    /// From these peers, and from what the process number `own` offers itself.
    pub fn new(
        encoding: &'a Encoding,
        parities: Vec<Option<Checksum>>,
        peers: &'a mut BTreeMap<u32, Peer>,
        own: u32,
        offers: &'a Offers,
    ) -> Self {
        Remote { encoding, parities, peers, own, offers, asked: VecDeque::new() }
    }

    fn peer(&mut self, rank: u32) -> Result<&mut Peer> {
        let gone = || Error::new(Kind::System, format!("number {rank} is gone"));
        self.peers.get_mut(&rank).ok_or_else(gone)
    }
}

impl Pieces for Remote<'_> {
    fn ask(&mut self, member: usize, piece: Piece, offset: u64, len: usize) -> Result<()> {
        let file = &self.encoding.members[member];
        let digest = match piece {
            Piece::Data => Some(file.digest),
            Piece::Parity => self.parities.get(member).copied().flatten(),
        };
        let digest = digest.ok_or_else(|| Error::new(Kind::Internal, "no such parities"))?;
        let (name, version) = (self.encoding.name.clone(), self.encoding.version);
        let id = FileId { name, version, digest };
        if file.rank == self.own {
            self.asked.push_back((id, offset));
            return Ok(());
        }
        self.peer(file.rank)?.ask(id, offset, len)
    }

    fn take(&mut self, member: usize, into: &mut [u8]) -> Result<()> {
        let rank = self.encoding.members[member].rank;
        if rank != self.own {
            return self.peer(rank)?.take(into);
        }
        let asked = self.asked.pop_front();
        let (id, offset) = asked.ok_or_else(|| Error::new(Kind::Internal, "not asked for"))?;
        self.offers.read(&id, offset, into)
    }
}
