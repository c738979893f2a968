//! Calls that complete requests. What a request received is logged here, wherever it began.

use std::ffi::c_int;

use super::again::Counted;
use super::completion_outside::complete_outside;
use super::{outside, with, At, SUCCESS};
use crate::divergence;
use crate::log::{Call, Item, Items, Outcome, Payload, Position, Shape};
use crate::parts::Source;
use crate::pmpi::Ptr;
use crate::requests::{Life, Request};
use crate::resend::streams::Link;
use crate::state::State;
use crate::status::Status;
use crate::target::Target;

/// The index of what was completed under the handle of another request.
const ALIKE: c_int = c_int::MIN;

/// What a call completes of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The only one: `MPI_Wait`, `MPI_Test`.
    One,
    /// The only one, which stays: `MPI_Request_get_status`.
    Look,
    /// One of several.
    Any,
    /// All or none.
    All,
    /// Those that are done.
    Some,
}

/// The arguments of such a call; null where it has none.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The function.
    pub call: Call,
    /// What it completes.
    pub kind: Kind,
    /// The requests.
    pub requests: Ptr,
    /// How many.
    pub count: c_int,
    /// The flag.
    pub flag: *mut c_int,
    /// The index, or how many are completed.
    pub number: *mut c_int,
    /// The indices of those.
    pub indices: *mut c_int,
    /// The status or statuses, which may be ignored.
    pub statuses: Ptr,
}

impl Completion {
    /// Of a call without any of them.
    pub fn new(call: Call, kind: Kind, requests: Ptr, count: c_int, statuses: Ptr) -> Completion {
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

    fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// Whether it gives an array of statuses.
    fn has_many(&self) -> bool {
        matches!(self.kind, Kind::All | Kind::Some)
    }

    /// Says that it has done nothing. MPI may leave that as it is when it fails.
    ///
    /// # Safety
    /// The places are the application's.
    unsafe fn say_nothing(&self, undefined: c_int) {
        let nothing = if self.kind == Kind::Any { undefined } else { 0 };
        for (place, nothing) in [(self.flag, 0), (self.number, nothing)] {
            if !place.is_null() {
                // SAFETY: by the caller's promise.
                unsafe { place.write(nothing) };
            }
        }
    }

    /// What the call says of how much it did: its flag, and its index or count.
    ///
    /// # Safety
    /// It has returned.
    unsafe fn said(&self) -> (c_int, c_int) {
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
    /// It has returned.
    pub(super) unsafe fn completed(&self, undefined: c_int) -> Completed<'_> {
        // SAFETY: by the caller's promise.
        let (flag, number) = unsafe { self.said() };
        match self.kind {
            _ if flag == 0 => Completed::None,
            Kind::One | Kind::Look => Completed::One(0),
            // No request was active, and the status says so; or it has failed.
            Kind::Any if number == undefined => Completed::One(-1),
            Kind::Any => Completed::One(number),
            Kind::All => Completed::All(self.count),
            Kind::Some if number == undefined || number <= 0 => Completed::None,
            // SAFETY: by the caller's promise, MPI has written that many.
            Kind::Some => Completed::Some(unsafe {
                std::slice::from_raw_parts(self.indices, number as usize)
            }),
        }
    }
}

/// Indices.
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

/// Handles that need no allocation.
const FEW: usize = 16;

/// The handles of a call before MPI changes them.
pub(super) enum Handles {
    Few([usize; FEW], usize),
    Many(Vec<usize>),
}

impl Handles {
    /// # Safety
    /// As for [`complete`].
    pub(super) unsafe fn read(state: &State, call: &Completion) -> Handles {
        // SAFETY: as many handles as the call says, by the promise of `complete`.
        let nth = |n| unsafe { state.mpi.read_handle(state.mpi.nth_handle(call.requests, n)) };
        let len = call.len();
        if len > FEW {
            return Handles::Many((0..len).map(nth).collect());
        }
        let mut few = [0; FEW];
        for (n, handle) in few[..len].iter_mut().enumerate() {
            *handle = nth(n);
        }
        Handles::Few(few, len)
    }

    pub(super) fn as_slice(&self) -> &[usize] {
        match self {
            Handles::Few(few, len) => &few[..*len],
            Handles::Many(handles) => handles,
        }
    }

    pub(super) fn get(&self, n: usize) -> Option<usize> {
        self.as_slice().get(n).copied()
    }
}

/// Places for statuses that the application does not want.
#[derive(Default)]
pub(super) struct Statuses {
    one: Status,
    many: Vec<Status>,
}

impl Statuses {
    /// Where MPI is to write the status or statuses.
    pub(super) fn place(&mut self, state: &State, call: &Completion) -> Ptr {
        let numbers = state.mpi.numbers;
        let ignored = if call.has_many() { numbers.statuses_ignore } else { numbers.status_ignore };
        match (call.statuses as usize == ignored, call.has_many()) {
            (false, _) => call.statuses,
            (true, false) => self.one.as_mut_ptr(),
            (true, true) => {
                self.many.resize(call.len() + 1, Status::default());
                self.many.as_mut_ptr().cast()
            }
        }
    }
}

/// Whether a call that returned this may have completed requests.
fn has_completed(state: &State, call: &Completion, code: c_int) -> bool {
    let is_one = matches!(call.kind, Kind::One | Kind::Any);
    code == SUCCESS || is_one || code == state.mpi.numbers.err_in_status
}

/// Whether a request with this status, completed by a call that returned this, has failed.
fn has_failed(state: &State, code: c_int, status: &Status) -> bool {
    match code == state.mpi.numbers.err_in_status {
        true => status.error(&state.mpi) != SUCCESS,
        false => code != SUCCESS,
    }
}

/// A call that completes requests. `real` gets the place for the status or statuses.
///
/// # Safety
/// As MPI says of the call.
#[inline(always)]
pub unsafe fn complete(at: At, call: &Completion, real: impl FnOnce(Ptr) -> c_int) -> c_int {
    if at == At::Outside {
        // SAFETY: no part is open; and by the caller's promise.
        return unsafe { outside(|state| complete_outside(state, call, real)) };
    }
    with(|state| {
        let shape = Shape::of_requests(call.call, i64::from(call.count));
        match state.source() {
            // SAFETY: by the caller's promise.
            Source::Mpi => unsafe { record(state, shape, call, real) },
            // SAFETY: as above.
            Source::Log => unsafe { replay(state, shape, call) },
        }
    })
}

/// # Safety
/// As for [`complete`].
unsafe fn record(
    state: &mut State,
    shape: Shape,
    call: &Completion,
    real: impl FnOnce(Ptr) -> c_int,
) -> c_int {
    // SAFETY: by the caller's promise.
    let before = unsafe { Handles::read(state, call) };
    if let Some(of) = before.as_slice().iter().find_map(|&handle| state.foreign(handle)) {
        return super::refuse_on(state, call.call, of);
    }
    let mut own = Statuses::default();
    let statuses = own.place(state, call);
    // SAFETY: by the caller's promise.
    unsafe { call.say_nothing(state.mpi.numbers.undefined) };
    let code = real(statuses);
    let mut outcome = Outcome::of(code);
    // SAFETY: the call has returned.
    (outcome.number, outcome.index) = unsafe { call.said() };
    if has_completed(state, call, code) {
        // SAFETY: as above.
        let completed = unsafe { call.completed(state.mpi.numbers.undefined) };
        let item = |n: usize| {
            let index = completed.get(n);
            // SAFETY: MPI has written a status for each that it has completed.
            let status = unsafe { Status::read(&state.mpi, state.mpi.nth_status(statuses, n)) };
            let failed = has_failed(state, code, &status);
            // SAFETY: as above.
            unsafe { ended(state, call, &before, index, status, failed) }
        };
        outcome.items = match completed.len() {
            0 => Items::None,
            1 => Items::One({ item }(0)),
            len => Items::Many((0..len).map(item).collect()),
        };
        // SAFETY: MPI has completed what these handles are of.
        unsafe { add_alike(state, &before, &mut outcome.items) };
    }
    state.parts.record(shape, outcome);
    code
}

/// A request that MPI has completed.
struct Done {
    /// It is persistent.
    stays: bool,
    /// What was known of it.
    request: Option<Request>,
    /// It has received nothing that could be kept.
    is_void: bool,
    /// The message that it has received, if it can be sent again.
    link: Option<Link>,
}

/// A request was completed: it is counted, and gone unless it is persistent.
///
/// # Safety
/// As for [`complete`].
unsafe fn request_done(
    state: &mut State,
    call: &Completion,
    before: &Handles,
    index: c_int,
    status: &Status,
    failed: bool,
) -> Option<Done> {
    let n = usize::try_from(index).ok()?;
    let handle = before.get(n)?;
    let place = state.mpi.nth_handle(call.requests, n);
    // SAFETY: by the caller's promise.
    let after = unsafe { state.mpi.read_handle(place) };
    let stays = after != state.mpi.request_null;
    let known = match stays {
        true => state.requests.get(handle).cloned(),
        false => state.gone(handle, place),
    };
    let Some(known) = known.filter(|request| request.life == Life::Real) else {
        return Some(Done { stays, request: None, is_void: true, link: None });
    };
    let is_cancelled = known.cancelled && status.is_cancelled();
    let mut link = None;
    if call.kind == Kind::Look {
        // It is completed by another call.
    } else if is_cancelled {
        state.is_cancelled(&known.counted);
    } else {
        link = state.is_done(&known.counted, Some(status), failed);
    }
    if stays && call.kind != Kind::Look {
        if let Some(request) = state.requests.get_mut(handle) {
            request.counted = Counted::Nothing;
            request.active = false;
        }
    }
    let is_void = failed || is_cancelled;
    Some(Done { stays, request: Some(known), is_void, link })
}

/// Adds to what was completed the data of other requests with the same handles: they are done too,
/// and which of them the call was made for cannot be told.
///
/// # Safety
/// As for [`complete`].
unsafe fn add_alike(state: &mut State, before: &Handles, items: &mut Items) {
    let mut alike = Vec::new();
    for item in items.as_slice() {
        let handle = usize::try_from(item.index).ok().and_then(|n| before.get(n));
        let Some(handle) = handle.filter(|_| !item.persistent) else { continue };
        for (began, target) in state.requests.take_alike(handle) {
            // SAFETY: by the caller's promise.
            let mut other = unsafe { state.received(&target, None) };
            (other.began, other.index) = (began, ALIKE);
            alike.push(other);
        }
    }
    if !alike.is_empty() {
        let own = match std::mem::replace(items, Items::None) {
            Items::None => Vec::new(),
            Items::One(item) => vec![item],
            Items::Many(items) => items.into_vec(),
        };
        *items = Items::Many(own.into_iter().chain(alike).collect());
    }
}

/// One request that MPI has completed.
///
/// # Safety
/// As for [`complete`].
unsafe fn ended(
    state: &mut State,
    call: &Completion,
    before: &Handles,
    index: c_int,
    status: Status,
    failed: bool,
) -> Item {
    let nothing = |stays| {
        let mut item = Item::new(status, Target::Nothing, Payload::default());
        (item.index, item.persistent) = (index, stays);
        item
    };
    // SAFETY: by the caller's promise.
    let done = unsafe { request_done(state, call, before, index, &status, failed) };
    let Some(Done { stays, request: known, is_void, link }) = done else {
        return nothing(true);
    };
    let Some(known) = known else {
        return nothing(stays);
    };
    let target = if is_void { Target::Nothing } else { known.target };
    let message = known.is_message.then_some(&status);
    // SAFETY: MPI has completed the request.
    let mut item = unsafe { state.received(&target, message) };
    state.lost_on(known.shape.comm);
    item.status = status;
    item.index = index;
    item.began = known.began;
    item.persistent = stays;
    item.link = link;
    item
}

/// # Safety
/// As for [`complete`].
unsafe fn replay(state: &mut State, shape: Shape, call: &Completion) -> c_int {
    let at = match state.parts.next(&shape) {
        Ok(at) => at,
        Err(divergence) => return divergence::stop(state, &shape, &divergence),
    };
    let first = state.parts.replayed_since();
    // SAFETY: by the caller's promise.
    let code = unsafe { come_again(state, call, at, first) };
    if code != SUCCESS {
        return code;
    }
    let Some(event) = state.parts.event(at) else { return SUCCESS };
    let outcome = &event.outcome;
    let write = |to: *mut c_int, value| {
        if !to.is_null() {
            // SAFETY: the application's, by the caller's promise.
            unsafe { to.write(value) };
        }
    };
    write(call.flag, outcome.number);
    write(call.number, outcome.index);
    let code = outcome.code;
    let (mut done, mut rest) = (Vec::new(), Vec::new());
    let mut wrong = None;
    for (n, item) in outcome.items.as_slice().iter().enumerate() {
        if item.index == ALIKE {
            let target = state.requests.target_alike(item.began).filter(|_| item.began > first);
            // SAFETY: the application's memory, by the caller's promise.
            if let Err(text) = unsafe { state.give(item, target) } {
                wrong = Some(format!("{}: {text}", shape.call.0));
                break;
            }
            continue;
        }
        let index = usize::try_from(item.index).ok();
        if let (Kind::Some, Some(_)) = (call.kind, index) {
            // SAFETY: the application has room for as many indices as requests.
            unsafe { call.indices.add(n).write(item.index) };
        }
        // SAFETY: by the caller's promise.
        unsafe { give_status(state, call, n, &item.status) };
        let Some(place) = index.map(|index| state.mpi.nth_handle(call.requests, index)) else {
            continue;
        };
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(place) };
        // Begun in this part, and so in this replay; otherwise the handle is none any more, whatever
        // has it now.
        let own = state.requests.get(handle).filter(|_| item.began > first);
        let is_other = own.is_none_or(|own| own.began != item.began);
        let alike = match item.began > first && is_other {
            true => state.requests.target_alike(item.began),
            false => None,
        };
        if item.began > first && is_other && alike.is_none() && !item.payload.is_empty() {
            wrong = Some(format!(
                "request {} of {} is not the one that was completed in the first run",
                item.index, shape.call.0
            ));
            break;
        }
        // A replay looks at the types of what it begins at once.
        let target = own.filter(|_| !is_other).map(|own| &own.target).or(alike);
        // SAFETY: the application's memory, by the caller's promise.
        if let Err(text) = unsafe { state.give(item, target) } {
            wrong = Some(format!("request {} of {}: {text}", item.index, shape.call.0));
            break;
        }
        if !item.persistent {
            done.push((place, own.is_some().then_some(handle)));
        } else if own.is_some() && call.kind != Kind::Look {
            rest.push(handle);
        }
    }
    for handle in rest {
        if let Some(request) = state.requests.get_mut(handle) {
            request.active = false;
        }
    }
    for (place, handle) in done {
        if let Some(handle) = handle {
            state.give_back(handle);
        }
        // SAFETY: the application's request, by the caller's promise.
        unsafe { state.mpi.write_handle(place, state.mpi.request_null) };
    }
    match wrong {
        Some(text) => divergence::broken(state, &shape, &text),
        None => code,
    }
}

/// Waits for messages that are sent or received again by requests that the call completed in the
/// first run.
///
/// # Safety
/// As for [`complete`].
unsafe fn come_again(state: &mut State, call: &Completion, at: Position, first: u64) -> c_int {
    let Some(event) = state.parts.event(at) else { return SUCCESS };
    let mut coming = Vec::new();
    for (n, item) in event.outcome.items.as_slice().iter().enumerate() {
        let Ok(index) = usize::try_from(item.index) else { continue };
        // SAFETY: by the caller's promise.
        let handle = unsafe { state.mpi.read_handle(state.mpi.nth_handle(call.requests, index)) };
        let own = state.requests.get(handle);
        let Some(own) = own.filter(|own| item.began > first && own.began == item.began) else {
            continue;
        };
        if let Some(again) = own.again {
            coming.push((n, handle, again, own.target.clone()));
        }
    }
    for (n, handle, again, target) in coming {
        let code = state.wait_again(again);
        if code != SUCCESS {
            return code;
        }
        if let Some(request) = state.requests.get_mut(handle) {
            request.again = None;
        }
        // SAFETY: MPI has completed the request.
        unsafe { state.keep_again(at, n, &target) };
    }
    SUCCESS
}

/// Writes the status of the `n`th completed request where the application wants it.
///
/// # Safety
/// As for [`complete`].
unsafe fn give_status(state: &State, call: &Completion, n: usize, status: &Status) {
    let mpi = &state.mpi;
    // SAFETY: by the caller's promise.
    unsafe {
        if !call.has_many() {
            status.write(mpi, call.statuses);
        } else if call.statuses as usize != mpi.numbers.statuses_ignore {
            status.write_all(mpi, mpi.nth_status(call.statuses, n));
        }
    }
}
