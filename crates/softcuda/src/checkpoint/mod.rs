//! The process as another one stops it (`cuCheckpointProcessLock` and its like).
//!
//! A process that has initialised the driver has a [`page`] of shared memory, and a thread that waits there for orders.
//! Whoever gives one finds the page among the process's descriptors. Page and thread are part of the process: written to
//! files and made again from them, it takes the same orders there.
//!
//! As beside a GPU, a process that is not checkpointed cannot be written to files: it holds a descriptor of a kind that
//! such tools refuse. Its device memory is memory of the process here anyway, so nothing is copied.

mod gate;
mod page;

pub(crate) use gate::{pass, Inside};
pub(crate) use page::{give, state_of, Order, ProcessState};

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::time::Duration;

use page::Page;

use crate::registry;
use crate::status::{DriverResult, ErrorCode};

/// Makes this process one that takes orders. Without what that needs it is one that takes none.
pub(crate) fn begin() {
    let Some(page) = Page::new() else { return };
    let mut of_device = device_file();
    let serve = move || {
        block_signals();
        page.serve(|order, timeout| carry_out(page, order, timeout, &mut of_device));
    };
    // Without a thread there is nobody who answers.
    if std::thread::Builder::new().name("softcuda-orders".into()).spawn(serve).is_err() {
        page.disown();
    }
}

fn carry_out(
    page: Page,
    order: Order,
    timeout: Option<Duration>,
    of_device: &mut Option<OwnedFd>,
) -> DriverResult {
    let state = page.state();
    let (from, to) = match order {
        Order::Lock => (ProcessState::Running, ProcessState::Locked),
        Order::Checkpoint => (ProcessState::Locked, ProcessState::Checkpointed),
        Order::Restore => (ProcessState::Checkpointed, ProcessState::Locked),
        Order::Unlock => (ProcessState::Locked, ProcessState::Running),
    };
    if state != from {
        return Err(ErrorCode::ILLEGAL_STATE);
    }
    match order {
        Order::Lock => gate::close(timeout).then_some(()).ok_or(ErrorCode::NOT_READY)?,
        Order::Checkpoint => {
            let driver = registry::driver()?;
            if driver.memory.has_managed() {
                return Err(ErrorCode::NOT_SUPPORTED);
            }
            driver.finish_all_work();
            *of_device = None;
        }
        Order::Restore => *of_device = device_file(),
        Order::Unlock => gate::open(),
    }
    page.set_state(to);
    Ok(())
}

/// A descriptor that stands for those of a device: CRIU refuses its kind. `None` where the system gives none.
fn device_file() -> Option<OwnedFd> {
    const UFFD_USER_MODE_ONLY: libc::c_int = 1;
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | UFFD_USER_MODE_ONLY) };
    // SAFETY: a descriptor that nobody else has.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
}

/// The program's signals are for its own threads.
fn block_signals() {
    let mut all = std::mem::MaybeUninit::uninit();
    // SAFETY: a set that is made here.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
    }
}
