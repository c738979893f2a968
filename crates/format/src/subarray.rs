//! How a region is cut out of an array that the processes of a job share (`VELOC_Mem_decompose`): a *subarray* has a
//! range of indices in each dimension. Checkpoints have a table of them as a region of its own, [`REGION`], so that a
//! job of another number of processes can put the array together.
//!
//! The table, little-endian: the magic number, the number of entries in 4 bytes, and 4 bytes of zeros; for each entry
//! the region's id and the number of dimensions in 4 bytes each, the bytes of an element, and for each of three
//! dimensions the size of the array, and offset and size of the subarray, in 8 bytes each; and the beginning of the
//! SHA-256 of all that in 8 bytes. Dimensions that an array does not have come first, with size 1.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::mark::checksum_of;
use errors::{Error, ErrorKind, Result};

/// The id of the region with the table. It follows those of the message log (`libveloc-mpi.so`).
pub const REGION: i32 = -2_146_435_070;

/// The most dimensions of an array.
pub const DIMENSIONS: usize = 3;

/// The most entries of a table.
pub const MOST: usize = 4096;

const MAGIC: [u8; 8] = *b"VELOCsa1";
const HEAD: usize = 16;
const ENTRY: usize = 4 + 4 + 8 + 3 * DIMENSIONS * 8;
const SUM: usize = 8;

/// Bytes of the largest table.
pub const LONGEST: u64 = (HEAD + MOST * ENTRY + SUM) as u64;

/// Indices, the last of which changes fastest in memory.
type Index = [u64; DIMENSIONS];

/// An array that the processes of a job share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Array {
    dimensions: u32,
    sizes: Index,
    element: u64,
}

/// The part of an array that a process has, in C's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subarray {
    /// The array.
    pub array: Array,
    offsets: Index,
    sizes: Index,
}

/// Elements that lie in one piece in two subarrays. All numbers are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where they begin in the first subarray.
    pub from: u64,
    /// Where they begin in the second one.
    pub to: u64,
    /// Their length.
    pub len: u64,
}

/// Sizes as they are said.
fn said(sizes: &[u64]) -> String {
    sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")
}

impl std::fmt::Display for Array {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sizes = said(&self.sizes[DIMENSIONS - self.dimensions as usize..]);
        write!(f, "{sizes} elements of {} bytes", self.element)
    }
}

impl std::fmt::Display for Subarray {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let first = DIMENSIONS - self.array.dimensions as usize;
        write!(f, "{} elements at {:?}", said(&self.sizes[first..]), &self.offsets[first..])
    }
}

impl Subarray {
    /// The subarray that has `sizes` elements of so many bytes from `offsets` on, of an array with these sizes.
    ///
    /// # Errors
    /// There are no dimensions or too many, or not as many offsets and sizes; an array or element of no bytes, or of more
    /// than memory can have; or the subarray does not lie in the array.
    pub fn new(array: &[u64], offsets: &[u64], sizes: &[u64], element: u64) -> Result<Subarray> {
        let dimensions = array.len();
        if !(1..=DIMENSIONS).contains(&dimensions)
            || [offsets.len(), sizes.len()] != [dimensions; 2]
        {
            return Err(Error::invalid(format!(
                "an array has 1 to {DIMENSIONS} dimensions, and as many offsets and sizes: these are {dimensions}, {} \
                 and {}",
                offsets.len(),
                sizes.len()
            )));
        }
        let bytes = array.iter().try_fold(element, |all, size| all.checked_mul(*size));
        if !bytes.is_some_and(|bytes| (1..=i64::MAX as u64).contains(&bytes)) {
            return Err(Error::invalid(format!(
                "there is no array of {} elements of {element} bytes",
                said(array)
            )));
        }
        for (axis, size) in array.iter().enumerate() {
            let end = offsets[axis].checked_add(sizes[axis]);
            if end.is_none_or(|end| end > *size) {
                return Err(Error::invalid(format!(
                    "{} elements from {} on are not within the {size} of dimension {axis}",
                    sizes[axis] as i64, offsets[axis] as i64
                )));
            }
        }
        let padded = |numbers: &[u64], with: u64| {
            let mut all = [with; DIMENSIONS];
            all[DIMENSIONS - dimensions..].copy_from_slice(numbers);
            all
        };
        let array = Array { dimensions: dimensions as u32, sizes: padded(array, 1), element };
        Ok(Subarray { array, offsets: padded(offsets, 0), sizes: padded(sizes, 1) })
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.elements() * self.array.element
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.sizes.contains(&0)
    }

    fn elements(&self) -> u64 {
        self.sizes.iter().product()
    }

    fn end(&self, axis: usize) -> u64 {
        self.offsets[axis] + self.sizes[axis]
    }

    /// What both have.
    fn common(&self, other: &Subarray) -> Option<Subarray> {
        let (mut offsets, mut sizes) = ([0; DIMENSIONS], [0; DIMENSIONS]);
        for axis in 0..DIMENSIONS {
            offsets[axis] = self.offsets[axis].max(other.offsets[axis]);
            sizes[axis] = self.end(axis).min(other.end(axis)).checked_sub(offsets[axis])?;
        }
        let common = Subarray { array: self.array, offsets, sizes };
        (!common.is_empty()).then_some(common)
    }

    /// The byte at which an element of it begins.
    fn position(&self, index: Index) -> u64 {
        let within = |axis: usize| index[axis] - self.offsets[axis];
        let rows = within(0) * self.sizes[1] + within(1);
        (rows * self.sizes[2] + within(2)) * self.array.element
    }

    /// The elements that this one and `to`, of the same array, have, in runs that are as long as possible and ascend in
    /// both.
    pub fn runs(&self, to: &Subarray) -> impl Iterator<Item = Run> {
        let (from, to) = (*self, *to);
        let common = from.common(&to).filter(|_| from.array == to.array);
        // Rows that follow each other in both are one run.
        let whole = |common: &Subarray, axis: usize| {
            [from.sizes[axis], to.sizes[axis]] == [common.sizes[axis]; 2]
        };
        let [mut planes, mut rows, mut len] = common.map_or([0; DIMENSIONS], |one| one.sizes);
        if let Some(common) = &common {
            if whole(common, 2) {
                len *= std::mem::replace(&mut rows, 1);
                if whole(common, 1) {
                    len *= std::mem::replace(&mut planes, 1);
                }
            }
        }
        let start = common.map_or([0; DIMENSIONS], |one| one.offsets);
        (0..planes).flat_map(move |plane| {
            (0..rows).map(move |row| {
                let index = [start[0] + plane, start[1] + row, start[2]];
                let len = len * from.array.element;
                Run { from: from.position(index), to: to.position(index), len }
            })
        })
    }
}

/// Checks that subarrays, given with the ranks that have them, make up an array.
///
/// # Errors
/// [`ErrorKind::Invalid`], naming the ranks: they are of different arrays, or two have the same elements; or how many
/// elements none has.
pub fn check_whole(parts: &[(u32, Subarray)]) -> Result<()> {
    let Some((first, Subarray { array, .. })) = parts.first() else { return Ok(()) };
    if let Some((rank, other)) = parts.iter().find(|(_, part)| part.array != *array) {
        return Err(Error::invalid(format!(
            "rank {first} has a subarray of {array}, and rank {rank} one of {}",
            other.array
        )));
    }
    let mut sorted: Vec<_> = parts.iter().filter(|(_, part)| !part.is_empty()).collect();
    // Along the axis that is cut most often, few others are near.
    let cuts = |axis: &usize| {
        let offsets = sorted.iter().map(|(_, part)| part.offsets[*axis]);
        offsets.collect::<BTreeSet<_>>().len()
    };
    let axis = (0..DIMENSIONS).max_by_key(cuts).unwrap_or(0);
    sorted.sort_unstable_by_key(|(rank, part)| (part.offsets[axis], *rank));
    for (at, (rank, part)) in sorted.iter().enumerate() {
        let later = sorted[at + 1..].iter();
        let mut near = later.take_while(|(_, other)| other.offsets[axis] < part.end(axis));
        if let Some((other, overlapping)) = near.find(|(_, other)| part.common(other).is_some()) {
            return Err(Error::invalid(format!(
                "rank {rank} has {part}, and rank {other} has {overlapping}: they overlap"
            )));
        }
    }
    let all: u64 = array.sizes.iter().product();
    let there: u64 = parts.iter().map(|(_, part)| part.elements()).sum();
    match all - there {
        0 => Ok(()),
        missing => Err(Error::invalid(format!(
            "no rank has {missing} of the {all} elements of the array ({array})"
        ))),
    }
}

/// A table of subarrays, by region.
pub fn encode(table: &[(i32, Subarray)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD + table.len() * ENTRY + SUM);
    bytes.extend(MAGIC);
    bytes.extend((table.len() as u32).to_le_bytes());
    bytes.extend([0; 4]);
    for (id, Subarray { array, offsets, sizes }) in table {
        bytes.extend(id.to_le_bytes());
        bytes.extend(array.dimensions.to_le_bytes());
        let numbers = [&array.sizes, offsets, sizes].into_iter().flatten();
        std::iter::once(&array.element).chain(numbers).for_each(|n| bytes.extend(n.to_le_bytes()));
    }
    let sum = checksum_of(&bytes);
    bytes.extend(sum);
    bytes
}

/// The table that [`encode`] wrote.
///
/// # Errors
/// [`ErrorKind::Corrupt`]: it did not write these bytes.
pub fn decode(bytes: &[u8]) -> Result<Vec<(i32, Subarray)>> {
    read(bytes).ok_or_else(|| {
        Error::new(
            ErrorKind::Corrupt,
            format!("the {} bytes of region {REGION} are no table of subarrays", bytes.len()),
        )
    })
}

fn read(bytes: &[u8]) -> Option<Vec<(i32, Subarray)>> {
    let (content, sum) = bytes.split_last_chunk::<SUM>()?;
    let (head, entries) = content.split_first_chunk::<HEAD>()?;
    if *sum != checksum_of(content) || !head.starts_with(&MAGIC) || head[12..] != [0; 4] {
        return None;
    }
    let number = u32::from_le_bytes(*head[8..].first_chunk()?) as usize;
    if number > MOST || entries.len() != number * ENTRY {
        return None;
    }
    entries.chunks_exact(ENTRY).map(entry).collect()
}

fn entry(bytes: &[u8]) -> Option<(i32, Subarray)> {
    let (id, rest) = bytes.split_first_chunk()?;
    let (dimensions, rest) = rest.split_first_chunk()?;
    let dimensions = u32::from_le_bytes(*dimensions) as usize;
    let first = DIMENSIONS.checked_sub(dimensions)?;
    let numbers: Vec<u64> =
        rest.as_chunks().0.iter().map(|number| u64::from_le_bytes(*number)).collect();
    let (element, numbers) = numbers.split_first()?;
    let [array, offsets, sizes] =
        [0, 1, 2].map(|nth| &numbers[nth * DIMENSIONS + first..][..dimensions]);
    let found = Subarray::new(array, offsets, sizes, *element).ok()?;
    // What stands for dimensions that are not there has one value.
    (encode(&[(0, found)])[HEAD + 4..][..ENTRY - 4] == bytes[4..])
        .then_some((i32::from_le_bytes(*id), found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(array: &[u64], offsets: &[u64], sizes: &[u64]) -> Subarray {
        Subarray::new(array, offsets, sizes, 1).unwrap()
    }

    /// An array and two subarrays of it.
    fn two() -> impl Strategy<Value = (Vec<u64>, [Subarray; 2])> {
        prop::collection::vec((1..6_u64, 0..6_u64, 0..6_u64, 0..6_u64, 0..6_u64), 1..=DIMENSIONS)
            .prop_map(|axes| {
                let array: Vec<u64> = axes.iter().map(|axis| axis.0).collect();
                let cut = |(size, from, to): (u64, u64, u64)| {
                    let (from, to) = (from.min(to).min(size), from.max(to).min(size));
                    (from, to - from)
                };
                let one = |cuts: Vec<(u64, u64)>| {
                    let (offsets, sizes): (Vec<u64>, Vec<u64>) = cuts.into_iter().unzip();
                    Subarray::new(&array, &offsets, &sizes, 3).unwrap()
                };
                let first = one(axes.iter().map(|axis| cut((axis.0, axis.1, axis.2))).collect());
                let second = one(axes.iter().map(|axis| cut((axis.0, axis.3, axis.4))).collect());
                (array, [first, second])
            })
    }

    /// What a process has of an array whose bytes all differ as far as they can.
    fn content(part: &Subarray) -> Vec<u8> {
        let [_, rows, columns] = part.array.sizes;
        let mut bytes = Vec::new();
        for z in 0..part.sizes[0] {
            for y in 0..part.sizes[1] {
                for x in 0..part.sizes[2] {
                    let [z, y, x] = [z + part.offsets[0], y + part.offsets[1], x + part.offsets[2]];
                    let element = (z * rows + y) * columns + x;
                    bytes.extend((0..3).map(|byte| (1 + element * 3 + byte) as u8));
                }
            }
        }
        bytes
    }

    proptest! {
        /// Catches rows that are mixed up, runs that are merged though a row ends between them, and elements of one
        /// that the other has not.
        #[test]
        fn runs_are_what_both_have((_, [from, to]) in two()) {
            let (source, wanted) = (content(&from), content(&to));
            prop_assert_eq!(source.len() as u64, from.len());
            let mut got = vec![0; wanted.len()];
            let mut end = 0;
            for Run { from, to, len } in from.runs(&to) {
                prop_assert!(len > 0 && from >= end);
                end = from + len;
                got[to as usize..][..len as usize].copy_from_slice(&source[from as usize..][..len as usize]);
            }
            let common = from.common(&to).map_or(0, |common| common.len());
            prop_assert_eq!(got.iter().filter(|byte| **byte != 0).count() as u64, common);
            prop_assert!(got.iter().zip(&wanted).all(|(got, wanted)| *got == 0 || got == wanted));
        }

        /// Catches a table that is read otherwise than it was written, and damage that goes unseen.
        #[test]
        fn a_table_is_read_as_it_was_written((_, [first, second]) in two(), bit in 0..1600_usize) {
            let table = [(7, first), (-3, second)];
            let mut bytes = encode(&table);
            prop_assert_eq!(decode(&bytes).unwrap(), table);
            let bit = bit % (8 * bytes.len());
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&bytes).is_err());
            prop_assert!(decode(&bytes[..bytes.len() - 1]).is_err());
        }

        /// Two subarrays make up an array exactly if they have each element once. Catches a gap or an overlap that is
        /// not noticed, and one that is none.
        #[test]
        fn two_subarrays_make_up_an_array_or_not((_, [first, second]) in two()) {
            let mut elements = [content(&first), content(&second)].concat();
            elements.sort_unstable();
            let all: u64 = first.array.sizes.iter().product();
            let each_once: Vec<u8> = (0..all * 3).map(|byte| (1 + byte) as u8).collect();
            let whole = check_whole(&[(0, first), (1, second)]).is_ok();
            prop_assert!(all * 3 > 255 || whole == (elements == each_once));
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let text = |parts: &[Subarray]| {
            let parts: Vec<_> = parts.iter().enumerate().map(|(r, p)| (r as u32, *p)).collect();
            check_whole(&parts).unwrap_err().to_string()
        };
        let cuts = [([0, 0], [6, 4]), ([0, 4], [6, 5]), ([6, 0], [2, 9])];
        let whole = cuts.map(|(offsets, sizes)| of(&[8, 9], &offsets, &sizes));
        check_whole(&[(0, whole[0]), (1, whole[1]), (2, whole[2])]).unwrap();
        assert!(text(&whole[..2]).contains("18 of the 72 elements"), "{}", text(&whole[..2]));
        let overlap = text(&[whole[0], whole[1], of(&[8, 9], &[5, 0], &[3, 9])]);
        assert!(overlap.contains("rank 0 has 6 x 4 elements at [0, 0], and rank 2"), "{overlap}");
        let other = text(&[whole[0], of(&[8, 10], &[0, 4], &[6, 6])]);
        assert!(other.contains("8 x 9 elements of 1 bytes, and rank 1 one of 8 x 10"), "{other}");
    }

    /// Catches numbers that overflow, and a subarray that reaches out of its array.
    #[test]
    fn what_cannot_be_is_refused() {
        let new =
            |array: &[u64], offsets: &[u64], sizes: &[u64]| Subarray::new(array, offsets, sizes, 8);
        assert!(new(&[4], &[1], &[3]).is_ok() && new(&[4], &[4], &[0]).is_ok());
        for (array, offsets, sizes) in [
            (&[][..], &[][..], &[][..]),
            (&[1; 4], &[0; 4], &[1; 4]),
            (&[4, 4], &[0], &[4, 4]),
            (&[4], &[2], &[3]),
            (&[4], &[u64::MAX], &[2]),
            (&[0], &[0], &[0]),
            (&[1 << 40, 1 << 40], &[0, 0], &[1, 1]),
            (&[1 << 61], &[0], &[1]),
        ] {
            assert!(new(array, offsets, sizes).is_err(), "{array:?} {offsets:?} {sizes:?}");
        }
        assert!(Subarray::new(&[4], &[0], &[4], 0).is_err());
    }
}
