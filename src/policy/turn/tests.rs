//! The rules one by one, then many processes that arrive, work, stop, hang and die at random.

use super::*;
use proptest::prelude::*;

const STALL: u64 = TURN_STALL_MS;

fn slot(ticket: u64, beat_ms: u64) -> Slot {
    Slot { ticket, alive: true, beat_ms, started_ms: None, lease_ms: lease_ms(0) }
}

fn decide(ticket: u64, others: &[Slot], owner: u64, now_ms: u64) -> Decision {
    let next = others.iter().map(|s| s.ticket).chain([ticket]).max().unwrap_or(0) + 1;
    let snapshot = Snapshot { others, owner, next, now_ms };
    Waiter { ticket, give_up_ms: u64::MAX, stall_ms: STALL }.decide(&snapshot)
}

#[test]
fn leases() {
    assert_eq!(lease_ms(0), 2000);
    assert!((2999..=3001).contains(&lease_ms(256 << 20)));
    assert!((10_000..10_010).contains(&lease_ms(2 << 30)));
    assert_eq!(lease_ms(u64::MAX), LONGEST_LEASE_MS);
}

#[test]
fn alone_goes() {
    assert_eq!(decide(5, &[], NOBODY, 0), Decision::Go);
    assert_eq!(decide(5, &[], 5, 0), Decision::Go, "has it already");
}

#[test]
fn tickets_are_served_in_order() {
    let others = [slot(4, 100), slot(9, 100)];
    let until_ms = 100 + STALL + 1;
    assert_eq!(decide(5, &others, NOBODY, 100), Decision::Wait { until_ms });
    assert_eq!(decide(3, &others, NOBODY, 100), Decision::Go);
}

#[test]
fn tickets_wrap_around() {
    let others = [slot(u64::MAX - 1, 0)];
    let snapshot = Snapshot { others: &others, owner: NOBODY, next: 3, now_ms: 0 };
    let waiter = Waiter::new(2, &snapshot, STALL);
    assert!(matches!(waiter.decide(&snapshot), Decision::Wait { .. }));
    let others = [slot(2, 0)];
    let snapshot = Snapshot { others: &others, owner: NOBODY, next: 3, now_ms: 0 };
    let waiter = Waiter::new(u64::MAX - 1, &snapshot, STALL);
    assert_eq!(waiter.decide(&snapshot), Decision::Go);
}

#[test]
fn a_holder_is_waited_for_whatever_its_ticket() {
    for ticket in [4, 9] {
        let holder = Slot { started_ms: Some(50), ..slot(ticket, 100) };
        let until_ms = 100 + STALL + 1;
        assert_eq!(decide(5, &[holder], ticket, 100), Decision::Wait { until_ms });
    }
}

#[test]
fn the_dead_are_passed_over_at_once() {
    let dead = Slot { alive: false, ..slot(4, 100) };
    assert_eq!(decide(5, &[dead], NOBODY, 100), Decision::Go);
    assert_eq!(decide(5, &[dead], 4, 100), Decision::PassOver { ticket: 4 });
    assert_eq!(decide(5, &[], 4, 100), Decision::PassOver { ticket: 4 }, "left no slot");
}

#[test]
fn the_stalled_are_passed_over() {
    let silent = slot(4, 100);
    for owner in [NOBODY, 4] {
        let until_ms = 100 + STALL + 1;
        assert_eq!(decide(5, &[silent], owner, until_ms - 1), Decision::Wait { until_ms });
    }
    let later = 100 + STALL + 1;
    assert_eq!(decide(5, &[silent], NOBODY, later), Decision::Go);
    assert_eq!(decide(5, &[silent], 4, later), Decision::PassOver { ticket: 4 });
    let ahead = slot(3, later);
    assert!(matches!(decide(5, &[silent, ahead], 4, later), Decision::Wait { .. }), "3 is first");
}

#[test]
fn a_lease_ends() {
    let now_ms = 10_000_000;
    let mut holder = Slot { started_ms: Some(now_ms - 2000), ..slot(4, now_ms) };
    assert_eq!(decide(5, &[holder], 4, now_ms), Decision::Wait { until_ms: now_ms + 1 });
    assert_eq!(decide(5, &[holder], 4, now_ms + 1), Decision::PassOver { ticket: 4 });
    holder.lease_ms = u64::MAX;
    holder.started_ms = Some(now_ms - LONGEST_LEASE_MS - 1);
    assert_eq!(decide(5, &[holder], 4, now_ms), Decision::PassOver { ticket: 4 });
}

#[test]
fn a_beat_from_the_future_is_none() {
    assert_eq!(decide(5, &[slot(4, 100 + STALL + 1)], NOBODY, 100), Decision::Go);
    let until_ms = 100 + 2 * STALL + 1;
    assert_eq!(decide(5, &[slot(4, 100 + STALL)], NOBODY, 100), Decision::Wait { until_ms });
}

#[test]
fn a_holder_knows_when_it_lost() {
    let holder =
        Holder { ticket: 4, beat_ms: 100, started_ms: 100, lease_ms: 3000, stall_ms: STALL };
    assert!(holder.keeps(4, 100 + STALL));
    assert!(!holder.keeps(4, 100 + STALL + 1), "stalled");
    assert!(!holder.keeps(5, 100), "somebody else has it");
    let holder = Holder { beat_ms: 3100, ..holder };
    assert!(holder.keeps(4, 3100));
    assert!(!holder.keeps(4, 3101), "lease");
}

fn any_slot() -> impl Strategy<Value = Slot> {
    let small_or_any = || prop_oneof![0..5000u64, any::<u64>()];
    (0..8u64, any::<bool>(), small_or_any(), prop::option::of(small_or_any()), small_or_any())
        .prop_map(|(ticket, alive, beat_ms, started_ms, lease_ms)| Slot {
            ticket,
            alive,
            beat_ms,
            started_ms,
            lease_ms,
        })
}

proptest! {
    /// Whatever the page says: a wait ends in the future, nothing but time ends it on an unchanged
    /// page, and the bound holds.
    #[test]
    fn a_wait_lasts_exactly_until_it_said(
        others in prop::collection::vec(any_slot(), 0..6),
        owner in 0..8u64, ticket in 1..8u64, next in any::<u64>(), now_ms in 0..5000u64,
    ) {
        let at = |now_ms| Snapshot { others: &others, owner, next, now_ms };
        let waiter = Waiter::new(ticket, &at(now_ms), STALL);
        let mut time = now_ms;
        // Each slot can block in two ways, each at most once more after it ended (a beat from
        // the future that comes to pass).
        for _ in 0..4 * others.len() + 4 {
            let Decision::Wait { until_ms } = waiter.decide(&at(time)) else { break };
            prop_assert!(until_ms > time && until_ms <= waiter.give_up_ms());
            time = until_ms;
        }
        let waits = matches!(waiter.decide(&at(time)), Decision::Wait { .. });
        prop_assert!(!waits);
        let bound = others.len() as u64 * (LONGEST_LEASE_MS + STALL) + STALL;
        prop_assert!(waiter.give_up_ms() <= now_ms + bound);
    }
}

/// What one process of the simulation is doing.
#[derive(Clone, Copy, Debug)]
enum State {
    Away,
    Waiting(Waiter),
    /// It decided, upon what it saw, and has yet to act.
    Decided(Waiter, Decision),
    Holding(Holder),
    Dead,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrive,
    Look,
    Act,
    Beat,
    Leave,
    Stop,
    Resume,
    Die,
}

/// A node: what is on the page, and what each process believes.
struct Node {
    now_ms: u64,
    owner: u64,
    next: u64,
    slots: Vec<Slot>,
    states: Vec<State>,
    stopped: Vec<bool>,
    /// The tickets in the order in which they got the turn.
    granted: Vec<u64>,
    /// How many have left the queue or given their turn up.
    departures: u64,
}

impl Node {
    fn new(processes: usize, first_ticket: u64) -> Node {
        let empty = Slot { alive: false, ..slot(NOBODY, 0) };
        Node {
            now_ms: 1_000_000,
            owner: NOBODY,
            next: first_ticket,
            slots: vec![empty; processes],
            states: vec![State::Away; processes],
            stopped: vec![false; processes],
            granted: Vec::new(),
            departures: 0,
        }
    }

    fn with_snapshot<T>(&self, me: usize, look: impl FnOnce(&Snapshot<'_>) -> T) -> T {
        let others: Vec<Slot> = (0..self.slots.len())
            .filter(|i| *i != me && self.slots[*i].ticket != NOBODY)
            .map(|i| self.slots[i])
            .collect();
        look(&Snapshot { others: &others, owner: self.owner, next: self.next, now_ms: self.now_ms })
    }

    fn has_turn(&self, me: usize) -> bool {
        matches!(self.states[me], State::Holding(holder) if holder.keeps(self.owner, self.now_ms))
    }

    fn leave(&mut self, me: usize, ticket: u64) {
        if self.owner == ticket {
            self.owner = NOBODY;
        }
        self.slots[me] = Slot { alive: false, ..slot(NOBODY, 0) };
        self.states[me] = State::Away;
        self.departures += 1;
    }

    fn step(&mut self, me: usize, event: Event) {
        match event {
            Event::Resume => self.stopped[me] = false,
            Event::Die if !matches!(self.states[me], State::Dead) => {
                self.slots[me].alive = false;
                self.states[me] = State::Dead;
            }
            _ if self.stopped[me] => {}
            Event::Stop => self.stopped[me] = true,
            _ => self.run(me, event),
        }
    }

    fn run(&mut self, me: usize, event: Event) {
        let now_ms = self.now_ms;
        match (self.states[me], event) {
            (State::Away, Event::Arrive) => {
                if self.next == NOBODY {
                    self.next = 1;
                }
                let ticket = self.next;
                self.next = self.next.wrapping_add(1);
                self.slots[me] = slot(ticket, now_ms);
                let waiter = self.with_snapshot(me, |seen| Waiter::new(ticket, seen, STALL));
                self.states[me] = State::Waiting(waiter);
            }
            (State::Waiting(waiter), Event::Look) => {
                self.slots[me].beat_ms = now_ms;
                let decision = self.with_snapshot(me, |seen| waiter.decide(seen));
                if !matches!(decision, Decision::Wait { .. }) {
                    self.states[me] = State::Decided(waiter, decision);
                }
            }
            (State::Decided(waiter, decision), Event::Act) => {
                let expected = match decision {
                    Decision::PassOver { ticket } => ticket,
                    _ => NOBODY,
                };
                if self.owner == expected {
                    self.owner = waiter.ticket;
                    self.granted.push(waiter.ticket);
                    let own = &mut self.slots[me];
                    own.started_ms = Some(now_ms);
                    self.states[me] = State::Holding(Holder {
                        ticket: waiter.ticket,
                        beat_ms: own.beat_ms,
                        started_ms: now_ms,
                        lease_ms: own.lease_ms,
                        stall_ms: STALL,
                    });
                } else {
                    self.states[me] = State::Waiting(waiter);
                }
            }
            (State::Holding(mut holder), Event::Beat) => {
                if holder.keeps(self.owner, now_ms) {
                    holder.beat_ms = now_ms;
                    self.slots[me].beat_ms = now_ms;
                    self.states[me] = State::Holding(holder);
                } else {
                    self.leave(me, holder.ticket);
                }
            }
            (State::Holding(holder), Event::Leave) => self.leave(me, holder.ticket),
            _ => {}
        }
    }
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Arrive),
        6 => Just(Event::Look),
        6 => Just(Event::Act),
        3 => Just(Event::Beat),
        2 => Just(Event::Leave),
        1 => Just(Event::Stop),
        1 => Just(Event::Resume),
        1 => Just(Event::Die),
    ]
}

fn any_pause() -> impl Strategy<Value = u64> {
    prop_oneof![6 => 0..10u64, 2 => 0..500u64, 1 => 500..3000u64]
}

proptest! {
    /// However processes stop, hang and die, and however late they act upon what they saw: two
    /// never both have the turn, and once the others behave (or at least hang in a way that can be
    /// told) everyone who still lives gets it.
    #[test]
    fn one_at_a_time_and_nobody_for_ever(
        steps in prop::collection::vec((0..5usize, any_event(), any_pause()), 0..200),
        first_ticket in prop_oneof![Just(1u64), Just(u64::MAX - 3)],
        hangs in prop::collection::vec(any::<bool>(), 5),
    ) {
        let mut node = Node::new(5, first_ticket);
        for (me, event, pause) in steps {
            node.step(me, event);
            node.now_ms += pause;
            let holders: Vec<usize> = (0..5).filter(|i| node.has_turn(*i)).collect();
            prop_assert!(holders.len() <= 1, "{holders:?} all have the turn");
        }

        // From here on each process looks and acts every 5 ms. A hanging one gives signs of life
        // and never leaves by itself, a stopped one stays stopped.
        for me in 0..5 {
            node.step(me, Event::Arrive);
        }
        let mut done = [false; 5];
        let waiting = |node: &Node, me: usize| {
            !node.stopped[me] && !matches!(node.states[me], State::Dead | State::Away)
        };
        for _ in 0..(5 * (lease_ms(0) + STALL) / 5 + 100) {
            for me in 0..5 {
                for event in [Event::Look, Event::Act] {
                    node.step(me, event);
                    done[me] |= node.has_turn(me);
                    let holders: Vec<usize> = (0..5).filter(|i| node.has_turn(*i)).collect();
                    prop_assert!(holders.len() <= 1, "{holders:?} all have the turn");
                }
                node.step(me, if hangs[me] { Event::Beat } else { Event::Leave });
            }
            node.now_ms += 5;
        }
        for (me, done) in done.into_iter().enumerate() {
            prop_assert!(done || !waiting(&node, me), "{me} waits for ever");
        }
    }

    /// Processes that keep the turn and give signs of life cost the others their lease, not their
    /// patience: giving up is for damaged pages.
    #[test]
    fn hanging_costs_a_lease(hangs in prop::collection::vec(any::<bool>(), 4), order in 0..4usize) {
        let mut node = Node::new(4, 1);
        for me in 0..4 {
            node.step((me + order) % 4, Event::Arrive);
            node.now_ms += 1;
        }
        while node.granted.len() < 4 {
            for (me, hang) in hangs.iter().enumerate() {
                if let State::Waiting(waiter) = node.states[me] {
                    prop_assert!(node.now_ms < waiter.give_up_ms(), "{me} gives up");
                }
                node.step(me, Event::Look);
                node.step(me, Event::Act);
                // The one that hangs does not even look whether it lost the turn.
                match node.states[me] {
                    State::Holding(_) if *hang => node.slots[me].beat_ms = node.now_ms,
                    _ => node.step(me, Event::Leave),
                }
            }
            node.now_ms += 5;
        }
        prop_assert_eq!(&node.granted, &[1, 2, 3, 4]);
    }

    /// As long as everybody behaves, the turn goes round in the order of the tickets.
    #[test]
    fn first_come_first_served(
        steps in prop::collection::vec((0..4usize, 0..4usize), 0..300),
        first_ticket in prop_oneof![Just(1u64), Just(u64::MAX - 3)],
    ) {
        let mut node = Node::new(4, first_ticket);
        for (me, choice) in steps {
            let event = [Event::Arrive, Event::Look, Event::Act, Event::Leave][choice];
            node.step(me, event);
            // All of them give signs of life every ms.
            for i in 0..4 {
                if matches!(node.states[i], State::Waiting(_) | State::Decided(..)) {
                    node.slots[i].beat_ms = node.now_ms;
                }
                node.step(i, Event::Beat);
            }
            node.now_ms += 1;
        }
        for pair in node.granted.windows(2) {
            let distance = pair[1].wrapping_sub(pair[0]);
            prop_assert!(distance > 0 && distance < 1 << 32, "{:?}", node.granted);
        }
    }

    /// Who sleeps after a look until the next departure misses nothing, as long as nobody dies or
    /// stops: nothing else that others do makes a wait end.
    #[test]
    fn departures_are_all_that_one_needs_to_hear_of(
        steps in prop::collection::vec((0..4usize, 0..5usize), 0..200),
    ) {
        let mut node = Node::new(4, 1);
        // The departures before the last look that said to wait.
        let mut heard = [None; 4];
        let mut step = |node: &mut Node, me: usize, choice: usize| match (choice, node.states[me]) {
            (0, _) => node.step(me, Event::Arrive),
            (1, State::Waiting(_)) if heard[me] != Some(node.departures) => {
                heard[me] = Some(node.departures);
                node.step(me, Event::Look);
            }
            (2, State::Decided(..)) => {
                // Somebody else was faster: looks again in any case.
                heard[me] = None;
                node.step(me, Event::Act);
            }
            (3, _) => node.step(me, Event::Leave),
            (4, State::Waiting(waiter)) => node.leave(me, waiter.ticket),
            _ => {}
        };
        for (me, choice) in steps {
            step(&mut node, me, choice);
        }
        // One gets its turn each time, or acts upon what it saw before.
        for me in (0..4).cycle().take(4 * 8) {
            [1, 2, 3].into_iter().for_each(|choice| step(&mut node, me, choice));
        }
        for (me, state) in node.states.iter().enumerate() {
            prop_assert!(matches!(state, State::Away), "{me} sleeps for ever: {state:?}");
        }
    }
}
