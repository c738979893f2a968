//! Ready-made invariants: sums of what is stored, which tell after a crash whether it is all there.

use std::ffi::{c_int, c_void};

use super::boundary::guarded;
use super::{VELOC_INVARIANT_CORRECTED, VELOC_INVARIANT_FAILS, VELOC_INVARIANT_HOLDS};
use errors::{Error, Result};
use pmem::sums::{of_blocks, Matrix, MatrixCheck};

/// Computes the sum of each block of words. A word has 8 bytes, and may be a double. Words are
/// summed as integers modulo 2^64: exactly, in any order.
///
/// @param data   the words
/// @param words  how many
/// @param block  words of a block; 1 or more; the last block may be shorter
/// @param sums   gets a sum for each block
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL or `block` is 0
///
/// Source: an addition of this library; algorithm-directed crash consistence, section II-C.
///
/// # Safety
/// `data` is NULL or points to so many aligned words, `sums` to one for each block.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_block_sums(
    data: *const c_void,
    words: usize,
    block: usize,
    sums: *mut u64,
) -> c_int {
    super::boundary::status("VELOC_Pmem_block_sums", || {
        // SAFETY: the caller's promise.
        let data = unsafe { blocks(data, words, block, sums) }?;
        for (nth, sum) in of_blocks(data, block).enumerate() {
            // SAFETY: one for each block, by the caller's promise.
            unsafe { sums.add(nth).write(sum) };
        }
        Ok(())
    })
}

/// Tells whether each block of words has its sum. An invariant may return the answer.
///
/// @param data   as VELOC_Pmem_block_sums
/// @param words  as VELOC_Pmem_block_sums
/// @param block  as VELOC_Pmem_block_sums
/// @param sums   the sums of VELOC_Pmem_block_sums
/// @param wrong  gets the number of the first block with another sum, or -1; may be NULL
/// @return VELOC_INVARIANT_HOLDS or VELOC_INVARIANT_FAILS; VELOC_FAILURE if an argument is NULL or
///         `block` is 0
///
/// Source: an addition of this library; algorithm-directed crash consistence, section II-C.
///
/// # Safety
/// As VELOC_Pmem_block_sums; `wrong` is NULL or has room for a number.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_blocks_hold(
    data: *const c_void,
    words: usize,
    block: usize,
    sums: *const u64,
    wrong: *mut i64,
) -> c_int {
    let answer = guarded("VELOC_Pmem_blocks_hold", || {
        // SAFETY: the caller's promise.
        let data = unsafe { blocks(data, words, block, sums) }?;
        // SAFETY: one for each block, by the caller's promise.
        let differs = |(nth, sum): &(usize, u64)| unsafe { sums.add(*nth).read() } != *sum;
        let found = of_blocks(data, block).enumerate().find(differs);
        if !wrong.is_null() {
            // SAFETY: not NULL; the rest is the caller's promise.
            unsafe { wrong.write(found.map_or(-1, |(nth, _)| nth as i64)) };
        }
        Ok(if found.is_some() { VELOC_INVARIANT_FAILS } else { VELOC_INVARIANT_HOLDS })
    });
    answer.unwrap_or(super::VELOC_FAILURE)
}

/// Computes the sums of a matrix's rows and columns: words of 8 bytes, as for
/// VELOC_Pmem_block_sums.
///
/// @param matrix       its words, row by row
/// @param rows         its rows; 1 or more
/// @param columns      its columns; 1 or more
/// @param stride       words between the beginnings of two rows; `columns` or more
/// @param row_sums     gets a sum for each row
/// @param column_sums  gets a sum for each column
/// @return VELOC_SUCCESS; VELOC_FAILURE if an argument is NULL or 0, or `stride` is too small
///
/// Source: an addition of this library; algorithm-directed crash consistence, section III-C
/// (checksums of a product).
///
/// # Safety
/// The pointers are NULL or point to so many aligned words.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_matrix_sums(
    matrix: *const c_void,
    rows: usize,
    columns: usize,
    stride: usize,
    row_sums: *mut u64,
    column_sums: *mut u64,
) -> c_int {
    super::boundary::status("VELOC_Pmem_matrix_sums", || {
        check(
            rows,
            columns,
            stride,
            matrix.is_null() || row_sums.is_null() || column_sums.is_null(),
        )?;
        // SAFETY: the caller's promise; the matrix is not written to.
        unsafe {
            let (of_rows, of_columns) = (
                std::slice::from_raw_parts_mut(row_sums, rows),
                std::slice::from_raw_parts_mut(column_sums, columns),
            );
            let words =
                std::slice::from_raw_parts(matrix.cast::<u64>(), (rows - 1) * stride + columns);
            pmem::sums::of_matrix(words, columns, stride, of_rows, of_columns);
        }
        Ok(())
    })
}

/// Compares a matrix with its sums. If one word is wrong, it corrects all bits of that word. An
/// invariant may return the answer, with VELOC_INVARIANT_HOLDS in place of
/// VELOC_INVARIANT_CORRECTED. Four wrong words whose differences cancel in two rows and two columns
/// are not noticed.
///
/// @param matrix       as VELOC_Pmem_matrix_sums
/// @param rows         as VELOC_Pmem_matrix_sums
/// @param columns      as VELOC_Pmem_matrix_sums
/// @param stride       as VELOC_Pmem_matrix_sums
/// @param row_sums     the sums of VELOC_Pmem_matrix_sums
/// @param column_sums  the sums of VELOC_Pmem_matrix_sums
/// @param row          gets the row of the word that was corrected, or -1; may be NULL
/// @param column       gets its column, or -1; may be NULL
/// @return VELOC_INVARIANT_HOLDS; VELOC_INVARIANT_CORRECTED; VELOC_INVARIANT_FAILS: more than one
///         word is wrong, or a sum; VELOC_FAILURE as VELOC_Pmem_matrix_sums
///
/// Source: an addition of this library; algorithm-directed crash consistence, section III-C.
///
/// # Safety
/// As VELOC_Pmem_matrix_sums; `row` and `column` are NULL or have room for a number.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_matrix_correct(
    matrix: *mut c_void,
    rows: usize,
    columns: usize,
    stride: usize,
    row_sums: *const u64,
    column_sums: *const u64,
    row: *mut i64,
    column: *mut i64,
) -> c_int {
    let answer = guarded("VELOC_Pmem_matrix_correct", || {
        check(
            rows,
            columns,
            stride,
            matrix.is_null() || row_sums.is_null() || column_sums.is_null(),
        )?;
        // SAFETY: the caller's promise.
        let found = unsafe {
            let words =
                std::slice::from_raw_parts_mut(matrix.cast::<u64>(), (rows - 1) * stride + columns);
            Matrix { words, columns, stride }.correct(
                std::slice::from_raw_parts(row_sums, rows),
                std::slice::from_raw_parts(column_sums, columns),
            )
        };
        let (at, answer) = match found {
            MatrixCheck::Right => ((-1, -1), VELOC_INVARIANT_HOLDS),
            MatrixCheck::Corrected(row, column) => {
                ((row as i64, column as i64), VELOC_INVARIANT_CORRECTED)
            }
            MatrixCheck::Wrong => ((-1, -1), VELOC_INVARIANT_FAILS),
        };
        for (to, value) in [(row, at.0), (column, at.1)] {
            if !to.is_null() {
                // SAFETY: not NULL; the rest is the caller's promise.
                unsafe { to.write(value) };
            }
        }
        Ok(answer)
    });
    answer.unwrap_or(super::VELOC_FAILURE)
}

/// # Safety
/// `data` is NULL or points to so many aligned words.
unsafe fn blocks<'a>(
    data: *const c_void,
    words: usize,
    block: usize,
    sums: *const u64,
) -> Result<&'a [u64]> {
    if data.is_null() || sums.is_null() || block == 0 {
        return Err(Error::invalid(format!("data or sums are NULL, or block = {block}")));
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(data.cast(), words) })
}

fn check(rows: usize, columns: usize, stride: usize, null: bool) -> Result<()> {
    let fits = stride.checked_mul(rows).is_some_and(|words| words <= isize::MAX as usize / 8);
    if null || rows == 0 || columns == 0 || stride < columns || !fits {
        return Err(Error::invalid(format!(
            "there is no matrix of {rows} rows and {columns} columns, {stride} words apart{}",
            if null { ", at a NULL pointer" } else { "" }
        )));
    }
    Ok(())
}
