//! Memory of this library's own: what it needs must not shift the program's, whose addresses decide where its lines are in the
//! cache.

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Addresses are reserved, memory is taken as it is used. All that is kept grows by doubling, and so nothing is freed.
const ROOM: usize = 4 << 30;

struct ArenaAllocator {
    /// 0: none yet.
    base: AtomicUsize,
    used: AtomicUsize,
}

#[global_allocator]
static ARENA: ArenaAllocator =
    ArenaAllocator { base: AtomicUsize::new(0), used: AtomicUsize::new(0) };

impl ArenaAllocator {
    fn base(&self) -> usize {
        let base = self.base.load(Ordering::Acquire);
        if base != 0 {
            return base;
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new memory where the kernel likes.
        let new = unsafe { libc::mmap(null_mut(), ROOM, access, flags, -1, 0) };
        if new == libc::MAP_FAILED {
            return 0;
        }
        let first =
            self.base.compare_exchange(0, new as usize, Ordering::AcqRel, Ordering::Acquire);
        first.map_or_else(|other| other, |_| new as usize)
    }
}

// SAFETY: no two calls give the same bytes, all lie in the mapping, and are aligned: the mapping is, for all that is asked for.
unsafe impl GlobalAlloc for ArenaAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let base = self.base();
        // Room for the alignment, too.
        let needed = layout.size() + layout.align();
        let at = self.used.fetch_add(needed, Ordering::Relaxed);
        if base == 0 || at + needed > ROOM {
            return null_mut();
        }
        (base + at).next_multiple_of(layout.align()) as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
