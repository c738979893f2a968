//! Touching, copies and registrations, one beside the other.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::*;

const U: u64 = TOUCH_UNIT;

fn buffer(units: u64) -> HostBuffer {
    HostBuffer::reserve(units * U, 2 * U, false).unwrap()
}

#[test]
fn touching_goes_up_and_passes_over_what_was_written() {
    let buffer = buffer(4);
    assert_eq!(buffer.claim(), Claim::Unit(0..U));
    buffer.written(&[Extent { offset: U / 2, len: 2 * U }]);
    assert_eq!(buffer.touched_bytes(), U, "only the unit that is wholly covered counts");
    assert_eq!(buffer.claim(), Claim::Unit(2 * U..3 * U));
    assert_eq!(buffer.untouched(&[Extent { offset: 0, len: 3 * U }]), 2 * U);
    assert_eq!(buffer.claim(), Claim::Unit(3 * U..4 * U));
    assert_eq!(buffer.claim(), Claim::Nothing);
}

#[test]
fn touching_keeps_what_is_there() {
    let buffer = buffer(1);
    // SAFETY: within the mapping; no other thread.
    unsafe { buffer.address(0).write(7) };
    let Claim::Unit(unit) = buffer.claim() else { panic!("nothing to touch") };
    buffer.touch(&unit, TouchMethod::Write(4096)).unwrap();
    // SAFETY: within the mapping; no other thread.
    assert_eq!(unsafe { buffer.address(0).read() }, 7);
    assert_eq!(buffer.touched_bytes(), U);
}

/// Catches touching that holds the lock of the address space: threads of the application that
/// map memory (for the heap, for a thread's stack) then wait for whole units. Counts how often such a
/// thread sleeps in that while units are touched in either way. A busy machine makes for fewer calls, and
/// for no more of them that sleep.
#[test]
fn memory_can_be_mapped_while_a_unit_is_touched() {
    if !faults_without_the_lock() || memory::commits_strictly() {
        eprintln!("not tested: this kernel touches no page without the lock");
        return;
    }
    if !alone("memory_can_be_mapped_while_a_unit_is_touched") {
        return;
    }
    let methods = [TouchMethod::Populate, TouchMethod::here()];
    // The method at work: a call counts if that is the same before and after it.
    let at_work = AtomicUsize::new(usize::MAX);
    let [calls, slept] = [(); 2].map(|()| [(); 2].map(|()| AtomicU64::new(0)));
    let done = AtomicBool::new(false);
    let touch = |which: usize| {
        let buffer = buffer(16);
        at_work.store(which, Ordering::SeqCst);
        while let Claim::Unit(unit) = buffer.claim() {
            buffer.touch(&unit, methods[which]).unwrap();
        }
        // Giving pages back takes the lock, too.
        at_work.store(usize::MAX, Ordering::SeqCst);
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::SeqCst) {
                // Now and then, as an application does: calls in a row would keep the lock.
                std::thread::sleep(Duration::from_micros(100));
                let (which, before) = (at_work.load(Ordering::SeqCst), sleeps());
                drop(Mapping::reserve(1).unwrap());
                let after = sleeps();
                if which < 2 && which == at_work.load(Ordering::SeqCst) {
                    calls[which].fetch_add(1, Ordering::SeqCst);
                    slept[which].fetch_add((after > before).into(), Ordering::SeqCst);
                }
            }
        });
        // Each method until there is enough to judge by; a kernel under which there never is fails.
        for which in [0, 1] {
            let mut rounds = 0;
            while calls[which].load(Ordering::SeqCst) < 100 && rounds < 10_000 {
                touch(which);
                rounds += 1;
            }
        }
        done.store(true, Ordering::SeqCst);
    });
    let [calls, slept] = [calls, slept].map(|of| of.map(|count| count.into_inner() as f64));
    let share = [slept[0] / calls[0], slept[1] / calls[1]];
    assert!(share[0] > 2.0 * share[1], "{slept:?} of {calls:?} calls slept");
}

/// Whether this process runs the test `name` alone. If not, runs it in such a process, as tests
/// beside it take the lock of the address space, too.
fn alone(name: &str) -> bool {
    const ALONE: &str = "VELOC_TEST_ALONE";
    if os::environment::var_os(ALONE).is_some() {
        return true;
    }
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("host_buffer::tests::{name}"), "--nocapture"]);
    let output = child.env(ALONE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{name}, alone: {said}");
    false
}

/// How often this thread has waited for something, not how often it was preempted.
fn sleeps() -> i64 {
    // SAFETY: plain data, for which zeros are a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: a struct that is ours to write to.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) }, 0);
    usage.ru_nvcsw
}

/// Whether page faults need no lock of the whole address space: Linux 6.4 and newer.
fn faults_without_the_lock() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(4_u32))
}

/// Catches pages that nobody makes any more: the copy that was to make them has failed, and the
/// touching threads have gone.
#[test]
fn touching_waits_for_copies_that_may_fail() {
    let buffer = buffer(2);
    let all = [Extent { offset: 0, len: 2 * U }];
    buffer.writing(&all);
    std::thread::scope(|scope| {
        let touching = scope.spawn(|| buffer.claim());
        buffer.not_written(&all);
        assert_eq!(touching.join().unwrap(), Claim::Unit(0..U));
    });
    buffer.writing(&all);
    std::thread::scope(|scope| {
        let touching = scope.spawn(|| buffer.claim());
        buffer.written(&all);
        assert_eq!(touching.join().unwrap(), Claim::Nothing);
    });
}

/// Catches a touching thread that is not woken up by a need that grows, or by the end.
#[test]
fn touching_waits_for_need() {
    let more: [(fn(&HostBuffer), _); 3] = [
        (|buffer| buffer.expect(1), Claim::Unit(0..U)),
        (HostBuffer::want_all, Claim::Unit(0..U)),
        (HostBuffer::stop, Claim::Nothing),
    ];
    for (change, expected) in more {
        let buffer = buffer(2).by_need();
        assert_eq!(buffer.claim(), Claim::Enough);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                assert!(!buffer.await_need(Duration::ZERO), "there is nothing to give back");
                buffer.claim()
            });
            while buffer.needed.waiters() == 0 {
                std::thread::yield_now();
            }
            change(&buffer);
            assert_eq!(waiting.join().unwrap(), expected);
        });
    }
}

/// Catches a chunk that copies may use before it is registered, or that stays undecided when its
/// registrar dies.
#[test]
fn a_chunk_counts_as_registered_once_it_is() {
    let buffer = buffer(4);
    while let Claim::Unit(unit) = buffer.claim() {
        buffer.touch(&unit, TouchMethod::Populate).unwrap();
    }
    let chunk = buffer.registrations().await_next(Pin::Serial).unwrap();
    assert_eq!(chunk, 0);
    let registration = buffer.registrations().begin(chunk).unwrap();
    assert!(buffer.registrations().begin(chunk).is_none(), "it has begun");
    assert!(!buffer.registrations().has(0));
    registration.end(true);
    assert!(buffer.registrations().has(2 * U - 1) && !buffer.registrations().has(2 * U));
    assert_eq!(buffer.registrations().bytes(), 2 * U);
    let next = buffer.registrations().await_next(Pin::Serial).unwrap();
    drop(buffer.registrations().begin(next).unwrap());
    assert!(!buffer.registrations().has(2 * U));
    assert_eq!(buffer.registrations().await_next(Pin::Serial), None);
}

/// Catches memory that the system does not get back, bytes beside it that are lost, and a wait that does
/// not end where there is something to give back.
#[test]
fn idle_pages_go_back_to_the_system() {
    let memory = os::shared::SharedMemory::create("test", 40 * U).unwrap();
    let shared = HostBuffer::over(Mapping::of(&memory).unwrap(), 2 * U, false);
    for buffer in [buffer(40), shared] {
        let buffer = buffer.by_need();
        buffer.hold(40 * U);
        while let Claim::Unit(unit) = buffer.claim() {
            buffer.touch(&unit, TouchMethod::Populate).unwrap();
        }
        assert_eq!(buffer.touched_bytes(), 40 * U);
        for offset in [0, 39 * U] {
            // SAFETY: within the mapping; no other thread.
            unsafe { buffer.address(offset).write(7) };
        }
        buffer.hold(U);
        assert_eq!(buffer.surplus(U), 40 * U - U - (64 << 20));
        assert_eq!(buffer.claim(), Claim::Enough, "all have pages, and some are to go back");
        assert!(buffer.await_need(Duration::ZERO));
        let unit = buffer.last_idle(U..40 * U).unwrap();
        assert_eq!(unit, 39 * U..40 * U);
        assert!(buffer.give_back(&unit).unwrap() && !buffer.give_back(&unit).unwrap());
        assert_eq!(buffer.touched_bytes(), 39 * U);
        // SAFETY: as above.
        let bytes = [0, 39 * U].map(|offset| unsafe { buffer.address(offset).read() });
        assert_eq!(bytes, [7, 0]);
        assert_eq!(buffer.claim(), Claim::Enough);
        assert!(buffer.await_need(Duration::ZERO), "there is more");
    }
}

/// Catches pages that are not made before they are written, others than those, and bytes that are lost.
#[test]
fn pages_are_made_for_what_is_about_to_be_written() {
    let Ok(table) = os::residency::PageTable::open() else { return };
    if !supports_populate() {
        return;
    }
    let buffer = buffer(2);
    // SAFETY: within the mapping; no other thread.
    unsafe { buffer.address(0).write(7) };
    buffer.make_pages(Extent { offset: 0, len: LEAST_MADE });
    let begin = buffer.address(0) as u64;
    let present = table.present(&(begin..begin + 2 * U)).unwrap();
    let bytes: u64 = present.iter().map(|range| range.end - range.start).sum();
    assert_eq!(bytes, LEAST_MADE);
    // SAFETY: as above.
    assert_eq!(unsafe { buffer.address(0).read() }, 7);
}
