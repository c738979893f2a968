//! Adjoint computations that the library drives beside a loop over the same schedule, with states
//! that are copied to memory of the loop's own.

use std::ffi::{c_int, c_void};
use std::hint::black_box;
use std::mem::size_of;
use std::ptr;
use std::time::Instant;

use anyhow::{bail, Result};
use veloc_client::capi::*;

use super::job::{check, BenchJob, NAME};
use super::tell;
use super::versions::processor_seconds;
use crate::host::{Goal, MeasuredFigure};

/// A run: each step is computed about four times.
#[derive(Clone, Copy)]
struct Size {
    /// Steps of the forward sweep.
    steps: i64,
    slots: i64,
}

/// The kinds of steps that are timed: their name, how many seconds a step takes, about, and the
/// run.
const KINDS: [(&str, f64, Size); 2] = [
    ("100 us", 100e-6, MANY),
    // A step of a model that stores as often as this library is made for.
    ("1 ms", 1e-3, Size { steps: 300, slots: 9 }),
];
const MANY: Size = Size { steps: 2000, slots: 20 };
/// The most that a run may take as a multiple of the loop.
const MOST: f64 = 1.02;

/// A computation: a state and an adjoint of one number each, so that keeping them costs nothing.
struct NumberComputation {
    state: u64,
    adjoint: u64,
    /// Rounds of work in each step.
    rounds: u32,
}

impl NumberComputation {
    fn new(rounds: u32) -> NumberComputation {
        NumberComputation { state: 42, adjoint: 0, rounds }
    }

    /// Computes a step: one copy of the code for the library and the loop, so that none is placed
    /// better.
    #[inline(never)]
    fn step(&self, number: i64) -> u64 {
        let mut state = self.state ^ number as u64;
        for _ in 0..self.rounds.max(1) {
            // In a register: how long the stack takes depends on where it is.
            state = (state ^ state >> 29).wrapping_mul(0x5851_f42d_4c95_7f2d);
        }
        black_box(state)
    }

    fn forward(&mut self, from: i64, to: i64) {
        for step in from + 1..=to {
            self.state = self.step(step);
        }
    }

    fn turn(&mut self, step: i64) {
        self.adjoint = self.adjoint.wrapping_mul(31).wrapping_add(self.step(step));
    }
}

unsafe extern "C" fn protect(user: *mut c_void) -> c_int {
    let computation = user.cast::<NumberComputation>();
    // SAFETY: what VELOC_Adjoint_run was given, a computation that nobody else uses now.
    let (state, adjoint) =
        unsafe { (&raw mut (*computation).state, &raw mut (*computation).adjoint) };
    match VELOC_Adjoint_protect(VELOC_ADJOINT_STATE, 0, state.cast(), 1, size_of::<u64>()) {
        VELOC_SUCCESS => {}
        other => return other,
    }
    VELOC_Adjoint_protect(VELOC_ADJOINT_GRADIENT, 0, adjoint.cast(), 1, size_of::<u64>())
}

unsafe extern "C" fn forward(user: *mut c_void, from: i64, to: i64) -> c_int {
    // SAFETY: as above.
    unsafe { &mut *user.cast::<NumberComputation>() }.forward(from, to);
    VELOC_SUCCESS
}

unsafe extern "C" fn adjoint(user: *mut c_void, step: i64) -> c_int {
    // SAFETY: as above.
    unsafe { &mut *user.cast::<NumberComputation>() }.turn(step);
    VELOC_SUCCESS
}

/// Seconds that the library takes for a run, and the adjoint.
#[inline(never)]
fn driven(size: Size, rounds: u32) -> Result<(f64, u64)> {
    let mut computation = NumberComputation::new(rounds);
    let user = &raw mut computation;
    let what = VELOC_Adjoint {
        size: size_of::<VELOC_Adjoint>(),
        name: NAME.as_ptr(),
        steps: size.steps,
        slots: size.slots,
        resilience_distance: 0,
        adjoint_distance: 0,
        rule: VELOC_RULE_OPTIMAL,
        flags: 0,
        time_limit: 0.0,
        tag: 0,
        user: user.cast(),
        protect: Some(protect),
        forward: Some(forward),
        adjoint: Some(adjoint),
        hash: None,
        mtbf: 0.0,
        write_cost: 0.0,
        turn_cost: 0.0,
    };
    let since = Instant::now();
    // SAFETY: the structure is complete, and what it names outlives the call.
    check(unsafe { VELOC_Adjoint_run(&what) })?;
    Ok((since.elapsed().as_secs_f64(), computation.adjoint))
}

/// Seconds that a loop over the schedule takes, and the adjoint.
fn looped(size: Size, rounds: u32) -> Result<(f64, u64)> {
    let mut computation = NumberComputation::new(rounds);
    let mut slots = vec![0_u64; size.slots as usize];
    let since = Instant::now();
    let mut schedule = ptr::null_mut();
    // SAFETY: `schedule` has room for the pointer.
    check(unsafe { VELOC_Schedule_create(size.steps, size.slots, &mut schedule) })?;
    loop {
        let mut action =
            VELOC_Action { kind: VELOC_ACTION_ERROR, read_again: 0, from: 0, to: 0, slot: -1 };
        // SAFETY: `schedule` is a schedule, and `action` has room for an action.
        check(unsafe { VELOC_Schedule_next(schedule, &mut action) })?;
        match action.kind {
            VELOC_ACTION_ADVANCE => computation.forward(action.from, action.to),
            VELOC_ACTION_TAKESHOT => slots[action.slot as usize] = computation.state,
            VELOC_ACTION_RESTORE => computation.state = slots[action.slot as usize],
            VELOC_ACTION_FIRSTURN | VELOC_ACTION_YOUTURN => computation.turn(action.to),
            _ => break,
        }
    }
    // SAFETY: the schedule is not used any more.
    check(unsafe { VELOC_Schedule_free(schedule) })?;
    Ok((since.elapsed().as_secs_f64(), computation.adjoint))
}

/// Measures runs and loops in turns. The last figure is of steps that take no time, on the
/// application's thread.
pub(super) fn run(repeats: u32) -> Result<()> {
    let job = BenchJob::start("mode = async\nephemeral = true\nhost_cache_size = 16M\n")?;
    job.until_touched()?;
    let since = Instant::now();
    const TRIED: u32 = 10_000_000;
    black_box(NumberComputation::new(TRIED).step(1));
    let a_round = since.elapsed().as_secs_f64() / f64::from(TRIED);
    for (takes, seconds, size) in KINDS {
        let rounds = (seconds / a_round) as u32;
        let mut ratios = Vec::new();
        for _ in 0..repeats {
            ratios.push(ratio(size, rounds)?);
        }
        let what = format!("an adjoint run beside a loop over its schedule, steps of {takes}");
        tell(&MeasuredFigure::new(what, "x", ratios).with_goal(Goal::AtMost(MOST)))?;
    }
    let mut own = Vec::new();
    for _ in 0..repeats {
        let since = processor_seconds();
        looped(MANY, 1)?;
        let between = processor_seconds();
        driven(MANY, 1)?;
        let (least, all) = (between - since, processor_seconds() - between);
        own.push(1e6 * (all - least) / MANY.steps as f64);
    }
    let what = "processor time of an adjoint run beside that loop, for each step reversed";
    tell(&MeasuredFigure::new(what, "us", own))
}

/// How long a run takes as a multiple of the loop: loop, run, run, loop, so that a machine that
/// becomes slower meanwhile does not matter.
fn ratio(size: Size, rounds: u32) -> Result<f64> {
    let all = [
        looped(size, rounds)?,
        driven(size, rounds)?,
        driven(size, rounds)?,
        looped(size, rounds)?,
    ];
    let [(first, wanted), (second, found), (third, again), (fourth, _)] = all;
    if found != wanted || again != wanted {
        bail!("the adjoint is {found} and {again}, not {wanted}");
    }
    Ok((second + third) / (first + fourth))
}
