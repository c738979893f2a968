//! Reports once per part why its messages are not sent again.

use std::collections::BTreeSet;

/// The most parts that are reported: some programs use a new id for each run of a part.
const MOST_PARTS: usize = 32;

/// The parts that were reported.
#[derive(Debug, Default)]
pub(super) struct NotResent(BTreeSet<i32>);

impl NotResent {
    /// The message for a part whose messages are all logged, for this reason.
    pub(super) fn message(&mut self, id: i32, why: &str) -> Option<String> {
        if self.0.len() == MOST_PARTS || !self.0.insert(id) {
            return None;
        }
        let rest = if self.0.len() == MOST_PARTS {
            "; further parts are not reported any more"
        } else {
            ""
        };
        Some(format!(
            "no message of part {id} is sent again (VELOC_PART_RESEND), all are logged: {why}{rest}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches a message for each run of a part, and one for each of very many parts.
    #[test]
    fn a_part_is_reported_once() {
        let mut not_resent = NotResent::default();
        let first = not_resent.message(7, "it is so").unwrap_or_default();
        assert!(first.contains("part 7 ") && first.ends_with("it is so"), "{first}");
        assert_eq!(not_resent.message(7, "it is otherwise"), None);
        let said: Vec<_> = (0..1000).filter_map(|id| not_resent.message(id, "why")).collect();
        assert_eq!(said.len(), MOST_PARTS - 1);
        let last = said.last().map(|text| text.contains("not reported any more"));
        assert_eq!(
            (last, said.iter().filter(|text| text.contains("any more")).count()),
            (Some(true), 1)
        );
    }
}
