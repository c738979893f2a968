//! The simulation of this process: its cache, its files, and the lock that takes threads in turn.

use std::cell::UnsafeCell;
use std::ffi::{c_char, CStr, CString};
use std::ptr::null_mut;
use std::sync::atomic::{compiler_fence, AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::cache::{Cache, Touched};
use crate::crash;
use crate::image::{Line, Model};
use crate::plain;
use crate::plan::RunPlan;
use crate::sites::Site;
use crate::text::fail;

/// Whether accesses are followed: not before the start, nor where a program goes on after a crash.
pub(crate) static TRACKING: AtomicBool = AtomicBool::new(false);
/// The thread whose turn it is, by its thread pointer.
static OWNER: AtomicUsize = AtomicUsize::new(0);
/// The C library's word that there is one thread alone; null until it is known.
pub(crate) static SINGLE: AtomicPtr<c_char> = AtomicPtr::new(null_mut());
static STATE: SharedState = SharedState(UnsafeCell::new(SimulationState::new()));

struct SharedState(UnsafeCell<SimulationState>);

// SAFETY: used by the thread alone that owns the turn.
unsafe impl Sync for SharedState {}

/// A file of the program.
pub(crate) struct File {
    /// Its name in the run's folder.
    pub(crate) name: CString,
    /// Where its bytes are: the program's mapping, or what is kept of it while it is not open.
    pub(crate) at: usize,
    pub(crate) bytes: usize,
    /// The crash that it is to survive.
    pub(crate) model: Model,
    /// What was flushed and drained.
    pub(crate) drained: *mut Line,
    /// What memory has, with what the cache has written back.
    pub(crate) evicted: *mut Line,
    open: bool,
}

/// A line that was flushed and not drained.
pub(crate) struct FlushedLine {
    thread: usize,
    pub(crate) file: usize,
    pub(crate) line: usize,
    pub(crate) content: Line,
}

/// Bytes that were stored unseen.
pub(crate) struct Foreign {
    pub(crate) file: usize,
    /// The first of them.
    pub(crate) offset: usize,
    pub(crate) bytes: u64,
    /// An address in the function that was entered last.
    pub(crate) after: usize,
}

pub(crate) struct SimulationState {
    pub(crate) plan: Option<RunPlan>,
    /// Whether some file may be one of [`Model::Power`].
    has_cache: bool,
    cache: Cache,
    pub(crate) files: Vec<File>,
    /// The addresses of all files lie in here.
    hull: (usize, usize),
    /// Accesses so far, and the one to crash before.
    pub(crate) now: u64,
    next: u64,
    /// How many crashes there were.
    crashes: usize,
    /// Accesses that the compiler has not made known: the library's own, and copies.
    pub(crate) own: u64,
    pub(crate) flushed: Vec<FlushedLine>,
    /// For each thread, the line that it was about to store to when others came in turn.
    recent: Vec<(usize, u64)>,
    pub(crate) foreign_bytes: u64,
    pub(crate) foreign: Vec<Foreign>,
    /// An address in the function that was entered last.
    entered: usize,
    /// The last iteration that the program has marked.
    pub(crate) marked: i64,
    pub(crate) sites: Vec<Site>,
}

/// Only so many places of stores that were not seen are named.
const NAMED: usize = 8;

/// A thread's turn.
pub(crate) struct Turn(());

impl std::ops::Deref for Turn {
    type Target = SimulationState;

    fn deref(&self) -> &SimulationState {
        // SAFETY: the turn is this thread's.
        unsafe { &*STATE.0.get() }
    }
}

impl std::ops::DerefMut for Turn {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut SimulationState {
        // SAFETY: the turn is this thread's, and no function of the simulation takes a second one.
        unsafe { &mut *STATE.0.get() }
    }
}

impl Drop for Turn {
    #[inline(always)]
    fn drop(&mut self) {
        OWNER.store(0, Ordering::Release);
    }
}

/// A number of the calling thread's own, never 0.
#[inline(always)]
fn thread() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the first word of a thread's block is its own address.
    unsafe {
        std::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, preserves_flags, readonly));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads the thread's register.
    unsafe {
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, nomem));
    }
    pointer
}

#[inline(always)]
fn alone() -> bool {
    let single = SINGLE.load(Ordering::Relaxed);
    // SAFETY: null, or the C library's variable, which never goes away.
    !single.is_null() && unsafe { single.read_volatile() } != 0
}

/// Waits for the calling thread's turn. `None`: it has it already, as in the simulation's own copies, and in a signal's handler.
#[inline(always)]
pub(crate) fn turn() -> Option<Turn> {
    let thread = thread();
    if OWNER.load(Ordering::Relaxed) == thread {
        return None;
    }
    if alone() {
        OWNER.store(thread, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
    } else {
        wait(thread);
    }
    Some(Turn(()))
}

fn wait(thread: usize) {
    let mut tries = 0_u32;
    while OWNER.compare_exchange_weak(0, thread, Ordering::Acquire, Ordering::Relaxed).is_err() {
        tries += 1;
        if tries.is_multiple_of(64) {
            // SAFETY: always sound.
            unsafe { libc::sched_yield() };
        }
        std::hint::spin_loop();
    }
}

/// The turn, where accesses are followed.
#[inline(always)]
pub(crate) fn tracked() -> Option<Turn> {
    if !TRACKING.load(Ordering::Relaxed) {
        return None;
    }
    turn()
}

/// An access of the program that lies in one line.
#[inline(always)]
pub(crate) fn access(address: usize, write: bool) {
    if let Some(mut state) = tracked() {
        state.step();
        state.touch(address, write);
    }
}

/// An access of any length.
#[inline(always)]
pub(crate) fn access_range(address: usize, bytes: usize, write: bool) {
    if let Some(mut state) = tracked() {
        // One access: it is told before its first store.
        state.step();
        for at in lines(address, bytes) {
            state.touch(at, write);
        }
    }
}

/// The addresses of the lines of a range.
pub(crate) fn lines(address: usize, bytes: usize) -> impl Iterator<Item = usize> {
    let end = if bytes == 0 { address } else { address + bytes };
    (address / 64 * 64..end).step_by(64)
}

/// What a line of the program's memory has.
fn load(address: usize) -> Line {
    // SAFETY: a line of a mapped file. Other threads may be storing to it, so each word is read once.
    std::array::from_fn(|nth| unsafe {
        ((address / 64 * 64) as *const u64).add(nth).read_volatile()
    })
}

fn bytes_that_differ(one: &Line, other: &Line) -> u64 {
    let of_word = |(one, other): (&u64, &u64)| {
        one.to_ne_bytes()
            .iter()
            .zip(other.to_ne_bytes())
            .filter(|(one, other)| *one != other)
            .count()
    };
    one.iter().zip(other).map(of_word).sum::<usize>() as u64
}

/// Memory of the simulation's own, all 0; the process ends if there is none.
fn reserve(bytes: usize) -> *mut Line {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: new memory where the kernel likes.
    let at = unsafe { libc::mmap(null_mut(), bytes, access, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        fail("no memory for the image of a file", b"");
    }
    at.cast()
}

impl File {
    pub(crate) fn len_in_lines(&self) -> usize {
        self.bytes.div_ceil(64)
    }

    pub(crate) fn stored(&self, line: usize) -> Line {
        load(self.at + line * 64)
    }

    pub(crate) fn drained(&self, line: usize) -> Line {
        debug_assert!(line < self.len_in_lines());
        // SAFETY: within the image, which is not freed; the turn is this thread's.
        unsafe { *self.drained.add(line) }
    }

    pub(crate) fn set_drained(&self, line: usize, content: Line) {
        debug_assert!(line < self.len_in_lines());
        // SAFETY: as above.
        unsafe { *self.drained.add(line) = content };
    }

    pub(crate) fn evicted(&self, line: usize) -> Line {
        debug_assert!(line < self.len_in_lines());
        // SAFETY: as above.
        unsafe { *self.evicted.add(line) }
    }

    fn set_evicted(&self, line: usize, content: Line) {
        debug_assert!(line < self.len_in_lines());
        // SAFETY: as above.
        unsafe { *self.evicted.add(line) = content };
    }
}

impl SimulationState {
    const fn new() -> SimulationState {
        SimulationState {
            plan: None,
            has_cache: false,
            cache: Cache::none(),
            files: Vec::new(),
            hull: (usize::MAX, 0),
            now: 0,
            next: 0,
            crashes: 0,
            own: 0,
            flushed: Vec::new(),
            recent: Vec::new(),
            foreign_bytes: 0,
            foreign: Vec::new(),
            entered: 0,
            marked: -1,
            sites: Vec::new(),
        }
    }

    /// Takes a plan; `None` if its cache is none.
    pub(crate) fn begin(&mut self, plan: RunPlan) -> Option<()> {
        self.cache = Cache::new(plan.cache, plan.ways, plan.replace, plan.seed)?;
        self.has_cache = plan.model.is_none_or(|model| model == Model::Power);
        self.next = plan.crashes.first().copied().unwrap_or(0);
        self.plan = Some(plan);
        Some(())
    }

    /// Counts an access, before which there may be a crash.
    #[inline(always)]
    pub(crate) fn step(&mut self) {
        self.now += 1;
        if self.now == self.next {
            self.crash();
        }
    }

    /// As [`SimulationState::step`], for what the compiler has not made known.
    pub(crate) fn own_step(&mut self) {
        self.own += 1;
        self.step();
    }

    #[inline(never)]
    fn crash(&mut self) {
        crash::crash(self);
        self.crashes += 1;
        let crashes = self.plan.as_ref().map_or(&[][..], |plan| &plan.crashes);
        self.next = crashes.get(self.crashes).copied().unwrap_or(0);
    }

    /// Takes a line through the cache.
    #[inline(always)]
    pub(crate) fn touch(&mut self, address: usize, write: bool) {
        if !self.has_cache {
            return;
        }
        let touched = self.cache.touch(address as u64 / 64, write);
        if touched != Touched::Hit || (write && !alone()) {
            self.touched(address, write, touched);
        }
    }

    #[inline(never)]
    fn touched(&mut self, address: usize, write: bool, touched: Touched) {
        if let Touched::Missed(Some(left)) = touched {
            self.write_back(left);
        }
        if touched != Touched::Hit {
            if let Some((file, line)) = self.find(address) {
                // It was clean until now, and so has what memory has; or was stored to unseen.
                if self.is_foreign(file, line) {
                    self.cache.touch(address as u64 / 64, true);
                }
            }
        }
        if write && !alone() && self.in_hull(address) {
            self.about_to_store(address as u64 / 64);
        }
    }

    /// The store that a thread was about to do when its turn ended may have come after its line had been written back.
    fn about_to_store(&mut self, line: u64) {
        let thread = thread();
        let Some(at) = self.recent.iter().position(|(other, _)| *other == thread) else {
            self.recent.push((thread, line));
            return;
        };
        let last = std::mem::replace(&mut self.recent[at].1, line);
        if last == line || self.cache.is_dirty(last) {
            return;
        }
        if let Some((file, nth)) = self.find(last as usize * 64) {
            if self.files[file].stored(nth) != self.files[file].evicted(nth) {
                self.touch_again(last);
            }
        }
    }

    fn touch_again(&mut self, line: u64) {
        if let Touched::Missed(Some(left)) = self.cache.touch(line, true) {
            self.write_back(left);
        }
    }

    /// A dirty line has left the cache.
    fn write_back(&mut self, line: u64) {
        if let Some((file, line)) = self.find(line as usize * 64) {
            self.files[file].set_evicted(line, self.files[file].stored(line));
        }
    }

    #[inline(always)]
    pub(crate) fn in_hull(&self, address: usize) -> bool {
        self.hull.0 <= address && address < self.hull.1
    }

    /// The file that has an address, and the line.
    pub(crate) fn find(&self, address: usize) -> Option<(usize, usize)> {
        if !self.in_hull(address) {
            return None;
        }
        let has = |file: &File| file.at <= address && address < file.at + file.bytes;
        let nth = self.files.iter().position(has)?;
        Some((nth, (address - self.files[nth].at) / 64))
    }

    /// Whether a line that the cache has not, or has clean, differs from memory: it was stored to unseen. Counts its bytes.
    pub(crate) fn is_foreign(&mut self, nth: usize, line: usize) -> bool {
        let file = &self.files[nth];
        let (stored, evicted) = (file.stored(line), file.evicted(line));
        let tag = ((file.at + line * 64) / 64) as u64;
        if file.model != Model::Power || stored == evicted {
            return false;
        }
        if self.recent.iter().any(|(_, recent)| *recent == tag) {
            return false;
        }
        let bytes = bytes_that_differ(&stored, &evicted);
        let after = self.entered;
        self.foreign_bytes += bytes;
        let of_it = |seen: &Foreign| (seen.file, seen.after) == (nth, after);
        match self.foreign.iter().position(of_it) {
            Some(known) => self.foreign[known].bytes += bytes,
            None if self.foreign.len() == NAMED => {}
            None => self.foreign.push(Foreign { file: nth, offset: line * 64, bytes, after }),
        }
        true
    }

    /// Looks at every line of every open file for stores that were not seen.
    pub(crate) fn look_for_foreign(&mut self) {
        if !self.has_cache {
            return;
        }
        for nth in (0..self.files.len()).filter(|nth| self.files[*nth].open).collect::<Vec<_>>() {
            for line in 0..self.files[nth].len_in_lines() {
                let tag = ((self.files[nth].at + line * 64) / 64) as u64;
                if !self.cache.is_dirty(tag) {
                    self.is_foreign(nth, line);
                }
            }
        }
    }

    pub(crate) fn entered(&mut self, within: usize) {
        self.entered = within;
    }

    /// Bytes are being written back.
    pub(crate) fn flush(&mut self, address: usize, bytes: usize) {
        self.own_step();
        let Some(model) = self.find(address).map(|(file, _)| self.files[file].model) else {
            return;
        };
        let (address, bytes) = match model {
            Model::Process => return,
            Model::Power => (address, bytes),
            Model::Page => (address / 4096 * 4096, (address % 4096 + bytes).next_multiple_of(4096)),
        };
        let thread = thread();
        for at in lines(address, bytes) {
            let Some((file, line)) = self.find(at) else { continue };
            if model == Model::Power && !self.cache.clean(at as u64 / 64) {
                self.is_foreign(file, line);
            }
            let of = &self.files[file];
            let content = of.stored(line);
            of.set_evicted(line, content);
            if model == Model::Page {
                of.set_drained(line, content);
            } else if content != of.drained(line) || !self.flushed.is_empty() {
                self.flushed.push(FlushedLine { thread, file, line, content });
            }
        }
    }

    /// What this thread has flushed is there.
    pub(crate) fn drain(&mut self) {
        self.own_step();
        let thread = thread();
        let files = &self.files;
        self.flushed.retain(|flushed| {
            let own = flushed.thread == thread;
            if own {
                files[flushed.file].set_drained(flushed.line, flushed.content);
            }
            !own
        });
    }

    /// A file was mapped for the program. The mapping becomes the process's own: a fork keeps what it has at a crash, and
    /// the file is left as it was.
    pub(crate) fn mapped(&mut self, path: &CStr, at: usize, bytes: usize, model: Model) {
        let base = path.to_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        let known = self.files.iter().position(|file| file.name.as_bytes() == base);
        if let Some(nth) = known {
            self.opened_again(nth, path, at, bytes);
            self.files[nth].model = model;
        } else {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
            // SAFETY: replaces the mapping that the caller has just made of this file, which nobody has used.
            let again = unsafe {
                let file = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
                let again = libc::mmap(at as *mut _, bytes, access, flags, file, 0);
                libc::close(file);
                again
            };
            if again == libc::MAP_FAILED {
                fail("cannot map ", path.to_bytes());
            }
            let (drained, evicted) = (reserve(bytes), reserve(bytes));
            let name = CString::new(base).unwrap_or_default();
            let file = File { name, at, bytes, model, drained, evicted, open: true };
            for line in 0..file.len_in_lines() {
                let stored = file.stored(line);
                // Nor is memory taken for what is 0.
                if stored != [0; 8] {
                    file.set_drained(line, stored);
                    file.set_evicted(line, stored);
                }
            }
            self.files.push(file);
        }
        self.hull = (self.hull.0.min(at), self.hull.1.max(at + bytes));
    }

    fn opened_again(&mut self, nth: usize, path: &CStr, at: usize, bytes: usize) {
        let file = &mut self.files[nth];
        if file.open || file.bytes != bytes {
            fail("is mapped twice, or with another size: ", path.to_bytes());
        }
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: moves the pages that were kept to where the caller has just mapped the file.
        let moved = unsafe { libc::mremap(file.at as *mut _, bytes, bytes, flags, at) };
        if moved == libc::MAP_FAILED {
            fail("cannot map again ", path.to_bytes());
        }
        (file.at, file.open) = (at, true);
        self.hull = (self.hull.0.min(at), self.hull.1.max(at + bytes));
        for line in 0..self.files[nth].len_in_lines() {
            // What was dirty in the cache is so still, under its new address.
            if self.files[nth].stored(line) != self.files[nth].evicted(line) {
                self.touch_again(((at + line * 64) / 64) as u64);
            }
        }
    }

    /// A mapping goes next; its pages are kept for crashes that come later, and for the next time that it is mapped.
    pub(crate) fn unmapped(&mut self, at: usize) {
        let Some(file) = self.files.iter_mut().find(|file| file.open && file.at == at) else {
            return;
        };
        let kept = reserve(file.bytes);
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        // SAFETY: the pages go to memory of the simulation's own; none are left there, which the caller unmaps next.
        let moved = unsafe { libc::mremap(at as *mut _, file.bytes, file.bytes, flags, kept) };
        if moved == libc::MAP_FAILED {
            fail("cannot keep ", file.name.as_bytes());
        }
        for line in lines(at, file.bytes) {
            self.cache.clean(line as u64 / 64);
        }
        (file.at, file.open) = (kept as usize, false);
        // The hull does not shrink: it only says where to look.
        self.hull = (self.hull.0.min(file.at), self.hull.1.max(file.at + file.bytes));
    }

    /// A copy that the program asked for. Into a file it goes line by line: a crash may come between two.
    pub(crate) fn copy(&mut self, to: usize, from: usize, bytes: usize) {
        for at in lines(from, bytes) {
            self.touch(at, false);
        }
        let forwards = to <= from;
        self.store_each(to, bytes, forwards, &|at, len| {
            let from = from + (at - to);
            // SAFETY: a part of what the program copies, in the order in which parts do not overwrite others.
            unsafe { plain::copy(at as *mut u8, from as *const u8, len) };
        });
    }

    /// As [`SimulationState::copy`], for bytes that are all the same.
    pub(crate) fn set(&mut self, to: usize, byte: u8, bytes: usize) {
        self.store_each(to, bytes, true, &|at, len| {
            // SAFETY: a part of what the program sets.
            unsafe { plain::set(at as *mut u8, byte, len) };
        });
    }

    fn store_each(
        &mut self,
        to: usize,
        bytes: usize,
        forwards: bool,
        store: &dyn Fn(usize, usize),
    ) {
        if self.find(to).is_none() {
            lines(to, bytes).for_each(|at| self.touch(at, true));
            store(to, bytes);
            return;
        }
        let end = to + bytes;
        let pieces = (end.div_ceil(64)) - to / 64;
        for nth in 0..pieces {
            let line = to / 64 + if forwards { nth } else { pieces - 1 - nth };
            let (start, stop) = ((line * 64).max(to), (line * 64 + 64).min(end));
            self.own_step();
            self.touch(start, true);
            store(start, stop - start);
        }
    }
}
