//! One block without loss: its bits as differences, of which only those are kept that one of them needs.
//!
//! The loops are over arrays of a known length, so that the compiler makes vectors of them, and compiled for wide
//! registers, too.

use crate::header::BLOCK;

/// Values that are packed side by side: each lane has words of its own.
const LANES: usize = 8;
const ROWS: usize = BLOCK / LANES;

/// The bits of a float as an integer, of `E` bytes.
pub(crate) trait Word<const E: usize>: Copy + Default + Eq {
    /// How many bits it has.
    const WIDTH: u32 = 8 * E as u32;

    fn of(bytes: [u8; E]) -> Self;
    fn bytes(self) -> [u8; E];

    /// The sign becomes the lowest bit, and the exponent the highest ones.
    fn turned(self) -> Self;
    fn turned_back(self) -> Self;

    /// The difference to the value before as a number that is small if the difference is, of either sign.
    fn step_from(self, before: Self) -> Self;

    /// The value behind `before`.
    fn behind(self, before: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn up(self, bits: u32) -> Self;
    fn down(self, bits: u32) -> Self;

    /// The lowest bits of it, fewer than all.
    fn lowest(self, bits: u32) -> Self;

    /// The bits up to the highest that is set.
    fn width(self) -> u32;
}

macro_rules! word {
    ($word:ty, $signed:ty, $bytes:literal) => {
        impl Word<$bytes> for $word {
            #[inline(always)]
            fn of(bytes: [u8; $bytes]) -> Self {
                Self::from_le_bytes(bytes)
            }

            #[inline(always)]
            fn bytes(self) -> [u8; $bytes] {
                self.to_le_bytes()
            }

            #[inline(always)]
            fn turned(self) -> Self {
                self.rotate_left(1)
            }

            #[inline(always)]
            fn turned_back(self) -> Self {
                self.rotate_right(1)
            }

            #[inline(always)]
            fn step_from(self, before: Self) -> Self {
                let difference = self.wrapping_sub(before);
                difference << 1 ^ (difference as $signed >> (Self::BITS - 1)) as Self
            }

            #[inline(always)]
            fn behind(self, before: Self) -> Self {
                before.wrapping_add(self >> 1 ^ (self & 1).wrapping_neg())
            }

            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn up(self, bits: u32) -> Self {
                self << bits
            }

            #[inline(always)]
            fn down(self, bits: u32) -> Self {
                self >> bits
            }

            #[inline(always)]
            fn lowest(self, bits: u32) -> Self {
                self & ((1 << bits) - 1)
            }

            #[inline(always)]
            fn width(self) -> u32 {
                Self::BITS - self.leading_zeros()
            }
        }
    };
}
word!(u32, i32, 4);
word!(u64, i64, 8);

/// A block's values as they lie in the array.
pub(crate) type Raw<const E: usize> = [[u8; E]; BLOCK];

/// The bytes of a block with this code; `None`: the code means nothing.
pub(crate) fn len<const E: usize>(code: u8) -> Option<usize> {
    match usize::from(code) {
        0 => Some(0),
        code if code <= 8 * E => Some(E + BLOCK / 8 * (code - 1)),
        code if code == 8 * E + 1 => Some(BLOCK * E),
        _ => None,
    }
}

/// The block's values turned, and each one's difference to the one before; that of the first is 0.
#[inline(always)]
fn differences<W: Word<E>, const E: usize>(block: &Raw<E>) -> (W, [W; BLOCK]) {
    let mut differences = [W::default(); BLOCK];
    for (to, pair) in differences[1..].iter_mut().zip(block.windows(2)) {
        *to = W::of(pair[1]).turned().step_from(W::of(pair[0]).turned());
    }
    (W::of(block[0]).turned(), differences)
}

/// The code of a block.
#[inline(always)]
pub(crate) fn code<W: Word<E>, const E: usize>(block: &Raw<E>) -> u8 {
    let (first, differences) = differences::<W, E>(block);
    let mut all = [W::default(); LANES];
    for row in differences.as_chunks::<LANES>().0 {
        for (all, difference) in all.iter_mut().zip(row) {
            *all = all.or(*difference);
        }
    }
    let all = all.into_iter().fold(W::default(), W::or);
    match all.width() {
        0 if first == W::default() => 0,
        width => width as u8 + 1,
    }
}

/// Writes a block that has this code, to as many bytes as [`len`] says.
#[inline(always)]
pub(crate) fn pack<W: Word<E>, const E: usize>(block: &Raw<E>, code: u8, to: &mut [u8]) {
    let width = u32::from(code).saturating_sub(1);
    if code == 0 {
        return;
    }
    if width == W::WIDTH {
        return to.copy_from_slice(block.as_flattened());
    }
    let (first, differences) = differences::<W, E>(block);
    let (base, packed) = to.split_at_mut(E);
    base.copy_from_slice(&first.bytes());
    let (words, rest) = packed.as_chunks_mut::<E>().0.as_chunks_mut::<LANES>();
    let mut words = words.iter_mut();
    let (mut row_of_words, mut filled) = ([W::default(); LANES], 0);
    for row in differences.as_chunks::<LANES>().0 {
        for (word, value) in row_of_words.iter_mut().zip(row) {
            *word = word.or(value.up(filled));
        }
        filled += width;
        if filled >= W::WIDTH {
            let Some(to) = words.next() else { return };
            for (to, word) in to.iter_mut().zip(row_of_words) {
                *to = word.bytes();
            }
            filled -= W::WIDTH;
            for (word, value) in row_of_words.iter_mut().zip(row) {
                *word = value.down(width - filled);
            }
        }
    }
    // What is left has whole bytes: the first of each lane, then the second.
    for (nth, to) in rest.as_flattened_mut().as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        for (to, word) in to.iter_mut().zip(row_of_words) {
            *to = word.bytes()[nth];
        }
    }
}

/// Reads a block that has this code, from as many bytes as [`len`] says.
#[inline(always)]
pub(crate) fn unpack<W: Word<E>, const E: usize>(code: u8, from: &[u8], block: &mut Raw<E>) {
    let width = u32::from(code).saturating_sub(1);
    if code == 0 {
        return *block = [[0; E]; BLOCK];
    }
    if width == W::WIDTH {
        return block.as_flattened_mut().copy_from_slice(from);
    }
    let (base, packed) = from.split_at(E);
    let mut before = W::of(std::array::from_fn(|byte| base[byte]));
    let (words, rest) = packed.as_chunks::<E>().0.as_chunks::<LANES>();
    let mut words = words.iter();
    let mut next = || match words.next() {
        Some(words) => words.map(W::of),
        None => {
            let mut last = [[0; E]; LANES];
            for (nth, from) in rest.as_flattened().as_chunks::<LANES>().0.iter().enumerate() {
                for (word, byte) in last.iter_mut().zip(from) {
                    word[nth] = *byte;
                }
            }
            last.map(W::of)
        }
    };
    let mut differences = [[W::default(); LANES]; ROWS];
    if width > 0 {
        let (mut row_of_words, mut used) = ([W::default(); LANES], W::WIDTH);
        for row in &mut differences {
            if used == W::WIDTH {
                (row_of_words, used) = (next(), 0);
            }
            for (value, word) in row.iter_mut().zip(row_of_words) {
                *value = word.down(used);
            }
            used += width;
            if used > W::WIDTH {
                (row_of_words, used) = (next(), used - W::WIDTH);
                for (value, word) in row.iter_mut().zip(row_of_words) {
                    *value = value.or(word.up(width - used));
                }
            }
            *row = row.map(|value| value.lowest(width));
        }
    }
    for (value, difference) in block.iter_mut().zip(differences.as_flattened()) {
        before = difference.behind(before);
        *value = before.turned_back().bytes();
    }
}
