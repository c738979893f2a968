//! The host buffer: one mapping, whose pages are touched and registered in the background.
//!
//! Which bytes hold which checkpoint is the catalog's business, and which of its memory is touched
//! and registered is kept in `pages`. Here is the memory itself, and the waiting. Checkpoints are
//! written to touched and untouched pages from the first moment; touching keeps what a page holds,
//! so neither needs to know of the other.
//!
//! A copy by the device uses chunks that are registered, and crosses no border between them; until
//! then the processor moves the bytes.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use super::pages::{Chunks, Pages};
use crate::space::Extent;
use os::error::{Error, Kind, Result};
use os::mapping::{self, supports_populate, Mapping};
use os::memory;
use os::sync::{Condvar, Mutex};
use policy::register::{Next, Pin};
use policy::touch;

pub use super::pages::TOUCH_UNIT;

/// Allocation unit of the host buffer in bytes.
pub const GRANULE: u64 = 512;

#[derive(Debug)]
struct Guarded {
    pages: Pages,
    stopping: bool,
}

/// How pages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchMethod {
    /// The kernel populates a unit in one call.
    Populate,
    /// One write for each page of this many bytes.
    Write(usize),
}

impl TouchMethod {
    /// The one for this system, where none is asked for.
    pub fn here() -> TouchMethod {
        match touch::touch_method(supports_populate(), memory::commits_strictly()) {
            touch::TouchMethod::Populate => TouchMethod::Populate,
            touch::TouchMethod::Write => TouchMethod::Write(memory::page_size()),
        }
    }
}

/// The host buffer's memory.
#[derive(Debug)]
pub struct HostBuffer {
    len: u64,
    chunks: Chunks,
    mapping: Mapping,
    /// The system may refuse a page, and would end whoever writes to it.
    refuses: OnceLock<bool>,
    guarded: Mutex<Guarded>,
    changed: Condvar,
    /// There is more to touch. Apart from the other, which each copy wakes up while pages are missing.
    needed: Condvar,
}

/// What those who touch find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A unit without pages, which is theirs.
    Unit(Range<u64>),
    /// All that is needed for now has its pages, or is being given them.
    Enough,
    /// All have their pages or are claimed, or [`HostBuffer::stop`] was called.
    Nothing,
}

impl HostBuffer {
    /// Reserves `bytes` of addresses; registration will go by `chunk` bytes. Touches nothing.
    pub fn reserve(bytes: u64, chunk: u64, huge_pages: bool) -> Result<HostBuffer> {
        let mapping = Mapping::reserve(bytes as usize)?;
        Ok(HostBuffer::over(mapping, chunk, huge_pages))
    }

    /// The same over memory that is mapped already.
    pub fn over(mapping: Mapping, chunk: u64, huge_pages: bool) -> HostBuffer {
        if let Err(error) = mapping.advise_huge(huge_pages) {
            log::warn!("the host buffer goes without huge pages: {error}");
        }
        if let Err(error) = mapping.dont_fork() {
            log::warn!("the host buffer is copied into forked processes: {error}");
        }
        let len = mapping.len() as u64;
        let pages = Pages::new(len, chunk);
        HostBuffer {
            len,
            chunks: pages.layout(),
            refuses: match mapping.kind() {
                mapping::Kind::SharedHuge => OnceLock::from(true),
                mapping::Kind::Private | mapping::Kind::Shared => OnceLock::new(),
            },
            mapping,
            guarded: Mutex::new(Guarded { pages, stopping: false }),
            changed: Condvar::new(),
            needed: Condvar::new(),
        }
    }

    /// It has pages as far as they are needed ([`policy::prefault`]), until [`HostBuffer::want_all`].
    pub fn by_need(self) -> HostBuffer {
        self.guarded.lock().pages.go_by_need();
        self
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// It is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The mapping, to bind it to a node of memory.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// The address of a byte.
    pub fn address(&self, offset: u64) -> *mut u8 {
        debug_assert!(offset <= self.len);
        // SAFETY: callers name bytes of extents, which lie within the mapping.
        unsafe { self.mapping.base().as_ptr().add(offset as usize) }
    }

    // ---- touching ------------------------------------------------------------------------

    /// Claims the next unit that has no pages yet, in ascending order. Where copies are making all
    /// that are missing, waits for them: should one fail, its units are to be touched.
    pub fn claim(&self) -> Claim {
        let mut guarded = self.guarded.lock();
        loop {
            if guarded.stopping {
                return Claim::Nothing;
            }
            if let Some(unit) = guarded.pages.claim() {
                return Claim::Unit(unit);
            }
            if guarded.pages.has_enough() {
                return Claim::Enough;
            }
            if !guarded.pages.is_being_written() {
                return Claim::Nothing;
            }
            guarded = self.changed.wait(guarded);
        }
    }

    /// Waits until more is needed than has its pages, or [`HostBuffer::stop`] is called. Where there may be
    /// pages to give back, at most for `time`; then true.
    pub fn await_need(&self, time: Duration) -> bool {
        let mut guarded = self.guarded.lock();
        while !guarded.stopping && guarded.pages.has_enough() {
            if guarded.pages.surplus(0) > 0 {
                guarded = self.needed.wait_for(guarded, time);
                return !guarded.stopping && guarded.pages.has_enough();
            }
            guarded = self.needed.wait(guarded);
        }
        false
    }

    /// So many bytes are held.
    pub fn hold(&self, bytes: u64) {
        self.learn(|pages| pages.hold(bytes));
    }

    /// How many bytes of pages are to go back, where at most `held` were held for a while.
    pub fn surplus(&self, held: u64) -> u64 {
        match self.mapping.kind() {
            // They were set aside, and are nobody else's.
            mapping::Kind::SharedHuge => 0,
            mapping::Kind::Private | mapping::Kind::Shared => {
                self.guarded.lock().pages.surplus(held)
            }
        }
    }

    /// The last unit with idle pages within these bytes, which hold nothing ([`Pages::last_idle`]).
    pub fn last_idle(&self, bytes: Range<u64>) -> Option<Range<u64>> {
        self.guarded.lock().pages.last_idle(bytes)
    }

    /// Gives the pages of a unit from [`HostBuffer::last_idle`] back to the system. Its bytes must hold
    /// nothing, and nobody may write there meanwhile. False: it has kept them.
    pub fn give_back(&self, unit: &Range<u64>) -> Result<bool> {
        if !self.giving_back(unit) {
            return Ok(false);
        }
        let discarded = self.mapping.discard(unit.start as usize..unit.end as usize);
        self.given_back(unit);
        discarded.map(|()| true)
    }

    /// From here on nobody touches the unit or registers its chunk. False: it is to keep its pages.
    pub(crate) fn giving_back(&self, unit: &Range<u64>) -> bool {
        self.guarded.lock().pages.giving_back(unit)
    }

    /// Its pages are gone.
    pub(crate) fn given_back(&self, unit: &Range<u64>) {
        self.change(|pages| pages.given_back(unit));
    }

    /// A checkpoint may have so many bytes.
    pub fn expect(&self, bytes: u64) {
        self.learn(|pages| pages.expect(bytes));
    }

    /// All of it is to be touched.
    pub fn want_all(&self) {
        self.learn(Pages::want_all);
    }

    /// The same of its first `bytes`, in whole chunks; gives how many bytes these have. What lies behind them
    /// stays without pages.
    pub fn want_first(&self, bytes: u64) -> u64 {
        let mut whole = 0;
        self.learn(|pages| {
            let (first, more) = pages.want_first(bytes);
            whole = first;
            more
        });
        whole
    }

    fn learn(&self, learn: impl FnOnce(&mut Pages) -> bool) {
        let more = learn(&mut self.guarded.lock().pages);
        if more {
            self.needed.notify_all();
        }
    }

    /// Makes the pages of a claimed unit.
    pub fn touch(&self, unit: &Range<u64>, method: TouchMethod) -> Result<()> {
        let bytes = unit.start as usize..unit.end as usize;
        match method {
            TouchMethod::Populate => self.mapping.populate(bytes)?,
            TouchMethod::Write(page) => self.mapping.touch(bytes, page)?,
        }
        self.change(|pages| pages.touched(unit.clone()));
        Ok(())
    }

    /// A copy is about to write there and makes the pages: touching leaves them to it. To be
    /// followed by [`HostBuffer::written`] or [`HostBuffer::not_written`].
    pub fn writing(&self, extents: &[Extent]) {
        self.learn(|pages| pages.writing(extents));
    }

    /// Makes the pages of these bytes, which the processor is about to write, where the system may
    /// refuse one (`vm.overcommit_memory = 2`, or a control group of pages that were set aside as huge
    /// ones): a write would end the process. Elsewhere does nothing.
    ///
    /// # Errors
    /// [`Kind::NoRoom`] if the system refuses.
    pub fn ensure(&self, extents: &[Extent]) -> Result<()> {
        if !self.may_be_refused_pages() {
            return Ok(());
        }
        extents.iter().try_for_each(|extent| {
            let bytes = extent.offset as usize..(extent.offset + extent.len) as usize;
            self.mapping.populate(bytes).map_err(|error| {
                let what = "the system refuses memory for the host buffer";
                Error::new(Kind::NoRoom, format!("{what}: {error}"))
            })
        })
    }

    /// Whether the system may refuse a page.
    fn may_be_refused_pages(&self) -> bool {
        *self.refuses.get_or_init(|| memory::commits_strictly() && supports_populate())
    }

    /// How its pages are made, where no way is asked for.
    pub fn touch_method(&self) -> TouchMethod {
        match self.may_be_refused_pages() {
            true => TouchMethod::Populate,
            false => TouchMethod::here(),
        }
    }

    /// As on a system that may refuse a page.
    #[cfg(any(test, feature = "tests"))]
    pub fn may_be_refused(self) -> HostBuffer {
        HostBuffer { refuses: OnceLock::from(true), ..self }
    }

    /// The copy has failed: touching comes back for what it has not written.
    pub fn not_written(&self, extents: &[Extent]) {
        self.change(|pages| pages.not_written(extents));
        self.needed.notify_all();
    }

    /// Bytes were written there, so their pages exist. Units that are wholly covered count as
    /// touched.
    pub fn written(&self, extents: &[Extent]) {
        let mut guarded = self.guarded.lock();
        if guarded.pages.all_touched() && !guarded.pages.is_being_written() {
            return;
        }
        guarded.pages.written(extents);
        drop(guarded);
        self.changed.notify_all();
    }

    /// How many of these bytes lie in units without pages.
    pub fn untouched(&self, extents: &[Extent]) -> u64 {
        self.guarded.lock().pages.untouched(extents)
    }

    /// What has no pages yet will not be touched: only the rest is to be registered.
    pub fn give_up(&self) {
        self.change(Pages::give_up);
    }

    /// Whether those who touch rest, as memory is short.
    pub fn rest(&self, resting: bool) {
        self.change(|pages| pages.rest(resting));
    }

    /// Waits for `time`, or until something more is needed. False: [`HostBuffer::stop`] was called.
    pub fn await_memory(&self, time: Duration) -> bool {
        let guarded = self.guarded.lock();
        !guarded.stopping && !self.needed.wait_for(guarded, time).stopping
    }

    /// Every byte before this one has its page, or is being given it.
    pub fn front(&self) -> u64 {
        self.guarded.lock().pages.front()
    }

    /// Bytes that have their pages.
    pub fn touched_bytes(&self) -> u64 {
        self.guarded.lock().pages.touched_bytes()
    }

    /// Tells `tell` how many these are, while nobody can change it.
    pub fn with_touched(&self, tell: impl FnOnce(u64)) {
        tell(self.guarded.lock().pages.touched_bytes());
    }

    /// Bytes that are registered.
    pub fn registered_bytes(&self) -> u64 {
        self.guarded.lock().pages.registered_bytes()
    }

    // ---- registration --------------------------------------------------------------------

    /// The bytes of a chunk.
    pub fn chunk(&self, chunk: usize) -> Range<u64> {
        self.chunks.bytes(chunk)
    }

    /// Where the chunk of `offset` ends: no copy by the device goes beyond.
    pub fn chunk_end(&self, offset: u64) -> u64 {
        self.chunks.end(offset)
    }

    /// Whether there is a chunk to register now.
    pub fn has_registration(&self, pin: Pin) -> bool {
        matches!(self.guarded.lock().pages.next_registration(pin), Next::Register(_))
    }

    /// Waits until there is a chunk to register. `None`: nothing is left to register, or
    /// [`HostBuffer::stop`] was called.
    pub fn next_registration(&self, pin: Pin) -> Option<usize> {
        let mut guarded = self.guarded.lock();
        loop {
            if guarded.stopping {
                return None;
            }
            match guarded.pages.next_registration(pin) {
                Next::Done => return None,
                Next::Register(chunk) => return Some(chunk),
                Next::Wait => guarded = self.changed.wait(guarded),
            }
        }
    }

    /// The chunk is about to be registered. `None` if it is not to be after all.
    pub fn begin_registration(&self, chunk: usize) -> Option<Registration<'_>> {
        let begun = self.guarded.lock().pages.begin_registration(chunk);
        begun.then_some(Registration { buffer: self, chunk, registered: false })
    }

    /// Whether the device may copy straight to or from the chunk of `offset`: it is registered, and
    /// stays so.
    pub fn is_registered(&self, offset: u64) -> bool {
        self.guarded.lock().pages.is_registered(offset)
    }

    /// The chunks that are registered, each of which must be unregistered before the end.
    pub fn registered(&self) -> Vec<usize> {
        self.guarded.lock().pages.registered()
    }

    /// Ends waits for pages and chunks.
    pub fn stop(&self) {
        self.guarded.lock().stopping = true;
        self.changed.notify_all();
        self.needed.notify_all();
    }

    fn change(&self, how: impl FnOnce(&mut Pages)) {
        how(&mut self.guarded.lock().pages);
        self.changed.notify_all();
    }
}

/// A registration under way. If nobody has said what came of it when this is dropped, the driver counts
/// as having refused.
#[derive(Debug)]
pub struct Registration<'a> {
    buffer: &'a HostBuffer,
    chunk: usize,
    registered: bool,
}

impl Registration<'_> {
    /// Ends it: the chunk is registered, or the driver has refused.
    pub fn end(mut self, registered: bool) {
        self.registered = registered;
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.buffer.change(|pages| pages.registration_ended(self.chunk, self.registered));
    }
}

#[cfg(test)]
#[path = "host_buffer_tests.rs"]
mod tests;
