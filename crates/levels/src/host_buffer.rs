//! The host buffer: one mapping, whose pages are touched and registered in the background.
//!
//! Which bytes hold which checkpoint is the catalog's business, and which of its memory is touched
//! and registered is kept in `catalog::pages`. Here is the memory itself, and the waiting. Checkpoints are
//! written to touched and untouched pages from the first moment; touching keeps what a page holds,
//! so neither needs to know of the other.
//!
//! A copy by the device uses chunks that are registered, and crosses no border between them; until
//! then the processor moves the bytes.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use catalog::chunks::Chunks;
use catalog::pages::Pages;
use catalog::space::Extent;
use errors::{Error, ErrorKind, Result};
use os::mapping::{self, supports_populate, Mapping};
use os::memory;
use os::sync::{Condvar, Mutex};
use policy::register::{Pin, RegistrarStep};
use policy::touch;

pub use catalog::pages::TOUCH_UNIT;

#[derive(Debug)]
struct GuardedPages {
    pages: Pages,
    stopping: bool,
}

/// How pages are made: the two methods of touching.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TouchMethod {
    /// The kernel populates a unit in one call.
    Populate,
    /// One write for each page of this many bytes.
    Write(usize),
}

impl TouchMethod {
    /// The default method of this system.
    pub fn here() -> TouchMethod {
        match touch::touch_method(supports_populate(), memory::commits_strictly()) {
            touch::FaultMethod::Populate => TouchMethod::Populate,
            touch::FaultMethod::Write => TouchMethod::Write(memory::page_size()),
        }
    }
}

/// The host buffer's memory.
#[derive(Debug)]
pub struct HostBuffer {
    len: u64,
    chunks: Chunks,
    mapping: Mapping,
    /// Whether the system may refuse a page, and would end the process that writes to it.
    refuses: OnceLock<bool>,
    guarded: Mutex<GuardedPages>,
    changed: Condvar,
    /// There is more to touch. Not `changed`, which each copy wakes up while pages are missing.
    needed: Condvar,
}

/// What a touching thread finds to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// A unit without pages, which is the thread's to touch.
    Unit(Range<u64>),
    /// All units that are needed for now have pages, or are being given them. Some may go back.
    Enough,
    /// All units have pages or are claimed and keep them, or [`HostBuffer::stop`] was called.
    Nothing,
}

/// For fewer bytes, faults are as fast as a call.
const LEAST_MADE: u64 = 64 << 10;

impl HostBuffer {
    /// Reserves `bytes` of addresses; registration will go by `chunk` bytes. Touches nothing.
    pub fn reserve(bytes: u64, chunk: u64, huge_pages: bool) -> Result<HostBuffer> {
        let mapping = Mapping::reserve(bytes as usize)?;
        Ok(HostBuffer::over(mapping, chunk, huge_pages))
    }

    /// A host buffer over memory that is mapped already.
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
            chunks: pages.chunks().layout(),
            refuses: match mapping.kind() {
                mapping::MappingKind::SharedHuge => OnceLock::from(true),
                mapping::MappingKind::Private | mapping::MappingKind::Shared => OnceLock::new(),
            },
            mapping,
            guarded: Mutex::new(GuardedPages { pages, stopping: false }),
            changed: Condvar::new(),
            needed: Condvar::new(),
        }
    }

    /// Limits its pages to what is needed ([`policy::prefault`]), until [`HostBuffer::want_all`].
    pub fn by_need(self) -> HostBuffer {
        self.guarded.lock().pages.go_by_need();
        self
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Always false: the buffer is never empty.
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

    /// Claims the next unit that has no pages yet, in ascending order. While copies are making all
    /// missing pages, waits for them: should one fail, its units are to be touched.
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

    /// Waits until more pages are needed, or [`HostBuffer::stop`] is called. Where there may be
    /// pages to give back, waits at most for `time`, and is true if no more are needed by then.
    pub fn await_need(&self, time: Duration) -> bool {
        let mut guarded = self.guarded.lock();
        while !guarded.stopping && guarded.pages.has_enough() {
            if self.gives_back() && guarded.pages.surplus(0) > 0 {
                guarded = self.needed.wait_for(guarded, time);
                return !guarded.stopping && guarded.pages.has_enough();
            }
            guarded = self.needed.wait(guarded);
        }
        false
    }

    /// Checkpoints hold so many bytes.
    pub fn hold(&self, bytes: u64) {
        self.learn(|pages| pages.hold(bytes));
    }

    /// How many bytes of pages are to go back, where at most `held` were held for a while.
    pub fn surplus(&self, held: u64) -> u64 {
        match self.gives_back() {
            true => self.guarded.lock().pages.surplus(held),
            false => 0,
        }
    }

    /// Whether pages may go back to the system: those that were set aside are of no use to others.
    fn gives_back(&self) -> bool {
        match self.mapping.kind() {
            mapping::MappingKind::SharedHuge => false,
            mapping::MappingKind::Private | mapping::MappingKind::Shared => true,
        }
    }

    /// The last unit with idle pages within these bytes, which hold nothing ([`Pages::last_idle`]).
    pub fn last_idle(&self, bytes: Range<u64>) -> Option<Range<u64>> {
        self.guarded.lock().pages.last_idle(bytes)
    }

    /// Gives the pages of a unit from [`HostBuffer::last_idle`] back to the system. Its bytes must
    /// hold nothing, and nobody may write there meanwhile. False if the unit keeps its pages.
    pub fn give_back(&self, unit: &Range<u64>) -> Result<bool> {
        if !self.giving_back(unit) {
            return Ok(false);
        }
        let discarded = self.mapping.discard(unit.start as usize..unit.end as usize);
        self.given_back(unit);
        discarded.map(|()| true)
    }

    /// From here on nobody touches the unit or registers its chunk. False if it keeps its pages.
    pub(crate) fn giving_back(&self, unit: &Range<u64>) -> bool {
        self.guarded.lock().pages.giving_back(unit)
    }

    /// The pages of a unit are gone.
    pub(crate) fn given_back(&self, unit: &Range<u64>) {
        self.change(|pages| pages.given_back(unit));
    }

    /// A checkpoint may have so many bytes.
    pub fn expect(&self, bytes: u64) {
        self.learn(|pages| pages.expect(bytes));
    }

    /// The whole buffer is to be touched.
    pub fn want_all(&self) {
        self.learn(Pages::want_all);
    }

    /// Only the first `bytes`, in whole chunks, are to be touched; what lies behind them stays
    /// without pages. Returns how many bytes these chunks have.
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

    /// A copy is about to write to these bytes and makes their pages: touching leaves them to it.
    /// To be followed by [`HostBuffer::written`] or [`HostBuffer::not_written`].
    pub fn writing(&self, extents: &[Extent]) {
        self.learn(|pages| pages.writing(extents));
    }

    /// Makes the pages of these bytes, which the processor is about to write, where the system may
    /// refuse one (`vm.overcommit_memory = 2`, or a control group of pages that were set aside as huge
    /// ones): a write would end the process. Elsewhere does nothing.
    ///
    /// # Errors
    /// [`ErrorKind::NoRoom`] if the system refuses.
    pub fn ensure(&self, extents: &[Extent]) -> Result<()> {
        if !self.may_be_refused_pages() {
            return Ok(());
        }
        extents.iter().try_for_each(|extent| {
            let bytes = extent.offset as usize..(extent.offset + extent.len) as usize;
            self.mapping.populate(bytes).map_err(|error| {
                let what = "the system refuses memory for the host buffer";
                Error::new(ErrorKind::NoRoom, format!("{what}: {error}"))
            })
        })
    }

    /// Makes the pages of these bytes, which the processor is about to write, where they have none: the system does that at
    /// once in half the time of a fault for each. Whatever it does not make, a fault makes.
    pub fn make_pages(&self, extent: Extent) {
        if extent.len >= LEAST_MADE && supports_populate() && self.untouched(&[extent]) > 0 {
            let bytes = extent.offset as usize..(extent.offset + extent.len) as usize;
            // The pages at its ends may be in units with others.
            let _ = self.mapping.populate(bytes);
        }
    }

    /// Whether the system may refuse a page.
    fn may_be_refused_pages(&self) -> bool {
        *self.refuses.get_or_init(|| memory::commits_strictly() && supports_populate())
    }

    /// How the buffer's pages are made by default.
    pub fn touch_method(&self) -> TouchMethod {
        match self.may_be_refused_pages() {
            true => TouchMethod::Populate,
            false => TouchMethod::here(),
        }
    }

    /// The buffer as on a system that may refuse a page.
    #[cfg(any(test, debug_assertions))]
    pub fn may_be_refused(self) -> HostBuffer {
        HostBuffer { refuses: OnceLock::from(true), ..self }
    }

    /// A copy has failed: the units that it has not written are to be touched again.
    pub fn not_written(&self, extents: &[Extent]) {
        self.change(|pages| pages.not_written(extents));
        self.needed.notify_all();
    }

    /// A copy has written these bytes, so their pages exist. Units that are wholly covered count as
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

    /// Units without pages will not be touched: only the rest is to be registered.
    pub fn give_up(&self) {
        self.change(|pages| pages.chunks_mut().give_up());
    }

    /// Whether touching rests, as memory is short.
    pub fn rest(&self, resting: bool) {
        self.change(|pages| pages.chunks_mut().rest(resting));
    }

    /// Waits for `time`, or until more pages are needed. False: [`HostBuffer::stop`] was called.
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

    /// Passes the touched bytes to `tell`, while nobody can change them.
    pub fn with_touched(&self, tell: impl FnOnce(u64)) {
        tell(self.guarded.lock().pages.touched_bytes());
    }

    /// Where its chunks lie.
    pub fn chunks(&self) -> Chunks {
        self.chunks
    }

    /// The registration of its chunks with the driver.
    pub fn registrations(&self) -> Registrations<'_> {
        Registrations { buffer: self }
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

/// The registration of the chunks of a host buffer with the driver.
#[derive(Clone, Copy, Debug)]
pub struct Registrations<'a> {
    buffer: &'a HostBuffer,
}

impl<'a> Registrations<'a> {
    /// Whether there is a chunk to register now.
    pub fn has_next(self, pin: Pin) -> bool {
        matches!(self.buffer.guarded.lock().pages.chunks().next(pin), RegistrarStep::Register(_))
    }

    /// Waits until there is a chunk to register. `None`: nothing is left to register, or
    /// [`HostBuffer::stop`] was called.
    pub fn await_next(self, pin: Pin) -> Option<usize> {
        let mut guarded = self.buffer.guarded.lock();
        loop {
            if guarded.stopping {
                return None;
            }
            match guarded.pages.chunks().next(pin) {
                RegistrarStep::Done => return None,
                RegistrarStep::Register(chunk) => return Some(chunk),
                RegistrarStep::Wait => guarded = self.buffer.changed.wait(guarded),
            }
        }
    }

    /// Begins to register a chunk. `None` if it is not to be registered after all.
    pub fn begin(self, chunk: usize) -> Option<Registration<'a>> {
        let begun = self.buffer.guarded.lock().pages.chunks_mut().begin(chunk);
        begun.then_some(Registration { buffer: self.buffer, chunk, registered: false })
    }

    /// Whether the device may copy straight to or from the chunk of `offset`: it is registered, and
    /// stays so.
    pub fn has(self, offset: u64) -> bool {
        self.buffer.guarded.lock().pages.chunks().is_registered(offset)
    }

    /// The chunks that are registered, each of which must be unregistered before the end.
    pub fn all(self) -> Vec<usize> {
        self.buffer.guarded.lock().pages.chunks().registered()
    }

    /// Bytes that are registered.
    pub fn bytes(self) -> u64 {
        self.buffer.guarded.lock().pages.chunks().registered_bytes()
    }
}

/// A registration under way. If this is dropped before [`Registration::end`], the driver counts as
/// having refused.
#[derive(Debug)]
pub struct Registration<'a> {
    buffer: &'a HostBuffer,
    chunk: usize,
    registered: bool,
}

impl Registration<'_> {
    /// Ends the registration: the chunk is registered, or the driver has refused.
    pub fn end(mut self, registered: bool) {
        self.registered = registered;
    }
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.buffer.change(|pages| pages.chunks_mut().ended(self.chunk, self.registered));
    }
}

#[cfg(test)]
#[path = "host_buffer_tests.rs"]
mod tests;
