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
                let pairs = eight.as_chunks::<2>().0;
                for (to, [even, odd]) in to.as_chunks_mut::<3>().0.iter_mut().zip(pairs) {
                    let [a, b, c, _] = (even & 0xfff | odd << 12).to_le_bytes();
                    *to = [a, b, c];
                }
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
                let pairs = eight.as_chunks_mut::<2>().0;
                for ([a, b, c], [even, odd]) in from.as_chunks::<3>().0.iter().zip(pairs) {
                    let both = i32::from_le_bytes([0, *a, *b, *c]);
                    *even = both << 12 >> 20;
                    *odd = both >> 20;
                }
            }
        }
    }
}
