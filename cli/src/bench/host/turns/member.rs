//! One process that takes turns with others.

use std::path::Path;
use std::str::FromStr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{bail, ensure, Error, Result};
use veloc_client::platform::turns::{Standing, Turns};

use crate::bench::child::{ready, say};

/// What a process says that has got the only turn it wants.
pub const HELD: &str = "held";

/// What it says when it has found that its turn is over.
pub const LOST: &str = "lost";

/// The time between two signs of life.
const BEAT: Duration = Duration::from_millis(100);

/// What a turn is said to be for: decides how long it may last.
const BYTES: u64 = 64 << 20;

/// A turn that a process had. Times are in ns of a clock that all processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// When it asked for it.
    pub asked: u64,
    /// When it had it.
    pub started: u64,
    /// When it gave it back.
    pub ended: u64,
}

impl FromStr for Turn {
    type Err = Error;

    fn from_str(line: &str) -> Result<Turn> {
        let numbers: std::result::Result<Vec<u64>, _> =
            line.split_whitespace().map(str::parse).collect();
        match numbers.as_deref() {
            Ok(&[asked, started, ended]) if asked <= started && started <= ended => {
                Ok(Turn { asked, started, ended })
            }
            _ => bail!("a process said \"{line}\", which is no turn"),
        }
    }
}

/// The time in ns on a clock that all processes of the node share.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a struct that is ours to write to. This clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Takes its turns, and then says the times of each. Of a single one it says [`HELD`] when it has it,
/// and of any [`LOST`] and no more when it finds it over.
pub fn run(page: &Path, turns: u32, hold_ms: u64) -> Result<()> {
    let page = Turns::open_at(page)?;
    ready()?;
    let mut taken = Vec::new();
    for _ in 0..turns {
        let asked = now_ns();
        let mut turn = page.enter(BYTES, &|| false);
        let started = now_ns();
        ensure!(turn.standing() == Standing::Held, "no turn: {:?}", turn.standing());
        if turns == 1 {
            say(HELD)?;
        }
        let until = Instant::now() + Duration::from_millis(hold_ms);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            sleep(left.min(BEAT));
            if !turn.beat() {
                return say(LOST);
            }
        }
        let ended = now_ns();
        drop(turn);
        taken.push(Turn { asked, started, ended });
    }
    // Not between turns, which are to be taken as fast as they come.
    taken
        .iter()
        .try_for_each(|turn| say(&format!("{} {} {}", turn.asked, turn.started, turn.ended)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_ends_after_it_started() {
        let turn: Turn = "1 2 5".parse().unwrap();
        assert_eq!(turn, Turn { asked: 1, started: 2, ended: 5 });
        assert!("1 2".parse::<Turn>().is_err());
        assert!("1 5 2".parse::<Turn>().is_err());
        assert!("held".parse::<Turn>().is_err());
    }
}
