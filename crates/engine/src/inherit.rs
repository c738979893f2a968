//! The host buffer that an earlier job has handed over (`hand_over`): a job of the same name begins
//! with its content.

use super::buffer;
use catalog::ledger::{Ledger, Left};
use catalog::state::State;
use config::Config;
use errors::Result;
use files::Files;
use levels::host_buffer::HostBuffer;
use os::size;
use os::socket::Socket;
use recovery::handover;
use recovery::link::HandOff;
use recovery::Process;

/// The memory that a job begins with.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    /// The memory of the job before, if there is some.
    pub memory: Option<InheritedMemory>,
    /// Why there is none, if the job asks for it.
    pub missing: Option<String>,
    /// The connection to the backend that was asked.
    pub asked: Option<Socket>,
}

/// A host buffer with its content.
#[derive(Debug)]
pub(super) struct InheritedMemory {
    pub host: HostBuffer,
    pub hand_off: HandOff,
    pub ledger: Ledger,
    pub left: Vec<Left>,
}

impl Inherited {
    fn without(missing: String) -> Inherited {
        Inherited { missing: Some(missing), ..Inherited::default() }
    }
}

/// Asks the backend for the memory of the job before, if this one is to begin with it. Why there is
/// none is told by the first call that looks for checkpoints: a job that only takes them needs none.
pub(super) fn inherit(config: &Config, process: Process, files: &Files) -> Inherited {
    let Some(name) = &config.hand_over else { return Inherited::default() };
    let answer = match handover::ask(config, process, &files.places().inodes()) {
        Ok(answer) => answer,
        Err(error) => return Inherited::without(error.to_string()),
    };
    match answer.memory {
        Ok(hand_off) => match open(config, hand_off) {
            Ok(memory) => {
                log::info!(
                    "hand_over = {name}: {} checkpoints are in the host buffer of {}",
                    memory.left.len(),
                    size::show(memory.host.len())
                );
                Inherited { memory: Some(memory), missing: None, asked: answer.socket }
            }
            Err(error) => Inherited::without(format!("the memory cannot be used: {error}")),
        },
        Err(why) => Inherited { memory: None, missing: Some(why), asked: answer.socket },
    }
}

fn open(config: &Config, hand_off: HandOff) -> Result<InheritedMemory> {
    let host = hand_off.host.as_ref().map(|host| buffer::taken(config, host)).transpose()?;
    let host = host.ok_or_else(|| errors::Error::invalid("there is no host buffer"))?;
    let (ledger, left) = Ledger::resume(hand_off.ledger.words()?)?;
    Ok(InheritedMemory { host, hand_off, ledger, left })
}

/// Takes over the content of the host buffer.
pub(super) fn take(state: &mut State, files: &Files, host: Option<&HostBuffer>, left: &[Left]) {
    for (record, standing, slot) in left {
        if record.may_replace {
            files.rights().allow_replacing(&record.name);
        }
        match state.handover().take_over(record, *standing, Some(*slot)) {
            Ok(()) => {
                for (_, extents) in record.parts.iter().filter(|_| standing.in_host) {
                    if let Some(host) = host {
                        host.writing(extents);
                        host.written(extents);
                    }
                }
            }
            Err(error) => log::error!("{error}"),
        }
    }
}
