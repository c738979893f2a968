//! The log in checkpoints: an object that the checkpoint library, if present, writes with every
//! checkpoint and reads at a restart ([`VELOC_Part_log`](object::VELOC_Part_log)).
//!
//! | file | owns |
//! | --- | --- |
//! | `object` | the functions for the checkpoint library |
//! | [`lineage`] | which checkpoint's log a process reads |
//! | `layouts` | types by their layout |
//!
//! What is written is in `message_log_core::store`.
//!
//! A program may restore checkpoints all the time, as snapshots of its adjoint, and its log must not be
//! rolled back. So a checkpoint's log is only read by a process without a log: logs written by this
//! process, or by one that it continues (its *lineage*), are ignored.

mod layouts;
pub(crate) mod lineage;
mod object;

use message_log_core::log::ChunkBytes;
use message_log_core::parts;
use message_log_core::store::bytes::{NumberReader, Result};
use message_log_core::store::chunks::Incoming;
use message_log_core::store::comms::{CommunicatorHandles, CommunicatorNumbers};
use message_log_core::store::pack::{self, Head, PackedLog};
use message_log_core::store::settled::SettledPosition;
use message_log_core::store::targets::ProtectedRanges;
use message_log_core::store::unpack;

use crate::communicators::predefined;
use crate::device;
use crate::interposition;
use crate::mpi::MpiProperties;
use crate::pmpi;
use crate::refuse;
use crate::state::LogState;
use layouts::Layouts;

#[cfg(test)]
pub(crate) use object::refusal;

/// The log as regions of a checkpoint.
#[derive(Debug)]
struct Packaged {
    bytes: Vec<u8>,
    chunks: Vec<ChunkBytes>,
}

/// The log as regions. `None`: no part was ever begun.
fn write_log(state: &mut LogState, regions: ProtectedRanges<'_>) -> Result<Option<Packaged>> {
    if state.store.is_unused() && state.recording.parts.instances().now() == 0 {
        return Ok(None);
    }
    if let Some(text) = under_way(state) {
        return Err(text);
    }
    state.take_verdicts(false);
    let parts = &state.recording.parts;
    let lineage = state.store.lineage();
    let resend = state.resend.as_ref().map(|resend| SettledPosition::of(&resend.judge, parts));
    let head = Head { lineage, resend, ..here(&state.mpi) };
    let numbers = CommunicatorNumbers::new(predefined(&state.mpi), &state.objects.comms);
    let PackedLog { bytes, lost, chunks } =
        pack::pack(&head, parts, &numbers, &Layouts(&state.mpi), regions)?;
    if let Some(call) = lost.filter(|_| state.store.says_loss()) {
        refuse::warn(
            &state.mpi,
            &format!(
                "{call} in a logged part has received into memory that is not protected, by a \
                 request begun before the part: a process that goes on from this checkpoint \
                 cannot replay it"
            ),
        );
    }
    Ok(Some(Packaged { bytes, chunks }))
}

/// Describes an incomplete request that began inside an open part.
fn under_way(state: &mut LogState) -> Option<String> {
    let parts = &state.recording.parts;
    let (id, begun) = parts.outermost()?;
    state.tracked.under_way(id, begun, parts.open().source() == Some(parts::Source::Mpi))
}

/// The head of a log, if this process needs it because it has none.
fn wants(state: &LogState, from: &mut NumberReader<'_>) -> Result<Option<Head>> {
    let damaged = |why| format!("the log of messages is damaged: {why}");
    let head = Head::read(from).map_err(damaged)?;
    let is_reported =
        state.resend.as_ref().is_some_and(|resend| resend.judge.verdicts.is_reported());
    if !state.store.wants(head.lineage, &state.recording.parts, is_reported)? {
        return Ok(None);
    }
    check_head(&head, &state.mpi)?;
    Ok(Some(head))
}

/// Starts to read a checkpoint's log. Returns how many of its chunks are wanted, all or none.
fn begin_reading(state: &mut LogState, sealed: &[u8]) -> Result<usize> {
    state.store.incoming = None;
    let mut from = NumberReader::open(sealed)?;
    if wants(state, &mut from)?.is_none() {
        return Ok(0);
    }
    let incoming = Incoming::expected(&mut from, state.recording.arena.another())?;
    let count = incoming.count();
    state.store.incoming = Some(incoming);
    Ok(count)
}

/// Reads a checkpoint's log, if this process has none and the chunks are there.
fn read_log(state: &mut LogState, sealed: &[u8], regions: ProtectedRanges<'_>) -> Result<()> {
    let incoming = state.store.incoming.take();
    let mut from = NumberReader::open(sealed)?;
    let Some(head) = wants(state, &mut from)? else { return Ok(()) };
    // Open parts continue here, so the checks of a part's beginning apply.
    interposition::check()?;
    device::get_or_find()?;
    let incoming = incoming.ok_or("the chunks of the log of messages are missing")?;
    let chunks = incoming.complete(&mut from)?;
    let handles =
        CommunicatorHandles::read(&mut from, predefined(&state.mpi), &state.objects.comms)?;
    let unpacked = unpack::unpack(from, &head, &handles, &Layouts(&state.mpi), regions, chunks)?;
    let (recording, resend) = (&mut state.recording, &mut state.resend);
    let judge = resend.as_mut().map(|resend| &mut resend.judge);
    let again = state.counting.streams().zip(judge);
    (recording.parts, recording.arena) =
        unpacked.continued(&recording.parts, head.resend, again)?;
    state.store.has_read(head.lineage, &recording.parts);
    Ok(())
}

fn check_head(head: &Head, mpi: &MpiProperties) -> Result<()> {
    let here = here(mpi);
    if (head.abi, head.status) != (here.abi, here.status) {
        return Err("the log of messages was written by processes with another MPI library".into());
    }
    if (head.rank, head.processes) != (here.rank, here.processes) {
        return Err(format!(
            "the log of messages is that of process {} of {}, and this is process {} of {}",
            head.rank, head.processes, here.rank, here.processes
        ));
    }
    Ok(())
}

/// The head for this process.
fn here(mpi: &MpiProperties) -> Head {
    let mut processes = 0;
    // SAFETY: an integer of ours, and a communicator that always exists.
    unsafe { pmpi::comm_size(mpi.comm_world, &mut processes) };
    let (status, rank) = (mpi.status.size as u32, mpi.rank);
    Head { lineage: [0; 2], abi: mpi.abi as u8, status, rank, processes, resend: None }
}
