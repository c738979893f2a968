//! Messages that are sent again and logged all the same, as not all processes may know that.

use std::collections::BTreeSet;

use super::instance::Instance;
use crate::resend::closed::ClosedMessages;

/// The instances whose verdicts are not settled.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// Messages that are sent again are logged, too, unless their exchange is below this number.
    settled: u64,
    /// The others, by exchange and instance.
    instances: BTreeSet<(u64, u64)>,
}

impl Unsettled {
    /// As instances of another process are, for which this many exchanges were settled.
    pub(super) fn of(settled: u64, instances: &[Instance]) -> Unsettled {
        let closed = |one: &Instance| Some((one.closed.as_deref()?.number, one.number));
        let kept = instances.iter().filter_map(closed);
        let instances = kept.filter(|(exchange, _)| *exchange >= settled).collect();
        Unsettled { settled, instances }
    }

    /// How many exchanges are settled.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// This instance logs the messages that it receives again, if necessary.
    pub(super) fn add(&mut self, number: u64, closed: Option<&ClosedMessages>) {
        let kept = closed.filter(|closed| closed.number >= self.settled);
        self.instances.extend(kept.map(|closed| (closed.number, number)));
    }

    /// All processes know the messages of this many exchanges. Returns the instances that this settles.
    pub(super) fn settle(&mut self, settled: u64) -> impl Iterator<Item = u64> {
        let mut now = BTreeSet::new();
        if settled > self.settled {
            self.settled = settled;
            let later = self.instances.split_off(&(settled, 0));
            now = std::mem::replace(&mut self.instances, later);
        }
        now.into_iter().map(|(_, number)| number)
    }

    /// The instances that are not settled, which never will be.
    pub(super) fn take(&mut self) -> impl Iterator<Item = u64> {
        std::mem::take(&mut self.instances).into_iter().map(|(_, number)| number)
    }
}
