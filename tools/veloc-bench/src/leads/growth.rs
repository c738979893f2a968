//! Whether the machine has its memory at once, or is given memory as it uses it.

use std::time::Instant;

use anyhow::Result;
use os::memory;
use os::size;
use serde::Serialize;

use super::{rate, Bench};
use crate::growth;
use crate::host::number;

/// The result of touching memory.
#[derive(Debug, Serialize)]
pub(super) struct GrowthPoint {
    /// Bytes that were to be touched.
    wanted: u64,
    /// Bytes that the machine has given in the time allowed.
    touched: u64,
    seconds: f64,
    before: MachineMemory,
    /// The machine's memory after the touched bytes were freed.
    after: MachineMemory,
}

/// The machine's memory in bytes.
#[derive(Debug, Serialize)]
struct MachineMemory {
    total: u64,
    /// Bytes that this process may still have.
    available: u64,
}

fn now() -> Result<MachineMemory> {
    let (total, available) = (memory::machine_total()?, memory::physical()?.available);
    Ok(MachineMemory { total, available })
}

/// Touches memory, and gives it back.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<()> {
    let (wanted, before, since) = (bench.total, now()?, Instant::now());
    let touched = growth::touch(wanted);
    let seconds = since.elapsed().as_secs_f64();
    let point = GrowthPoint { wanted, touched, seconds, before, after: now()? };
    println!(
        "{} of {} of memory touched, {} GB/s",
        size::show(touched),
        size::show(wanted),
        number(rate(touched, seconds))
    );
    for (when, memory) in [("before", &point.before), ("after", &point.after)] {
        let (total, available) = (size::show(memory.total), size::show(memory.available));
        println!("{when:<40} {total}, {available} available");
    }
    bench.keep(super::LeadPoint::Grow(point))
}
