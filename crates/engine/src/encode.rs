//! Erasure coding, on its own worker: announces the scratch files to the group, makes the parities that this
//! process stores, and watches the other processes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Instant;

use super::run::about;
use super::shared::Shared;
use erasure::encoding::{Encoding, Member};
use erasure::node::{Job, Node};
use erasure::parity::{self, ParityWriter};
use erasure::peer::Peer;
use erasure::progress::{GroupTask, VersionKey};
use erasure::remote_pieces::RemotePieces;
use erasure::served::{FileToServe, ServedFile};
use erasure::stream;
use erasure::wire::{FileId, Message};
use errors::{Error, ErrorKind, Result};
use format::checksum::Checksum;
use os::files::{self, Durability};
use trace::Activity;

/// Serves the group until the engine stops.
pub(crate) fn encode(shared: &Shared) -> Result<()> {
    let Some(node) = shared.file_side.erasure.get() else {
        return Ok(());
    };
    // However this ends, others must not wait for it any more.
    let _end = EncoderEnd(node);
    let mut worker = Encoder {
        shared,
        node,
        peers: BTreeMap::new(),
        offered: BTreeMap::new(),
        said: BTreeSet::new(),
    };
    for rank in node.watched_peers() {
        // A busy network may drop a connection, which must not cost the whole job its protection.
        let called = node.call(rank).or_else(|_| node.call(rank)).or_else(|_| node.call(rank));
        match called {
            Ok(peer) => drop(worker.peers.insert(rank, peer)),
            Err(error) => node.peer_lost(rank, &error),
        }
    }
    while let Some(job) = node.next_job() {
        match job {
            Job::Do(task) => worker.work(task),
            Job::CheckPeers => worker.find_lost(),
        }
        worker.sweep();
    }
    Ok(())
}

struct EncoderEnd<'a>(&'a Node);

impl Drop for EncoderEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

struct Encoder<'a> {
    shared: &'a Shared,
    node: &'a Node,
    peers: BTreeMap<u32, Peer>,
    /// The announced files, and their digests.
    offered: BTreeMap<VersionKey, (ServedFile, Checksum)>,
    /// The names for which a version without parities was reported.
    said: BTreeSet<Arc<str>>,
}

impl Encoder<'_> {
    fn work(&mut self, task: GroupTask) {
        match task {
            GroupTask::Announce(key, round) => {
                if let Err(error) = self.announce(&key, round) {
                    self.failed(&key, error);
                }
            }
            GroupTask::Encode(encoding, round) => self.encode(&encoding, round),
            GroupTask::Withdraw(key) => drop(self.offered.remove(&key)),
            GroupTask::Decide((name, version)) => {
                let word = Message::Decided { name: name.to_string(), version };
                self.tell(self.node.followers().to_vec(), &word);
            }
            GroupTask::DecideNoMore => {
                self.tell(self.node.followers().to_vec(), &Message::DecidedAll);
            }
            GroupTask::Leave => self.tell_group(&Message::Leaving),
            GroupTask::Settle => self.tell_group(&Message::Settled),
            GroupTask::Finish => self.tell_group(&Message::Finished),
        }
    }

    fn tell_group(&mut self, word: &Message) {
        self.tell(self.node.others().collect(), word);
    }

    fn tell(&mut self, ranks: Vec<u32>, word: &Message) {
        for rank in ranks {
            if let Some(peer) = self.peers.get_mut(&rank) {
                // A process that cannot be reached is gone: see `sweep`.
                let _ = peer.send_message(word);
            }
        }
    }

    /// Finds processes that have disappeared silently.
    fn find_lost(&mut self) {
        for peer in self.peers.values_mut() {
            peer.check_connected();
        }
    }

    /// Removes the processes that are gone.
    fn sweep(&mut self) {
        let gone: Vec<(u32, Error)> = self
            .peers
            .iter()
            .filter_map(|(rank, peer)| Some((*rank, peer.broken()?.clone())))
            .collect();
        for (rank, why) in gone {
            self.peers.remove(&rank);
            self.node.peer_lost(rank, &why);
        }
    }

    /// Warns for the first version of each name that it has no parities: consecutive states of an adjoint
    /// computation may all lack them.
    fn failed(&mut self, (name, version): &VersionKey, error: Error) {
        self.shared.telemetry.metrics.encode_failures.fetch_add(1, Ordering::Relaxed);
        let text = format!(
            "checkpoint \"{name}\" version {version} has no parities, so it is not protected from the loss of a \
             scratch directory: {error}"
        );
        match self.said.insert(name.clone()) {
            true => {
                log::warn!("{text}; further versions of that name are reported with VELOC_LOG=info")
            }
            false => log::info!("{text}"),
        }
    }

    /// Announces a file to the others, and serves it from now on.
    fn announce(&mut self, key: &VersionKey, round: u32) -> Result<()> {
        let (name, version) = (&key.0, key.1);
        let path = self.shared.file_side.files.places().scratch_path(name, version)?;
        let naming = self.shared.file_side.naming.lock();
        if !self.node.is_latest(key, round) {
            // The file of another round is there by now, and announced in its turn.
            return Ok(());
        }
        let file = match files::open(&path) {
            Ok(file) => file,
            // The file was removed in the meantime, for younger ones or because nobody needs it.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let routed = self.shared.file_side.files.copies().routed(name, version)?;
        let identity = self.shared.file_side.files.runs().identity_of(&file, &path);
        drop(naming);
        let (len, digest) = parity::digest(&file, &path)?;
        let id = FileId { name: name.to_string(), version, digest };
        let offer = self.node.served().serve(id, FileToServe { file: file.into(), path, start: 0 });
        self.offered.insert(key.clone(), (offer, digest));
        let member = Member { rank: self.node.own(), len, digest, identity, routed };
        // Before the others know, as they may answer at once.
        self.node.announced(key, round, member.clone());
        let name = name.to_string();
        self.tell_group(&Message::Announced { name, version, round, file: member });
        Ok(())
    }

    fn encode(&mut self, encoding: &Encoding, round: u32) {
        let (name, version) = (encoding.name.clone(), encoding.version);
        let key: VersionKey = (name.as_str().into(), version);
        let since = Instant::now();
        let mut span = self.shared.telemetry.trace.span(Activity::Encode).of(&name, version);
        let made = self.make(encoding, &key);
        match &made {
            Ok((bytes, _)) => {
                self.shared.telemetry.metrics.encode.add(*bytes, since.elapsed());
                span.bytes(*bytes);
            }
            Err(error) => {
                let mut taken_again = false;
                for (rank, peer) in &mut self.peers {
                    if peer.discard() {
                        // The version is encoded anew, with the new file.
                        self.node.taken_again(&key, round, encoding, *rank);
                        taken_again = true;
                    }
                }
                if !taken_again {
                    self.failed(&key, error.clone());
                }
            }
        }
        drop(span);
        let id = encoding.id();
        self.node.encoding_ended(&key, round, id, matches!(made, Ok((_, true))));
        self.tell_group(&Message::Ended { name, version, round, id });
    }

    /// Makes the parities that this process stores. Returns the size of their file, and whether they are
    /// still valid, and so have their name.
    fn make(&mut self, encoding: &Encoding, key: &VersionKey) -> Result<(u64, bool)> {
        encoding.check()?;
        let files = &self.shared.file_side.files;
        let own = encoding.index_of(self.node.own());
        let own =
            own.ok_or_else(|| Error::new(ErrorKind::Internal, "it is not of this process"))?;
        let temporary = files.places().temporary(&files.places().scratch_path(&key.0, key.1)?);
        let written =
            ParityWriter::create(&temporary, encoding.clone(), own).and_then(|mut writer| {
                let (offers, rank) = (self.node.served(), self.node.own());
                let mut pieces =
                    RemotePieces::new(encoding, Vec::new(), &mut self.peers, rank, offers);
                stream::encode(encoding, own, &mut pieces, |bytes| writer.put(bytes))?;
                writer.complete()
            });
        let named = written.and_then(|bytes| {
            let _naming = self.shared.file_side.naming.lock();
            let current = self.is_current(key, &encoding.members[own]);
            if current {
                let path = files.places().parity_path(&key.0, key.1)?;
                files.places().may_change_in(files.places().scratch())?;
                files::atomic_replace(&temporary, &path, Durability::Unsynced)?;
            } else {
                // The version was taken again or removed: these parities belong to nothing.
                files::remove(&temporary)?;
            }
            Ok((bytes, current))
        });
        if named.is_err() {
            // The first failure is reported.
            let _ = files::remove(&temporary);
        }
        named.map_err(about(&key.0, key.1))
    }

    /// Whether the announced file is still the one in scratch.
    fn is_current(&self, key: &VersionKey, member: &Member) -> bool {
        let Some((offer, digest)) = self.offered.get(key) else {
            return false;
        };
        let there = fs::metadata(&offer.source.path);
        let announced = offer.source.file.get().and_then(fs::File::metadata);
        *digest == member.digest
            && there.is_ok_and(|there| {
                announced.is_ok_and(|file| (file.dev(), file.ino()) == (there.dev(), there.ino()))
            })
    }
}

#[cfg(test)]
#[cfg(not(feature = "model-check"))]
mod tests {
    use super::*;
    use crate::erasure_tests::{alone, nodes, publish};

    /// A file is replaced while it is about to be announced. Catches one that is announced in the round of the file before,
    /// and so parities of files of two moments.
    #[test]
    fn a_file_is_announced_in_its_own_round() {
        let folder = tempfile::tempdir().unwrap();
        let (engine, nodes) = (alone(folder.path(), 0), nodes(2));
        let (shared, node) = (&*engine.shared, &nodes[0]);
        let (peers, offered, said) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let mut worker = Encoder { shared, node, peers, offered, said };
        let key: VersionKey = ("x".into(), 1);
        for byte in [1, 2] {
            publish(&engine, &shared.file_side.naming.lock(), 1, byte);
            node.file_complete("x", 1);
        }
        worker.announce(&key, 0).unwrap();
        assert!(worker.offered.is_empty(), "its announcement in round 1 is still to come");
        worker.announce(&key, 1).unwrap();
        assert!(worker.offered.contains_key(&key));
    }
}
