//! Turns between real processes: this test program, started again with a role.
//!
//! No test depends on how fast the machine is: where a process must not be passed over, the bounds
//! are hours for its signs of life and ten minutes for its lease (`u64::MAX` bytes), and where it
//! must, nothing but that can end the waiting. Where a wake-up is tested, the sleeps are as long as
//! hours too.

use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::thread;

use super::*;
use crate::platform::forks;

/// Tells a child what to be: the role, the page and the bound for stalls in ms.
const ROLE: &str = "VELOC_TEST_TURNS_ROLE";
const PAGE: &str = "VELOC_TEST_TURNS_PAGE";
const STALL: &str = "VELOC_TEST_TURNS_STALL_MS";

/// A bound that no test reaches.
const NEVER_MS: u64 = 10 * 3600 * 1000;

fn never() -> bool {
    false
}

fn open(path: &Path, stall_ms: u64) -> Turns {
    Turns { stall_ms, ..Turns::open_at(path).unwrap() }
}

/// One that sleeps until it is woken.
fn open_for_sleepers(path: &Path) -> Turns {
    Turns { stall_ms: NEVER_MS, sleep_ms: NEVER_MS, ..Turns::open_at(path).unwrap() }
}

/// Enters in a thread, does `then` once that sleeps in the queue, and tells how it came out.
fn enter_asleep(turns: &Turns, then: impl FnOnce()) -> Standing {
    once_asleep(|| turns.enter(u64::MAX, &never).standing(), then)
}

/// Runs `wait`, which must block on nothing but a turn, and does `then` once it sleeps.
fn once_asleep<T: Send>(wait: impl FnOnce() -> T + Send, then: impl FnOnce()) -> T {
    let thread_id = AtomicI32::new(0);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            // SAFETY: gettid cannot fail.
            thread_id.store(unsafe { libc::gettid() }, Ordering::SeqCst);
            wait()
        });
        while !is_asleep(thread_id.load(Ordering::SeqCst)) {
            thread::sleep(Duration::from_millis(1));
        }
        then();
        waiter.join().unwrap()
    })
}

fn is_asleep(thread_id: i32) -> bool {
    // The state comes after the name, which ends with the last bracket.
    fs::read_to_string(format!("/proc/self/task/{thread_id}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(')').unwrap().1.starts_with(" S"))
}

/// A new page in a directory of its own.
fn scratch() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("turns");
    (directory, path)
}

struct Helper {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    fn start(role: &str, page: &Path, stall_ms: u64) -> Helper {
        let (_, module) = module_path!().split_once("::").unwrap();
        let mut command = Command::new(env::current_exe().unwrap());
        command
            .args(["--exact", &format!("{module}::helper"), "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(PAGE, page)
            .env(STALL, stall_ms.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = forks::spawn(&mut command).unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Helper { child, lines }
    }

    /// The next thing the child says, or none when it has ended.
    fn says(&mut self) -> Option<String> {
        self.lines
            .by_ref()
            .map_while(|line| line.ok())
            // The test program writes lines of its own, and not always whole ones.
            .find_map(|line| line.split_once('@').map(|(_, said)| said.to_string()))
    }

    fn expect(&mut self, word: &str) {
        let said = self.says();
        assert_eq!(said.as_deref(), Some(word));
    }

    fn go_on(&mut self) {
        self.child.stdin.take().unwrap().write_all(b"\n").unwrap();
    }

    fn signal(&self, signal: i32) {
        // SAFETY: a signal to a child that has not been waited for, so the number is still its.
        let result = unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
        assert_eq!(result, 0);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(word: &str) {
    println!("\n@{word}");
}

fn wait_for_line() {
    let _ = std::io::stdin().lock().read_line(&mut String::new());
}

/// What a child does. Not a test of its own: without a role it has nothing to do.
#[test]
fn helper() {
    let Ok(role) = env::var(ROLE) else { return };
    let page = PathBuf::from(env::var_os(PAGE).unwrap());
    let turns = open(&page, env::var(STALL).unwrap().parse().unwrap());
    match role.as_str() {
        // Takes the turn, keeps it until it is told to leave or loses it.
        "hold" => {
            let mut turn = turns.enter(u64::MAX, &never);
            say(if turn.standing() == Standing::Held { "held" } else { "not held" });
            let told = Arc::new(AtomicBool::new(false));
            let listener = Arc::clone(&told);
            thread::spawn(move || {
                wait_for_line();
                listener.store(true, Ordering::SeqCst);
            });
            while turn.beat() {
                if told.load(Ordering::SeqCst) {
                    drop(turn);
                    say("left");
                    return;
                }
                thread::sleep(Duration::from_millis(2));
            }
            say("lost");
        }
        // Queues, says so, and notes its name when it is its turn.
        "note" => {
            let place = turns.queue(0).unwrap();
            let waiter = place.waiter();
            say("queued");
            while place.attempt(&waiter).is_err() {
                thread::sleep(Duration::from_millis(1));
            }
            let mut log = OpenOptions::new().append(true).open(page.with_extension("log")).unwrap();
            writeln!(log, "{}", place.ticket).unwrap();
        }
        // Takes many turns and looks whether it is alone. A wake-up that is missed is the end.
        "alternate" => {
            let turns = open_for_sleepers(&page);
            let inside = page.with_extension("inside");
            for _ in 0..100 {
                let turn = turns.enter(u64::MAX, &never);
                assert_eq!(turn.standing(), Standing::Held);
                match OpenOptions::new().write(true).create_new(true).open(&inside) {
                    Ok(_) => fs::remove_file(&inside).unwrap(),
                    Err(_) => say("not alone"),
                }
            }
            say("done");
        }
        other => panic!("no such role: {other}"),
    }
}

#[test]
fn four_processes_never_meet() {
    let (_directory, page) = scratch();
    let mut helpers: Vec<Helper> =
        (0..4).map(|_| Helper::start("alternate", &page, NEVER_MS)).collect();
    for helper in &mut helpers {
        helper.expect("done");
    }
}

#[test]
fn threads_of_one_process_never_meet() {
    let (_directory, page) = scratch();
    let turns = open_for_sleepers(&page);
    let inside = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let mut turn = turns.enter(u64::MAX, &never);
                    assert!(!inside.swap(true, Ordering::SeqCst));
                    assert!(turn.beat());
                    inside.store(false, Ordering::SeqCst);
                }
            });
        }
    });
}

#[test]
fn processes_go_in_the_order_in_which_they_came() {
    let (_directory, page) = scratch();
    let log = page.with_extension("log");
    fs::write(&log, "").unwrap();
    let turn = open(&page, NEVER_MS).queue(u64::MAX).unwrap();
    let holder = turn.attempt(&turn.waiter()).unwrap();
    let mut helpers = Vec::new();
    for _ in 0..4 {
        let mut helper = Helper::start("note", &page, NEVER_MS);
        helper.expect("queued");
        helpers.push(helper);
    }
    assert_eq!(fs::read_to_string(&log).unwrap(), "", "nobody went before the turn was free");
    drop(turn);
    for helper in &mut helpers {
        assert!(helper.child.wait().unwrap().success());
    }
    let order: Vec<u64> =
        fs::read_to_string(&log).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    let expected: Vec<u64> = (1..=4).map(|i| holder.ticket + i).collect();
    assert_eq!(order, expected);
}

#[test]
fn death_frees_the_turn() {
    let (_directory, page) = scratch();
    let turns = open(&page, NEVER_MS);
    let mut helper = Helper::start("hold", &page, NEVER_MS);
    helper.expect("held");
    assert!(turns.try_enter(0).is_none());
    helper.signal(libc::SIGKILL);
    // With that bound, nothing but the death can let it go.
    assert_eq!(turns.enter(0, &never).standing(), Standing::Held);
}

#[test]
fn death_in_the_queue_lets_the_next_go() {
    let (_directory, page) = scratch();
    let turns = open(&page, NEVER_MS);
    let first = turns.enter(u64::MAX, &never);
    let mut helper = Helper::start("hold", &page, NEVER_MS);
    // Queued once the next ticket has been drawn and shown.
    while !(0..SLOTS).any(|i| turns.page.slot(i).ticket.load(Ordering::SeqCst) > 1) {
        thread::sleep(Duration::from_millis(1));
    }
    helper.signal(libc::SIGKILL);
    assert!(helper.says().is_none());
    drop(first);
    assert_eq!(turns.enter(0, &never).standing(), Standing::Held);
}

#[test]
fn those_who_sleep_notice_a_death() {
    let (_directory, page) = scratch();
    let mut helper = Helper::start("hold", &page, NEVER_MS);
    helper.expect("held");
    let standing = enter_asleep(&open(&page, NEVER_MS), || helper.signal(libc::SIGKILL));
    assert_eq!(standing, Standing::Held);
}

#[test]
fn those_behind_notice_a_death_after_the_wake_up() {
    let (_directory, page) = scratch();
    let turns = open(&page, NEVER_MS);
    let first = turns.enter(u64::MAX, &never);
    let helper = Helper::start("hold", &page, NEVER_MS);
    while !(0..SLOTS).any(|i| turns.page.slot(i).ticket.load(Ordering::SeqCst) > 1) {
        thread::sleep(Duration::from_millis(1));
    }
    // The turn is its, and it does not take it.
    helper.signal(libc::SIGSTOP);
    let standing = enter_asleep(&turns, || {
        drop(first);
        assert!(turns.try_enter(0).is_none());
        helper.signal(libc::SIGKILL);
    });
    assert_eq!(standing, Standing::Held);
}

#[test]
fn leaving_wakes_another_process() {
    let (_directory, page) = scratch();
    let mut helper = Helper::start("hold", &page, NEVER_MS);
    helper.expect("held");
    let standing = enter_asleep(&open_for_sleepers(&page), || helper.go_on());
    assert_eq!(standing, Standing::Held);
    helper.expect("left");
}

#[test]
fn leaving_the_queue_wakes_those_behind() {
    let (_directory, page) = scratch();
    let turns = open_for_sleepers(&page);
    let ahead = turns.queue(u64::MAX).unwrap();
    assert_eq!(enter_asleep(&turns, || drop(ahead)), Standing::Held);
}

#[test]
fn leaving_wakes_the_next_although_it_fell_asleep_last() {
    let (_directory, page) = scratch();
    let turns = open_for_sleepers(&page);
    let first = turns.enter(u64::MAX, &never);
    let second = turns.queue(u64::MAX).unwrap();
    let third = enter_asleep(&turns, || {
        let wait = || {
            let waiter = second.waiter();
            while let Err(rest) = second.attempt(&waiter) {
                turns.sleep(rest);
            }
            drop(second);
        };
        once_asleep(wait, || drop(first));
    });
    assert_eq!(third, Standing::Held);
}

#[test]
fn who_leaves_between_a_look_and_the_sleep_is_not_slept_over() {
    let (_directory, page) = scratch();
    let turns = open_for_sleepers(&page);
    let first = turns.enter(u64::MAX, &never);
    let place = turns.queue(u64::MAX).unwrap();
    let waiter = place.waiter();
    let rest = place.attempt(&waiter).unwrap_err();
    drop(first);
    turns.sleep(rest);
    assert!(place.attempt(&waiter).is_ok());
}

#[test]
fn leaving_frees_the_turn() {
    let (_directory, page) = scratch();
    let turns = open(&page, NEVER_MS);
    let mut helper = Helper::start("hold", &page, NEVER_MS);
    helper.expect("held");
    helper.go_on();
    assert_eq!(turns.enter(0, &never).standing(), Standing::Held);
    helper.expect("left");
}

#[test]
fn a_stopped_holder_is_passed_over_and_notices() {
    let (_directory, page) = scratch();
    let turns = open(&page, TURN_STALL_MS);
    let mut helper = Helper::start("hold", &page, TURN_STALL_MS);
    helper.expect("held");
    helper.signal(libc::SIGSTOP);
    assert_eq!(turns.enter(0, &never).standing(), Standing::Held);
    helper.signal(libc::SIGCONT);
    helper.expect("lost");
    assert!(helper.says().is_none());
}

#[test]
fn a_holder_that_lost_its_turn_says_so() {
    let (_directory, page) = scratch();
    let mut turn = open(&page, 0).enter(0, &never);
    let start = now_ms();
    while now_ms() <= start + 1 {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(!turn.beat());
    assert_eq!(turn.standing(), Standing::Lost);
    assert!(!turn.beat());
    assert!(open(&page, NEVER_MS).try_enter(0).is_some());
}

#[test]
fn waiting_can_be_cancelled() {
    let (_directory, page) = scratch();
    let turns = open(&page, NEVER_MS);
    let mut first = turns.enter(u64::MAX, &never);
    let asked = std::cell::Cell::new(0);
    let cancelled = turns.enter(0, &|| {
        asked.set(asked.get() + 1);
        asked.get() > 3
    });
    assert_eq!(cancelled.standing(), Standing::Cancelled);
    assert!(first.beat());
    drop(first);
    assert_eq!(turns.try_enter(0).map(|turn| turn.standing()), Some(Standing::Held));
}

#[test]
fn when_all_slots_are_taken_one_goes_without() {
    let (_directory, page) = scratch();
    let turns = open(&page, NEVER_MS);
    let places: Vec<Place> = (0..SLOTS).map(|_| turns.queue(0).unwrap()).collect();
    assert_eq!(turns.enter(0, &never).standing(), Standing::Unavailable);
    assert_eq!(turns.try_enter(0).map(|turn| turn.standing()), Some(Standing::Unavailable));
    // A slot is free when nobody has its lock any more.
    let _sole = forks::none();
    drop(places);
    assert_eq!(turns.enter(0, &never).standing(), Standing::Held);
}

#[test]
fn any_content_is_survived() {
    for (len, byte) in [(0, 0), (1, 7), (20480, 0xff), (20480, 0x01), (100_000, 0xa5)] {
        let (_directory, page) = scratch();
        fs::write(&page, vec![byte; len]).unwrap();
        let turns = open(&page, NEVER_MS);
        let mut turn = turns.enter(0, &never);
        assert_eq!(turn.standing(), Standing::Held);
        assert!(turn.beat());
        assert!(turns.try_enter(0).is_none());
        drop(turn);
        assert!(turns.try_enter(0).is_some());
    }
}

#[test]
fn a_page_that_is_written_over_holds_nobody_up() {
    let (_directory, page) = scratch();
    let turns = open(&page, 20);
    let places: Vec<Place> = (0..3).map(|_| turns.queue(0).unwrap()).collect();
    for seed in 0..20u64 {
        let mut state = seed;
        page::scribble(
            &turns.page,
            std::iter::repeat_with(|| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if state >> 62 == 0 {
                    state >> 33
                } else {
                    state
                }
            }),
        );
        assert_eq!(turns.enter(0, &never).standing(), Standing::Held);
    }
    drop(places);
}

#[test]
fn a_page_that_became_shorter_is_left_alone() {
    let (_directory, page) = scratch();
    let turns = open(&page, NEVER_MS);
    let mut turn = turns.enter(0, &never);
    fs::write(&page, "").unwrap();
    assert!(!turn.beat());
    assert_eq!(turns.enter(0, &never).standing(), Standing::Unavailable);
    let again = open(&page, NEVER_MS);
    assert_eq!(again.enter(0, &never).standing(), Standing::Held);
}

#[test]
fn everybody_may_write_to_the_page() {
    use std::os::unix::fs::PermissionsExt as _;
    let (_directory, page) = scratch();
    let turns = open(&page, NEVER_MS);
    let mode = fs::metadata(turns.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
}

#[test]
fn what_is_no_file_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("/dev/null", &link).unwrap();
    for path in [directory.path(), &link, Path::new("/dev/null"), Path::new("/nonexistent/x")] {
        let message = Turns::open_at(path).unwrap_err().to_string();
        assert!(message.contains(&path.display().to_string()), "{message}");
    }
}

#[test]
fn a_child_of_a_fork_does_not_end_the_turn() {
    let (_directory, page) = scratch();
    let turns = open(&page, NEVER_MS);
    let mut place = turns.queue(0).unwrap();
    let holder = place.attempt(&place.waiter()).unwrap();
    place.process += 1; // As the child would see it.
    drop(place);
    assert_eq!(turns.page.owner().load(Ordering::SeqCst), holder.ticket);
}

#[test]
fn the_node_has_a_page() {
    let turns = Turns::open().unwrap();
    assert!(turns.path().exists());
}
