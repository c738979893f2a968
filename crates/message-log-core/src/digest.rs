//! A hash of bytes, to detect changes.

/// Hashes bytes; any change within one word changes the result. Words go to four digests in turn, so that the
/// processor can overlap their multiplications.
pub fn digest(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    // Each step is invertible, so a difference never vanishes.
    let step = |digest: u64, word: u64| {
        let mixed = (digest.rotate_left(23) ^ word).wrapping_mul(ODD);
        mixed ^ mixed >> 32
    };
    let word =
        |bytes: &[u8]| bytes.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte));
    let mut digests = [1, 2, 3, 4];
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        for (digest, eight) in digests.iter_mut().zip(block.chunks_exact(8)) {
            *digest = step(*digest, word(eight));
        }
    }
    for (digest, rest) in digests.iter_mut().zip(blocks.remainder().chunks(8)) {
        *digest = step(*digest, word(rest));
    }
    digests.iter().fold(bytes.len() as u64, |all, digest| step(all, *digest))
}
