//! The arguments of calls that complete requests, and the results that such a call has written.

use std::ffi::c_int;

use message_log_core::log::Call;

use crate::pmpi::Ptr;

/// How many of its requests a call completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompletionKind {
    /// The call's only request: `MPI_Wait`, `MPI_Test`.
    One,
    /// No request, the call only tests one: `MPI_Request_get_status`.
    GetStatus,
    /// One of several requests.
    Any,
    /// All or none.
    All,
    /// The requests that have completed.
    Some,
}

/// The arguments of such a call; null for those that it does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The function.
    pub call: Call,
    /// The kind of completion.
    pub kind: CompletionKind,
    /// The requests.
    pub requests: Ptr,
    /// How many.
    pub count: c_int,
    /// The flag.
    pub flag: *mut c_int,
    /// The index of the completed request, or the number of completed ones.
    pub number: *mut c_int,
    /// The indices of the completed requests.
    pub indices: *mut c_int,
    /// The status or statuses, which may be ignored.
    pub statuses: Ptr,
}

impl Completion {
    /// Arguments with null for all optional ones.
    pub(crate) fn new(
        call: Call,
        kind: CompletionKind,
        requests: Ptr,
        count: c_int,
        statuses: Ptr,
    ) -> Completion {
        let null = std::ptr::null_mut();
        Completion {
            call,
            kind,
            requests,
            count,
            flag: null,
            number: null,
            indices: null,
            statuses,
        }
    }

    pub(super) fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// Whether the call fills an array of statuses.
    pub(super) fn has_many(&self) -> bool {
        matches!(self.kind, CompletionKind::All | CompletionKind::Some)
    }

    /// Initialises the outputs as if nothing had completed: MPI may leave them unset when it fails.
    ///
    /// # Safety
    /// The pointers are those that the application passed.
    pub(super) unsafe fn clear_outputs(&self, undefined: c_int) {
        let nothing = if self.kind == CompletionKind::Any { undefined } else { 0 };
        for (place, nothing) in [(self.flag, 0), (self.number, nothing)] {
            if !place.is_null() {
                // SAFETY: by the caller's promise.
                unsafe { place.write(nothing) };
            }
        }
    }

    /// The outputs of the call: its flag, and its index or count.
    ///
    /// # Safety
    /// The call has returned.
    pub(super) unsafe fn flag_and_number(&self) -> (c_int, c_int) {
        let read = |from: *mut c_int, default| match from.is_null() {
            true => default,
            // SAFETY: the application's, by the caller's promise.
            false => unsafe { from.read() },
        };
        (read(self.flag, 1), read(self.number, 0))
    }

    /// The indices of the requests that it completed.
    ///
    /// # Safety
    /// The call has returned.
    pub(super) unsafe fn completed(&self, undefined: c_int) -> Completed<'_> {
        // SAFETY: by the caller's promise.
        let (flag, number) = unsafe { self.flag_and_number() };
        match self.kind {
            _ if flag == 0 => Completed::None,
            CompletionKind::One | CompletionKind::GetStatus => Completed::One(0),
            // Either no request was active, which the status tells, or the call failed.
            CompletionKind::Any if number == undefined => Completed::One(-1),
            CompletionKind::Any => Completed::One(number),
            CompletionKind::All => Completed::All(self.count),
            CompletionKind::Some if number == undefined || number <= 0 => Completed::None,
            // SAFETY: by the caller's promise, MPI has written this number of indices.
            CompletionKind::Some => Completed::Some(unsafe {
                std::slice::from_raw_parts(self.indices, number as usize)
            }),
        }
    }
}

/// The indices of completed requests.
pub(super) enum Completed<'a> {
    None,
    One(c_int),
    All(c_int),
    Some(&'a [c_int]),
}

impl Completed<'_> {
    pub(super) fn len(&self) -> usize {
        match self {
            Completed::None => 0,
            Completed::One(_) => 1,
            Completed::All(count) => *count as usize,
            Completed::Some(indices) => indices.len(),
        }
    }

    pub(super) fn get(&self, n: usize) -> c_int {
        match self {
            Completed::None => -1,
            Completed::One(index) => *index,
            Completed::All(_) => n as c_int,
            Completed::Some(indices) => indices.get(n).copied().unwrap_or(-1),
        }
    }
}
