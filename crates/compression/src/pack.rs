//! The integers of a block as bytes: eight integers of `B` bits are `B` bytes.

use crate::header::BLOCK;

/// The bytes of a block's integers.
pub(crate) type Packed<const B: usize> = [[u8; B]; BLOCK / 8];

/// Packs the lowest `B` bits of each.
#[inline(always)]
pub(crate) fn pack<const B: usize>(integers: &[u32; BLOCK], packed: &mut Packed<B>) {
    for (eight, to) in integers.as_chunks::<8>().0.iter().zip(packed) {
        match B {
            8 => to.iter_mut().zip(eight).for_each(|(to, integer)| *to = *integer as u8),
            16 => {
                for (to, integer) in to.as_chunks_mut::<2>().0.iter_mut().zip(eight) {
                    *to = (*integer as u16).to_le_bytes();
                }
            }
            _ => {
                let [a, b, c, d]: [u64; 4] = std::array::from_fn(|pair| {
                    u64::from(eight[2 * pair] & 0xfff | (eight[2 * pair + 1] & 0xfff) << 12)
                });
                let low = a | b << 24 | c << 48;
                let high = (c >> 16 | d << 8) as u32;
                to[..8].copy_from_slice(&low.to_le_bytes());
                to[8..].copy_from_slice(&high.to_le_bytes());
            }
        }
    }
}

/// The integers, with their signs.
#[inline(always)]
pub(crate) fn unpack<const B: usize>(packed: &Packed<B>, integers: &mut [i32; BLOCK]) {
    for (from, eight) in packed.iter().zip(integers.as_chunks_mut::<8>().0) {
        match B {
            8 => from.iter().zip(eight).for_each(|(from, to)| *to = i32::from(*from as i8)),
            16 => {
                for (from, to) in from.as_chunks::<2>().0.iter().zip(eight) {
                    *to = i32::from(i16::from_le_bytes(*from));
                }
            }
            _ => {
                let bytes: [u8; 16] =
                    std::array::from_fn(|n| from[n / 4 * 3 + [0, 1, 1, 2][n % 4]]);
                for (pair, to) in bytes.as_chunks::<4>().0.iter().zip(eight.as_chunks_mut::<2>().0)
                {
                    to[0] = i32::from(i16::from_le_bytes([pair[0], pair[1]]) << 4 >> 4);
                    to[1] = i32::from(i16::from_le_bytes([pair[2], pair[3]]) >> 4);
                }
            }
        }
    }
}
