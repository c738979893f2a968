//! The iterations of a file: what must hold in each, the newest in which it does, and going on behind it.

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use errors::{Error, ErrorKind, Result};
use os::sync::Mutex;

use crate::file::Pmem;
use crate::search::{InvariantAnswer, IterationMark};

/// Says whether an invariant holds in a marked iteration. The first error of a search is its own.
pub type Judge = Arc<dyn Fn(&IterationMark) -> Result<InvariantAnswer> + Send + Sync>;

/// A file, with its invariants and what the last search has tried.
pub struct Iterations {
    file: Pmem,
    invariants: Mutex<Vec<(Arc<str>, Judge)>>,
    report: Mutex<Vec<TriedIteration>>,
    /// Whether it was said that nothing tells a mixture.
    has_warned: AtomicBool,
}

/// An iteration that a search has tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedIteration {
    /// The iteration.
    pub iteration: u64,
    /// What the first invariant says that does not hold; that it holds, if all do.
    pub answer: InvariantAnswer,
    /// The name of that invariant; empty, if all hold.
    pub invariant: CString,
}

/// What a program goes on behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newest {
    /// Nothing: it begins.
    Nothing,
    /// An iteration that the arrays have.
    Here(i64),
    /// One that is kept elsewhere. The marks are gone, and the arrays are the application's to fill.
    Elsewhere(i64),
}

impl std::fmt::Debug for Iterations {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Iterations").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Iterations {
    /// The iterations of a file, without an invariant.
    pub fn new(file: Pmem) -> Iterations {
        Iterations {
            file,
            invariants: Mutex::default(),
            report: Mutex::default(),
            has_warned: AtomicBool::new(false),
        }
    }

    /// The file.
    pub fn file(&self) -> &Pmem {
        &self.file
    }

    /// Adds an invariant, or replaces the one of this name.
    ///
    /// # Errors
    /// The name is empty.
    pub fn invariant(&self, name: &str, judge: Judge) -> Result<()> {
        if name.is_empty() {
            return Err(Error::invalid("the invariant has a name of 0 bytes"));
        }
        let mut invariants = self.invariants.lock();
        match invariants.iter_mut().find(|(other, _)| &**other == name) {
            Some((_, other)) => *other = judge,
            None => invariants.push((name.into(), judge)),
        }
        Ok(())
    }

    /// Calls with what the last search has tried, the newest iteration first.
    pub fn report<T>(&self, read: impl FnOnce(&[TriedIteration]) -> T) -> T {
        read(&self.report.lock())
    }

    /// Forgets what was tried, before a search.
    pub fn begin(&self) {
        self.report.lock().clear();
    }

    /// Finds the newest consistent iteration, and goes on behind it; behind nothing, if nothing was marked yet.
    ///
    /// # Errors
    /// None is consistent, or as [`Iterations::newest`]; then nothing is changed. Or the system's.
    pub fn recover(&self) -> Result<Newest> {
        self.begin();
        let found = self.newest(i64::MAX)?;
        if found.is_none() {
            self.check_new()?;
        }
        self.go_on(found, None)
    }

    /// The newest consistent iteration that is not after `bound`. Adds what was tried to the report.
    ///
    /// # Errors
    /// The first one of an invariant.
    pub fn newest(&self, bound: i64) -> Result<Option<i64>> {
        let invariants = self.invariants.lock().clone();
        let mut wrong = None;
        let tried = self.file.search(bound, invariants.len(), |mark, nth| {
            invariants[nth].1(mark).unwrap_or_else(|error| {
                wrong.get_or_insert(error);
                InvariantAnswer::Unknown
            })
        });
        let found = tried.last().filter(|tried| tried.against.is_none());
        let found = found.map(|tried| tried.iteration as i64);
        self.report.lock().extend(tried.into_iter().map(|tried| {
            let (name, answer) = tried
                .against
                .map_or(("", InvariantAnswer::Holds), |(nth, said)| (&*invariants[nth].0, said));
            let invariant = CString::new(name).unwrap_or_default();
            TriedIteration { iteration: tried.iteration, answer, invariant }
        }));
        wrong.map_or(Ok(found), Err)
    }

    /// That nothing was marked yet, after a search that has found nothing.
    ///
    /// # Errors
    /// Iterations were marked, and none is consistent.
    pub fn check_new(&self) -> Result<()> {
        let report = self.report.lock();
        // What is consistent here alone is nothing that all processes have.
        if report.is_empty() || report.iter().any(|tried| tried.answer == InvariantAnswer::Holds) {
            return Ok(());
        }
        let told = |tried: &TriedIteration| {
            let name = tried.invariant.to_string_lossy();
            let verb =
                if tried.answer == InvariantAnswer::Unknown { "cannot tell" } else { "fails" };
            format!("{}: \"{name}\" {verb}", tried.iteration)
        };
        let tried: Vec<String> = report.iter().map(told).collect();
        let path = self.file.path().display();
        let text = format!("{path}: no marked iteration is consistent; tried {}", tried.join(", "));
        Err(Error::new(ErrorKind::NotFound, text))
    }

    /// Goes on behind the newer of two iterations: the one that was found here, and the newest that is kept elsewhere.
    /// Warns, once, if nothing tells whether the one here is whole.
    ///
    /// # Errors
    /// The system's.
    pub fn go_on(&self, found: Option<i64>, elsewhere: Option<i64>) -> Result<Newest> {
        let newest = newer(found, elsewhere);
        let Newest::Here(iteration) = newest else {
            return self.file.go_back(None).map(|()| newest);
        };
        self.file.go_back(u64::try_from(iteration).ok())?;
        let names = self.file.names();
        let is_judged = self.file.slots() > 1 || !self.invariants.lock().is_empty();
        if names.is_empty() || is_judged || self.has_warned.swap(true, Ordering::Relaxed) {
            return Ok(newest);
        }
        log::warn!(
            "{}: nothing tells whether iteration {iteration} is whole, as no array has a second slot and there is no \
             invariant: a process that is killed while it writes to \"{}\" leaves a mixture of two iterations there",
            self.file.path().display(),
            names.join("\", \"")
        );
        Ok(newest)
    }
}

/// The newer one; of two of the same number the one that needs no copy.
fn newer(found: Option<i64>, elsewhere: Option<i64>) -> Newest {
    match elsewhere.filter(|elsewhere| found.is_none_or(|found| found < *elsewhere)) {
        Some(elsewhere) => Newest::Elsewhere(elsewhere),
        None => found.map_or(Newest::Nothing, Newest::Here),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use os::persistent::Survives;

    fn made(slots: u64) -> (tempfile::TempDir, Iterations) {
        let folder = tempfile::tempdir().unwrap();
        let file = Pmem::open(&folder.path().join("a"), 1 << 16, Survives::Process).unwrap();
        file.array("x", 8, 100, slots).unwrap();
        (folder, Iterations::new(file))
    }

    fn answers(answer: impl Fn(u64) -> Result<InvariantAnswer> + Send + Sync + 'static) -> Judge {
        Arc::new(move |mark| answer(mark.iteration))
    }

    /// Catches a copy that is restored though the arrays are as new, and one that is newer and is passed over.
    #[test]
    fn the_newer_of_two() {
        assert_eq!(newer(None, None), Newest::Nothing);
        assert_eq!(newer(Some(3), None), Newest::Here(3));
        assert_eq!(newer(None, Some(0)), Newest::Elsewhere(0));
        assert_eq!(newer(Some(3), Some(2)), Newest::Here(3));
        assert_eq!(newer(Some(3), Some(3)), Newest::Here(3));
        assert_eq!(newer(Some(3), Some(4)), Newest::Elsewhere(4));
    }

    /// Catches a report that lacks an iteration or its invariant, newer marks that stay, and a failed search that has
    /// changed something.
    #[test]
    fn goes_on_behind_the_newest_consistent() {
        let (_folder, arrays) = made(4);
        assert_eq!(arrays.recover().unwrap(), Newest::Nothing);
        (0..4).for_each(|iteration| arrays.file().mark(iteration, &[]).unwrap());
        arrays.invariant("sum", answers(|_| Ok(InvariantAnswer::Fails))).unwrap();
        let error = arrays.recover().unwrap_err().to_string();
        assert!(error.contains("tried 3: \"sum\" fails, 2: \"sum\" fails, 1: "), "{error}");
        let judge = |iteration| {
            Ok(if iteration == 3 { InvariantAnswer::Unknown } else { InvariantAnswer::Holds })
        };
        arrays.invariant("sum", answers(judge)).unwrap();
        assert_eq!(arrays.recover().unwrap(), Newest::Here(2));
        let tried = |iteration, answer, name: &str| TriedIteration {
            iteration,
            answer,
            invariant: CString::new(name).unwrap(),
        };
        let expected =
            [tried(3, InvariantAnswer::Unknown, "sum"), tried(2, InvariantAnswer::Holds, "")];
        arrays.report(|found| assert_eq!(found, expected));
        assert_eq!(arrays.file().marks().iter().map(|mark| mark.iteration).max(), Some(2));
        assert_eq!(arrays.go_on(Some(2), Some(7)).unwrap(), Newest::Elsewhere(7));
        assert!(arrays.file().marks().is_empty());
    }

    /// Catches an invariant that cannot answer and is taken for one that does not hold.
    #[test]
    fn the_error_of_an_invariant_is_that_of_the_search() {
        let (_folder, arrays) = made(2);
        assert!(arrays.invariant("", answers(|_| Ok(InvariantAnswer::Holds))).is_err());
        arrays.file().mark(0, &[]).unwrap();
        arrays.file().mark(1, &[]).unwrap();
        let judge = |iteration| match iteration {
            1 => Err(Error::invalid("it answered 7")),
            _ => Ok(InvariantAnswer::Holds),
        };
        arrays.invariant("odd", answers(judge)).unwrap();
        assert!(arrays.recover().unwrap_err().to_string().contains("it answered 7"));
        assert_eq!(arrays.file().marks().len(), 2);
    }
}
