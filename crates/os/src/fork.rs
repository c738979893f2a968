//! Files that are closed in forked children.
//!
//! A forked child inherits its parent's open files, so a connection would outlive the process that it
//! belongs to, and its other end would take the dead process for alive. Files registered here are
//! replaced by `/dev/null` in each child: their numbers stay taken, as the child has copies of the
//! objects that own them. Started programs close them anyway (`CLOEXEC`).

use std::cell::UnsafeCell;
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Once;

use super::descriptors::{GuardedFd, Inode};

/// A file that is closed in forked children.
#[derive(Debug)]
pub struct CloseOnFork<F: AsFd>(ManuallyDrop<GuardedFd<F>>);

/// The registered files. The lock is also taken by fork, so that no child is created between the opening
/// of a file and its registration.
struct Registry {
    lock: UnsafeCell<libc::pthread_mutex_t>,
    entries: UnsafeCell<Entries>,
}

struct Entries {
    files: Vec<(RawFd, Option<Inode>)>,
    /// `/dev/null`, while files are registered.
    nothing: Option<GuardedFd<File>>,
}

// SAFETY: the entries are used under the lock alone, which is made for several threads.
unsafe impl Sync for Registry {}

static REGISTRY: Registry = Registry {
    lock: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
    entries: UnsafeCell::new(Entries { files: Vec::new(), nothing: None }),
};

impl Registry {
    /// Runs `work` while no process is forked.
    fn with<T>(&self, work: impl FnOnce(&mut Entries) -> T) -> T {
        /// Unlocks, also after a panic.
        struct RegistryLock<'a>(&'a Registry);
        impl Drop for RegistryLock<'_> {
            fn drop(&mut self) {
                // SAFETY: locked by this thread.
                unsafe { libc::pthread_mutex_unlock(self.0.lock.get()) };
            }
        }
        // SAFETY: a mutex that lives as long as the process.
        unsafe { libc::pthread_mutex_lock(self.lock.get()) };
        let _held = RegistryLock(self);
        // SAFETY: under the lock; `work` cannot come here again, as it would wait for itself.
        work(unsafe { &mut *self.entries.get() })
    }
}

extern "C" fn before_fork() {
    // SAFETY: a mutex that lives as long as the process. The same thread unlocks it: in the parent,
    // and its copy in the child.
    unsafe { libc::pthread_mutex_lock(REGISTRY.lock.get()) };
}

extern "C" fn in_parent() {
    // SAFETY: as above.
    unsafe { libc::pthread_mutex_unlock(REGISTRY.lock.get()) };
}

/// Only what may be called between a fork and an exec: no memory is allocated.
extern "C" fn in_child() {
    // SAFETY: this is the only thread of the child, and its parent's copy of the thread holds the
    // lock.
    let entries = unsafe { &mut *REGISTRY.entries.get() };
    let nothing = entries.nothing.as_ref().map(GuardedFd::number);
    let nothing = nothing.filter(is_ours).map_or(-1, |(number, _)| number);
    for &(file, _) in entries.files.iter().filter(|file| is_ours(file)) {
        // SAFETY: files of this library's, which only it uses, and which it does not use in a child.
        unsafe {
            if libc::dup3(nothing, file, libc::O_CLOEXEC) < 0 {
                libc::close(file);
            }
        }
    }
    in_parent();
}

/// Whether a number still refers to the registered file.
fn is_ours((number, inode): &(RawFd, Option<Inode>)) -> bool {
    Inode::of(*number) == *inode
}

impl<F: AsFd + From<OwnedFd>> CloseOnFork<F> {
    /// Opens a file by `make` and registers it.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn new(make: impl FnOnce() -> io::Result<F>) -> io::Result<CloseOnFork<F>> {
        static AT_FORK: Once = Once::new();
        AT_FORK.call_once(|| {
            // SAFETY: functions of this library, which is never unloaded, and which call nothing that
            // must not be called there.
            let failed =
                unsafe { libc::pthread_atfork(Some(before_fork), Some(in_parent), Some(in_child)) };
            if failed != 0 {
                log::warn!("forked children will keep the library's connections open");
            }
        });
        REGISTRY.with(|entries| {
            let file = GuardedFd::new(make()?);
            if entries.nothing.is_none() {
                // On failure, children close the files.
                entries.nothing = File::open("/dev/null").ok().map(GuardedFd::new);
            }
            entries.files.push(file.number());
            Ok(CloseOnFork(ManuallyDrop::new(file)))
        })
    }
}

impl<F: AsFd> Deref for CloseOnFork<F> {
    type Target = GuardedFd<F>;

    fn deref(&self) -> &GuardedFd<F> {
        &self.0
    }
}

impl<F: AsFd> AsFd for CloseOnFork<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.unchecked().as_fd()
    }
}

impl<F: AsFd> Drop for CloseOnFork<F> {
    fn drop(&mut self) {
        REGISTRY.with(|entries| {
            let number = self.0.number();
            if let Some(at) = entries.files.iter().position(|file| *file == number) {
                entries.files.swap_remove(at);
            }
            if entries.files.is_empty() {
                entries.nothing = None;
            }
            // SAFETY: dropped here alone. Its number is free for others only from here on.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        });
    }
}
