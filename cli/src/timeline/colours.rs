//! What has which colour, and what it is called in the legend.

use super::job::{Span, CONCURRENT, SEQUENTIAL};

/// Colour and legend.
pub type Look = (&'static str, &'static str);

/// The time between the calls.
pub const COMPUTE: Look = ("#e3e7ea", "compute");

/// What this program does not know.
pub const OTHER: Look = ("#a67c52", "other");

/// What marks an eviction.
pub const EVICTION: Look = ("#111111", "eviction");

/// The looks, in the order of the legend: whether it is a wait, the name, whether it is about
/// untouched pages, and the look.
const LOOKS: [(bool, &str, bool, Look); 29] = [
    (false, "init", false, ("#1f2933", "initialisation")),
    (false, "checkpoint", false, ("#52606d", "rest of a checkpoint call")),
    (false, "restore", false, ("#7b8794", "rest of a restore call")),
    (false, "drain", false, ("#9aa5b1", "rest of a draining call")),
    (true, "copy", false, ("#2b6cb0", "blocked: copy")),
    (true, "order", false, ("#8ea9db", "blocked: queued work")),
    (true, "map", false, ("#f2c037", "blocked: mapping")),
    (true, "device room", false, ("#d92d20", "blocked: device room")),
    (true, "host room", false, ("#8c1d18", "blocked: host room")),
    (true, "fetch", false, ("#d053a8", "blocked: fetch")),
    (true, "file", false, ("#6941c6", "blocked: file")),
    (true, "drain", false, ("#b8bfc8", "blocked: drain")),
    (false, "map", false, ("#f2c037", "map")),
    (false, "capture", false, ("#2b6cb0", "capture")),
    (false, "recover", false, ("#6ab0e6", "copy back")),
    (false, "flush", false, ("#2f9e57", "flush")),
    (false, "flush", true, ("#a3d9a5", "flush to untouched pages")),
    (false, "touch", false, ("#f08c3a", "touch")),
    (false, "register", false, ("#b42318", "register")),
    (false, "turn", false, ("#f3c6c2", "wait for the turn")),
    (false, "lull", false, ("#fbe6e4", "wait for a lull")),
    (false, "fetch", false, ("#0e9384", "prefetch")),
    (false, "write", false, ("#7a5af8", "write")),
    (false, "persist", false, ("#b9a9fb", "persist")),
    (false, "encode", false, ("#dcd0ff", "parities")),
    (false, "read", false, ("#5fc6bb", "read ahead")),
    (false, "evict", false, EVICTION),
    (false, SEQUENTIAL, false, ("#9c4221", "touch between flushes")),
    (false, CONCURRENT, false, ("#f6c39b", "touch beside flushes")),
];

/// What a span looks like.
pub fn of(span: &Span) -> Look {
    let plain = |untouched: bool| {
        LOOKS
            .iter()
            .find(|l| l.0 == span.blocked && l.1 == span.name && l.2 == untouched)
            .map(|l| l.3)
    };
    let special = if span.untouched { plain(true) } else { None };
    special.or_else(|| plain(false)).unwrap_or(OTHER)
}

/// The legend's order of a look.
pub fn order(look: Look) -> usize {
    LOOKS.iter().position(|l| l.3 == look).unwrap_or(LOOKS.len())
}

/// Whether text on this colour is to be white.
pub fn is_dark(colour: &str) -> bool {
    let part = |at: usize| colour.get(at..at + 2).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let [red, green, blue] = [1, 3, 5].map(|at| part(at).unwrap_or(0));
    299 * red + 587 * green + 114 * blue < 140_000
}

#[cfg(test)]
mod tests {
    use super::super::job::tests::small;
    use super::*;

    #[test]
    fn every_activity_and_every_cause_of_the_library_has_a_look() {
        let base = small()[0].spans[0].clone();
        let activities = veloc_client::trace::activity::ACTIVITIES;
        let spans = activities.iter().map(|(_, name)| (name.to_str().unwrap(), false));
        let waits = veloc_client::metrics::CAUSES.iter().map(|(_, name)| (*name, true));
        for (name, blocked) in spans.chain(waits) {
            let span = Span { name: name.to_owned(), blocked, untouched: false, ..base.clone() };
            assert_ne!(of(&span), OTHER, "{name}");
        }
    }

    #[test]
    fn flushes_to_untouched_pages_differ() {
        let jobs = small();
        let flush = jobs[0].spans.iter().find(|span| span.name == "flush").unwrap();
        assert_eq!(of(flush).1, "flush to untouched pages");
        assert_eq!(of(&Span { untouched: false, ..flush.clone() }).1, "flush");
    }

    /// A wait may look like the work that is waited for.
    #[test]
    fn no_two_activities_look_alike() {
        let mut own = std::collections::HashSet::new();
        for (blocked, name, _, look) in LOOKS {
            assert!(own.insert((blocked, look.0)), "{name}");
        }
        assert!(own.insert((false, OTHER.0)) && own.insert((false, COMPUTE.0)));
    }

    #[test]
    fn text_can_be_read() {
        assert!(is_dark("#1f2933") && !is_dark("#e3e7ea"));
    }
}
