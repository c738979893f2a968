//! The model beside what the text of HiPC'22 says in words.

use anyhow::Result;
use serde::Serialize;

use super::paper::{blocked, large_host, Blocked};
use crate::bench::plan::ApproachName;

/// Something that the paper's text says without a number, nor for how many processes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Claim {
    /// What it says.
    pub what: &'static str,
    /// With 1 process and with 8: what is to be less, and than what, in seconds.
    pub times: [[f64; 2]; 2],
    /// Why it does not hold, if it does not.
    pub note: &'static str,
}

impl Claim {
    /// Whether it holds in the model, with 1 process and with 8. What is equal is not less.
    pub(super) fn holds(&self) -> [bool; 2] {
        self.times.map(|[less, than]| less < 0.99 * than)
    }
}

/// What the text says of figure 5 without a number.
pub(super) fn claims() -> Result<Vec<Claim>> {
    let mut runs = Vec::new();
    for processes in [1, 8] {
        let run = |approach, interval| blocked(&large_host(approach, processes, interval)?);
        runs.push([
            run(ApproachName::DirectPin, 5e-3)?,
            run(ApproachName::Uvm, 5e-3)?,
            run(ApproachName::IncrementalMemset, 5e-3)?,
            run(ApproachName::Ours, 5e-3)?,
            run(ApproachName::Uvm, 80e-3)?,
        ]);
    }
    let claim = |what, times: fn(&[Blocked; 5]) -> [f64; 2], note| Claim {
        what,
        times: [times(&runs[0]), times(&runs[1])],
        note,
    };
    Ok(vec![
        claim(
            "checkpoints: UVM less than direct pinning",
            |[direct, uvm, ..]| [uvm.checkpoints, direct.checkpoints],
            "",
        ),
        claim(
            "checkpoints: UVM less than incremental memset",
            |[_, uvm, memset, ..]| [uvm.checkpoints, memset.checkpoints],
            "the model's UVM writes what leaves the device to pages that do not exist, at the rate \
             at which incremental memset makes them, and the application waits for all of it; the \
             paper gives no rate of UVM",
        ),
        claim(
            "in all: incremental memset less than direct pinning",
            |[direct, _, memset, ..]| [memset.total, direct.total],
            "",
        ),
        claim(
            "in all: incremental memset less than UVM",
            |[_, uvm, memset, ..]| [memset.total, uvm.total],
            "",
        ),
        claim(
            "in all: direct pinning less than UVM, at short intervals",
            |[direct, uvm, ..]| [direct.total, uvm.total],
            "with 8 processes direct pinning is 8 times as slow; UVM, which pins nothing, is not",
        ),
        claim(
            "in all: UVM less at long intervals than at short ones",
            |[_, uvm, _, _, long]| [long.total, uvm.total],
            "the model's UVM moves pages only when they are used, never during computing",
        ),
        claim(
            "checkpoints: ours less than every other",
            |[direct, uvm, memset, ours, _]| {
                [ours.checkpoints, direct.checkpoints.min(uvm.checkpoints).min(memset.checkpoints)]
            },
            "",
        ),
        claim(
            "in all: ours less than every other",
            |[direct, uvm, memset, ours, _]| {
                [ours.total, direct.total.min(uvm.total).min(memset.total)]
            },
            "",
        ),
    ])
}
