//! [`pack`] and [`unpack`] with the instructions of AVX2: of 12 bits the compiler makes no vectors.

use std::arch::x86_64::*;

use crate::header::BLOCK;
use crate::pack::{pack, unpack, Packed};

/// Where the bytes of two numbers of 24 bits lie in two of 64.
const FROM: [i8; 6] = [0, 1, 2, 8, 9, 10];

/// A shuffle that puts bytes at these places of the two halves, and 0 elsewhere.
const fn shuffle(bytes: &[i8], at: [usize; 2]) -> [i8; 32] {
    let mut shuffle = [-1; 32];
    let mut half = 0;
    while half < 2 {
        let mut nth = 0;
        while nth < bytes.len() {
            shuffle[16 * half + at[half] + nth] = bytes[nth];
            nth += 1;
        }
        half += 1;
    }
    shuffle
}

/// [`pack`].
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn pack_avx2<const B: usize>(integers: &[u32; BLOCK], packed: &mut Packed<B>) {
    if B != 12 {
        return pack::<B>(integers, packed);
    }
    let low = register(shuffle(&FROM, [0, 4]));
    let high = register(shuffle(&FROM, [6, 10]));
    let places = packed.as_flattened_mut().as_chunks_mut::<24>().0;
    for (sixteen, to) in integers.as_chunks::<8>().0.as_chunks::<2>().0.iter().zip(places) {
        let (a, b) = (pairs(sixteen[0]), pairs(sixteen[1]));
        let first = _mm256_shuffle_epi8(_mm256_permute2x128_si256::<0x20>(a, b), low);
        let second = _mm256_shuffle_epi8(_mm256_permute2x128_si256::<0x31>(a, b), high);
        let bytes = _mm256_or_si256(first, second);
        let words = [
            _mm256_extract_epi64::<0>(bytes),
            _mm256_extract_epi64::<1>(bytes) | _mm256_extract_epi64::<2>(bytes),
            _mm256_extract_epi64::<3>(bytes),
        ];
        to.as_chunks_mut().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
    }
}

/// Two numbers of 12 bits each as one of 24 in 64; what lies above means nothing.
#[target_feature(enable = "avx2")]
#[inline]
fn pairs(eight: [u32; 8]) -> __m256i {
    let eight = _mm256_and_si256(register(eight), _mm256_set1_epi32(0xfff));
    _mm256_or_si256(eight, _mm256_srli_epi64::<20>(eight))
}

/// [`unpack`].
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn unpack_avx2<const B: usize>(packed: &Packed<B>, integers: &mut [i32; BLOCK]) {
    if B != 12 {
        return unpack::<B>(packed, integers);
    }
    const BYTES: [i8; 16] = [0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11];
    let mut places = shuffle(&BYTES, [0, 0]);
    places[16..].iter_mut().for_each(|place| *place += 4);
    let places = register(places);
    // An even one has to go up by four bits, and then down as the odd ones do.
    let up = _mm256_set1_epi32(1 << 16 | 16);
    let from = packed.as_flattened().as_chunks::<24>().0;
    for (bytes, sixteen) in from.iter().zip(integers.as_chunks_mut::<16>().0) {
        let word =
            |nth: usize| i64::from_le_bytes(std::array::from_fn(|byte| bytes[8 * nth + byte]));
        let halves = _mm256_set_epi64x(word(2), word(1), word(1), word(0));
        let words = _mm256_mullo_epi16(_mm256_shuffle_epi8(halves, places), up);
        let words = _mm256_srai_epi16::<4>(words);
        let halves = [_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words)];
        for (half, to) in halves.into_iter().zip(sixteen.as_chunks_mut::<8>().0) {
            // SAFETY: eight integers have the size of the register, and are any bits.
            *to = unsafe { std::mem::transmute::<__m256i, [i32; 8]>(_mm256_cvtepi16_epi32(half)) };
        }
    }
}

#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn register<T: Copy, const COUNT: usize>(numbers: [T; COUNT]) -> __m256i {
    const { assert!(size_of::<[T; COUNT]>() == size_of::<__m256i>()) };
    // SAFETY: of one size, and a register is any bits.
    unsafe { std::mem::transmute_copy(&numbers) }
}
