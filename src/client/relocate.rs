//! Files of processes that were on other hosts when they wrote them: after the loss of a host, the
//! others are often numbered anew. Whoever finds a file of another process in its scratch directory
//! gives it to that process. Collective, and on the application's thread.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::protect::gather;
use super::Client;
use crate::erasure::node::Node;
use crate::erasure::offers::{Offer, Source};
use crate::erasure::stream::Piece;
use crate::erasure::wire::{FileId, LONGEST_READ};
use crate::error::Result;
use crate::format::checksum::Checksum;
use crate::mpi::Comm;
use crate::platform::files::{self, Durability};

/// What a process has not of a version in its own scratch directory.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Lacking {
    data: bool,
    parity: bool,
}

/// A file of another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Found {
    rank: u32,
    piece: Piece,
    len: u64,
    /// For a file-based checkpoint, the path that the application asked to have routed.
    routed: Option<String>,
}

impl Client {
    /// Brings the files of a version to the scratch directories of the processes whose they are.
    /// Whether this process can restore it now, which it could before if `restorable`. Collective.
    ///
    /// # Errors
    /// MPI's.
    pub(super) fn relocate(
        &self,
        comm: &Comm,
        node: &Node,
        name: &str,
        version: i32,
        restorable: bool,
    ) -> Result<bool> {
        let store = &self.engine.files;
        let missing = |path: Result<PathBuf>| path.is_ok_and(|path| !path.exists());
        // What is there and damaged is not missing: another process may see it under the same name.
        let lacking = Lacking {
            data: !restorable && missing(store.scratch_path(name, version)),
            parity: missing(store.parity_path(name, version)),
        };
        let all: Vec<Lacking> = gather(comm, &lacking)?;
        let mut offers = Vec::new();
        let mut found = Vec::new();
        for (rank, lacking) in (0..).zip(&all).filter(|(rank, _)| *rank != node.own()) {
            for (piece, wanted) in [(Piece::Data, lacking.data), (Piece::Parity, lacking.parity)] {
                if wanted {
                    found.extend(self.find_foreign(
                        node,
                        name,
                        version,
                        (rank, piece),
                        &mut offers,
                    ));
                }
            }
        }
        let everywhere: Vec<Vec<Found>> = gather(comm, &found)?;
        let mut fetched = Vec::new();
        for piece in [Piece::Data, Piece::Parity] {
            let own = |found: &&Found| found.rank == node.own() && found.piece == piece;
            let first =
                (0..).zip(&everywhere).find_map(|(at, found)| Some((at, found.iter().find(own)?)));
            let Some((from, file)) = first else { continue };
            match self.fetch_foreign(node, name, version, from, file) {
                Ok(()) => fetched.push((from, piece)),
                Err(error) => log::warn!("{error}"),
            }
        }
        let fetched: Vec<Vec<(u32, Piece)>> = gather(comm, &fetched)?;
        drop(offers);
        for (rank, pieces) in (0..).zip(&fetched) {
            for (_, piece) in pieces.iter().filter(|(from, _)| *from == node.own()) {
                if let Err(error) = store.remove_foreign(name, version, rank, *piece) {
                    log::warn!("{error}");
                }
            }
        }
        Ok(restorable || (self.has(name, version) && self.is_as_encoded(name, version)))
    }

    /// A file of another process, if it is here. It is offered.
    fn find_foreign(
        &self,
        node: &Node,
        name: &str,
        version: i32,
        (rank, piece): (u32, Piece),
        offers: &mut Vec<Offer>,
    ) -> Option<Found> {
        let (path, routed) = self.engine.files.foreign(name, version, rank, piece)?;
        let file = files::open(&path).ok()?;
        let len = files::len(&file, &path).ok()?;
        let source = Source { file, path, start: 0 };
        offers.push(node.offers().offer(id(name, version, rank, piece), source));
        Some(Found { rank, piece, len, routed })
    }

    /// Copies this process's file from another process to scratch.
    fn fetch_foreign(
        &self,
        node: &Node,
        name: &str,
        version: i32,
        from: u32,
        file: &Found,
    ) -> Result<()> {
        let store = &self.engine.files;
        let temporary = store.temporary(&store.scratch_path(name, version)?);
        let copied =
            fetch(node, from, id(name, version, node.own(), file.piece), file.len, &temporary);
        let named = copied.and_then(|()| {
            let _naming = self.engine.naming.lock();
            match file.piece {
                Piece::Data => {
                    store.publish_rebuilt(&temporary, name, version, file.routed.as_deref())
                }
                Piece::Parity => files::atomic_replace(
                    &temporary,
                    &store.parity_path(name, version)?,
                    Durability::Unsynced,
                ),
            }
        });
        if named.is_err() {
            // The first failure is the one to report.
            let _ = files::remove(&temporary);
        }
        named.map_err(|error| error.within(format!("\"{name}\" version {version}")))
    }
}

/// Names a file by whose it is: nobody knows its content yet.
fn id(name: &str, version: i32, rank: u32, piece: Piece) -> FileId {
    let digest = Checksum::of(format!("{piece:?} of number {rank}").as_bytes());
    FileId { name: name.to_owned(), version, digest }
}

fn fetch(node: &Node, from: u32, id: FileId, len: u64, temporary: &Path) -> Result<()> {
    let mut peer = node.call(from)?;
    let file = files::create(temporary)?;
    let mut buffer = vec![0; len.min(u64::from(LONGEST_READ)) as usize];
    let mut done = 0;
    while done < len {
        let bytes = &mut buffer[..(len - done).min(u64::from(LONGEST_READ)) as usize];
        peer.ask(id.clone(), done, bytes.len())?;
        peer.take(bytes)?;
        files::write_all_at(&file, bytes, done, temporary)?;
        done += bytes.len() as u64;
    }
    Ok(())
}
