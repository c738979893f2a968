//! Sums that tell whether data are what was summed, and which word is not.
//!
//! They are of words of 8 bytes, as numbers modulo 2^64: the sums of a block of doubles are exact, whatever their order,
//! and a word that is wrong is corrected bit for bit. Two words that have changed places have the same sum in a block, and
//! not in a matrix.

/// The sum of each block of `block` words; the last one may be shorter.
pub fn of_blocks(data: &[u64], block: usize) -> impl Iterator<Item = u64> + '_ {
    data.chunks(block.max(1)).map(sum)
}

/// A matrix of words, row by row: `stride` words lie between the beginnings of two rows.
#[derive(Debug)]
pub struct Matrix<'a> {
    /// The words: those of the last row end within them.
    pub words: &'a mut [u64],
    /// Words of a row.
    pub columns: usize,
    /// Words between the beginnings of two rows.
    pub stride: usize,
}

/// What the sums say of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixCheck {
    /// It is what was summed.
    Right,
    /// This word was not, and is now: its row and column.
    Corrected(usize, usize),
    /// More than one word is wrong.
    Wrong,
}

/// Puts the sums of the rows and of the columns of a matrix there. Shaped as [`Matrix`].
pub fn of_matrix(
    words: &[u64],
    columns: usize,
    stride: usize,
    of_rows: &mut [u64],
    of_columns: &mut [u64],
) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function needs.
        return unsafe { of_matrix_avx2(words, columns, stride, of_rows, of_columns) };
    }
    add_up(words, columns, stride, of_rows, of_columns);
}

/// [`add_up`], compiled for wider registers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn of_matrix_avx2(
    words: &[u64],
    columns: usize,
    stride: usize,
    of_rows: &mut [u64],
    of_columns: &mut [u64],
) {
    add_up(words, columns, stride, of_rows, of_columns);
}

/// Four rows at a time: the sums of the columns are read and written once for them.
#[inline(always)]
fn add_up(
    words: &[u64],
    columns: usize,
    stride: usize,
    of_rows: &mut [u64],
    of_columns: &mut [u64],
) {
    of_columns.fill(0);
    let row = |nth: usize| &words[nth * stride..][..columns];
    let mut fours = of_rows.chunks_exact_mut(4);
    let mut next = 0;
    for four in &mut fours {
        let sums = add_rows([0, 1, 2, 3].map(|more| row(next + more)), of_columns);
        four.copy_from_slice(&sums);
        next += 4;
    }
    for (more, to) in fours.into_remainder().iter_mut().enumerate() {
        [*to] = add_rows([row(next + more)], of_columns);
    }
}

/// Adds rows to the sums of the columns, and returns the rows' sums.
#[inline(always)]
fn add_rows<const ROWS: usize>(rows: [&[u64]; ROWS], of_columns: &mut [u64]) -> [u64; ROWS] {
    let rows = rows.map(|row| &row[..of_columns.len()]);
    let mut sums = [0_u64; ROWS];
    for (column, to) in of_columns.iter_mut().enumerate() {
        for (row, sum) in rows.iter().zip(&mut sums) {
            *to = to.wrapping_add(row[column]);
            *sum = sum.wrapping_add(row[column]);
        }
    }
    sums
}

impl Matrix<'_> {
    /// Compares it with its sums, and corrects one word.
    pub fn correct(&mut self, of_rows: &[u64], of_columns: &[u64]) -> MatrixCheck {
        let (mut rows, mut columns) = (vec![0; of_rows.len()], vec![0; of_columns.len()]);
        of_matrix(self.words, self.columns, self.stride, &mut rows, &mut columns);
        let differing = |found: &[u64], kept: &[u64]| -> Vec<(usize, u64)> {
            let pairs = found.iter().zip(kept).enumerate();
            let differences = pairs.map(|(nth, (found, kept))| (nth, kept.wrapping_sub(*found)));
            differences.filter(|(_, lacks)| *lacks != 0).take(2).collect()
        };
        match (&differing(&rows, of_rows)[..], &differing(&columns, of_columns)[..]) {
            ([], []) => MatrixCheck::Right,
            (&[(row, lacks)], &[(column, too)]) if lacks == too => {
                let word = &mut self.words[row * self.stride + column];
                *word = word.wrapping_add(lacks);
                MatrixCheck::Corrected(row, column)
            }
            _ => MatrixCheck::Wrong,
        }
    }
}

fn sum(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| sum.wrapping_add(*word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Catches a last block that is left out.
    #[test]
    fn blocks_have_their_sums() {
        assert_eq!(of_blocks(&[1, 2, 3, u64::MAX, 5], 2).collect::<Vec<_>>(), [3, 2, 5]);
        assert_eq!(of_blocks(&[], 2).count(), 0);
    }

    proptest! {
        /// Catches a word that is corrected to something else, a wrong place, and two wrong words that pass.
        #[test]
        fn one_word_is_corrected_and_two_are_found(
            rows in 1_usize..10, columns in 1_usize..40, more in 0_usize..3, seed: u64,
            wrong in prop::collection::vec((0_usize..10, 0_usize..40, 1_u64..), 0..3),
        ) {
            let stride = columns + more;
            let len = (rows - 1) * stride + columns;
            let mut words: Vec<u64> =
                (0..len as u64).map(|n| (n ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let right = words.clone();
            let (mut of_rows, mut of_columns) = (vec![7; rows], vec![7; columns]);
            of_matrix(&words, columns, stride, &mut of_rows, &mut of_columns);
            let (mut rows_here, mut columns_here) = (vec![7; rows], vec![7; columns]);
            add_up(&words, columns, stride, &mut rows_here, &mut columns_here);
            prop_assert_eq!((&rows_here, &columns_here), (&of_rows, &of_columns), "any registers");
            let places: Vec<(usize, usize)> =
                wrong.iter().map(|(row, column, _)| (row % rows, column % columns)).collect();
            for ((row, column), (_, _, add)) in places.iter().zip(&wrong) {
                let word = &mut words[row * stride + column];
                *word = word.wrapping_add(*add);
            }
            let changed: Vec<usize> = (0..len).filter(|nth| words[*nth] != right[*nth]).collect();
            let found = Matrix { words: &mut words, columns, stride }.correct(&of_rows, &of_columns);
            match changed[..] {
                [] => prop_assert_eq!(found, MatrixCheck::Right),
                [one] => {
                    prop_assert_eq!(found, MatrixCheck::Corrected(one / stride, one % stride));
                    prop_assert_eq!(words, right);
                }
                // Two whose differences cancel in a row and a column would have to be one word.
                _ => prop_assert_eq!(found, MatrixCheck::Wrong),
            }
        }
    }
}
