//! Files of processes that were on other hosts when they wrote them: after the loss of a host, the
//! processes on the others often get new ranks. A process that finds another rank's file in its
//! scratch directory gives it to that rank. Collective, and on the application's thread.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::pass::gather;
use super::protect::Rebuilding;
use erasure::digest_votes::{undisputed, DigestVotes, FileIdentity, FileVerdict};
use erasure::encoding::Encoding;
use erasure::node::Node;
use erasure::parity::{self, ParityFile};
use erasure::served::{FileToServe, ServedFile};
use erasure::stream::Piece;
use erasure::wire::{FileId, LONGEST_READ};
use errors::{Error, ErrorKind, Result};
use format::checksum::{Checksum, ChecksumHasher};
use format::identity::Identity;
use os::files::{self, Durability};
use os::network;

/// What a process has and knows of a version in its own scratch directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct OwnVersion {
    lacks_data: bool,
    lacks_parity: bool,
    /// The encoding of its parity file.
    encoding: Option<Encoding>,
    /// The process's host and scratch directory, for messages.
    place: String,
    /// The scratch directory, told from others: processes that share it have the same. Names of
    /// hosts and paths are not enough: containers may have the same.
    directory: Option<Directory>,
}

/// Tells a directory from others: the running system, the file system and the inode.
type Directory = (String, u64, u64);

/// A file of another process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FoundPieces {
    rank: u32,
    piece: Piece,
    /// For a file-based checkpoint, the path that the application asked to have routed.
    routed: Option<String>,
    content: FileIdentity,
    /// The run that made it.
    identity: Identity,
    /// For a parity file, its encoding.
    encoding: Option<Encoding>,
}

/// What a process has found of other processes in its scratch directory.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct SeenFiles {
    found: Vec<FoundPieces>,
    /// The encodings of the parity files that were found.
    said: Vec<Encoding>,
}

impl OwnVersion {
    fn shares_with(&self, other: &OwnVersion) -> bool {
        self.directory.is_some() && self.directory == other.directory
    }
}

/// The outcome of a relocation.
#[derive(Debug)]
pub(super) struct Relocated {
    /// This process can restore the version.
    pub restorable: bool,
    /// Why none of the files that were found was taken.
    pub disputed: Option<Error>,
}

impl Rebuilding<'_> {
    /// Brings the files of a version to the scratch directories of the processes that they belong
    /// to. A file that contradicts the kept checksum, or most parity files, is an old one and is
    /// passed over. Of files that differ, none is taken if nobody can tell the right one.
    /// `restorable`: this process could restore the version before. Collective.
    ///
    /// # Errors
    /// MPI's.
    pub(super) fn relocate(&self, name: &str, version: i32, restorable: bool) -> Result<Relocated> {
        let Rebuilding { comm, node, .. } = *self;
        let store = self.engine.files();
        let missing = |path: Result<PathBuf>| path.is_ok_and(|path| !path.exists());
        let scratch = store.places().scratch().unwrap_or(Path::new(""));
        // A damaged file is not missing: another process may see it under the same name.
        let own = OwnVersion {
            lacks_data: !restorable && missing(store.places().scratch_path(name, version)),
            lacks_parity: missing(store.places().parity_path(name, version)),
            encoding: self.own_header(name, version).map(|header| header.encoding),
            place: format!("{}:{}", network::host_name(), scratch.display()),
            directory: directory(scratch),
        };
        let all: Vec<OwnVersion> = gather(comm, &own)?;
        let mut seen = SeenFiles::default();
        let mut offers = Vec::new();
        // Of processes that share a directory, the first one looks.
        let first = all.iter().position(|other| other.shares_with(&own));
        if first.is_none_or(|first| first == node.own() as usize) {
            self.look_around((name, version), &all, &mut seen, &mut offers);
        }
        let everywhere: Vec<SeenFiles> = gather(comm, &seen)?;
        let mut said = DigestVotes::default();
        all.iter().filter_map(|own| own.encoding.as_ref()).for_each(|of| said.add(of, true));
        everywhere.iter().flat_map(|seen| &seen.said).for_each(|of| said.add(of, false));
        let (mut fetched, mut disputed) = (Vec::new(), None);
        for piece in [Piece::Data, Piece::Parity] {
            match self.choose((name, version), piece, &all, &everywhere, &said) {
                Ok(None) => {}
                Ok(Some((from, file))) => match self.fetch_foreign(name, version, from, file) {
                    Ok(()) => fetched.push((piece, file.content)),
                    Err(error) => log::warn!("{error}"),
                },
                Err(error) => {
                    log::warn!("{error}");
                    // Parities can be made again.
                    disputed = disputed.or(Some(error).filter(|_| piece == Piece::Data));
                }
            }
        }
        let fetched: Vec<Vec<(Piece, FileIdentity)>> = gather(comm, &fetched)?;
        drop(offers);
        // All copies of files that have arrived are removed: they would be old ones some day.
        let is_home = |found: &&FoundPieces| {
            let of_rank = fetched.get(found.rank as usize);
            of_rank.is_some_and(|of_rank| of_rank.contains(&(found.piece, found.content)))
        };
        for found in seen.found.iter().filter(is_home) {
            if let Err(error) =
                store.removal().remove_foreign(name, version, found.rank, found.piece)
            {
                log::warn!("{error}");
            }
        }
        let restorable =
            restorable || (self.has(name, version) && self.is_as_encoded(name, version));
        Ok(Relocated { restorable, disputed })
    }

    /// Looks in scratch for files of other processes, and offers those that their processes lack.
    fn look_around(
        &self,
        (name, version): (&str, i32),
        all: &[OwnVersion],
        seen: &mut SeenFiles,
        offers: &mut Vec<ServedFile>,
    ) {
        let parities =
            self.engine.files().listing().foreign_parities(name, version).unwrap_or_else(|error| {
                log::warn!("{error}");
                Vec::new()
            });
        let own_rank = self.node.own();
        let own = &all[own_rank as usize];
        for (rank, path) in parities {
            // In a directory that processes share, the file is where it belongs.
            if all.get(rank as usize).is_some_and(|keeper| keeper.shares_with(own)) {
                continue;
            }
            let header = ParityFile::read(&path).map(|file| file.header);
            let header = header.ok().filter(|header| {
                let of = &header.encoding;
                of.name == name
                    && of.version == version
                    && of.index_of(rank) == Some(header.own as usize)
            });
            seen.said.extend(header.map(|header| header.encoding));
        }
        for (rank, lacking) in (0..).zip(all).filter(|(rank, _)| *rank != own_rank) {
            for (piece, wanted) in
                [(Piece::Data, lacking.lacks_data), (Piece::Parity, lacking.lacks_parity)]
            {
                if wanted {
                    let found = self.find_foreign((name, version), (rank, piece), offers);
                    seen.found.extend(found);
                }
            }
        }
    }

    /// Finds a file of another process in scratch, if it is there, and offers it.
    fn find_foreign(
        &self,
        (name, version): (&str, i32),
        (rank, piece): (u32, Piece),
        offers: &mut Vec<ServedFile>,
    ) -> Option<FoundPieces> {
        let (path, routed) = self.engine.files().listing().foreign(name, version, rank, piece)?;
        let encoding = match piece {
            Piece::Data => None,
            Piece::Parity => Some(ParityFile::read(&path).ok()?.header.encoding),
        };
        if piece == Piece::Data && routed.is_none() {
            if let Err(error) = self.engine.files().check_foreign(&path, name, version, rank) {
                self.engine.files().warnings().once(format!("{error}; it is not taken"));
                return None;
            }
        }
        let file = files::open(&path).ok()?;
        let (len, digest) = parity::digest(&file, &path).ok()?;
        let identity = self.engine.files().runs().identity_of(&file, &path);
        let source = FileToServe { file: file.into(), path, start: 0 };
        offers.push(self.node.served().serve(id(name, version, rank, piece), source));
        Some(FoundPieces {
            rank,
            piece,
            routed,
            content: FileIdentity { len, digest },
            identity,
            encoding,
        })
    }

    /// Chooses among this process's files that others have found: the finder's rank, and the file.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the files differ and nobody can tell which is the right one.
    fn choose<'a>(
        &self,
        (name, version): (&str, i32),
        piece: Piece,
        all: &[OwnVersion],
        everywhere: &'a [SeenFiles],
        said: &DigestVotes,
    ) -> Result<Option<(u32, &'a FoundPieces)>> {
        let own = self.node.own();
        let kept = match piece {
            Piece::Data => self.engine.files().copies().kept_checksum(name, version),
            Piece::Parity => Ok(None),
        };
        let kept = kept.unwrap_or_else(|error| {
            log::warn!("{error}");
            None
        });
        let is_old = |found: &FoundPieces| match (&found.encoding, kept) {
            (Some(encoding), _) => !said.admits(encoding),
            (None, Some(kept)) => found.content.digest != kept,
            (None, None) => said.verdict(own, found.content) == FileVerdict::Wrong,
        };
        let place = |from: u32| &all[from as usize].place;
        let mine = |found: &&FoundPieces| found.rank == own && found.piece == piece;
        let found = (0..).zip(everywhere);
        let (old, candidates): (Vec<_>, Vec<_>) = found
            .flat_map(|(from, seen)| seen.found.iter().filter(mine).map(move |f| (from, f)))
            .partition(|(_, found)| is_old(found));
        let what = match piece {
            Piece::Data => "file",
            Piece::Parity => "parity file",
        };
        for (from, _) in old {
            log::warn!(
                "the {what} of checkpoint \"{name}\" version {version} of rank {own} in {} is an old one: it is not \
                 taken",
                place(from)
            );
        }
        match undisputed(&candidates, |(_, one), (_, other)| one.content == other.content) {
            Ok(chosen) => Ok(chosen.copied()),
            Err(((one, first), (other, second))) => Err(Error::new(
                ErrorKind::Corrupt,
                format!(
                    "there are two {what}s of checkpoint \"{name}\" version {version} of rank {own}, and the library \
                     cannot tell which is right: in {} (SHA-256 {}) and in {} (SHA-256 {})",
                    place(*one),
                    first.content.digest,
                    place(*other),
                    second.content.digest
                ),
            )),
        }
    }

    /// Copies this process's file from another process to scratch.
    fn fetch_foreign(&self, name: &str, version: i32, from: u32, file: &FoundPieces) -> Result<()> {
        let store = self.engine.files();
        let temporary = store.places().temporary(&store.places().scratch_path(name, version)?);
        let id = id(name, version, self.node.own(), file.piece);
        let copied = fetch(self.node, from, id, file.content, &temporary);
        let named = copied.and_then(|()| {
            let naming = self.engine.file_side().lock_names();
            match file.piece {
                Piece::Data => {
                    let by = (file.identity, file.routed.as_deref());
                    store.scratch().publish_rebuilt(&naming, &temporary, name, version, by)
                }
                Piece::Parity => files::atomic_replace(
                    &temporary,
                    &store.places().parity_path(name, version)?,
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

fn directory(path: &Path) -> Option<Directory> {
    let system = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let found = std::fs::metadata(path).ok()?;
    Some((system, found.dev(), found.ino()))
}

/// Names a file by the rank that it belongs to: nobody knows its content yet.
fn id(name: &str, version: i32, rank: u32, piece: Piece) -> FileId {
    let digest = Checksum::of(format!("{piece:?} of number {rank}").as_bytes());
    FileId { name: name.to_owned(), version, digest }
}

fn fetch(
    node: &Node,
    from: u32,
    id: FileId,
    FileIdentity { len, digest }: FileIdentity,
    temporary: &Path,
) -> Result<()> {
    let mut peer = node.call(from)?;
    let file = files::create(temporary)?;
    let mut buffer = vec![0; len.min(u64::from(LONGEST_READ)) as usize];
    let (mut done, mut hasher) = (0, ChecksumHasher::default());
    while done < len {
        let bytes = &mut buffer[..(len - done).min(u64::from(LONGEST_READ)) as usize];
        peer.request(id.clone(), done, bytes.len())?;
        peer.receive_into(bytes)?;
        hasher.update(bytes);
        files::write_all_at(&file, bytes, done, temporary)?;
        done += bytes.len() as u64;
    }
    if hasher.finish() == digest {
        // Once the file has its name, its bytes may be synced, too.
        return files::finish_write(&file, temporary, Durability::Unsynced);
    }
    Err(Error::new(
        ErrorKind::Corrupt,
        format!("rank {from} has sent other bytes than it has found"),
    ))
}
