//! Chunks in memory and in a store, against a model that is as plain as can be: a list of bytes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use proptest::prelude::*;

use super::arena::Patience;
use super::keeper::{Keeper, Store};
use super::{Arena, Limit, Payload};
use crate::digest::digest;
use crate::store::chunks::Carried;

/// The memory that there is, and the chunks in it.
const LIMIT: usize = 2 << 20;
const CHUNK: usize = 256 << 10;

/// A store in memory, which can be made to fail.
#[derive(Debug, Default)]
struct Shelf {
    chunks: Mutex<HashMap<u32, Vec<u8>>>,
    refuses: AtomicBool,
    is_away: AtomicBool,
    /// It cannot give what it has when its end has come.
    ends: AtomicBool,
    /// It takes nothing, and does not say so.
    hangs: Mutex<bool>,
    goes_on: Condvar,
    given: AtomicUsize,
}

struct Handle(Arc<Shelf>);

impl Store for Handle {
    fn is_there(&self) -> bool {
        !self.0.is_away.load(Ordering::Relaxed)
    }

    fn take(&self, number: u32, bytes: &[u8]) -> Result<(), String> {
        if self.0.refuses.load(Ordering::Relaxed) {
            return Err("no space left".to_owned());
        }
        let hangs = self.0.hangs.lock().unwrap();
        drop(self.0.goes_on.wait_while(hangs, |hangs| *hangs).unwrap());
        let before = self.0.chunks.lock().unwrap().insert(number, bytes.to_vec());
        assert!(before.is_none(), "chunk {number} twice");
        Ok(())
    }

    fn give(&self, number: u32, into: &mut [u8]) -> Result<(), String> {
        self.0.given.fetch_add(1, Ordering::Relaxed);
        let chunks = self.0.chunks.lock().unwrap();
        let bytes = chunks.get(&number).ok_or("no such file")?;
        into.copy_from_slice(bytes);
        Ok(())
    }

    fn leave(&self, number: u32) -> Result<(), String> {
        assert!(self.0.chunks.lock().unwrap().contains_key(&number), "chunk {number} is not there");
        match self.0.ends.load(Ordering::Relaxed) {
            true => Err("there is no scratch".to_owned()),
            false => Ok(()),
        }
    }

    fn forget(&self, number: u32) -> Result<(), String> {
        let before = self.0.chunks.lock().unwrap().remove(&number);
        assert!(before.is_some(), "chunk {number} was not there");
        Ok(())
    }
}

/// An arena and what is seen of it from outside.
struct World {
    arena: Arena,
    shelf: Arc<Shelf>,
    keeper: Arc<Keeper>,
    mapped: Arc<AtomicUsize>,
    held: Vec<(u32, Payload)>,
    seeds: u32,
    has_failed: bool,
}

fn bytes(seed: u32, len: usize) -> impl Iterator<Item = u8> {
    (0..len as u32).map(move |at| (at.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(97)) as u8)
}

impl World {
    fn new() -> World {
        let shelf = Arc::new(Shelf::default());
        let mut seen = None;
        let arena = Arena::within(Limit(LIMIT), |mapped| {
            let keeper = Arc::new(Keeper::of(Box::new(Handle(Arc::clone(&shelf))), mapped));
            seen = Some((Arc::clone(mapped), Arc::clone(&keeper)));
            keeper
        });
        let (mapped, keeper) = seen.unwrap();
        World { arena, shelf, keeper, mapped, held: Vec::new(), seeds: 0, has_failed: false }
    }

    fn keep(&mut self, len: usize) {
        let seed = self.seeds;
        self.seeds += 1;
        let fill = |into: &mut [u8]| {
            into.iter_mut().zip(bytes(seed, len)).for_each(|(to, from)| *to = from);
            Ok(())
        };
        self.held.push((seed, self.arena.keep(len, fill).unwrap()));
        if !self.has_failed {
            // One chunk may be brought back beyond the limit each time that somebody reads.
            let most = LIMIT + 2 * CHUNK + 2 * 300_000;
            assert!(self.mapped.load(Ordering::Relaxed) <= most);
        }
    }

    fn check(&self, index: usize) {
        let (seed, payload) = &self.held[index];
        let len = payload.len();
        payload.read(|got| assert!(got.iter().copied().eq(bytes(*seed, len)))).unwrap();
    }

    /// As replays do, in reverse order.
    fn expect(&mut self) {
        let mut next: Vec<u32> =
            self.held.iter().rev().filter_map(|(_, payload)| Some(payload.chunk()?.0)).collect();
        next.dedup();
        self.arena.expect(next);
    }

    fn rest(&mut self) {
        self.keeper.rest();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Keep(usize),
    DropLast(usize),
    Drop(prop::sample::Index),
    Read(prop::sample::Index),
    Expect,
    Refuse(bool),
    GoAway(bool),
    End(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => prop_oneof![0usize..200, 1000usize..100_000, 250_000usize..300_000].prop_map(Step::Keep),
        3 => (1usize..12).prop_map(Step::DropLast),
        2 => any::<prop::sample::Index>().prop_map(Step::Drop),
        4 => any::<prop::sample::Index>().prop_map(Step::Read),
        2 => Just(Step::Expect),
        1 => any::<bool>().prop_map(Step::Refuse),
        1 => any::<bool>().prop_map(Step::GoAway),
        1 => any::<bool>().prop_map(Step::End),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Catches bytes of another chunk or of another time, memory that is used again while somebody needs
    /// it, a chunk that is given twice or stays in the store, and a limit that nobody keeps.
    #[test]
    fn what_was_kept_is_read(steps in prop::collection::vec(step(), 1..120)) {
        let mut world = World::new();
        for step in steps {
            match step {
                Step::Keep(len) => world.keep(len),
                Step::DropLast(count) => {
                    let left = world.held.len().saturating_sub(count);
                    world.held.truncate(left);
                }
                Step::Drop(index) if !world.held.is_empty() => {
                    let index = index.index(world.held.len());
                    world.held.remove(index);
                }
                Step::Read(index) if !world.held.is_empty() => {
                    world.check(index.index(world.held.len()));
                }
                Step::Drop(_) | Step::Read(_) => {}
                Step::Expect => world.expect(),
                Step::Refuse(refuses) => {
                    world.has_failed |= refuses;
                    world.shelf.refuses.store(refuses, Ordering::Relaxed);
                }
                Step::GoAway(is_away) => {
                    world.has_failed |= is_away;
                    world.shelf.is_away.store(is_away, Ordering::Relaxed);
                }
                Step::End(ends) => {
                    world.has_failed |= ends;
                    world.shelf.ends.store(ends, Ordering::Relaxed);
                    let before = world.mapped.load(Ordering::Relaxed);
                    world.arena.leave();
                    if ends {
                        prop_assert!(world.shelf.chunks.lock().unwrap().is_empty());
                        prop_assert_eq!((world.arena.stored(), world.arena.away()), (0, 0));
                    } else {
                        // One may be on its way that was ordered before.
                        prop_assert!(world.mapped.load(Ordering::Relaxed) <= before + CHUNK);
                    }
                }
            }
        }
        for index in (0..world.held.len()).rev() {
            world.check(index);
        }
        world.held.clear();
        world.rest();
        prop_assert!(world.shelf.chunks.lock().unwrap().is_empty());
        prop_assert_eq!((world.arena.stored(), world.arena.away()), (0, 0));
    }
}

/// Catches a small log that asks for anything, and one beyond its memory that does not.
#[test]
fn below_its_limit_the_log_stays_where_it_is() {
    let mut world = World::new();
    for _ in 0..10 {
        world.keep(100_000);
    }
    world.rest();
    assert_eq!((world.arena.stored(), world.arena.away()), (0, 0));
    for _ in 0..60 {
        world.keep(100_000);
    }
    world.rest();
    assert!(world.arena.stored() >= 4_000_000 && world.arena.away() >= 4_000_000);
    assert_eq!(world.arena.notice(), None);
}

/// Catches chunks that are brought back only when somebody waits for them.
#[test]
fn what_is_read_next_is_there_before() {
    let mut world = World::new();
    for _ in 0..80 {
        world.keep(100_000);
    }
    world.rest();
    while !world.held.is_empty() {
        world.expect();
        world.rest();
        let before = world.shelf.given.load(Ordering::Relaxed);
        // Two chunks of two payloads each.
        for _ in 0..4.min(world.held.len()) {
            world.check(world.held.len() - 1);
            world.held.pop();
        }
        assert_eq!(world.shelf.given.load(Ordering::Relaxed), before);
    }
}

/// Catches a log that is lost, or a call that waits for ever or fails, because the store takes nothing;
/// one that does not say so; and one that says so each time.
#[test]
fn what_the_store_refuses_stays() {
    let mut world = World::new();
    world.has_failed = true;
    world.shelf.refuses.store(true, Ordering::Relaxed);
    for _ in 0..60 {
        world.keep(100_000);
    }
    let said = world.arena.notice().unwrap();
    assert!(said.contains("VELOC_MPI_LOG_MEMORY") && said.contains("no space left"), "{said}");
    for _ in 0..20 {
        world.keep(100_000);
    }
    assert_eq!(world.arena.notice(), None);
    for index in 0..world.held.len() {
        world.check(index);
    }
    // There is space again.
    world.shelf.refuses.store(false, Ordering::Relaxed);
    for _ in 0..20 {
        world.keep(100_000);
        world.rest();
    }
    assert!(world.arena.stored() > 0);
    let mut world = World::new();
    world.has_failed = true;
    world.shelf.is_away.store(true, Ordering::Relaxed);
    for _ in 0..60 {
        world.keep(100_000);
    }
    let said = world.arena.notice().unwrap();
    assert!(said.contains("VELOC_Init") && world.arena.stored() == 0, "{said}");
}

/// Catches a checkpoint that brings more of the log into memory than one chunk at a time, or leaves it
/// there, or has bytes of another one.
#[test]
fn a_checkpoint_reads_one_chunk_at_a_time() {
    let mut world = World::new();
    for _ in 0..80 {
        world.keep(100_000);
    }
    world.rest();
    let mapped = |world: &World| world.mapped.load(Ordering::Relaxed);
    let before = (mapped(&world), world.arena.away());
    let home = |(_, payload): &(u32, Payload)| {
        let (chunk, at) = payload.home().unwrap();
        (payload.chunk().map(|(number, _)| number), chunk.source(at + payload.len()))
    };
    let mut sources: Vec<_> = world.held.iter().map(home).collect();
    sources.dedup_by_key(|(number, _)| *number);
    let sources: Vec<_> = sources.into_iter().map(|(_, source)| source).collect();
    let digests: Vec<_> = sources.iter().map(|source| source.digest().unwrap()).collect();
    let mut carried = Carried::new(sources, world.arena.keeper());
    let mut read = 0;
    for (nth, expected) in digests.into_iter().enumerate() {
        read += usize::from(carried.here(nth).is_none());
        assert_eq!(digest(carried.get(nth).unwrap()), expected);
        assert!(mapped(&world) <= before.0 + CHUNK);
    }
    assert!(read >= 20, "{read}");
    drop(carried);
    assert_eq!((mapped(&world), world.arena.away()), before);
}

#[test]
fn patience_is_lost_once_until_the_store_goes_on() {
    let wait = Duration::from_secs(20);
    let mut patience = Patience::of(wait);
    assert_eq!(patience.left(0), Some(wait));
    patience.lose(0);
    assert_eq!((patience.left(0), patience.left(1)), (None, Some(wait)));
    patience.lose(3);
    assert_eq!((patience.left(3), patience.left(4)), (None, Some(wait)));
}

/// Catches a call that waits for ever for a store that hangs; a log that is lost then, or beyond its
/// memory without a word; and one that stays there when the store goes on.
#[test]
fn a_store_that_hangs_is_given_up() {
    let mut world = World::new();
    world.has_failed = true;
    world.arena.set_patience(Patience::of(Duration::ZERO));
    *world.shelf.hangs.lock().unwrap() = true;
    for _ in 0..60 {
        world.keep(100_000);
    }
    assert!(world.mapped.load(Ordering::Relaxed) > LIMIT);
    let said = world.arena.notice().unwrap();
    assert!(said.contains("VELOC_MPI_LOG_MEMORY") && said.contains("taken none of it"), "{said}");
    // No machine has so much.
    let refused = world.arena.keep(1 << 60, |_| Ok(())).unwrap_err();
    assert!(refused.contains("no memory to log 1152921504606846976 bytes"), "{refused}");
    for index in 0..world.held.len() {
        world.check(index);
    }
    *world.shelf.hangs.lock().unwrap() = false;
    world.shelf.goes_on.notify_all();
    for _ in 0..40 {
        world.keep(100_000);
        world.rest();
    }
    assert_eq!(world.arena.notice(), None);
    assert!(world.arena.away() > 0 && world.mapped.load(Ordering::Relaxed) <= LIMIT + CHUNK);
    for index in 0..world.held.len() {
        world.check(index);
    }
}

/// Catches a log that is beyond its memory after the end of the store's job without a word, or though
/// the store can give it; and one that is lost then.
#[test]
fn at_the_end_of_its_job_the_store_keeps_what_it_can() {
    for ends in [false, true] {
        let mut world = World::new();
        for _ in 0..80 {
            world.keep(100_000);
        }
        world.rest();
        let away = world.arena.away();
        world.shelf.ends.store(ends, Ordering::Relaxed);
        world.arena.leave();
        world.shelf.is_away.store(true, Ordering::Relaxed);
        assert_eq!(world.arena.away(), if ends { 0 } else { away });
        let said = world.arena.notice();
        assert_eq!(said.is_some(), ends);
        let names = |text: String| {
            text.contains("VELOC_MPI_LOG_MEMORY") && text.contains("there is no scratch")
        };
        assert!(said.is_none_or(names));
        for index in (0..world.held.len()).rev() {
            world.expect();
            world.check(index);
            assert!(ends || world.mapped.load(Ordering::Relaxed) <= LIMIT + 2 * CHUNK);
        }
        world.held.clear();
        world.rest();
        assert!(world.shelf.chunks.lock().unwrap().is_empty());
    }
}

/// Catches bytes that are believed though the store has lost or changed them.
#[test]
fn damage_is_seen() {
    let mut world = World::new();
    for _ in 0..60 {
        world.keep(100_000);
    }
    world.rest();
    let (first, second) = (&world.held[0].1, &world.held[2].1);
    let (gone, changed) = (first.chunk().unwrap().0, second.chunk().unwrap().0);
    assert_ne!(gone, changed);
    {
        let mut chunks = world.shelf.chunks.lock().unwrap();
        chunks.get_mut(&changed).unwrap()[5000] ^= 1;
        chunks.get_mut(&gone).unwrap().clear();
    }
    let lost = world.shelf.chunks.lock().unwrap().remove(&gone);
    let error = first.read(|_| ()).unwrap_err();
    assert!(error.contains("no such file"), "{error}");
    let error = second.read(|_| ()).unwrap_err();
    assert!(error.contains("damaged") && error.contains(&format!("chunk {changed}")), "{error}");
    // The others are as they were.
    for index in 4..world.held.len() {
        world.check(index);
    }
    world.shelf.chunks.lock().unwrap().insert(gone, lost.unwrap());
}
