//! Files of arrays in persistent memory (`VELOC_Pmem_open`).
//!
//! Whatever moment a crash comes at, one of two **roots** is whole: they are written in turn, each in a page of its own, and
//! the one with the higher sequence number counts. A root says where the table of arrays is; a new table is written
//! elsewhere before a root names it. Little-endian, all in words of 8 bytes, as only those are written at once:
//!
//! | bytes | are |
//! | --- | --- |
//! | 0, 4096 | the roots |
//! | 8192 | the marks: [`MARKS`] lines of 64 bytes |
//! | 16384, 24576 | two places for the table of arrays |
//! | 32768 | the slots of the arrays, each at a multiple of 4096 |
//!
//! | a root | |
//! | --- | --- |
//! | 8, 8, 8 | [`MAGIC`], the format's version, [`ORDER`] as this machine writes it |
//! | 8, 8 | the sequence number; the length of the file |
//! | 8, 8 | how many arrays, and the XXH3 of their table, which is in the place of the root's own parity |
//! | 8 | the XXH3 of all before |
//!
//! | an array | |
//! | --- | --- |
//! | 63 | its name, then zeros |
//! | 1 | the kind of its elements, a letter; 0: nothing was said of it, as in files of before there was one |
//! | 8, 8, 8 | bytes of an element, elements, slots |
//! | 8, 8 | where its first slot begins, and how many bytes lie between the beginnings of two |
//!
//! | a mark | |
//! | --- | --- |
//! | 8 | the iteration, plus 1; 0: there is none |
//! | 40 | up to 5 scalars |
//! | 8 | how many scalars |
//! | 8 | the XXH3 of all before and the number of the line |

use errors::{Error, ErrorKind, Result};
use twox_hash::XxHash3_64;

/// How a root begins.
pub const MAGIC: u64 = u64::from_le_bytes(*b"VELOCpmm");
/// The version of the format.
pub const VERSION: u64 = 1;
/// Tells the order of bytes of the machine that wrote the file.
pub const ORDER: u64 = 0x0102_0304_0506_0708;

/// Bytes of a page: what is written at once where the system writes pages.
pub const PAGE: u64 = 4096;
/// Where the two roots are.
pub const ROOTS: [u64; 2] = [0, PAGE];
/// Where the marks are.
pub const MARKS_AT: u64 = 2 * PAGE;
/// How many marks are kept: no array has more slots.
pub const MARKS: u64 = 64;
/// Where the two tables are.
pub const TABLES: [u64; 2] = [4 * PAGE, 6 * PAGE];
/// Where the first slot may be.
pub const SLOTS_AT: u64 = 8 * PAGE;

/// The longest name of an array.
pub const LONGEST_NAME: usize = 63;
/// The most arrays of a file: as many as a table has room for.
pub const MOST_ARRAYS: u64 = (TABLES[1] - TABLES[0]) / ENTRY;
/// The most scalars of a mark.
pub const MOST_SCALARS: usize = 5;

const ENTRY: u64 = 64 + 5 * 8;
const ROOT_WORDS: usize = 8;

/// The length of a root in bytes.
pub const ROOT_LEN: usize = ROOT_WORDS * 8;
/// The length of a mark in bytes: a line of the cache.
pub const MARK_LEN: usize = 64;

/// An array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Array {
    /// Its name.
    pub name: String,
    /// The kind of its elements: a letter, or 0.
    pub kind: u8,
    /// Bytes of an element.
    pub element: u64,
    /// Elements.
    pub count: u64,
    /// For how many iterations it is kept.
    pub slots: u64,
    /// Where its first slot begins in the file, in bytes.
    pub at: u64,
    /// Bytes between the beginnings of two slots.
    pub stride: u64,
}

/// A root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// Counts the roots that were written.
    pub sequence: u64,
    /// The length of the file in bytes.
    pub len: u64,
    /// How many arrays there are.
    pub arrays: u64,
    /// The XXH3 of their table.
    pub table: u64,
}

/// The number of an iteration with what was said of it.
#[derive(Clone, Debug, PartialEq)]
pub struct IterationMark {
    /// The iteration.
    pub iteration: u64,
    /// Its scalars.
    pub scalars: Vec<f64>,
}

fn corrupt(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, text.into())
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|word| word.try_into().map_or(0, u64::from_le_bytes))
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Root {
    /// Its bytes.
    pub fn encode(&self) -> [u8; ROOT_LEN] {
        let Root { sequence, len, arrays, table } = *self;
        let order = u64::from_ne_bytes(ORDER.to_le_bytes());
        let mut bytes = [0; ROOT_LEN];
        let said = bytes_of(&[MAGIC, VERSION, order, sequence, len, arrays, table]);
        bytes[..said.len()].copy_from_slice(&said);
        bytes[said.len()..].copy_from_slice(&XxHash3_64::oneshot(&said).to_le_bytes());
        bytes
    }

    /// Reads a root. `None`: it was never written, or only in part.
    ///
    /// # Errors
    /// It is one of another version, or of a machine with another order of bytes.
    pub fn decode(bytes: &[u8; ROOT_LEN]) -> Result<Option<Root>> {
        let (said, sum) = bytes.split_at(ROOT_LEN - 8);
        let mut all = words(bytes);
        let [magic, version, order, sequence, len, arrays, table] =
            std::array::from_fn(|_| all.next().unwrap_or(0));
        if magic != MAGIC || XxHash3_64::oneshot(said).to_le_bytes() != sum {
            return Ok(None);
        }
        if version != VERSION {
            return Err(corrupt(format!("it has version {version} of the format, not {VERSION}")));
        }
        if order != u64::from_ne_bytes(ORDER.to_le_bytes()) {
            return Err(corrupt("it is of a machine with another order of bytes"));
        }
        Ok(Some(Root { sequence, len, arrays, table }))
    }

    /// Which of the two places a root of this sequence number has, for itself and for its table.
    pub fn place(&self) -> usize {
        (self.sequence % 2) as usize
    }

    /// The root that counts, of both.
    ///
    /// # Errors
    /// Neither is whole, or as [`Root::decode`].
    pub fn newest(both: [&[u8; ROOT_LEN]; 2]) -> Result<Root> {
        let [first, second] = both.map(Root::decode);
        // A root in the other's place was copied there.
        let in_place = |root: Option<Root>, place| root.filter(|root| root.place() == place);
        let found = [in_place(first?, 0), in_place(second?, 1)];
        let newest = found.into_iter().flatten().max_by_key(|root| root.sequence);
        newest
            .ok_or_else(|| corrupt("neither of its roots is whole: it is no such file, or damaged"))
    }
}

/// The table of these arrays.
pub fn encode_arrays(arrays: &[Array]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(arrays.len() * ENTRY as usize);
    for array in arrays {
        let mut name = [0; LONGEST_NAME + 1];
        let len = array.name.len().min(LONGEST_NAME);
        name[..len].copy_from_slice(&array.name.as_bytes()[..len]);
        name[LONGEST_NAME] = array.kind;
        bytes.extend_from_slice(&name);
        bytes.extend(bytes_of(&[array.element, array.count, array.slots, array.at, array.stride]));
    }
    bytes
}

/// The length of the table of so many arrays, in bytes.
///
/// # Errors
/// No table has so many.
pub fn table_len(arrays: u64) -> Result<usize> {
    match arrays <= MOST_ARRAYS {
        true => Ok((arrays * ENTRY) as usize),
        false => {
            Err(corrupt(format!("it would have {arrays} arrays; there is room for {MOST_ARRAYS}")))
        }
    }
}

/// Reads the table that `root` names. Each array lies in the file, and none within another.
///
/// # Errors
/// [`ErrorKind::Corrupt`]: it is another table, or contradicts itself.
pub fn decode_arrays(root: &Root, table: &[u8]) -> Result<Vec<Array>> {
    if table.len() != table_len(root.arrays)? || XxHash3_64::oneshot(table) != root.table {
        return Err(corrupt("its table of arrays is not what it was"));
    }
    let mut arrays: Vec<Array> = Vec::new();
    let mut end = SLOTS_AT;
    for entry in table.chunks_exact(ENTRY as usize) {
        let (name, numbers) = entry.split_at(LONGEST_NAME + 1);
        let (name, kind) = (&name[..LONGEST_NAME], name[LONGEST_NAME]);
        let mut numbers = words(numbers);
        let [element, count, slots, at, stride] =
            std::array::from_fn(|_| numbers.next().unwrap_or(0));
        let len = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let name = std::str::from_utf8(&name[..len])
            .map_err(|_| corrupt("the name of an array is none"))?;
        let contradicts = || corrupt(format!("what it says of the array \"{name}\" cannot be"));
        let bytes = element.checked_mul(count).filter(|bytes| *bytes > 0 && *bytes <= stride);
        let all = stride.checked_mul(slots).and_then(|all| at.checked_add(all));
        let till = all.filter(|till| *till <= root.len && at >= end && (at | stride) % PAGE == 0);
        let till = till.filter(|_| bytes.is_some() && (1..=MARKS).contains(&slots));
        end = till.ok_or_else(contradicts)?;
        if arrays.iter().any(|other| other.name == name) || name.is_empty() {
            return Err(corrupt(format!("it has the array \"{name}\" twice, or without a name")));
        }
        arrays.push(Array { name: name.to_owned(), kind, element, count, slots, at, stride });
    }
    Ok(arrays)
}

/// The mark of an iteration in line `line`, with up to [`MOST_SCALARS`] scalars. Allocates nothing: a mark has its time.
pub fn encode_mark(iteration: u64, scalars: &[f64], line: u64) -> [u8; MARK_LEN] {
    let mut bytes = [0; MARK_LEN];
    let (said, sum) = bytes.split_at_mut(MARK_LEN - 8);
    let mut all = [0; 7];
    all[0] = iteration.wrapping_add(1);
    for (word, scalar) in all[1..].iter_mut().zip(scalars.iter().take(MOST_SCALARS)) {
        *word = scalar.to_bits();
    }
    all[6] = scalars.len().min(MOST_SCALARS) as u64;
    for (place, word) in said.chunks_exact_mut(8).zip(all) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    sum.copy_from_slice(&sum_of(said, line).to_le_bytes());
    bytes
}

impl IterationMark {
    /// Reads line `line`. `None`: there is none, or it was written in part.
    pub fn decode(bytes: &[u8; MARK_LEN], line: u64) -> Option<IterationMark> {
        let (said, sum) = bytes.split_at(MARK_LEN - 8);
        let all: Vec<u64> = words(said).collect();
        let &[number, ref scalars @ .., count] = &all[..] else { return None };
        let whole = sum_of(said, line).to_le_bytes() == *sum && number > 0;
        let scalars = scalars.get(..usize::try_from(count).ok()?).filter(|_| whole)?;
        let scalars = scalars.iter().map(|bits| f64::from_bits(*bits)).collect();
        Some(IterationMark { iteration: number - 1, scalars })
    }
}

/// The sum of a mark: with the line, so that a mark which a crash has left in another's place is none.
fn sum_of(said: &[u8], line: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(line, said)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrays() -> Vec<Array> {
        let array = |name: &str, at, slots| Array {
            name: name.into(),
            kind: if slots == 1 { b'f' } else { 0 },
            element: 8,
            count: 1000,
            slots,
            at,
            stride: 8192,
        };
        vec![array("p", SLOTS_AT, 3), array(&"a".repeat(LONGEST_NAME), SLOTS_AT + 3 * 8192, 1)]
    }

    fn root(arrays: &[Array]) -> (Root, Vec<u8>) {
        let table = encode_arrays(arrays);
        let sum = XxHash3_64::oneshot(&table);
        (Root { sequence: 7, len: 1 << 20, arrays: arrays.len() as u64, table: sum }, table)
    }

    /// Catches a root that counts though it was written in part, the older one, one in the other's place, and one of
    /// another machine or version.
    #[test]
    fn the_newest_whole_root_counts() {
        let (new, _) = root(&arrays());
        let old = Root { sequence: 6, ..new };
        let (a, b) = (old.encode(), new.encode());
        assert_eq!(Root::newest([&a, &b]).unwrap(), new);
        for word in 0..ROOT_WORDS {
            let mut torn = b;
            // As before, or never written.
            torn[word * 8..word * 8 + 8].copy_from_slice(&a[word * 8..word * 8 + 8]);
            let expected = if torn == b { new } else { old };
            assert_eq!(Root::newest([&a, &torn]).unwrap(), expected, "word {word}");
            torn[word * 8..word * 8 + 8].fill(0);
            if torn != b {
                assert_eq!(Root::newest([&a, &torn]).unwrap(), old);
                assert!(Root::newest([&[0; ROOT_LEN], &torn]).is_err());
            }
        }
        assert!(Root::newest([&b, &a]).is_err());
        let said = |change: fn(&mut Vec<u64>)| {
            let mut all: Vec<u64> = words(&b[..ROOT_LEN - 8]).collect();
            change(&mut all);
            let said = bytes_of(&all);
            let mut bytes = [0; ROOT_LEN];
            bytes[..said.len()].copy_from_slice(&said);
            bytes[said.len()..].copy_from_slice(&XxHash3_64::oneshot(&said).to_le_bytes());
            Root::newest([&[0; ROOT_LEN], &bytes]).unwrap_err().to_string()
        };
        assert!(said(|all| all[1] = 2).contains("version 2"));
        assert!(said(|all| all[2] = all[2].swap_bytes()).contains("order of bytes"));
    }

    /// Catches a table that is not the root's, and arrays that lie in each other, beyond the file, or have one name.
    #[test]
    fn arrays_lie_side_by_side_in_the_file() {
        let (of, table) = root(&arrays());
        assert_eq!(decode_arrays(&of, &table).unwrap(), arrays());
        assert!(decode_arrays(&Root { table: of.table ^ 1, ..of }, &table).is_err());
        assert!(decode_arrays(&of, &table[..ENTRY as usize]).is_err());
        let changes: [fn(&mut Vec<Array>); 9] = [
            |all| all[1].at -= PAGE,
            |all| all[1].at += 8,
            |all| all[0].at = 0,
            |all| all[1].slots = 0,
            |all| all[1].slots = MARKS + 1,
            |all| all[1].count = u64::MAX,
            |all| all[1].stride = 1 << 40,
            |all| all[1].name = "p".into(),
            |all| all[1].name = String::new(),
        ];
        for (nth, change) in changes.into_iter().enumerate() {
            let mut bad = arrays();
            change(&mut bad);
            let (of, table) = root(&bad);
            assert_eq!(decode_arrays(&of, &table).unwrap_err().kind(), ErrorKind::Corrupt, "{nth}");
        }
        assert!(table_len(u64::MAX).is_err());
    }

    /// Catches a mark of which a crash has left some words of the one before, and one in another line.
    #[test]
    fn a_mark_is_whole_or_none() {
        let mark =
            |iteration, scalars: &[f64]| IterationMark { iteration, scalars: scalars.to_vec() };
        let (old, new) = (mark(3, &[1.5, -0.0]), mark(67, &[2.5, f64::NAN, 1e300, 0.0, 7.0]));
        let [a, b] = [&old, &new].map(|mark| encode_mark(mark.iteration, &mark.scalars, 3));
        assert_eq!(IterationMark::decode(&a, 3), Some(old));
        assert_eq!(IterationMark::decode(&b, 3).unwrap().scalars[2..], [1e300, 0.0, 7.0]);
        for pattern in 1_u32..255 {
            let mut torn = a;
            for word in (0..8).filter(|word| pattern >> word & 1 == 1) {
                torn[word * 8..word * 8 + 8].copy_from_slice(&b[word * 8..word * 8 + 8]);
            }
            let whole = torn == a || torn == b;
            assert_eq!(IterationMark::decode(&torn, 3).is_some(), whole, "{pattern:b}");
        }
        assert_eq!(IterationMark::decode(&a, 4), None);
        assert_eq!(IterationMark::decode(&[0; MARK_LEN], 0), None);
    }
}
