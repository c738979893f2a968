//! Several processes of a job in one process: engines with their workers and connections, without MPI.

use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::Engine;
use catalog::FileLevel;
use config::Config;
use erasure::encoding::Member;
use erasure::membership::{self, ErasureSettings, ProcessInfo};
use erasure::node::{Node, PreparedNode};
use erasure::parity::ParityFile;
use erasure::peer::Peer;
use erasure::wire::{FileId, Message};
use errors::{Error, ErrorKind};
use files::{Naming, Output};
use format::checksum::Checksum;
use policy::rounds::{Common, Learned, Range, PARITIES};
use recovery::Process;

const SETTINGS: ErasureSettings = ErasureSettings { interval: 0, group: 8, parities: 1 };

/// The nodes of `count` processes, which answer.
pub(super) fn nodes(count: u32) -> Vec<Node> {
    let prepared: Vec<PreparedNode> =
        (0..count).map(|_| PreparedNode::new(SETTINGS, None).unwrap()).collect();
    let infos: Vec<ProcessInfo> = prepared.iter().map(|prepared| prepared.info.clone()).collect();
    let known: Vec<Option<ProcessInfo>> = infos.iter().cloned().map(Some).collect();
    let start = |(own, prepared): (usize, PreparedNode)| {
        let place = membership::membership_of(&known, own as u32).unwrap().0.unwrap();
        Node::start(prepared, own as u32, infos.clone(), place).unwrap()
    };
    prepared.into_iter().enumerate().map(start).collect()
}

/// The engine of a process with a scratch directory of its own, in the group.
fn engine(folder: &Path, rank: u32, node: Node) -> Engine {
    let engine = alone(folder, rank);
    engine.join(node).unwrap();
    engine
}

/// The engine of a process with a scratch directory of its own.
pub(super) fn alone(folder: &Path, rank: u32) -> Engine {
    configured(folder, rank, "")
}

fn configured(folder: &Path, rank: u32, more: &str) -> Engine {
    let scratch = folder.join(rank.to_string());
    let text = format!("mode = sync\nscratch = {}\n{more}", scratch.display());
    let (config, _) = Config::from_text(&text, |_| None).unwrap();
    Engine::start(config, Process { rank, ranks: 2, run: 7 }, None).unwrap()
}

fn take(engine: &Engine, version: i32) {
    take_as(engine, version, engine.shared.file_side.files.places().rank() as u8);
}

/// Takes a version as a checkpoint does: another file takes the name, and the one before keeps its bytes for those
/// who still read it.
fn take_as(engine: &Engine, version: i32, byte: u8) {
    publish(engine, &engine.shared.file_side.naming.lock(), version, byte);
    engine.shared.file_side.protect("x", version);
}

pub(super) fn publish(engine: &Engine, naming: &Naming<'_>, version: i32, byte: u8) {
    let files = &engine.shared.file_side.files;
    let temporary = files.places().temporary(&files.places().scratch_path("x", version).unwrap());
    let mut output = Output::create(temporary, None).unwrap();
    output.put(&vec![byte; 1000 + version as usize]).unwrap();
    files.scratch().publish(naming, &output.finish(), "x", version).unwrap();
}

fn is_protected(engine: &Engine, version: i32) -> bool {
    let path = engine.shared.file_side.files.places().parity_path("x", version).unwrap();
    ParityFile::read(&path).and_then(|parity| parity.verify()).is_ok()
}

fn failures(engine: &Engine) -> u64 {
    let spoilt = engine.shared.file_side.erasure.get().map_or(0, Node::unprotected);
    engine.shared.telemetry.metrics.encode_failures.load(Ordering::Relaxed) + spoilt
}

/// Ends all engines, each on its own thread, as they wait for each other.
fn finish(engines: Vec<&Engine>) {
    thread::scope(|scope| {
        for engine in engines {
            scope.spawn(|| engine.shared.file_side.erasure.get().unwrap().finish());
        }
    });
}

#[test]
fn everybody_keeps_parities_at_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let engines: Vec<Engine> =
        (0..).zip(nodes(4)).map(|(rank, node)| engine(folder.path(), rank, node)).collect();
    for version in 1..20 {
        engines.iter().for_each(|engine| take(engine, version));
    }
    // Taken again: the final parities belong to the new files.
    engines.iter().for_each(|engine| take_as(engine, 3, 200));
    finish(engines.iter().collect());
    for engine in &engines {
        assert!((1..20).all(|version| is_protected(engine, version)));
        assert_eq!(failures(engine), 0);
    }
    // A file that replaces another one must not look damaged.
    let files = &engines[0].shared.file_side.files;
    let temporary = files.places().temporary(&files.places().scratch_path("x", 5).unwrap());
    let mut output = Output::create(temporary, None).unwrap();
    output.put(b"another").unwrap();
    files.scratch().publish(&files::Names::default().lock(), &output.finish(), "x", 5).unwrap();
    files.removal().remove_scratch("x", 6, None).unwrap();
    assert!(!files.places().parity_path("x", 5).unwrap().exists());
    assert!(!files.places().parity_path("x", 6).unwrap().exists());
    assert!(is_protected(&engines[0], 7));
}

/// Another process is slower, and has not announced its file. Catches a limit that removes what is being protected,
/// so that nothing ever is while versions come fast; and one that keeps what cannot be protected any more.
#[test]
fn a_limit_leaves_what_is_being_protected() {
    let folder = tempfile::tempdir().unwrap();
    let mut both = nodes(2);
    let _slow = both.pop();
    let engine = configured(folder.path(), 0, "scratch_versions = 1\n");
    engine.join(both.remove(0)).unwrap();
    let side = &engine.shared.file_side;
    side.common.iter().for_each(|common| *common.lock() = Common::default());
    let learn =
        |kind: usize, more, settled| side.common[kind].lock().learn(Learned { more, settled });
    let arrive = |version: i32| {
        let id = version as u64;
        publish(&engine, &side.naming.lock(), version, 1);
        learn(0, Some(Range { first: id, last: id, goes_on: version > 1 }), id);
        side.arrived(&side.naming.lock(), FileLevel::Scratch, "x", version, id);
    };
    let is_there = |version| side.files.places().scratch_path("x", version).unwrap().exists();
    (1..=3).for_each(arrive);
    assert!((1..=3).all(is_there), "all of them may still be protected");
    let full = side.with_limit(FileLevel::Scratch, Error::new(ErrorKind::NoRoom, "full"));
    assert!(full.to_string().contains("whose parities are to be made"), "{full}");
    // The other has no file of the first two.
    learn(PARITIES, None, 2);
    arrive(4);
    assert!((3..=4).all(is_there) && !(1..=2).any(is_there));
}

/// One process ends before it has the version that the others wait for.
#[test]
fn the_end_of_one_does_not_keep_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let mut engines: Vec<Engine> =
        (0..).zip(nodes(3)).map(|(rank, node)| engine(folder.path(), rank, node)).collect();
    engines.iter().for_each(|engine| take(engine, 1));
    engines.iter().take(2).for_each(|engine| take(engine, 2));
    while !engines.iter().all(|engine| is_protected(engine, 1)) {
        thread::yield_now();
    }
    drop(engines.pop());
    finish(engines.iter().collect());
    take(&engines[0], 3);
    for engine in &engines {
        assert!(!is_protected(engine, 2));
    }
    assert_eq!((failures(&engines[0]), failures(&engines[1])), (2, 1));
}

/// A process has announced a file, and is gone or refuses when its bytes are requested.
#[test]
fn a_death_in_the_middle_of_encoding_is_a_failure_and_no_hang() {
    let folder = tempfile::tempdir().unwrap();
    for refuses in [false, true] {
        let mut nodes = nodes(3);
        let odd = nodes.pop().unwrap();
        let engines: Vec<Engine> =
            (0..).zip(nodes).map(|(rank, node)| engine(folder.path(), rank, node)).collect();
        let file = Member {
            rank: 2,
            len: 1000,
            digest: Checksum::of(b"nowhere"),
            identity: format::identity::Identity::UNKNOWN,
            routed: None,
        };
        let mut calls: Vec<Peer> = (0..2).map(|rank| odd.call(rank).unwrap()).collect();
        for call in &mut calls {
            let (name, version, round) = ("x".to_owned(), 1, 0);
            let word = Message::Announced { name, version, round, file: file.clone() };
            call.send_message(&word).unwrap();
        }
        if !refuses {
            odd.stop();
        }
        engines.iter().for_each(|engine| take(engine, 1));
        while !engines.iter().all(|engine| failures(engine) > 0) {
            thread::yield_now();
        }
        drop((odd, calls));
        finish(engines.iter().collect());
        assert!(engines.iter().all(|engine| !is_protected(engine, 1)));
    }
}

/// A connection is lost in one direction. Catches a process that waits at the end for one that regards it as gone, and
/// so tells it nothing.
#[test]
fn a_loss_is_noticed_on_both_sides() {
    let nodes = nodes(2);
    let mut call = nodes[0].call(1).unwrap();
    // A message for which there is no reply, so that the call is answered by now.
    call.send_message(&Message::DecidedAll).unwrap();
    nodes[1].peer_lost(0, &Error::new(ErrorKind::System, "no answer"));
    while call.broken().is_none() {
        call.check_connected();
        thread::yield_now();
    }
}

/// A process is alive but does not answer: others can stop waiting for it.
#[test]
fn a_job_can_end_while_it_waits_for_an_answer() {
    let folder = tempfile::tempdir().unwrap();
    let prepared: Vec<PreparedNode> =
        (0..2).map(|_| PreparedNode::new(SETTINGS, None).unwrap()).collect();
    let infos: Vec<ProcessInfo> = prepared.iter().map(|prepared| prepared.info.clone()).collect();
    let known: Vec<Option<ProcessInfo>> = infos.iter().cloned().map(Some).collect();
    let place = membership::membership_of(&known, 0).unwrap().0.unwrap();
    let mut prepared = prepared.into_iter();
    let node = Node::start(prepared.next().unwrap(), 0, infos, place).unwrap();
    // The other one accepts connections, as far as the system does that, and sends nothing.
    let silent = prepared.next().unwrap();
    let engine = engine(folder.path(), 0, node);
    take(&engine, 1);
    drop(engine);
    drop(silent);
}

/// A host that does not answer: the end of the job ends the connection attempt, and no other is made. Catches
/// a connection attempt that cannot be ended, and retries after the end.
#[test]
fn a_job_can_end_while_it_connects() {
    // A full backlog of connections makes the system drop further ones.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&deaf, 0).unwrap();
    let address = deaf.local_addr().unwrap();
    let mut callers = Vec::new();
    let timed_out = loop {
        match TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
            Ok(caller) => callers.push(caller),
            Err(error) => break error,
        }
    };
    assert_eq!(timed_out.kind(), std::io::ErrorKind::TimedOut);
    let prepared = PreparedNode::new(SETTINGS, None).unwrap();
    let own = prepared.info.clone();
    let infos = vec![own.clone(), ProcessInfo { addresses: vec![address], ..own }];
    let known: Vec<Option<ProcessInfo>> = infos.iter().cloned().map(Some).collect();
    let place = membership::membership_of(&known, 0).unwrap().0.unwrap();
    let node = Node::start(prepared, 0, infos, place).unwrap();
    thread::scope(|scope| {
        let calling = scope.spawn(|| node.call(1).unwrap_err().to_string());
        let since = Instant::now();
        while node.open_calls() == 0 {
            assert!(since.elapsed() < Duration::from_secs(60), "nobody can end this call");
            thread::yield_now();
        }
        node.stop();
        let error = calling.join().unwrap();
        assert!(!error.contains("timed out"), "{error}");
    });
    let error = node.call(1).unwrap_err().to_string();
    assert!(error.contains("the job ends"), "{error}");
}

/// Strangers are neither read nor answered, and members only within their group.
#[test]
fn strangers_are_turned_away() {
    let nodes = nodes(2);
    let prepared = PreparedNode::new(SETTINGS, None).unwrap();
    let mut info = prepared.info.clone();
    let here = info.clone();
    let place =
        membership::membership_of(&[Some(here.clone()), Some(here.clone())], 0).unwrap().0.unwrap();
    let infos = vec![here.clone(), here.clone()];
    let called = Node::start(prepared, 0, infos, place).unwrap();
    info.token[5] ^= 1;
    let error = Peer::call(0, &info, 1, &here, |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("hung up"), "{error}");
    Peer::call(0, &here, 1, &here, |_| Ok(())).unwrap();
    // A request for a file that is not offered is refused, and the connection stays usable.
    let mut call = nodes[0].call(1).unwrap();
    let id = FileId { name: "../x".to_owned(), version: 1, digest: Checksum::from_bytes([0; 32]) };
    for _ in 0..2 {
        call.request(id.clone(), 0, 100).unwrap();
        assert!(call.receive_into(&mut [0; 100]).unwrap_err().to_string().contains("not served"));
    }
    assert!(call.broken().is_none());
    call.check_connected();
    assert!(call.broken().is_none());
    drop(called);
}

/// Strangers connect all the time, and some send a byte: a member's first connection is answered all the
/// same.
#[test]
fn members_are_let_in_while_strangers_call() {
    let prepared = PreparedNode::new(SETTINGS, None).unwrap();
    let info = prepared.info.clone();
    let known = [Some(info.clone()), Some(info.clone())];
    let place = membership::membership_of(&known, 0).unwrap().0.unwrap();
    let called = Node::start(prepared, 0, vec![info.clone(), info.clone()], place).unwrap();
    let (calling, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut strangers = VecDeque::new();
            for number in 0..5000 {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let mut stranger = TcpStream::connect(info.addresses_from(&info)[0]).unwrap();
                if number % 2 == 0 {
                    // The stranger may have been turned away.
                    let _ = stranger.write_all(&[1]);
                }
                strangers.push_back(stranger);
                strangers.drain(..strangers.len().saturating_sub(100));
                calling.store(number, Ordering::Relaxed);
            }
            calling.store(usize::MAX, Ordering::Relaxed);
        });
        while calling.load(Ordering::Relaxed) < 100 {
            thread::yield_now();
        }
        for _ in 0..50 {
            let call = Peer::call(0, &info, 1, &info, |_| Ok(()));
            over.store(call.is_err(), Ordering::Relaxed);
            assert!(call.is_ok(), "{call:?}");
        }
        over.store(true, Ordering::Relaxed);
    });
    drop(called);
}

/// Measures: `cargo test --release --config profile.release.debug-assertions=true -p engine erasure_tests -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement: it prints rates, and takes 1 GiB of /dev/shm"]
fn throughput_over_the_loopback() {
    const LEN: usize = 256 << 20;
    const VERSIONS: i32 = 4;
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let engines: Vec<Engine> =
        (0..).zip(nodes(4)).map(|(rank, node)| engine(folder.path(), rank, node)).collect();
    for engine in &engines {
        for version in 1..=VERSIONS {
            let content = vec![version as u8; LEN];
            fs::write(
                engine.shared.file_side.files.places().scratch_path("x", version).unwrap(),
                content,
            )
            .unwrap();
        }
    }
    let path = engines[0].shared.file_side.files.places().scratch_path("x", 1).unwrap();
    let since = std::time::Instant::now();
    erasure::parity::digest(&fs::File::open(&path).unwrap(), &path).unwrap();
    println!("digest of a file: {:.2} GB/s", LEN as f64 / since.elapsed().as_secs_f64() / 1e9);
    let since = std::time::Instant::now();
    for engine in &engines {
        (1..=VERSIONS).for_each(|version| engine.shared.file_side.protect("x", version));
    }
    finish(engines.iter().collect());
    let bytes = engines.len() * VERSIONS as usize * LEN;
    let rate = bytes as f64 / since.elapsed().as_secs_f64() / 1e9;
    println!("3 + 1 on tmpfs, four processes in one: {rate:.2} GB/s of data in all");
    assert!(engines.iter().all(|engine| is_protected(engine, VERSIONS)));
}
