//! The parts and their log, compared with a simple model: each recorded run has its own list of all its
//! events.

use proptest::prelude::*;

use super::*;
use crate::log::{Arena, Call, CallOutcome, CallShape, Item, Items, LogEvent};
use crate::status::StatusBytes;
use crate::store::tests::moved;
use crate::target::CallTarget;

/// A call: its shape, and what it received. Polls receive nothing and are all equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    tag: i32,
    len: usize,
}

impl Message {
    const POLL: Message = Message { tag: -1, len: 0 };

    fn shape(self) -> CallShape {
        let call = if self == Message::POLL { Call("MPI_Iprobe") } else { Call("MPI_Recv") };
        CallShape { tag: Some(self.tag), ..CallShape::new(call) }
    }

    fn outcome(self, arena: &mut Arena) -> CallOutcome {
        let mut outcome = CallOutcome::of(0);
        if self == Message::POLL {
            return outcome;
        }
        let fill = |bytes: &mut [u8]| {
            bytes.fill(self.tag as u8);
            Ok(())
        };
        let payload = arena.keep(self.len, fill).unwrap();
        outcome.items = Items::One(Item::new(StatusBytes::default(), CallTarget::Nothing, payload));
        outcome
    }

    /// Whether an event belongs to this call and has its bytes.
    fn is(self, event: &LogEvent) -> bool {
        let is_own = |bytes: &[u8]| {
            bytes.len() == self.len && bytes.iter().all(|byte| *byte == self.tag as u8)
        };
        let item = event.outcome.items.as_slice().first();
        event.shape == self.shape()
            && item.map_or(self.len == 0, |item| is_own(item.payload.bytes()))
    }
}

/// A recorded run, in the model.
#[derive(Clone, Debug)]
struct Run {
    id: i32,
    keep: bool,
    /// Its calls, with the number of the real call that each comes from.
    seen: Vec<(usize, Message)>,
    is_closed: bool,
    /// Whether it has failed while it was recorded.
    is_lost: bool,
    /// The real call before which it began.
    begin: usize,
    /// The runs that were open around it.
    around: Vec<usize>,
}

impl Run {
    /// Whether it is number `own`, began at this position, and inside the first run of one of these replays.
    fn was_at(&self, own: usize, place: usize, replays: &[(usize, usize)]) -> bool {
        let is_inside = |(run, since): &(usize, usize)| own < *since && self.around.contains(run);
        self.begin == place && replays.iter().any(is_inside)
    }
}

#[derive(Clone, Copy, Debug)]
enum ModelOpen {
    Record(usize),
    /// The run, the number of its replayed calls, whether it is part of the enclosing replay, and how many
    /// runs there were before.
    Replay(usize, usize, bool, usize),
}

/// The model. Dropped runs are `None`.
#[derive(Debug, Default)]
struct Model {
    runs: Vec<Option<Run>>,
    open: Vec<ModelOpen>,
    real: usize,
    /// For a replayed run: the last run included in it, and where that began.
    passed: std::collections::BTreeMap<usize, (usize, usize)>,
}

impl Model {
    fn replay(&self) -> Option<(usize, usize)> {
        self.open.iter().rev().find_map(|open| match open {
            ModelOpen::Replay(run, at, ..) => Some((*run, *at)),
            ModelOpen::Record(_) => None,
        })
    }

    fn run(&self, run: usize) -> &Run {
        self.runs[run].as_ref().unwrap()
    }

    /// The bytes that runs need; each real call counts once.
    fn bytes(&self) -> u64 {
        let mut needed = std::collections::BTreeMap::new();
        for run in self.runs.iter().flatten() {
            needed.extend(run.seen.iter().copied());
        }
        needed.values().map(|message| message.len as u64).sum()
    }

    /// The real call that a replay is before.
    fn place(&self, run: usize, at: usize) -> usize {
        let run = self.run(run);
        match (run.seen.get(at), run.seen.last()) {
            (Some((real, _)), _) => *real,
            (None, Some((real, _))) => real + 1,
            (None, None) => run.begin,
        }
    }

    /// The real call after the last one of a run.
    fn end(&self, run: usize) -> usize {
        self.place(run, self.run(run).seen.len())
    }

    /// The runs that record a call made now.
    fn recorded(&self) -> Vec<usize> {
        let goes_on = |open: &&ModelOpen| !matches!(open, ModelOpen::Replay(_, _, false, _));
        let record = |open: &ModelOpen| match open {
            ModelOpen::Record(run) => Some(*run),
            ModelOpen::Replay(..) => None,
        };
        self.open.iter().rev().take_while(goes_on).filter_map(record).collect()
    }

    fn number(open: &ModelOpen) -> usize {
        match open {
            ModelOpen::Record(run) | ModelOpen::Replay(run, ..) => *run,
        }
    }
}

/// A step of a test.
#[derive(Clone, Copy, Debug)]
enum Step {
    Begin {
        id: i32,
        keep: bool,
    },
    /// Ends the innermost part; a replay first makes its remaining calls.
    End,
    Replay {
        id: i32,
    },
    Free {
        id: i32,
    },
    Call {
        tag: i32,
        len: usize,
    },
    Polls {
        times: usize,
    },
    /// Received data cannot be logged.
    Lose,
    /// The process is restarted.
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let ids = 0..3;
    let step = prop_oneof![
        3 => (ids.clone(), any::<bool>()).prop_map(|(id, keep)| Step::Begin { id, keep }),
        4 => Just(Step::End),
        3 => ids.clone().prop_map(|id| Step::Replay { id }),
        1 => ids.prop_map(|id| Step::Free { id }),
        6 => (0..100, prop_oneof![0..30usize, 100..5000usize])
            .prop_map(|(tag, len)| Step::Call { tag, len }),
        2 => (1..5usize).prop_map(|times| Step::Polls { times }),
        1 => Just(Step::Lose),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 0..60)
}

struct Test {
    parts: Parts,
    arena: Arena,
    model: Model,
}

impl Test {
    /// One call; in a replay it is the logged one, so that it does not diverge.
    fn call(&mut self, message: Message) {
        match self.model.replay() {
            None => {
                assert_ne!(self.parts.open().source(), Some(Source::Log));
                if self.parts.open().source().is_some() {
                    let is_whole = |run: &usize| !self.model.run(*run).is_lost;
                    let can_log = self.model.recorded().iter().any(is_whole);
                    assert_eq!(self.parts.can_log(), can_log);
                    let message = if can_log { message } else { Message { len: 0, ..message } };
                    let outcome = message.outcome(&mut self.arena);
                    if self.model.real.is_multiple_of(3) || !self.parts.has_room() {
                        self.parts.record(message.shape(), outcome).unwrap();
                    } else if message != Message::POLL || !self.parts.record_same(message.shape()) {
                        assert!(self.parts.record_in_room(message.shape(), outcome));
                    }
                    self.see(self.model.real, message);
                    self.model.real += 1;
                }
            }
            Some((run, at)) => {
                assert_eq!(self.parts.open().source(), Some(Source::Log));
                let Some((real, logged)) = self.model.run(run).seen.get(at).copied() else {
                    // At the part's end any call differs, and changes nothing.
                    let at_end = self.parts.next(&message.shape()).unwrap_err();
                    assert_eq!(at_end.logged, None);
                    return;
                };
                // A different call is detected, and changes nothing.
                let other = Message { tag: logged.tag + 1000, ..logged };
                let divergence = self.parts.next(&other.shape()).unwrap_err();
                assert_eq!(divergence.logged, Some(logged.shape()));
                let place = self.parts.next(&logged.shape()).unwrap();
                assert!(logged.is(self.parts.log().get(place).unwrap()));
                self.see(real, logged);
            }
        }
    }

    /// Advances the replays, and adds the call to the runs that are recorded inside.
    fn see(&mut self, real: usize, message: Message) {
        for open in self.model.open.iter_mut().rev() {
            match open {
                ModelOpen::Replay(_, at, is_step, _) => {
                    *at += 1;
                    if !*is_step {
                        break;
                    }
                }
                ModelOpen::Record(run) => {
                    self.model.runs[*run].as_mut().unwrap().seen.push((real, message));
                }
            }
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Begin { id, keep } => {
                self.parts.begin(id, if keep { KEEP } else { 0 }).unwrap();
                let begin = match self.model.replay() {
                    Some((replayed, at)) => {
                        let place = self.model.place(replayed, at);
                        self.replace(id, place);
                        place
                    }
                    None => self.model.real,
                };
                let around = self.model.open.iter().map(Model::number).collect();
                let (seen, is_closed, is_lost) = (Vec::new(), false, false);
                let run = Run { id, keep, seen, is_closed, is_lost, begin, around };
                self.model.open.push(ModelOpen::Record(self.model.runs.len()));
                self.model.runs.push(Some(run));
            }
            Step::End => match self.model.open.last().copied() {
                None => assert!(self.parts.end(0).is_err() && self.parts.replay_end(0).is_err()),
                Some(ModelOpen::Record(run)) => {
                    let id = self.model.run(run).id;
                    assert!(self.parts.replay_end(id).is_err());
                    assert!(self.parts.end(id + 1).is_err());
                    self.parts.end(id).unwrap();
                    self.model.runs[run].as_mut().unwrap().is_closed = true;
                    self.model.open.pop();
                }
                Some(ModelOpen::Replay(run, at, ..)) => {
                    let (id, len) = (self.model.run(run).id, self.model.run(run).seen.len());
                    assert!(self.parts.end(id).is_err());
                    for _ in at..len {
                        assert!(self.parts.replay_end(id).is_err());
                        self.call(Message::POLL);
                    }
                    self.parts.replay_end(id).unwrap();
                    self.model.open.pop();
                    if !self.model.run(run).keep {
                        self.model.runs[run] = None;
                    }
                }
            },
            Step::Replay { id } => {
                let replays = self.replays();
                let is_replayed = |run: usize| replays.iter().any(|(replayed, _)| *replayed == run);
                let ready: Vec<usize> = (0..self.model.runs.len())
                    .rev()
                    .filter(|run| {
                        let run_of = self.model.runs[*run].as_ref();
                        run_of.is_some_and(|r| r.id == id && r.is_closed) && !is_replayed(*run)
                    })
                    .collect();
                let here = self.model.replay().and_then(|(replayed, at)| {
                    let place = self.model.place(replayed, at);
                    let end = self.model.end(replayed);
                    let passed = self.model.passed.get(&replayed);
                    let passed = passed.filter(|(begin, _)| *begin == place);
                    ready.iter().rev().find(|run| {
                        let innermost = &replays[replays.len() - 1..];
                        self.model.run(**run).was_at(**run, place, innermost)
                            && self.model.end(**run) <= end
                            && passed.is_none_or(|(_, passed)| *run > passed)
                    })
                });
                let begun = self.parts.replay_begin(id);
                let run = here.or(ready.first());
                if run.is_some_and(|run| self.model.run(*run).is_lost) {
                    let Err(Fault::Text(why)) = begun else { panic!("{begun:?}") };
                    assert!(why.contains("no room for it"), "{why}");
                    return;
                }
                assert_eq!(begun.is_ok(), !ready.is_empty(), "{begun:?}");
                if let Some(run) = run {
                    let runs = self.model.runs.len();
                    if let (Some(_), Some((around, at))) = (here, self.model.replay()) {
                        let place = self.model.place(around, at);
                        self.model.passed.insert(around, (place, *run));
                    }
                    self.model.passed.remove(run);
                    self.model.open.push(ModelOpen::Replay(*run, 0, here.is_some(), runs));
                }
            }
            Step::Free { id } => self.free(id),
            Step::Call { tag, len } => self.call(Message { tag, len }),
            Step::Polls { times } => (0..times).for_each(|_| self.call(Message::POLL)),
            Step::Lose => {
                self.parts.fail_recorded("no room for it");
                for run in self.model.recorded() {
                    self.model.runs[run].as_mut().unwrap().is_lost = true;
                }
            }
            Step::Restart => {
                let unpacked = moved(&self.parts);
                (self.parts, self.arena) = (unpacked.parts, unpacked.arena);
            }
        }
    }

    /// A run that begins inside a replay replaces those that began there in the first run.
    fn replace(&mut self, id: i32, place: usize) {
        let replays = self.replays();
        for (number, run) in self.model.runs.iter_mut().enumerate() {
            run.take_if(|run| {
                (run.id, run.is_closed) == (id, true)
                    && replays.iter().all(|(replayed, _)| *replayed != number)
                    && run.was_at(number, place, &replays)
            });
        }
    }

    /// The runs that are being replayed, and how many runs there were before each.
    fn replays(&self) -> Vec<(usize, usize)> {
        let replay = |open: &ModelOpen| match open {
            ModelOpen::Replay(run, _, _, since) => Some((*run, *since)),
            ModelOpen::Record(_) => None,
        };
        self.model.open.iter().filter_map(replay).collect()
    }

    fn free(&mut self, id: i32) {
        let of = |open: &ModelOpen| self.model.run(Model::number(open)).id;
        let inner = self.model.open.len().saturating_sub(1);
        let is_outer = self.model.open[..inner].iter().any(|open| of(open) == id);
        let is_any = self.model.runs.iter().flatten().any(|run| run.id == id);
        let freed = self.parts.free(id);
        assert_eq!(freed.is_ok(), is_any && !is_outer, "{freed:?}");
        if freed.is_ok() {
            if self.model.open.last().is_some_and(|open| of(open) == id) {
                self.model.open.pop();
            }
            for run in &mut self.model.runs {
                run.take_if(|run| run.id == id);
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.parts.log().figures().bytes, self.model.bytes());
        assert_eq!(self.parts.instances().count(), self.model.runs.iter().flatten().count());
        assert_eq!(self.parts.open().is_any(), !self.model.open.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn are_as_the_model_says(steps in steps()) {
        let (parts, arena) = (Parts::default(), Arena::default());
        let mut test = Test { parts, arena, model: Model::default() };
        for step in steps {
            test.step(step);
            test.check();
        }
        // Once every part is closed and replayed or freed, nothing is left.
        while !test.model.open.is_empty() {
            test.step(Step::End);
            test.check();
        }
        for id in 0..3 {
            test.step(Step::Free { id });
        }
        prop_assert_eq!(test.parts.log().figures().bytes, 0);
        prop_assert!(test.parts.log().is_empty());
        prop_assert_eq!(test.parts.instances().count(), 0);
    }
}

/// Catches a restart after the replay of a kept run without calls, if a later replay takes that run again
/// instead of the next one.
#[test]
fn a_run_without_calls_that_was_replayed_is_passed_by_after_a_restart() {
    let mut arena = Arena::default();
    let message = Message { tag: 3, len: 2 };
    let mut parts = Parts::default();
    parts.begin(1, 0).unwrap();
    parts.begin(7, KEEP).unwrap();
    parts.end(7).unwrap();
    parts.begin(7, KEEP).unwrap();
    parts.record(message.shape(), message.outcome(&mut arena)).unwrap();
    parts.end(7).unwrap();
    parts.end(1).unwrap();
    parts.replay_begin(1).unwrap();
    parts.replay_begin(7).unwrap();
    parts.replay_end(7).unwrap();
    let moved = moved(&parts);
    let mut parts = moved.parts;
    parts.replay_begin(7).unwrap();
    assert!(parts.next(&message.shape()).is_ok());
    parts.replay_end(7).unwrap();
    parts.replay_end(1).unwrap();
    parts.free(7).unwrap();
}
