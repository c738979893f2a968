//! Random programs of a few processes, whose messages are matched as MPI matches them: the conclusions from
//! the counts are compared with the actual matches.

use proptest::prelude::*;

use super::report::{words, ProcessReport, Subject};
use super::streams::{MessageLink, MessageStream, PartStart, Pattern, Streams, Ticket};
use super::tightness::{TightnessCheck, TightnessVerdict};

const PROCESSES: u32 = 3;
const COMM: u64 = 7;
const ROOM: usize = 16;
const PART: Subject = Subject::Part { id: 5, nth: 3 };

/// A step of one process.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Sends a message. A buffered send completes at once.
    Send { to: u32, tag: i32, buffered: bool },
    /// Completes the oldest or newest send that has a receive.
    SendDone { newest: bool },
    /// Posts a receive.
    Post { from: Option<u32>, tag: Option<i32> },
    /// Probes for a message, which is received later.
    Match { from: Option<u32>, tag: Option<i32> },
    /// Completes the oldest or newest receive that has a message.
    Receive { newest: bool },
    /// Begins or ends the part.
    PartEvent,
}

/// When something was done, relative to the part of the process that did it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    Before,
    Inside,
    Behind,
}

#[derive(Debug)]
struct Message {
    from: u32,
    to: u32,
    tag: i32,
    sent: When,
    link: MessageLink,
    buffered: bool,
    send_done: Option<When>,
    receive: Option<usize>,
}

#[derive(Debug)]
struct Receive {
    at: u32,
    pattern: Pattern,
    /// `None` for a message that was probed for.
    ticket: Option<Ticket>,
    posted: When,
    /// For a message that was probed for.
    link: Option<MessageLink>,
    message: Option<usize>,
    done: Option<(When, MessageLink)>,
}

impl Receive {
    fn new(at: u32, pattern: Pattern, ticket: Option<Ticket>, posted: When) -> Receive {
        Receive { at, pattern, ticket, posted, link: None, message: None, done: None }
    }
}

/// The job.
struct Job {
    streams: Vec<Streams>,
    marks: Vec<Option<PartStart>>,
    when: Vec<When>,
    reports: Vec<Option<ProcessReport>>,
    messages: Vec<Message>,
    receives: Vec<Receive>,
}

impl Job {
    fn new() -> Job {
        let all = PROCESSES as usize;
        Job {
            streams: (0..all).map(|_| Streams::default()).collect(),
            marks: vec![None; all],
            when: vec![When::Before; all],
            reports: vec![None; all],
            messages: Vec::new(),
            receives: Vec::new(),
        }
    }

    fn takes(receive: &Receive, message: &Message) -> bool {
        receive.at == message.to
            && receive.pattern.peer.is_none_or(|peer| peer == message.from)
            && receive.pattern.tag.is_none_or(|tag| tag == message.tag)
    }

    fn step(&mut self, at: u32, step: Step) {
        let own = at as usize;
        let when = self.when[own];
        match step {
            Step::Send { to, tag, buffered } => {
                let stream = MessageStream { comm: COMM, peer: to, tag };
                let link = self.streams[own].sent(stream, true);
                if buffered {
                    self.streams[own].send_done(link, true);
                }
                let message = Message {
                    from: at,
                    to,
                    tag,
                    sent: when,
                    link,
                    buffered,
                    send_done: buffered.then_some(when),
                    receive: None,
                };
                let first = self
                    .receives
                    .iter()
                    .position(|receive| receive.message.is_none() && Job::takes(receive, &message));
                self.messages.push(message);
                if let Some(receive) = first {
                    self.meet(receive, self.messages.len() - 1);
                }
            }
            Step::Post { from, tag } => {
                let pattern = Pattern { comm: COMM, peer: from, tag };
                let ticket = Some(self.streams[own].posted(pattern));
                let receive = Receive::new(at, pattern, ticket, when);
                let first = self
                    .messages
                    .iter()
                    .position(|message| message.receive.is_none() && Job::takes(&receive, message));
                self.receives.push(receive);
                if let Some(message) = first {
                    self.meet(self.receives.len() - 1, message);
                }
            }
            Step::Match { from, tag } => {
                let pattern = Pattern { comm: COMM, peer: from, tag };
                let mut receive = Receive::new(at, pattern, None, when);
                let first = self
                    .messages
                    .iter()
                    .position(|message| message.receive.is_none() && Job::takes(&receive, message));
                let Some(first) = first else { return };
                let message = &self.messages[first];
                let stream = MessageStream { comm: COMM, peer: message.from, tag: message.tag };
                receive.link = Some(self.streams[own].matched(stream, true));
                self.receives.push(receive);
                self.meet(self.receives.len() - 1, first);
            }
            Step::SendDone { newest } => {
                let mut open = (0..self.messages.len()).filter(|&n| {
                    let message = &self.messages[n];
                    message.from == at && message.send_done.is_none() && message.receive.is_some()
                });
                let Some(n) = (if newest { open.next_back() } else { open.next() }) else { return };
                self.streams[own].send_done(self.messages[n].link, false);
                self.messages[n].send_done = Some(when);
            }
            Step::Receive { newest } => {
                let mut open = (0..self.receives.len()).filter(|&n| {
                    let receive = &self.receives[n];
                    receive.at == at && receive.message.is_some() && receive.done.is_none()
                });
                let Some(n) = (if newest { open.next_back() } else { open.next() }) else { return };
                let message = &self.messages[self.receives[n].message.unwrap()];
                let stream = MessageStream { comm: COMM, peer: message.from, tag: message.tag };
                let Receive { ticket, link, .. } = self.receives[n];
                let link = match ticket {
                    Some(ticket) => self.streams[own].received(ticket, Some(stream), true),
                    None => {
                        self.streams[own].taken(link.unwrap(), true);
                        link
                    }
                };
                self.receives[n].done = link.map(|link| (when, link));
            }
            Step::PartEvent => self.next_event(own),
        }
    }

    fn next_event(&mut self, own: usize) {
        match self.when[own] {
            When::Before => {
                self.marks[own] = Some(self.streams[own].begin());
                self.when[own] = When::Inside;
            }
            When::Inside => {
                let report = self.streams[own].end(self.marks[own].unwrap(), ROOM);
                // Packed and unpacked, as between processes.
                let packed = report.pack(PART, ROOM);
                assert_eq!(packed.len(), words(ROOM));
                let (unpacked, part) = ProcessReport::unpack(&packed);
                assert_eq!((&unpacked, part), (&report, PART));
                self.reports[own] = Some(unpacked);
                self.when[own] = When::Behind;
            }
            When::Behind => {}
        }
    }

    fn meet(&mut self, receive: usize, message: usize) {
        self.receives[receive].message = Some(message);
        self.messages[message].receive = Some(receive);
    }

    fn verdict(&mut self) -> TightnessVerdict {
        for own in 0..PROCESSES as usize {
            self.next_event(own);
            self.next_event(own);
        }
        let reports: Vec<_> = self.reports.iter().map(|r| (r.clone().unwrap(), PART)).collect();
        TightnessCheck::default().judge(&reports)
    }

    /// Whether something in the part or before it waited for something after it.
    fn has_loose_end(&self) -> bool {
        let receive_waits = self.receives.iter().any(|receive| {
            // The probe itself waits.
            let is_done = receive.done.is_some_and(|(when, _)| when < When::Behind)
                || receive.ticket.is_none() && receive.posted < When::Behind;
            is_done && self.messages[receive.message.unwrap()].sent == When::Behind
        });
        let send_waits = self.messages.iter().any(|message| {
            !message.buffered
                && message.send_done.is_some_and(|when| when < When::Behind)
                && self.receives[message.receive.unwrap()].posted == When::Behind
        });
        receive_waits || send_waits
    }
}

fn steps() -> impl Strategy<Value = Vec<(u32, Step)>> {
    let other = (0..PROCESSES, 1..PROCESSES);
    let step = prop_oneof![
        6 => (0..PROCESSES, 0..2, any::<bool>()).prop_map(|(to, tag, buffered)| Step::Send {
            to,
            tag,
            buffered
        }),
        4 => any::<bool>().prop_map(|newest| Step::SendDone { newest }),
        6 => (
            proptest::option::weighted(0.7, 0..PROCESSES),
            proptest::option::weighted(0.8, 0..2),
        )
            .prop_map(|(from, tag)| Step::Post { from, tag }),
        3 => (
            proptest::option::weighted(0.7, 0..PROCESSES),
            proptest::option::weighted(0.8, 0..2),
        )
            .prop_map(|(from, tag)| Step::Match { from, tag }),
        6 => any::<bool>().prop_map(|newest| Step::Receive { newest }),
        2 => Just(Step::PartEvent),
    ];
    let one = (other, step).prop_map(|((at, further), step)| match step {
        Step::Send { tag, buffered, .. } => {
            (at, Step::Send { to: (at + further) % PROCESSES, tag, buffered })
        }
        Step::Post { from: Some(_), tag } => {
            (at, Step::Post { from: Some((at + further) % PROCESSES), tag })
        }
        Step::Match { from: Some(_), tag } => {
            (at, Step::Match { from: Some((at + further) % PROCESSES), tag })
        }
        step => (at, step),
    });
    proptest::collection::vec(one, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn what_is_sent_again_has_met_in_the_part(steps in steps()) {
        let mut job = Job::new();
        for (at, step) in steps {
            job.step(at, step);
        }
        let verdict = job.verdict();
        let TightnessVerdict::RightTight(closed) = verdict else { return Ok(()) };
        prop_assert!(!job.has_loose_end());
        for closed in closed {
            let pair = closed.pair;
            for number in closed.numbers {
                let sent = job.messages.iter().position(|message| {
                    (message.from, message.to, message.tag) == (pair.from, pair.to, pair.tag)
                        && message.link.number == number
                });
                let message = &job.messages[sent.unwrap()];
                prop_assert_eq!(message.sent, When::Inside);
                prop_assert_eq!(message.send_done, Some(When::Inside));
                let received = &job.receives[message.receive.unwrap()];
                prop_assert_eq!(received.posted, When::Inside);
                let (when, link) = received.done.unwrap();
                prop_assert_eq!(when, When::Inside);
                prop_assert_eq!(link.number, number);
            }
        }
    }
}

/// Runs two processes; each step names its process.
fn run(steps: &[(u32, Step)]) -> TightnessVerdict {
    let mut job = Job::new();
    for &(at, step) in steps {
        job.step(at, step);
    }
    job.verdict()
}

const BORDER: Step = Step::PartEvent;
const DONE: Step = Step::SendDone { newest: false };
const RECEIVE: Step = Step::Receive { newest: false };

fn send(to: u32) -> Step {
    Step::Send { to, tag: 0, buffered: false }
}

fn post(from: u32) -> Step {
    Step::Post { from: Some(from), tag: Some(0) }
}

fn one(range: std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
    std::iter::once(range).collect()
}

fn numbers(verdict: &TightnessVerdict) -> Vec<std::ops::Range<u64>> {
    match verdict {
        TightnessVerdict::RightTight(closed) => closed.iter().map(|c| c.numbers.clone()).collect(),
        TightnessVerdict::Logged(why) | TightnessVerdict::Misused(why) => panic!("{why}"),
    }
}

#[test]
fn a_message_with_both_ends_inside_is_closed() {
    let verdict =
        run(&[(0, BORDER), (1, BORDER), (0, send(1)), (1, post(0)), (1, RECEIVE), (0, DONE)]);
    assert_eq!(numbers(&verdict), one(0..1));
}

#[test]
fn a_message_under_way_when_the_part_begins_is_not() {
    // The first message was sent before the part; both receives are in it.
    let verdict = run(&[
        (0, Step::Send { to: 1, tag: 0, buffered: true }),
        (0, BORDER),
        (1, BORDER),
        (1, post(0)),
        (1, RECEIVE),
        (0, send(1)),
        (1, post(0)),
        (1, RECEIVE),
        (0, DONE),
    ]);
    assert_eq!(numbers(&verdict), one(1..2));
}

#[test]
fn a_receive_of_what_is_sent_behind_the_end_is_a_loose_end() {
    let verdict = run(&[
        (0, BORDER),
        (1, BORDER),
        (0, BORDER),
        (0, send(1)),
        (1, post(0)),
        (1, RECEIVE),
        (0, DONE),
    ]);
    assert!(matches!(verdict, TightnessVerdict::Logged(why) if why.contains("sent after its end")));
}

#[test]
fn a_send_that_waits_for_a_receive_behind_the_end_is_a_loose_end() {
    let steps = [(0, BORDER), (1, BORDER), (0, send(1)), (1, BORDER), (1, post(0)), (0, DONE)];
    let verdict = run(&steps);
    assert!(
        matches!(verdict, TightnessVerdict::Logged(why) if why.contains("a receive after its end"))
    );
    // A buffered send does not wait.
    let verdict = run(&[
        (0, BORDER),
        (1, BORDER),
        (0, Step::Send { to: 1, tag: 0, buffered: true }),
        (1, BORDER),
        (1, post(0)),
    ]);
    assert_eq!(numbers(&verdict), []);
}

/// Catches a part that is called right-tight although the backward sweep behind it waits for the
/// backward sweep before it: no process would get to the other's replay.
#[test]
fn a_receive_before_the_part_of_what_is_sent_behind_it_is_a_loose_end() {
    let other = Step::Send { to: 0, tag: 1, buffered: false };
    let verdict = run(&[
        (1, BORDER),
        (1, Step::Send { to: 0, tag: 0, buffered: true }),
        (1, BORDER),
        (1, other),
        (0, Step::Post { from: Some(1), tag: Some(1) }),
        (0, RECEIVE),
        (0, BORDER),
        (0, post(1)),
        (0, RECEIVE),
        (0, BORDER),
    ]);
    assert!(matches!(verdict, TightnessVerdict::Logged(why) if why.contains("sent after its end")));
}

/// Catches a loose end that is forgotten when no report mentions it any more, and one that stays for ever.
#[test]
fn a_loose_end_stays_until_the_other_process_has_done_it() {
    let stream = |peer, tag| MessageStream { comm: COMM, peer, tag };
    let mut streams = [Streams::default(), Streams::default()];
    let mut survey = TightnessCheck::default();
    streams[0].received_at_once(stream(1, 1), true);
    let mut verdict = |streams: &mut [Streams; 2]| {
        let reports = (0..2).map(|n: usize| {
            let mark = streams[n].begin();
            (streams[n].end(mark, ROOM), PART)
        });
        survey.judge(&reports.collect::<Vec<_>>())
    };
    assert!(matches!(verdict(&mut streams), TightnessVerdict::Logged(_)));
    assert!(matches!(verdict(&mut streams), TightnessVerdict::Logged(_)));
    streams[1].sent(stream(0, 1), true);
    assert_eq!(verdict(&mut streams), TightnessVerdict::RightTight(Vec::new()));
}

/// Catches a message that is sent again although nobody receives it in the replay, and one that is logged
/// unnecessarily.
#[test]
fn a_message_that_is_probed_for_is_closed_if_it_is_received_inside() {
    let probe = Step::Match { from: Some(0), tag: Some(0) };
    let before = [(0, BORDER), (1, BORDER), (0, send(1)), (1, probe), (0, DONE)];
    let verdict = run(&[&before[..], &[(1, RECEIVE), (1, BORDER)]].concat());
    assert_eq!(numbers(&verdict), one(0..1));
    // A send that completes before its message is received may have waited for the receive.
    let buffered = Step::Send { to: 1, tag: 0, buffered: true };
    let before = [(0, BORDER), (1, BORDER), (0, buffered), (1, probe)];
    let verdict = run(&[&before[..], &[(1, BORDER), (1, RECEIVE)]].concat());
    assert_eq!(numbers(&verdict), []);
}

#[test]
fn receives_in_another_order_than_posted_are_logged() {
    let verdict = run(&[
        (0, BORDER),
        (1, BORDER),
        (1, Step::Post { from: None, tag: None }),
        (1, post(0)),
        (0, send(1)),
        (0, send(1)),
        (1, Step::Receive { newest: true }),
        (1, RECEIVE),
        (0, DONE),
        (0, DONE),
    ]);
    assert_eq!(numbers(&verdict), []);
}

#[test]
fn a_collective_call_that_straddles_the_end_is_a_loose_end() {
    let report = |begun_inside: bool| {
        let mut streams = Streams::default();
        let mark = streams.begin();
        if begun_inside {
            streams.collective_begun(COMM, 2);
            streams.collective_done(COMM, 2);
        }
        (streams.end(mark, ROOM), PART)
    };
    let both = TightnessCheck::default().judge(&[report(true), report(true)]);
    assert_eq!(both, TightnessVerdict::RightTight(Vec::new()));
    let one = TightnessCheck::default().judge(&[report(true), report(false)]);
    assert!(matches!(one, TightnessVerdict::Logged(why) if why.contains("collective")));
}

#[test]
fn counts_from_outside_parts_are_told_later_and_too_many_streams_are_said() {
    let mut streams = [Streams::default(), Streams::default()];
    let mut survey = TightnessCheck::default();
    // Before the part: a message from 0 to 1 that is in flight.
    let link = streams[0].sent(MessageStream { comm: COMM, peer: 1, tag: 0 }, true);
    streams[0].send_done(link, true);
    let marks: Vec<PartStart> = streams.iter_mut().map(Streams::begin).collect();
    streams[1].received_at_once(MessageStream { comm: COMM, peer: 0, tag: 0 }, true);
    for tag in 1..4 {
        streams[0].sent(MessageStream { comm: COMM, peer: 1, tag }, true);
    }
    let reports: Vec<_> =
        streams.iter_mut().zip(&marks).map(|(own, mark)| (own.end(*mark, 3), PART)).collect();
    let why = survey.judge(&reports);
    assert!(matches!(why, TightnessVerdict::Logged(why) if why.contains("has 4 streams")));
    // With more room, the next part's reports contain the same counts, and it is right-tight.
    let marks: Vec<PartStart> = streams.iter_mut().map(Streams::begin).collect();
    let reports: Vec<_> =
        streams.iter_mut().zip(&marks).map(|(own, mark)| (own.end(*mark, 4), PART)).collect();
    assert_eq!(reports[0].0.entries.len(), 4);
    assert_eq!(survey.judge(&reports), TightnessVerdict::RightTight(Vec::new()));
}

#[test]
fn parts_that_do_not_match_are_said() {
    let report = ProcessReport::default;
    let judge = |other| TightnessCheck::default().judge(&[(report(), PART), (report(), other)]);
    let said = |other, words: &[&str]| match judge(other) {
        TightnessVerdict::Misused(why) => {
            assert!(words.iter().all(|word| why.contains(word)), "{why}")
        }
        other => panic!("{other:?}"),
    };
    said(Subject::Part { id: 6, nth: 3 }, &["part 5", "part 6", "process 1"]);
    // One process has begun another part with the same id, and abandoned it.
    said(Subject::Part { id: 5, nth: 4 }, &["part 5", "number 4", "number 5"]);
    said(Subject::Nothing, &["part 5", "MPI_Finalize"]);
    assert!(matches!(judge(PART), TightnessVerdict::RightTight(_)));
}

/// Catches a send whose request was freed, if its stream is untidy for ever, or the message is sent again
/// although nobody can wait for its completion.
#[test]
fn a_send_that_is_given_up_is_logged_and_no_later_one() {
    let stream = MessageStream { comm: COMM, peer: 1, tag: 0 };
    let mut streams = Streams::default();
    let mut part = |gives_up: bool| {
        let mark = streams.begin();
        let link = streams.sent(stream, true);
        match gives_up {
            true => streams.send_given_up(link),
            false => streams.send_done(link, false),
        }
        let report = streams.end(mark, ROOM);
        let entry = report.entries[0];
        assert!(report.doubt.is_none() && report.entries.len() == 1);
        (entry.begin..entry.end, entry.untidy, entry.reach)
    };
    assert_eq!(part(false), (0..1, false, 1));
    // Nothing shows that its receive was posted.
    assert_eq!(part(true), (1..2, true, 1));
    assert_eq!(part(false), (2..3, false, 3));
    // Also before a part.
    let link = streams.sent(stream, true);
    streams.send_given_up(link);
    let mark = streams.begin();
    let link = streams.sent(stream, true);
    streams.send_done(link, false);
    let report = streams.end(mark, ROOM);
    assert_eq!((report.entries[0].begin, report.entries[0].untidy), (4, false));
}

/// Catches messages that a replay would receive in the order in which they were sent, unlike the first run:
/// those that were probed for, and receives posted between a probe and its receive.
#[test]
fn what_is_received_in_another_order_than_probed_for_is_logged() {
    let stream = MessageStream { comm: COMM, peer: 1, tag: 0 };
    let named = Pattern { comm: COMM, peer: Some(1), tag: Some(0) };
    let untidy = |body: &dyn Fn(&mut Streams)| {
        let mut streams = Streams::default();
        let mark = streams.begin();
        body(&mut streams);
        let first = streams.end(mark, ROOM).entries[0].untidy;
        // Later messages are in order again.
        let mark = streams.begin();
        let link = streams.matched(stream, true);
        streams.taken(link, true);
        assert!(!streams.end(mark, ROOM).entries[0].untidy);
        first
    };
    let probed = |order: [usize; 2]| {
        untidy(&|streams| {
            let links = [0, 1].map(|_| streams.matched(stream, true));
            order.iter().for_each(|nth| streams.taken(links[*nth], true));
        })
    };
    assert_eq!((probed([0, 1]), probed([1, 0])), (false, true));
    for pattern in [named, Pattern { peer: None, ..named }] {
        assert!(untidy(&|streams| {
            let link = streams.matched(stream, true);
            let ticket = streams.posted(pattern);
            streams.taken(link, true);
            streams.received(ticket, Some(stream), true);
        }));
    }
    assert!(untidy(&|streams| {
        let link = streams.matched(stream, true);
        streams.received_at_once(stream, true);
        streams.taken(link, true);
    }));
}
