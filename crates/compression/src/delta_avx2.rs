//! [`unpack`](crate::delta::unpack) with the instructions of AVX2: the compiler makes no vectors of sums of all
//! differences up to each one.

use std::arch::x86_64::*;

use crate::delta::{unpack, Raw, Word};
use crate::pack_avx2::register;

/// The bits of lanes that have a word each, of which more and more are read.
struct Lanes<'a> {
    words: std::slice::Iter<'a, [u8; 32]>,
    /// What is left of each lane, byte by byte.
    rest: &'a [[u8; 8]],
}

/// [`unpack`].
#[target_feature(enable = "avx2")]
#[inline]
pub(crate) fn unpack_avx2<W: Word<E>, const E: usize>(code: u8, from: &[u8], block: &mut Raw<E>) {
    let width = i32::from(code) - 1;
    if width < 1 || width == 8 * E as i32 {
        return unpack::<W, E>(code, from, block);
    }
    let (base, packed) = from.split_at(E);
    let whole = width as usize / E * 8 * E;
    let (words, rest) = packed.split_at(whole);
    let lanes = Lanes { words: words.as_chunks().0.iter(), rest: rest.as_chunks().0 };
    let rows = block.as_flattened_mut().as_chunks_mut::<32>().0;
    let base = (0..E).fold(0, |all, byte| all | i64::from(base[byte]) << (8 * byte));
    if E == 4 {
        singles(width, base as i32, lanes, rows);
    } else {
        doubles(width, base, lanes, rows.as_chunks_mut::<2>().0);
    }
}

impl Lanes<'_> {
    /// The next words of four or eight lanes; of what is left, those from `first` on.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn next<const E: usize>(&mut self, first: usize) -> __m256i {
        if let Some(words) = self.words.next() {
            return register(*words);
        }
        let mut all = _mm256_setzero_si256();
        for (nth, bytes) in self.rest.iter().enumerate() {
            let bytes = _mm_cvtsi64_si128(i64::from_le_bytes(*bytes) >> (8 * first));
            let up = _mm_cvtsi32_si128(8 * nth as i32);
            let more = match E {
                4 => _mm256_sll_epi32(_mm256_cvtepu8_epi32(bytes), up),
                _ => _mm256_sll_epi64(_mm256_cvtepu8_epi64(bytes), up),
            };
            all = _mm256_or_si256(all, more);
        }
        all
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn singles(width: i32, base: i32, mut lanes: Lanes<'_>, rows: &mut [[u8; 32]]) {
    let (mask, one) = (_mm256_set1_epi32((u32::MAX >> (32 - width)) as i32), _mm256_set1_epi32(1));
    let (mut words, mut used) = (_mm256_setzero_si256(), 32);
    let mut before = _mm256_set1_epi32(base);
    for row in rows {
        if used == 32 {
            (words, used) = (lanes.next::<4>(0), 0);
        }
        let mut values = _mm256_srl_epi32(words, _mm_cvtsi32_si128(used));
        used += width;
        if used > 32 {
            (words, used) = (lanes.next::<4>(0), used - 32);
            let high = _mm256_sll_epi32(words, _mm_cvtsi32_si128(width - used));
            values = _mm256_or_si256(values, high);
        }
        let values = _mm256_and_si256(values, mask);
        let sign = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_and_si256(values, one));
        let mut sum = _mm256_xor_si256(_mm256_srli_epi32::<1>(values), sign);
        sum = _mm256_add_epi32(sum, _mm256_slli_si256::<4>(sum));
        sum = _mm256_add_epi32(sum, _mm256_slli_si256::<8>(sum));
        // The sum of the lower half is added to the upper one.
        let lower = _mm256_permute2x128_si256::<0x08>(sum, sum);
        sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32::<0xff>(lower));
        sum = _mm256_add_epi32(sum, before);
        before = _mm256_permutevar8x32_epi32(sum, _mm256_set1_epi32(7));
        let turned = _mm256_or_si256(_mm256_srli_epi32::<1>(sum), _mm256_slli_epi32::<31>(sum));
        *row = bytes(turned);
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn doubles(width: i32, base: i64, mut lanes: Lanes<'_>, rows: &mut [[[u8; 32]; 2]]) {
    let (mask, one) =
        (_mm256_set1_epi64x((u64::MAX >> (64 - width)) as i64), _mm256_set1_epi64x(1));
    let (mut words, mut used) = ([_mm256_setzero_si256(); 2], 64);
    let mut before = _mm256_set1_epi64x(base);
    for row in rows {
        if used == 64 {
            (words, used) = ([lanes.next::<8>(0), lanes.next::<8>(4)], 0);
        }
        let (down, read) = (_mm_cvtsi32_si128(used), words);
        used += width;
        let is_more = used > 64;
        if is_more {
            (words, used) = ([lanes.next::<8>(0), lanes.next::<8>(4)], used - 64);
        }
        let up = _mm_cvtsi32_si128(width - used);
        for ((half, low), high) in row.iter_mut().zip(read).zip(words) {
            let mut values = _mm256_srl_epi64(low, down);
            if is_more {
                values = _mm256_or_si256(values, _mm256_sll_epi64(high, up));
            }
            let values = _mm256_and_si256(values, mask);
            let sign = _mm256_sub_epi64(_mm256_setzero_si256(), _mm256_and_si256(values, one));
            let mut sum = _mm256_xor_si256(_mm256_srli_epi64::<1>(values), sign);
            sum = _mm256_add_epi64(sum, _mm256_slli_si256::<8>(sum));
            let lower = _mm256_permute2x128_si256::<0x08>(sum, sum);
            sum = _mm256_add_epi64(sum, _mm256_unpackhi_epi64(lower, lower));
            sum = _mm256_add_epi64(sum, before);
            before = _mm256_permute4x64_epi64::<0xff>(sum);
            let turned = _mm256_or_si256(_mm256_srli_epi64::<1>(sum), _mm256_slli_epi64::<63>(sum));
            *half = bytes(turned);
        }
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn bytes(register: __m256i) -> [u8; 32] {
    // SAFETY: of one size, and bytes are any bits.
    unsafe { std::mem::transmute::<__m256i, [u8; 32]>(register) }
}
