//! Lossless compression of wavefields: bytes sorted by their rank in the number, then LZ4.
//!
//! Neighbouring values of a wavefield share sign, exponent and little else, so the high bytes,
//! put side by side, compress well, and a wavefield at rest compresses to almost nothing. The
//! sizes therefore grow and vary as the wave spreads, as they do in production codes.

use anyhow::{ensure, Context, Result};

/// Compresses `values` into `packed`, which is replaced. `scratch` is working memory.
pub(crate) fn pack(values: &[f32], scratch: &mut Vec<u8>, packed: &mut Vec<u8>) -> Result<()> {
    let count = values.len();
    scratch.resize(size_of_val(values), 0);
    // Byte 0 of every value, then byte 1, and so on.
    for (rank, plane) in scratch.chunks_exact_mut(count.max(1)).enumerate() {
        for (byte, value) in plane.iter_mut().zip(values) {
            *byte = value.to_le_bytes()[rank];
        }
    }
    packed.resize(lz4_flex::block::get_maximum_output_size(scratch.len()), 0);
    let size = lz4_flex::block::compress_into(scratch, packed).context("compressing a state")?;
    packed.truncate(size);
    Ok(())
}

/// Restores exactly the values that `packed` was made from. `scratch` is working memory.
pub(crate) fn unpack(packed: &[u8], scratch: &mut Vec<u8>, values: &mut [f32]) -> Result<()> {
    let count = values.len();
    scratch.resize(size_of_val(values), 0);
    let size =
        lz4_flex::block::decompress_into(packed, scratch).context("decompressing a state")?;
    let wanted = scratch.len();
    ensure!(size == wanted, "a state decompressed to {size} bytes instead of {wanted}");
    for (i, value) in values.iter_mut().enumerate() {
        *value = f32::from_le_bytes([0, 1, 2, 3].map(|rank| scratch[rank * count + i]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(values: &[f32]) -> usize {
        let (mut scratch, mut packed) = (Vec::new(), vec![7; 3]);
        pack(values, &mut scratch, &mut packed).unwrap();
        let mut back = vec![1.0; values.len()];
        unpack(&packed, &mut scratch, &mut back).unwrap();
        let bits = |v: &[f32]| v.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(values), bits(&back));
        packed.len()
    }

    #[test]
    fn every_bit_comes_back() {
        round_trip(&[]);
        round_trip(&[f32::NAN, -0.0, f32::MIN_POSITIVE / 2.0, f32::INFINITY, 1.5]);
        let noise: Vec<f32> = (0u32..5000)
            .map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761).rotate_left(i % 31)))
            .collect();
        round_trip(&noise);
    }

    #[test]
    fn a_wavefield_shrinks_and_one_at_rest_nearly_vanishes() {
        let wave: Vec<f32> = (0..40_000)
            .map(|i| if i < 20_000 { 0.0 } else { (i as f32 * 0.05).sin() * 1e-3 })
            .collect();
        assert!(round_trip(&wave) < wave.len() * 4 * 6 / 10);
        assert!(round_trip(&vec![0.0; 40_000]) < 1000);
    }

    #[test]
    fn a_cut_state_is_an_error() {
        let (mut scratch, mut packed) = (Vec::new(), Vec::new());
        pack(&vec![0.25; 1000], &mut scratch, &mut packed).unwrap();
        packed.truncate(packed.len() / 2);
        assert!(unpack(&packed, &mut scratch, &mut vec![0.0; 1000]).is_err());
    }
}
