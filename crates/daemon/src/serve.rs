//! One connection: of a client, from its first message until what it has left is written or kept,
//! or of somebody who asks what is kept.

use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::time::Duration;

use errors::{Error, ErrorKind, Result};
use os::logging;
use os::shared::SharedMemory;
use recovery::handover::Kept;
use recovery::log as log_file;
use recovery::protocol::{decode, encode, First, Hello, Reply, PROTOCOL};

use super::clients::{Client, ClientEnd, ClientRegistration};
use super::keep::{Keeper, LeftMemory};
use super::{recover, WriterLimit};

/// How long a new connection may be silent, until a client's `watchdog_interval` is known.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a list of what is kept waits for a job that has just ended: writing may take long.
const LIST_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves one client until it has ended and its data is written.
pub(super) fn serve_client(
    registration: &ClientRegistration,
    writers: &WriterLimit,
    interval: &OnceLock<Duration>,
    keeper: &Keeper,
) -> Result<()> {
    let client = &registration.client;
    client.socket.check_user()?;
    let patience = interval.get().copied().unwrap_or(HELLO_TIMEOUT);
    let Some(message) = client.await_hello(patience)? else {
        return Ok(());
    };
    let (hello, files) = match decode(&message.bytes)? {
        First::Hello(hello) => (hello, message.files),
        First::Asks(asks) => match give_memory(registration, *asks, writers, keeper)? {
            Some(here) => here,
            None => return Ok(()),
        },
        First::Lists => {
            registration.wait_for_ended(LIST_TIMEOUT);
            return tell(client, keeper.list());
        }
        First::Drops => {
            registration.wait_for_ended(Duration::MAX);
            return tell(client, keeper.free("veloc-backend drop was called"));
        }
    };
    log_file::set_directory(&hello.config);
    check_protocol(&hello)?;
    let mut files = files.into_iter();
    let ledger =
        files.next().ok_or_else(|| Error::new(ErrorKind::Corrupt, "a hello without a ledger"))?;
    let ledger = SharedMemory::from_file(ledger)?;
    let host = files.next().map(SharedMemory::from_file).transpose()?;
    let rank = hello.process.rank;
    logging::set_topic(Some(format!("process {}, rank {rank}", client.number).into()));
    log::info!("is here");
    if hello.config.hand_over.is_some() && host.is_some() {
        client.offers(&hello);
    }

    registration.wait_for_predecessors(hello.process, None);
    // The client may have ended meanwhile.
    let _ = client.socket.send(&encode(&Reply::PredecessorsDone)?, &[]);
    let look = Duration::from_secs(hello.config.watchdog_interval.max(1));
    let look = *interval.get_or_init(|| look);
    let end = client.wait_for_end(look, &ledger)?;
    if end == ClientEnd::Lives {
        log::warn!("it is alive but has closed its connection, so its data is not recovered");
        return Ok(());
    }
    finish(client, hello, ledger, host, end, writers, keeper)
}

fn check_protocol(hello: &Hello) -> Result<()> {
    if hello.protocol != PROTOCOL {
        return Err(Error::invalid(format!("it uses protocol version {}", hello.protocol)));
    }
    Ok(())
}

/// Writes what a client has left, and keeps its memory if the next job is to have it.
fn finish(
    client: &Client,
    hello: Box<Hello>,
    ledger: SharedMemory,
    host: Option<SharedMemory>,
    end: ClientEnd,
    writers: &WriterLimit,
    keeper: &Keeper,
) -> Result<()> {
    let written = writers
        .with(hello.config.max_parallelism, || {
            recover::finish(client, &hello, host.as_ref(), &ledger)
        })
        .map_err(|error| error.within("writing what it left"));
    let interrupted = client.is_written();
    if let Ok(left @ 1..) = written {
        log::warn!("ended with {left} checkpoints not in their files: they are written now");
    }
    let may_be_in_use = written.as_ref().is_err_and(|error| error.kind() == ErrorKind::Internal);
    let kept = match (hello.config.hand_over.is_some() && !may_be_in_use, host) {
        (true, Some(host)) => {
            let left = LeftMemory { hello, ledger, host };
            keeper.keep(left, end == ClientEnd::Normal, interrupted)
        }
        _ => Ok(()),
    };
    written.map(drop).and(kept)
}

/// Gives a client the memory that is kept for it, and returns its hello. `None`: the client has
/// ended, and the memory is kept on.
fn give_memory(
    registration: &ClientRegistration,
    asks: Hello,
    writers: &WriterLimit,
    keeper: &Keeper,
) -> Result<Option<(Box<Hello>, Vec<OwnedFd>)>> {
    let client = &registration.client;
    check_protocol(&asks)?;
    log_file::set_directory(&asks.config);
    let alive = registration.wait_for_predecessors(asks.process, Some(&asks));
    let found = keeper.take(&asks);
    let (reply, files) = match &found {
        Ok(memory) => (Reply::Memory, vec![memory.ledger.file()?, memory.host.file()?]),
        Err(text) => {
            let alive =
                alive.map(|process| format!("; process {process} of this name and rank runs"));
            let text = format!("{text}{}", alive.unwrap_or_default());
            (Reply::Nothing(text), Vec::new())
        }
    };
    let said = client.socket.send(&encode(&reply)?, &files);
    let look = Duration::from_secs(asks.config.watchdog_interval.max(1));
    let message = said.and_then(|()| client.next_message(look));
    if let Ok(Some(message)) = message {
        if let Ok(First::Hello(hello)) = decode(&message.bytes) {
            return Ok(Some((hello, message.files)));
        }
    }
    let Ok(LeftMemory { hello, ledger, host }) = found else { return Ok(None) };
    if !client.has_given_back(&ledger) {
        log::warn!("it is alive but has closed its connection, so what it got is not kept on");
        return Ok(None);
    }
    client.offers(&hello);
    finish(client, hello, ledger, Some(host), ClientEnd::Killed, writers, keeper).map(|()| None)
}

/// Lists memory that is, or was, kept.
fn tell(client: &Client, kept: Vec<Kept>) -> Result<()> {
    for one in kept {
        client.socket.send(&encode(&Reply::Keeps(Box::new(one)))?, &[])?;
    }
    Ok(())
}
