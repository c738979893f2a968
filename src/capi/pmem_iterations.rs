//! The search for the newest iteration in which what must hold between arrays in persistent memory does hold.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

use super::boundary::{call_back, refuse_within_callbacks, status, string, with_client};
use super::pmem::{give, opened, VELOC_Pmem};
use super::{VELOC_INVARIANT_FAILS, VELOC_INVARIANT_HOLDS, VELOC_INVARIANT_UNKNOWN};
use errors::{Error, Result};
use pmem::iterations::Newest;
use pmem::search::{InvariantAnswer, IterationMark};

/// An iteration that VELOC_Pmem_recover has tried.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)] // C's name.
pub struct VELOC_Tried {
    /// The iteration.
    pub iteration: i64,
    /// One of VELOC_INVARIANT_*.
    pub answer: c_int,
    /// The invariant that did not hold, or "" if all held; valid until the next search.
    pub invariant: *const c_char,
}

/// Tells whether an iteration is consistent: it gets the iteration, its scalars, and the context
/// given to VELOC_Pmem_invariant. VELOC_Pmem_at has the slots.
type InvariantFunction = unsafe extern "C" fn(
    iteration: i64,
    scalars: *const f64,
    n: c_int,
    context: *mut c_void,
) -> c_int;

struct Asked {
    name: String,
    function: InvariantFunction,
    context: *mut c_void,
}

// SAFETY: the pointer is the application's, which says which threads call it: those that search.
unsafe impl Send for Asked {}
// SAFETY: as above; the library itself does not look at what is there.
unsafe impl Sync for Asked {}

/// Adds an invariant: what must hold between the data of an iteration. VELOC_Pmem_recover asks the
/// invariants in the order in which they were added.
///
/// @param pmem      the file
/// @param name      names the invariant in reports; it replaces an invariant of the same name
/// @param function  gets an iteration and its scalars, and answers VELOC_INVARIANT_HOLDS, _FAILS or
///                  _UNKNOWN. It decides its own tolerance. Of this library it may call only
///                  VELOC_Pmem_at and the sums
/// @param context   the last argument of the function
/// @return VELOC_SUCCESS; VELOC_FAILURE if another argument than the context is NULL
///
/// Source: an addition of this library; algorithm-directed crash consistence, section II-C.
///
/// # Safety
/// `pmem` is NULL or an open file, `name` is NULL or a string that ends with NUL; the function can
/// be called as long as the file is open.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_invariant(
    pmem: *mut VELOC_Pmem,
    name: *const c_char,
    function: Option<
        unsafe extern "C" fn(
            iteration: i64,
            scalars: *const f64,
            n: c_int,
            context: *mut c_void,
        ) -> c_int,
    >,
    context: *mut c_void,
) -> c_int {
    status("VELOC_Pmem_invariant", || {
        // SAFETY: the caller's promise.
        let (pmem, name) = unsafe { (opened(pmem)?, string("name", name)?) };
        let function = function.ok_or_else(|| {
            Error::invalid(format!("the invariant \"{name}\" has no function: it is NULL"))
        })?;
        let asked = Asked { name: name.to_owned(), function, context };
        pmem.iterations.invariant(name, Arc::new(move |mark| asked.answer(mark)))
    })
}

/// Finds the newest marked iteration in which all invariants hold. Iterations go on after it; newer
/// marks are removed.
///
/// The search begins with the newest iteration, and tries as many as the array with the fewest
/// slots has slots. Arrays of one slot do not count: the invariants decide about them. If all
/// arrays have one slot and there is no invariant, a warning says that nothing tells whether the
/// iteration is whole.
///
/// @param pmem       the file
/// @param iteration  gets it; -1: nothing was marked yet
/// @return VELOC_SUCCESS; VELOC_FAILURE if no iteration is consistent, or an invariant answered
///         none of VELOC_INVARIANT_HOLDS, _FAILS and _UNKNOWN; VELOC_Pmem_report and
///         VELOC_Last_error tell. Then nothing is changed: VELOC_Pmem_forget begins anew
///
/// Source: an addition of this library; algorithm-directed crash consistence, section III-A.
///
/// # Safety
/// `pmem` is NULL or an open file; `iteration` is NULL or has room for a number.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_recover(pmem: *mut VELOC_Pmem, iteration: *mut i64) -> c_int {
    status("VELOC_Pmem_recover", || {
        refuse_within_callbacks()?;
        // SAFETY: the caller's promise.
        let pmem = unsafe { opened(pmem) }?;
        if iteration.is_null() {
            return Err(Error::invalid("iteration is NULL"));
        }
        let found = match pmem.iterations.recover()? {
            Newest::Here(iteration) => iteration,
            _ => -1,
        };
        // SAFETY: the caller's promise.
        unsafe { give("iteration", iteration, found) }
    })
}

/// Gives the scalars of the iteration that VELOC_Pmem_recover or VELOC_Pmem_restart has found, or
/// that was marked since. A program that goes on after that iteration begins with these numbers.
/// Before a search they are those of the newest mark, consistent or not.
///
/// @param pmem     the file
/// @param scalars  gets them; NULL for their number alone
/// @param room     how many it has room for; 5 are enough
/// @return how many scalars its mark has; 0 also if there is no such iteration, or a checkpoint has
///         it; VELOC_FAILURE if the file is NULL
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or an open file; `scalars` is NULL or has so much room.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_scalars(
    pmem: *const VELOC_Pmem,
    scalars: *mut f64,
    room: c_int,
) -> c_int {
    let mut number = 0;
    let done = status("VELOC_Pmem_scalars", || {
        // SAFETY: the caller's promise.
        let found = unsafe { opened(pmem) }?.iterations.file().scalars();
        let room = if scalars.is_null() { 0 } else { usize::try_from(room).unwrap_or(0) };
        for (nth, scalar) in found.iter().enumerate().take(room) {
            // SAFETY: within the room, by the caller's promise.
            unsafe { scalars.add(nth).write(*scalar) };
        }
        number = found.len() as c_int;
        Ok(())
    });
    if done == super::VELOC_SUCCESS {
        number
    } else {
        done
    }
}

/// Gives the iterations that the last search has tried, the newest first.
///
/// @param pmem   the file
/// @param tried  gets them; NULL for their number alone
/// @param room   how many it has room for
/// @return how many were tried; VELOC_FAILURE if the file is NULL
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or an open file; `tried` is NULL or has so much room.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_report(
    pmem: *const VELOC_Pmem,
    tried: *mut VELOC_Tried,
    room: c_int,
) -> c_int {
    let mut number = 0;
    let done = status("VELOC_Pmem_report", || {
        // SAFETY: the caller's promise.
        let iterations = &unsafe { opened(pmem) }?.iterations;
        let room = if tried.is_null() { 0 } else { usize::try_from(room).unwrap_or(0) };
        number = iterations.report(|report| {
            for (nth, one) in report.iter().enumerate().take(room) {
                let said = VELOC_Tried {
                    iteration: one.iteration as i64,
                    answer: match one.answer {
                        InvariantAnswer::Holds => VELOC_INVARIANT_HOLDS,
                        InvariantAnswer::Unknown => VELOC_INVARIANT_UNKNOWN,
                        InvariantAnswer::Fails => VELOC_INVARIANT_FAILS,
                    },
                    invariant: one.invariant.as_ptr(),
                };
                // SAFETY: within the room, by the caller's promise.
                unsafe { tried.add(nth).write(said) };
            }
            report.len() as c_int
        });
        Ok(())
    });
    if done == super::VELOC_SUCCESS {
        number
    } else {
        done
    }
}

/// Forgets all marks, so that iterations begin anew. The arrays keep their content.
///
/// @param pmem  the file
/// @return VELOC_SUCCESS; VELOC_FAILURE if it is NULL
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or an open file.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_forget(pmem: *mut VELOC_Pmem) -> c_int {
    status("VELOC_Pmem_forget", || {
        refuse_within_callbacks()?;
        // SAFETY: the caller's promise.
        unsafe { opened(pmem) }?.iterations.file().go_back(None)
    })
}

/// Finds what is newer: the newest consistent iteration, or the newest checkpoint of a name. The
/// versions of that name must be numbers of iterations. Needs a job. Collective under MPI: it finds
/// what all processes have.
///
/// @param pmem       the file
/// @param name       the name of the checkpoints
/// @param iteration  gets the iteration after which to go on; -1: nothing was marked yet, and there
///                   is no checkpoint
/// @param version    gets -1 if the arrays have the iteration, as after VELOC_Pmem_recover; else
///                   the checkpoint that the application restores by VELOC_Restart. In that case
///                   all marks are forgotten, and the application fills the arrays
/// @return VELOC_SUCCESS; VELOC_FAILURE if the search failed, or no iteration is consistent and
///         there is no checkpoint, here or, under MPI, on another process; then nothing is changed
///
/// Source: an addition of this library.
///
/// # Safety
/// `pmem` is NULL or an open file; `name` is NULL or a string that ends with NUL; `iteration` and
/// `version` are NULL or have room for a number.
#[no_mangle]
pub unsafe extern "C" fn VELOC_Pmem_restart(
    pmem: *mut VELOC_Pmem,
    name: *const c_char,
    iteration: *mut i64,
    version: *mut c_int,
) -> c_int {
    status("VELOC_Pmem_restart", || {
        // A process that cannot search takes part all the same: the others wait for it.
        // SAFETY: the caller's promise.
        let (mine, name) = unsafe { (opened(pmem), string("name", name)) };
        let wrong = iteration.is_null() || version.is_null();
        let able = match wrong {
            true => Err(Error::invalid("iteration or version is NULL")),
            false => mine.clone().and(name.clone().map(drop)),
        };
        if let Ok(pmem) = &mine {
            pmem.iterations.begin();
        }
        let (found, checkpoint) = with_client(|client| {
            let newest = |bound| mine.clone().and_then(|pmem| pmem.iterations.newest(bound));
            let neither = || mine.clone().and_then(|pmem| pmem.iterations.check_new());
            client.search().newest_of_arrays(name.unwrap_or_default(), able, newest, neither)
        })?;
        let (newest, restored) = match mine?.iterations.go_on(found, checkpoint.map(i64::from))? {
            Newest::Nothing => (-1, -1),
            Newest::Here(iteration) => (iteration, -1),
            Newest::Elsewhere(iteration) => (iteration, checkpoint.unwrap_or(-1)),
        };
        // SAFETY: not NULL; the rest is the caller's promise.
        unsafe {
            iteration.write(newest);
            version.write(restored);
        }
        Ok(())
    })
}

impl Asked {
    fn answer(&self, mark: &IterationMark) -> Result<InvariantAnswer> {
        let IterationMark { iteration, scalars } = mark;
        let answer = call_back(|| {
            // SAFETY: the application's promise of VELOC_Pmem_invariant; the scalars are there for the call.
            unsafe {
                (self.function)(
                    *iteration as i64,
                    scalars.as_ptr(),
                    scalars.len() as c_int,
                    self.context,
                )
            }
        });
        match answer {
            VELOC_INVARIANT_HOLDS => Ok(InvariantAnswer::Holds),
            VELOC_INVARIANT_FAILS => Ok(InvariantAnswer::Fails),
            VELOC_INVARIANT_UNKNOWN => Ok(InvariantAnswer::Unknown),
            _ => Err(Error::invalid(format!(
                "the invariant \"{}\" answered {answer} for iteration {iteration}; it must answer 1 (holds), 0 \
                 (fails) or -1 (unknown)",
                self.name
            ))),
        }
    }
}
