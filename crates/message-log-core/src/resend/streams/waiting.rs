//! The receives that name a stream and wait for a message, in the order in which they were posted.

use std::collections::VecDeque;

use super::stream::PostingOrder;
use crate::memory::NoMemory;

/// There is usually one at a time, which needs no queue.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// The oldest one; 0: none, as tickets start at 1.
    first: PostingOrder,
    others: VecDeque<PostingOrder>,
}

impl Waiting {
    /// A receive is posted.
    ///
    /// # Errors
    /// Out of memory.
    #[inline(always)]
    pub(super) fn push(&mut self, order: PostingOrder) -> Result<(), NoMemory> {
        if self.first != 0 {
            return self.push_behind(order);
        }
        self.first = order;
        Ok(())
    }

    #[inline(never)]
    fn push_behind(&mut self, order: PostingOrder) -> Result<(), NoMemory> {
        self.others.try_reserve(1)?;
        self.others.push_back(order);
        Ok(())
    }

    /// How many were posted before this one and still wait.
    #[inline(always)]
    pub(super) fn before(&self, order: PostingOrder) -> u64 {
        match self.first == 0 || self.first >= order {
            true => 0,
            false => 1 + self.others.partition_point(|&other| other < order) as u64,
        }
    }

    /// Whether this one is the oldest.
    #[inline(always)]
    pub(super) fn is_first(&self, order: PostingOrder) -> bool {
        self.first == order
    }

    /// The oldest is complete; there is one.
    #[inline(always)]
    pub(super) fn pop(&mut self) {
        self.first = match self.others.is_empty() {
            true => 0,
            false => self.second(),
        };
    }

    #[inline(never)]
    fn second(&mut self) -> PostingOrder {
        self.others.pop_front().unwrap_or(0)
    }

    /// A receive has completed. Returns whether it waited.
    pub(super) fn remove(&mut self, order: PostingOrder) -> bool {
        if self.first == order {
            self.pop();
            return true;
        }
        let at = self.others.binary_search(&order);
        if let Ok(at) = at {
            self.others.remove(at);
        }
        at.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Catches orders that are lost when the oldest one leaves.
    #[test]
    fn is_a_sorted_list() {
        let (mut waiting, mut model) = (Waiting::default(), Vec::new());
        for order in 1..=200 {
            waiting.push(order).unwrap();
            model.push(order);
            for done in [(order * 7) % 13 + order / 2, order.saturating_sub(3 * (order % 5))] {
                let at = model.iter().position(|&other| other == done);
                assert_eq!(waiting.remove(done), at.is_some(), "{done} of {model:?}");
                at.map(|at| model.remove(at));
            }
            assert_eq!(waiting.before(order + 1), model.len() as u64);
            assert!(model.first().is_none_or(|&first| waiting.is_first(first)));
            for other in 1..=order + 1 {
                let before = model.iter().filter(|&&one| one < other).count() as u64;
                assert_eq!(waiting.before(other), before, "{other} of {model:?}");
            }
        }
    }
}
