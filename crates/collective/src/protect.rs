//! Erasure coding between the processes of a job: how they find each other, and what they rebuild
//! together. All of it collective, and on the application's thread.

use std::collections::BTreeMap;

use super::pass::{agree, decode, encode, gather};
use config::Config;
use engine::Engine;
use erasure::encoding::Encoding;
use erasure::layout::Intact;
use erasure::membership::{self, ErasureSettings, ProcessInfo};
use erasure::node::{Node, PreparedNode};
use erasure::parity::{self, ParityFile, ParityHeader};
use erasure::remote_pieces::RemotePieces;
use erasure::served::{FileToServe, ServedFile};
use erasure::stream;
use erasure::survey::{Inventory, Rebuild, Survey};
use erasure::wire::FileId;
use errors::{Error, ErrorKind, Result};
use format::checksum::Checksum;
use mpi::Comm;
use os::files::{self, Durability};

/// Finds this process's place in the erasure coding, if any process is configured for it, and
/// answers the other processes from here on. Collective.
pub(super) fn join(config: &Config, comm: &Comm) -> Result<Option<Node>> {
    let prepared = prepare(config);
    // A process that could not prepare passes its error; one that need not prepare passes nothing.
    let info = match &prepared {
        Ok(prepared) => Ok(prepared.as_ref().map(|prepared| &prepared.info)),
        Err(error) => Err(error.to_string()),
    };
    let nothing = matches!(info, Ok(None));
    let infos = comm.allgather(&if nothing { Vec::new() } else { encode(&info)? })?;
    if infos.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    let prepared = prepared?;
    let mut all = Vec::new();
    for (rank, bytes) in infos.iter().enumerate() {
        let info: std::result::Result<Option<ProcessInfo>, String> =
            if bytes.is_empty() { Ok(None) } else { decode(bytes)? };
        let failed = |error| Error::new(ErrorKind::System, format!("rank {rank}: {error}"));
        all.push(info.map_err(failed)?);
    }
    let own = comm.rank()?;
    let (place, warning) = membership::membership_of(&all, own)?;
    if let Some(warning) = warning.filter(|_| own == 0) {
        log::warn!("{warning}");
    }
    match (prepared, place) {
        (Some(prepared), Some(place)) => {
            Node::start(prepared, own, all.into_iter().flatten().collect(), place).map(Some)
        }
        _ => Ok(None),
    }
}

fn prepare(config: &Config) -> Result<Option<PreparedNode>> {
    let Some(interval) = config.ec_interval.filter(|_| config.protects_scratch()) else {
        return Ok(None);
    };
    let settings = ErasureSettings {
        interval,
        group: config.ec_group as u32,
        parities: config.ec_parity as u32,
    };
    PreparedNode::new(settings, config.failure_domain.as_deref()).map(Some)
}

/// What the processes of a job with erasure coding do to have what some of them have lost.
#[derive(Clone, Copy, Debug)]
pub struct Rebuilding<'a> {
    pub(super) comm: &'a Comm,
    pub(super) node: &'a Node,
    pub(super) engine: &'a Engine,
}

impl<'a> Rebuilding<'a> {
    /// `None`: nothing can be rebuilt, which is the same on all processes.
    pub(super) fn of(comm: Option<&'a Comm>, engine: &'a Engine) -> Option<Rebuilding<'a>> {
        Some(Rebuilding { comm: comm?, node: engine.file_side().erasure()?, engine })
    }

    /// Whether this process has a copy of a version that it can restore.
    pub(super) fn has(&self, name: &str, version: i32) -> bool {
        self.engine.restores().can_restore(name, version).is_ok()
    }

    /// Whether this job has taken or restored a version here.
    pub(super) fn is_known(&self, name: &str, version: i32) -> bool {
        self.engine.checkpoints().known(name, version).is_some()
    }

    /// Whether all processes have parities of a version, each the same as the others of its group,
    /// or none has: a job that rebuilt the version may have ended before it had made them again,
    /// and a directory that was away may have old ones.
    pub(super) fn parities_are_alike(&self, name: &str, version: i32) -> Result<bool> {
        let own = self.own_header(name, version).map(|header| header.encoding);
        let id = own.as_ref().map(Encoding::id);
        let all: Vec<Option<Checksum>> = gather(self.comm, &id)?;
        let of_rank = |rank: u32| all.get(rank as usize).copied().flatten();
        let alike = own.is_none_or(|own| own.ranks().into_iter().all(|rank| of_rank(rank) == id));
        let there = all.iter().filter(|id| id.is_some()).count();
        agree(self.comm, alike && (there == 0 || there == all.len()))
    }

    /// Rebuilds a version in scratch on every process that says by `restorable` that it has no good
    /// file, and the versions that it is a delta of. Returns why that is not possible, if it is not. Collective.
    ///
    /// # Errors
    /// MPI's.
    pub(super) fn rebuild(
        &self,
        name: &str,
        version: i32,
        restorable: bool,
    ) -> Result<Option<Error>> {
        let mut failed = self.rebuild_file(name, version, restorable)?;
        let mut below = i64::from(version);
        while failed.is_none() {
            // The highest of those that the processes lack.
            let lacks =
                self.engine.files().copies().missing_base(name, version).map_or(-1, i64::from);
            let missing = -self.comm.allreduce_min_i64(-lacks)?;
            if missing < 0 {
                break;
            }
            if missing >= below {
                let what = format!(
                    "version {missing}, of which it is a delta, is not the one that it was"
                );
                return Ok(Some(Error::new(ErrorKind::NotFound, what)));
            }
            let base = missing as i32;
            let about = |why: Error| why.within(format!("version {base}, of which it is a delta"));
            failed = self.rebuild_file(name, base, lacks != missing)?.map(about);
            below = missing;
        }
        Ok(failed)
    }

    fn rebuild_file(&self, name: &str, version: i32, restorable: bool) -> Result<Option<Error>> {
        let Rebuilding { comm, node, .. } = *self;
        let relocated = self.relocate(name, version, restorable)?;
        let restorable = relocated.restorable;
        let standing = Inventory {
            restorable,
            // A version that was only found is judged, also if it is open by now.
            known: self.engine.checkpoints().has_taken(name, version),
            parity: self.own_header(name, version),
        };
        let standings = gather(comm, &standing)?;
        let because = |error: Error| match &relocated.disputed {
            Some(disputed) => error.followed_by(disputed),
            None => error,
        };
        let survey = match Survey::new(standings) {
            Ok(survey) => survey,
            Err(error) => return Ok(Some(because(error))),
        };
        let mut offers = Vec::new();
        let own = self.verify(&survey, restorable, &mut offers);
        let verified: Vec<Vec<Intact>> = gather(comm, &own)?;
        let plan = match survey.plan(&verified) {
            Ok(plan) => plan,
            Err(error) => return Ok(Some(because(error))),
        };
        let rebuilt = match plan.get(&node.own()) {
            Some(rebuild) => self.rebuild_own(rebuild),
            None => Ok(()),
        };
        let all = agree(comm, rebuilt.is_ok())?;
        drop(offers);
        if let Err(error) = rebuilt {
            return Ok(Some(error));
        }
        if !all {
            let what = "another process could not rebuild its file";
            return Ok(Some(Error::new(ErrorKind::NotFound, what)));
        }
        // The parities are made again, so that a second loss can be rebuilt.
        let without = survey.without_parities();
        if node.members().iter().any(|rank| plan.contains_key(rank) || without.contains(rank)) {
            node.protect_again(name, version);
        }
        Ok(None)
    }

    /// The header of this process's parity file of a version, if it has one.
    pub(super) fn own_header(&self, name: &str, version: i32) -> Option<ParityHeader> {
        let path = self.engine.files().places().parity_path(name, version).ok()?;
        let found = match ParityFile::read(&path) {
            Ok(found) => found.header,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    log::warn!("{error}");
                }
                return None;
            }
        };
        let encoding = &found.encoding;
        let ours = encoding.name == name
            && encoding.version == version
            && encoding.index_of(self.node.own()) == Some(found.own as usize);
        ours.then_some(found)
    }

    /// Which of this process's files are whole, for each chosen encoding. Whole files are offered
    /// to the processes that need them.
    fn verify(
        &self,
        survey: &Survey,
        restorable: bool,
        offers: &mut Vec<ServedFile>,
    ) -> Vec<Intact> {
        let node = self.node;
        let one = |encoding: &Encoding| {
            let Some(place) = encoding.index_of(node.own()) else {
                return Intact::default();
            };
            let member = &encoding.members[place];
            let id =
                |digest| FileId { name: encoding.name.clone(), version: encoding.version, digest };
            let files = self.engine.files();
            let mut whole = Intact::default();
            let scratch = files.places().scratch_path(&encoding.name, encoding.version).ok();
            let persistent = files.places().persistent_path(&encoding.name, encoding.version);
            for path in scratch.into_iter().chain(persistent).filter(|_| restorable) {
                let Ok(file) = files::open(&path) else { continue };
                match parity::digest(&file, &path) {
                    Ok(found) if found == (member.len, member.digest) => {
                        whole.data = true;
                        let source = FileToServe { file: file.into(), path, start: 0 };
                        offers.push(node.served().serve(id(member.digest), source));
                        break;
                    }
                    Ok(_) => log::warn!(
                        "{}: the file has changed since its parities were made",
                        path.display()
                    ),
                    Err(error) => log::warn!("{error}"),
                }
            }
            if survey.keeps(node.own(), encoding) {
                let path = files.places().parity_path(&encoding.name, encoding.version);
                let found = path.and_then(|path| ParityFile::read(&path));
                match found.and_then(|found| found.verify().map(|()| found)) {
                    Ok(found) => {
                        whole.parity = true;
                        let (file, path, start) = (found.file, found.path, found.start);
                        let source = FileToServe { file: file.into(), path, start };
                        offers.push(node.served().serve(id(found.header.payload), source));
                    }
                    Err(error) => log::warn!("{error}"),
                }
            }
            whole
        };
        survey.chosen().iter().map(one).collect()
    }

    /// Rebuilds this process's file in scratch.
    fn rebuild_own(&self, rebuild: &Rebuild) -> Result<()> {
        let node = self.node;
        let encoding = &rebuild.encoding;
        let (name, version) = (encoding.name.as_str(), encoding.version);
        let mut peers = BTreeMap::new();
        for (member, whole) in encoding.members.iter().zip(&rebuild.whole) {
            if member.rank != node.own() && (whole.data || whole.parity) {
                peers.insert(member.rank, node.call(member.rank)?);
            }
        }
        let parities = rebuild.parities.clone();
        let mut pieces =
            RemotePieces::new(encoding, parities, &mut peers, node.own(), node.served());
        let store = self.engine.files();
        let temporary = store.places().temporary(&store.places().scratch_path(name, version)?);
        let written = files::create(&temporary).and_then(|file| {
            let mut at = 0;
            stream::rebuild(encoding, rebuild.own, &rebuild.whole, &mut pieces, |bytes| {
                files::write_all_at(&file, bytes, at, &temporary)?;
                at += bytes.len() as u64;
                Ok(())
            })?;
            // Once the file has its name, its bytes may be synced, too.
            files::finish_write(&file, &temporary, Durability::Unsynced)
        });
        let named = written.and_then(|()| {
            let naming = self.engine.file_side().lock_names();
            let own = &encoding.members[rebuild.own];
            let by = (own.identity, own.routed.as_deref());
            store.scratch().publish_rebuilt(&naming, &temporary, name, version, by)?;
            // Memory may still have bytes of an old file.
            self.engine.checkpoints().forget_found(name, version);
            Ok(())
        });
        match &named {
            Ok(()) => log::warn!(
                "the scratch file of checkpoint \"{name}\" version {version} was lost or damaged; it was rebuilt \
                 from those of ranks {:?}",
                peers.keys().collect::<Vec<_>>()
            ),
            // The failure of the rebuilding is the one to report.
            Err(_) => drop(files::remove(&temporary)),
        }
        named
    }
}
