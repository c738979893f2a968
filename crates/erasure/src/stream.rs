//! Computes a member's parities, or rebuilds a lost file, block by block from the members' pieces. The
//! caller provides access to the pieces ([`MemberPieces`]).

use std::collections::VecDeque;

use super::code::{Code, Shard, GRAIN};
use super::encoding::Encoding;
use super::layout::{Intact, Layout};
use errors::{Error, ErrorKind, Result};
use format::checksum::ChecksumHasher;

pub use format::names::Piece;

/// The largest block in bytes. Per member, one is in memory and [`AHEAD`] are requested.
const BLOCK: u64 = 512 << 10;
/// How many blocks are requested ahead.
const AHEAD: usize = 2;

/// Access to the members' pieces.
pub trait MemberPieces {
    /// Requests `len` bytes at `offset` of a member's file; the file does not end within them.
    ///
    /// # Errors
    /// The request cannot be sent.
    fn request(&mut self, member: usize, piece: Piece, offset: u64, len: usize) -> Result<()>;

    /// Receives the bytes of the member's oldest outstanding request; `into` has as many bytes.
    ///
    /// # Errors
    /// The member does not answer, or refuses.
    fn receive_into(&mut self, member: usize, into: &mut [u8]) -> Result<()>;
}

/// Part of a stripe: `len` bytes at offset `at` of each block.
#[derive(Clone, Copy, Debug)]
struct StripeStep {
    stripe: usize,
    at: u64,
    len: usize,
}

/// Reads stripes from the members.
struct StripeReader<'a> {
    encoding: &'a Encoding,
    layout: Layout,
    pieces: &'a mut dyn MemberPieces,
    /// One reused buffer per data block.
    blocks: Vec<Vec<u8>>,
}

/// Computes the parities that member `own` keeps, and passes them to `put` in order.
///
/// # Errors
/// The errors of `pieces` and `put`.
pub fn encode(
    encoding: &Encoding,
    own: usize,
    pieces: &mut dyn MemberPieces,
    mut put: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut reader = StripeReader::new(encoding, pieces);
    let layout = reader.layout;
    let steps = layout.stripes_of_parity(own).flat_map(|stripe| split(stripe, layout.chunk()));
    let sources = |stripe| {
        let mut sources = vec![0; layout.data()];
        for member in 0..encoding.members.len() {
            if let Shard::Data(index) = layout.shard(stripe, member) {
                sources[index] = member;
            }
        }
        sources
    };
    let mut code = Code::new(layout.data(), layout.parities());
    let mut parity = vec![0; BLOCK as usize];
    reader.each(steps, sources, |step, blocks| {
        let Shard::Parity(index) = layout.shard(step.stripe, own) else {
            return Err(Error::new(ErrorKind::Internal, "a stripe is kept by another member"));
        };
        let data: Vec<&[u8]> = blocks.iter().map(|(_, block)| *block).collect();
        code.parity(&data, index, &mut parity[..step.len])?;
        put(&parity[..step.len])
    })
}

/// Rebuilds the file of member `lost`, and passes it to `put` in order. `whole` says which pieces are
/// intact; they must be enough ([`Layout::check`]).
///
/// # Errors
/// The errors of `pieces` and `put`; [`ErrorKind::Corrupt`] if the result does not have the lost file's
/// digest and must be discarded.
pub fn rebuild(
    encoding: &Encoding,
    lost: usize,
    whole: &[Intact],
    pieces: &mut dyn MemberPieces,
    mut put: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let mut reader = StripeReader::new(encoding, pieces);
    let layout = reader.layout;
    let member = &encoding.members[lost];
    let steps = layout.stripes_of_data(lost).flat_map(|stripe| {
        let left = member.len.saturating_sub(layout.offset(stripe, lost)).min(layout.chunk());
        split(stripe, left.next_multiple_of(GRAIN))
    });
    // Data blocks first: they are cheaper to use.
    let sources = |stripe| {
        let mut usable: Vec<(Shard, usize)> = (0..encoding.members.len())
            .map(|member| (layout.shard(stripe, member), member))
            .filter(|&(shard, member)| match shard {
                Shard::Data(_) => whole[member].data && member != lost,
                Shard::Parity(_) => whole[member].parity,
            })
            .collect();
        usable.sort_unstable();
        usable.truncate(layout.data());
        usable.into_iter().map(|(_, member)| member).collect()
    };
    let mut code = Code::new(layout.data(), layout.parities());
    let mut block = vec![0; BLOCK as usize];
    let mut left = member.len;
    let mut hasher = ChecksumHasher::default();
    reader.each(steps, sources, |step, blocks| {
        let Shard::Data(index) = layout.shard(step.stripe, lost) else {
            return Err(Error::new(ErrorKind::Internal, "a stripe has no data of the lost member"));
        };
        let block = &mut block[..step.len];
        code.restore(index, blocks, block)?;
        let bytes = &block[..left.min(step.len as u64) as usize];
        left -= bytes.len() as u64;
        hasher.update(bytes);
        put(bytes)
    })?;
    if hasher.finish() == member.digest {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Corrupt,
        format!("the file that was rebuilt for rank {} is not what it was", member.rank),
    ))
}

/// Splits the first `len` bytes of a stripe's blocks into steps.
fn split(stripe: usize, len: u64) -> impl Iterator<Item = StripeStep> {
    (0..len.div_ceil(BLOCK)).map(move |block| {
        let at = block * BLOCK;
        StripeStep { stripe, at, len: (len - at).min(BLOCK) as usize }
    })
}

impl<'a> StripeReader<'a> {
    fn new(encoding: &'a Encoding, pieces: &'a mut dyn MemberPieces) -> Self {
        let layout = encoding.layout();
        StripeReader {
            encoding,
            layout,
            pieces,
            blocks: vec![vec![0; BLOCK as usize]; layout.data()],
        }
    }

    /// Calls `work` with each step and its blocks, which are read from the members given by `sources`.
    fn each(
        &mut self,
        mut steps: impl Iterator<Item = StripeStep>,
        sources: impl Fn(usize) -> Vec<usize>,
        mut work: impl FnMut(&StripeStep, &[(Shard, &[u8])]) -> Result<()>,
    ) -> Result<()> {
        let mut requested: VecDeque<(StripeStep, Vec<usize>)> = VecDeque::new();
        loop {
            while requested.len() <= AHEAD {
                let Some(step) = steps.next() else { break };
                let members = sources(step.stripe);
                for &member in &members {
                    if let Some((piece, offset, len)) = self.extent(&step, member) {
                        self.pieces.request(member, piece, offset, len)?;
                    }
                }
                requested.push_back((step, members));
            }
            let Some((step, members)) = requested.pop_front() else {
                return Ok(());
            };
            for (index, &member) in members.iter().enumerate() {
                let there = self.extent(&step, member).map_or(0, |(_, _, len)| len);
                let (bytes, index) = self.blocks[index][..step.len].split_at_mut(there);
                if there > 0 {
                    self.pieces.receive_into(member, bytes)?;
                }
                // A shorter file is padded with zeros.
                index.fill(0);
            }
            let blocks: Vec<(Shard, &[u8])> = members
                .iter()
                .zip(&self.blocks)
                .map(|(&member, block)| {
                    (self.layout.shard(step.stripe, member), &block[..step.len])
                })
                .collect();
            work(&step, &blocks)?;
        }
    }

    /// The piece, offset and length of a step's block of a member; `None` if it lies beyond the end.
    fn extent(&self, step: &StripeStep, member: usize) -> Option<(Piece, u64, usize)> {
        let offset = self.layout.offset(step.stripe, member) + step.at;
        let (piece, end) = match self.layout.shard(step.stripe, member) {
            Shard::Data(_) => (Piece::Data, self.encoding.members[member].len),
            Shard::Parity(_) => (Piece::Parity, self.layout.payload()),
        };
        let len = end.saturating_sub(offset).min(step.len as u64) as usize;
        (len > 0).then_some((piece, offset, len))
    }
}
