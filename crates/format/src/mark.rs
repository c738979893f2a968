//! The mark: the region by which a checkpoint is recognised as one of an adjoint computation
//! (`VELOC_Adjoint_run`), to whose versions no limit applies.
//!
//! Applications may use any region id, so the id cannot tell a mark. Its bytes do: they begin with a
//! magic number, and the first [`LEN`] bytes end with a checksum of those before. One of the two is
//! enough, so that a damaged mark is still recognised, and its checkpoint counts as damaged and not as
//! the application's own. A file with a mark has the usual format.

use super::checksum::Checksum;
use super::header::RegionPosition;

/// The first word of a mark (the position of a state in an adjoint computation), format version 2.
pub const MAGIC: u64 = u64::from_le_bytes(*b"VELOCad2");
/// The same of version 1, which had no checksum.
pub const OLD_MAGIC: u64 = u64::from_le_bytes(*b"VELOCadj");
/// Length of a position in bytes, with its checksum in the last 8. More may follow.
pub const LEN: usize = 80;
/// Length of a position of version 1 in bytes.
const OLD_LEN: u64 = 72;

/// The preferred id of a mark.
const LOWEST: i32 = i32::MIN;

/// An id for a mark, given the ids (`has`) of the other regions: the lowest possible or, if that is
/// taken, the highest free one. The ids after the lowest belong to the message log (`libveloc-mpi.so`).
pub fn free_id(has: impl Fn(i32) -> bool) -> i32 {
    let mut ids = std::iter::once(LOWEST).chain((LOWEST..=i32::MAX).rev());
    // No checkpoint has regions of all ids.
    ids.find(|id| !has(*id)).unwrap_or(LOWEST)
}

/// The regions of a checkpoint, given in ascending order, that may be its mark: those with the ids that
/// [`free_id`] tries, up to the first free one.
pub fn candidates(regions: &[RegionPosition]) -> impl Iterator<Item = &RegionPosition> {
    let lowest = regions.first().filter(|region| region.id == LOWEST);
    let highest = regions.iter().rev().zip((LOWEST..=i32::MAX).rev());
    let highest = highest.take_while(|(region, id)| region.id == *id).map(|(region, _)| region);
    // Then the lowest id is free.
    let highest = highest.filter(move |_| lowest.is_some());
    lowest.into_iter().chain(highest).filter(|region| region.size >= OLD_LEN)
}

/// Whether a region of `size` bytes that begins with these bytes (up to [`LEN`] of them) is a mark.
pub fn is_mark(bytes: &[u8], size: u64) -> bool {
    let magic = MAGIC.to_le_bytes();
    if size == OLD_LEN {
        return bytes.starts_with(&OLD_MAGIC.to_le_bytes());
    }
    let Some(bytes) = bytes.get(..LEN) else { return false };
    let (content, checksum) = bytes.split_at(LEN - magic.len());
    content.starts_with(&magic)
        || checksum_of(&[&magic, &content[magic.len()..]].concat()) == *checksum
}

/// The beginning of the SHA-256 of the preceding words.
pub fn checksum_of(content: &[u8]) -> [u8; 8] {
    let [a, b, c, d, e, f, g, h, ..] = *Checksum::of(content).as_bytes();
    [a, b, c, d, e, f, g, h]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark() -> [u8; LEN] {
        let mut bytes = [7; LEN];
        bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
        let checksum = checksum_of(&bytes[..LEN - 8]);
        bytes[LEN - 8..].copy_from_slice(&checksum);
        bytes
    }

    /// Catches a state with a changed bit that counts as the application's own, so that the run
    /// continues without it; and application data that counts as a mark.
    #[test]
    fn a_damaged_mark_is_one_and_other_bytes_are_none() {
        let mut bytes = mark();
        let size = LEN as u64;
        assert!(is_mark(&bytes, size) && is_mark(&bytes, size + 16));
        for bit in 0..8 * LEN {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(is_mark(&bytes, size), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(!is_mark(&bytes[..LEN - 1], size - 1), "too short for one");
        for other in [[0; LEN], [0xff; LEN], std::array::from_fn(|i| i as u8)] {
            assert!(!is_mark(&other, size) && !is_mark(&other, 1 << 30));
        }
    }

    /// Catches a state of an early library version that is removed by limits.
    #[test]
    fn marks_of_the_first_version_are_known() {
        let old = [&OLD_MAGIC.to_le_bytes()[..], &[3; 64]].concat();
        assert!(is_mark(&old, old.len() as u64));
        assert!(!is_mark(&[3; 72], 72));
        // A text of the application.
        assert!(!is_mark(&[&old[..], &[3; 8]].concat(), 80));
    }

    /// Catches a mark that is searched at impossible ids, and one that is not found after the
    /// application's regions.
    #[test]
    fn it_has_an_id_that_is_free() {
        let (lowest, highest) = (LOWEST, i32::MAX);
        let taken = |ids: &'static [i32]| move |id: i32| ids.contains(&id);
        assert_eq!(free_id(taken(&[0, -5, i32::MAX])), lowest);
        assert_eq!(free_id(taken(&[LOWEST, LOWEST + 1, 3])), highest);
        assert_eq!(free_id(taken(&[LOWEST, i32::MAX - 1, i32::MAX])), highest - 2);
        let found = |regions: &[(i32, u64)]| -> Vec<i32> {
            let region =
                |&(id, size): &(i32, u64)| RegionPosition { id, size, decoded: None, offset: 0 };
            let regions: Vec<RegionPosition> = regions.iter().map(region).collect();
            candidates(&regions).map(|region| region.id).collect()
        };
        assert!(found(&[]).is_empty());
        assert!(found(&[(lowest + 1, 80), (0, 80), (highest, 80)]).is_empty());
        assert_eq!(found(&[(lowest, 80)]), [lowest]);
        let regions = [(lowest, 71), (lowest + 1, 80), (0, 80), (highest - 1, 96), (highest, 80)];
        assert_eq!(found(&regions), [highest, highest - 1]);
        assert_eq!(found(&[(lowest, 96), (highest - 1, 80)]), [lowest]);
    }
}
