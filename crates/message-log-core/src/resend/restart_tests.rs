//! Three processes run an adjoint with parts whose messages may be sent again. Each receives verdicts and
//! writes checkpoints at arbitrary times, and all are killed at any point: they restart from the newest
//! checkpoint that all have. In any order of events, a message that is sent again is received again, one that
//! is not is in the log, and no process waits for ever.

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;

use proptest::prelude::*;

use super::judge::PartJudge;
use super::report::{ProcessReport, Subject};
use super::streams::{MessageStream, Streams};
use super::verdicts::{CheckpointOrigin, Verdicts};
use crate::log::{Arena, Call, CallOutcome, CallShape, Item, Items, Links, Payload};
use crate::parts::{Instance, Parts, Source, RESEND};
use crate::status::StatusBytes;
use crate::store::settled::SettledPosition;
use crate::store::tests::{read, written};
use crate::target::CallTarget;

const PROCESSES: usize = 3;
const ROOM: usize = 16;

/// The steps of all processes, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Do {
    Begin(i32),
    End(i32),
    Replay(i32),
    ReplayEnd(i32),
    /// Each sends a message to the next one. The same call sends the same messages when it is repeated.
    Exchange(u8),
    /// Sends a message that cannot be counted.
    Uncounted,
    Checkpoint,
}

/// One part of the forward sweep.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Whether it has an inner part, and if so whether its replay has that part too.
    inner: Option<bool>,
    /// Whether it is not right-tight.
    logged: bool,
    /// Where checkpoints are written, by bits.
    stores: u32,
}

const OUTER: i32 = 1;
const INNER: i32 = 2;

fn program(parts: &[Part]) -> Vec<Do> {
    let mut all = Vec::new();
    for (n, part) in (0..).zip(parts) {
        let mut stores = (0..).map(|bit| part.stores >> bit & 1 == 1);
        let mut add = |what| {
            all.push(what);
            all.extend(stores.next().unwrap_or(false).then_some(Do::Checkpoint));
        };
        add(Do::Begin(OUTER));
        add(Do::Exchange(4 * n));
        if part.inner.is_some() {
            add(Do::Begin(INNER));
            add(Do::Exchange(4 * n + 1));
            add(Do::End(INNER));
        }
        if part.logged {
            add(Do::Uncounted);
        }
        add(Do::Exchange(4 * n + 2));
        add(Do::End(OUTER));
    }
    for (n, part) in (0u8..).zip(parts).collect::<Vec<_>>().into_iter().rev() {
        let mut stores = (16..32).map(|bit| part.stores >> bit & 1 == 1);
        let mut add = |what| {
            all.push(what);
            all.extend(stores.next().unwrap_or(false).then_some(Do::Checkpoint));
        };
        add(Do::Replay(OUTER));
        add(Do::Exchange(4 * n));
        match part.inner {
            Some(true) => {
                add(Do::Begin(INNER));
                add(Do::Exchange(4 * n + 1));
                add(Do::End(INNER));
            }
            Some(false) => add(Do::Exchange(4 * n + 1)),
            None => {}
        }
        add(Do::Exchange(4 * n + 2));
        add(Do::ReplayEnd(OUTER));
        if part.inner.is_some() {
            add(Do::Replay(INNER));
            add(Do::Exchange(4 * n + 1));
            add(Do::ReplayEnd(INNER));
        }
    }
    all
}

/// A checkpoint of a process.
#[derive(Clone)]
struct Stored {
    /// The packed log, and its chunks.
    log: (Vec<u8>, Vec<Vec<u8>>),
    settled: SettledPosition,
}

struct Process {
    rank: usize,
    parts: Parts,
    arena: Arena,
    streams: Streams,
    judge: PartJudge,
    /// The number of completed steps of the program.
    done: usize,
    /// Reports sent whose verdicts are not known yet: the instance, and the number of the exchange.
    reported: VecDeque<(Subject, u64, u64)>,
    /// The number of verdicts known.
    known: usize,
}

/// How a replay treats a message, by the call and the process that sends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Again {
    sent: Option<bool>,
    received: Option<bool>,
}

struct Job {
    program: Vec<Do>,
    all: Vec<Process>,
    /// By the index of the checkpoint in the program.
    stored: HashMap<usize, Vec<Option<Stored>>>,
    /// The reports of each process, in order.
    reported: Vec<Vec<(ProcessReport, Subject)>>,
    /// What replays did with messages of the processes that run now, by the index in the program.
    again: HashMap<(usize, usize), Again>,
    run: u64,
}

impl Process {
    fn new(rank: usize, run: u64) -> Process {
        Process {
            rank,
            parts: Parts::default(),
            arena: Arena::default(),
            streams: Streams::default(),
            judge: PartJudge::new(ROOM, run),
            done: 0,
            reported: VecDeque::new(),
            known: 0,
        }
    }

    /// The process after a restart.
    fn resumed(rank: usize, run: u64, done: usize, stored: &Stored) -> Process {
        let mut own = Process::new(rank, run);
        let again = Some((&mut own.streams, &mut own.judge));
        let continued = read(&stored.log).continued(&own.parts, Some(stored.settled), again);
        (own.parts, own.arena) = continued.unwrap();
        own.done = done;
        own
    }

    /// Stores a received value.
    fn keep(&mut self, value: u8) -> Payload {
        let fill = |bytes: &mut [u8]| {
            bytes[0] = value;
            Ok(())
        };
        self.arena.keep(1, fill).unwrap()
    }

    fn streams(&self) -> (MessageStream, MessageStream) {
        let stream =
            |peer: usize| MessageStream { comm: 7, peer: (peer % PROCESSES) as u32, tag: 0 };
        (stream(self.rank + 1), stream(self.rank + PROCESSES - 1))
    }
}

/// The message of a call.
fn value(call: u8, from: usize) -> u8 {
    call * PROCESSES as u8 + from as u8
}

impl Job {
    fn new(program: Vec<Do>) -> Job {
        let all = (0..PROCESSES).map(|rank| Process::new(rank, 0)).collect();
        let reported = vec![Vec::new(); PROCESSES];
        let (stored, again) = (HashMap::new(), HashMap::new());
        Job { program, all, stored, reported, again, run: 0 }
    }

    fn report_origin(&mut self, rank: usize) {
        if let Some((report, of)) = self.all[rank].judge.origin() {
            self.reported[rank].push((report, of));
            self.all[rank].reported.push_back((of, u64::MAX, u64::MAX));
        }
    }

    /// Receives the verdicts that all have reported on. Returns whether none is left.
    fn take_verdicts(&mut self, rank: usize) -> bool {
        let own = &mut self.all[rank];
        while let Some((of, instance, number)) = own.reported.front().copied() {
            if self.reported.iter().any(|reported| reported.len() <= own.known) {
                return false;
            }
            // Packed and unpacked, as between processes.
            let travel = |(report, of): &(ProcessReport, Subject)| {
                ProcessReport::unpack(&report.pack(*of, ROOM))
            };
            let reports =
                self.reported.iter().map(|reported| travel(&reported[own.known])).collect();
            own.reported.pop_front();
            own.known += 1;
            match of {
                Subject::Resumed(_) => own.judge.agree(&mut own.parts, Ok(reports)),
                _ => {
                    let names = (instance, number);
                    let (streams, parts) = (&mut own.streams, &mut own.parts);
                    own.judge.judge(own.rank as c_int, streams, parts, names, Ok(reports));
                }
            }
        }
        true
    }

    /// The next step of a process. Returns whether it was possible.
    fn step(&mut self, rank: usize) -> bool {
        let Some(what) = self.program.get(self.all[rank].done).copied() else { return false };
        if what != Do::Checkpoint && what != Do::Uncounted {
            // Calls outside parts report nothing.
            let is_inside = self.all[rank].parts.open().is_any();
            if is_inside || !matches!(what, Do::Exchange(_)) {
                self.report_origin(rank);
            }
        }
        let own = &self.all[rank];
        let waits = match what {
            Do::Replay(id) => {
                !own.reported.iter().all(|(of, ..)| matches!(of, Subject::Resumed(_)))
                    || own.judge.verdicts.is_open()
                        && own.parts.replayable(id).is_some_and(Instance::is_closed)
            }
            Do::Exchange(_) => own.judge.verdicts.is_open() && own.parts.replays_closed(),
            _ => false,
        };
        if waits && !self.take_verdicts(rank) {
            return false;
        }
        let own = &mut self.all[rank];
        match what {
            Do::Begin(id) => {
                let is_first = own.parts.open().source() != Some(Source::Log);
                own.parts.begin(id, RESEND).unwrap();
                if is_first {
                    let mark = own.streams.begin();
                    own.parts.mark(mark);
                }
            }
            Do::End(id) => {
                let marked = own.parts.marked();
                own.parts.end(id).unwrap();
                if let Some((instance, mark)) = marked {
                    let (report, of, number) = own.judge.report(&mut own.streams, id, mark);
                    own.reported.push_back((of, instance, number));
                    self.reported[rank].push((report, of));
                }
            }
            Do::Replay(id) => own.parts.replay_begin(id).unwrap(),
            Do::ReplayEnd(id) => own.parts.replay_end(id).unwrap(),
            Do::Exchange(call) => self.exchange(rank, call),
            Do::Uncounted => own.streams.unknown(),
            Do::Checkpoint => {
                let settled = SettledPosition::of(&own.judge, &own.parts);
                let stored = Stored { log: written(&own.parts), settled };
                let all = self.stored.entry(own.done).or_insert_with(|| vec![None; PROCESSES]);
                all[rank] = Some(stored);
            }
        }
        self.all[rank].done += 1;
        true
    }

    /// Sends a message to the next process, and receives one from the previous one.
    fn exchange(&mut self, rank: usize, call: u8) {
        let own = &mut self.all[rank];
        let before = (rank + PROCESSES - 1) % PROCESSES;
        let shape =
            |name, call: u8| CallShape { tag: Some(call.into()), ..CallShape::new(Call(name)) };
        let (send, receive) = (shape("MPI_Send", call), shape("MPI_Recv", call));
        let (to, from) = own.streams();
        if own.parts.open().source() == Some(Source::Mpi) {
            let link = own.streams.sent(to, true);
            own.streams.send_done(link, true);
            own.parts
                .record(send, CallOutcome { links: Links::One(link), ..CallOutcome::of(0) })
                .unwrap();
            let payload = own.keep(value(call, before));
            let link = Some(own.streams.received_at_once(from, true));
            let item =
                Item { link, ..Item::new(StatusBytes::default(), CallTarget::Nothing, payload) };
            own.parts
                .record(receive, CallOutcome { items: Items::One(item), ..CallOutcome::of(0) })
                .unwrap();
            return;
        }
        let done = own.done;
        let link = own.parts.replaying().unwrap().peek(&send).unwrap().outcome.links.get(0);
        let sent = own.parts.closed().is_some_and(|closed| closed.sent(link).is_some());
        own.parts.next(&send).unwrap();
        let item =
            &own.parts.replaying().unwrap().peek(&receive).unwrap().outcome.items.as_slice()[0];
        let link = item.link;
        let received = own.parts.closed().is_some_and(|closed| closed.received(link).is_some());
        let at = own.parts.next(&receive).unwrap();
        if received {
            // As the library does.
            if own.parts.log().lacks(at, 0) {
                let payload = own.keep(value(call, before));
                own.parts.log_mut().keep(at, 0, payload);
            }
        } else {
            let item = &own.parts.log().get(at).unwrap().outcome.items.as_slice()[0];
            let logged = item.payload.bytes().to_vec();
            assert_eq!(logged, [value(call, before)], "process {rank} at {done}");
        }
        self.again.entry((done, rank)).or_default().sent = Some(sent);
        self.again.entry((done, before)).or_default().received = Some(received);
        for message in [(done, rank), (done, before)] {
            let Again { sent, received } = self.again[&message];
            if let (Some(sent), Some(received)) = (sent, received) {
                assert_eq!(sent, received, "the message of process {} at {done}", message.1);
            }
        }
    }

    /// All processes are killed and restarted.
    fn restart(&mut self) {
        let complete = self.stored.iter().filter(|(_, all)| all.iter().all(Option::is_some));
        let newest = complete.max_by_key(|(place, _)| **place);
        let newest = newest.map(|(place, all)| (*place, all.clone()));
        self.run += 1;
        self.again.clear();
        self.reported = vec![Vec::new(); PROCESSES];
        let Some((place, all)) = newest else {
            self.all = (0..PROCESSES).map(|rank| Process::new(rank, self.run)).collect();
            self.stored.clear();
            return;
        };
        // Later checkpoints are written again.
        self.stored.retain(|other, _| *other <= place);
        let resumed =
            |(rank, one)| Process::resumed(rank, self.run, place + 1, Option::as_ref(one).unwrap());
        self.all = (0..).zip(&all).map(resumed).collect();
    }

    /// All processes finish the program.
    fn finish(&mut self) {
        let end = self.program.len();
        while self.all.iter().any(|own| own.done < end) {
            let moved = (0..PROCESSES).filter(|&rank| self.step(rank)).count();
            assert!(
                moved > 0,
                "all wait at {:?}",
                self.all.iter().map(|own| own.done).collect::<Vec<_>>()
            );
        }
        for own in &self.all {
            assert_eq!((own.parts.log().figures().bytes, own.parts.instances().count()), (0, 0));
            assert!(own.parts.log().is_empty());
        }
    }
}

/// An event of the test.
#[derive(Clone, Copy, Debug)]
enum Next {
    Step(usize),
    Hear(usize),
    Kill,
}

fn nexts() -> impl Strategy<Value = Vec<Next>> {
    let next = prop_oneof![
        // Some processes run far ahead of others.
        40 => (0..PROCESSES, 1..8usize).prop_map(|(rank, times)| (Next::Step(rank), times)),
        20 => (0..PROCESSES).prop_map(|rank| (Next::Hear(rank), 1)),
        1 => Just((Next::Kill, 1)),
    ];
    let many = prop::collection::vec(next, 0..120);
    many.prop_map(|many| {
        let times = |(next, times)| std::iter::repeat_n(next, times);
        many.into_iter().flat_map(times).collect()
    })
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let bits = (any::<u32>(), any::<u32>()).prop_map(|(one, other)| one & other);
    let part = (prop::option::of(any::<bool>()), prop::bool::weighted(0.2), bits)
        .prop_map(|(inner, logged, stores)| Part { inner, logged, stores });
    prop::collection::vec(part, 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    /// Catches payloads that one process drops before another knows that the messages are sent again,
    /// verdicts that differ between restarted processes, and waits for later events.
    #[test]
    fn no_message_is_lost_whenever_verdicts_arrive(parts in parts(), nexts in nexts()) {
        let mut job = Job::new(program(&parts));
        for next in nexts {
            match next {
                Next::Step(rank) => drop(job.step(rank)),
                Next::Hear(rank) => drop(job.take_verdicts(rank)),
                Next::Kill => job.restart(),
            }
        }
        job.finish();
    }
}

/// Runs parts; each begins when the previous verdict is known.
fn in_step(job: &mut Job) {
    while job.all.iter().any(|own| own.done < job.program.len()) {
        for rank in 0..PROCESSES {
            job.take_verdicts(rank);
            job.step(rank);
        }
    }
}

/// Catches payloads that are never dropped.
#[test]
fn what_all_have_heard_is_given_up() {
    let part = [Do::Begin(OUTER), Do::Exchange(0), Do::End(OUTER)];
    let mut job = Job::new(part.repeat(5));
    in_step(&mut job);
    for own in &job.all {
        // The last verdict is not known, and of the last two it is not known whether all know them.
        assert_eq!(own.parts.log().figures().bytes, 2);
        assert_eq!(own.judge.dropped, 3);
    }
}

/// Catches processes that restart from different places, or from checkpoints of different runs, as if these
/// were one, and a replay that is refused though none of its messages are sent again.
#[test]
fn different_checkpoints_are_said() {
    let part = |logged: bool| {
        let inner = if logged { Do::Uncounted } else { Do::Checkpoint };
        [Do::Begin(OUTER), Do::Exchange(0), inner, Do::End(OUTER), Do::Checkpoint]
    };
    let program = [part(true), part(false), part(false)].concat();
    let place = |nth: usize| 5 * nth + 4;
    let refusal = |places: [usize; PROCESSES], runs: [u64; PROCESSES]| {
        let mut job = Job::new(program.clone());
        in_step(&mut job);
        let of = |rank: usize| {
            let mut stored = job.stored[&places[rank]][rank].clone().unwrap();
            stored.settled.origin.run = runs[rank];
            Process::resumed(rank, 9, places[rank] + 1, &stored)
        };
        let all = (0..PROCESSES).map(of).collect();
        (job.all, job.reported) = (all, vec![Vec::new(); PROCESSES]);
        (0..PROCESSES).for_each(|rank| job.report_origin(rank));
        let refused = |rank| {
            assert!(job.take_verdicts(rank));
            let begun = job.all[rank].parts.replay_begin(OUTER);
            begun.err().map(|fault| format!("{fault:?}"))
        };
        (0..PROCESSES).map(refused).collect::<Vec<_>>()
    };
    assert_eq!(refusal([place(2); 3], [0; 3]), [None, None, None]);
    let said = refusal([place(2), place(2), place(1)], [0; 3]);
    let words = ["process 0 was restarted", "boundary 6", "process 2 was restarted", "boundary 4"];
    for text in said.into_iter().flatten() {
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
    }
    let said = refusal([place(2); 3], [0, 0xabc, 0]);
    assert!(said.iter().all(|text| text.as_ref().is_some_and(|text| text.contains("run abc"))));
    // The first part is logged whole, so nothing in it depends on the others.
    assert_eq!(refusal([place(0); 3], [0, 1, 2]), [None, None, None]);
}

/// Catches a failed attempt to restart that is reported to the others.
#[test]
fn the_checkpoint_that_was_read_last_is_told() {
    let mut verdicts = Verdicts::new(5);
    let origin = |boundaries| CheckpointOrigin { run: 4, boundaries, begun: boundaries / 2 };
    verdicts.resume(origin(8), 3);
    verdicts.resume(origin(6), 2);
    assert_eq!((verdicts.take_origin(), verdicts.take_origin()), (Some(origin(6)), None));
    assert!(verdicts.is_reported() && verdicts.is_open());
    verdicts.agree(Some(2));
    // Exchanges are numbered from where they were, and those before count as known.
    assert_eq!((verdicts.known(), verdicts.settled(), verdicts.begin()), (3, 2, 3));
    assert_eq!(verdicts.origin(7), CheckpointOrigin { run: 5, boundaries: 7, begun: 4 });
    // Before the first exchange there is nothing to agree on.
    verdicts.resume(origin(1), 0);
    assert_eq!((verdicts.take_origin(), verdicts.is_open()), (None, false));
}
