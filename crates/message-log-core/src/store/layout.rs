//! Types in a restarted process: handles differ there, so the log stores the layout of an element.

use super::bytes::{NumberReader, NumberWriter, Result};
use crate::target::Datatype;

/// The largest extent of an element that is examined, in bytes.
pub const MOST: i64 = 64 << 20;

/// What MPI knows of types with gaps.
pub trait GappedTypes {
    /// Bytes from the first byte of an element to its end, and the place of each byte in packing order,
    /// counted from the first. `None` if elements are larger than [`MOST`], or MPI cannot pack them.
    fn places(&self, datatype: &Datatype) -> Option<(i64, Vec<u64>)>;

    /// The type with these properties and these pieces of an element: offset from its address, and length.
    fn with_gaps(&self, properties: Datatype, pieces: &[(i64, i64)]) -> Datatype;
}

/// The layout of a type's elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ElementLayout {
    size: i64,
    extent: i64,
    /// The lower bound: bytes from an element's address to its first byte.
    pub first: i64,
    /// Bytes from its first byte to its end.
    pub span: i64,
    /// The pieces of an element in packing order: offset from its address, and length. Empty for a
    /// contiguous type.
    pieces: Vec<(i64, i64)>,
}

impl ElementLayout {
    /// The layout of a type. `None` if its elements are too large, or MPI cannot pack them.
    pub(super) fn of(datatype: &Datatype, types: &impl GappedTypes) -> Option<ElementLayout> {
        let Datatype { size, extent, lb: first, is_dense, .. } = *datatype;
        let plain = ElementLayout { size, extent, first, span: extent, pieces: Vec::new() };
        if is_dense || size == 0 {
            return Some(plain);
        }
        let (span, places) = types.places(datatype)?;
        Some(ElementLayout { span, pieces: pieces(&places, first), ..plain })
    }

    /// Packed size of an element in bytes.
    pub(super) fn size(&self) -> i64 {
        self.size
    }

    /// Extent of an element in bytes.
    pub(super) fn extent(&self) -> i64 {
        self.extent
    }

    /// Makes a type with this layout.
    pub(super) fn make(&self, types: &impl GappedTypes) -> Datatype {
        let ElementLayout { size, extent, first: lb, .. } = *self;
        let is_dense = self.pieces.is_empty();
        let plain = Datatype { handle: 0, size, extent, lb, is_dense, owned: None };
        match is_dense {
            true => plain,
            false => types.with_gaps(plain, &self.pieces),
        }
    }

    /// Writes the layout.
    pub(super) fn write(&self, to: &mut NumberWriter) {
        for number in [self.size, self.extent, self.first, self.span] {
            to.i64(number);
        }
        to.list(&self.pieces, |to, (place, len)| {
            to.i64(*place);
            to.i64(*len);
        });
    }

    /// Reads what [`write`](Self::write) has written.
    ///
    /// # Errors
    /// It is invalid.
    pub(super) fn read(from: &mut NumberReader<'_>) -> Result<ElementLayout> {
        let [size, extent, first, span] = [from.i64()?, from.i64()?, from.i64()?, from.i64()?];
        let pieces = from.list(16, |from| Ok((from.i64()?, from.i64()?)))?;
        let sum = pieces.iter().try_fold(0i64, |sum, (place, len)| {
            let begins = place.checked_sub(first).filter(|begins| (0..=MOST).contains(begins))?;
            let fits = *len > 0 && begins.checked_add(*len)? <= span;
            fits.then(|| sum.checked_add(*len)).flatten()
        });
        let is_dense = pieces.is_empty() && span == extent && (size == extent || size == 0);
        if size < 0
            || !(is_dense || sum == Some(size))
            || !(-i64::MAX..=i64::MAX / 4).contains(&extent)
        {
            return Err(format!("a type of {size} bytes in {} pieces", pieces.len()));
        }
        Ok(ElementLayout { size, extent, first, span, pieces })
    }
}

/// Joins single bytes to pieces.
fn pieces(places: &[u64], first: i64) -> Vec<(i64, i64)> {
    let mut pieces: Vec<(i64, i64)> = Vec::new();
    for place in places {
        let place = *place as i64 + first;
        match pieces.last_mut() {
            Some((begin, len)) if *begin + *len == place => *len += 1,
            _ => pieces.push((place, 1)),
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_side_by_side_are_one_piece() {
        assert_eq!(pieces(&[0, 1, 2, 8, 9, 3], -4), [(-4, 3), (4, 2), (-1, 1)]);
        assert_eq!(pieces(&[], 7), []);
    }

    /// Catches pieces that lie outside their element, or are larger than it.
    #[test]
    fn a_layout_is_one_that_can_be() {
        let good = ElementLayout {
            size: 6,
            extent: 16,
            first: -2,
            span: 12,
            pieces: vec![(-2, 4), (8, 2)],
        };
        let read = |layout: &ElementLayout| {
            let mut writer = NumberWriter::new(0).unwrap();
            layout.write(&mut writer);
            let sealed = writer.seal();
            ElementLayout::read(&mut NumberReader::open(&sealed).unwrap())
        };
        assert_eq!(read(&good), Ok(good.clone()));
        for bad in [
            ElementLayout { size: 7, ..good.clone() },
            ElementLayout { span: 11, ..good.clone() },
            ElementLayout { pieces: vec![(-3, 4), (8, 2)], ..good.clone() },
            ElementLayout { pieces: vec![(-2, 6), (8, 0)], ..good.clone() },
            ElementLayout { pieces: vec![], ..good.clone() },
        ] {
            assert!(read(&bad).is_err(), "{bad:?}");
        }
    }
}
