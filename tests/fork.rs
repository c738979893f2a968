//! What a forked child keeps of its parent's connections: nothing. In a process of its own, as a child
//! has everything open that other tests are at.

// A test fails by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd as _};
use std::time::Duration;

use os::lock::Lock;
use os::network::{accept, await_connection, begin_connection, listen};
use os::socket::{connect_to, listen_at, wait_for};

/// No test waits so long for what comes at once.
const LONGEST: Duration = Duration::from_secs(60);

/// A child that does nothing until it is killed.
struct Child(libc::pid_t);

impl Child {
    fn new() -> Child {
        // SAFETY: the child only waits.
        let number = unsafe { libc::fork() };
        assert!(number >= 0);
        if number == 0 {
            loop {
                // SAFETY: no arguments.
                unsafe { libc::pause() };
            }
        }
        Child(number)
    }

    /// Waits until it has something else under this number.
    fn lets_go_of(&self, file: impl AsFd) {
        let path = format!("/proc/{}/fd/{}", self.0, file.as_fd().as_raw_fd());
        let since = std::time::Instant::now();
        while std::fs::read_link(&path).unwrap().as_os_str() != "/dev/null" {
            assert!(since.elapsed() < LONGEST, "a child has it for good");
            std::thread::yield_now();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: a child that was not waited for.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            libc::waitpid(self.0, std::ptr::null_mut(), 0);
        }
    }
}

/// Catches connections whose end nobody hears of because a child has them, and connections of a living
/// process that are ended by its child. A process that is killed closes them as it does here.
#[test]
fn a_child_keeps_no_connection_open() {
    // The loopback comes last.
    let listener = listen().unwrap().pop().unwrap();
    let address = listener.get().unwrap().local_addr().unwrap();
    let connected = || {
        let own = begin_connection(address).unwrap();
        await_connection(&own, LONGEST).unwrap();
        own.get().unwrap().set_read_timeout(Some(LONGEST)).unwrap();
        // Who says nothing is not accepted at once.
        (&*own).write_all(b"x").unwrap();
        assert_eq!(wait_for(&[listener.as_fd()], LONGEST), [true]);
        let other = accept(&listener).unwrap().unwrap();
        other.get().unwrap().set_nonblocking(false).unwrap();
        other.get().unwrap().set_read_timeout(Some(LONGEST)).unwrap();
        (&*other).read_exact(&mut [0]).unwrap();
        (own, other)
    };
    let (called, ends) = (connected(), connected());
    let lives = connected();
    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("socket");
    let backend = listen_at(&name).unwrap().unwrap();
    let lock = Lock::open(&folder.path().join("held"), 0o600).unwrap();
    assert!(lock.try_take().unwrap());
    let client = connect_to(&name).unwrap().unwrap();
    let served = backend.accept(LONGEST).unwrap().unwrap();

    let child = Child::new();
    child.lets_go_of(&called.0);
    child.lets_go_of(&called.1);
    child.lets_go_of(&client);
    child.lets_go_of(&listener);
    // A lock is held by whoever has it open.
    child.lets_go_of(&lock);
    // Of what the parent has, nothing has ended.
    let mut byte = [0];
    (&*lives.0).write_all(b"x").unwrap();
    assert_eq!((&*lives.1).read(&mut byte).unwrap(), 1);
    assert_eq!(wait_for(&[served.as_fd()], Duration::ZERO), [false]);

    drop(called.0);
    assert_eq!((&*called.1).read(&mut byte).unwrap(), 0, "the end of the caller");
    drop(ends.1);
    assert_eq!((&*ends.0).read(&mut byte).unwrap(), 0, "the end of who was called");
    drop(client);
    assert_eq!(wait_for(&[served.as_fd()], LONGEST), [true]);
    assert!(served.receive().unwrap().is_none(), "the end of the client");
    drop(listener);
    assert!(TcpStream::connect(address).is_err(), "nobody answers there any more");
}
