//! Blocks of 64 values.

use super::value::Value;
use super::{Bits, BLOCK};

/// The largest magnitude of a block.
#[inline(always)]
pub(crate) fn largest<V: Value>(values: &[V; BLOCK]) -> V::Magnitude {
    values.iter().fold(V::Magnitude::default(), |largest, value| largest.max(value.magnitude()))
}

/// Reads a block; what `bytes` lack is 0.
#[inline(always)]
pub(crate) fn read<V: Value>(bytes: &[u8]) -> [V; BLOCK] {
    let size = V::ELEMENT.bytes();
    let mut values = [V::default(); BLOCK];
    for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(size)) {
        *value = V::read(bytes);
    }
    values
}

/// Writes as many values as `bytes` take.
#[inline(always)]
pub(crate) fn write<V: Value>(values: &[V; BLOCK], bytes: &mut [u8]) {
    for (value, bytes) in values.iter().zip(bytes.chunks_exact_mut(V::ELEMENT.bytes())) {
        value.write(bytes);
    }
}

/// Encodes a block. Returns its code and the most by which a value differs; `None`: it is to be kept whole.
#[inline(always)]
pub(crate) fn encode<V: Value>(
    values: &[V; BLOCK],
    bits: Bits,
    bound: f64,
    out: &mut [u8],
) -> Option<(u16, V)> {
    let largest = largest(values);
    if largest >= V::INFINITE {
        return None;
    }
    if largest == V::Magnitude::default() {
        out.fill(0);
        return Some((0, V::default()));
    }
    let exponent = (V::exponent(largest) + 2 - bits.number() as i32).max(V::LEAST);
    let (step, inverse) = (V::power(exponent), V::power(-exponent));
    let most = (1 << (bits.number() - 1)) - 1;
    let (mut steps, mut error) = ([0; BLOCK], V::default());
    for (steps, value) in steps.iter_mut().zip(values) {
        // A power of two: exact, but for values far below one step.
        *steps = value.times(inverse).round().clamp(-most - 1, most);
        // Exact: both are multiples of the value's last place, and closer than 2^24 or 2^53 of these.
        error = error.larger(value.distance(V::of_integer(*steps).times(step)));
    }
    if error.to_f64() > bound {
        return None;
    }
    pack(&steps, bits, out);
    Some(((exponent + V::BIAS) as u16, error))
}

/// Decodes a block that is not kept whole.
#[inline(always)]
pub(crate) fn decode<V: Value>(code: u16, bits: Bits, packed: &[u8]) -> [V; BLOCK] {
    let mut values = [V::default(); BLOCK];
    if code == 0 {
        return values;
    }
    let step = V::power(i32::from(code) - V::BIAS);
    for (value, steps) in values.iter_mut().zip(unpack(bits, packed)) {
        *value = V::of_integer(steps).times(step);
    }
    values
}

#[inline(always)]
fn pack(steps: &[i32; BLOCK], bits: Bits, out: &mut [u8]) {
    match bits {
        Bits::B8 => out.iter_mut().zip(steps).for_each(|(to, steps)| *to = *steps as u8),
        Bits::B12 => {
            for (to, pair) in out.chunks_exact_mut(3).zip(steps.chunks_exact(2)) {
                let both = (pair[0] & 0xfff) | pair[1] << 12;
                to.copy_from_slice(&both.to_le_bytes()[..3]);
            }
        }
        Bits::B16 => {
            for (to, steps) in out.chunks_exact_mut(2).zip(steps) {
                to.copy_from_slice(&(*steps as i16).to_le_bytes());
            }
        }
    }
}

#[inline(always)]
fn unpack(bits: Bits, packed: &[u8]) -> [i32; BLOCK] {
    let mut steps = [0; BLOCK];
    match bits {
        Bits::B8 => {
            steps.iter_mut().zip(packed).for_each(|(steps, byte)| *steps = i32::from(*byte as i8));
        }
        Bits::B12 => {
            for (pair, bytes) in steps.chunks_exact_mut(2).zip(packed.chunks_exact(3)) {
                let both = i32::from_le_bytes([0, bytes[0], bytes[1], bytes[2]]);
                // Shifted back with their signs.
                pair[0] = (both << 12) >> 20;
                pair[1] = both >> 20;
            }
        }
        Bits::B16 => {
            for (steps, bytes) in steps.iter_mut().zip(packed.chunks_exact(2)) {
                *steps = i32::from(i16::from_le_bytes([bytes[0], bytes[1]]));
            }
        }
    }
    steps
}
