//! A cache from a call's arguments to its stream: a program sends to the same few neighbours again and
//! again.

use std::ffi::c_int;

/// The size of the cache, a power of two.
const LEN: usize = 64;

/// No stream: the message has no other end (`MPI_PROC_NULL`), or messages are not counted.
pub const NOBODY: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Shortcut {
    comm: usize,
    /// The other process's rank in the communicator, and the tag.
    peer_and_tag: u64,
    place: u32,
}

/// Matches no successful call: no communicator has this handle.
const UNUSED: Shortcut = Shortcut { comm: 0, peer_and_tag: 0, place: NOBODY };

/// The recently used streams of one direction; a new one replaces another in its slot.
#[derive(Debug)]
pub struct Shortcuts {
    all: [Shortcut; LEN],
}

impl Default for Shortcuts {
    fn default() -> Shortcuts {
        Shortcuts { all: [UNUSED; LEN] }
    }
}

impl Shortcuts {
    /// The stream for these arguments, [`NOBODY`], or `None`.
    #[inline(always)]
    pub fn get(&self, comm: usize, peer: c_int, tag: c_int) -> Option<u32> {
        let wanted = peer_and_tag(peer, tag);
        let found = &self.all[slot(comm, wanted)];
        (found.comm == comm && found.peer_and_tag == wanted).then_some(found.place)
    }

    /// A call has used this stream.
    pub fn set(&mut self, comm: usize, peer: c_int, tag: c_int, place: u32) {
        let peer_and_tag = peer_and_tag(peer, tag);
        self.all[slot(comm, peer_and_tag)] = Shortcut { comm, peer_and_tag, place };
    }

    /// Clears the cache, because handles refer to other communicators.
    pub fn clear(&mut self) {
        *self = Shortcuts::default();
    }
}

#[inline(always)]
fn peer_and_tag(peer: c_int, tag: c_int) -> u64 {
    u64::from(peer as u32) << 32 | u64::from(tag as u32)
}

#[inline(always)]
fn slot(comm: usize, peer_and_tag: u64) -> usize {
    let spread = (comm as u64 ^ peer_and_tag).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (spread >> (u64::BITS - LEN.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches streams that are confused with others in the same slot, and streams that outlive their
    /// communicator.
    #[test]
    fn is_found_as_long_as_it_is_known() {
        let mut shortcuts = Shortcuts::default();
        assert_eq!((shortcuts.get(0, 0, 0), shortcuts.get(4, 0, 0)), (Some(NOBODY), None));
        let all = || (0..10).flat_map(|n| (0..10).map(move |tag| (4 + n % 3, n as c_int, tag)));
        for (place, (comm, peer, tag)) in (0..).zip(all()) {
            shortcuts.set(comm, peer, tag, place);
            assert_eq!(shortcuts.get(comm, peer, tag), Some(place));
        }
        let mut found = 0;
        for (place, (comm, peer, tag)) in (0..).zip(all()) {
            let at = shortcuts.get(comm, peer, tag);
            assert!(at.is_none_or(|at| at == place));
            found += usize::from(at.is_some());
        }
        assert!(found > LEN / 4, "{found}");
        shortcuts.clear();
        assert!(all().all(|(comm, peer, tag)| shortcuts.get(comm, peer, tag).is_none()));
    }
}
