//! The file: opened or made, arrays added, marks written. Whatever moment a crash comes at, the next process finds the file
//! as it was before a step or after it.

use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};

use errors::{Error, ErrorKind, Result};
use format::pmem::{
    decode_arrays, encode_arrays, encode_mark, table_len, Array, IterationMark, Root, LONGEST_NAME,
    MARKS, MARKS_AT, MARK_LEN, MOST_ARRAYS, MOST_SCALARS, PAGE, ROOTS, ROOT_LEN, SLOTS_AT, TABLES,
};
use os::files;
use os::lock::Lock;
use os::persistent::{make_file, place, unit_of, Domain, Mapped, Survives};
use os::sync::Mutex;
use twox_hash::XxHash3_64;

use crate::search::{candidates, search, InvariantAnswer, Tried};

/// An open file of arrays, which no other process has open. Threads may share it.
#[derive(Debug)]
pub struct Pmem {
    path: PathBuf,
    /// Ends with the process, however that ends.
    _lock: Lock,
    mapped: Mapped,
    state: Mutex<PmemState>,
}

#[derive(Debug)]
struct PmemState {
    root: Root,
    arrays: Vec<Array>,
    /// The iteration of the newest mark.
    marked: Option<u64>,
}

/// Where the slots of an array are, for as long as its file is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    first: *mut u8,
    stride: u64,
    slots: u64,
}

impl Slots {
    /// The slot of an iteration, at a multiple of 4096.
    pub fn at(&self, iteration: u64) -> *mut u8 {
        self.first.wrapping_add((iteration % self.slots * self.stride) as usize)
    }
}

impl Pmem {
    /// Opens a file of arrays, or makes one with room for `bytes` of them.
    ///
    /// # Errors
    /// It is another user's; another process has it open; it is none, damaged, of another version or machine, or of another
    /// size; the disk has no room; or as [`Mapped::new`]. All name the path.
    pub fn open(path: &Path, bytes: u64, survives: Survives) -> Result<Pmem> {
        let path = &place(path)?;
        let within = |error: Error| error.within(path.display());
        let len = bytes.checked_next_multiple_of(PAGE).and_then(|all| all.checked_add(SLOTS_AT));
        let unit = unit_of(path).map_err(within)?;
        let len = len.and_then(|len| len.checked_next_multiple_of(unit));
        let len = len.filter(|len| i64::try_from(*len).is_ok() && bytes > 0);
        let refused = || within(Error::invalid(format!("there is no file for {bytes} bytes")));
        let len = len.ok_or_else(refused)?;
        let mut is_new = false;
        let file = loop {
            match File::options().read(true).write(true).open(path) {
                Ok(file) => {
                    files::check_whose(&file, path)?;
                    break file;
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    is_new = make_file(path, len, &first_pages(len))?;
                }
                Err(error) => {
                    return Err(Error::system(format!("open {}", path.display()), &error));
                }
            }
        };
        let lock = Lock::open(path, 0o644)?;
        if !lock.try_take()? {
            return Err(within(Error::invalid("it is open already, here or in another process")));
        }
        let found = files::len(&file, path)?;
        if found != len {
            let what = format!(
                "it has {found} bytes, and a file for {bytes} bytes of arrays has {len}: it was made for another \
                 size, was cut off, or is no file of arrays"
            );
            return Err(within(Error::invalid(what)));
        }
        let mapped = Mapped::new(&file, path, len, survives).inspect_err(|_| {
            // Nobody else has had it: it is locked.
            if is_new {
                drop(files::remove(path));
            }
        })?;
        let (root, arrays) = newest(&mapped).map_err(within)?;
        if root.len != len {
            let what = format!("it has {len} bytes, and its root says {}", root.len);
            return Err(within(Error::new(ErrorKind::Corrupt, what)));
        }
        let state = Mutex::new(PmemState { root, arrays, marked: None });
        let pmem = Pmem { path: path.to_owned(), _lock: lock, mapped, state };
        pmem.state.lock().marked = pmem.marks().iter().map(|mark| mark.iteration).max();
        Ok(pmem)
    }

    /// What a crash leaves of the file.
    pub fn domain(&self) -> &Domain {
        self.mapped.domain()
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Finds an array by its name, or adds one. Nothing is said of what its elements are.
    ///
    /// # Errors
    /// As [`Pmem::array_of`].
    pub fn array(&self, name: &str, element: u64, count: u64, slots: u64) -> Result<Slots> {
        self.array_of(name, 0, element, count, slots)
    }

    /// Finds an array by its name, or adds one, whose elements are of this kind: a letter, or 0, which goes with each.
    ///
    /// # Errors
    /// It is there with another shape, or other elements; there is no room; the name is empty or too long; it has no
    /// bytes, or too many slots.
    pub fn array_of(
        &self,
        name: &str,
        kind: u8,
        element: u64,
        count: u64,
        slots: u64,
    ) -> Result<Slots> {
        let state = &mut *self.state.lock();
        let refused = |what: String| {
            Err(Error::invalid(format!("{}: the array \"{name}\" {what}", self.path.display())))
        };
        if name.is_empty() || name.len() > LONGEST_NAME || name.contains('\0') {
            return refused(format!(
                "has a name of {} bytes; 1 to {LONGEST_NAME} are possible",
                name.len()
            ));
        }
        if let Some(found) = state.arrays.iter().find(|array| array.name == name) {
            let shape = (found.element, found.count, found.slots);
            if shape == (element, count, slots) {
                if kind != found.kind && kind != 0 && found.kind != 0 {
                    let [found, kind] = [found.kind, kind].map(char::from);
                    return refused(format!("has elements of the kind {found:?}, not {kind:?}"));
                }
                return Ok(self.slots_of(found));
            }
            return refused(format!(
                "has {} elements of {} bytes in {} slots, not {count} of {element} in {slots}",
                found.count, found.element, found.slots
            ));
        }
        if !(1..=MARKS).contains(&slots) {
            return refused(format!("would have {slots} slots; 1 to {MARKS} are possible"));
        }
        let bytes = element.checked_mul(count).filter(|bytes| *bytes > 0);
        let stride = bytes.and_then(|bytes| bytes.checked_next_multiple_of(PAGE));
        let at = state.arrays.last().map_or(SLOTS_AT, |last| last.at + last.stride * last.slots);
        let end =
            stride.and_then(|stride| stride.checked_mul(slots)).and_then(|all| all.checked_add(at));
        let Some((stride, _)) = stride.zip(end.filter(|end| *end <= state.root.len)) else {
            return refused(format!(
                "would have {count} elements of {element} bytes in {slots} slots; {} bytes are left",
                state.root.len - at
            ));
        };
        if state.arrays.len() as u64 == MOST_ARRAYS {
            return refused(format!("would be one more than {MOST_ARRAYS}"));
        }
        let mut arrays = state.arrays.clone();
        arrays.push(Array { name: name.to_owned(), kind, element, count, slots, at, stride });
        let table = encode_arrays(&arrays);
        let root = Root {
            sequence: state.root.sequence + 1,
            arrays: arrays.len() as u64,
            table: XxHash3_64::oneshot(&table),
            ..state.root
        };
        // The table is there before a root names it, and the root before that is whole meanwhile.
        self.write(TABLES[root.place()], &table)?;
        self.drain();
        self.write(ROOTS[root.place()], &root.encode())?;
        self.drain();
        (state.root, state.arrays) = (root, arrays);
        state
            .arrays
            .last()
            .map(|added| self.slots_of(added))
            .ok_or_else(|| Error::new(ErrorKind::Internal, "an array that was added is not there"))
    }

    fn slots_of(&self, array: &Array) -> Slots {
        Slots { first: self.mapped.at(array.at), stride: array.stride, slots: array.slots }
    }

    /// The names of the arrays, in the order in which they were added.
    pub fn names(&self) -> Vec<String> {
        self.state.lock().arrays.iter().map(|array| array.name.clone()).collect()
    }

    /// The number of slots that iterations have: the fewest of any array that has several.
    pub fn slots(&self) -> u64 {
        self.state.lock().slots()
    }

    /// Says that an iteration is done, with up to 5 scalars. It is there, with what was flushed before, once this returns.
    ///
    /// # Errors
    /// The iteration is older than the last one, or leaves out more than there are slots; too many scalars; or the
    /// system's.
    pub fn mark(&self, iteration: u64, scalars: &[f64]) -> Result<()> {
        let mut state = self.state.lock();
        let refused = |what: String| {
            Err(Error::invalid(format!("{}: iteration {iteration} {what}", self.path.display())))
        };
        if scalars.len() > MOST_SCALARS {
            return refused(format!("has {} scalars; {MOST_SCALARS} are possible", scalars.len()));
        }
        if iteration >= i64::MAX as u64 {
            return refused("is too large".to_owned());
        }
        if let Some(last) = state.marked {
            if iteration <= last {
                return refused(format!("is not after {last}, which was marked before"));
            }
            let left_out = iteration - last - 1;
            if left_out > 0 && left_out >= state.slots() {
                let slots = state.slots();
                return refused(format!(
                    "leaves out {left_out} after {last}, more than {slots} slots"
                ));
            }
        }
        let line = iteration % MARKS;
        let mark = encode_mark(iteration, scalars, line);
        // What the iteration has flushed comes before the mark.
        self.mapped.drain();
        self.write(MARKS_AT + line * MARK_LEN as u64, &mark)?;
        self.drain();
        state.marked = Some(iteration);
        Ok(())
    }

    /// The scalars of the iteration that was marked last, or that iterations go on behind; none, if there is none.
    pub fn scalars(&self) -> Vec<f64> {
        let last = self.state.lock().marked;
        let mark = self.marks().into_iter().find(|mark| Some(mark.iteration) == last);
        mark.map(|mark| mark.scalars).unwrap_or_default()
    }

    /// From here on, iterations go on behind this one: those after it are forgotten.
    ///
    /// # Errors
    /// The system's.
    pub fn go_back(&self, iteration: Option<u64>) -> Result<()> {
        let mut state = self.state.lock();
        for mark in self.marks() {
            if iteration.is_none_or(|iteration| mark.iteration > iteration) {
                let line = mark.iteration % MARKS;
                self.write(MARKS_AT + line * MARK_LEN as u64, &[0; MARK_LEN])?;
            }
        }
        self.drain();
        state.marked = iteration;
        Ok(())
    }

    /// The marks that are whole, in any order.
    pub fn marks(&self) -> Vec<IterationMark> {
        let lines = (0..MARKS).filter_map(|line| {
            let bytes = read::<MARK_LEN>(&self.mapped, MARKS_AT + line * MARK_LEN as u64);
            IterationMark::decode(&bytes, line).filter(|mark| mark.iteration % MARKS == line)
        });
        lines.collect()
    }

    /// Tries the marked iterations up to `bound` until all of so many invariants hold in one ([`search()`]).
    pub fn search(
        &self,
        bound: i64,
        invariants: usize,
        judge: impl FnMut(&IterationMark, usize) -> InvariantAnswer,
    ) -> Vec<Tried> {
        let mut tried = candidates(self.marks(), self.slots());
        let bound = u64::try_from(bound).unwrap_or(0);
        tried.retain(|mark| mark.iteration <= bound);
        search(&tried, invariants, judge)
    }

    /// Has these addresses written back ([`Mapped::flush`]).
    ///
    /// # Errors
    /// They are not within the file; or the system's.
    pub fn flush(&self, range: &Range<u64>) -> Result<()> {
        self.mapped.flush(range).map_err(|error| error.within(self.path.display()))
    }

    /// Waits for all that this thread has flushed.
    pub fn drain(&self) {
        self.mapped.drain();
    }

    /// Writes some of the file's own bytes, whole words. They are there behind the next drain.
    fn write(&self, at: u64, bytes: &[u8]) -> Result<()> {
        for (word, offset) in bytes.chunks_exact(8).zip((at..).step_by(8)) {
            let word = word.try_into().map_or(0, u64::from_ne_bytes);
            // SAFETY: the file's own words, within the mapping and aligned, as all of its parts are; the lock is held.
            unsafe { self.mapped.store(offset, word) };
        }
        let start = self.mapped.at(at) as u64;
        self.flush(&(start..start + bytes.len() as u64))
    }
}

impl PmemState {
    fn slots(&self) -> u64 {
        let several = self.arrays.iter().map(|array| array.slots).filter(|slots| *slots > 1);
        several.min().unwrap_or(1)
    }
}

/// What a new file begins with.
fn first_pages(len: u64) -> Vec<u8> {
    let table = XxHash3_64::oneshot(&encode_arrays(&[]));
    Root { sequence: 0, len, arrays: 0, table }.encode().to_vec()
}

fn read<const LEN: usize>(mapped: &Mapped, at: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    // SAFETY: within the mapping, as every file has these pages; nobody else writes there.
    unsafe { std::ptr::copy_nonoverlapping(mapped.at(at), bytes.as_mut_ptr(), LEN) };
    bytes
}

/// The root that counts, and its arrays.
fn newest(mapped: &Mapped) -> Result<(Root, Vec<Array>)> {
    let [first, second] = ROOTS.map(|at| read::<ROOT_LEN>(mapped, at));
    let root = Root::newest([&first, &second])?;
    let mut table = vec![0; table_len(root.arrays)?];
    // SAFETY: as for `read`; a table is shorter than its place.
    unsafe {
        let from = mapped.at(TABLES[root.place()]);
        std::ptr::copy_nonoverlapping(from, table.as_mut_ptr(), table.len());
    }
    Ok((root, decode_arrays(&root, &table)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path) -> Result<Pmem> {
        Pmem::open(path, 100_000, Survives::Process)
    }

    /// Catches arrays of another user that are mapped, whose file that user may cut off, and files that others can open.
    #[test]
    fn arrays_are_this_users() {
        use std::os::unix::fs::{chown, PermissionsExt as _};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arrays");
        drop(open(&path).unwrap());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        if chown(&path, Some(65534), None).is_err() {
            println!("skipped: only root can give a file away");
            return;
        }
        let error = open(&path).unwrap_err().to_string();
        assert!(error.contains("user 65534") && error.contains("arrays"), "{error}");
    }

    /// Catches arrays and marks that are not found again, or elsewhere.
    #[test]
    fn what_was_stored_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arrays");
        let pmem = open(&path).unwrap();
        let p = pmem.array("p", 8, 100, 3).unwrap();
        let a = pmem.array("a matrix", 4, 5000, 1).unwrap();
        for iteration in 0..8_u64 {
            // SAFETY: the slot has 800 bytes, which only this test uses.
            unsafe { p.at(iteration).cast::<u64>().add(99).write(iteration) };
            pmem.mark(iteration, &[iteration as f64, 2.5]).unwrap();
        }
        assert!(open(&path).unwrap_err().to_string().contains("it is open already"));
        drop(pmem);
        let pmem = open(&path).unwrap();
        // The file may be mapped elsewhere.
        let between = |p: Slots, a: Slots| a.at(0) as usize - p.at(0) as usize;
        let before = between(p, a);
        let p = pmem.array("p", 8, 100, 3).unwrap();
        assert_eq!(between(p, pmem.array("a matrix", 4, 5000, 1).unwrap()), before);
        assert_eq!(pmem.slots(), 3);
        let mut marks = pmem.marks();
        marks.sort_by_key(|mark| mark.iteration);
        assert_eq!(marks.len(), 8);
        assert_eq!(marks[7], IterationMark { iteration: 7, scalars: vec![7.0, 2.5] });
        for iteration in 5..8 {
            // SAFETY: as above.
            let found = unsafe { p.at(iteration).cast::<u64>().add(99).read() };
            assert_eq!(found, iteration);
        }
        pmem.go_back(Some(5)).unwrap();
        assert_eq!(pmem.marks().len(), 6);
        assert_eq!(pmem.scalars(), [5.0, 2.5]);
        pmem.mark(6, &[]).unwrap();
        assert_eq!(pmem.scalars(), [0.0; 0]);
        pmem.mark(7, &[1.5]).unwrap();
        assert_eq!(pmem.scalars(), [1.5]);
        pmem.go_back(None).unwrap();
        assert_eq!(pmem.marks(), []);
        assert_eq!(pmem.scalars(), [0.0; 0]);
    }

    /// Catches what is accepted though it cannot be kept, and an error that does not name it.
    #[test]
    fn what_cannot_be_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arrays");
        let pmem = open(&path).unwrap();
        pmem.array("p", 8, 100, 3).unwrap();
        let refused = |name: &str, element, count, slots, words: &[&str]| {
            let error = pmem.array(name, element, count, slots).unwrap_err().to_string();
            assert!(words.iter().all(|word| error.contains(word)), "{error}");
            assert!(error.contains("arrays: the array"), "{error}");
        };
        // 8 bytes of an array of before there were kinds, and of one that has none, are of any.
        pmem.array_of("p", b'f', 8, 100, 3).unwrap();
        let f = pmem.array_of("f", b'f', 8, 100, 1).unwrap();
        assert_eq!(pmem.array("f", 8, 100, 1).unwrap(), f);
        assert_eq!(pmem.array_of("f", b'f', 8, 100, 1).unwrap(), f);
        let error = pmem.array_of("f", b'i', 8, 100, 1).unwrap_err().to_string();
        assert!(error.contains("\"f\" has elements of the kind 'f', not 'i'"), "{error}");
        refused("p", 8, 101, 3, &["\"p\" has 100 elements of 8 bytes in 3 slots"]);
        refused("p", 8, 100, 4, &["100 of 8 in 4"]);
        refused("q", 8, 0, 1, &["0 elements"]);
        refused("q", 0, 8, 1, &["of 0 bytes"]);
        refused("q", u64::MAX, 2, 1, &["bytes are left"]);
        refused("q", 8, 1 << 20, 1, &["bytes are left"]);
        refused("q", 8, 1, 0, &["0 slots"]);
        refused("q", 8, 1, 65, &["65 slots"]);
        refused("", 8, 1, 1, &["0 bytes"]);
        refused(&"x".repeat(64), 8, 1, 1, &["64 bytes"]);
        let marks = |iteration, scalars: &[f64], words: &str| {
            let error = pmem.mark(iteration, scalars).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("arrays"), "{error}");
        };
        marks(1, &[0.0; 6], "6 scalars");
        marks(u64::MAX, &[], "too large");
        pmem.mark(9, &[]).unwrap();
        let marks = |iteration, words: &str| {
            let error = pmem.mark(iteration, &[]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        marks(9, "not after 9");
        marks(3, "not after 9");
        marks(13, "leaves out 3 after 9");
        drop(pmem);
        let error = Pmem::open(&path, 200_000, Survives::Process).unwrap_err().to_string();
        assert!(error.contains("for 200000 bytes") && error.contains("arrays"), "{error}");
        for bytes in [0, u64::MAX] {
            assert!(Pmem::open(&path, bytes, Survives::Process)
                .unwrap_err()
                .to_string()
                .contains("no file for"));
        }
        std::fs::write(&path, "something else").unwrap();
        assert!(open(&path).unwrap_err().to_string().contains("it has 14 bytes"));
    }

    /// Stops an addition at each word that it writes, as a crash would. Catches a file that cannot be opened then, or has
    /// half an array.
    #[test]
    fn an_addition_is_whole_or_has_not_begun() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("arrays");
        let pmem = open(&path).unwrap();
        pmem.array("one", 8, 10, 1).unwrap();
        let before = std::fs::read(&path).unwrap();
        pmem.array("two", 8, 20, 2).unwrap();
        let after = std::fs::read(&path).unwrap();
        drop(pmem);
        let changed: Vec<usize> = (0..before.len() / 8)
            .filter(|n| before[n * 8..n * 8 + 8] != after[n * 8..n * 8 + 8])
            .collect();
        // In the order of writing: the table, then the root.
        let (root, table): (Vec<_>, Vec<_>) =
            changed.into_iter().partition(|n| n * 8 < MARKS_AT as usize);
        let order: Vec<usize> = table.into_iter().chain(root).collect();
        for crash in 0..=order.len() {
            let mut torn = before.clone();
            for &word in &order[..crash] {
                torn[word * 8..word * 8 + 8].copy_from_slice(&after[word * 8..word * 8 + 8]);
            }
            std::fs::write(&path, &torn).unwrap();
            let pmem = open(&path).unwrap();
            let names = pmem.names();
            let expected: &[&str] = if crash == order.len() { &["one", "two"] } else { &["one"] };
            assert_eq!(names, expected, "{crash}");
        }
    }
}
