//! The erasure code of one stripe: data blocks and their parities, all of one length.
//!
//! A single parity is the exclusive or of the data. Several are Reed-Solomon parities (crate
//! `reed-solomon-simd`). As many blocks may be lost as there are parities.

use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};

use errors::{Error, ErrorKind, Result};

/// Block lengths are multiples of this many bytes. The code works on groups of this size, so the result
/// does not depend on how a stripe is split.
pub(crate) const GRAIN: u64 = 64;

/// A block of a stripe, by kind and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shard {
    /// A data block.
    Data(usize),
    /// A parity block.
    Parity(usize),
}

/// A code and its working memory.
pub(crate) struct Code {
    data: usize,
    parities: usize,
    encoder: Option<ReedSolomonEncoder>,
    decoder: Option<ReedSolomonDecoder>,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Code({} + {})", self.data, self.parities)
    }
}

impl Code {
    /// A code for stripes of `data` data blocks and `parities` parities, at least one of each.
    pub(crate) fn new(data: usize, parities: usize) -> Code {
        Code { data, parities, encoder: None, decoder: None }
    }

    /// Computes parity `index` of the data blocks, which are given in order. All blocks have one length,
    /// a multiple of [`GRAIN`].
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if the number or the length of the blocks is wrong.
    pub(crate) fn parity(&mut self, data: &[&[u8]], index: usize, parity: &mut [u8]) -> Result<()> {
        self.check(data.iter().copied(), parity.len())?;
        if index >= self.parities {
            return Err(internal(format!("there is no parity {index} of {self:?}")));
        }
        if self.parities == 1 {
            xor_into(data, parity);
            return Ok(());
        }
        let shape = (self.data, self.parities, parity.len());
        let encoder = match &mut self.encoder {
            Some(encoder) => {
                encoder.reset(shape.0, shape.1, shape.2).map_err(internal)?;
                encoder
            }
            none => {
                none.insert(ReedSolomonEncoder::new(shape.0, shape.1, shape.2).map_err(internal)?)
            }
        };
        for block in data {
            encoder.add_original_shard(block).map_err(internal)?;
        }
        let encoded = encoder.encode().map_err(internal)?;
        let found = encoded.recovery(index).ok_or_else(|| internal("no such parity"))?;
        parity.copy_from_slice(found);
        Ok(())
    }

    /// Restores data block `lost` from as many `others` as there are data blocks.
    ///
    /// # Errors
    /// [`ErrorKind::Internal`] if the number or the length of the blocks is wrong.
    pub(crate) fn restore(
        &mut self,
        lost: usize,
        others: &[(Shard, &[u8])],
        block: &mut [u8],
    ) -> Result<()> {
        self.check(others.iter().map(|(_, other)| *other), block.len())?;
        if self.parities == 1 {
            // The exclusive or of all blocks of a stripe is zero.
            let others: Vec<&[u8]> = others.iter().map(|(_, other)| *other).collect();
            xor_into(&others, block);
            return Ok(());
        }
        let shape = (self.data, self.parities, block.len());
        let decoder = match &mut self.decoder {
            Some(decoder) => {
                decoder.reset(shape.0, shape.1, shape.2).map_err(internal)?;
                decoder
            }
            none => {
                none.insert(ReedSolomonDecoder::new(shape.0, shape.1, shape.2).map_err(internal)?)
            }
        };
        for (shard, other) in others {
            match shard {
                Shard::Data(index) => decoder.add_original_shard(*index, other),
                Shard::Parity(index) => decoder.add_recovery_shard(*index, other),
            }
            .map_err(internal)?;
        }
        let decoded = decoder.decode().map_err(internal)?;
        let found = decoded.restored_original(lost).ok_or_else(|| internal("it was not lost"))?;
        block.copy_from_slice(found);
        Ok(())
    }

    fn check<'a>(&self, blocks: impl Iterator<Item = &'a [u8]>, len: usize) -> Result<()> {
        let mut count = 0;
        for block in blocks {
            count += 1;
            if block.len() != len {
                return Err(internal(format!("a block of {} bytes, not {len}", block.len())));
            }
        }
        if count != self.data || !(len as u64).is_multiple_of(GRAIN) {
            return Err(internal(format!("{count} blocks of {len} bytes for {self:?}")));
        }
        Ok(())
    }
}

/// The exclusive or of at least one block.
fn xor_into(blocks: &[&[u8]], into: &mut [u8]) {
    /// Small enough to stay in the first-level cache while all blocks are combined.
    const PIECE: usize = 16 << 10;
    let mut at = 0;
    for piece in into.chunks_mut(PIECE) {
        let range = at..at + piece.len();
        at = range.end;
        let mut blocks = blocks.iter().map(|block| &block[range.clone()]);
        if let Some(first) = blocks.next() {
            piece.copy_from_slice(first);
        }
        for block in blocks {
            for (sum, byte) in piece.iter_mut().zip(block) {
                *sum ^= byte;
            }
        }
    }
}

fn internal(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Internal, format!("erasure code: {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn blocks(count: usize, len: usize) -> Vec<Vec<u8>> {
        let byte = |block: usize, at: usize| (block * 131 + at * 7 + (at >> 8) * 13) as u8;
        (0..count).map(|block| (0..len).map(|at| byte(block, at)).collect()).collect()
    }

    fn parities(code: &mut Code, count: usize, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let one = |index| {
            let mut parity = vec![0; data[0].len()];
            code.parity(&data, index, &mut parity).unwrap();
            parity
        };
        (0..count).map(one).collect()
    }

    /// Parity files outlive the library version that wrote them, so the code must not change.
    #[test]
    fn the_code_is_what_it_was() {
        let data = blocks(4, 64);
        let one = parities(&mut Code::new(4, 1), 1, &data);
        assert_eq!(one[0][..4], [131 ^ 6 ^ 137, 7 ^ 138 ^ 13 ^ 144, 14 ^ 145 ^ 20 ^ 151, 8]);
        let two = parities(&mut Code::new(4, 2), 2, &data);
        let heads: Vec<&[u8]> = two.iter().map(|parity| &parity[..8]).collect();
        assert_eq!(heads, KNOWN);
    }

    /// The result of version 3.1 of the crate.
    const KNOWN: [&[u8]; 2] =
        [&[249, 35, 0, 13, 25, 121, 161, 173], &[245, 51, 28, 5, 29, 121, 165, 165]];

    /// The result must not depend on how a stripe is split.
    #[test]
    fn cutting_a_stripe_changes_nothing() {
        for count in [1, 3] {
            let mut code = Code::new(5, count);
            let data = blocks(5, 448);
            let whole = parities(&mut code, count, &data);
            let (mut from, mut cut) = (0, vec![Vec::new(); count]);
            for len in [64, 128, 256] {
                let piece: Vec<Vec<u8>> =
                    data.iter().map(|block| block[from..from + len].to_vec()).collect();
                for (cut, parity) in cut.iter_mut().zip(parities(&mut code, count, &piece)) {
                    cut.extend(parity);
                }
                from += len;
            }
            assert_eq!(cut, whole);
        }
    }

    #[test]
    fn blocks_that_do_not_fit_are_refused() {
        let mut code = Code::new(2, 2);
        let (long, short) = ([0; 128], [0; 64]);
        let mut out = [0; 128];
        assert!(code.parity(&[&long, &short], 0, &mut out).is_err());
        assert!(code.parity(&[&long], 0, &mut out).is_err());
        assert!(code.parity(&[&long, &long], 2, &mut out).is_err());
        assert!(code.parity(&[&long[..63], &long[..63]], 0, &mut out[..63]).is_err());
        assert!(code.restore(0, &[(Shard::Data(1), &long)], &mut out).is_err());
    }

    /// Measures: `cargo test --release -p erasure code -- --ignored --nocapture`.
    #[test]
    #[ignore = "a measurement: it prints rates and checks nothing"]
    fn throughput() {
        const LEN: usize = 1 << 20;
        let mut out = vec![0; LEN];
        let from = vec![1u8; LEN * 64];
        let mut to = vec![0u8; LEN * 64];
        let mut best = f64::MAX;
        for _ in 0..10 {
            let since = Instant::now();
            to.copy_from_slice(std::hint::black_box(&from));
            std::hint::black_box(&mut to);
            best = best.min(since.elapsed().as_secs_f64());
        }
        println!("memcpy of 64 MiB: {:.2} GB/s", to.len() as f64 / best / 1e9);
        for (data, count) in [(7, 1), (3, 1), (6, 2), (5, 3), (12, 4)] {
            let all = blocks(data * 8, LEN);
            let mut code = Code::new(data, count);
            let mut best = f64::MAX;
            for _ in 0..5 {
                let since = Instant::now();
                for stripe in all.chunks(data) {
                    let stripe: Vec<&[u8]> = stripe.iter().map(Vec::as_slice).collect();
                    code.parity(&stripe, count - 1, &mut out).unwrap();
                }
                best = best.min(since.elapsed().as_secs_f64());
            }
            let rate = (all.len() * LEN) as f64 / best / 1e9;
            println!("{data} + {count}: {rate:.2} GB/s of data");
        }
    }
}
